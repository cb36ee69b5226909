/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program's memory says while a worker handles a burst of segments, and who has the frames afterwards. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "border/event.h"
#include "eal.h"
#include "plane/stream.h"

#define STREAMS  2u
#define OPENED   STREAMS /* the stream that a test opens by a command */
#define PEER_ISS 999u    /* the peer's first byte has the sequence number PEER_ISS + 1 */
#define LEN      1000u

static struct rnicd_port port;
static struct rnicd_worker w;
static struct stream at[STREAMS + 1];
static struct ipc_stream *mem[STREAMS + 1];
static uint32_t iss[STREAMS + 1]; /* of this end */
static uint16_t peer_wnd;         /* the window that the peer announces */
static struct tcpl_cfg cfg;
static const struct rnicd_port_cfg port_cfg;

/* Passes a segment to a stream as a burst does, which frees the frame later. Returns the frame. */
static struct rte_mbuf *segment(uint32_t i, uint32_t seq, uint32_t acked, uint32_t len, uint8_t flags)
{
	struct rte_mbuf *m = frame_for_test(port.pool, seq, len);
	struct pkt p;

	assert_non_null(m);
	assert_int_equal(pkt_parse(rte_pktmbuf_mtod(m, const uint8_t *), m->data_len, m->pkt_len, &p), PKT_OK);
	p.tcp_ack = iss[i] + 1 + acked;
	p.tcp_wnd = peer_wnd;
	p.tcp_flags = flags;
	stream_segment(&w, &at[i], m, &p);
	return m;
}

static void data(uint32_t i, uint32_t pos) { rte_pktmbuf_free(segment(i, PEER_ISS + 1 + pos, 0, LEN, TCPL_ACK)); }

static bool make(uint32_t i)
{
	struct stream *s = &at[i];
	const struct tcpl_mem m = { .chunk = s->chunk,
				    .rec = s->rec,
				    .hold = s->hold,
				    .chunk_n = STREAM_CHUNKS,
				    .rec_n = STREAM_RECS,
				    .hold_n = STREAM_HOLDS };
	const struct tcpl_seg syn = { .seq = PEER_ISS, .wnd = UINT16_MAX, .flags = TCPL_SYN };
	struct tcpl_out o;

	*s = (struct stream){ .key = 1 + i, .state = STREAM_OWNED, .flow.key.lport = (uint16_t)i };
	s->way.port = &port;
	s->way.tx = &w.tx[0];
	mem[i] = calloc(1, IPC_STREAM_SIZE);
	s->mem = mem[i];
	iss[i] = 5000 * (1 + i);
	tcpl_init(&s->qc.tcp, &cfg, &m);
	if (mem[i] == NULL || flow_add(&w.flows, &s->flow) != FLOW_OK ||
	    tcpl_accept_syn(&s->qc.tcp, w.now, iss[i], &syn) != TCPL_OK || !tcpl_out(&s->qc.tcp, w.now, &o))
		return false;
	rte_pktmbuf_free(segment(i, PEER_ISS + 1, 0, 0, TCPL_ACK));
	s->tell = 0;
	return mem[i]->state == IPC_STREAM_CONNECTED;
}

static int setup(void **state)
{
	static struct flow_slot slots[4 * STREAMS];

	(void)state;
	memset(&w, 0, sizeof(w));
	memset(&port, 0, sizeof(port));
	peer_wnd = UINT16_MAX;
	memset(&at[OPENED], 0, sizeof(at[OPENED]));
	port.cfg = &port_cfg;
	rnicd.port[0] = &port;
	w.streams.at = at;
	w.streams.n = STREAMS + 1;
	w.streams.used = OPENED;
	port.pool = pool_for_test("frames", 63, 1500);
	w.tx[0] = (struct port_tx){ .port = &port, .st = &port.stats[0] };
	w.now = RN_NS_PER_S;
	w.tcp.cfg.hold_pkts = 8;
	flow_init(&w.flows, slots, RN_ARRAY_LEN(slots));
	rn_wheel_init(&w.streams.wheel, w.now);
	tcpl_cfg_default(&cfg, 1460);
	cfg.rcv_space = IPC_STREAM_RING;
	if (port.pool == NULL)
		return -1;
	for (uint32_t i = 0; i < STREAMS; i++)
		if (!make(i))
			return -1;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	stream_settle(&w);
	free(mem[OPENED]);
	mem[OPENED] = NULL;
	for (uint32_t i = 0; i < STREAMS; i++) {
		if (at[i].state != STREAM_OVER)
			stream_let_go_held(&w, &at[i]);
		free(mem[i]);
	}
	const uint32_t left = rte_mempool_in_use_count(port.pool);
	rte_mempool_free(port.pool);
	return left == 0 && w.streams.held == 0 ? 0 : -1;
}

