/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's turn for datagram queue pairs (plane/ud.c). The queue pair sends to itself at the device's own address, so
 * that its frames lie in the worker's loop.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "eal.h"
#include "rig.h"

#define FRAMES  256u
#define UD_PORT 4793u
#define QKEY    0x1234u
#define QPN     10u
#define UNIT    (2 * UDPL_UNIT)
#define LEN     64u

static struct rnicd_port port;
static struct rnicd_port_cfg port_cfg;
static struct rnicd_worker worker;
static struct rig *rig;
static struct ud_long_qp q;
static uint32_t len; /* of Sends */
static struct ud_group group;
static bool to_group; /* Sends go to the group */

/* A queue pair whose segments have this many octets, and to groups UNIT. */
static void queue_pair(uint32_t unit)
{
	struct qp_attr a = rig_attr(&rig->n[0], 0);

	rc_destroy(&rig->n[0].ctx.rc, &rig->n[0].q[0].qp);
	a.type = QP_UD;
	a.max_msg = dgram_max(UNIT);
	assert_int_equal(qp_init(&q.u.qp, &a), QP_OK);
	qp_set(&q.u.qp, &(struct qp_tune){ .qkey = QKEY, .access = QP_ACC_REMOTE });
	dgram_msgs_init(&q.msgs, &q.u.qp, unit, UNIT, 0);
	for (uint32_t s = QP_S_INIT; s <= QP_S_RTS; s++)
		assert_int_equal(dgram_modify(&worker.dgram, &q.u.qp, (enum qp_state)s), QP_OK);
}

static int setup(void **state)
{
	struct rig_cfg c;

	(void)state;
	memset(&worker, 0, sizeof(worker));
	memset(&port, 0, sizeof(port));
	memset(&q, 0, sizeof(q));
	len = LEN;
	to_group = false;
	port_cfg = (struct rnicd_port_cfg){ .ip = pkt_addr_ip4(0x0a000002), .prefix_len = 24, .vlan = PKT_NO_VLAN };
	port_cfg.ud_port = UD_PORT;
	port.cfg = &port_cfg;
	port.mtu = 1500;
	port.pool = pool_for_test("frames", FRAMES - 1, 1536);
	rnicd.port[0] = &port;
	rnicd.n_ports = rnicd.n_workers = rnicd.cfg.n_workers = 1;
	rnicd.cfg.user_share = 100;
	worker.tx[0] = (struct port_tx){ .port = &port, .st = &port.stats[0], .wake = RN_NEVER };
	rig_defaults(&c);
	rig = rig_new(&c);
	worker.dgram = (struct dgram_ctx){ .qp = &rig->n[0].ctx.rc.qp, .timeout = RN_NS_PER_S, .linger = RN_NS_PER_S };
	return port.pool != NULL ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	ud_group_drain(&worker);
	dgram_destroy(&worker.dgram, &q.u.qp);
	rig_free(rig);
	port_tx_drop_all(&worker.tx[0]);
	while (worker.loop_head != worker.loop_tail)
		rte_pktmbuf_free(worker.loop[worker.loop_head++ % WORKER_LOOP]);
	uint32_t left = rte_mempool_in_use_count(port.pool);
	rte_mempool_free(port.pool);
	return left == 0 ? 0 : -1;
}

/* Posts a Send, or the request for a Read-Record of memory that rkey stands for. */
static void post(uint8_t op, uint32_t rkey)
{
	struct {
		struct qp_wqe w;
		struct qp_sge sge[4];
	} e = { .w = { .op = op, .num_sge = 1, .slots = 1, .ud = { .qpn = QPN, .qkey = QKEY } } };

	if (op == QP_WR_READ) {
		e.w.slots = 2;
		e.w.rkey = rkey;
		e.w.dgram_write.raddr = RIG_IOVA(0);
		e.sge[0] = (struct qp_sge){ .addr = RIG_IOVA(0) + LEN, .len = LEN, .lkey = rig->n[0].lkey };
	} else {
		e.w.dgram.sge[0] = rig_sge(&rig->n[0], 0, len);
	}
	memcpy(e.w.dgram.addr, port_cfg.ip.b, sizeof(e.w.dgram.addr));
	if (to_group) {
		memcpy(e.w.dgram.addr, group.addr.b, sizeof(e.w.dgram.addr));
		e.w.ud.qpn = UDPL_QPN_GROUP;
	}
	spsc_prod_copy(&rig->n[0].q[0].sq, 0, &e, e.w.slots * QP_SLOT_SIZE);
	spsc_prod_publish(&rig->n[0].q[0].sq, e.w.slots);
	dgram_doorbell(&worker.dgram, &q.u.qp);
}

