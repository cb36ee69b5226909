/* SPDX-License-Identifier: BSD-3-Clause */
#include "rd_sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "crc32c/crc32c.h"

#define ACK_DELAY (100 * RN_NS_PER_US)

struct sim sim;
uint32_t rd_sim_loose, rd_sim_works, rd_sim_ring = RING_FEW;
bool rd_sim_strict, rd_sim_shared, rd_sim_folds;
static const struct udpr_cfg cfg = { .target = 100 * RN_NS_PER_US, .patience = PATIENCE, .ack_delay = ACK_DELAY };
static const uint8_t addr_of[2][RD_ADDR_LEN] = { { [15] = 1 }, { [15] = 2 } };

/* ---- the network ---- */

static void put_frame(uint32_t to, const uint8_t *b, uint32_t len)
{
	struct rd_frame *f;

	if (sim.now < sim.blackout || rn_rng_chance(&sim.rng, sim.loss) || sim.on_wire == WIRE) {
		sim.lost++;
		return;
	}
	f = &sim.wire[sim.on_wire++];
	f->to = to;
	f->len = len;
	f->at = sim.now + 20 * RN_NS_PER_US + rn_rng_below(&sim.rng, 20) * RN_NS_PER_US;
	if (rn_rng_chance(&sim.rng, sim.late))
		f->at += rn_rng_below(&sim.rng, 3000) * RN_NS_PER_US;
	memcpy(f->b, b, len);
	if (rn_rng_chance(&sim.rng, sim.twice))
		put_frame(to, b, len);
}

static void send_hdr(uint32_t from, const struct udpr_hdr *h, uint32_t user)
{
	const struct rd_node *n = &sim.node[from];
	uint8_t b[FRAME];
	uint32_t len = udpr_build(b, h);

	if (sim.hole && from == 0 && h->kind == UDPR_DATA && h->number == sim.hole_at)
		return;
	if (h->kind == UDPR_DATA) {
		memcpy(b + len, n->buf[user].b, n->buf[user].len);
		if (sim.old) {
			assert_int_not_equal(b[len], RD_SEGMENTS);
			b[len + 1] &= (uint8_t) ~(RD_F_MUCH | RD_F_BACK | RD_F_PACKS);
			b[len + 3] = 0;
		}
		len += n->buf[user].len;
	}
	udpl_crc_put(b, len, crc32c(0, b, len));
	put_frame(!from, b, len + UDPL_CRC_LEN);
}

/* Room for one packet more than an answer may need. */
static bool room(const struct rd_node *n) { return udpr_tx_room(&n->tx, rd_sim_ring) > 1; }

static void give_packet(struct rd_node *n, uint32_t buf)
{
	if (udpr_tx_send(&n->tx, buf, sim.now))
		return;
	assert_int_equal(n->tx.state, UDPR_CLOSED);
	udpr_tx_open(&n->tx, &cfg, n->ring, rd_sim_ring, rn_rng_u32(&sim.rng) | 1);
	assert_true(udpr_tx_send(&n->tx, buf, sim.now));
}

static struct qp *qp_of(struct rd_node *n, uint32_t qpn)
{
	return qpn >= 10 && qpn < 10 + RIG_QPS ? &n->n->q[qpn - 10].qp : NULL;
}

static void data_in(uint32_t i, const struct rd_frame *f, const struct udpr_hdr *h)
{
	struct rd_node *n = &sim.node[i];
	const uint32_t from = !i;
	struct udpr_hdr out;
	struct rd_hdr rh;

	if (udpr_rx_open(&n->rx, n->key, &from, sizeof(from), h, sim.now) != UDPR_OK) {
		udpr_unknown(h, &out);
		send_hdr(i, &out, 0);
		return;
	}
	assert_true(rd_parse(f->b + h->body, h->body_len, &rh));
	const struct rd_rx rx = { .p = f->b + h->body, .len = h->body_len, .h = &rh, .addr = addr_of[from] };
	uint8_t answer[RD_ANSWER_MAX];
	if (udpr_rx_data(&n->rx, h, sim.now) != UDPR_OK)
		return;
	const uint32_t len = rd_in(&n->d, qp_of(n, rh.dst_qpn), &rx, answer);
	if (len == 0 || udpr_tx_room(&n->tx, rd_sim_ring) == 0) /* an answer without room is lost */
		return;
	const uint32_t buf = n->spare[--n->n_spare];
	memcpy(n->buf[buf].b, answer, len);
	n->buf[buf].len = len;
	give_packet(n, buf);
}

