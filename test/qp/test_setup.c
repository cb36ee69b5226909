/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA set-up and end of a connection, with a peer that breaks the rules, is slow, or sends odd pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "raw.h"

static void expect_refused(const uint8_t *frame, uint32_t len)
{
	open_bench(0, NULL);
	rig_raw_connect(B.r, 0);
	send_bytes(frame, len);
	rig_settle(B.r);
	assert_true(raw()->reset);
	assert_int_equal(B.r->n[1].n_fx, 1);
	assert_int_equal(B.r->n[1].fx[0].type, QP_FX_CLOSED);
	assert_int_equal(dev()->ctx.rc.qp.stats.neg_errors, 1);
	close_bench();
}

static void bad_requests(void **state)
{
	const struct mpa_policy p = { .rev = 1, .crc = true, .ird = 1, .ord = 1 };
	struct mpa_out out;

	(void)state;
	assert_int_equal(mpa_neg_request(&p, junk, 512, &out), MPA_NEG_OK);
	uint8_t f[MPA_FRAME_MAX];
	memcpy(f, out.buf, sizeof(f));
	f[17] = 0; /* revision 0 */
	expect_refused(f, MPA_HDR_LEN);
	f[17] = 3;
	expect_refused(f, MPA_HDR_LEN);
	f[17] = 1;
	f[18] = 2; /* private data of 513 */
	f[19] = 1;
	expect_refused(f, MPA_HDR_LEN);
	memcpy(f, out.buf, sizeof(f));
	f[3] ^= 1; /* an octet of the key */
	expect_refused(f, MPA_HDR_LEN);
	memcpy(f, out.buf, sizeof(f));
	memcpy(f, "MPA ID Rep Frame", 16);
	expect_refused(f, MPA_HDR_LEN);
}

/* MPA revision 1 has no depths, and 0x3FFF in revision 2 names none: the program then gets the device's own depths. */
static void a_peer_that_names_no_depths_does_not_have_0(void **state)
{
	struct mpa_policy p = { .crc = true, .ird = MPA_DEPTH_NONE, .ord = MPA_DEPTH_NONE };
	struct rig_cfg cfg;
	struct mpa_out out;

	(void)state;
	for (p.rev = 1; p.rev <= 2; p.rev++) {
		rig_defaults(&cfg);
		cfg.manual = true;
		open_bench(0, &cfg);
		rig_raw_connect(B.r, 0);
		assert_int_equal(mpa_neg_request(&p, NULL, 0, &out), MPA_NEG_OK);
		send_bytes(out.buf, out.len);
		rig_settle(B.r);
		const struct qp_fx *fx = rig_fx(B.r, 1, QP_FX_CONNECT_REQUEST);
		assert_non_null(fx);
		assert_int_equal(fx->ird, cfg.ird);
		assert_int_equal(fx->ord, cfg.ord);
		close_bench();
	}
}

static void request_never_comes(void **state)
{
	(void)state;
	open_bench(0, NULL);
	rig_raw_connect(B.r, 0);
	send_bytes("MPA ID Req", 10);
	rig_run(B.r, 11 * RN_NS_PER_S);
	assert_true(raw()->reset);
	assert_int_equal(dev()->ctx.rc.qp.stats.setup_timeouts, 1);
	assert_int_equal(rc_get_state(&dev()->conn[0].rc), RC_FREE);
	close_bench();
}

static void reply_never_comes(void **state)
{
	(void)state;
	open_bench(1, NULL);
	rig_connect_start(B.r, 0, NULL, 0);
	rig_run(B.r, 11 * RN_NS_PER_S);
	assert_int_equal(rig_fx_count(B.r, 0, QP_FX_UNREACHABLE), 1);
	assert_int_equal(dev()->q[0].qp.state, QP_S_INIT);
	close_bench();
}

/* The Reply in two parts, cut at every byte; and the Reply in one segment with the peer's first FPDU. */
static void reply_split_and_merged(void **state)
{
	const struct mpa_policy p = raw_policy();
	uint32_t total = MPA_HDR_LEN + MPA_ENH_LEN + 9;

	(void)state;
	for (uint32_t cut = 0; cut <= total; cut++) {
		struct mpa_neg_rx nrx;
		struct mpa_frame f;
		struct mpa_out out;
		struct mpa_agreed a;
		struct qp_cqe e;
		uint32_t used;

		open_bench(1, NULL);
		rig_connect_start(B.r, 0, NULL, 0);
		struct qp_sge s = rig_sge(dev(), 0, 100);
		rig_post_recv(dev(), 0, 4, &s, 1);
		rig_settle(B.r);
		mpa_neg_rx_init(&nrx, false);
		assert_int_equal(mpa_neg_feed(&nrx, raw()->rx, raw()->rx_len, &used, &f), MPA_NEG_OK);
		assert_int_equal(mpa_neg_accept(&p, &f, (const uint8_t *)"willkommen", 9, &out, &a), MPA_NEG_OK);
		assert_int_equal(out.len, total);
		send_bytes(out.buf, cut);
		rig_settle(B.r);
		send_bytes(out.buf + cut, total - cut);
		send_send(1, 0, 33, true);
		rig_settle(B.r);
		assert_int_equal(rig_fx_count(B.r, 0, QP_FX_ESTABLISHED), 1);
		assert_int_equal(rig_fx(B.r, 0, QP_FX_ESTABLISHED)->priv_len, 9);
		assert_true(rig_poll(&dev()->rcq_client, &e));
		assert_int_equal(e.byte_len, 33);
		close_bench();
	}
}

