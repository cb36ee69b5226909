/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of verbs_cases.c in which something goes wrong, and which side is told of it. */
#include "cm_rig.h"
#include "verbs_cases.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

static bool both_hear_the_end(struct joined *j)
{
	struct got g;

	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, &g));
	CHECK(want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, &g));
	return drop(j->cid) && drop(j->sid) && rdma_destroy_id(j->lid) == 0;
}

bool remote_faults_are_told_to_both(void)
{
	static const struct {
		int access;
		enum ibv_wr_opcode op;
		uint64_t past;
		uint32_t key;
	} t[] = {
		{ IBV_ACCESS_LOCAL_WRITE, IBV_WR_RDMA_WRITE, 0, 0 },
		{ IBV_ACCESS_LOCAL_WRITE, IBV_WR_RDMA_READ, 0, 0 },
		{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE, 4096, 0 },
		{ IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_READ, 4096, 0 },
		{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE, 0, 1 },
		{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE, UINT64_MAX - 16, 0 },
	};

	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct ibv_mr *mr = ibv_reg_mr(srv.pd, srv.buf, 4096, t[i].access);
		struct ibv_async_event ev;
		struct joined j;
		struct ibv_wc wc;
		CHECK(mr != NULL && join(&j, 8130));
		struct to to = { t[i].op, (uintptr_t)srv.buf + t[i].past, mr->rkey ^ t[i].key, 0 };
		CHECK(post_to(j.cid, &to, 1, cli.buf, 64));
		CHECK(poll_n(&cli, &wc, 1) && wc.wr_id == 1 && wc.qp_num == j.cid->qp->qp_num);
		/* The TCP segment that acknowledges the Write's bytes also carries the Terminate. */
		CHECK(wc.status == IBV_WC_REM_ACCESS_ERR);
		CHECK(async(cli.verbs, IBV_EVENT_QP_ACCESS_ERR, &ev) && ev.element.qp == j.cid->qp);
		CHECK(async(srv.verbs, IBV_EVENT_QP_ACCESS_ERR, &ev) && ev.element.qp == j.sid->qp);
		CHECK(both_hear_the_end(&j) && ibv_dereg_mr(mr) == 0);
		async_sweep(srv.verbs);
		async_sweep(cli.verbs);
	}
	return true;
}

bool local_faults_are_told_at_home(void)
{
	struct ibv_mr *mr = ibv_reg_mr(cli.pd, cli.buf, 4096, 0); /* local read access only */
	struct ibv_pd *other = ibv_alloc_pd(cli.verbs);
	struct ibv_mr *theirs = other != NULL ? ibv_reg_mr(other, cli.buf, 4096, IBV_ACCESS_LOCAL_WRITE) : NULL;

	CHECK(mr != NULL && theirs != NULL);
	struct ibv_sge t[] = {
		{ (uintptr_t)cli.buf, 64, mr->lkey ^ 1 },    /* a key that does not exist */
		{ (uintptr_t)cli.buf + 4090, 64, mr->lkey }, /* beyond the region's end */
		{ (uintptr_t)cli.buf, 64, theirs->lkey },    /* a region of another domain */
	};
	for (unsigned i = 0; i < 4; i++) {
		struct joined j;
		struct ibv_wc wc;
		struct ibv_sge sge = t[i % 3];
		struct ibv_send_wr wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
		if (i == 3) { /* the sink of a Read must be writable */
			sge = (struct ibv_sge){ (uintptr_t)cli.buf, 64, mr->lkey };
			wr.opcode = IBV_WR_RDMA_READ;
			wr.wr.rdma.remote_addr = (uintptr_t)srv.buf;
			wr.wr.rdma.rkey = srv.mr->rkey;
		}
		CHECK(join(&j, 8131));
		CHECK(ibv_post_send(j.cid->qp, &wr, &bad) == 0);
		CHECK(poll_n(&cli, &wc, 1) && wc.status == IBV_WC_LOC_PROT_ERR && wc.wr_id == 7);
		CHECK(both_hear_the_end(&j));
		async_sweep(srv.verbs);
		async_sweep(cli.verbs);
	}
	return ibv_dereg_mr(theirs) == 0 && ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(other) == 0;
}

/*
 * Three messages, the second one with a bad receive. The sender must be told which message failed, and the third one
 * must have no effect.
 */
