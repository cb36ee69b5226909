/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that are wrong in one way each, and right ones beside them: both ends of a connection in one process.
 *
 * usage: san_cases SERVER-ADDRESS CLIENT-ADDRESS CASE
 */
#include "cm_rig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT 7900

static bool end_close(struct end *e)
{
	CHECK(ibv_dereg_mr(e->mr) == 0);
	CHECK(ibv_destroy_cq(e->cq) == 0);
	CHECK(ibv_dealloc_pd(e->pd) == 0);
	CHECK(rdma_destroy_id(e->anchor) == 0);
	rdma_destroy_event_channel(e->ch);
	free(e->buf);
	return true;
}

static int send_with(struct rdma_cm_id *id, uint64_t wr_id, uint32_t len, unsigned int flags)
{
	struct ibv_sge sge = { (uintptr_t)cli.buf, len, cli.mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags
	};
	struct ibv_send_wr *bad;

	return ibv_post_send(id->qp, &wr, &bad);
}

static bool changed(bool by_program)
{
	struct ibv_wc wc;
	struct joined j;

	CHECK(join(&j, PORT));
	CHECK(post_recv(&srv, j.sid, 1, BUF_LEN) && post_send(&cli, j.cid, 2, BUF_LEN));
	if (by_program)
		cli.buf[BUF_LEN - 1] ^= 1;
	CHECK(poll_n(&cli, &wc, 1) && poll_n(&srv, &wc, 1));
	cli.buf[0] ^= 1; /* now it may */
	return part(&j);
}

static bool right(void) { return changed(false); }
static bool changed_buffer(void) { return changed(true); }

