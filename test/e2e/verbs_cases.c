/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What verbs promise: both ends in one process, over two devices of one daemon. Plain verbs and rdma_cm.
 *
 * usage: verbs_cases SERVER-ADDRESS CLIENT-ADDRESS [CASE...]	prints "ok NAME" or "not ok NAME" for each case
 *        verbs_cases --list
 */
#include "verbs_cases.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define SGES 16

bool post_to(struct rdma_cm_id *id, const struct to *to, uint64_t wr_id, void *from, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)from, len, cli.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = to->op,
				  .send_flags = IBV_SEND_SIGNALED | to->flags },
			   *bad;

	if (to->op == IBV_WR_SEND_WITH_INV) {
		wr.invalidate_rkey = to->rkey;
	} else {
		wr.wr.rdma.remote_addr = to->addr;
		wr.wr.rdma.rkey = to->rkey;
	}
	return ibv_post_send(id->qp, &wr, &bad) == 0;
}

static void fill(uint8_t *p, size_t n, unsigned salt)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 31 + (i >> 8) + salt);
}

/* Makes a connection whose QPs have these capabilities; `caps` is restored. */
static bool join_with_caps(struct joined *j, uint16_t port, struct ibv_qp_cap c, int all)
{
	struct ibv_qp_cap before = caps;

	caps = c;
	sig_all = all;
	bool ok = join(j, port);
	caps = before;
	sig_all = 1;
	return ok;
}

static bool good(const struct ibv_wc *wc, enum ibv_wc_opcode op, uint64_t wr_id)
{
	if (wc->status == IBV_WC_SUCCESS && wc->opcode == op && wc->wr_id == wr_id)
		return true;
	printf("# completion %s, opcode %d, wr_id %llu; opcode %d, wr_id %llu were due\n",
	       ibv_wc_status_str(wc->status), wc->opcode, (unsigned long long)wc->wr_id, op, (unsigned long long)wr_id);
	return false;
}

static bool inline_data_is_taken_at_once(void)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE };
	struct ibv_qp_cap c = { 64, 64, SGES, 1, 64 };
	uint8_t mine[64]; /* on the stack, in no memory region */
	struct ibv_wc wc[2];
	struct joined j;

	CHECK(join_with_caps(&j, 8100, c, 0));
	for (unsigned len = 0; len <= 64; len += 7) {
		for (unsigned o = 0; o < 2; o++) {
			struct ibv_sge sge[2] = { { (uintptr_t)mine, len / 2, 0 },
						  { (uintptr_t)mine + len / 2, len - len / 2, 99 } };
			struct ibv_send_wr wr = { .wr_id = len,
						  .sg_list = sge,
						  .num_sge = 2,
						  .opcode = ops[o],
						  .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE },
					   *bad;
			wr.wr.rdma.remote_addr = (uintptr_t)srv.buf;
			wr.wr.rdma.rkey = srv.mr->rkey;
			memset(srv.buf, 0xee, 128);
			fill(mine, len, len);
			CHECK(ops[o] != IBV_WR_SEND || post_recv(&srv, j.sid, 1, 128));
			CHECK(ibv_post_send(j.cid->qp, &wr, &bad) == 0);
			/* the program may reuse inline data as soon as the call returns */
			memset(mine, 0, sizeof(mine));
			CHECK(poll_n(&cli, wc, 1) && good(wc, o ? IBV_WC_RDMA_WRITE : IBV_WC_SEND, len));
			CHECK(ops[o] != IBV_WR_SEND ||
			      (poll_n(&srv, wc, 1) && good(wc, IBV_WC_RECV, 1) && wc->byte_len == len));
			fill(mine, len, len);
			CHECK(memcmp(srv.buf, mine, len) == 0 && srv.buf[len] == 0xee);
		}
	}
	struct ibv_sge sge = { (uintptr_t)cli.buf, 65535, 0 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE },
			   *bad;
	CHECK(ibv_post_send(j.cid->qp, &wr, &bad) == EINVAL && bad == &wr);
	return part(&j);
}

/*
 * Sixteen pieces of irregular lengths with gaps between, gathered on one side and scattered on the other. A Read fills
 * sixteen pieces, too, although a Read Request names only one sink (RFC 5040, 4.4).
 */