static uint32_t frames(void) { return worker.loop_tail - worker.loop_head; }

/* The next frame of the loop. */
static struct rte_mbuf *next_frame(struct pkt *p, struct udpl_hdr *h)
{
	assert_int_not_equal(frames(), 0);
	struct rte_mbuf *m = worker.loop[worker.loop_head++ % WORKER_LOOP];
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	assert_int_equal(pkt_parse(frame, m->data_len, m->pkt_len, p), PKT_OK);
	assert_int_equal(udpl_parse(frame + p->payload_off, p->payload_len, h), UDPL_OK);
	return m;
}

/* The queue pair receives the next datagram; returns its kind. */
static uint8_t receive(void)
{
	struct udpl_hdr h;
	struct pkt p;
	struct rte_mbuf *m = next_frame(&p, &h);

	ud_deliver(&worker, &q.u.qp, m, &p, &h, false);
	rte_pktmbuf_free(m);
	return h.kind;
}

static void work_goes_on_after_answers_whose_memory_has_gone(uint32_t unit)
{
	queue_pair(unit);
	const uint32_t rkey = rig_reg(&rig->n[0], 0, LEN, QP_ACC_REMOTE_READ, RIG_PD);
	for (uint32_t i = 0; i < 2; i++)
		post(QP_WR_READ, rkey);
	assert_int_equal(ud_transmit(&worker), 2);
	assert_int_equal(receive(), UDPL_READ);
	assert_int_equal(receive(), UDPL_READ);
	assert_true(dgram_read_owed(&q.u.qp));
	assert_int_equal(qp_mr_dereg(&rig->n[0].dev, rkey), QP_MR_OK);
	post(QP_WR_SEND, 0);
	assert_int_equal(ud_transmit(&worker), 1);
	assert_int_equal(receive(), UDPL_SEND);
	assert_int_equal(worker.dgram.qp->stats.ud_refused, 2);
	assert_false(dgram_waits(&q.u.qp));
}

static void short_work(void **state)
{
	(void)state;
	work_goes_on_after_answers_whose_memory_has_gone(UNIT);
}

static void long_work(void **state)
{
	(void)state;
	work_goes_on_after_answers_whose_memory_has_gone(4 * UNIT);
}

/* The rest of a message may be among the frames that the worker has not read yet. */
static void a_message_has_time_until_the_frames_are_read(void **state)
{
	const struct qp_sge sge = rig_sge(&rig->n[0], 1024, DGRAM_GRH_LEN + UNIT);

	(void)state;
	queue_pair(UNIT);
	q.msgs.unit = UDPL_UNIT;
	len = UNIT;
	worker.now = worker.dgram.qp->now = RN_NS_PER_S;
	assert_true(rig_post_recv(&rig->n[0], 0, 7, &sge, 1));
	post(QP_WR_SEND, 0);
	assert_int_equal(ud_transmit(&worker), 2);
	assert_int_equal(receive(), UDPL_SEGMENT);
	worker.now = worker.dgram.qp->now = 3 * RN_NS_PER_S;
	worker.tcp.turns.behind = true;
	assert_int_equal(ud_timers(&worker), 0);
	assert_int_equal(receive(), UDPL_SEGMENT);
	assert_true(q.msgs.track.n_open == 0 && worker.dgram.qp->stats.ud_incomplete == 0);
	post(QP_WR_SEND, 0);
	assert_true(rig_post_recv(&rig->n[0], 0, 8, &sge, 1));
	assert_int_equal(ud_transmit(&worker), 2);
	assert_int_equal(receive(), UDPL_SEGMENT);
	worker.now = worker.dgram.qp->now = 5 * RN_NS_PER_S;
	worker.tcp.turns.behind = false;
	assert_int_equal(ud_timers(&worker), 1);
	assert_int_equal(worker.dgram.qp->stats.ud_incomplete, 1);
}