/* ---- what the program's memory says ---- */

static void a_program_is_told_once_for_the_bytes_of_a_burst(void **state)
{
	(void)state;
	mem[0]->want = IPC_STREAM_WANT_IN;
	data(0, 0);
	data(0, LEN);
	assert_int_equal(mem[0]->rx_tail, 0);
	assert_int_equal(at[0].tell, 0);
	stream_settle(&w);
	assert_int_equal(mem[0]->rx_tail, 2 * LEN);
	assert_int_equal(mem[0]->want, 0);
	assert_int_equal(at[0].tell, STREAM_IN);
	const uint8_t *ring = (const uint8_t *)mem[0] + IPC_STREAM_RX_OFF;
	for (uint32_t i = 0; i < 2 * LEN; i++)
		assert_int_equal(ring[i], (uint8_t)(PEER_ISS + 1 + i));
	at[0].tell = 0;
	mem[0]->want = IPC_STREAM_WANT_IN;
	mem[0]->rx_head = 2 * LEN;
	stream_settle(&w); /* a burst without segments of this stream */
	assert_int_equal(at[0].tell, 0);
	assert_int_equal(mem[0]->want, IPC_STREAM_WANT_IN);
}

static void a_program_is_told_once_for_the_room_of_a_burst(void **state)
{
	struct stream *s = &at[0];
	struct tcpl_out o;

	(void)state;
	mem[0]->tx_tail = IPC_STREAM_RING;
	mem[0]->want = IPC_STREAM_WANT_OUT;
	for (; s->pos.tx_put < 2 * LEN; s->pos.tx_put += LEN)
		assert_true(tcpl_send(&s->qc.tcp, LEN, s->pos.tx_put + LEN));
	while (tcpl_out(&s->qc.tcp, w.now, &o)) {
		/* the segments are on their way */
	}
	rte_pktmbuf_free(segment(0, PEER_ISS + 1, LEN, 0, TCPL_ACK));
	rte_pktmbuf_free(segment(0, PEER_ISS + 1, 2 * LEN, 0, TCPL_ACK));
	assert_int_equal(mem[0]->tx_head, 0);
	stream_settle(&w);
	assert_int_equal(mem[0]->tx_head, 2 * LEN);
	assert_int_equal(mem[0]->want, IPC_STREAM_WANT_OUT); /* less than a quarter of the ring */
	mem[0]->tx_tail = 2 * LEN;
	stream_ring(&w, s);
	assert_int_equal(mem[0]->want, 0);
	assert_int_equal(s->tell, STREAM_OUT);
}

static void a_segment_of_another_stream_ends_the_wait_of_the_first(void **state)
{
	(void)state;
	data(0, 0);
	data(1, 0);
	assert_int_equal(mem[0]->rx_tail, LEN);
	assert_int_equal(mem[1]->rx_tail, 0);
	data(0, LEN);
	assert_int_equal(mem[1]->rx_tail, LEN);
	stream_settle(&w);
	assert_int_equal(mem[0]->rx_tail, 2 * LEN);
}

