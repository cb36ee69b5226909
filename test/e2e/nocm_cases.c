/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QPs that are brought up with ibv_modify_qp() alone, as programs for InfiniBand do it: both ends in one process, over
 * two devices of one daemon or over one.
 *
 * usage: nocm_cases ADDRESS ADDRESS [CASE...]	prints "ok NAME" or "not ok NAME" for each case
 *        nocm_cases --list
 */
#include "cm_rig.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define RECV_LEN 4096u
#define NOT_LONG 300 /* ms after which a forbidden event would have happened */

/* Moves the queue pair to RTR. at: the end of the peer; NULL: the address has no GRH. */
static bool to_rtr(struct ibv_qp *qp, const struct end *at, uint32_t qpn)
{
	union ibv_gid gid;

	CHECK(at == NULL || ibv_query_gid(at->verbs, 1, 0, &gid) == 0);
	CHECK(qp_rtr(qp, at != NULL ? &gid : NULL, qpn) == 0);
	return true;
}

static bool to_init(struct ibv_qp *qp) { return qp_init(qp) == 0; }
static bool to_rts(struct ibv_qp *qp, uint8_t timeout, uint8_t retries) { return qp_rts(qp, timeout, retries) == 0; }

static bool to_state(struct ibv_qp *qp, enum ibv_qp_state s)
{
	struct ibv_qp_attr a = { .qp_state = s };

	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0);
	return true;
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr i;

	return ibv_query_qp(qp, &a, IBV_QP_STATE, &i) == 0 ? a.qp_state : IBV_QPS_UNKNOWN;
}

static bool recv_put(struct end *e, struct ibv_qp *qp, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)e->buf + id * RECV_LEN, RECV_LEN, e->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(ibv_post_recv(qp, &wr, &bad) == 0);
	return true;
}

static bool send_put(struct end *e, struct ibv_qp *qp, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)e->buf + BUF_LEN / 2, 100, e->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	CHECK(ibv_post_send(qp, &wr, &bad) == 0);
	return true;
}

/* The next completion of e. */
static bool wc_is(struct end *e, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	CHECK(poll_n(e, &wc, 1));
	if (wc.wr_id != id || wc.status != status)
		printf("# completion %s of %llu\n", ibv_wc_status_str(wc.status), (unsigned long long)wc.wr_id);
	CHECK(wc.wr_id == id && wc.status == status);
	return true;
}

/* Sends one message and checks its bytes. */
static bool carries(struct end *from, struct ibv_qp *fqp, struct end *to, struct ibv_qp *tqp)
{
	CHECK(recv_put(to, tqp, 3));
	memset(from->buf + BUF_LEN / 2, 0x5a, 100);
	memset(to->buf + 3 * RECV_LEN, 0, 100);
	CHECK(send_put(from, fqp, 4));
	if (from == to) { /* one CQ has both completions, in either order */
		struct ibv_wc wc[2];
		CHECK(poll_n(to, wc, 2));
		CHECK(wc[0].status == IBV_WC_SUCCESS && wc[1].status == IBV_WC_SUCCESS);
	} else {
		CHECK(wc_is(to, 3, IBV_WC_SUCCESS) && wc_is(from, 4, IBV_WC_SUCCESS));
	}
	CHECK(memcmp(from->buf + BUF_LEN / 2, to->buf + 3 * RECV_LEN, 100) == 0);
	return true;
}

struct both {
	struct end *ea, *eb;
	struct ibv_qp *a, *b;
};

static bool both_new(struct both *p, struct end *ea, struct end *eb)
{
	*p = (struct both){ ea, eb, qp_new(ea, IBV_QPT_RC), qp_new(eb, IBV_QPT_RC) };
	CHECK(p->a != NULL && p->b != NULL);
	CHECK(to_init(p->a) && to_init(p->b));
	return true;
}

static bool both_up(struct both *p)
{
	CHECK(to_rtr(p->a, p->eb, p->b->qp_num) && to_rts(p->a, 14, 7));
	CHECK(to_rtr(p->b, p->ea, p->a->qp_num) && to_rts(p->b, 14, 7));
	return true;
}

static bool both_end(struct both *p)
{
	CHECK(ibv_destroy_qp(p->a) == 0 && ibv_destroy_qp(p->b) == 0);
	return true;
}