static void frame_in(const struct rd_frame *f)
{
	const uint32_t from = !f->to;
	struct udpr_hdr h, out;

	assert_true(udpl_crc_good(f->b, f->len));
	assert_int_equal(udpr_parse(f->b, f->len, &h), UDPR_OK);
	if (h.kind == UDPR_HELLO) {
		udpr_cookie_make(sim.node[f->to].key, &from, sizeof(from), &h, sim.now, &out);
		send_hdr(f->to, &out, 0);
	} else if (h.kind == UDPR_DATA) {
		data_in(f->to, f, &h);
	} else {
		assert_int_not_equal(udpr_tx_in(&sim.node[f->to].tx, &h, sim.now), UDPR_FAR);
	}
}

/* ---- a worker's turn ---- */

static void tell_fates(uint32_t i)
{
	struct rd_node *n = &sim.node[i];
	const bool lost = n->tx.state == UDPR_LOST;
	uint64_t user;
	bool ok;

	while (udpr_tx_done(&n->tx, &user, &ok))
		n->spare[n->n_spare++] = (uint32_t)user;
	if (lost) {
		memset(&n->tx, 0, sizeof(n->tx));
		rd_lost(&n->d, addr_of[!i]);
	}
	while (room(n) && rd_unpark(&n->d, &n->full))
		;
}

static void send_pairs(struct rd_node *n)
{
	struct rd_pair *p;

	while ((p = rd_pop(&n->d)) != NULL) {
		for (;;) {
			if (!room(n)) {
				rd_park(p, &n->full);
				break;
			}
			const uint32_t buf = n->spare[n->n_spare - 1];
			const bool more = rd_more(&n->d, p);
			n->buf[buf].len = rd_out(&n->d, p, n->buf[buf].b);
			assert_true(more || n->buf[buf].len == 0);
			if (n->buf[buf].len == 0)
				break;
			assert_true(n->buf[buf].len <= RD_PACKET_MAX);
			n->n_spare--;
			give_packet(n, buf);
		}
	}
}

/* Folds and unfolds the receiver's end of the flow, and forgets the sender's end. */
static void fold_at_random(uint32_t i)
{
	struct rd_node *n = &sim.node[i];
	struct udpr_rx again = { .heard = n->rx.heard };
	const uint32_t from = !i;
	struct udpr_fold f;

	if (!rd_sim_folds || udpr_tx_busy(&n->tx) || rn_rng_below(&sim.rng, 4) != 0 || !udpr_rx_fold(&n->rx, &f))
		return;
	udpr_rx_unfold(&again, n->key, &from, sizeof(from), &f);
	sim.folds += n->tx.state == UDPR_OPEN;
	n->rx = again;
	memset(&n->tx, 0, sizeof(n->tx));
}

static uint64_t turn(uint32_t i)
{
	struct rd_node *n = &sim.node[i];
	struct udpr_hdr h;
	uint64_t user, due;

	fold_at_random(i);
	udpr_tx_tick(&n->tx, sim.now);
	tell_fates(i);
	if (rd_timer(&n->d) <= sim.now)
		rd_tick(&n->d);
	while (rd_look(&n->d))
		;
	send_pairs(n);
	while (udpr_tx_next(&n->tx, sim.now, &h, &user))
		send_hdr(i, &h, (uint32_t)user);
	due = udpr_rx_due(&n->rx, ACK_DELAY);
	if (due <= sim.now) {
		udpr_rx_ack(&n->rx, sim.now, &h);
		send_hdr(i, &h, 0);
		due = RN_NEVER;
	}
	rc_flush(&n->n->ctx.rc);
	const struct qp_ctx *c = &n->n->ctx.rc.qp;
	for (uint32_t k = 0; k < c->n_fx; k++)
		n->drained += c->fx[k].type == QP_FX_QP_EVENT && c->fx[k].code == QP_EVENT_SQ_DRAINED;
	qp_drained(&n->n->ctx.rc.qp);
	return rn_min_u64(rn_min_u64(due, rd_timer(&n->d)), udpr_tx_timer(&n->tx, sim.now));
}

