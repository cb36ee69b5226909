/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram messages of many segments: two devices, with the test in the wire's place, which loses, repeats, delays and
 * corrupts datagrams as its seed says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "crc32c/crc32c.h"
#include "gram_rig.h"

#define PLACE 32768u /* bytes of each receive */

static struct rig *pair(void) { return gram_pair(0, dgram_max(UNIT)); }

/* Byte i of message number m. */
static uint8_t byte_of(uint32_t m, uint32_t i) { return (uint8_t)(m * 31 + i * 7 + (i >> 8) * 13 + 1); }

static uint32_t to_qpn = 10; /* of messages that are posted; their address is to_addr */

static void post_as(struct rig *r, uint32_t m, uint32_t len, uint8_t op)
{
	struct rig_qp *p = &A->q[0];
	uint8_t *at = A->mem + FROM + m % 16 * PLACE;
	struct qp_wqe w = { .wr_id = m,
			    .op = op,
			    .flags = QP_WF_SIGNALED | (m % 2 ? QP_WF_SOLICITED : 0),
			    .num_sge = 1,
			    .slots = 1,
			    .aux = op == QP_WR_SEND_IMM ? m : 0,
			    .ud = { .qpn = to_qpn, .qkey = QKEY } };

	for (uint32_t i = 0; i < len; i++)
		at[i] = byte_of(m, i);
	memcpy(w.dgram.addr, to_addr, sizeof(w.dgram.addr));
	w.dgram.sge[0] = rig_sge(A, (uint32_t)(at - A->mem), len);
	spsc_prod_copy(&p->sq, 0, &w, sizeof(w));
	spsc_prod_publish(&p->sq, 1);
	dgram_doorbell(&A->dgram, &p->qp);
}

static void post(struct rig *r, uint32_t m, uint32_t len) { post_as(r, m, len, QP_WR_SEND); }

static void recv_at(struct rig *r, uint32_t i, uint32_t len)
{
	struct qp_sge s[2] = { rig_sge(B, FROM + i * PLACE, len / 2),
			       rig_sge(B, FROM + i * PLACE + len / 2, len - len / 2) };

	memset(B->mem + FROM + i * PLACE, 0xee, PLACE);
	assert_true(rig_post_recv(B, 0, i, s, 2));
}

static void crc_again(struct gram *g) { udpl_crc_put(g->p, g->len - 4, crc32c(0, g->p, g->len - 4)); }

/* Checks that receive i holds the whole message m of len bytes. */
static void whole(struct rig *r, const struct qp_cqe *c, uint32_t m, uint32_t len)
{
	const uint8_t *at = B->mem + FROM + c->wr_id * PLACE;

	assert_int_equal(c->status, QP_WC_SUCCESS);
	assert_int_equal(c->byte_len, DGRAM_GRH_LEN + len);
	assert_true((c->flags & QP_WCF_GRH) != 0 && c->src_qp == 10);
	assert_memory_equal(at + 8, addr_a, 16);
	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(at[DGRAM_GRH_LEN + i], byte_of(m, i));
}

static void every_length_in_any_order(void **state)
{
	static const uint32_t lens[] = { 1, UNIT, UNIT + 1, 2 * UNIT - 1, 2 * UNIT, 7 * UNIT + 5, 32000 };
	struct rig *r = pair();

	(void)state;
	for (uint32_t k = 0; k < 3 * RN_ARRAY_LEN(lens); k++) {
		const uint32_t len = lens[k / 3], segs = (len + UNIT - 1) / UNIT;

		n_wire = 0;
		recv_at(r, 0, DGRAM_GRH_LEN + len);
		post_as(r, k, len, k % 3 == 2 ? QP_WR_SEND_IMM : QP_WR_SEND);
		send_all(r);
		assert_int_equal(n_wire, segs);
		assert_int_equal(got(&A->scq_client).byte_len, len);
		none(&A->scq_client);
		for (uint32_t i = 0; i < segs; i++) {
			none(&B->rcq_client);
			in(r, &wire[k % 3 == 0 ? i : k % 3 == 1 ? segs - 1 - i : (i + segs / 2) % segs]);
		}
		const struct qp_cqe c = got(&B->rcq_client);
		whole(r, &c, k, len);
		assert_int_equal(c.solicited, k % 2);
		assert_int_equal((c.flags & QP_WCF_WITH_IMM) != 0, k % 3 == 2);
		assert_true(k % 3 != 2 || c.aux == k);
		assert_int_equal(B->mem[FROM + DGRAM_GRH_LEN + len], 0xee);
	}
	assert_int_equal(stats(r)->ud_in, A->ctx.rc.qp.stats.ud_out);
	assert_true(rn_list_empty(&B->dgram.open));
	rig_free(r);
}