static bool either_comes_first(void)
{
	/* the end with the larger address and number connects: both ends take that role */
	for (int turn = 0; turn < 4; turn++) {
		struct end *ea = turn & 1 ? &srv : &cli, *eb = turn & 1 ? &cli : &srv;
		struct both p;

		CHECK(both_new(&p, turn & 2 ? ea : eb, eb));
		CHECK(to_rtr(p.a, p.eb, p.b->qp_num) && to_rts(p.a, 14, 7));
		usleep(100000); /* by now the daemon has refused the connecting side or holds its request */
		CHECK(to_rtr(p.b, p.ea, p.a->qp_num) && to_rts(p.b, 14, 7));
		CHECK(carries(p.ea, p.a, p.eb, p.b) && carries(p.eb, p.b, p.ea, p.a));
		CHECK(both_end(&p));
	}
	return true;
}

static bool work_waits_for_the_peer(void)
{
	struct both p;

	CHECK(both_new(&p, &cli, &srv));
	CHECK(recv_put(&srv, p.b, 1));
	CHECK(to_rtr(p.a, &srv, p.b->qp_num) && to_rts(p.a, 14, 7));
	CHECK(send_put(&cli, p.a, 2));
	CHECK(no_wc(&cli, NOT_LONG));
	CHECK(to_rtr(p.b, &cli, p.a->qp_num)); /* messages already arrive in RTR */
	CHECK(wc_is(&cli, 2, IBV_WC_SUCCESS) && wc_is(&srv, 1, IBV_WC_SUCCESS));
	CHECK(state_of(p.b) == IBV_QPS_RTR);
	CHECK(both_end(&p));
	return true;
}

static bool without_grh(void)
{
	struct both p;

	CHECK(both_new(&p, &cli, &srv));
	CHECK(to_rtr(p.a, NULL, p.b->qp_num) && to_rts(p.a, 14, 7));
	CHECK(to_rtr(p.b, NULL, p.a->qp_num) && to_rts(p.b, 14, 7));
	CHECK(carries(&cli, p.a, &srv, p.b) && carries(&srv, p.b, &cli, p.a));
	CHECK(both_end(&p));
	return true;
}

static bool what_was_set_is_told(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	union ibv_gid gid;
	struct both p;

	CHECK(both_new(&p, &cli, &srv) && both_up(&p));
	CHECK(carries(&cli, p.a, &srv, p.b));
	CHECK(ibv_query_gid(srv.verbs, 1, 0, &gid) == 0 && ibv_query_qp(p.a, &a, 0, &init) == 0);
	CHECK(a.qp_state == IBV_QPS_RTS && a.cur_qp_state == IBV_QPS_RTS);
	CHECK(a.dest_qp_num == p.b->qp_num && a.rq_psn == 77 && a.sq_psn == 88 && a.path_mtu == IBV_MTU_1024);
	CHECK(a.timeout == 14 && a.retry_cnt == 7 && a.rnr_retry == 7 && a.min_rnr_timer == 12 && a.port_num == 1);
	CHECK(a.max_rd_atomic == 4 && a.max_dest_rd_atomic == 4 && a.qp_access_flags == 7);
	CHECK(a.ah_attr.is_global && a.ah_attr.port_num == 1 && memcmp(&a.ah_attr.grh.dgid, &gid, 16) == 0);
	CHECK(init.qp_type == IBV_QPT_RC && init.send_cq == cli.cq && init.sq_sig_all == 1);
	CHECK(both_end(&p));
	return true;
}

static bool the_peers_end_leaves_receives(void)
{
	for (int how = 0; how < 3; how++) {
		struct both p;

		CHECK(both_new(&p, &cli, &srv) && both_up(&p));
		CHECK(carries(&srv, p.b, &cli, p.a));
		CHECK(recv_put(&cli, p.a, 5));
		if (how == 0)
			CHECK(ibv_destroy_qp(p.b) == 0);
		else
			CHECK(to_state(p.b, how == 1 ? IBV_QPS_RESET : IBV_QPS_ERR));
		CHECK(no_wc(&cli, NOT_LONG));
		CHECK(state_of(p.a) == IBV_QPS_RTS);
		CHECK(send_put(&cli, p.a, 6));
		CHECK(wc_is(&cli, 6, IBV_WC_RETRY_EXC_ERR) && wc_is(&cli, 5, IBV_WC_WR_FLUSH_ERR));
		CHECK(send_put(&cli, p.a, 7) && wc_is(&cli, 7, IBV_WC_WR_FLUSH_ERR));
		CHECK(state_of(p.a) == IBV_QPS_ERR);
		CHECK(ibv_destroy_qp(p.a) == 0 && (how == 0 || ibv_destroy_qp(p.b) == 0));
	}
	return true;
}