static void arrivals(void)
{
	static struct rd_frame f;

	for (uint32_t k = 0; k < sim.on_wire;) {
		if (sim.wire[k].at > sim.now) {
			k++;
			continue;
		}
		f = sim.wire[k];
		sim.wire[k] = sim.wire[--sim.on_wire];
		frame_in(&f);
	}
}

static void collect(uint32_t i);

/* Runs the simulation until nothing is due before `end`. */
static void run_until(uint64_t end)
{
	uint64_t due = sim.now;

	while (due <= end) {
		sim.now = rn_max_u64(sim.now, due);
		for (int k = 0; k < 2; k++)
			sim.node[k].n->ctx.rc.qp.now = sim.now;
		arrivals();
		due = RN_NEVER;
		for (uint32_t i = 0; i < 2; i++) {
			due = rn_min_u64(due, turn(i));
			collect(i);
		}
		for (uint32_t k = 0; k < sim.on_wire; k++)
			due = rn_min_u64(due, sim.wire[k].at);
		if (due <= sim.now)
			due = sim.now + RN_NS_PER_US;
	}
	sim.now = end;
}

void rd_run(uint64_t ns) { run_until(sim.now + ns); }

/* ---- the clients ---- */

void rd_sim_qp(struct rd_node *n, uint32_t i)
{
	struct rig_qp *q = &n->n->q[i];
	struct qp_attr a = rig_attr(n->n, i);

	a.many = true;
	a.srq = n->srq;
	a.rq_slots = n->srq != NULL ? 0 : a.rq_slots;
	rc_destroy(&n->n->ctx.rc, &q->qp);
	assert_int_equal(qp_init(&q->qp, &a), QP_OK);
	const struct rd_manner manner = { .loose = rd_sim_loose >> i & 1, .strict = rd_sim_strict };
	assert_int_equal(rd_attach(&q->qp, &n->side[i], manner), QP_OK);
	qp_set(&q->qp, &(struct qp_tune){ .access = QP_ACC_ALL, .qkey = RD_QKEY, .rnr_ns = RN_NEVER });
	for (uint32_t s = QP_S_INIT; s <= QP_S_RTS; s++)
		assert_int_equal(rd_modify(&n->d, &q->qp, (enum qp_state)s), QP_OK);
}

static void share_receives(struct rd_node *n)
{
	const struct qp_srq_attr a = { .pd = RIG_PD,
				       .wqe_slots = 1,
				       .ring = { n->n->region, RIG_REGION, RIG_REGION / 2, 256, QP_SLOT_SIZE } };

	n->srq = aligned_alloc(RN_CACHE_LINE, sizeof(*n->srq));
	assert_int_equal(qp_srq_init(n->srq, &a), SPSC_OK);
	assert_int_equal(spsc_prod_attach(&n->srq_ring, &a.ring), SPSC_OK);
}

static uint32_t works(uint32_t i) { return i == 0 && rd_sim_works != 0 ? rd_sim_works : PAIRS; }

void rd_sim_up(uint64_t seed, uint32_t pairs)
{
	struct rig_cfg c;

	memset(&sim, 0, sizeof(sim));
	rig_defaults(&c);
	c.seed = sim.seed = seed;
	c.from = true;
	sim.r = rig_new(&c);
	sim.now = sim.r->now;
	rn_rng_seed(&sim.rng, seed);
	for (uint32_t i = 0; i < 2; i++) {
		struct rd_node *n = &sim.node[i];

		n->n = &sim.r->n[i];
		n->key[0] = rn_rng_u64(&sim.rng);
		n->n_spare = rd_sim_ring;
		for (uint32_t k = 0; k < rd_sim_ring; k++)
			n->spare[k] = k;
		rd_init(&n->d, &n->n->ctx.rc.qp, n->pair, pairs, 100 * i);
		rd_give_works(&n->d, n->work, n->hold, n->chain, works(i));
		rd_give_wides(&n->d, n->wide, WIDES, PROMISES);
		rd_give_buckets(&n->d, n->bucket, RN_ARRAY_LEN(n->bucket) / 2, n->key);
		for (uint32_t k = 0; k < 1u << 16; k++)
			n->n->mem[AT_CONST + k] = (uint8_t)(k * 7 + k / 251 + i);
		if (rd_sim_shared)
			share_receives(n);
		for (uint32_t k = 0; k < QPS; k++)
			rd_sim_qp(n, k);
	}
}

