/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Half-open streams that end inside a burst of segments, while later segments of the burst still name them; half-open
 * connections whose listener ends, and the memory that such connections take; floods of SYNs; streams whose neighbour
 * does not answer; and a stream over iWARP that waits for memory.
 */
#include <errno.h>
#include <stdlib.h>

#include "border/event.h"
#include "border/policy.h"
#include "listen_rig.h"

/* As many peers as the listener takes send a SYN: those with the TCP ports 1 to HALF. */
static void crowd(void)
{
	for (uint16_t i = 1; i <= HALF; i++) {
		syn(i);
		one_burst(1);
	}
	rest_of_turn();
	assert_int_equal(w.streams.listener[0].n_half, HALF);
}

static void a_segment_behind_a_reset_in_a_burst_finds_no_stream(void **state)
{
	const struct stream_listener *l = &w.streams.listener[0];

	(void)state;
	syn(1);
	one_burst(1);
	rest_of_turn();
	const struct stream *s = stream_of(1);
	assert_non_null(s);
	assert_int_equal(l->n_half, 1);
	segment(1, ISS + 1, 0, PKT_TCP_RST);
	segment(1, ISS + 1, s->qc.tcp.iss + 1, PKT_TCP_ACK);
	one_burst(2);
	assert_int_equal(port.stats[0].rx_no_flow, 1);
	rest_of_turn();
	assert_int_equal(s->state, STREAM_FREE);
	assert_int_equal(l->n_half, 0);
	assert_int_equal(free_streams(), STREAMS);
	crowd();
	syn(HALF + 1);
	one_burst(1);
	assert_int_equal(l->n_half, HALF);
}

static void a_syn_behind_a_reset_in_a_burst_begins_a_stream(void **state)
{
	(void)state;
	syn(1);
	one_burst(1);
	rest_of_turn();
	const struct stream *s = stream_of(1);
	segment(1, ISS + 1, 0, PKT_TCP_RST);
	segment(1, ISS + 500, 0, PKT_TCP_SYN);
	one_burst(2);
	rest_of_turn();
	assert_int_equal(s->state, STREAM_FREE);
	assert_non_null(stream_of(1));
	assert_int_equal(stream_of(1)->qc.tcp.irs, ISS + 500);
	assert_int_equal(w.streams.listener[0].n_half, 1);
}

static void a_segment_of_an_evicted_stream_does_not_go_to_the_new_one(void **state)
{
	(void)state;
	crowd();
	const struct stream *evicted = stream_of(1);
	syn(HALF + 1);
	segment(1, ISS + 1, evicted->qc.tcp.iss + 1, PKT_TCP_ACK);
	one_burst(2);
	assert_ptr_not_equal(stream_of(HALF + 1), evicted);
	assert_int_equal(tcpl_get_state(&stream_of(HALF + 1)->qc.tcp), TCPL_S_SYN_RCVD);
	assert_null(stream_of(1));
	assert_int_equal(port.stats[0].rx_no_flow, 1);
	rest_of_turn();
	assert_int_equal(evicted->state, STREAM_FREE);
	assert_int_equal(w.streams.listener[0].n_half, HALF);
	assert_int_equal(free_streams(), STREAMS - HALF);
}

/* Else a flood of SYNs with forged addresses takes the worker's time from established connections. */
static void syns_get_so_many_half_open_streams_a_second(void **state)
{
	enum { SYNS = 5000, AT_ONCE = 1000, APART = 200 * RN_NS_PER_US };
	uint16_t from = 1;

	(void)state;
	while (from <= SYNS) {
		syn(from++);
		one_burst(1);
		rest_of_turn();
	}
	assert_int_equal(w.streams.passive, AT_ONCE);
	assert_int_equal(port.stats[0].rx_unanswered, SYNS - AT_ONCE);
	w.now += APART;
	syn(from++);
	syn(from++);
	one_burst(2);
	rest_of_turn();
	assert_int_equal(w.streams.passive, AT_ONCE + 1);
	/* an honest peer answers the SYN-ACK: its connection does not count any more */
	segment(from - 2, ISS + 1, stream_of(from - 2)->qc.tcp.iss + 1, PKT_TCP_ACK);
	syn(from);
	one_burst(2);
	assert_non_null(stream_of(from));
}