static void a_lost_segment_costs_its_message_and_no_receive(void **state)
{
	struct rig *r = pair();

	(void)state;
	recv_at(r, 0, PLACE);
	for (uint32_t lost = 0; lost < 5; lost++) {
		n_wire = 0;
		post(r, lost, 5 * UNIT);
		send_all(r);
		for (uint32_t i = 0; i < 5; i++)
			if (i != lost)
				in(r, &wire[i]);
		clock_on(r, TIMEOUT - 1);
		assert_int_equal(stats(r)->ud_incomplete, lost);
		assert_true(dgram_due(&B->dgram) == r->now + 1);
		clock_on(r, 1);
		assert_int_equal(stats(r)->ud_incomplete, lost + 1);
		assert_true(dgram_due(&B->dgram) == RN_NEVER);
		in(r, &wire[lost]); /* too late: the segment begins no new message */
		assert_int_equal(stats(r)->ud_again, lost + 1);
		none(&B->rcq_client);
	}
	/* The only receive serves a message of one datagram, then one of many. */
	n_wire = 0;
	post(r, 5, 100);
	send_all(r);
	in(r, &wire[0]);
	struct qp_cqe c = got(&B->rcq_client);
	whole(r, &c, 5, 100);
	in(r, &wire[0]);
	assert_int_equal(stats(r)->ud_no_recv, 1);
	rig_free(r);
}

static void what_comes_twice_or_late_changes_nothing(void **state)
{
	struct rig *r = pair();

	(void)state;
	recv_at(r, 0, PLACE);
	recv_at(r, 1, PLACE);
	post(r, 0, 3 * UNIT);
	send_all(r);
	in(r, &wire[1]);
	in(r, &wire[1]);
	assert_int_equal(stats(r)->ud_again, 1);
	in(r, &wire[0]);
	in(r, &wire[2]);
	struct qp_cqe c = got(&B->rcq_client);
	whole(r, &c, 0, 3 * UNIT);
	B->mem[FROM + DGRAM_GRH_LEN] ^= 0xff; /* the bytes belong to the client from now on */
	for (uint32_t i = 0; i < 3; i++)
		in(r, &wire[i]);
	assert_int_equal(stats(r)->ud_again, 4);
	assert_int_equal(B->mem[FROM + DGRAM_GRH_LEN], byte_of(0, 0) ^ 0xff);
	none(&B->rcq_client);
	/* A message from another host is another one, although the numbers are the same. */
	for (uint32_t i = 0; i < 3; i++)
		in_from(B, &wire[i], 9);
	assert_int_equal(got(&B->rcq_client).wr_id, 1);
	rig_free(r);
}

/* A queue pair with a UDP port of its own has the number of the one before it: only its MSNs tell the two apart. */
static void a_queue_pair_that_is_made_anew_is_not_taken_for_the_one_before(void **state)
{
	struct rig *r = pair();
	struct qp_cqe c;

	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		recv_at(r, i, PLACE);
	for (uint32_t m = 0; m < 2; m++)
		post(r, m, 3 * UNIT);
	send_all(r);
	for (uint32_t i = 0; i < 5; i++) /* one segment is lost: the message stays open */
		in(r, &wire[i]);
	c = got(&B->rcq_client);
	whole(r, &c, 0, 3 * UNIT);
	gram_anew(r, UINT32_MAX - 1); /* the numbers go on with 0 */
	n_wire = 0;
	for (uint32_t m = 2; m < 4; m++)
		post(r, m, 3 * UNIT);
	send_all(r);
	assert_int_equal(n_wire, 6);
	for (uint32_t i = 0; i < 6; i++)
		in(r, &wire[i]);
	for (uint32_t m = 2; m < 4; m++) {
		c = got(&B->rcq_client);
		whole(r, &c, m, 3 * UNIT);
	}
	assert_int_equal(stats(r)->ud_again, 0);
	rig_free(r);
}

