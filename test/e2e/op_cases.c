/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Immediate data, atomics and memory windows: both ends in one process, over two devices of one daemon.
 *
 * usage: op_cases SERVER-ADDRESS CLIENT-ADDRESS [CASE...]	prints "ok NAME" or "not ok NAME" for each case
 *        op_cases --list
 */
#include "cm_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define WORD(e) ((uint64_t *)(void *)((e)->buf + 1024))

static bool good(const struct ibv_wc *wc, enum ibv_wc_opcode op, uint64_t wr_id)
{
	if (wc->status == IBV_WC_SUCCESS && wc->opcode == op && wc->wr_id == wr_id)
		return true;
	printf("# completion %s, opcode %d, wr_id %llu; opcode %d, wr_id %llu were due\n",
	       ibv_wc_status_str(wc->status), wc->opcode, (unsigned long long)wc->wr_id, op, (unsigned long long)wr_id);
	return false;
}

/* Both ends must be told that the stream has ended; then all of the connection is destroyed. */
static bool broken(struct joined *j)
{
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	CHECK(drop(j->cid) && drop(j->sid) && rdma_destroy_id(j->lid) == 0);
	async_sweep(cli.verbs);
	async_sweep(srv.verbs);
	return true;
}

/* A signalled work request with one SGE, of the client's buffer. */
static struct ibv_send_wr request(enum ibv_wr_opcode op, struct ibv_sge *sge, uint32_t len)
{
	*sge = (struct ibv_sge){ (uintptr_t)cli.buf, len, cli.mr->lkey };
	return (struct ibv_send_wr){
		.wr_id = 5, .sg_list = sge, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED
	};
}

static bool post(struct rdma_cm_id *id, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(id->qp, wr, &bad) == 0;
}

/* ---- immediate data ---- */

static bool immediate_data_arrives_with_its_message(void)
{
	static const uint32_t len[] = { 0, 1, 64, 1500, 40000 };
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct joined j;

	CHECK(join(&j, 8300));
	for (unsigned i = 0; i < 5; i++) {
		struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE_WITH_IMM, &sge, len[i]);
		memset(cli.buf, (int)(i + 1), len[i]);
		memset(srv.buf, 0xee, BUF_LEN);
		wr.imm_data = htonl(0x01020300 + i);
		wr.wr.rdma.remote_addr = (uintptr_t)srv.buf + 64;
		wr.wr.rdma.rkey = srv.mr->rkey;
		CHECK(post_recv(&srv, j.sid, i, 64) && post(j.cid, &wr));
		CHECK(poll_n(&srv, &wc, 1) && good(&wc, IBV_WC_RECV_RDMA_WITH_IMM, i));
		CHECK(wc.wc_flags == IBV_WC_WITH_IMM && ntohl(wc.imm_data) == 0x01020300 + i && wc.byte_len == len[i]);
		CHECK(memcmp(srv.buf + 64, cli.buf, len[i]) == 0 && srv.buf[63] == 0xee &&
		      srv.buf[64 + len[i]] == 0xee);
		CHECK(poll_n(&cli, &wc, 1) && good(&wc, IBV_WC_RDMA_WRITE, 5));

		wr = request(IBV_WR_SEND_WITH_IMM, &sge, len[i]);
		wr.imm_data = htonl(0xfffffff0 + i);
		CHECK(post_recv(&srv, j.sid, 100 + i, 50000) && post(j.cid, &wr));
		CHECK(poll_n(&srv, &wc, 1) && good(&wc, IBV_WC_RECV, 100 + i));
		CHECK(wc.wc_flags == IBV_WC_WITH_IMM && ntohl(wc.imm_data) == 0xfffffff0 + i && wc.byte_len == len[i]);
		CHECK(poll_n(&cli, &wc, 1) && good(&wc, IBV_WC_SEND, 5));
	}
	CHECK(post_recv(&srv, j.sid, 1, 64) && post_send(&cli, j.cid, 2, 8) && poll_n(&cli, &wc, 1));
	/* each message used one receive, and none is left */
	CHECK(poll_n(&srv, &wc, 1) && good(&wc, IBV_WC_RECV, 1) && wc.wc_flags == 0);
	CHECK(no_wc(&srv, 20));
	return part(&j);
}

/* ---- atomics ---- */

static struct ibv_send_wr atomic(enum ibv_wr_opcode op, struct ibv_sge *sge, uint64_t a, uint64_t b)
{
	struct ibv_send_wr wr = request(op, sge, 8);

	wr.wr.atomic.remote_addr = (uintptr_t)WORD(&srv);
	wr.wr.atomic.rkey = srv.mr->rkey;
	wr.wr.atomic.compare_add = a;
	wr.wr.atomic.swap = b;
	return wr;
}