/* Any user may have thousands of queue pairs that wait for a slow device. */
static void queue_pairs_without_room_have_a_part_of_each_turn(void **state)
{
	enum { MANY = 2 * WORKER_BURST };
	static struct ud_qp many[MANY];

	(void)state;
	queue_pair(UNIT);
	post(QP_WR_SEND, 0);
	assert_ptr_equal(dgram_pop(&worker.dgram), &q.u.qp);
	for (uint32_t i = 0; i < MANY; i++) {
		many[i] = q.u;
		dgram_put(&worker.dgram, &many[i].qp);
	}
	worker.loop_tail = worker.loop_head + WORKER_LOOP;
	assert_int_not_equal(ud_transmit(&worker),
			     0); /* some may be of a device that has room: the worker does not sleep */
	worker.loop_tail = worker.loop_head;
	for (uint32_t i = 0; i < MANY; i++)
		assert_ptr_equal(dgram_pop(&worker.dgram), &many[(WORKER_BURST + i) % MANY].qp);
	assert_null(dgram_pop(&worker.dgram));
}

static void queue_pairs_of_each_user_have_their_turn(void **state)
{
	static const uint8_t tenant[] = { 1, 1, 1, QP_TENANTS - 1 }, turn[] = { 0, 3, 1, 2 };
	static struct ud_qp many[RN_ARRAY_LEN(tenant)];

	(void)state;
	queue_pair(UNIT);
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < RN_ARRAY_LEN(tenant); i++) {
			many[i] = q.u;
			many[i].qp.ready = false;
			many[i].qp.tenant = tenant[i];
			dgram_doorbell(&worker.dgram, &many[i].qp);
		}
		if (round == 0)
			assert_ptr_equal(dgram_pop(&worker.dgram), &q.u.qp); /* it was put when it became ready */
		for (uint32_t i = 0; i < RN_ARRAY_LEN(turn); i++)
			assert_ptr_equal(dgram_pop(&worker.dgram), &many[turn[i]].qp);
		assert_null(dgram_pop(&worker.dgram));
	}
}

/* Makes n whole records, of several queue pairs' tables, that have waited since now. */
static void open_records(struct dgram_msgs *many, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct dgram_msgs *g = &many[i / DGRAM_OPEN];
		const struct dgram_key k = { .src_qpn = QPN, .id = i };
		struct dgram_msg *m = dgram_track_open(&g->track, &k, UNIT, UNIT);

		g->qp = &q.u.qp;
		m->record = true;
		m->at = worker.now;
		dgram_msg_mark(m, 0, UNIT);
		rn_list_push_back(&worker.dgram.open, &m->link);
	}
}

static void records_without_room_get_a_part_of_each_turn(void **state)
{
	static struct dgram_msgs many[4];
	const uint32_t n = RN_ARRAY_LEN(many) * DGRAM_OPEN;
	struct qp_ctx *ctx = worker.dgram.qp;
	struct qp_cqe cqe = { .op = QP_WC_RECORD };
	uint32_t told = 0;

	(void)state;
	queue_pair(UNIT);
	worker.now = ctx->now = RN_NS_PER_S;
	while (qp_extra_room(ctx, &q.u.qp) > 0) /* the CQ has no room for records */
		qp_extra_cqe(ctx, &q.u.qp, &cqe, NULL);
	rc_flush(&rig->n[0].ctx.rc);
	open_records(many, n);
	worker.now = ctx->now = 2 * RN_NS_PER_S;
	for (uint32_t left = n; left > 0; left -= WORKER_BURST) {
		assert_true(dgram_due(&worker.dgram) <= worker.now); /* the worker does not sleep */
		assert_int_equal(ud_timers(&worker), WORKER_BURST);
	}
	assert_int_equal(ud_timers(&worker), 0);
	while (rig_poll(&rig->n[0].rcq_client, &cqe))
		;
	worker.now = ctx->now = dgram_due(&worker.dgram);
	while (ud_timers(&worker) > 0)
		;
	rc_flush(&rig->n[0].ctx.rc);
	while (rig_poll(&rig->n[0].rcq_client, &cqe))
		told += (cqe.flags & QP_WCF_RECORD_WHOLE) != 0;
	assert_int_equal(told, n);
	assert_true(rn_list_empty(&worker.dgram.open));
}

#define MEMBERS 100u