static void a_segment_that_does_not_fit_its_message_is_dropped(void **state)
{
	/* which octet of the datagram is changed, and by what: unit, total, MO, L flag */
	static const struct {
		uint32_t at;
		uint8_t xor ;
	} bad[] = { { 3, 1 },  { 3, 3 },   { 19, 1 }, { 18, 1 },   { 16, 0x80 },
		    { 37, 1 }, { 37, 64 }, { 35, 1 }, { 20, 0x40 } };
	struct rig *r = pair();
	struct gram g;

	(void)state;
	recv_at(r, 0, PLACE);
	post(r, 0, 3 * UNIT);
	send_all(r);
	in(r, &wire[0]);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(bad); i++) {
		g = wire[1];
		g.p[bad[i].at] ^= bad[i].xor ;
		crc_again(&g);
		in(r, &g);
	}
	g = wire[1];
	memmove(g.p + g.len - 5, g.p + g.len - 4, 4); /* a payload that is one octet shorter */
	g.len--;
	crc_again(&g);
	in(r, &g);
	assert_true(msgs[1].track.n_open == 1 && stats(r)->ud_in == 1 && stats(r)->ud_again == 0);
	in(r, &wire[1]);
	in(r, &wire[2]);
	const struct qp_cqe c = got(&B->rcq_client);
	whole(r, &c, 0, 3 * UNIT);
	rig_free(r);
}

static void a_queue_pair_of_single_datagrams_takes_no_segment(void **state)
{
	struct rig *r = gram_pair(0, UNIT);

	(void)state;
	recv_at(r, 0, PLACE);
	post(r, 0, 2 * UNIT);
	post(r, 1, UNIT);
	send_all(r);
	for (uint32_t i = 0; i < 3; i++)
		in(r, &wire[i]);
	assert_int_equal(stats(r)->ud_bad, 2);
	const struct qp_cqe c = got(&B->rcq_client);
	whole(r, &c, 1, UNIT);
	rig_free(r);
}

static void a_message_that_finds_no_good_receive_begins_once(void **state)
{
	struct rig *r = pair();

	(void)state;
	post(r, 0, 3 * UNIT);
	send_all(r);
	in(r, &wire[0]);
	assert_int_equal(stats(r)->ud_no_recv, 1);
	recv_at(r, 0, DGRAM_GRH_LEN + 3 * UNIT - 1);
	recv_at(r, 1, PLACE);
	in(r, &wire[1]); /* the message is over: a later segment takes no receive */
	in(r, &wire[2]);
	none(&B->rcq_client);
	n_wire = 0;
	post(r, 1, 3 * UNIT);
	send_all(r);
	for (uint32_t i = 0; i < 3; i++)
		in(r, &wire[i]);
	struct qp_cqe c = got(&B->rcq_client);
	assert_true(c.status == QP_WC_LOC_LEN_ERR && c.wr_id == 0);
	assert_int_equal(stats(r)->ud_too_long, 1);
	none(&B->rcq_client);
	assert_int_equal(B->q[0].qp.state, QP_S_RTS);
	assert_int_equal(B->mem[FROM], 0xee);
	rig_free(r);
}

/*
 * The number of open messages is bounded, for each sender and for all together; a sender's newest message replaces its
 * oldest.
 */