static void rejected(void **state)
{
	const struct mpa_policy p = raw_policy();
	struct mpa_neg_rx nrx;
	struct mpa_frame f;
	struct mpa_out out;
	uint32_t used;

	(void)state;
	open_bench(1, NULL);
	rig_connect_start(B.r, 0, NULL, 0);
	rig_settle(B.r);
	mpa_neg_rx_init(&nrx, false);
	assert_int_equal(mpa_neg_feed(&nrx, raw()->rx, raw()->rx_len, &used, &f), MPA_NEG_OK);
	assert_int_equal(mpa_neg_reject(&p, &f, (const uint8_t *)"no", 2, &out), MPA_NEG_OK);
	send_bytes(out.buf, out.len);
	rig_settle(B.r);
	const struct qp_fx *fx = rig_fx(B.r, 0, QP_FX_REJECTED);
	assert_non_null(fx);
	assert_int_equal(fx->priv_len, 2);
	assert_memory_equal(B.r->n[0].priv[fx - B.r->n[0].fx], "no", 2);
	assert_true(raw()->fin);
	assert_int_equal(dev()->q[0].qp.state, QP_S_INIT);
	assert_int_equal(rig_fx_count(B.r, 0, QP_FX_DISCONNECTED), 0);
	close_bench();
}

/* A program that waits for ESTABLISHED is told when the initiator falls silent instead of sending its RTR. */
static void an_rtr_that_never_comes_ends_the_set_up(void **state)
{
	const struct mpa_policy p = { .rev = 2, .crc = true, .p2p = true, .rtr = MPA_RTR_WRITE, .ird = 4, .ord = 4 };
	struct rig_cfg cfg;
	struct mpa_out o;

	(void)state;
	rig_defaults(&cfg);
	cfg.raw[0] = true;
	struct rig *r = rig_new(&cfg);
	rig_raw_connect(r, 0);
	assert_int_equal(mpa_neg_request(&p, NULL, 0, &o), MPA_NEG_OK);
	rig_raw_send(r, 0, o.buf, o.len);
	rig_run(r, RN_NS_PER_S);
	assert_true(r->n[0].raw->rx_len > 0);
	assert_int_equal(rc_get_state(&r->n[1].conn[0].rc), RC_WAIT_FIRST);
	rig_run(r, 60 * RN_NS_PER_S);
	assert_int_equal(rig_fx_count(r, 1, QP_FX_ESTABLISHED), 0);
	assert_int_equal(rig_fx_count(r, 1, QP_FX_CONNECT_ERROR), 1);
	assert_int_equal(rc_get_state(&r->n[1].conn[0].rc), RC_FREE);
	rig_free(r);
}

static void rtr_mismatch(void **state)
{
	struct mpa_policy p = raw_policy();
	struct rig_cfg cfg;

	(void)state;
	/*
	 * A responder that has no kind of RTR in common replies with its own; the initiator answers with a Terminate.
	 */
	rig_defaults(&cfg);
	cfg.p2p = true;
	cfg.rtr = MPA_RTR_READ;
	open_bench(1, &cfg);
	raw_respond(&p);
	static uint8_t body[66000];
	struct ddp_hdr h;
	struct rdmap_term t;
	uint32_t len;
	assert_true(next_fpdu(&h, body, &len));
	assert_int_equal(h.opcode, RDMAP_TERMINATE);
	assert_int_equal(rdmap_term_parse(body, len, &t), RDMAP_TERM_OK);
	assert_int_equal(t.err.layer, IW_LAYER_LLP);
	assert_int_equal(t.err.code, IW_MPA_RTR);
	assert_int_equal(rig_fx_count(B.r, 0, QP_FX_CONNECT_ERROR), 1);
	assert_int_equal(rig_fx_count(B.r, 0, QP_FX_ESTABLISHED), 0);
	assert_int_equal(dev()->q[0].qp.state, QP_S_INIT);
	close_bench();
}