/* A group with many members. All of them are the one queue pair, which has posted no receive. */
static void make_group(void)
{
	static struct ud_member member[MEMBERS];

	queue_pair(UNIT);
	group = (struct ud_group){ .addr = pkt_addr_ip4(0xef010101) };
	for (uint32_t i = 0; i < MEMBERS; i++) {
		member[i] = (struct ud_member){ .u = &q.u };
		ud_group_add(&group, &member[i]);
	}
	ud_group_set(&worker, &group, 1, MEMBERS);
	to_group = true;
}

static void a_datagram_to_a_group_counts_for_each_member(void **state)
{
	const struct qp_stats *st = &worker.dgram.qp->stats;
	struct udpl_hdr h;
	struct pkt p;

	(void)state;
	make_group();
	for (uint32_t i = 0; i < WORKER_BURST; i++)
		post(QP_WR_SEND, 0);
	for (uint32_t i = 1; i <= WORKER_BURST; i++) {
		assert_true(ud_transmit(&worker) > MEMBERS);
		assert_int_equal(frames(), 1); /* the others wait for the next turn */
		struct rte_mbuf *m = next_frame(&p, &h);
		ud_group_input(&worker, &port, m, &p, &h, false);
		assert_int_equal(st->ud_no_recv, i * MEMBERS);
	}
	assert_int_equal(ud_transmit(&worker), 0);
}

static void a_datagram_to_a_group_with_a_wrong_crc_counts_once(void **state)
{
	struct udpl_hdr h;
	struct pkt p;

	(void)state;
	make_group();
	post(QP_WR_SEND, 0);
	(void)ud_transmit(&worker);
	struct rte_mbuf *m = next_frame(&p, &h);
	*rte_pktmbuf_mtod_offset(m, uint8_t *, p.payload_off + p.payload_len - 1) ^= 1;
	memset(rte_pktmbuf_mtod_offset(m, uint8_t *, p.l4_off + 6), 0, 2); /* without UDP checksum */
	ud_group_input(&worker, &port, m, &p, &h, false);
	assert_int_equal(worker.tcp.rc.qp.stats.ud_crc + worker.dgram.qp->stats.ud_crc, 1);
	assert_int_equal(worker.dgram.qp->stats.ud_no_recv, 0);
}

/* As another device would send the frame that the queue pair sends to the group. */
static struct rte_mbuf *frame_of_another(struct pkt *p, struct udpl_hdr *h)
{
	post(QP_WR_SEND, 0);
	assert_true(ud_transmit(&worker) > 0);
	struct rte_mbuf *m = next_frame(p, h);
	uint8_t *src = rte_pktmbuf_mtod_offset(m, uint8_t *, p->l3_off + 12);
	const uint8_t was[4] = { src[0], src[1], src[2], src[3] };
	memcpy(src, was + 2, 2); /* the halves exchanged: the header's checksum is right for both */
	memcpy(src + 2, was, 2);
	memset(rte_pktmbuf_mtod_offset(m, uint8_t *, p->l4_off + 6), 0, 2); /* without UDP checksum */
	assert_int_equal(pkt_parse(rte_pktmbuf_mtod(m, const uint8_t *), m->data_len, m->pkt_len, p), PKT_OK);
	port_tx_drop_all(&worker.tx[0]);
	return m;
}

static void to_the_group(bool from_wire)
{
	struct udpl_hdr h;
	struct pkt p;
	struct rte_mbuf *m = frame_of_another(&p, &h);

	ud_group_input(&worker, &port, m, &p, &h, from_wire);
}

/* A stranger's frame costs it little, and the worker a copy and more for each member. */
static void frames_from_a_line_to_a_group_have_a_part_of_each_turn(void **state)
{
	enum { COME = 32, LOAD = 256, EACH = (LOAD + MEMBERS) / (MEMBERS + 1) };
	const struct qp_stats *st = &worker.dgram.qp->stats;

	(void)state;
	make_group();
	worker.late_free = 2 * COME;
	for (uint32_t i = 0; i < COME; i++)
		to_the_group(i % 2 == 0);
	for (uint32_t had = EACH; had < COME; had += EACH) {
		assert_int_equal(st->ud_no_recv, had * MEMBERS);
		assert_int_equal(worker.late_free, 2 * COME - (COME - had));
		assert_in_range(ud_group_turn(&worker), 1, EACH); /* the worker does not sleep */
	}
	assert_int_equal(st->ud_no_recv, COME * MEMBERS);
	assert_int_equal(ud_group_turn(&worker), 0);
	assert_int_equal(worker.late_free, 2 * COME);
	assert_int_equal(port.stats[0].rx_no_room, 0);
	assert_int_equal(rte_mempool_in_use_count(port.pool), 0);
}

