/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram queue pairs of an embedded program, over the kernel's sockets on loopback. The test plays the control thread
 * and runs each turn itself. The queues and memory of the queue pairs are those of the rig of test/qp.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "border/event.h"
#include "rig.h"
#include "sockets/ks_ud.h"
#include "sockets_rig.h"
#include "udp/udpl_sidr.h"

/* ---- datagram queue pairs of one process ---- */

#define ENDS    6u
#define SENDS   80u /* more than twice what a queue pair may send in its turn */
#define QKEY    0x11111111u
#define READ    8u   /* octets that a Read-Record reads */
#define ROUNDS  100u /* turns after which all must have been sent */
#define NOBODY  (rnicd.qpn_first + 100)
#define QPN(i)  (rnicd.qpn_first + (i))
#define NODE(i) (&r->n[(i) % 2])

static struct ud_long_qp end_qp[ENDS];

/* The end is queue pair i / 2 of node i % 2, over the rings of that queue pair. */
static void end_make(struct rig *r, uint32_t i)
{
	struct qp_attr a = rig_attr(NODE(i), i / 2);
	struct qp *qp = &end_qp[i].u.qp;

	a.type = QP_UD;
	a.qpn = QPN(i);
	a.access = QP_ACC_REMOTE;
	a.max_msg = dgram_max(UDPL_UNIT);
	rc_destroy(&NODE(i)->ctx.rc, &NODE(i)->q[i / 2].qp);
	assert_int_equal(qp_init(qp, &a), QP_OK);
	qp_set(qp, &(struct qp_tune){ .qkey = QKEY, .access = QP_ACC_REMOTE });
	dgram_msgs_init(&end_qp[i].msgs, qp, UDPL_UNIT, UDPL_UNIT, 0);
	ks_ud_add(&end_qp[i].u, 0);
	for (uint32_t s = QP_S_INIT; s <= QP_S_RTS; s++)
		assert_int_equal(dgram_modify(&ks.dgram, qp, (enum qp_state)s), QP_OK);
}

static struct rig *ends_make(void)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	struct rig *r = rig_new(&cfg);
	for (uint32_t i = 0; i < ENDS; i++)
		end_make(r, i);
	return r;
}

static void ends_free(struct rig *r)
{
	for (uint32_t i = 0; i < ENDS; i++) {
		ks_ud_end(&end_qp[i].u, false);
		dgram_destroy(&ks.dgram, &end_qp[i].u.qp);
	}
	rig_free(r);
}

/* Posts messages without data to a queue pair that does not exist. */
static void post_sends(struct rig *r, uint32_t i)
{
	struct rig_qp *q = &NODE(i)->q[i / 2];
	struct qp_wqe w = {
		.op = QP_WR_SEND, .flags = QP_WF_SIGNALED, .slots = 1, .ud = { .qpn = NOBODY, .qkey = QKEY }
	};

	memcpy(w.dgram.addr, rnicd.port[0]->cfg->ip.b, sizeof(w.dgram.addr));
	for (uint32_t n = 0; n < SENDS; n++)
		spsc_prod_copy(&q->sq, n, &w, sizeof(w));
	spsc_prod_publish(&q->sq, SENDS);
}

/* Posts a request of end i to read from the memory of end `of`. */
static void post_read(struct rig *r, uint32_t i, uint32_t of)
{
	struct rig_qp *q = &NODE(i)->q[i / 2];
	struct {
		struct qp_wqe w;
		struct qp_sge sge[4];
	} e = { .w = { .op = QP_WR_READ,
		       .flags = QP_WF_SIGNALED,
		       .num_sge = 1,
		       .slots = 2,
		       .rkey = NODE(of)->rkey,
		       .ud = { .qpn = QPN(of), .qkey = QKEY } },
		.sge = { rig_sge(NODE(i), READ * of, READ) } };

	memcpy(e.w.dgram_write.addr, rnicd.port[0]->cfg->ip.b, sizeof(e.w.dgram_write.addr));
	e.w.dgram_write.raddr = RIG_IOVA(NODE(of)->id);
	spsc_prod_copy(&q->sq, 0, &e, sizeof(e));
	spsc_prod_publish(&q->sq, 2);
}

/* Runs turns until no queue pair has anything to send, and counts each end's completions of both queues. */
static void run(struct rig *r, const uint32_t *order, uint32_t n, uint32_t done[ENDS], uint32_t records[ENDS])
{
	struct qp_cqe c;

	memset(done, 0, ENDS * sizeof(*done));
	memset(records, 0, ENDS * sizeof(*records));
	for (uint32_t k = 0; k < n; k++)
		ks_doorbell(&end_qp[order[k]].u.qp);
	for (uint32_t k = 0; k < ROUNDS && ks_ud_more(); k++)
		assert_true(ks_poll());
	for (uint32_t k = 0; k < 2; k++) {
		while (rig_poll(&NODE(k)->scq_client, &c)) {
			assert_int_equal(c.status, QP_WC_SUCCESS);
			done[c.qpn - QPN(0)]++;
		}
		while (rig_poll(&NODE(k)->rcq_client, &c)) {
			assert_true(c.status == QP_WC_SUCCESS && c.op == QP_WC_RECORD && c.byte_len == READ);
			records[c.qpn - QPN(0)]++;
		}
	}
	assert_false(ks_ud_more());
}