static void a_port_flooded_by_syns_has_a_small_share(void **state)
{
	static const uint32_t taken[] = { WORKER_BURST, WORKER_BURST / 2, WORKER_BURST_MIN, WORKER_BURST_MIN };

	(void)state;
	for (uint16_t i = 1; i <= 2 * WORKER_BURST; i++)
		syn(i);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(taken); i++)
		one_burst(taken[i]);
}

/* The beginning of the only frame in the port's queue: its destination. */
static const uint8_t *sent_to(void)
{
	assert_int_equal(w.tx[0].tail - w.tx[0].head, 1);
	return rte_pktmbuf_mtod(w.tx[0].fifo[w.tx[0].head % PORT_TX_QUEUE], const uint8_t *);
}

/* Else SYNs with forged addresses take the ARP entries, which other connections then cannot get. */
static void a_half_open_stream_has_no_neighbour(void **state)
{
	static const uint8_t mac[PKT_MAC_LEN] = { 2, 0, 0, 0, 0, 1 };

	(void)state;
	for (uint16_t i = 1; i <= HALF; i++) {
		peer_ip = pkt_addr_ip4(0x0a000010 + i);
		syn(i);
		one_burst(1);
		stream_transmit(&w);
		assert_int_equal(port.stats[0].arp_tx, 0);
		assert_memory_equal(sent_to(), mac, sizeof(mac));
		rest_of_turn();
		port_tx_drop_all(&w.tx[0]);
	}
	const struct stream *s = stream_of(HALF);
	segment(HALF, ISS + 1, s->qc.tcp.iss + 1, PKT_TCP_ACK);
	one_burst(1);
	assert_true(s->connected);
	assert_int_equal(port.stats[0].arp_tx, 1);
	assert_true(pkt_addr_eq(&s->way.neigh->ip, &peer_ip));
}

/* With no free stream the SYN that evicts a stream is lost, and the peer repeats it. */
static void an_evicted_stream_is_free_again_while_the_event_queue_is_full(void **state)
{
	struct event *ev;

	(void)state;
	syn(HALF + 1);
	one_burst(1);
	segment(HALF + 1, ISS + 1, stream_of(HALF + 1)->qc.tcp.iss + 1, PKT_TCP_ACK);
	one_burst(1);
	while ((ev = event_room(0, EVENT_LOSSLESS)) != NULL) {
		ev->type = EVENT_FX;
		event_put(0);
	}
	crowd();
	w.streams.used = w.streams.n;                                   /* as if others had the other places */
	assert_true((stream_of(HALF + 1)->tell & STREAM_ARRIVED) != 0); /* waits for room in the queue */
	assert_int_equal(free_streams(), 0);
	syn(HALF + 2);
	one_burst(1);
	assert_null(stream_of(HALF + 2));
	rest_of_turn();
	assert_int_equal(free_streams(), 1);
	syn(HALF + 2);
	one_burst(1);
	assert_non_null(stream_of(HALF + 2));
	assert_int_equal(w.streams.listener[0].n_half, HALF);
}

/* Else a user that ends its listeners, which gives back its share of them, could take the places of all users. */
static void an_ended_listener_leaves_its_place_before_its_half_open_connections(void **state)
{
	static struct conn conns[2];
	const struct conn_listen l = { .lport = LPORT + 1, .backlog = 4, .policy = conn_policy(&port) };

	(void)state;
	conn_tcp_init(&port);
	rn_wheel_init(&w.wheel, w.now);
	w.conns = conns;
	w.n_conns = RN_ARRAY_LEN(conns);
	assert_int_equal(conn_listen(&w, &l), CONN_OK);
	segment_to(l.lport, 1, ISS, 0, PKT_TCP_SYN);
	one_burst(1);
	assert_int_equal(w.listener[0].half_open, 1);
	conn_unlisten(&w, 0, l.lport);
	assert_int_equal(conn_listen(&w, &l), CONN_OK);
	assert_true(w.listener[0].used);
	assert_int_equal(w.listener[0].half_open, 0);
	struct conn *oldest = rn_list_first(&w.half_open, struct conn, half_any);
	assert_non_null(oldest); /* it can still be evicted */
	rc_abort(&w.tcp.rc, &oldest->qc.rc);
	conn_transmit(&w);
	assert_true(worker_effects(&w));
	conn_bury(&w);
	assert_true(rn_list_empty(&w.half_open));
	assert_int_equal(w.listener[0].half_open, 0);
	assert_int_equal(port.stats[0].no_request, 1);
}