/* A program that sees the end of the stream finds all bytes in front of it. */
static void an_end_comes_behind_the_last_bytes(void **state)
{
	(void)state;
	data(0, 0);
	rte_pktmbuf_free(segment(0, PEER_ISS + 1 + LEN, 0, LEN, TCPL_ACK | TCPL_FIN));
	assert_true((mem[0]->state & IPC_STREAM_PEER_FIN) != 0);
	assert_int_equal(mem[0]->rx_tail, 2 * LEN);
	data(1, 0);
	rte_pktmbuf_free(segment(1, PEER_ISS + 1 + LEN, 0, 0, TCPL_RST));
	assert_true((mem[1]->state & IPC_STREAM_ENDED) != 0);
	assert_int_equal(mem[1]->error, ECONNRESET);
	assert_int_equal(mem[1]->rx_tail, LEN);
	assert_null(at[1].mem);
	stream_settle(&w); /* does not touch the memory of the stream that is over */
}

/* ---- frames ---- */

static void a_frame_is_kept_only_behind_a_hole(void **state)
{
	struct rte_mbuf *first, *second, *third;

	(void)state;
	second = segment(0, PEER_ISS + 1 + LEN, 0, LEN, TCPL_ACK);
	assert_int_equal(rte_mbuf_refcnt_read(second), 1); /* its bytes are in the ring already */
	cfg.ahead = TCPL_AHEAD_HOLD;
	third = segment(1, PEER_ISS + 1 + LEN, 0, LEN, TCPL_ACK);
	assert_int_equal(rte_mbuf_refcnt_read(third), 2);
	assert_int_equal(w.streams.held, 1);
	rte_pktmbuf_free(third);
	first = segment(1, PEER_ISS + 1, 0, LEN, TCPL_ACK);
	assert_int_equal(rte_mbuf_refcnt_read(first), 1);
	assert_int_equal(w.streams.held, 0);
	assert_int_equal(rte_mempool_in_use_count(port.pool), 2);
	rte_pktmbuf_free(first);
	rte_pktmbuf_free(second);
	stream_settle(&w);
	assert_int_equal(mem[1]->rx_tail, 2 * LEN);
}

/* A peer may leave a hole for as long as it likes. */
static void one_users_holes_leave_frames_to_others(void **state)
{
	enum { MOST = 4, SHARE = MOST - MOST / 4, COME = 6 };
	static struct stream_user user[STREAMS];
	const struct qp_stats *st = &w.tcp.rc.qp.stats;

	(void)state;
	cfg.ahead = TCPL_AHEAD_HOLD;
	for (uint32_t i = 0; i < STREAMS; i++) {
		user[i].tenant = (uint8_t)(1 + i);
		at[i].user = &user[i];
	}
	w.tcp.cfg.hold_pkts = 2 * MOST;
	for (uint32_t i = 1; i <= COME; i++)
		data(0, i * LEN);
	assert_int_equal(w.streams.held, SHARE);
	assert_int_equal(st->hold_drops, COME - SHARE);
	at[0].user = NULL; /* what it has counts as before */
	data(1, LEN);
	data(1, 2 * LEN);
	assert_int_equal(w.streams.held, MOST);
	assert_int_equal(st->hold_drops, COME - SHARE + 1);
	data(0, 0);
	data(1, 0);
	assert_int_equal(w.streams.held, 0);
	for (uint32_t i = 0; i < QP_TENANTS; i++)
		assert_int_equal(w.streams.held_of[i], 0);
	stream_settle(&w);
	assert_int_equal(mem[0]->rx_tail, (1 + SHARE) * LEN);
	assert_int_equal(mem[1]->rx_tail, 2 * LEN);
	at[1].user = NULL;
}

/* ---- the end ---- */

/* Opens a stream by a command, has it connected, and lets the segments that are due leave. */
static struct stream *open_one(void)
{
	static struct stream_user user;
	struct stream *s = &at[OPENED];
	struct tcpl_out o;

	mem[OPENED] = calloc(1, IPC_STREAM_SIZE);
	assert_non_null(mem[OPENED]);
	stream_tcp_init(0, &cfg);
	struct cmd c = { .type = CMD_STREAM_OPEN,
			 .stream = { .key = 9, .addr.lport = 9, .mem = mem[OPENED], .user = &user } };
	command_stream(&w, &c);
	assert_int_equal(c.stream.verdict, CONN_OK);
	assert_ptr_equal(c.stream.stream, s);
	assert_true(tcpl_out(&s->qc.tcp, w.now, &o));
	iss[OPENED] = o.seq;
	rte_pktmbuf_free(segment(OPENED, PEER_ISS, 0, 0, TCPL_SYN | TCPL_ACK));
	assert_true(tcpl_out(&s->qc.tcp, w.now, &o));
	assert_int_equal(tcpl_get_state(&s->qc.tcp), TCPL_S_ESTABLISHED);
	return s;
}