bool receives_that_cannot_take_their_message(void)
{
	const struct {
		uint32_t len, key;
		enum ibv_wc_status here, there;
	} t[] = {
		{ 63, 0, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR },
		{ 64, 1, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR },
		{ BUF_LEN + 1, 0, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR },
	};

	for (unsigned i = 0; i < 2 * sizeof(t) / sizeof(t[0]); i++) {
		unsigned k = i / 2;
		uint32_t len = t[k].len > 64 ? 6000 : 64;
		uintptr_t at = (uintptr_t)srv.buf + (t[k].len > 64 ? BUF_LEN - 5000 : 0);
		struct ibv_sge sge = { at, t[k].len, srv.mr->lkey ^ t[k].key };
		struct ibv_recv_wr bad_one = { .wr_id = 5, .sg_list = &sge, .num_sge = 1 }, *bad;
		struct ibv_async_event ev;
		struct ibv_wc wc[3];
		struct joined j;

		CHECK(join(&j, 8132));
		CHECK(post_recv(&srv, j.sid, 4, 64) && ibv_post_recv(j.sid->qp, &bad_one, &bad) == 0);
		CHECK(post_recv(&srv, j.sid, 6, 64) && post_send(&cli, j.cid, 1, 64));
		if (i & 1) /* i odd: the bad message is alone on the wire */
			CHECK(poll_n(&cli, wc, 1));
		CHECK(post_send(&cli, j.cid, 2, len) && post_send(&cli, j.cid, 3, 64));
		CHECK(i & 1 ? poll_n(&cli, wc + 1, 2) : poll_n(&cli, wc, 3));
		CHECK(wc[0].status == IBV_WC_SUCCESS && wc[1].status == t[k].there &&
		      wc[2].status == IBV_WC_WR_FLUSH_ERR);
		CHECK(wc[0].wr_id == 1 && wc[1].wr_id == 2 && wc[2].wr_id == 3);
		CHECK(poll_n(&srv, wc, 3) && wc[0].status == IBV_WC_SUCCESS);
		CHECK(wc[1].wr_id == 5 && wc[1].status == t[k].here && wc[2].status == IBV_WC_WR_FLUSH_ERR);
		CHECK(async(cli.verbs, IBV_EVENT_QP_FATAL, &ev) && ev.element.qp == j.cid->qp);
		CHECK(both_hear_the_end(&j));
		async_sweep(srv.verbs);
		async_sweep(cli.verbs);
	}
	return true;
}

/* The device is opened twice; each context gets the events of its own objects and of no others. */
bool a_cq_that_overflows_is_told_to_its_owner(void)
{
	struct ibv_context *second = ibv_open_device(cli.verbs->device);
	struct ibv_cq *small = ibv_create_cq(cli.verbs, 4, NULL, NULL, 0), *big = cli.cq;
	struct ibv_cq *elsewhere = second != NULL ? ibv_create_cq(second, 4, NULL, NULL, 0) : NULL;
	struct ibv_async_event ev;
	struct joined j;

	CHECK(second != NULL && small != NULL && elsewhere != NULL);
	cli.cq = small;
	bool up = join(&j, 8133);
	cli.cq = big;
	CHECK(up);
	for (uint64_t i = 0; i < 64; i++)
		CHECK(post_recv(&srv, j.sid, i, 64) && post_send(&cli, j.cid, i, 64));
	CHECK(async(cli.verbs, IBV_EVENT_CQ_ERR, &ev) && ev.element.cq == small);
	CHECK(no_async(second));
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	CHECK(drop(j.cid) && drop(j.sid) && rdma_destroy_id(j.lid) == 0);
	async_sweep(srv.verbs);
	async_sweep(cli.verbs);
	/* The owner loses this queue and nothing else. */
	CHECK(ibv_destroy_cq(small) == 0 && ibv_destroy_cq(elsewhere) == 0 && ibv_close_device(second) == 0);
	CHECK(join(&j, 8133));
	return part(&j);
}

bool a_qp_is_destroyed_under_traffic(void)
{
	for (unsigned round = 0; round < 60; round++) {
		struct rdma_cm_id *first;
		struct joined j;
		struct ibv_wc wc[16];
		CHECK(join(&j, 8134));
		for (unsigned i = 0; i < 16; i++) {
			struct to up = { i & 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, (uintptr_t)srv.buf, srv.mr->rkey,
					 0 };
			CHECK(post_to(j.cid, &up, i, cli.buf, 32768));
			struct ibv_sge sge = { (uintptr_t)srv.buf + 32768, 32768, srv.mr->lkey };
			struct ibv_send_wr down = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE }, *bad;
			down.wr.rdma.remote_addr = (uintptr_t)cli.buf + 32768;
			down.wr.rdma.rkey = cli.mr->rkey;
			CHECK(ibv_post_send(j.sid->qp, &down, &bad) == 0);
		}
		if (round % 3 == 1)
			CHECK(poll_n(&cli, wc, 1));
		first = round & 1 ? j.cid : j.sid;
		rdma_destroy_qp(first);
		CHECK(want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
		CHECK(drop(j.cid) && drop(j.sid) && rdma_destroy_id(j.lid) == 0);
		while (ibv_poll_cq(srv.cq, 16, wc) > 0 || ibv_poll_cq(cli.cq, 16, wc) > 0)
			;
	}
	async_sweep(srv.verbs);
	async_sweep(cli.verbs);
	return true;
}