static void a_connection_without_a_request_has_no_neighbour(void **state)
{
	static struct conn conns[2];
	const struct conn_listen l = { .lport = LPORT + 1, .backlog = 4, .policy = conn_policy(&port) };

	(void)state;
	conn_tcp_init(&port);
	rn_wheel_init(&w.wheel, w.now);
	w.conns = conns;
	w.n_conns = RN_ARRAY_LEN(conns);
	assert_int_equal(conn_listen(&w, &l), CONN_OK);
	segment_to(l.lport, 1, ISS, 0, PKT_TCP_SYN);
	one_burst(1);
	assert_int_equal(conn_transmit(&w), 1);
	port_tx_drop_all(&w.tx[0]);
	assert_int_equal(port.stats[0].arp_tx, 0);
	conn_requested(&w, &conns[0].qc.rc);
	assert_int_equal(port.stats[0].arp_tx, 1);
	assert_true(pkt_addr_eq(&conns[0].way.neigh->ip, &peer_ip));
	rc_abort(&w.tcp.rc, &conns[0].qc.rc);
	conn_transmit(&w);
	assert_true(worker_effects(&w));
	conn_bury(&w);
}

/* ---- listeners of connections ---- */

/* Gives the worker a context with this many blocks, and a listener at LPORT + 1. */
static void with_blocks(uint32_t blocks)
{
	static struct conn conns[256];
	const struct conn_listen l = { .lport = LPORT + 1, .backlog = 128, .policy = conn_policy(&port) };
	struct rc_tcp_cfg cfg;

	free(w.qp_mem);
	rc_tcp_cfg_default(&cfg, 0, 1500, RN_ARRAY_LEN(conns));
	cfg.rc.blocks = blocks;
	uint64_t size = (rc_tcp_ctx_size(&cfg) + RN_CACHE_LINE - 1) / RN_CACHE_LINE * RN_CACHE_LINE;
	w.qp_mem = aligned_alloc(RN_CACHE_LINE, size);
	assert_non_null(w.qp_mem);
	memset(w.qp_mem, 0, size);
	assert_int_equal(rc_tcp_ctx_init(&w.tcp, &cfg, w.qp_mem, size), QP_OK);
	conn_tcp_init(&port);
	rn_wheel_init(&w.wheel, w.now);
	memset(conns, 0, sizeof(conns));
	w.conns = conns;
	w.n_conns = RN_ARRAY_LEN(conns);
	assert_int_equal(conn_listen(&w, &l), CONN_OK);
}

/* A segment to the listener comes, and the worker has a turn. Returns the sequence number of what it sends last. */
static uint32_t to_listener(uint16_t from, uint32_t seq, uint32_t ack, uint8_t flags)
{
	segment_to(LPORT + 1, from, seq, ack, flags);
	w.tcp.rc.qp.now = w.now;
	assert_int_equal(worker_rx(&w), 1);
	conn_transmit(&w);
	assert_true(worker_effects(&w));
	conn_bury(&w);
	const struct port_tx *t = &w.tx[0];
	const uint32_t sent = t->tail != t->head ? frame_seq(t->fifo[(t->tail - 1) % PORT_TX_QUEUE]) : 0;
	port_tx_drop_all(&w.tx[0]);
	w.now += RN_NS_PER_MS;
	return sent;
}

/* Peers that send no Request leave blocks to the connections that rest, whether they finish the handshake or not. */
static void half_open_connections_leave_blocks_to_others(void **state)
{
	enum { BLOCKS = 64, PEERS = 200, MOST = BLOCKS / 2 + 1, LEFT = BLOCKS - MOST };
	uint32_t iss[PEERS + 1];

	(void)state;
	with_blocks(BLOCKS);
	for (uint16_t i = 1; i <= PEERS; i++) {
		iss[i] = to_listener(i, ISS, 0, PKT_TCP_SYN);
		assert_true(i <= MOST || iss[i] != 0);
		assert_in_range(w.tcp.rc.blk_left, LEFT, BLOCKS);
	}
	assert_int_equal(w.listener[0].half_open, MOST);
	assert_int_equal(port.stats[0].syn_cookies, PEERS - MOST);
	assert_int_equal(port.stats[0].syn_evicted, 0);
	for (uint16_t i = MOST + 1; i <= PEERS; i++) {
		to_listener(i, ISS + 1, iss[i] + 1, PKT_TCP_ACK);
		assert_in_range(w.tcp.rc.blk_left, LEFT - 1, BLOCKS);
	}
	assert_int_equal(port.stats[0].syn_evicted, PEERS - MOST);
	assert_int_equal(w.listener[0].half_open, MOST);
	assert_int_equal(w.tcp.rc.qp.stats.no_block, 0);
}