static bool dereg_in_use(void)
{
	struct joined j;

	CHECK(join(&j, PORT));
	CHECK(post_recv(&srv, j.sid, 1, BUF_LEN));
	CHECK(ibv_dereg_mr(srv.mr) == 0);
	CHECK((srv.mr = ibv_reg_mr(srv.pd, srv.buf, BUF_LEN, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	return part(&j);
}

/* What a queue pair had posted when its connection ended is flushed: its region may go. */
static bool dereg_after_the_end(void)
{
	struct joined j;

	CHECK(join(&j, PORT));
	CHECK(post_recv(&srv, j.sid, 1, BUF_LEN));
	CHECK(rdma_disconnect(j.sid) == 0);
	CHECK(ibv_dereg_mr(srv.mr) == 0);
	CHECK((srv.mr = ibv_reg_mr(srv.pd, srv.buf, BUF_LEN, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	return drop(j.cid) && drop(j.sid) && rdma_destroy_id(j.lid) == 0;
}

static bool read_and_send(unsigned int flags)
{
	struct ibv_wc wc[2];
	struct joined j;

	CHECK(join(&j, PORT));
	CHECK(post_recv(&srv, j.sid, 1, BUF_LEN) && post_read(&cli, &srv, j.cid, 2, 64));
	CHECK(send_with(j.cid, 3, 32, IBV_SEND_SIGNALED | flags) == 0);
	CHECK(poll_n(&cli, wc, 2) && poll_n(&srv, wc, 1));
	return part(&j);
}

static bool missing_fence(void) { return read_and_send(0); }
static bool fence(void) { return read_and_send(IBV_SEND_FENCE); }

static bool small_cq(void)
{
	struct ibv_cq *cq = srv.cq;
	struct ibv_wc wc;
	struct joined j;

	CHECK((srv.cq = ibv_create_cq(srv.verbs, 2, NULL, NULL, 0)) != NULL);
	CHECK(join(&j, PORT));
	for (uint64_t i = 0; i < 3; i++)
		CHECK(post_recv(&srv, j.sid, i, 64));
	CHECK(part(&j));
	while (ibv_poll_cq(srv.cq, 1, &wc) > 0)
		;
	CHECK(ibv_destroy_cq(srv.cq) == 0);
	srv.cq = cq;
	return true;
}

/* Four fit. What comes behind fits when the program has been told of one that it can be told of. */
static bool fills_up(unsigned int flags)
{
	struct ibv_wc wc[5];
	struct joined j;

	sig_all = 0;
	caps.max_send_wr = 4;
	CHECK(join(&j, PORT));
	for (uint64_t i = 0; i < 5; i++)
		CHECK(post_recv(&srv, j.sid, i, 64));
	for (uint64_t i = 0; i < 4; i++)
		CHECK(send_with(j.cid, i, 64, flags) == 0);
	CHECK(poll_n(&srv, wc, 4)); /* all four have been received, and room is there only by completions */
	CHECK(send_with(j.cid, 4, 64, flags) == ENOMEM);
	if (flags != 0)
		CHECK(poll_n(&cli, wc, 1) && send_with(j.cid, 4, 64, flags) == 0 && poll_n(&cli, wc, 4));
	return part(&j);
}

static bool never_signaled(void) { return fills_up(0); }
static bool full_queue(void) { return fills_up(IBV_SEND_SIGNALED); }

static bool beyond_caps(void)
{
	struct ibv_sge sge[2] = { { (uintptr_t)cli.buf, 8, cli.mr->lkey }, { (uintptr_t)cli.buf, 8, cli.mr->lkey } };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = sge, .num_sge = 2 }, *bad;
	struct joined j;

	CHECK(join(&j, PORT));
	CHECK(ibv_post_send(j.cid->qp, &wr, &bad) == EINVAL);
	CHECK(send_with(j.cid, 2, BUF_LEN, IBV_SEND_INLINE) == EINVAL);
	return part(&j);
}

/* It never comes to its end: ibv_destroy_cq() waits for the acknowledgement. */
static bool no_ack(void)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(srv.verbs);
	struct ibv_cq *got;
	struct joined j;
	void *context;

	CHECK(ch != NULL && (srv.cq = ibv_create_cq(srv.verbs, 16, NULL, ch, 0)) != NULL);
	CHECK(join(&j, PORT) && ibv_req_notify_cq(srv.cq, 0) == 0);
	CHECK(post_recv(&srv, j.sid, 1, 64) && post_send(&cli, j.cid, 2, 64));
	CHECK(ibv_get_cq_event(ch, &got, &context) == 0);
	CHECK(part(&j));
	return ibv_destroy_cq(srv.cq) == 0;
}

static bool long_private_data(void)
{
	static const uint8_t priv[100] = { 1 };
	struct rdma_conn_param p = param(4, 4, priv, sizeof(priv));
	struct joined j;

	CHECK(join_with(&j, PORT, &p, NULL));
	return part(&j);
}

static bool too_deep(void)
{
	struct rdma_conn_param cp = param(2, 2, NULL, 0), sp = param(2, 4, NULL, 0);
	struct joined j;

	CHECK(join_with(&j, PORT, &cp, &sp));
	return part(&j);
}

/* An event says that a completion is there; a device may raise it before, or once too often. */
static bool event_join(struct joined *j, struct ibv_comp_channel **ch)
{
	CHECK((*ch = ibv_create_comp_channel(cli.verbs)) != NULL);
	CHECK((cli.cq = ibv_create_cq(cli.verbs, 64, NULL, *ch, 0)) != NULL);
	CHECK(join(j, PORT) && ibv_req_notify_cq(cli.cq, 0) == 0);
	for (uint64_t i = 0; i < 32; i++)
		CHECK(post_recv(&srv, j->sid, i, 64));
	return true;
}

static bool event_part(struct joined *j, struct ibv_comp_channel *ch, struct ibv_cq *old)
{
	CHECK(part(j) && ibv_destroy_cq(cli.cq) == 0 && ibv_destroy_comp_channel(ch) == 0);
	cli.cq = old;
	return true;
}

static bool polls_once_for_an_event(void)
{
	struct ibv_cq *old = cli.cq, *got;
	struct ibv_comp_channel *ch;
	struct joined j;
	struct ibv_wc wc;
	void *context;

	CHECK(event_join(&j, &ch));
	CHECK(post_send(&cli, j.cid, 1, 64));
	CHECK(ibv_get_cq_event(ch, &got, &context) == 0);
	ibv_ack_cq_events(got, 1);
	const int k = ibv_poll_cq(cli.cq, 1, &wc);
	CHECK(k == 1);
	return event_part(&j, ch, old);
}

static bool waits_for_events(void)
{
	struct ibv_cq *old = cli.cq, *got;
	struct ibv_comp_channel *ch;
	struct joined j;
	struct ibv_wc wc;
	void *context;
	int done = 0, k;

	CHECK(event_join(&j, &ch));
	for (uint64_t i = 0; i < 32; i++)
		CHECK(post_send(&cli, j.cid, i, 64));
	while (done < 32) {
		CHECK(ibv_get_cq_event(ch, &got, &context) == 0);
		ibv_ack_cq_events(got, 1);
		CHECK(ibv_req_notify_cq(cli.cq, 0) == 0);
		while ((k = ibv_poll_cq(cli.cq, 1, &wc)) > 0)
			done += k;
		CHECK(k == 0);
	}
	return event_part(&j, ch, old);
}

static bool leaks(void)
{
	CHECK(ibv_alloc_pd(srv.verbs) != NULL);
	CHECK(ibv_reg_mr(cli.pd, cli.buf, 64, 0) != NULL && ibv_reg_mr(cli.pd, cli.buf, 64, 0) != NULL);
	return true;
}

static const struct rig_case cases[] = {
	CASE(right),
	CASE(changed_buffer),
	CASE(dereg_in_use),
	CASE(dereg_after_the_end),
	CASE(missing_fence),
	CASE(fence),
	CASE(small_cq),
	CASE(never_signaled),
	CASE(full_queue),
	CASE(beyond_caps),
	CASE(no_ack),
	CASE(long_private_data),
	CASE(too_deep),
	CASE(leaks),
	CASE(polls_once_for_an_event),
	CASE(waits_for_events),
};

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	end_open(&srv, argv[1]);
	end_open(&cli, argv[2]);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[3], cases[i].name) != 0)
			continue;
		if (!cases[i].run())
			return 1;
		/* Regions that are left keep their protection domain: the ends are left too. */
		return cases[i].run == leaks || (end_close(&srv) && end_close(&cli)) ? 0 : 1;
	}
	return 2;
}