static uint32_t odd(unsigned i) { return 1 + i * i * 13 % 601; }

static uint32_t pieces(struct end *e, struct ibv_sge *sge, unsigned gap)
{
	uint32_t at = 0, sum = 0;

	for (unsigned i = 0; i < SGES; i++) {
		uint32_t n = odd(gap ? i : SGES - 1 - i);
		sge[i] = (struct ibv_sge){ (uintptr_t)e->buf + at, n, e->mr->lkey };
		at += n + gap + 1;
		sum += n;
	}
	return sum;
}

static void collect(const struct ibv_sge *sge, uint8_t *out)
{
	for (unsigned i = 0; i < SGES; i++) {
		memcpy(out, (void *)(uintptr_t)sge[i].addr, sge[i].length);
		out += sge[i].length;
	}
}

static bool sixteen_pieces(void)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE };
	static const enum ibv_wc_opcode wcs[] = { IBV_WC_SEND, IBV_WC_RDMA_WRITE };
	struct ibv_qp_cap c = { 16, 16, SGES, SGES, 0 };
	struct ibv_sge here[SGES], there[SGES];
	static uint8_t sent[BUF_LEN], got[BUF_LEN];
	struct ibv_wc wc;
	struct joined j;

	CHECK(join_with_caps(&j, 8101, c, 1));
	for (unsigned o = 0; o < 2; o++) {
		uint32_t sum = pieces(&cli, here, 3);
		struct ibv_send_wr wr = { .wr_id = o, .sg_list = here, .num_sge = SGES, .opcode = ops[o] }, *bad;
		wr.wr.rdma.remote_addr = (uintptr_t)srv.buf;
		wr.wr.rdma.rkey = srv.mr->rkey;
		fill(cli.buf, BUF_LEN, o);
		fill(srv.buf, BUF_LEN, 100 + o);
		collect(here, sent);
		if (ops[o] == IBV_WR_SEND) {
			struct ibv_recv_wr r = { .wr_id = 9, .sg_list = there, .num_sge = SGES }, *bad_recv;
			CHECK(pieces(&srv, there, 0) == sum && ibv_post_recv(j.sid->qp, &r, &bad_recv) == 0);
		}
		CHECK(ibv_post_send(j.cid->qp, &wr, &bad) == 0 && poll_n(&cli, &wc, 1) && good(&wc, wcs[o], o));
		if (ops[o] == IBV_WR_SEND) {
			CHECK(poll_n(&srv, &wc, 1) && good(&wc, IBV_WC_RECV, 9) && wc.byte_len == sum);
			collect(there, got);
		} else {
			memcpy(got, srv.buf, sum);
		}
		CHECK(memcmp(sent, got, sum) == 0);
	}
	struct ibv_send_wr read = { .sg_list = here, .num_sge = SGES, .opcode = IBV_WR_RDMA_READ }, *bad;
	uint32_t sum = pieces(&cli, here, 3);
	read.wr.rdma.remote_addr = (uintptr_t)srv.buf;
	read.wr.rdma.rkey = srv.mr->rkey;
	fill(srv.buf, BUF_LEN, 7);
	CHECK(ibv_post_send(j.cid->qp, &read, &bad) == 0 && poll_n(&cli, &wc, 1) && good(&wc, IBV_WC_RDMA_READ, 0));
	collect(here, got);
	CHECK(memcmp(got, srv.buf, sum) == 0);
	read.num_sge = SGES + 1;
	CHECK(ibv_post_send(j.cid->qp, &read, &bad) == EINVAL && bad == &read);
	return part(&j);
}