static void a_flood_to_one_group_leaves_room_to_frames_of_another(void **state)
{
	enum { ROOM = 16 };
	static struct ud_member member;
	static struct ud_group other;

	(void)state;
	make_group();
	other = (struct ud_group){ .addr = pkt_addr_ip4(0xef020202) };
	member = (struct ud_member){ .u = &q.u };
	ud_group_add(&other, &member);
	ud_group_set(&worker, &other, 1, 1);
	worker.late_free = ROOM;
	for (uint32_t i = 0; i < 2 * ROOM; i++)
		to_the_group(true);
	assert_int_equal(worker.late_free, ROOM / 2);
	assert_int_equal(port.stats[0].rx_no_room, 2 * ROOM - 3 - ROOM / 2);
	const struct pkt_addr flooded = group.addr;
	group.addr = other.addr; /* where Sends go */
	to_the_group(true);
	group.addr = flooded;
	assert_int_equal(other.n_late, 1);
	(void)ud_group_turn(&worker);
	assert_int_equal(other.n_late, 0); /* the other's turn has come */
	assert_int_not_equal(group.n_late, 0);
	ud_group_set(&worker, &group, 0, 0);
	assert_int_equal(group.n_late, 0);
	assert_int_equal(worker.late_free, ROOM);
	assert_int_equal(rte_mempool_in_use_count(port.pool), 0);
	ud_group_set(&worker, &other, 0, 0);
}

static void a_socket_reaches_a_group_of_queue_pairs_at_datagram_port_only(void **state)
{
	(void)state;
	make_group();
	for (uint32_t i = 0; i < 2; i++) {
		const struct ud_dest to = { .addr = &group.addr, .sport = 5000, .dport = (uint16_t)(UD_PORT + i) };
		struct rte_mbuf *m = rte_pktmbuf_alloc(port.pool);

		assert_non_null(m);
		assert_int_equal(ud_launch_to(&worker, &port, m, &to, LEN), i == 0 ? 1 + MEMBERS : 1);
		assert_int_equal(frames(), 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{ "work_goes_on_after_answers_whose_memory_has_gone", short_work, setup, teardown, NULL },
		{ "a_message_has_time_until_the_frames_are_read", a_message_has_time_until_the_frames_are_read, setup,
		  teardown, NULL },
		{ "and_where_segments_may_be_longer_than_a_packet", long_work, setup, teardown, NULL },
		{ "queue_pairs_without_room_have_a_part_of_each_turn",
		  queue_pairs_without_room_have_a_part_of_each_turn, setup, teardown, NULL },
		{ "queue_pairs_of_each_user_have_their_turn", queue_pairs_of_each_user_have_their_turn, setup, teardown,
		  NULL },
		{ "records_without_room_get_a_part_of_each_turn", records_without_room_get_a_part_of_each_turn, setup,
		  teardown, NULL },
		{ "a_datagram_to_a_group_counts_for_each_member", a_datagram_to_a_group_counts_for_each_member, setup,
		  teardown, NULL },
		{ "frames_from_a_line_to_a_group_have_a_part_of_each_turn",
		  frames_from_a_line_to_a_group_have_a_part_of_each_turn, setup, teardown, NULL },
		{ "a_flood_to_one_group_leaves_room_to_frames_of_another",
		  a_flood_to_one_group_leaves_room_to_frames_of_another, setup, teardown, NULL },
		{ "a_datagram_to_a_group_with_a_wrong_crc_counts_once",
		  a_datagram_to_a_group_with_a_wrong_crc_counts_once, setup, teardown, NULL },
		{ "a_socket_reaches_a_group_of_queue_pairs_at_datagram_port_only",
		  a_socket_reaches_a_group_of_queue_pairs_at_datagram_port_only, setup, teardown, NULL },
	};

	if (!eal_for_test())
		return 77;
	return cmocka_run_group_tests_name("ud_turn", tests, NULL, NULL);
}