/* The responder sends nothing before the initiator's first FPDU: RFC 5044, 7.1.2. */
static void responder_waits_for_the_first_fpdu(void **state)
{
	static uint8_t body[66000];
	struct ddp_hdr h;
	uint32_t len;

	(void)state;
	open_bench(0, NULL);
	raw_up();
	struct qp_sge s = rig_sge(dev(), 0, 100);
	const struct rig_wr w = { .wr_id = 3, .op = QP_WR_SEND, .flags = QP_WF_SIGNALED, .sge = &s, .num_sge = 1 };
	assert_true(rig_post(dev(), 0, &w));
	rig_settle(B.r);
	assert_int_equal(raw()->rx_len, B.rx_at);
	send_write(0, 0, 0, true);
	rig_settle(B.r);
	assert_true(next_fpdu(&h, body, &len));
	assert_int_equal(h.opcode, RDMAP_SEND);
	assert_int_equal(len, 100);
	close_bench();
}

/* A FIN inside an FPDU is no orderly end. */
static void fin_inside_an_fpdu(void **state)
{
	(void)state;
	open_bench(0, NULL);
	raw_up();
	send_write(0, 0, 0, true);
	send_bytes("\x00\x40\xc1\x40", 4);
	rig_settle(B.r);
	tcpl_shutdown(&raw()->tcp, B.r->now);
	rig_settle(B.r);
	assert_int_equal(rig_fx_count(B.r, 1, QP_FX_DISCONNECTED), 1);
	assert_int_equal(rig_fx(B.r, 1, QP_FX_DISCONNECTED)->code, 1);
	close_bench();
}

/* The peer sends a Terminate, or what looks like one, in each state of the set-up and later. */
static void terminate_in_every_state(void **state)
{
	const struct iw_err e = iw_err_of(IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_STAG_INVALID, false);
	const struct mpa_policy p = raw_policy();
	struct rig_cfg cfg;
	struct mpa_out out;

	(void)state;
	/* Instead of a Request: it is no MPA frame. */
	open_bench(0, NULL);
	rig_raw_connect(B.r, 0);
	send_terminate(e, NULL, NULL);
	rig_settle(B.r);
	assert_true(raw()->reset);
	assert_int_equal(B.r->n[1].n_fx, 1); /* only CLOSED: the control plane was never told of the connection */
	close_bench();
	/* Between Request and Reply: RFC 5044, 7.1.2 forbids it. */
	rig_defaults(&cfg);
	cfg.manual = true;
	open_bench(0, &cfg);
	rig_raw_connect(B.r, 0);
	assert_int_equal(mpa_neg_request(&p, NULL, 0, &out), MPA_NEG_OK);
	send_bytes(out.buf, out.len);
	send_terminate(e, NULL, NULL);
	rig_settle(B.r);
	assert_true(raw()->reset);
	assert_non_null(rig_fx(B.r, 1, QP_FX_CONNECT_REQUEST));
	assert_non_null(rig_fx(B.r, 1, QP_FX_CONNECT_ERROR));
	close_bench();
	/* As the first FPDU, in full operation, and again while closing. */
	for (uint32_t i = 0; i < 3; i++) {
		open_bench(0, NULL);
		raw_up();
		if (i > 0)
			send_write(0, 0, 0, true);
		rig_settle(B.r);
		if (i > 1)
			rc_disconnect(&dev()->ctx.rc, &dev()->conn[0].rc);
		rig_settle(B.r);
		send_terminate(e, NULL, NULL);
		send_terminate(e, NULL, NULL);
		rig_settle(B.r);
		assert_int_equal(rig_fx_count(B.r, 1, QP_FX_DISCONNECTED), 1);
		assert_int_equal(dev()->ctx.rc.qp.stats.terms_rcvd, 1);
		assert_int_equal(dev()->q[0].qp.state, QP_S_ERR);
		close_bench();
	}
	/* To an initiator, instead of the Reply. */
	open_bench(1, NULL);
	rig_connect_start(B.r, 0, NULL, 0);
	rig_settle(B.r);
	send_terminate(e, NULL, NULL);
	rig_settle(B.r);
	assert_true(raw()->reset);
	assert_int_equal(rig_fx_count(B.r, 0, QP_FX_CONNECT_ERROR), 1);
	assert_int_equal(dev()->q[0].qp.state, QP_S_INIT); /* the program may connect again */
	close_bench();
}

/*
 * RFC 6191: the side that closed first accepts a new connection of the same ports at once, in place of the one in
 * TIME_WAIT.
 */
