/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues, and objects that change while they are in use: both ends in one process, over two devices of
 * one daemon.
 *
 * usage: object_cases SERVER-ADDRESS CLIENT-ADDRESS [CASE...]	prints "ok NAME" or "not ok NAME" for each case
 *        object_cases --list
 */
#include "object_cases.h"

#include <rdma/rdma_verbs.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- shared receive queues ---- */

#define PAIRS 4
#define PART  4096u /* bytes of the server's buffer for each receive */

static struct ibv_srq *srq_make(uint32_t wrs)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = wrs, .max_sge = 1 } };

	return ibv_create_srq(srv.pd, &a);
}

static bool srq_post(struct ibv_srq *srq, uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)srv.buf + wr_id % (BUF_LEN / PART) * PART, PART, srv.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_srq_recv(srq, &wr, &bad) == 0;
}

/* Connections whose server sides share one receive queue. */
struct crowd {
	struct rdma_cm_id *lid, *sid[PAIRS], *cid[PAIRS];
	struct ibv_srq *srq;
};

static bool crowd_with(struct crowd *w, uint16_t port, struct ibv_srq *srq, uint8_t rnr_retry)
{
	struct rdma_conn_param p = param(4, 4, NULL, 0);
	struct got g;

	p.rnr_retry_count = rnr_retry;
	w->srq = srq;
	CHECK(srq != NULL && (w->lid = listen_on(&srv, port, 16)) != NULL);
	for (int i = 0; i < PAIRS; i++) {
		struct ibv_qp_init_attr a = { .send_cq = srv.cq,
					      .recv_cq = srv.cq,
					      .srq = srq,
					      .qp_type = IBV_QPT_RC,
					      .sq_sig_all = 1,
					      .cap = caps };
		CHECK((w->cid[i] = dial(port, NULL)) != NULL);
		CHECK(want(srv.ch, RDMA_CM_EVENT_CONNECT_REQUEST, &g));
		CHECK(rdma_create_qp(g.id, srv.pd, &a) == 0 && a.cap.max_recv_wr == 0 && g.id->qp->srq == srq);
		w->sid[i] = g.id;
		CHECK(rdma_accept(g.id, &p) == 0);
		CHECK(want(cli.ch, RDMA_CM_EVENT_ESTABLISHED, NULL) && want(srv.ch, RDMA_CM_EVENT_ESTABLISHED, NULL));
	}
	return true;
}

static bool crowd_make(struct crowd *w, uint16_t port, struct ibv_srq *srq) { return crowd_with(w, port, srq, 0); }

static bool crowd_part(struct crowd *w)
{
	for (int i = 0; i < PAIRS; i++) {
		if (w->cid[i] == NULL)
			continue;
		CHECK(rdma_disconnect(w->cid[i]) == 0);
		CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
		CHECK(drop(w->cid[i]));
		CHECK(i != 0 || ibv_destroy_srq(w->srq) == EBUSY);
		CHECK(drop(w->sid[i]));
	}
	async_sweep(srv.verbs);
	return rdma_destroy_id(w->lid) == 0 && ibv_destroy_srq(w->srq) == 0;
}

/* Every message ends in a receive of its own, with its sender's bytes and QP number. */
static bool queue_pairs_share_their_receives(void)
{
	static uint8_t seen[2048];
	struct ibv_wc wc[PAIRS];
	struct crowd w;
	unsigned sent = 0;

	CHECK(crowd_make(&w, 8200, srq_make(16)));
	for (unsigned i = 0; i < 16; i++)
		CHECK(srq_post(w.srq, i));
	memset(seen, 0, sizeof(seen));
	for (unsigned round = 0; round < 400; round++) {
		for (unsigned i = 0; i < PAIRS; i++, sent++) {
			cli.buf[i * PART] = (uint8_t)i;
			memset(cli.buf + i * PART + 1, (int)round, 99);
			struct ibv_sge sge = { (uintptr_t)cli.buf + i * PART, 100, cli.mr->lkey };
			struct ibv_send_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND },
					   *bad;
			CHECK(ibv_post_send(w.cid[i]->qp, &wr, &bad) == 0);
		}
		CHECK(poll_n(&srv, wc, PAIRS));
		for (unsigned i = 0; i < PAIRS; i++) {
			const uint8_t *at = srv.buf + wc[i].wr_id % (BUF_LEN / PART) * PART;
			CHECK(wc[i].status == IBV_WC_SUCCESS && wc[i].byte_len == 100 && wc[i].wr_id < sizeof(seen));
			CHECK(seen[wc[i].wr_id]++ == 0 && at[0] < PAIRS && at[1] == (uint8_t)round);
			CHECK(wc[i].qp_num == w.sid[at[0]]->qp->qp_num);
			CHECK(srq_post(w.srq, 16 + round * PAIRS + i));
		}
		CHECK(poll_n(&cli, wc, PAIRS));
	}
	return crowd_part(&w);
}