/* A Write sends back the bytes that a Read fetches: they are right only if the fence holds the Write back. */
static bool a_fence_waits_for_the_read(void)
{
	struct joined j;
	struct ibv_wc wc[2];

	CHECK(join(&j, 8102));
	for (unsigned i = 0; i < 20; i++) {
		struct to from = { IBV_WR_RDMA_READ, (uintptr_t)srv.buf, srv.mr->rkey, 0 };
		struct to back = { IBV_WR_RDMA_WRITE, (uintptr_t)srv.buf + 32768, srv.mr->rkey, IBV_SEND_FENCE };
		fill(srv.buf, 32768, i);
		memset(cli.buf, 0, 32768);
		CHECK(post_to(j.cid, &from, 1, cli.buf, 32768) && post_to(j.cid, &back, 2, cli.buf, 32768));
		CHECK(poll_n(&cli, wc, 2) && good(&wc[0], IBV_WC_RDMA_READ, 1) && good(&wc[1], IBV_WC_RDMA_WRITE, 2));
		CHECK(memcmp(srv.buf, srv.buf + 32768, 32768) == 0);
	}
	return part(&j);
}

/* iWARP does not acknowledge a Write: a Send or a Read after it tells that the Write is placed. */
static bool a_send_says_that_the_writes_before_it_are_there(void)
{
	struct joined j;
	struct ibv_wc wc[8];

	CHECK(join(&j, 8103));
	for (unsigned i = 0; i < 50; i++) {
		struct to w = { IBV_WR_RDMA_WRITE, (uintptr_t)srv.buf, srv.mr->rkey, 0 };
		fill(cli.buf, 60000, i);
		/* the receive's buffer is the Write's first bytes, which the Send repeats */
		CHECK(post_recv(&srv, j.sid, i, 16));
		CHECK(post_to(j.cid, &w, 1, cli.buf, 60000) && post_send(&cli, j.cid, 2, 16));
		CHECK(poll_n(&srv, wc, 1) && good(wc, IBV_WC_RECV, i));
		CHECK(memcmp(srv.buf, cli.buf, 60000) == 0);
		CHECK(poll_n(&cli, wc, 2));
	}
	return part(&j);
}

/* ---- notification ---- */

struct bell {
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq, *before;
	int ep;
};

static bool bell_make(struct bell *b)
{
	struct epoll_event e = { .events = EPOLLIN };

	b->ch = ibv_create_comp_channel(srv.verbs);
	CHECK(b->ch != NULL);
	b->cq = ibv_create_cq(srv.verbs, 256, b, b->ch, 0);
	b->ep = epoll_create1(EPOLL_CLOEXEC);
	CHECK(b->cq != NULL && b->ep >= 0 && epoll_ctl(b->ep, EPOLL_CTL_ADD, b->ch->fd, &e) == 0);
	CHECK(fcntl(b->ch->fd, F_SETFL, O_NONBLOCK) == 0);
	b->before = srv.cq;
	srv.cq = b->cq;
	return true;
}

/* An event must come, must be the queue's, and must be the only one. */
static bool rings(struct bell *b)
{
	struct epoll_event e;
	struct ibv_cq *cq;
	void *context;

	CHECK(epoll_wait(b->ep, &e, 1, WAIT_MS) == 1);
	CHECK(ibv_get_cq_event(b->ch, &cq, &context) == 0 && cq == b->cq && context == b);
	ibv_ack_cq_events(cq, 1);
	CHECK(ibv_get_cq_event(b->ch, &cq, &context) == -1 && errno == EAGAIN);
	return true;
}

static bool silent(struct bell *b)
{
	struct epoll_event e;

	CHECK(epoll_wait(b->ep, &e, 1, 60) == 0);
	return true;
}

static bool bell_free(struct bell *b)
{
	srv.cq = b->before;
	CHECK(ibv_destroy_cq(b->cq) == 0 && ibv_destroy_comp_channel(b->ch) == 0);
	return close(b->ep) == 0;
}