static bool rnr_set(struct ibv_qp *qp, uint8_t retry)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS, .rnr_retry = retry, .min_rnr_timer = 31 }; /* 491.52 ms */

	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER) == 0);
	return true;
}

/* On an adapter a message waits for a receive as long as rnr_retry says; otherwise it ends the stream. */
static bool messages_wait_for_receives_on_an_adapter(void)
{
	bool adapter = srv.verbs->device->node_type == IBV_NODE_CA;
	struct ibv_async_event ev;
	struct ibv_wc wc;
	struct both p;

	CHECK(both_new(&p, &cli, &srv) && both_up(&p) && carries(&cli, p.a, &srv, p.b));
	if (adapter) {
		CHECK(send_put(&cli, p.a, 1) && send_put(&cli, p.a, 2) && no_wc(&srv, 300));
		CHECK(recv_put(&srv, p.b, 1) && wc_is(&srv, 1, IBV_WC_SUCCESS) && no_wc(&srv, 50));
		CHECK(recv_put(&srv, p.b, 2) && wc_is(&srv, 2, IBV_WC_SUCCESS));
		CHECK(wc_is(&cli, 1, IBV_WC_SUCCESS) && wc_is(&cli, 2, IBV_WC_SUCCESS));
		/* a Send that has completed is delivered, even after its sender is gone */
		CHECK(send_put(&cli, p.a, 3) && wc_is(&cli, 3, IBV_WC_SUCCESS) && ibv_destroy_qp(p.a) == 0 &&
		      no_wc(&srv, 50));
		CHECK(recv_put(&srv, p.b, 3) && wc_is(&srv, 3, IBV_WC_SUCCESS) && ibv_destroy_qp(p.b) == 0);
		CHECK(both_new(&p, &cli, &srv) && both_up(&p) && carries(&cli, p.a, &srv, p.b));
		CHECK(rnr_set(p.b, 1) && send_put(&cli, p.a, 4) && no_wc(&srv, 200));
		CHECK(recv_put(&srv, p.b, 4) && wc_is(&srv, 4, IBV_WC_SUCCESS) && wc_is(&cli, 4, IBV_WC_SUCCESS));
	}
	CHECK(send_put(&cli, p.a, 5) && async(srv.verbs, IBV_EVENT_QP_REQ_ERR, &ev));
	CHECK(state_of(p.b) == IBV_QPS_ERR);
	async_sweep(srv.verbs);
	async_sweep(cli.verbs);
	CHECK(poll_n(&cli, &wc, 1)); /* a Send may succeed once TCP has delivered it */
	return both_end(&p);
}

/* An event of this type must come for the queue pair, perhaps after other events. */
static bool told(struct end *e, enum ibv_event_type type, const struct ibv_qp *qp)
{
	struct ibv_async_event ev = { .element.qp = NULL };

	while (ev.element.qp != qp || ev.event_type != type) {
		struct pollfd fd = { e->verbs->async_fd, POLLIN, 0 };
		CHECK(poll(&fd, 1, WAIT_MS) == 1 && ibv_get_async_event(e->verbs, &ev) == 0);
		ibv_ack_async_event(&ev);
	}
	return true;
}