static bool a_limit_is_told_once(void)
{
	struct ibv_srq_attr a = { .srq_limit = 3 };
	struct ibv_async_event ev;
	struct ibv_wc wc[2];
	struct crowd w;

	CHECK(crowd_make(&w, 8201, srq_make(16)));
	for (unsigned i = 0; i < 6; i++)
		CHECK(srq_post(w.srq, i));
	CHECK(ibv_modify_srq(w.srq, &a, IBV_SRQ_LIMIT) == 0 && ibv_query_srq(w.srq, &a) == 0 && a.srq_limit == 3);
	for (unsigned i = 0; i < 3; i++)
		CHECK(post_send(&cli, w.cid[i], 1, 8) && poll_n(&srv, wc, 1) && poll_n(&cli, wc, 1));
	CHECK(no_async(srv.verbs)); /* three receives are left */
	CHECK(post_send(&cli, w.cid[3], 1, 8) && poll_n(&srv, wc, 1) && poll_n(&cli, wc, 1));
	CHECK(async(srv.verbs, IBV_EVENT_SRQ_LIMIT_REACHED, &ev) && ev.element.srq == w.srq);
	CHECK(ibv_query_srq(w.srq, &a) == 0 && a.srq_limit == 0);
	CHECK(post_send(&cli, w.cid[0], 1, 8) && poll_n(&srv, wc, 1) && poll_n(&cli, wc, 1) && no_async(srv.verbs));
	a = (struct ibv_srq_attr){ .srq_limit = 2 };
	CHECK(ibv_modify_srq(w.srq, &a, IBV_SRQ_LIMIT) == 0);
	CHECK(post_send(&cli, w.cid[1], 1, 8) && poll_n(&srv, wc, 1) && poll_n(&cli, wc, 1));
	CHECK(async(srv.verbs, IBV_EVENT_SRQ_LIMIT_REACHED, &ev));
	return crowd_part(&w);
}

/*
 * One queue pair fails: its event tells when it has finished its receives, and the other receives stay for the other
 * queue pairs.
 */
static bool a_failed_one_flushes_nothing_of_the_others(void)
{
	struct ibv_qp_attr to_err = { .qp_state = IBV_QPS_ERR };
	struct ibv_async_event ev;
	struct ibv_wc wc[8];
	struct crowd w;

	CHECK(crowd_make(&w, 8202, srq_make(16)));
	for (unsigned i = 0; i < 8; i++)
		CHECK(srq_post(w.srq, i));
	CHECK(ibv_modify_qp(w.sid[0]->qp, &to_err, IBV_QP_STATE) == 0);
	CHECK(async(srv.verbs, IBV_EVENT_QP_LAST_WQE_REACHED, &ev) && ev.element.qp == w.sid[0]->qp);
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	CHECK(no_wc(&srv, 50));
	for (unsigned i = 0; i < 8; i++) {
		CHECK(post_send(&cli, w.cid[1 + i % 3], i, 8) && poll_n(&srv, wc, 1) && poll_n(&cli, wc + 1, 1));
		CHECK(wc[0].status == IBV_WC_SUCCESS && wc[0].wr_id == i);
	}
	CHECK(drop(w.cid[0]) && drop(w.sid[0]));
	w.cid[0] = NULL;
	async_sweep(cli.verbs);
	return crowd_part(&w);
}

static bool a_message_without_a_receive_ends_its_sender(void)
{
	struct ibv_wc wc[4];
	struct crowd w;

	CHECK(crowd_make(&w, 8203, srq_make(16)));
	CHECK(post_send(&cli, w.cid[0], 1, 8));
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	CHECK(poll_n(&cli, wc, 1));
	CHECK(srq_post(w.srq, 5) && post_send(&cli, w.cid[1], 2, 8) && poll_n(&srv, wc, 1) && wc[0].wr_id == 5);
	CHECK(poll_n(&cli, wc, 1));
	CHECK(drop(w.cid[0]) && drop(w.sid[0]));
	w.cid[0] = NULL;
	async_sweep(cli.verbs);
	return crowd_part(&w);
}

