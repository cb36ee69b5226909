/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of object_cases.c about memory regions. */
#include "object_cases.h"

#include <errno.h>
#include <string.h>

#define ALL  (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define HALF (BUF_LEN / 2)

static bool put(struct rdma_cm_id *id, uint64_t to, uint32_t rkey, enum ibv_wr_opcode op)
{
	struct ibv_sge sge = { (uintptr_t)cli.buf, 64, cli.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	wr.wr.rdma.remote_addr = to;
	wr.wr.rdma.rkey = rkey;
	return ibv_post_send(id->qp, &wr, &bad) == 0;
}

/* Posts a Read and returns whether the target allows it, as the Read's completion tells. */
static bool may_read(struct joined *j, uint64_t at, uint32_t rkey)
{
	struct ibv_wc wc;

	CHECK(put(j->cid, at, rkey, IBV_WR_RDMA_READ) && poll_n(&cli, &wc, 1));
	return wc.status == IBV_WC_SUCCESS;
}

/* The Read is refused, and that ends the connection. */
static bool refused(uint16_t port, uint64_t at, uint32_t rkey)
{
	struct joined j;

	CHECK(join(&j, port) && !may_read(&j, at, rkey));
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	CHECK(drop(j.cid) && drop(j.sid) && rdma_destroy_id(j.lid) == 0);
	async_sweep(srv.verbs);
	async_sweep(cli.verbs);
	return true;
}

bool a_region_moves_to_other_memory(void)
{
	struct ibv_mr *mr = ibv_reg_mr(srv.pd, srv.buf, 4096, ALL);
	struct joined j;

	CHECK(mr != NULL && join(&j, 8210));
	uint32_t before = mr->rkey;
	memset(srv.buf, 0x11, HALF);
	memset(srv.buf + HALF, 0x22, HALF);
	CHECK(may_read(&j, (uintptr_t)srv.buf, before) && cli.buf[0] == 0x11);
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, srv.buf + HALF, 8192, 0) == 0);
	CHECK(mr->addr == srv.buf + HALF && mr->length == 8192 && mr->pd == srv.pd && mr->rkey == before);
	CHECK(may_read(&j, (uintptr_t)srv.buf + HALF + 8192 - 64, mr->rkey) && cli.buf[63] == 0x22);
	CHECK(part(&j) && refused(8210, (uintptr_t)srv.buf, mr->rkey));
	return ibv_dereg_mr(mr) == 0 && refused(8210, (uintptr_t)srv.buf + HALF, before);
}

bool a_region_changes_its_rights(void)
{
	struct ibv_mr *mr = ibv_reg_mr(srv.pd, srv.buf, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct joined j;

	CHECK(mr != NULL && refused(8211, (uintptr_t)srv.buf, mr->rkey));
	uint32_t before = mr->rkey;
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_READ) == 0);
	CHECK(mr->addr == srv.buf && mr->length == 4096);
	CHECK(join(&j, 8211) && may_read(&j, (uintptr_t)srv.buf, mr->rkey) && part(&j));
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE) == 0);
	CHECK(mr->rkey == before);
	return refused(8211, (uintptr_t)srv.buf, before) && ibv_dereg_mr(mr) == 0;
}

bool a_region_changes_its_domain(void)
{
	struct ibv_mr *mr = ibv_reg_mr(srv.pd, srv.buf, 4096, ALL);
	struct ibv_pd *other = ibv_alloc_pd(srv.verbs);
	struct joined j;

	CHECK(mr != NULL && other != NULL);
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0) == 0 && mr->pd == other);
	CHECK(ibv_dealloc_pd(other) == EBUSY && refused(8212, (uintptr_t)srv.buf, mr->rkey));
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS,
			   srv.pd, srv.buf + 4096, 4096, IBV_ACCESS_REMOTE_READ) == 0);
	CHECK(ibv_dealloc_pd(other) == 0);
	CHECK(join(&j, 8212) && may_read(&j, (uintptr_t)srv.buf + 4096, mr->rkey) && part(&j));
	return ibv_dereg_mr(mr) == 0;
}

bool a_change_that_cannot_be_leaves_the_region_as_it_is(void)
{
	struct ibv_mr *mr = ibv_reg_mr(srv.pd, srv.buf, 4096, ALL);
	struct ibv_mr before;
	struct joined j;
	const struct {
		int flags;
		struct ibv_pd *pd;
		void *addr;
		size_t len;
		int access, rc;
	} t[] = {
		{ 0, NULL, NULL, 0, 0, IBV_REREG_MR_ERR_INPUT },
		{ 8, NULL, NULL, 0, 0, IBV_REREG_MR_ERR_INPUT },
		{ IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 4096, 0, IBV_REREG_MR_ERR_INPUT },
		{ IBV_REREG_MR_CHANGE_TRANSLATION, NULL, srv.buf, 0, 0, IBV_REREG_MR_ERR_INPUT },
		{ IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0, IBV_REREG_MR_ERR_INPUT },
		{ IBV_REREG_MR_CHANGE_PD, cli.pd, NULL, 0, 0, IBV_REREG_MR_ERR_INPUT }, /* the PD of another device */
		{ IBV_REREG_MR_CHANGE_PD, srv.pd, NULL, 0, IBV_ACCESS_LOCAL_WRITE, IBV_REREG_MR_ERR_INPUT },
		{ IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE, IBV_REREG_MR_ERR_INPUT },
		{ IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)8192, 4096, 0,
		  IBV_REREG_MR_ERR_CMD }, /* no memory is mapped there */
	};

	CHECK(mr != NULL);
	before = *mr;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		CHECK(ibv_rereg_mr(mr, t[i].flags, t[i].pd, t[i].addr, t[i].len, t[i].access) == t[i].rc);
		CHECK(mr->addr == before.addr && mr->length == 4096 && mr->rkey == before.rkey && mr->pd == before.pd);
	}
	CHECK(join(&j, 8213) && may_read(&j, (uintptr_t)srv.buf, mr->rkey) && part(&j));
	return ibv_dereg_mr(mr) == 0;
}