static bool an_event_comes_once_for_each_arming(void)
{
	struct ibv_wc wc[8];
	struct joined j;
	struct bell b;

	CHECK(bell_make(&b) && join(&j, 8104));
	for (uint64_t i = 0; i < 8; i++)
		CHECK(post_recv(&srv, j.sid, i, 64));
	CHECK(post_send(&cli, j.cid, 1, 8) && poll_n(&srv, wc, 1) && silent(&b)); /* the queue is not armed */
	CHECK(ibv_req_notify_cq(b.cq, 0) == 0 && silent(&b));                     /* no new completion */
	CHECK(post_send(&cli, j.cid, 2, 8) && post_send(&cli, j.cid, 3, 8) && rings(&b) && silent(&b));
	CHECK(poll_n(&srv, wc, 2));
	CHECK(ibv_req_notify_cq(b.cq, 0) == 0 && post_send(&cli, j.cid, 4, 8) && rings(&b));
	CHECK(poll_n(&srv, wc, 1) && poll_n(&cli, wc, 4));
	/* flushed receives make an event */
	CHECK(ibv_req_notify_cq(b.cq, 0) == 0 && rdma_disconnect(j.cid) == 0 && rings(&b));
	CHECK(poll_n(&srv, wc, 4) && wc[0].status == IBV_WC_WR_FLUSH_ERR);
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	CHECK(drop(j.cid) && drop(j.sid) && rdma_destroy_id(j.lid) == 0);
	return bell_free(&b);
}