static void tables_are_bounded(void **state)
{
	struct rig *r = pair();
	const uint32_t senders = DGRAM_OPEN / DGRAM_PER_SOURCE;

	(void)state;
	for (uint32_t i = 0; i < DGRAM_OPEN + 2; i++)
		recv_at(r, i, 4 * UNIT);
	for (uint32_t m = 0; m <= DGRAM_PER_SOURCE; m++)
		post(r, m, 2 * UNIT);
	send_all(r);
	for (uint8_t s = 0; s < senders; s++) {
		for (uint32_t m = 0; m < DGRAM_PER_SOURCE; m++) {
			in_from(B, &wire[2 * m], s);
			clock_on(r, 1);
		}
	}
	assert_int_equal(msgs[1].track.n_open, DGRAM_OPEN);
	in_from(B, &wire[0], 99);
	assert_int_equal(stats(r)->ud_full, 1);
	in_from(B, &wire[2 * DGRAM_PER_SOURCE], 1); /* the sender's first message ends */
	assert_int_equal(stats(r)->ud_incomplete, 1);
	in_from(B, &wire[1], 1);
	assert_int_equal(stats(r)->ud_again, 1);
	in_from(B, &wire[2 * DGRAM_PER_SOURCE + 1], 1);
	assert_int_equal(got(&B->rcq_client).status, QP_WC_SUCCESS);
	clock_on(r, TIMEOUT);
	assert_true(msgs[1].track.n_open == 0 && stats(r)->ud_incomplete == DGRAM_OPEN);
	rig_free(r);
}

/* What a QP sends to a group's address, or to the QPN that stands for a group's members, fits the path's MTU. */
static void long_segments_go_to_no_group(void **state)
{
	static const uint8_t group4[16] = { [10] = 0xff, 0xff, 239, 1, 1, 1 }, group6[16] = { 0xff, 0x0e, [15] = 1 };
	static const struct {
		const uint8_t *addr;
		uint32_t qpn, segs;
	} to[] = { { addr_b, 10, 2 },
		   { addr_b, UDPL_QPN_GROUP, 6 },
		   { group4, UDPL_QPN_GROUP, 6 },
		   { group4, 10, 6 },
		   { group6, 10, 6 } };
	struct rig *r = pair();

	(void)state;
	msgs[0].group_unit = UDPL_UNIT;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(to); i++) {
		n_wire = 0;
		to_addr = to[i].addr;
		to_qpn = to[i].qpn;
		post(r, i, 2 * UNIT);
		send_all(r);
		assert_int_equal(n_wire, to[i].segs);
		assert_int_equal(got(&A->scq_client).status, QP_WC_SUCCESS);
	}
	to_addr = addr_b;
	to_qpn = 10;
	rig_free(r);
}

/* The queue pair goes to ERR in the middle of messages: each posted receive and each posted send completes once. */
static void what_is_midway_is_flushed(void **state)
{
	struct rig *r = pair();
	struct dgram_to to;
	struct gram g;
	uint32_t seen = 0;

	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		recv_at(r, i, PLACE);
	post(r, 0, 3 * UNIT);
	post(r, 1, 3 * UNIT);
	send_all(r);
	in(r, &wire[0]);
	clock_on(r, TIMEOUT); /* leaves a spare receive */
	in(r, &wire[3]);
	in_from(B, &wire[4], 7);
	assert_int_equal(dgram_modify(&B->dgram, &B->q[0].qp, QP_S_ERR), QP_OK);
	rc_flush(&B->ctx.rc);
	for (uint32_t i = 0; i < 4; i++) {
		const struct qp_cqe c = got(&B->rcq_client);
		assert_int_equal(c.status, QP_WC_WR_FLUSH_ERR);
		seen |= 1u << c.wr_id;
	}
	none(&B->rcq_client);
	assert_true(seen == 15 && rn_list_empty(&B->dgram.open));

	got(&A->scq_client);
	got(&A->scq_client);
	post(r, 2, 3 * UNIT);
	post(r, 3, 3 * UNIT);
	g.len = dgram_out(&A->dgram, dgram_pop(&A->dgram), g.p, &to);
	assert_true(g.len > 0 && A->q[0].qp.midway);
	/* SQD: the message that has begun is sent to its end, then the queue is drained */
	qp_set(&A->q[0].qp, &(struct qp_tune){ .qkey = QKEY, .tell_drained = true });
	const uint32_t before = A->ctx.rc.qp.n_fx;
	assert_int_equal(dgram_modify(&A->dgram, &A->q[0].qp, QP_S_SQD), QP_OK);
	assert_true(dgram_waits(&A->q[0].qp) && A->ctx.rc.qp.n_fx == before);
	assert_true(dgram_out(&A->dgram, &A->q[0].qp, g.p, &to) > 0 && A->ctx.rc.qp.n_fx == before);
	assert_true(dgram_out(&A->dgram, &A->q[0].qp, g.p, &to) > 0 && !dgram_waits(&A->q[0].qp));
	assert_int_equal(A->ctx.rc.qp.fx[A->ctx.rc.qp.n_fx - 1].code, QP_EVENT_SQ_DRAINED);
	assert_int_equal(dgram_modify(&A->dgram, &A->q[0].qp, QP_S_RTS), QP_OK);
	assert_true(dgram_out(&A->dgram, &A->q[0].qp, g.p, &to) > 0);
	assert_int_equal(dgram_modify(&A->dgram, &A->q[0].qp, QP_S_ERR), QP_OK);
	rc_flush(&A->ctx.rc);
	assert_int_equal(got(&A->scq_client).status, QP_WC_SUCCESS);
	struct qp_cqe c = got(&A->scq_client);
	assert_true(c.status == QP_WC_WR_FLUSH_ERR && c.wr_id == 3);
	none(&A->scq_client);
	assert_int_equal(dgram_out(&A->dgram, &A->q[0].qp, g.p, &to), 0);
	rig_free(r);
}