/*
 * On an adapter, messages wait for receives as long as rnr_retry says. Each receive serves one waiting message,
 * whenever the receive is posted.
 */
static bool messages_wait_for_receives_on_an_adapter(void)
{
	bool adapter = srv.verbs->device->node_type == IBV_NODE_CA;
	struct ibv_wc wc[PAIRS];
	struct crowd w;

	CHECK(crowd_with(&w, 8207, srq_make(16), 7));
	if (!adapter) {
		CHECK(post_send(&cli, w.cid[0], 1, 8));
		CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
		CHECK(poll_n(&cli, wc, 1) && drop(w.cid[0]) && drop(w.sid[0]));
		w.cid[0] = NULL;
		async_sweep(cli.verbs);
		return crowd_part(&w);
	}
	for (unsigned round = 0; round < 3; round++) {
		for (int i = 0; i < PAIRS; i++)
			CHECK(post_send(&cli, w.cid[i], 1, 8));
		CHECK(no_wc(&srv, round * 200)); /* long enough for the workers to sleep */
		for (unsigned i = 0; i < PAIRS; i++) {
			CHECK(srq_post(w.srq, i) && poll_n(&srv, wc, 1));
			CHECK(wc[0].status == IBV_WC_SUCCESS && wc[0].wr_id == i && wc[0].byte_len == 8);
		}
		CHECK(poll_n(&cli, wc, PAIRS) && wc[0].status == IBV_WC_SUCCESS);
	}
	return crowd_part(&w);
}

/* rdma_create_srq() gives an id a shared receive queue. The id's QPs use it without naming it in their attributes. */
static bool an_id_has_a_shared_receive_queue(void)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 20, .max_sge = 2 } };
	struct ibv_srq *srq;
	struct ibv_wc wc[2];
	struct joined j;
	struct got g;
	struct rdma_conn_param p = param(4, 4, NULL, 0);

	CHECK((j.lid = listen_on(&srv, 8204, 16)) != NULL && (j.cid = dial(8204, NULL)) != NULL);
	CHECK(want(srv.ch, RDMA_CM_EVENT_CONNECT_REQUEST, &g));
	j.sid = g.id;
	CHECK(rdma_create_srq(j.sid, srv.pd, &a) == 0 && (srq = j.sid->srq) != NULL && a.attr.max_wr >= 20);
	CHECK(give_qp(&srv, j.sid) && j.sid->qp->srq == srq && rdma_accept(j.sid, &p) == 0);
	CHECK(want(cli.ch, RDMA_CM_EVENT_ESTABLISHED, NULL) && want(srv.ch, RDMA_CM_EVENT_ESTABLISHED, NULL));
	CHECK(srq_post(srq, 7) && post_send(&cli, j.cid, 1, 8) && poll_n(&srv, wc, 1) && wc[0].wr_id == 7);
	CHECK(poll_n(&cli, wc, 1) && rdma_disconnect(j.cid) == 0);
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	rdma_destroy_qp(j.sid);
	rdma_destroy_srq(j.sid);
	async_sweep(srv.verbs);
	return j.sid->srq == NULL && drop(j.sid) && drop(j.cid) && rdma_destroy_id(j.lid) == 0;
}

/* ---- completion queues ---- */