/* A request arrives, within the turn in which it is sent, at a queue pair that has more to send in the next turn. */
static void request_to_a_queue_pair_that_waits_for_its_next_turn_stops_no_sends(void **state)
{
	static const uint32_t order[] = { 0, 1, 2 };
	uint32_t done[ENDS], records[ENDS];
	struct rig *r = ends_make();

	(void)state;
	post_sends(r, 0);
	post_sends(r, 1);
	post_read(r, 2, 0);
	run(r, order, RN_ARRAY_LEN(order), done, records);
	assert_int_equal(done[0], SENDS);
	assert_int_equal(done[1], SENDS);
	assert_int_equal(done[2], 1);
	assert_int_equal(records[2], 1);
	ends_free(r);
}

/* As before; and the turn has no time left for the queue pairs that have got requests. */
static void request_at_the_end_of_a_full_turn_is_answered_in_the_next(void **state)
{
	static const uint32_t order[] = { 0, 2, 1, 3, 5 };
	uint32_t done[ENDS], records[ENDS];
	struct rig *r = ends_make();

	(void)state;
	for (uint32_t k = 0; k < RN_ARRAY_LEN(order); k++)
		if (order[k] != 2)
			post_sends(r, order[k]);
	post_read(r, 2, 0);
	post_read(r, 2, 4);
	run(r, order, RN_ARRAY_LEN(order), done, records);
	for (uint32_t k = 0; k < RN_ARRAY_LEN(order); k++)
		assert_int_equal(done[order[k]], order[k] == 2 ? 2 : SENDS);
	assert_int_equal(records[2], 2);
	ends_free(r);
}

/* ---- the control thread is behind ---- */

/* Fills the queue to the control thread as far as events of this class may. */
static void fill(enum event_class class)
{
	struct event *ev;

	while ((ev = event_room(0, class)) != NULL) {
		ev->type = EVENT_FX;
		ev->fx = (struct event_fx){ .type = QP_FX_CLOSED };
		event_put(0);
	}
}

static uint32_t n_events;
static void count_event(const struct event *ev) { n_events += ev->type == EVENT_FX; }

static void datagram_that_the_control_thread_has_no_room_for_is_not_lost_uncounted(void **state)
{
	const struct rnicd_port_stats *st = &rnicd.port[0]->stats[0];
	const struct udpl_sidr ask = { .id = 1, .port = 7, .src_port = 7 };
	uint8_t asks[UDPL_SIDR_MAX], sends[UDPL_HDR_LEN + UDPL_CRC_LEN];
	struct ks_gram g = { .p = asks, .from = rnicd.port[1]->cfg->ip, .to = rnicd.port[0]->cfg->ip, .passed = true };

	(void)state;
	g.len = udpl_sidr_build(asks, UDPL_SIDR_REQ, &ask);
	fill(EVENT_DROPPABLE);
	ks_ud_take(&g);
	assert_int_equal(st->rx_no_room, 1);
	fill(EVENT_LOSSLESS);
	ks.rc.qp.n_fx = QP_FX_MAX; /* effects that wait for room */
	udpl_build(sends, &(struct udpl_hdr){ .kind = UDPL_SEND, .dst_qpn = NOBODY, .src_qpn = NOBODY });
	g.p = sends;
	g.len = sizeof(sends);
	ks_ud_take(&g);
	assert_int_equal(st->rx_no_room, 2);
	ks.rc.qp.n_fx = 0;
	while (event_collect(64, count_event) != 0)
		;
	assert_true(n_events > 0);
	ks_ud_take(&g);
	assert_int_equal(st->rx_no_room, 2);
}

/* A reply for a process that is gone, and a datagram to a group that the last member has just left. */
static void datagram_for_nobody_is_not_lost_uncounted(void **state)
{
	const struct udpl_sidr tells = { .id = rnicd.process + 1u };
	uint8_t reply[UDPL_SIDR_MAX], sends[UDPL_HDR_LEN + UDPL_CRC_LEN];
	struct ks_gram g = { .p = reply, .from = rnicd.port[1]->cfg->ip, .to = rnicd.port[0]->cfg->ip };
	const uint64_t before = ks.rc.qp.stats.ud_no_qp;

	(void)state;
	g.sport = g.dport = rnicd.port[0]->cfg->ud_port;
	g.len = udpl_sidr_build(reply, UDPL_SIDR_REP, &tells);
	ks_ud_take(&g);
	assert_int_equal(ks.rc.qp.stats.ud_no_qp, before + 1);
	g.p = sends;
	g.len = sizeof(sends);
	g.to = pkt_addr_ip4(0xe0000101);
	udpl_build(sends, &(struct udpl_hdr){ .kind = UDPL_SEND, .dst_qpn = UDPL_QPN_GROUP, .src_qpn = NOBODY });
	ks_ud_take(&g);
	assert_int_equal(ks.rc.qp.stats.ud_no_qp, before + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_to_a_queue_pair_that_waits_for_its_next_turn_stops_no_sends),
		cmocka_unit_test(request_at_the_end_of_a_full_turn_is_answered_in_the_next),
		cmocka_unit_test(datagram_that_the_control_thread_has_no_room_for_is_not_lost_uncounted),
		cmocka_unit_test(datagram_for_nobody_is_not_lost_uncounted),
	};

	return cmocka_run_group_tests_name("sockets_ud", tests, sockets_begin, NULL);
}