/* On InfiniBand, an error that a completion reports raises no asynchronous event; an RNIC raises the event, too. */
static bool events_are_those_of_its_kind(void)
{
	bool adapter = srv.verbs->device->node_type == IBV_NODE_CA, apart = srv.verbs != cli.verbs;
	struct ibv_sge sge = { (uintptr_t)cli.buf, 64, cli.mr->lkey }, small = { (uintptr_t)srv.buf, 8, srv.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE }, *bad;
	struct ibv_recv_wr recv = { .wr_id = 2, .sg_list = &small, .num_sge = 1 }, *bad_recv;
	struct ibv_wc wc[2];
	struct both p;

	/* a fault for which the responder has no completion */
	CHECK(both_new(&p, &cli, &srv) && both_up(&p));
	wr.wr.rdma.remote_addr = (uintptr_t)srv.buf;
	wr.wr.rdma.rkey = srv.mr->rkey ^ 0x5a;
	CHECK(ibv_post_send(p.a, &wr, &bad) == 0 && wc_is(&cli, 1, IBV_WC_REM_ACCESS_ERR));
	CHECK(told(&srv, IBV_EVENT_QP_ACCESS_ERR, p.b));
	CHECK(adapter ? no_async(cli.verbs) : !apart || told(&cli, IBV_EVENT_QP_ACCESS_ERR, p.a));
	CHECK(both_end(&p));
	/* a fault for which both sides have a completion */
	CHECK(both_new(&p, &cli, &srv) && both_up(&p) && ibv_post_recv(p.b, &recv, &bad_recv) == 0);
	CHECK(send_put(&cli, p.a, 3) && poll_n(&srv, wc, 1) && poll_n(&cli, wc + 1, 1));
	CHECK(adapter ? no_async(srv.verbs) && no_async(cli.verbs) : told(&cli, IBV_EVENT_QP_FATAL, p.a));
	CHECK(both_end(&p));
	/* a fault of the sender */
	CHECK(both_new(&p, &cli, &srv) && both_up(&p));
	sge.lkey ^= 0x5a;
	wr.opcode = IBV_WR_SEND;
	CHECK(ibv_post_send(p.a, &wr, &bad) == 0 && wc_is(&cli, 1, IBV_WC_LOC_PROT_ERR));
	CHECK(adapter ? no_async(cli.verbs) : told(&cli, IBV_EVENT_QP_FATAL, p.a));
	CHECK(both_end(&p));
	/* a fault that no completion can tell: the CQ is full */
	struct ibv_cq *big = cli.cq, *tiny = ibv_create_cq(cli.verbs, 2, NULL, NULL, 0);
	CHECK(tiny != NULL);
	cli.cq = tiny;
	bool made = both_new(&p, &cli, &srv);
	cli.cq = big;
	CHECK(made && both_up(&p));
	for (uint64_t i = 0; i < 8; i++)
		CHECK(recv_put(&srv, p.b, i) && send_put(&cli, p.a, i));
	CHECK(told(&cli, IBV_EVENT_QP_FATAL, p.a));
	CHECK(both_end(&p) && ibv_destroy_cq(tiny) == 0);
	async_sweep(srv.verbs);
	async_sweep(cli.verbs);
	return true;
}

static bool error_flushes_ones_own_work(void)
{
	struct both p;

	CHECK(both_new(&p, &cli, &srv) && both_up(&p));
	CHECK(carries(&cli, p.a, &srv, p.b));
	CHECK(recv_put(&cli, p.a, 1) && recv_put(&cli, p.a, 2));
	CHECK(to_state(p.a, IBV_QPS_ERR));
	CHECK(wc_is(&cli, 1, IBV_WC_WR_FLUSH_ERR) && wc_is(&cli, 2, IBV_WC_WR_FLUSH_ERR));
	CHECK(send_put(&cli, p.a, 3) && wc_is(&cli, 3, IBV_WC_WR_FLUSH_ERR));
	CHECK(both_end(&p));
	return true;
}

static bool a_reset_qp_is_as_new(void)
{
	struct both p;

	CHECK(both_new(&p, &cli, &srv));
	for (int i = 0; i < 3; i++) {
		CHECK(both_up(&p));
		CHECK(carries(&cli, p.a, &srv, p.b) && carries(&srv, p.b, &cli, p.a));
		CHECK(to_state(p.a, IBV_QPS_RESET) && state_of(p.a) == IBV_QPS_RESET && to_init(p.a));
		if (i == 1)
			CHECK(to_state(p.b, IBV_QPS_ERR));
		CHECK(to_state(p.b, IBV_QPS_RESET) && to_init(p.b));
	}
	CHECK(both_end(&p));
	return true;
}