/* Whether all that was posted to either queue has been taken. */
static bool flushed(const struct qp *qp)
{
	return qp->state == QP_S_ERR && spsc_cons_avail((struct spsc_cons *)&qp->sq, 1) == 0 &&
	       spsc_cons_avail((struct spsc_cons *)&qp->rq, 1) == 0;
}

/* A full CQ takes the queue pair to ERR. Nothing that is posted stays in its queues then, and no message stays open. */
static void a_full_completion_queue_leaves_nothing_behind(void **state)
{
	struct rig *r = gram_pair(4, dgram_max(UNIT));

	(void)state;
	for (uint32_t i = 0; i < 8; i++)
		recv_at(r, i, PLACE);
	post(r, 0, 2 * UNIT);
	for (uint32_t m = 1; m < 8; m++)
		post(r, m, UNIT);
	send_all(r);
	assert_true(flushed(&A->q[0].qp));
	in(r, &wire[0]); /* stays open */
	for (uint32_t i = 2; i < n_wire; i++)
		in(r, &wire[i]);
	for (uint32_t i = 2; i < 6 && B->q[0].qp.state != QP_S_ERR; i++)
		in(r, &wire[i]);
	assert_true(flushed(&B->q[0].qp));
	assert_true(msgs[1].track.n_open == 0 && rn_list_empty(&B->dgram.open));
	rig_free(r);
}

static void memory_that_goes_in_the_middle_fails_its_receive(void **state)
{
	struct rig *r = pair();

	(void)state;
	recv_at(r, 0, PLACE);
	recv_at(r, 1, PLACE);
	post(r, 0, 3 * UNIT);
	send_all(r);
	in(r, &wire[0]);
	assert_int_equal(qp_mr_dereg(&B->dev, B->lkey), QP_MR_OK);
	in(r, &wire[1]);
	struct qp_cqe c = got(&B->rcq_client);
	assert_true(c.status == QP_WC_LOC_PROT_ERR && c.wr_id == 0);
	c = got(&B->rcq_client);
	assert_true(c.status == QP_WC_WR_FLUSH_ERR && c.wr_id == 1);
	none(&B->rcq_client);
	assert_int_equal(B->q[0].qp.state, QP_S_ERR);
	rig_free(r);
}

/* ---- the seeds ---- */

#define MESSAGES 24u

struct play {
	struct rig *r;
	struct rn_rng rng;
	uint32_t len[MESSAGES];
	uint32_t whole[MESSAGES];
	uint32_t posted, free; /* receives */
};