bool a_null_region_gives_zeros_and_takes_anything(void)
{
	struct ibv_mr *from = ibv_alloc_null_mr(cli.pd), *to = ibv_alloc_null_mr(srv.pd);
	struct ibv_wc wc[2];
	struct joined j;

	CHECK(from != NULL && to != NULL && join(&j, 8214));
	/* any address reads as zeros. i 0: address 0; i 1: an address near the end of the range */
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_sge in = { (uintptr_t)srv.buf, BUF_LEN, srv.mr->lkey };
		struct ibv_recv_wr r = { .sg_list = &in, .num_sge = 1 }, *bad_recv;
		struct ibv_sge out = { i == 0 ? 0 : UINT64_MAX - 50000, 40000, from->lkey };
		struct ibv_send_wr w = { .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
		memset(srv.buf, 0xff, BUF_LEN);
		CHECK(ibv_post_recv(j.sid->qp, &r, &bad_recv) == 0 && ibv_post_send(j.cid->qp, &w, &bad) == 0);
		CHECK(poll_n(&srv, wc, 1) && wc[0].status == IBV_WC_SUCCESS && wc[0].byte_len == 40000 &&
		      poll_n(&cli, wc, 1));
		for (unsigned k = 0; k < 40000; k++)
			CHECK(srv.buf[k] == 0);
		CHECK(srv.buf[40000] == 0xff);
	}
	struct ibv_sge sink = { 4096, BUF_LEN, to->lkey };
	struct ibv_recv_wr r = { .wr_id = 5, .sg_list = &sink, .num_sge = 1 }, *bad;
	memset(cli.buf, 0x5a, 30000);
	CHECK(ibv_post_recv(j.sid->qp, &r, &bad) == 0 && post_send(&cli, j.cid, 1, 30000));
	CHECK(poll_n(&srv, wc, 1) && wc[0].status == IBV_WC_SUCCESS && wc[0].byte_len == 30000 && poll_n(&cli, wc, 1));
	memset(srv.buf, 0xff, 64); /* the region still reads as zeros */
	struct ibv_sge zeros = { 77, 64, to->lkey };
	struct ibv_send_wr back = { .sg_list = &zeros, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad_send;
	CHECK(post_recv(&cli, j.cid, 1, 64) && ibv_post_send(j.sid->qp, &back, &bad_send) == 0);
	CHECK(poll_n(&cli, wc, 1) && poll_n(&srv, wc + 1, 1) && cli.buf[0] == 0 && cli.buf[63] == 0);
	CHECK(part(&j) && refused(8214, 0, to->rkey));
	return ibv_dereg_mr(from) == 0 && ibv_dereg_mr(to) == 0;
}

bool a_region_may_begin_anywhere(void)
{
	struct ibv_mr *zero = ibv_reg_mr(srv.pd, srv.buf, 4096, ALL | IBV_ACCESS_ZERO_BASED);
	struct ibv_mr *high = ibv_reg_mr_iova(srv.pd, srv.buf + 4096, 4096, UINT64_MAX - 4096, ALL);
	struct joined j;

	CHECK(zero != NULL && high != NULL && join(&j, 8215));
	memset(srv.buf, 1, 4096);
	memset(srv.buf + 4096, 2, 4096);
	CHECK(may_read(&j, 0, zero->rkey) && cli.buf[0] == 1 && may_read(&j, 4096 - 64, zero->rkey));
	CHECK(may_read(&j, UINT64_MAX - 4096, high->rkey) && cli.buf[0] == 2 && part(&j));
	CHECK(refused(8215, (uintptr_t)srv.buf, zero->rkey) && refused(8215, 4096 - 63, zero->rkey));
	CHECK(ibv_reg_mr_iova(srv.pd, srv.buf, 4096, UINT64_MAX - 100, ALL) == NULL && errno == EINVAL);
	return ibv_dereg_mr(zero) == 0 && ibv_dereg_mr(high) == 0;
}

bool rights_that_cannot_be_are_refused(void)
{
	struct ibv_mr *mr;

	CHECK(ibv_reg_mr(srv.pd, srv.buf, 64, IBV_ACCESS_REMOTE_WRITE) == NULL && errno == EINVAL);
	CHECK(ibv_reg_mr(srv.pd, srv.buf, 64, IBV_ACCESS_REMOTE_ATOMIC) == NULL && errno == EINVAL);
	CHECK(ibv_reg_mr(srv.pd, srv.buf, 64, ALL | IBV_ACCESS_ON_DEMAND) == NULL && errno == EOPNOTSUPP);
	CHECK(ibv_reg_mr(srv.pd, srv.buf, 64, ALL | 1 << 19) == NULL && errno == EINVAL);
	CHECK(ibv_reg_mr(srv.pd, srv.buf, 0, ALL) == NULL && errno == EINVAL);
	CHECK((mr = ibv_reg_mr(srv.pd, srv.buf, 64, ALL | IBV_ACCESS_RELAXED_ORDERING)) != NULL);
	return ibv_dereg_mr(mr) == 0;
}