static void time_wait_does_not_keep_a_new_syn_waiting(void **state)
{
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	struct rig *r = rig_new(&cfg);
	struct rc_tcp *c = &r->n[0].conn[0];
	rig_connect(r, 0);
	rig_run(r, 50 * RN_NS_PER_MS);
	rc_disconnect(&r->n[0].ctx.rc, &c->rc);
	for (int i = 0; i < 400 && tcpl_get_state(&c->tcp) != TCPL_S_TIME_WAIT; i++)
		rig_run(r, 100 * RN_NS_PER_US);
	assert_int_equal(tcpl_get_state(&c->tcp), TCPL_S_TIME_WAIT);
	assert_int_equal(rig_fx_count(r, 0, QP_FX_CLOSED), 0);
	struct tcpl_out syn = { .seq = c->tcp.rcv_nxt + 100000, .flags = TCPL_SYN, .wnd = 65535 };
	rig_inject(r, 0, 0, &syn, (const uint8_t *)"");
	rig_run(r, RN_NS_PER_MS);
	assert_int_equal(rig_fx_count(r, 0, QP_FX_CLOSED), 1);
	rig_settle(r);
	rig_free(r);
}

static struct tcpl_out last_of_1;

static void keep_last(struct rig *r, int from, const struct tcpl_out *o, const uint8_t *payload)
{
	(void)r;
	(void)payload;
	if (from == 1)
		last_of_1 = *o;
}

/* A TCP connection that was opened without lib/rc, with memory of its own, is handed over to lib/rc. */
static void an_open_tcp_connection_is_taken_over(void **state)
{
	static struct tcpl_chunk chunk[16];
	static struct tcpl_txrec rec[16];
	static struct tcpl_hold hold[16];
	const struct tcpl_mem mem = {
		.chunk = chunk, .rec = rec, .hold = hold, .chunk_n = 16, .rec_n = 16, .hold_n = 16
	};
	struct tcpl_ev ev = { 0 };
	struct tcpl_out o;
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	struct rig *r = rig_new(&cfg);
	struct rig_node *n = &r->n[0];
	struct rc_tcp *c = &n->conn[0];
	const struct rc_params p = { .policy = { .rev = 2, .crc = true, .ird = 4, .ord = 4 },
				     .qp = &n->q[0].qp,
				     .priv = (const uint8_t *)"taken",
				     .priv_len = 5 };
	r->tap = keep_last;
	tcpl_init(&c->tcp, &n->tcp, &mem);
	tcpl_connect(&c->tcp, r->now, 4711);
	assert_int_equal(rc_tcp_take(&n->ctx, c, &p), QP_BAD_STATE);
	assert_true(tcpl_out(&c->tcp, r->now, &o));
	rig_inject(r, 1, 0, &o, (const uint8_t *)"");
	rig_run(r, RN_NS_PER_MS);
	const struct tcpl_seg syn_ack = { .seq = last_of_1.seq,
					  .ack = last_of_1.ack,
					  .wnd = last_of_1.wnd,
					  .flags = last_of_1.flags,
					  .optlen = last_of_1.optlen,
					  .opt = last_of_1.opt };
	assert_int_equal(tcpl_in(&c->tcp, r->now, &syn_ack, &ev), TCPL_OK);
	assert_true(ev.bits & TCPL_EV_CONNECTED);
	n->ctx.rc.qp.now = r->now;
	assert_int_equal(rc_tcp_take(&n->ctx, c, &p), QP_OK);
	assert_ptr_not_equal(c->tcp.mem.chunk, chunk);
	while (!rc_is_up(&c->rc) || !rc_is_up(&r->n[1].conn[0].rc))
		assert_true(rig_step(r));
	assert_memory_equal(rig_fx(r, 1, QP_FX_CONNECT_REQUEST)->priv, "taken", 5);
	rc_disconnect(&n->ctx.rc, &c->rc);
	rig_settle(r);
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_requests),
		cmocka_unit_test(a_peer_that_names_no_depths_does_not_have_0),
		cmocka_unit_test(request_never_comes),
		cmocka_unit_test(reply_never_comes),
		cmocka_unit_test(reply_split_and_merged),
		cmocka_unit_test(rejected),
		cmocka_unit_test(rtr_mismatch),
		cmocka_unit_test(an_rtr_that_never_comes_ends_the_set_up),
		cmocka_unit_test(responder_waits_for_the_first_fpdu),
		cmocka_unit_test(fin_inside_an_fpdu),
		cmocka_unit_test(terminate_in_every_state),
		cmocka_unit_test(time_wait_does_not_keep_a_new_syn_waiting),
		cmocka_unit_test(an_open_tcp_connection_is_taken_over),
	};

	return cmocka_run_group_tests_name("rc_setup", tests, NULL, NULL);
}