/* The last blocks are left when others have the rest: a peer's Request comes again until there is a block. */
static void a_new_connection_takes_none_of_the_last_blocks(void **state)
{
	enum { BLOCKS = 64 };

	(void)state;
	with_blocks(BLOCKS);
	w.tcp.rc.blk_left = BLOCKS / 8; /* as if established connections had the others */
	const uint32_t iss = to_listener(1, ISS, 0, PKT_TCP_SYN);
	assert_int_equal(port.stats[0].syn_cookies, 1);
	to_listener(1, ISS + 1, iss + 1, PKT_TCP_ACK);
	assert_int_equal(w.listener[0].half_open, 0);
	assert_int_equal(w.tcp.rc.blk_left, BLOCKS / 8);
	w.tcp.rc.blk_left = BLOCKS;
	to_listener(1, ISS + 1, iss + 1, PKT_TCP_ACK);
	assert_int_equal(w.listener[0].half_open, 1);
	assert_int_equal(w.tcp.rc.blk_left, BLOCKS - 1);
}

/* Lets the timers run until the stream has ended. Returns how long that took, in ms. */
static uint64_t until_over(struct stream *s)
{
	const uint64_t from = w.now;

	while (!stream_is_over(s) && w.now - from < 60 * RN_NS_PER_S) {
		w.now += 10 * RN_NS_PER_MS;
		neigh_timers(&w);
		stream_timers(&w);
		stream_transmit(&w);
		port_tx_drop_all(&w.tx[0]);
	}
	return (w.now - from) / RN_NS_PER_MS;
}

static void a_neighbour_that_has_failed_is_asked_anew_for_a_new_stream(void **state)
{
	struct ipc_stream *mem[2] = { calloc(1, IPC_STREAM_SIZE), calloc(1, IPC_STREAM_SIZE) };

	(void)state;
	assert_non_null(mem[0]);
	assert_non_null(mem[1]);
	for (uint16_t i = 0; i < 2; i++) {
		struct stream *s = open_to_nobody(mem[i], 10 + i);
		assert_int_equal(port.stats[0].arp_tx, i * ARP_TRIES + 1);
		assert_true(until_over(s) > 3000);
		assert_int_equal(port.stats[0].arp_tx, (i + 1) * ARP_TRIES);
		assert_int_equal(mem[i]->error, EHOSTUNREACH);
	}
	free(mem[0]);
	free(mem[1]);
}

/* ---- iwarp ---- */

/* A part of the peer's bytes comes in a segment of its own. */
static void bytes_come(const struct stream *s, const void *p, uint32_t n)
{
	const struct pkt_tcp_seg seg = {
		.seq = s->qc.tcp.rcv_nxt, .ack = s->qc.tcp.snd_una, .flags = PKT_TCP_ACK, .payload_len = n
	};

	put_segment(LPORT, s->addr.rport, seg, p);
	one_burst(1);
	stream_transmit(&w);
	rest_of_turn();
}

/* A peer connects by iWARP, with the Request of doc/stream-sockets.md; a program of the user accepts the connection. */
static struct stream *accepted(struct stream_user *user, struct ipc_stream *mem)
{
	static const uint8_t asks[] = { 253, 7, 'R', 'N', 'I', 'W', 1, 0 };
	static const uint8_t request[] = { 'M', 'P',  'A', ' ', 'I', 'D', ' ', 'R', 'e', 'q', ' ', 'F', 'r', 'a', 'm',
					   'e', 0x50, 2,   0,   24,  0,   1,   0,   1,   'R', 'N', 'X', 'S', 1,   1,
					   0,   16,   0,   0,   64,  0,   10,  11,  12,  13,  0,   4,   0,   0 };