/* A reset removes the queue pair's completions that nobody has polled; those of other queue pairs stay, in order. */
static bool completions_go_with_a_reset(void)
{
	struct both p, q;
	struct ibv_wc wc[6];

	CHECK(both_new(&p, &cli, &srv) && both_new(&q, &cli, &srv));
	for (uint64_t i = 0; i < 6; i++)
		CHECK(recv_put(&cli, i & 1 ? q.a : p.a, i));
	/* the flushed receives of p come first, then those of q */
	CHECK(to_state(p.a, IBV_QPS_ERR) && to_state(q.a, IBV_QPS_ERR));
	for (uint64_t i = 6; i < 8; i++)
		CHECK(recv_put(&cli, p.a, i) && to_state(p.a, IBV_QPS_ERR));
	CHECK(to_state(p.a, IBV_QPS_RESET));
	CHECK(poll_n(&cli, wc, 3) && no_wc(&cli, 50));
	for (unsigned i = 0; i < 3; i++)
		CHECK(wc[i].qp_num == q.a->qp_num && wc[i].wr_id == 2 * i + 1 && wc[i].status == IBV_WC_WR_FLUSH_ERR);
	CHECK(to_init(p.a) && both_up(&p) && carries(&cli, p.a, &srv, p.b) && both_end(&p) && both_end(&q));
	return true;
}

static bool a_send_to_nobody_fails_in_the_end(void)
{
	struct ibv_qp *a = qp_new(&cli, IBV_QPT_RC), *gone = qp_new(&srv, IBV_QPT_RC);

	CHECK(a != NULL && gone != NULL);
	uint32_t qpn = gone->qp_num;
	CHECK(ibv_destroy_qp(gone) == 0);
	CHECK(to_init(a) && recv_put(&cli, a, 1) && to_rtr(a, &srv, qpn) && to_rts(a, 1, 0));
	CHECK(no_wc(&cli, NOT_LONG)); /* a side that only receives waits forever */
	CHECK(send_put(&cli, a, 2) && send_put(&cli, a, 3));
	CHECK(wc_is(&cli, 2, IBV_WC_RETRY_EXC_ERR) && wc_is(&cli, 3, IBV_WC_WR_FLUSH_ERR));
	CHECK(wc_is(&cli, 1, IBV_WC_WR_FLUSH_ERR));
	CHECK(ibv_destroy_qp(a) == 0);
	return true;
}

static bool sqd_holds_sends_back(void)
{
	struct both p;

	CHECK(both_new(&p, &cli, &srv) && both_up(&p));
	CHECK(carries(&cli, p.a, &srv, p.b));
	CHECK(to_state(p.a, IBV_QPS_SQD) && state_of(p.a) == IBV_QPS_SQD);
	CHECK(recv_put(&srv, p.b, 1) && send_put(&cli, p.a, 2));
	CHECK(no_wc(&cli, NOT_LONG) && no_wc(&srv, 1));
	CHECK(carries(&srv, p.b, &cli, p.a)); /* the other direction still works */
	CHECK(to_state(p.a, IBV_QPS_RTS));
	CHECK(wc_is(&srv, 1, IBV_WC_SUCCESS) && wc_is(&cli, 2, IBV_WC_SUCCESS));
	CHECK(both_end(&p));
	return true;
}

/* Posts a Read of the server's whole buffer. */
static bool read_put(struct ibv_qp *qp, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)cli.buf, BUF_LEN, cli.mr->lkey };
	struct ibv_send_wr rd = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ }, *bad;

	rd.wr.rdma.remote_addr = (uintptr_t)srv.buf;
	rd.wr.rdma.rkey = srv.mr->rkey;
	return ibv_post_send(qp, &rd, &bad) == 0;
}