static bool a_solicited_event_is_asked_for_by_the_sender(void)
{
	struct to plain = { IBV_WR_SEND, 0, 0, 0 }, wake = { IBV_WR_SEND, 0, 0, IBV_SEND_SOLICITED };
	struct ibv_wc wc[8];
	struct joined j;
	struct bell b;

	CHECK(bell_make(&b) && join(&j, 8105));
	for (uint64_t i = 0; i < 8; i++)
		CHECK(post_recv(&srv, j.sid, i, 64));
	CHECK(ibv_req_notify_cq(b.cq, 1) == 0);
	CHECK(post_to(j.cid, &plain, 1, cli.buf, 8) && poll_n(&srv, wc, 1) && silent(&b));
	CHECK(post_to(j.cid, &wake, 2, cli.buf, 8) && rings(&b) && poll_n(&srv, wc, 1));
	struct ibv_mr *mr = ibv_reg_mr(srv.pd, srv.buf, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(mr != NULL);
	struct to both = { IBV_WR_SEND_WITH_INV, 0, mr->rkey, IBV_SEND_SOLICITED };
	CHECK(ibv_req_notify_cq(b.cq, 1) == 0 && post_to(j.cid, &both, 3, cli.buf, 8) && rings(&b));
	CHECK(poll_n(&srv, wc, 1) && (wc[0].wc_flags & IBV_WC_WITH_INV) && wc[0].invalidated_rkey == mr->rkey);
	CHECK(ibv_dereg_mr(mr) == 0);
	/* an error raises the event, although only solicited completions are asked for */
	CHECK(ibv_req_notify_cq(b.cq, 1) == 0);
	CHECK(rdma_disconnect(j.cid) == 0 && rings(&b));
	CHECK(poll_n(&cli, wc, 3));
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	CHECK(drop(j.cid) && drop(j.sid) && rdma_destroy_id(j.lid) == 0);
	return bell_free(&b);
}

/* ---- */

static bool an_invalidated_region_is_closed(void)
{
	struct ibv_mr *mr = ibv_reg_mr(srv.pd, srv.buf, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_wc wc[2];
	struct joined j;

	CHECK(mr != NULL && join(&j, 8106));
	struct to w = { IBV_WR_RDMA_WRITE, (uintptr_t)srv.buf + 64, mr->rkey, 0 };
	struct to inv = { IBV_WR_SEND_WITH_INV, 0, mr->rkey, 0 };
	CHECK(post_recv(&srv, j.sid, 1, 64));
	CHECK(post_to(j.cid, &w, 1, cli.buf, 64) && post_to(j.cid, &inv, 2, cli.buf, 8) && poll_n(&cli, wc, 2));
	CHECK(good(&wc[0], IBV_WC_RDMA_WRITE, 1) && good(&wc[1], IBV_WC_SEND, 2));
	CHECK(poll_n(&srv, wc, 1) && good(wc, IBV_WC_RECV, 1) && wc->byte_len == 8);
	CHECK((wc->wc_flags & IBV_WC_WITH_INV) != 0 && wc->invalidated_rkey == mr->rkey);
	memset(srv.buf + 64, 0x77, 64);
	CHECK(post_to(j.cid, &w, 3, cli.buf, 64) &&
	      poll_n(&cli, wc, 1)); /* a Write completes when TCP has delivered it */
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	CHECK(srv.buf[64] == 0x77 && srv.buf[127] == 0x77);
	CHECK(drop(j.cid) && drop(j.sid) && rdma_destroy_id(j.lid) == 0);
	async_sweep(srv.verbs);
	async_sweep(cli.verbs);
	return ibv_dereg_mr(mr) == 0;
}

static bool nothing_at_all_can_be_transferred(void)
{
	static const enum ibv_wr_opcode ops[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
	static const enum ibv_wc_opcode wcs[] = { IBV_WC_SEND, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ };
	struct ibv_wc wc;
	struct joined j;

	CHECK(join(&j, 8107) && post_recv(&srv, j.sid, 5, 0) && post_recv(&srv, j.sid, 6, 64));
	memset(srv.buf, 1, 64);
	memset(cli.buf, 2, 64);
	for (unsigned n = 0; n < 2; n++) { /* n 0: no SGE; n 1: an SGE of 0 bytes */
		for (unsigned o = 0; o < 3; o++) {
			struct ibv_sge sge = { (uintptr_t)cli.buf, 0, cli.mr->lkey };
			struct ibv_send_wr wr = { .wr_id = o, .sg_list = &sge, .num_sge = (int)n, .opcode = ops[o] },
					   *bad;
			wr.wr.rdma.remote_addr = (uintptr_t)srv.buf;
			wr.wr.rdma.rkey = srv.mr->rkey;
			CHECK(ibv_post_send(j.cid->qp, &wr, &bad) == 0 && poll_n(&cli, &wc, 1) && good(&wc, wcs[o], o));
		}
		CHECK(poll_n(&srv, &wc, 1) && good(&wc, IBV_WC_RECV, 5 + n) && wc.byte_len == 0);
	}
	CHECK(srv.buf[0] == 1 && cli.buf[0] == 2);
	return part(&j);
}

static bool unsignalled_requests_end_with_the_signalled_one(void)
{
	struct ibv_qp_cap c = { 64, 64, 1, 1, 0 };
	struct joined j;
	struct ibv_wc wc;

	CHECK(join_with_caps(&j, 8108, c, 0));
	for (uint64_t i = 1; i <= 2000; i++) { /* many times the queue's length */
		struct ibv_sge sge = { (uintptr_t)cli.buf, 8, cli.mr->lkey };
		struct ibv_send_wr wr = { .wr_id = i,
					  .sg_list = &sge,
					  .num_sge = 1,
					  .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = i % 32 == 0 ? IBV_SEND_SIGNALED : 0 },
				   *bad;
		wr.wr.rdma.remote_addr = (uintptr_t)srv.buf;
		wr.wr.rdma.rkey = srv.mr->rkey;
		CHECK(ibv_post_send(j.cid->qp, &wr, &bad) == 0);
		CHECK(i % 32 != 0 || (poll_n(&cli, &wc, 1) && good(&wc, IBV_WC_RDMA_WRITE, i)));
	}
	return part(&j);
}

/* ---- threads ---- */

#define THREADS 4
#define EACH    1500
#define AHEAD   512 /* most unpolled posts of a thread: those of all threads fit into the CQ */

static struct rdma_cm_id *shared_id;
static uint64_t polled[THREADS];

static void *post_many(void *arg)
{
	uintptr_t me = (uintptr_t)arg;

	for (uint64_t i = 0; i < EACH;) {
		if (i - __atomic_load_n(&polled[me], __ATOMIC_ACQUIRE) == AHEAD) {
			sched_yield();
			continue;
		}
		struct to w = { IBV_WR_RDMA_WRITE, (uintptr_t)srv.buf + me * 4096, srv.mr->rkey, 0 };
		if (post_to(shared_id, &w, me << 32 | i, cli.buf + me * 4096, 512))
			i++;
		else
			sched_yield(); /* the queue is full: other threads poll */
	}
	return NULL;
}

static bool threads_share_a_queue_pair(void)
{
	struct ibv_qp_cap c = { 64, 64, 1, 1, 0 };
	pthread_t t[THREADS];
	struct joined j;
	struct ibv_wc wc[16];

	CHECK(join_with_caps(&j, 8109, c, 1));
	shared_id = j.cid;
	fill(cli.buf, BUF_LEN, 9);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&t[i], NULL, post_many, (void *)i) == 0);
	for (unsigned have = 0; have < THREADS * EACH;) {
		CHECK(poll_n(&cli, wc, 1));
		have++;
		unsigned who = (unsigned)(wc[0].wr_id >> 32);
		CHECK(wc[0].status == IBV_WC_SUCCESS && who < THREADS && (uint32_t)wc[0].wr_id == polled[who]);
		__atomic_store_n(&polled[who], polled[who] + 1, __ATOMIC_RELEASE);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		CHECK(pthread_join(t[i], NULL) == 0);
		CHECK(memcmp(srv.buf + i * 4096, cli.buf + i * 4096, 512) == 0);
	}
	return part(&j);
}

static bool large_messages_both_ways_at_once(void)
{
	enum { LEN = 8 << 20 };
	uint8_t *a = aligned_alloc(4096, LEN), *b = aligned_alloc(4096, LEN);
	struct ibv_mr *ma, *mb;
	struct ibv_wc wc[4];
	struct joined j;

	CHECK(a != NULL && b != NULL);
	fill(a, LEN / 2, 1);
	fill(b, LEN / 2, 2);
	CHECK((ma = ibv_reg_mr(cli.pd, a, LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)) != NULL);
	CHECK((mb = ibv_reg_mr(srv.pd, b, LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)) != NULL);
	CHECK(join(&j, 8110));
	for (unsigned side = 0; side < 2; side++) {
		struct ibv_mr *from = side ? mb : ma, *to = side ? ma : mb;
		struct ibv_sge sge = { (uintptr_t)from->addr, LEN / 2, from->lkey };
		struct ibv_send_wr wr = { .wr_id = side, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE },
				   *bad;
		wr.wr.rdma.remote_addr = (uintptr_t)to->addr + LEN / 2;
		wr.wr.rdma.rkey = to->rkey;
		CHECK(ibv_post_send((side ? j.sid : j.cid)->qp, &wr, &bad) == 0);
	}
	CHECK(poll_n(&cli, wc, 1) && good(wc, IBV_WC_RDMA_WRITE, 0) && poll_n(&srv, wc, 1) &&
	      good(wc, IBV_WC_RDMA_WRITE, 1));
	/* when both Sends have arrived, all Writes before them are placed */
	CHECK(post_recv(&srv, j.sid, 1, 8) && post_recv(&cli, j.cid, 2, 8));
	CHECK(post_send(&cli, j.cid, 3, 8) && post_send(&srv, j.sid, 4, 8) && poll_n(&cli, wc, 2) &&
	      poll_n(&srv, wc, 2));
	CHECK(memcmp(a + LEN / 2, b, LEN / 2) == 0 && memcmp(b + LEN / 2, a, LEN / 2) == 0);
	CHECK(part(&j) && ibv_dereg_mr(ma) == 0 && ibv_dereg_mr(mb) == 0);
	free(a);
	free(b);
	return true;
}

static const struct rig_case cases[] = {
	CASE(inline_data_is_taken_at_once),
	CASE(sixteen_pieces),
	CASE(a_fence_waits_for_the_read),
	CASE(a_send_says_that_the_writes_before_it_are_there),
	CASE(an_event_comes_once_for_each_arming),
	CASE(a_solicited_event_is_asked_for_by_the_sender),
	CASE(an_invalidated_region_is_closed),
	CASE(nothing_at_all_can_be_transferred),
	CASE(unsignalled_requests_end_with_the_signalled_one),
	CASE(threads_share_a_queue_pair),
	CASE(large_messages_both_ways_at_once),
	CASE(remote_faults_are_told_to_both),
	CASE(local_faults_are_told_at_home),
	CASE(receives_that_cannot_take_their_message),
	CASE(a_cq_that_overflows_is_told_to_its_owner),
	CASE(a_qp_is_destroyed_under_traffic),
	CASE(memory_is_deregistered_under_traffic),
	CASE(requests_that_cannot_be_are_refused_at_once),
};

int main(int argc, char **argv) { return rig_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0])); }