	port_cfg.mpa_rev = 2;
	port_cfg.crc = true;
	put_segment(LPORT, 1,
		    (struct pkt_tcp_seg){ .seq = ISS, .flags = PKT_TCP_SYN, .opt = asks, .opt_len = sizeof(asks) },
		    NULL);
	one_burst(1);
	rest_of_turn();
	struct stream *s = stream_of(1);
	assert_non_null(s);
	assert_non_null(s->iwarp);
	stream_transmit(&w); /* the SYN-ACK */
	segment(1, ISS + 1, s->qc.tcp.iss + 1, PKT_TCP_ACK);
	one_burst(1);
	bytes_come(s, request, sizeof(request));
	assert_true(s->connected);
	struct cmd c = { .type = CMD_STREAM_ADOPT, .stream = { .stream = s, .key = s->key, .mem = mem, .user = user } };
	command_stream(&w, &c);
	assert_int_equal(c.stream.verdict, CONN_OK);
	stream_transmit(&w);
	port_tx_drop_all(&w.tx[0]);
	return s;
}

/* Other streams have all stages for now. What comes meanwhile need not be sent again. */
static void a_stream_that_waits_for_a_stage_keeps_what_comes(void **state)
{
	enum { PART = 50, PARTS = 4 };
	static struct stream_user user = { .tenant = 5 };
	static const uint8_t fpdu[PART] = { 0x03, 0xe8 }; /* the length of its ULPDU: 1,000 */
	struct ipc_stream *mem = calloc(1, IPC_STREAM_SIZE);

	(void)state;
	assert_non_null(mem);
	struct stream *s = accepted(&user, mem);
	struct rc_tcp_ctx *ctx = &w.streams.iwarp->tcp;
	const uint32_t before = s->qc.tcp.rcv_nxt, left = ctx->rc.stages_left;
	ctx->rc.stages_left = 0;
	for (uint32_t i = 0; i < PARTS; i++)
		bytes_come(s, fpdu, PART);
	assert_int_equal(s->qc.rc.rnr.state, RC_RNR_WAITS);
	assert_int_equal(w.tcp.rc.qp.stats.rnr_drops, 0);
	assert_int_equal(s->qc.tcp.rcv_nxt, before + PARTS * PART);
	assert_int_equal(ctx->rnr_of[user.tenant], PARTS);
	ctx->rc.stages_left = left;
	struct cmd c = { .type = CMD_STREAM_CLOSE, .stream = { .stream = s, .key = s->key, .abort = true } };
	command_stream(&w, &c);
	for (uint32_t i = 0; i < 3; i++) {
		stream_transmit(&w);
		rest_of_turn();
	}
	assert_true(stream_is_over(s));
	free(mem);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_segment_behind_a_reset_in_a_burst_finds_no_stream, listen_setup,
						listen_teardown),
		cmocka_unit_test_setup_teardown(a_syn_behind_a_reset_in_a_burst_begins_a_stream, listen_setup,
						listen_teardown),
		cmocka_unit_test_setup_teardown(a_segment_of_an_evicted_stream_does_not_go_to_the_new_one, listen_setup,
						listen_teardown),
		cmocka_unit_test_setup_teardown(an_ended_listener_leaves_its_place_before_its_half_open_connections,
						listen_setup, listen_teardown),
		cmocka_unit_test_setup_teardown(half_open_connections_leave_blocks_to_others, listen_setup,
						listen_teardown),
		cmocka_unit_test_setup_teardown(a_new_connection_takes_none_of_the_last_blocks, listen_setup,
						listen_teardown),
		cmocka_unit_test_setup_teardown(a_neighbour_that_has_failed_is_asked_anew_for_a_new_stream,
						listen_setup, listen_teardown),
		cmocka_unit_test_setup_teardown(a_stream_that_waits_for_a_stage_keeps_what_comes, listen_setup,
						listen_teardown),
		cmocka_unit_test_setup_teardown(an_evicted_stream_is_free_again_while_the_event_queue_is_full,
						listen_setup, listen_teardown),
		cmocka_unit_test_setup_teardown(a_half_open_stream_has_no_neighbour, listen_setup, listen_teardown),
		cmocka_unit_test_setup_teardown(a_connection_without_a_request_has_no_neighbour, listen_setup,
						listen_teardown),
		cmocka_unit_test_setup_teardown(syns_get_so_many_half_open_streams_a_second, listen_setup,
						listen_teardown),
		cmocka_unit_test_setup_teardown(a_port_flooded_by_syns_has_a_small_share, listen_setup,
						listen_teardown),
	};

	if (!eal_for_test())
		return 77;
	return cmocka_run_group_tests_name("stream_listen", tests, NULL, NULL);
}