/* IBV_EVENT_SQ_DRAINED comes once, after the requests under way are done, and only if the program has asked for it. */
static bool the_end_of_draining_is_told_if_asked_for(void)
{
	struct ibv_qp_attr sqd = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_async_event ev;
	struct both p;

	CHECK(both_new(&p, &cli, &srv) && both_up(&p) && carries(&cli, p.a, &srv, p.b));
	CHECK(to_state(p.a, IBV_QPS_SQD) && no_async(cli.verbs) && to_state(p.a, IBV_QPS_RTS));
	for (int i = 0; i < 4; i++) {
		CHECK(read_put(p.a, 6));
		if (i & 1)
			CHECK(wc_is(&cli, 6, IBV_WC_SUCCESS));
		CHECK(ibv_modify_qp(p.a, &sqd, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
		CHECK(async(cli.verbs, IBV_EVENT_SQ_DRAINED, &ev) && ev.element.qp == p.a && no_async(cli.verbs));
		CHECK(to_state(p.a, IBV_QPS_RTS));
		if (!(i & 1))
			CHECK(wc_is(&cli, 6, IBV_WC_SUCCESS));
	}
	return both_end(&p);
}

/* SQD exists for such changes. The end of draining that was asked for is told nevertheless. */
static bool attributes_change_while_the_send_queue_drains(void)
{
	struct ibv_qp_attr sqd = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD, .qp_access_flags = IBV_ACCESS_REMOTE_READ };
	struct ibv_async_event ev;
	struct both p;

	CHECK(both_new(&p, &cli, &srv) && both_up(&p) && carries(&cli, p.a, &srv, p.b));
	CHECK(read_put(p.a, 6));
	CHECK(ibv_modify_qp(p.a, &sqd, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
	CHECK(ibv_modify_qp(p.a, &a, IBV_QP_ACCESS_FLAGS) == 0);
	CHECK(ibv_modify_qp(p.a, &a, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS) == 0 && state_of(p.a) == IBV_QPS_SQD);
	CHECK(async(cli.verbs, IBV_EVENT_SQ_DRAINED, &ev) && ev.element.qp == p.a);
	CHECK(to_state(p.a, IBV_QPS_SQD) && no_async(cli.verbs) && to_state(p.a, IBV_QPS_RTS));
	return wc_is(&cli, 6, IBV_WC_SUCCESS) && both_end(&p);
}

static bool steps_that_cannot_be_are_refused(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR, .dest_qp_num = 5, .path_mtu = IBV_MTU_1024 };
	struct ibv_qp *qp = qp_new(&cli, IBV_QPT_RC);

	CHECK(qp != NULL);
	CHECK(to_state(qp, IBV_QPS_RESET) && ibv_modify_qp(qp, &a, QP_RTR_MASK) != 0);
	a.qp_state = IBV_QPS_RTS;
	CHECK(ibv_modify_qp(qp, &a, QP_RTS_MASK) != 0);
	CHECK(to_init(qp) && to_rtr(qp, &cli, 0xffffff));
	a.qp_state = IBV_QPS_RTR;
	CHECK(ibv_modify_qp(qp, &a, QP_RTR_MASK) != 0); /* the queue pair already has a peer */
	CHECK(ibv_destroy_qp(qp) == 0);
	return true;
}

/* ---- a queue pair that is its own peer ---- */

#define OWN_LEN 20000u

static bool own_up(struct ibv_qp *qp, bool grh)
{
	CHECK(to_init(qp) && to_rtr(qp, grh ? &cli : NULL, qp->qp_num) && to_rts(qp, 14, 7));
	return true;
}

/* Reads or writes between the two halves of the buffer. */
static bool own_access(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t rkey, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)cli.buf, OWN_LEN, cli.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = op }, *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)cli.buf + BUF_LEN / 2;
	wr.wr.rdma.rkey = rkey;
	CHECK(ibv_post_send(qp, &wr, &bad) == 0);
	return true;
}

/* Every operation that a connection carries. */
static bool own_work(struct ibv_qp *qp)
{
	uint8_t *peer = cli.buf + BUF_LEN / 2;

	for (uint8_t i = 1; i < 4; i++) {
		CHECK(carries(&cli, qp, &cli, qp));
		memset(cli.buf, i, OWN_LEN);
		CHECK(own_access(qp, IBV_WR_RDMA_WRITE, cli.mr->rkey, i) && wc_is(&cli, i, IBV_WC_SUCCESS));
		CHECK(peer[0] == i && memcmp(peer, cli.buf, OWN_LEN) == 0);
		memset(peer, i + 100, OWN_LEN);
		CHECK(own_access(qp, IBV_WR_RDMA_READ, cli.mr->rkey, i) && wc_is(&cli, i, IBV_WC_SUCCESS));
		CHECK(cli.buf[0] == i + 100 && memcmp(peer, cli.buf, OWN_LEN) == 0);
	}
	return true;
}

/* A queue pair that is its own peer learns of its faults as any other sender does. */
static bool own_faults(struct ibv_qp *qp)
{
	struct ibv_sge small = { (uintptr_t)cli.buf, 8, cli.mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 3, .sg_list = &small, .num_sge = 1 }, *bad;
	struct ibv_wc wc[2];

	CHECK(own_access(qp, IBV_WR_RDMA_WRITE, cli.mr->rkey ^ 0x5a, 1) && wc_is(&cli, 1, IBV_WC_REM_ACCESS_ERR));
	CHECK(state_of(qp) == IBV_QPS_ERR && to_state(qp, IBV_QPS_RESET) && own_up(qp, true));
	CHECK(own_access(qp, IBV_WR_RDMA_READ, cli.mr->rkey ^ 0x5a, 2) && wc_is(&cli, 2, IBV_WC_REM_ACCESS_ERR));
	CHECK(to_state(qp, IBV_QPS_RESET) && own_up(qp, false));
	CHECK(ibv_post_recv(qp, &recv, &bad) == 0 && send_put(&cli, qp, 4) && poll_n(&cli, wc, 2));
	int r = wc[1].wr_id == 3;
	CHECK(wc[r].wr_id == 3 && wc[r].status == IBV_WC_LOC_LEN_ERR);
	CHECK(wc[!r].wr_id == 4 && wc[!r].status == IBV_WC_REM_INV_REQ_ERR);
	async_sweep(cli.verbs);
	return true;
}