void rd_sim_down(void)
{
	for (uint32_t i = 0; i < 2; i++) {
		for (uint32_t k = 0; k < RIG_QPS; k++)
			if (sim.node[i].side[k].qp != NULL)
				rd_destroy(&sim.node[i].d, &sim.node[i].n->q[k].qp);
		/* all held segments have come back */
		assert_int_equal(rn_pool_left(&sim.node[i].d.holds), works(i) * RD_WIN + PROMISES);
		assert_int_equal(rn_pool_left(&sim.node[i].d.wides), WIDES);
		assert_int_equal(sim.node[i].d.promised, 0);
		assert_int_equal(rn_pool_left(&sim.node[i].d.chains), works(i) * RD_WIN);
		assert_true(sim.node[i].srq == NULL || sim.node[i].srq->waiting[0] == 0);
		free(sim.node[i].srq);
	}
	rig_free(sim.r);
}

void rd_post_recv(uint32_t i, uint32_t q)
{
	struct rd_node *n = &sim.node[i];
	struct qp_sge s = rig_sge(n->n, AT_RECV + n->recvs % 128 * OP_MAX, OP_MAX);
	const struct qp_rwqe w = { .wr_id = n->recvs % 128, .num_sge = 1, .slots = 1, .sge[0] = s };

	if (n->srq != NULL) {
		n->recvs++;
		assert_true(spsc_prod_free(&n->srq_ring, 1) >= 1);
		spsc_prod_copy(&n->srq_ring, 0, &w, sizeof(w));
		spsc_prod_publish(&n->srq_ring, 1);
		if (spsc_prod_asked(&n->srq_ring) != 0)
			rd_recvs(&n->d);
		return;
	}
	assert_true(rig_post_recv(n->n, q, n->recvs++ % 128, &s, 1));
	rd_doorbell(&n->d, &n->n->q[q].qp);
}

/* Fills the content of work request id of node i: its number, then bytes that follow from the number. */
static void fill(uint8_t *p, uint32_t len, uint32_t i, uint32_t id)
{
	for (uint32_t k = 0; k < len; k++)
		p[k] = k < 2 ? (uint8_t)(k == 0 ? id : i) : (uint8_t)(id * 31 + k * 5 + k / 255);
}

static bool filled(const uint8_t *p, uint32_t len, uint32_t i, uint32_t id)
{
	static uint8_t want[OP_MAX];

	fill(want, len, i, id);
	return memcmp(p, want, len) == 0;
}

uint32_t rd_post(uint32_t i, const struct rd_wr *w)
{
	struct rd_node *n = &sim.node[i];
	struct rig_node *peer = sim.node[!i].n;
	const uint32_t id = n->given++;
	const bool adds = w->op == QP_WR_FETCH_ADD, reads = w->op == QP_WR_READ;
	struct {
		struct qp_wqe w;
		struct qp_wqe_dest to;
	} slots = { .w = { .wr_id = id,
			   .op = w->op,
			   .flags = QP_WF_SIGNALED | w->flags,
			   .num_sge = 1,
			   .slots = 2,
			   .rkey = w->wrong ? 0x55555500 : peer->rkey },
		    .to = { .qpn = 10 + w->to, .qkey = w->qkey } };

	assert_true(id < OPS);
	n->ops[id].op = w->op;
	n->ops[id].from = w->from;
	n->ops[id].to = w->to;
	n->ops[id].len = adds ? 8 : w->len;
	n->ops[id].given = true;
	memcpy(slots.to.addr, addr_of[!i], RD_ADDR_LEN);
	slots.w.sge[0] = rig_sge(n->n, AT_SRC + id * OP_MAX, n->ops[id].len);
	slots.w.sge[0].lkey ^= w->broken ? 0x100 : 0;
	slots.w.raddr = RIG_IOVA(!i) + (adds ? AT_WORD : reads ? AT_CONST : AT_DST + id * OP_MAX);
	if (adds)
		slots.w.atomic.operand = 1;
	if (w->op == QP_WR_SEND || w->op == QP_WR_WRITE)
		fill(n->n->mem + AT_SRC + id * OP_MAX, w->len, i, id);
	spsc_prod_copy(&n->n->q[w->from].sq, 0, &slots, sizeof(slots));
	spsc_prod_publish(&n->n->q[w->from].sq, 2);
	rd_doorbell(&n->d, &n->n->q[w->from].qp);
	return id;
}

