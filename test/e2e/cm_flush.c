/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of cm_cases.c about work requests. */
#include "cm_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

bool depths_meet(void)
{
	struct rdma_conn_param cp = param(3, 2, NULL, 0), sp = param(1, 8, NULL, 0);
	struct rdma_cm_id *lid = listen_on(&srv, 8016, 4), *cid, *sid;
	struct ibv_wc wc[16];
	struct got g;

	CHECK(lid != NULL && (cid = dial(8016, &cp)) != NULL);
	CHECK(want(srv.ch, RDMA_CM_EVENT_CONNECT_REQUEST, &g));
	CHECK(g.ird == 2 && g.ord == 3); /* the client's ord and ird: its outgoing depth is the server's incoming one */
	sid = g.id;
	sp.initiator_depth = 3;
	CHECK(give_qp(&srv, sid) && rdma_accept(sid, &sp) == 0);
	CHECK(want(cli.ch, RDMA_CM_EVENT_ESTABLISHED, &g));
	CHECK(g.ord == 1 && g.ird == 3);
	CHECK(want(srv.ch, RDMA_CM_EVENT_ESTABLISHED, NULL));
	for (uint64_t i = 0; i < 16; i++) /* more than may be outstanding: the rest waits */
		CHECK(post_read(&cli, &srv, cid, i, 4096));
	CHECK(poll_n(&cli, wc, 16));
	for (int i = 0; i < 16; i++)
		CHECK(wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id == (uint64_t)i);
	return part(&(struct joined){ lid, sid, cid });
}

bool depth_0_forbids_reads(void)
{
	struct rdma_conn_param cp = param(0, 0, NULL, 0), sp = param(0, 0, NULL, 0);
	struct ibv_wc wc;
	struct joined j;

	CHECK(join_with(&j, 8017, &cp, &sp));
	if (post_read(&cli, &srv, j.cid, 1, 64)) {
		CHECK(poll_n(&cli, &wc, 1) && wc.status != IBV_WC_SUCCESS);
		CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
		return drop(j.cid) && drop(j.sid) && rdma_destroy_id(j.lid) == 0;
	}
	return part(&j);
}

bool qp_error_flushes_everything_in_order(void)
{
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc[64];
	struct joined j;
	uint64_t sends = 0, recvs = 100;

	CHECK(join(&j, 8018));
	for (uint64_t i = 0; i < 20; i++)
		CHECK(post_recv(&cli, j.cid, 100 + i, 64) && post_recv(&srv, j.sid, i, 64));
	CHECK(ibv_modify_qp(j.cid->qp, &err, IBV_QP_STATE) == 0);
	for (uint64_t i = 0; i < 10; i++)
		CHECK(post_send(&cli, j.cid, i, 64)); /* a request posted in the error state is flushed too */
	CHECK(poll_n(&cli, wc, 30));
	for (int i = 0; i < 30; i++) {
		CHECK(wc[i].status == IBV_WC_WR_FLUSH_ERR);
		CHECK(wc[i].wr_id == (wc[i].wr_id < 100 ? sends++ : recvs++));
	}
	CHECK(sends == 10 && recvs == 120);
	CHECK(poll_n(&srv, wc, 20)); /* the end of the connection flushes the peer's receives */
	for (uint64_t i = 0; i < 20; i++)
		CHECK(wc[i].status == IBV_WC_WR_FLUSH_ERR && wc[i].wr_id == i);
	CHECK(no_wc(&cli, 50) && no_wc(&srv, 50));
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	return drop(j.cid) && drop(j.sid) && rdma_destroy_id(j.lid) == 0;
}

/*
 * A program that asks for events before it has polled gets the DISCONNECTED event once it has polled. A program that
 * does not poll gets the event a moment later. The channel's descriptor must never be readable without an event, or an
 * epoll loop would spin.
 */
bool the_end_is_told_behind_completions(void)
{
	const int flags = fcntl(srv.ch->fd, F_GETFL);
	struct pollfd p = { srv.ch->fd, POLLIN, 0 };
	struct rdma_cm_event *e;
	struct ibv_wc wc[3];
	struct joined j;

	for (int polls = 0; polls < 2; polls++) {
		CHECK(join(&j, 8060));
		for (uint64_t i = 0; i < 3; i++)
			CHECK(post_recv(&srv, j.sid, i, 64) && post_send(&cli, j.cid, i, 64));
		CHECK(poll_n(&cli, wc, 3) && rdma_disconnect(j.cid) == 0);
		CHECK(fcntl(srv.ch->fd, F_SETFL, flags | O_NONBLOCK) == 0);
		if (polls)
			CHECK(poll_n(&srv, wc, 3) && wc[2].status == IBV_WC_SUCCESS);
		CHECK(poll(&p, 1, WAIT_MS) == 1);
		CHECK(rdma_get_cm_event(srv.ch, &e) == 0 && e->event == RDMA_CM_EVENT_DISCONNECTED && e->id == j.sid);
		CHECK(rdma_ack_cm_event(e) == 0 && fcntl(srv.ch->fd, F_SETFL, flags) == 0);
		CHECK(polls || poll_n(&srv, wc, 3));
		CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
		CHECK(drop(j.cid) && drop(j.sid) && rdma_destroy_id(j.lid) == 0);
	}
	return true;
}

bool last_completion_comes_out_of_a_drain(void)
{
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc[64];
	struct joined j;

	for (int round = 0; round < 20; round++) {
		bool flushed = false;
		CHECK(join(&j, 8019));
		for (uint64_t i = 0; i < 40; i++)
			CHECK(post_recv(&srv, j.sid, 1000 + i, 4096));
		for (uint64_t i = 0; i < 40; i++)
			CHECK(post_send(&cli, j.cid, i, 4096));
		CHECK(ibv_modify_qp(j.cid->qp, &err, IBV_QP_STATE) == 0);
		CHECK(post_send(&cli, j.cid, 40, 1)); /* in the error state, as by ib_drain_sq() of the kernel */
		CHECK(poll_n(&cli, wc, 41));
		for (uint64_t i = 0; i < 41; i++) {
			CHECK(wc[i].wr_id == i);
			CHECK(wc[i].status == IBV_WC_WR_FLUSH_ERR || (wc[i].status == IBV_WC_SUCCESS && !flushed));
			flushed = wc[i].status == IBV_WC_WR_FLUSH_ERR;
		}
		CHECK(flushed && poll_n(&srv, wc, 40));
		CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
		CHECK(drop(j.cid) && drop(j.sid) && rdma_destroy_id(j.lid) == 0);
	}
	return true;
}

bool disconnect_lets_posted_sends_through(void)
{
	struct ibv_wc wc[64];
	struct joined j;

	CHECK(join(&j, 8020));
	for (uint64_t i = 0; i < 40; i++)
		CHECK(post_recv(&srv, j.sid, i, 4096));
	for (uint64_t i = 0; i < 40; i++)
		CHECK(post_send(&cli, j.cid, i, 4096));
	CHECK(poll_n(&cli, wc, 40));
	for (int i = 0; i < 40; i++)
		CHECK(wc[i].status == IBV_WC_SUCCESS);
	CHECK(rdma_disconnect(j.cid) == 0);
	CHECK(poll_n(&srv, wc, 40));
	for (uint64_t i = 0; i < 40; i++)
		CHECK(wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id == i);
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	return drop(j.cid) && drop(j.sid) && rdma_destroy_id(j.lid) == 0;
}