static bool a_qp_may_be_its_own_peer(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC };

	for (int i = 0; i < 4; i++) {
		struct ibv_qp *qp = qp_new(&cli, types[i / 2]);
		CHECK(qp != NULL && own_up(qp, i & 1) && own_work(qp));
		CHECK(to_state(qp, IBV_QPS_RESET) && own_up(qp, i & 1) && own_work(qp));
		CHECK(recv_put(&cli, qp, 7) && to_state(qp, IBV_QPS_ERR) && wc_is(&cli, 7, IBV_WC_WR_FLUSH_ERR));
		CHECK(ibv_destroy_qp(qp) == 0 && no_wc(&cli, 1));
	}
	struct ibv_qp *qp = qp_new(&cli, IBV_QPT_RC);
	CHECK(qp != NULL && own_up(qp, true) && own_faults(qp) && ibv_destroy_qp(qp) == 0);
	return true;
}

#define MANY 64
static bool many_at_once(void)
{
	struct both p[MANY];
	struct ibv_wc wc[2 * MANY];

	for (int i = 0; i < MANY; i++)
		CHECK(both_new(&p[i], &cli, i % 2 ? &cli : &srv));
	for (int i = 0; i < MANY; i++)
		CHECK(to_rtr(p[i].a, p[i].eb, p[i].b->qp_num) && to_rts(p[i].a, 14, 7));
	for (int i = 0; i < MANY; i++)
		CHECK(to_rtr(p[i].b, p[i].ea, p[i].a->qp_num) && to_rts(p[i].b, 14, 7));
	for (int i = 0; i < MANY; i++)
		CHECK(recv_put(p[i].eb, p[i].b, 1) && send_put(p[i].ea, p[i].a, 2));
	CHECK(poll_n(&cli, wc, MANY + MANY / 2) && poll_n(&srv, wc + MANY + MANY / 2, MANY / 2));
	for (int i = 0; i < 2 * MANY; i++)
		CHECK(wc[i].status == IBV_WC_SUCCESS);
	for (int i = 0; i < MANY; i++)
		CHECK(both_end(&p[i]));
	return true;
}

static bool unreliably_connected_ones_too(void)
{
	struct both p = { &cli, &srv, qp_new(&cli, IBV_QPT_UC), qp_new(&srv, IBV_QPT_UC) };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	CHECK(p.a != NULL && p.b != NULL && to_init(p.a) && to_init(p.b) && both_up(&p));
	CHECK(carries(&cli, p.a, &srv, p.b) && carries(&srv, p.b, &cli, p.a));
	CHECK(ibv_query_qp(p.a, &a, 0, &init) == 0 && init.qp_type == IBV_QPT_UC);
	CHECK(both_end(&p));
	return true;
}

int main(int argc, char **argv)
{
	static const struct rig_case cases[] = {
		CASE(either_comes_first),
		CASE(work_waits_for_the_peer),
		CASE(without_grh),
		CASE(what_was_set_is_told),
		CASE(the_peers_end_leaves_receives),
		CASE(messages_wait_for_receives_on_an_adapter),
		CASE(events_are_those_of_its_kind),
		CASE(error_flushes_ones_own_work),
		CASE(a_reset_qp_is_as_new),
		CASE(completions_go_with_a_reset),
		CASE(a_send_to_nobody_fails_in_the_end),
		CASE(sqd_holds_sends_back),
		CASE(the_end_of_draining_is_told_if_asked_for),
		CASE(attributes_change_while_the_send_queue_drains),
		CASE(steps_that_cannot_be_are_refused),
		CASE(a_qp_may_be_its_own_peer),
		CASE(many_at_once),
		CASE(unreliably_connected_ones_too),
	};

	return rig_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