static bool atomics_do_what_they_say(void)
{
	struct ibv_device_attr dev;
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct joined j;
	uint64_t *old = (uint64_t *)(void *)cli.buf;

	CHECK(ibv_query_device(cli.verbs, &dev) == 0 && dev.atomic_cap != IBV_ATOMIC_NONE);
	CHECK(join(&j, 8301));
	*WORD(&srv) = 40;
	struct ibv_send_wr wr = atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 2, 0);
	CHECK(post(j.cid, &wr) && poll_n(&cli, &wc, 1) && good(&wc, IBV_WC_FETCH_ADD, 5) && wc.byte_len == 8);
	CHECK(*old == 40 && *WORD(&srv) == 42);
	wr = atomic(IBV_WR_ATOMIC_CMP_AND_SWP, &sge, 41, 7);
	CHECK(post(j.cid, &wr) && poll_n(&cli, &wc, 1) && good(&wc, IBV_WC_COMP_SWAP, 5));
	CHECK(*old == 42 && *WORD(&srv) == 42);
	wr = atomic(IBV_WR_ATOMIC_CMP_AND_SWP, &sge, 42, 7);
	CHECK(post(j.cid, &wr) && poll_n(&cli, &wc, 1) && good(&wc, IBV_WC_COMP_SWAP, 5));
	CHECK(*old == 42 && *WORD(&srv) == 7);
	CHECK(no_wc(&srv, 20)); /* the target's program is not notified */
	return part(&j);
}

static void *count_up(void *arg)
{
	for (unsigned i = 0; i < 20000; i++) {
		__atomic_fetch_add(WORD(&srv), 1, __ATOMIC_RELAXED);
		if (i % 64 == 0)
			sched_yield();
	}
	return arg;
}

/* The CPU and the peer add to one word: no addition may be lost. */
static bool a_counter_is_shared_with_the_cpu(void)
{
	enum { N = 2000 };
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct joined j;
	pthread_t t;

	CHECK(join(&j, 8302));
	*WORD(&srv) = 0;
	CHECK(pthread_create(&t, NULL, count_up, NULL) == 0);
	for (unsigned done = 0, posted = 0; done < N; done++) {
		for (; posted < N && posted - done < 16; posted++) {
			struct ibv_send_wr wr = atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 1, 0);
			CHECK(post(j.cid, &wr));
		}
		CHECK(poll_n(&cli, &wc, 1) && good(&wc, IBV_WC_FETCH_ADD, 5));
	}
	CHECK(pthread_join(t, NULL) == 0);
	CHECK(*WORD(&srv) == N + 20000);
	return part(&j);
}

static bool atomics_that_are_refused(void)
{
	static const struct {
		int access;
		unsigned off;
		enum ibv_wc_status status;
	} t[] = {
		{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, 0, IBV_WC_REM_ACCESS_ERR },
		{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, 4, IBV_WC_REM_INV_REQ_ERR },
		{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, 4096, IBV_WC_REM_ACCESS_ERR },
	};

	for (unsigned i = 0; i < 3; i++) {
		struct ibv_mr *mr = ibv_reg_mr(srv.pd, srv.buf, 4096, t[i].access);
		struct ibv_sge sge;
		struct ibv_wc wc;
		struct joined j;
		CHECK(mr != NULL && join(&j, (uint16_t)(8303 + i)));
		memset(srv.buf, 0x33, BUF_LEN);
		struct ibv_send_wr wr = atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 1, 0);
		wr.wr.atomic.remote_addr = (uintptr_t)srv.buf + t[i].off;
		wr.wr.atomic.rkey = mr->rkey;
		CHECK(post(j.cid, &wr) && poll_n(&cli, &wc, 1) && wc.wr_id == 5);
		if (wc.status != t[i].status)
			printf("# %u: %s\n", i, ibv_wc_status_str(wc.status));
		CHECK(wc.status == t[i].status && broken(&j));
		CHECK(srv.buf[0] == 0x33 && memcmp(srv.buf, srv.buf + 1, BUF_LEN - 1) == 0);
		CHECK(ibv_dereg_mr(mr) == 0);
	}
	return true;
}

/* ---- memory windows ---- */

#define WIN_OFF 8192
#define WIN_LEN 1000