/*
 * A region is deregistered while the peer writes to it: the writer is told, and the memory does not change from then
 * on.
 */
bool memory_is_deregistered_under_traffic(void)
{
	struct ibv_mr *mr = ibv_reg_mr(srv.pd, srv.buf, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_wc wc[64];
	struct joined j;
	bool told = false;

	CHECK(mr != NULL && join(&j, 8135));
	struct to to = { IBV_WR_RDMA_WRITE, (uintptr_t)srv.buf, mr->rkey, 0 };
	memset(cli.buf, 0xaa, 4096);
	for (uint64_t i = 0; i < 32; i++)
		CHECK(post_to(j.cid, &to, i, cli.buf, 4096));
	CHECK(ibv_dereg_mr(mr) == 0);
	memset(srv.buf, 0x55, 4096);
	for (uint64_t i = 32; i < 64; i++)
		CHECK(post_to(j.cid, &to, i, cli.buf, 4096));
	CHECK(poll_n(&cli, wc, 64));
	for (unsigned i = 0; i < 64; i++) {
		CHECK(wc[i].wr_id == i);
		CHECK(!told || wc[i].status == IBV_WC_WR_FLUSH_ERR);
		told |= wc[i].status != IBV_WC_SUCCESS;
	}
	CHECK(told);
	for (unsigned i = 0; i < 4096; i++)
		CHECK(srv.buf[i] == 0x55);
	CHECK(both_hear_the_end(&j));
	async_sweep(srv.verbs);
	async_sweep(cli.verbs);
	return true;
}

bool requests_that_cannot_be_are_refused_at_once(void)
{
	struct ibv_device_attr dev = { 0 };
	struct ibv_sge sge[1] = { { (uintptr_t)cli.buf, 8, cli.mr->lkey } };

	CHECK(ibv_query_device(cli.verbs, &dev) == 0);
	struct ibv_send_wr ok = { .wr_id = 1, .sg_list = sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .next = NULL };
	struct ibv_send_wr many = { .wr_id = 2,
				    .sg_list = sge,
				    .num_sge = dev.max_sge + 1,
				    .opcode = IBV_WR_RDMA_WRITE },
			   *bad = NULL;
	struct joined j;
	struct ibv_wc wc;

	CHECK(dev.max_sge >= 16 && dev.max_cqe >= 262144 && dev.max_qp >= 64 && dev.max_qp_rd_atom >= 1);
	CHECK(ibv_create_cq(cli.verbs, dev.max_cqe + 1, NULL, NULL, 0) == NULL && errno == EINVAL);
	CHECK(ibv_create_cq(cli.verbs, 0, NULL, NULL, 0) == NULL && errno == EINVAL);
	struct ibv_cq *large = ibv_create_cq(cli.verbs, 262144, NULL, NULL, 0);
	CHECK(large != NULL && large->cqe >= 262144 && ibv_destroy_cq(large) == 0);
	CHECK(join(&j, 8136));
	ok.wr.rdma.remote_addr = many.wr.rdma.remote_addr = (uintptr_t)srv.buf;
	ok.wr.rdma.rkey = many.wr.rdma.rkey = srv.mr->rkey;
	ok.next = &many;
	CHECK(ibv_post_send(j.cid->qp, &ok, &bad) == EINVAL && bad == &many);
	/* the requests before the bad one are posted */
	CHECK(poll_n(&cli, &wc, 1) && wc.wr_id == 1 && wc.status == IBV_WC_SUCCESS);
	many.num_sge = 1;
	many.opcode = IBV_WR_ATOMIC_WRITE;
	CHECK(ibv_post_send(j.cid->qp, &many, &bad) == EOPNOTSUPP && bad == &many);
	many.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	sge->length = 4;
	CHECK(ibv_post_send(j.cid->qp, &many, &bad) == EINVAL && bad == &many);
	for (unsigned i = 0, rc = 0; rc == 0; i++) { /* a full queue is refused */
		CHECK(i < 100000);
		struct ibv_recv_wr r = { .sg_list = sge, .num_sge = 1 }, *bad_recv;
		rc = (unsigned)ibv_post_recv(j.cid->qp, &r, &bad_recv);
		CHECK(rc == 0 || (rc == ENOMEM && i >= caps.max_recv_wr));
	}
	return part(&j);
}