static void check_success(uint32_t i, uint32_t id)
{
	struct rd_node *n = &sim.node[i], *peer = &sim.node[!i];
	const uint32_t len = n->ops[id].len;

	if (n->ops[id].op == QP_WR_SEND)
		assert_true(n->ops[id].came);
	if (n->ops[id].op == QP_WR_WRITE)
		assert_true(filled(peer->n->mem + AT_DST + id * OP_MAX, len, i, id));
	if (n->ops[id].op == QP_WR_READ)
		assert_memory_equal(n->n->mem + AT_SRC + id * OP_MAX, peer->n->mem + AT_CONST, len);
}

/* Takes completions of receives first: a Send completes with success only after its bytes have arrived. */
static void collect_recvs(uint32_t i)
{
	struct rd_node *n = &sim.node[i], *peer = &sim.node[!i];
	struct qp_cqe e;

	while (spsc_cons_avail(&n->n->rcq_client, 1) > 0) {
		const struct qp_cqe_wide *w = spsc_cons_slot(&n->n->rcq_client, 0);
		const bool known = memcmp(w->from, addr_of[!i], RD_ADDR_LEN) == 0;

		assert_true(rig_poll(&n->n->rcq_client, &e));
		const uint8_t *p = n->n->mem + AT_RECV + e.wr_id * OP_MAX;

		if (e.status != QP_WC_SUCCESS) {
			assert_true(sim.faults);
			continue;
		}
		const uint32_t id = p[0], to = e.qpn - 10, from = peer->ops[id].from;
		assert_true(id < peer->given && peer->ops[id].op == QP_WR_SEND && peer->ops[id].to == to);
		assert_int_equal(e.byte_len, peer->ops[id].len);
		assert_true(known && e.src_qp == 10 + from);
		assert_true(filled(p, e.byte_len, !i, id));
		assert_false(peer->ops[id].came); /* not delivered before */
		peer->ops[id].came = true;
		/* in order, unless the queue pair is unordered */
		assert_true(rd_sim_loose >> from & 1 || id + 1 > n->last[from][to]);
		n->last[from][to] = id + 1;
	}
}

/* Work requests for one peer complete in order, unless the queue pair is unordered; counts the exceptions. */
static void note_order(struct rd_node *n, uint32_t id)
{
	for (uint32_t k = 0; k < id; k++) {
		if (n->ops[k].over || n->ops[k].from != n->ops[id].from || n->ops[k].to != n->ops[id].to)
			continue;
		assert_true(rd_sim_loose >> n->ops[id].from & 1 || n->ops[id].status != QP_WC_SUCCESS);
		n->overtaken++;
	}
}

static void collect(uint32_t i)
{
	struct rd_node *n = &sim.node[i];
	struct qp_cqe e;

	collect_recvs(!i);
	while (rig_poll(&n->n->scq_client, &e)) {
		assert_true(e.wr_id < n->given);
		assert_false(n->ops[e.wr_id].over); /* each work request completes once */
		n->ops[e.wr_id].over = true;
		n->ops[e.wr_id].status = e.status;
		note_order(n, (uint32_t)e.wr_id);
		if (e.status == QP_WC_SUCCESS)
			check_success(i, (uint32_t)e.wr_id);
		else if (!sim.faults)
			fail_msg("seed %lu: work request %u of node %u has status %u", (unsigned long)sim.seed,
				 (unsigned)e.wr_id, i, e.status);
	}
}

uint8_t rd_status(uint32_t i, uint32_t id)
{
	assert_true(sim.node[i].ops[id].over);
	return sim.node[i].ops[id].status;
}

void rd_all_over(void)
{
	for (uint32_t i = 0; i < 2; i++)
		for (uint32_t id = 0; id < sim.node[i].given; id++)
			if (!sim.node[i].ops[id].over)
				fail_msg("seed %lu: work request %u of node %u has no completion",
					 (unsigned long)sim.seed, id, i);
}