static struct ibv_mr *bindable(void)
{
	return ibv_reg_mr(srv.pd, srv.buf, BUF_LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
}

static struct ibv_mw_bind_info part_of(struct ibv_mr *mr, unsigned access)
{
	return (struct ibv_mw_bind_info){ mr, (uintptr_t)srv.buf + WIN_OFF, WIN_LEN, access };
}

/* Makes a connection and sends a message to the server, because a server may send only after the client has sent. */
static bool open_both_ways(struct joined *j, uint16_t port)
{
	struct ibv_wc wc;

	CHECK(join(j, port) && post_recv(&srv, j->sid, 77, 8) && post_send(&cli, j->cid, 78, 8));
	return poll_n(&srv, &wc, 1) && poll_n(&cli, &wc, 1);
}

static bool bind_2(struct joined *j, struct ibv_mw *mw, struct ibv_mw_bind_info info)
{
	struct ibv_send_wr wr = { .wr_id = 9,
				  .opcode = IBV_WR_BIND_MW,
				  .send_flags = IBV_SEND_SIGNALED,
				  .bind_mw = { mw, ibv_inc_rkey(mw->rkey), info } };
	struct ibv_wc wc;

	CHECK(post(j->sid, &wr) && poll_n(&srv, &wc, 1) && good(&wc, IBV_WC_BIND_MW, 9));
	mw->rkey = wr.bind_mw.rkey;
	return true;
}

static bool access_by(struct joined *j, enum ibv_wr_opcode op, uint32_t rkey, uint64_t addr, uint32_t len,
		      struct ibv_wc *wc)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(op, &sge, len);

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	return post(j->cid, &wr) && poll_n(&cli, wc, 1);
}

static bool a_window_opens_part_of_a_region(void)
{
	struct ibv_mr *mr = bindable();
	struct ibv_mw *mw = ibv_alloc_mw(srv.pd, IBV_MW_TYPE_2);
	struct ibv_wc wc;
	struct joined j;

	CHECK(mr != NULL && mw != NULL && open_both_ways(&j, 8310));
	CHECK(bind_2(&j, mw, part_of(mr, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)));
	memset(cli.buf, 0x44, WIN_LEN);
	memset(srv.buf, 0x55, BUF_LEN);
	CHECK(access_by(&j, IBV_WR_RDMA_WRITE, mw->rkey, (uintptr_t)srv.buf + WIN_OFF, WIN_LEN, &wc));
	CHECK(good(&wc, IBV_WC_RDMA_WRITE, 5) && srv.buf[WIN_OFF - 1] == 0x55 && srv.buf[WIN_OFF + WIN_LEN] == 0x55);
	CHECK(memcmp(srv.buf + WIN_OFF, cli.buf, WIN_LEN) == 0);
	memset(cli.buf, 0, WIN_LEN);
	CHECK(access_by(&j, IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)srv.buf + WIN_OFF, WIN_LEN, &wc));
	CHECK(good(&wc, IBV_WC_RDMA_READ, 5) && cli.buf[0] == 0x44 && cli.buf[WIN_LEN - 1] == 0x44);
	CHECK(access_by(&j, IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)srv.buf + WIN_OFF, WIN_LEN + 1, &wc));
	CHECK(wc.status == IBV_WC_REM_ACCESS_ERR && broken(&j));
	return ibv_dealloc_mw(mw) == 0 && ibv_dereg_mr(mr) == 0;
}

static bool a_window_is_closed_by_either_end(void)
{
	for (unsigned by_peer = 0; by_peer < 2; by_peer++) {
		struct ibv_mr *mr = bindable();
		struct ibv_mw *mw = ibv_alloc_mw(srv.pd, IBV_MW_TYPE_2);
		struct ibv_wc wc;
		struct joined j;
		struct ibv_sge sge;
		CHECK(mr != NULL && mw != NULL && open_both_ways(&j, (uint16_t)(8311 + by_peer)));
		CHECK(bind_2(&j, mw, part_of(mr, IBV_ACCESS_REMOTE_READ)));
		CHECK(access_by(&j, IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)srv.buf + WIN_OFF, 8, &wc));
		CHECK(good(&wc, IBV_WC_RDMA_READ, 5));
		if (by_peer) {
			struct ibv_send_wr wr = request(IBV_WR_SEND_WITH_INV, &sge, 8);
			wr.invalidate_rkey = mw->rkey;
			CHECK(post_recv(&srv, j.sid, 1, 64) && post(j.cid, &wr) && poll_n(&cli, &wc, 1));
			CHECK(poll_n(&srv, &wc, 1) && good(&wc, IBV_WC_RECV, 1));
			CHECK(wc.wc_flags == IBV_WC_WITH_INV && wc.invalidated_rkey == mw->rkey);
		} else {
			struct ibv_send_wr wr = { .wr_id = 3,
						  .opcode = IBV_WR_LOCAL_INV,
						  .invalidate_rkey = mw->rkey,
						  .send_flags = IBV_SEND_SIGNALED };
			CHECK(post(j.sid, &wr) && poll_n(&srv, &wc, 1) && good(&wc, IBV_WC_LOCAL_INV, 3));
		}
		/* A window that was unbound can be bound again; deallocating it revokes the access for good. */
		CHECK(bind_2(&j, mw, part_of(mr, IBV_ACCESS_REMOTE_READ)));
		CHECK(access_by(&j, IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)srv.buf + WIN_OFF, 8, &wc));
		const uint32_t gone = mw->rkey;
		CHECK(good(&wc, IBV_WC_RDMA_READ, 5) && ibv_dealloc_mw(mw) == 0);
		CHECK(access_by(&j, IBV_WR_RDMA_READ, gone, (uintptr_t)srv.buf + WIN_OFF, 8, &wc));
		CHECK(wc.status == IBV_WC_REM_ACCESS_ERR && broken(&j) && ibv_dereg_mr(mr) == 0);
	}
	return true;
}