/* Checks the message in each completed receive; the lengths of messages are all different. */
static void take_completions(struct play *y)
{
	struct rig *r = y->r;
	struct qp_cqe c;

	while (rig_poll(&B->rcq_client, &c)) {
		uint32_t m = 0;
		while (m < MESSAGES && y->len[m] + DGRAM_GRH_LEN != c.byte_len)
			m++;
		assert_true(m < MESSAGES);
		whole(r, &c, m, y->len[m]);
		/* a repeated message of one datagram is received twice, as with every datagram */
		assert_true(y->whole[m]++ == 0 || y->len[m] <= UNIT);
		recv_at(r, (uint32_t)c.wr_id, PLACE);
	}
}

static void no_seed_delivers_a_byte_that_was_not_sent(void **state)
{
	struct play y;
	uint64_t delivered = 0, incomplete = 0;

	(void)state;
	for (uint32_t seed = 1; seed <= 1000; seed++) {
		struct rig *r = y.r = pair();
		uint32_t sent = 0;

		rn_rng_seed(&y.rng, seed);
		memset(y.whole, 0, sizeof(y.whole));
		for (uint32_t i = 0; i < 6; i++)
			recv_at(r, i, PLACE);
		for (uint32_t m = 0; m < MESSAGES; m++)
			y.len[m] = 1 + m + (uint32_t)(rn_rng_u64(&y.rng) % 60) * MESSAGES;
		while (sent < MESSAGES || n_wire > 0) {
			if (sent < MESSAGES && (n_wire < 40 || rn_rng_u64(&y.rng) % 8 == 0)) {
				post(r, sent, y.len[sent]);
				sent++;
				send_all(r);
				while (rig_poll(&A->scq_client, &(struct qp_cqe){ 0 }))
					;
			}
			one_of_the_wire(r, &y.rng, 1 + seed % 64);
			take_completions(&y);
			clock_on(r, rn_rng_u64(&y.rng) % (seed % 2 == 0 ? TIMEOUT / 16 : 100));
		}
		clock_on(r, TIMEOUT);
		take_completions(&y);
		assert_true(rn_list_empty(&B->dgram.open));
		incomplete += stats(r)->ud_incomplete;
		/* no receive is lost: it is in the queue, or spare */
		assert_int_equal(dgram_modify(&B->dgram, &B->q[0].qp, QP_S_ERR), QP_OK);
		rc_flush(&B->ctx.rc);
		for (uint32_t i = 0; i < 6; i++)
			assert_int_equal(got(&B->rcq_client).status, QP_WC_WR_FLUSH_ERR);
		none(&B->rcq_client);
		for (uint32_t m = 0; m < MESSAGES; m++)
			delivered += y.whole[m];
		rig_free(r);
	}
	print_message("# %llu of %u messages whole, %llu incomplete\n", (unsigned long long)delivered, 1000 * MESSAGES,
		      (unsigned long long)incomplete);
	assert_true(delivered > 1000 * MESSAGES / 4 && incomplete > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_length_in_any_order),
		cmocka_unit_test(a_lost_segment_costs_its_message_and_no_receive),
		cmocka_unit_test(what_comes_twice_or_late_changes_nothing),
		cmocka_unit_test(a_queue_pair_that_is_made_anew_is_not_taken_for_the_one_before),
		cmocka_unit_test(a_segment_that_does_not_fit_its_message_is_dropped),
		cmocka_unit_test(a_queue_pair_of_single_datagrams_takes_no_segment),
		cmocka_unit_test(a_message_that_finds_no_good_receive_begins_once),
		cmocka_unit_test(tables_are_bounded),
		cmocka_unit_test(long_segments_go_to_no_group),
		cmocka_unit_test(what_is_midway_is_flushed),
		cmocka_unit_test(a_full_completion_queue_leaves_nothing_behind),
		cmocka_unit_test(memory_that_goes_in_the_middle_fails_its_receive),
		cmocka_unit_test(no_seed_delivers_a_byte_that_was_not_sent),
	};

	return cmocka_run_group_tests_name("qp_ud_long", tests, NULL, NULL);
}