/* The queue grows while completions arrive: none may be lost or come twice, and their order stays. */
static bool a_completion_queue_grows_under_traffic(void)
{
	struct ibv_cq *big = cli.cq, *small = ibv_create_cq(cli.verbs, 128, NULL, NULL, 0);
	uint64_t next = 0, posted = 0;
	struct ibv_wc wc[32];
	struct joined j;

	CHECK(small != NULL);
	cli.cq = small;
	bool ok = join(&j, 8205);
	cli.cq = big;
	CHECK(ok);
	for (int size = 128; size <= 32768; size *= 2) {
		for (unsigned round = 0; round < 40; round++) {
			while (posted - next < 100) {
				struct ibv_sge sge = { (uintptr_t)cli.buf, 8, cli.mr->lkey };
				struct ibv_send_wr wr = { .wr_id = posted,
							  .sg_list = &sge,
							  .num_sge = 1,
							  .opcode = IBV_WR_RDMA_WRITE },
						   *bad;
				wr.wr.rdma.remote_addr = (uintptr_t)srv.buf;
				wr.wr.rdma.rkey = srv.mr->rkey;
				CHECK(ibv_post_send(j.cid->qp, &wr, &bad) == 0);
				posted++;
			}
			if (round == 20)
				CHECK(ibv_resize_cq(small, size) == 0 && small->cqe >= size);
			int n = ibv_poll_cq(small, 32, wc);
			CHECK(n >= 0);
			for (int i = 0; i < n; i++, next++)
				CHECK(wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id == next);
		}
	}
	while (next < posted) {
		int n = ibv_poll_cq(small, 32, wc);
		CHECK(n >= 0);
		for (int i = 0; i < n; i++, next++)
			CHECK(wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id == next);
	}
	CHECK(ibv_resize_cq(small, 0) == EINVAL && ibv_resize_cq(small, 1 << 30) == EINVAL &&
	      ibv_resize_cq(small, 262144) == 0);
	return part(&j) && ibv_destroy_cq(small) == 0;
}

static bool what_nobody_has_polled_must_fit(void)
{
	struct ibv_cq *big = cli.cq, *small = ibv_create_cq(cli.verbs, 16, NULL, NULL, 0);
	struct ibv_wc wc[16];
	struct joined j;

	CHECK(small != NULL);
	cli.cq = small;
	bool ok = join(&j, 8206);
	cli.cq = big;
	CHECK(ok);
	for (uint64_t i = 0; i < 10; i++)
		CHECK(post_recv(&srv, j.sid, i, 8) && post_send(&cli, j.cid, i, 8));
	struct end e = { .cq = srv.cq };
	CHECK(poll_n(&e, wc, 10));
	int rc = 0;
	for (unsigned i = 0; i < 10000 && (rc = ibv_resize_cq(small, 9)) == 0; i++)
		usleep(1000); /* the last acknowledgement is still under way */
	CHECK(rc == EINVAL && ibv_resize_cq(small, 10) == 0);
	e.cq = small;
	CHECK(poll_n(&e, wc, 10) && ibv_resize_cq(small, 1) == 0);
	return part(&j) && ibv_destroy_cq(small) == 0;
}

/* ---- ids ---- */

/*
 * RDMA_CM_EVENT_TIMEWAIT_EXIT exists in InfiniBand's connection manager only. So devices that present themselves as
 * InfiniBand adapters raise it, and iWARP devices do not.
 */
static bool an_adapter_tells_of_the_end_of_time_wait(void)
{
	bool adapter = srv.verbs->device->transport_type == IBV_TRANSPORT_IB;
	struct joined j;
	struct got g;

	CHECK(join(&j, 8207) && rdma_disconnect(j.cid) == 0);
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	if (adapter)
		CHECK(want(cli.ch, RDMA_CM_EVENT_TIMEWAIT_EXIT, &g) && g.id == j.cid &&
		      want(srv.ch, RDMA_CM_EVENT_TIMEWAIT_EXIT, &g) && g.id == j.sid);
	CHECK(quiet(cli.ch, adapter ? 50 : 1500) && quiet(srv.ch, 50));
	return drop(j.cid) && drop(j.sid) && rdma_destroy_id(j.lid) == 0;
}

static const struct rig_case cases[] = {
	CASE(queue_pairs_share_their_receives),
	CASE(a_limit_is_told_once),
	CASE(a_failed_one_flushes_nothing_of_the_others),
	CASE(a_message_without_a_receive_ends_its_sender),
	CASE(messages_wait_for_receives_on_an_adapter),
	CASE(an_id_has_a_shared_receive_queue),
	CASE(a_completion_queue_grows_under_traffic),
	CASE(what_nobody_has_polled_must_fit),
	CASE(a_region_moves_to_other_memory),
	CASE(a_region_changes_its_rights),
	CASE(a_region_changes_its_domain),
	CASE(a_change_that_cannot_be_leaves_the_region_as_it_is),
	CASE(a_null_region_gives_zeros_and_takes_anything),
	CASE(a_region_may_begin_anywhere),
	CASE(rights_that_cannot_be_are_refused),
	CASE(an_adapter_tells_of_the_end_of_time_wait),
};

int main(int argc, char **argv) { return rig_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0])); }