static bool a_window_of_type_1_moves(void)
{
	struct ibv_mr *mr = bindable();
	struct ibv_mw *mw = ibv_alloc_mw(srv.pd, IBV_MW_TYPE_1);
	struct ibv_wc wc;
	struct joined j;

	CHECK(mr != NULL && mw != NULL && open_both_ways(&j, 8313));
	memset(srv.buf, 0, BUF_LEN);
	for (unsigned i = 0; i < 3; i++) {
		struct ibv_mw_bind b = { .wr_id = i,
					 .send_flags = IBV_SEND_SIGNALED,
					 .bind_info = { mr, (uintptr_t)srv.buf + i * 1000, 100,
							IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED } };
		CHECK(ibv_bind_mw(j.sid->qp, mw, &b) == 0 && poll_n(&srv, &wc, 1) && good(&wc, IBV_WC_BIND_MW, i));
		memset(cli.buf, (int)(0x60 + i), 100);
		CHECK(access_by(&j, IBV_WR_RDMA_WRITE, mw->rkey, 0, 100, &wc) && good(&wc, IBV_WC_RDMA_WRITE, 5));
		CHECK(srv.buf[i * 1000] == 0x60 + i && srv.buf[i * 1000 + 99] == 0x60 + i &&
		      srv.buf[i * 1000 + 100] == 0);
	}
	struct ibv_mw_bind off = { .wr_id = 9, .send_flags = IBV_SEND_SIGNALED };
	CHECK(ibv_bind_mw(j.sid->qp, mw, &off) == 0 && poll_n(&srv, &wc, 1) && good(&wc, IBV_WC_BIND_MW, 9));
	CHECK(access_by(&j, IBV_WR_RDMA_WRITE, mw->rkey, 0, 100, &wc) && broken(&j));
	CHECK(ibv_dealloc_pd(srv.pd) == EBUSY);
	return ibv_dealloc_mw(mw) == 0 && ibv_dereg_mr(mr) == 0;
}

static bool binds_that_cannot_be(void)
{
	struct ibv_mr *mr = bindable(), *no = ibv_reg_mr(srv.pd, srv.buf, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mw *mw = ibv_alloc_mw(srv.pd, IBV_MW_TYPE_2), *one = ibv_alloc_mw(srv.pd, IBV_MW_TYPE_1),
		      *theirs = ibv_alloc_mw(cli.pd, IBV_MW_TYPE_1);
	struct ibv_send_wr wr = { .wr_id = 9, .opcode = IBV_WR_BIND_MW, .bind_mw = { mw, mw->rkey, part_of(no, 0) } },
			   *bad;
	struct ibv_mw_bind b = { .bind_info = part_of(mr, IBV_ACCESS_MW_BIND) };
	struct ibv_wc wc;
	struct joined j;

	CHECK(mr != NULL && no != NULL && one != NULL && theirs != NULL && open_both_ways(&j, 8314));
	CHECK(ibv_bind_mw(j.sid->qp, mw, &b) == EINVAL);                         /* window is not of type 1 */
	CHECK(ibv_bind_mw(j.sid->qp, one, &b) == EINVAL);                        /* right that windows lack */
	CHECK(ibv_bind_mw(j.sid->qp, theirs, &b) == EPERM);                      /* window of another PD */
	CHECK(ibv_post_send(j.sid->qp, &wr, &bad) == 0 && poll_n(&srv, &wc, 1)); /* region allows no windows */
	CHECK(wc.status == IBV_WC_MW_BIND_ERR && wc.wr_id == 9 && broken(&j));
	CHECK(ibv_dealloc_mw(mw) == 0 && ibv_dealloc_mw(one) == 0 && ibv_dealloc_mw(theirs) == 0);
	return ibv_dereg_mr(mr) == 0 && ibv_dereg_mr(no) == 0;
}

static const struct rig_case cases[] = {
	CASE(immediate_data_arrives_with_its_message),
	CASE(atomics_do_what_they_say),
	CASE(a_counter_is_shared_with_the_cpu),
	CASE(atomics_that_are_refused),
	CASE(a_window_opens_part_of_a_region),
	CASE(a_window_is_closed_by_either_end),
	CASE(a_window_of_type_1_moves),
	CASE(binds_that_cannot_be),
};

int main(int argc, char **argv) { return rig_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0])); }