/*
 * The program closes the socket. The timers run until the stream is over; returns how long that takes, in seconds. The
 * peer answers what it gets by an ACK of what it has acknowledged before.
 */
static uint64_t leave_and_wait(struct stream *s)
{
	const uint64_t from = w.now;
	struct cmd c = { .type = CMD_STREAM_CLOSE, .stream = { .stream = s, .key = s->key } };

	command_stream(&w, &c);
	while (s->state != STREAM_OVER && w.now - from < 3600 * RN_NS_PER_S) {
		struct tcpl_out o;
		stream_look(&w, s);
		while (tcpl_out(&s->qc.tcp, w.now, &o))
			rte_pktmbuf_free(
				segment(OPENED, s->qc.tcp.rcv_nxt, s->qc.tcp.snd_una - iss[OPENED] - 1, 0, TCPL_ACK));
		w.now += RN_NS_PER_S;
		stream_timers(&w);
		rn_wheel_arm(&w.streams.wheel, &s->timer, tcpl_next_wake(&s->qc.tcp));
	}
	return (w.now - from) / RN_NS_PER_S;
}

static void a_half_closed_stream_is_given_up_only_when_its_program_has_left(void **state)
{
	struct stream *s = open_one();
	struct tcpl_out o;

	(void)state;
	mem[OPENED]->fin = IPC_STREAM_FIN;
	stream_look(&w, s);
	assert_true(tcpl_out(&s->qc.tcp, w.now, &o));
	assert_int_equal(o.flags & TCPL_FIN, TCPL_FIN);
	rte_pktmbuf_free(segment(OPENED, PEER_ISS + 1, 1, 0, TCPL_ACK));
	assert_int_equal(tcpl_get_state(&s->qc.tcp), TCPL_S_FIN_WAIT_2);
	assert_int_equal(tcpl_next_wake(&s->qc.tcp), RN_NEVER);
	w.now += 600 * RN_NS_PER_S;
	rte_pktmbuf_free(segment(OPENED, PEER_ISS + 1, 1, LEN, TCPL_ACK));
	stream_settle(&w);
	assert_int_equal(mem[OPENED]->rx_tail, LEN);
	mem[OPENED]->rx_head = LEN;
	assert_in_range(leave_and_wait(s), 60, 61);
}

static void a_closed_stream_does_not_last_while_its_peer_answers_window_probes(void **state)
{
	struct stream *s = open_one();

	(void)state;
	peer_wnd = 0;
	rte_pktmbuf_free(segment(OPENED, PEER_ISS + 1, 0, 0, TCPL_ACK));
	mem[OPENED]->tx_tail = LEN;
	assert_in_range(leave_and_wait(s), 200, 201);
	assert_true(s->qc.tcp.stats.win_probes > 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_program_is_told_once_for_the_bytes_of_a_burst, setup, teardown),
		cmocka_unit_test_setup_teardown(a_program_is_told_once_for_the_room_of_a_burst, setup, teardown),
		cmocka_unit_test_setup_teardown(a_segment_of_another_stream_ends_the_wait_of_the_first, setup,
						teardown),
		cmocka_unit_test_setup_teardown(an_end_comes_behind_the_last_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(a_frame_is_kept_only_behind_a_hole, setup, teardown),
		cmocka_unit_test_setup_teardown(one_users_holes_leave_frames_to_others, setup, teardown),
		cmocka_unit_test_setup_teardown(a_half_closed_stream_is_given_up_only_when_its_program_has_left, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_closed_stream_does_not_last_while_its_peer_answers_window_probes,
						setup, teardown),
	};

	if (!eal_for_test())
		return 77;
	return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
