/* SPDX-License-Identifier: BSD-3-Clause */
#include "crc32c/crc32c.h"
#include "rig_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NEVER RN_NEVER

void rig_defaults(struct rig_cfg *cfg)
{
	*cfg = (struct rig_cfg){ .seed = 1,
				 .mtu = 1500,
				 .crc = true,
				 .rev = 2,
				 .ird = 16,
				 .ord = 16,
				 .rtr = MPA_RTR_WRITE | MPA_RTR_READ,
				 .link = { .delay_ns = 5000 } };
}

static void attach_prod(struct spsc_prod *p, struct rig_node *n, uint64_t off, uint32_t slots, uint32_t size)
{
	struct spsc_place at = {
		.region = n->region, .region_size = RIG_REGION, .off = off, .nslots = slots, .slot_size = size
	};
	assert_int_equal(spsc_prod_attach(p, &at), SPSC_OK);
}

static uint64_t cq_make(struct rig *r, struct rig_node *n, struct qp_cq *cq, struct spsc_cons *client, uint64_t off,
			uint64_t owner)
{
	uint32_t cqe = r->cfg.cqe ? r->cfg.cqe : RIG_CQE;
	uint64_t ring = off + sizeof(struct qp_cq_shm);
	const struct qp_cq_attr a = { .owner = owner,
				      .region = n->region,
				      .region_size = RIG_REGION,
				      .shm_off = off,
				      .ring_off = ring,
				      .ring_stride = spsc_size(cqe, qp_cqe_size(r->cfg.from)),
				      .workers = 1,
				      .cqe = cqe,
				      .wide = r->cfg.from };
	struct spsc_place at = { .region = n->region,
				 .region_size = RIG_REGION,
				 .off = ring,
				 .nslots = cqe,
				 .slot_size = qp_cqe_size(a.wide) };

	assert_int_equal(qp_cq_init(cq, &a), SPSC_OK);
	assert_int_equal(spsc_cons_attach(client, &at), SPSC_OK);
	return ring + a.ring_stride;
}

struct qp_attr rig_attr(struct rig_node *n, uint32_t i)
{
	const struct rig_qp *q = &n->q[i];

	return (struct qp_attr){ .owner = 100 + i,
				 .qpn = 10 + i,
				 .pd = RIG_PD,
				 .dev = &n->dev,
				 .scq = &n->scq,
				 .rcq = &n->rcq,
				 .access = QP_ACC_ALL,
				 .region = n->region,
				 .region_size = RIG_REGION,
				 .shm_off = q->shm_off,
				 .sq_off = q->sq_off,
				 .rq_off = q->rq_off,
				 .sq_slots = RIG_SLOTS,
				 .rq_slots = RIG_SLOTS };
}

static uint64_t qp_make(struct rig_node *n, uint32_t i, uint64_t off)
{
	struct rig_qp *q = &n->q[i];

	q->shm_off = off;
	off += sizeof(struct qp_shm);
	q->sq_off = off;
	off += spsc_size(RIG_SLOTS, QP_SLOT_SIZE);
	q->rq_off = off;
	off += spsc_size(RIG_SLOTS, QP_SLOT_SIZE);
	const struct qp_attr a = rig_attr(n, i);
	assert_int_equal(qp_init(&q->qp, &a), QP_OK);
	attach_prod(&q->sq, n, a.sq_off, RIG_SLOTS, QP_SLOT_SIZE);
	attach_prod(&q->rq, n, a.rq_off, RIG_SLOTS, QP_SLOT_SIZE);
	assert_int_equal(rc_modify(&n->ctx.rc, &q->qp, QP_S_INIT), QP_OK);
	return off;
}

void rig_share(struct rig_node *n, uint32_t q, struct qp_srq *srq)
{
	struct qp_attr a = rig_attr(n, q);

	a.srq = srq;
	a.rq_off = a.rq_slots = 0;
	assert_int_equal(qp_init(&n->q[q].qp, &a), QP_OK);
	assert_int_equal(rc_modify(&n->ctx.rc, &n->q[q].qp, QP_S_INIT), QP_OK);
}

uint32_t rig_reg(struct rig_node *n, uint32_t off, uint32_t len, uint32_t rights, uint32_t pd)
{
	const struct qp_piece piece = { n->mem + off, len };
	const struct qp_mr_attr a = {
		.pd = pd, .rights = rights, .iova = RIG_IOVA(n->id) + off, .len = len, .pieces = &piece, .npieces = 1
	};
	uint32_t stag = 0;

	assert_int_equal(qp_mr_reg(&n->dev, &a, &stag), QP_MR_OK);
	return stag;
}

static void node_make(struct rig *r, int id)
{
	struct rig_node *n = &r->n[id];
	struct rc_tcp_cfg cfg;
	uint64_t off = 0;

	n->id = id;
	tcpl_cfg_default(&n->tcp, (uint16_t)(r->cfg.mtu - 40));
	n->tcp.ahead = r->cfg.ahead;
	n->tcp.use_sack = !r->cfg.no_sack;
	if (r->cfg.rcv_space)
		n->tcp.rcv_space = r->cfg.rcv_space;
	if (r->cfg.raw[id]) {
		n->raw = calloc(1, sizeof(*n->raw));
		return;
	}
	rc_tcp_cfg_default(&cfg, 0, r->cfg.mtu, RIG_FLOWS);
	cfg.rc.recs = r->cfg.recs ? r->cfg.recs : 1024;
	cfg.rc.chunks = r->cfg.chunks ? r->cfg.chunks : 256;
	cfg.rc.stages = r->cfg.stages ? r->cfg.stages : 4;
	cfg.rc.rnr_stages = cfg.rc.stages / 2;
	cfg.rc.copies = r->cfg.copies ? r->cfg.copies : 64;
	cfg.rc.blocks = r->cfg.blocks ? r->cfg.blocks : RIG_FLOWS;
	cfg.rc.blk_share = r->cfg.blocks - r->cfg.blocks / 8;
	cfg.rc.wide = r->cfg.wide ? r->cfg.wide : cfg.rc.blocks;
	uint64_t size = rc_tcp_ctx_size(&cfg);
	assert_true(size > 0);
	n->pool = aligned_alloc(64, (size + 63) & ~UINT64_C(63));
	memset(n->pool, 0, size);
	assert_int_equal(rc_tcp_ctx_init(&n->ctx, &cfg, n->pool, size), QP_OK);
	n->dgram.qp = &n->ctx.rc.qp;
	n->ctx.rc.qp.now = r->now;
	n->region = aligned_alloc(4096, RIG_REGION);
	memset(n->region, 0, RIG_REGION);
	n->mem = calloc(1, RIG_MEM);
	qp_dev_init(&n->dev, n->mr, RN_ARRAY_LEN(n->mr), r->cfg.seed + (uint64_t)id);
	n->lkey = n->rkey = rig_reg(n, 0, RIG_MEM, QP_ACC_ALL, RIG_PD);
	off = cq_make(r, n, &n->scq, &n->scq_client, off, 1);
	off = cq_make(r, n, &n->rcq, &n->rcq_client, off, 2);
	for (uint32_t i = 0; i < RIG_QPS; i++)
		off = qp_make(n, i, off);
	assert_true(off <= RIG_REGION);
}

struct rig *rig_new(const struct rig_cfg *cfg)
{
	struct rig *r = calloc(1, sizeof(*r));

	r->cfg = *cfg;
	r->now = RN_NS_PER_S;
	rn_rng_seed(&r->rng, cfg->seed);
	node_make(r, 0);
	node_make(r, 1);
	return r;
}

/* ---- turns ---- */

static void take_effects(struct rig *r, struct rig_node *n)
{
	struct rc_tcp_ctx *ctx = &n->ctx;

	for (uint32_t i = 0; i < ctx->rc.qp.n_fx; i++) {
		struct qp_fx *fx = &ctx->rc.qp.fx[i];

		if (fx->type == QP_FX_CQ_NOTIFY) {
			n->notifies++;
			continue;
		}
		assert_true(n->n_fx < RIG_FX);
		n->fx[n->n_fx] = *fx;
		if (fx->priv_len > 0)
			memcpy(n->priv[n->n_fx], fx->priv, rn_min_u32(fx->priv_len, 64));
		n->n_fx++;
		if (fx->type == QP_FX_CONNECT_REQUEST && !r->cfg.manual) {
			uint32_t f = (uint32_t)(rc_tcp_of(fx->conn) - n->conn);
			const struct rc_accept a = { .qp = &n->q[f].qp,
						     .ird = r->cfg.ird,
						     .ord = r->cfg.ord,
						     .priv = (const uint8_t *)"welcome",
						     .priv_len = 7 };
			assert_int_equal(rc_accept(&ctx->rc, fx->conn, &a), QP_OK);
		}
	}
	for (uint32_t i = 0; i < ctx->n_refs; i++) {
		free((void *)(uintptr_t)ctx->refs[i]);
		n->held--;
	}
	rc_tcp_drained(ctx);
}

static void raw_turn(struct rig *r, struct rig_node *n)
{
	struct rig_raw *w = n->raw;
	struct tcpl_out o;
	static uint8_t buf[70000];
	uint64_t ref;

	while (w->open && w->tx_queued < w->tx_len) {
		uint32_t len = rn_min_u32(w->tx_len - w->tx_queued, 1000);
		if (!tcpl_send(&w->tcp, len, w->tx_queued + 1))
			break;
		w->tx_queued += len;
	}
	while (tcpl_out(&w->tcp, r->now, &o)) {
		uint32_t left = o.len, done = 0, idx = o.chunk, off = o.off;
		while (left > 0) {
			const struct tcpl_chunk *c = tcpl_chunk(&w->tcp, idx++);
			uint32_t take = rn_min_u32(c->len - off, left);
			memcpy(buf + done, w->tx + (c->ref - 1) + off, take);
			done += take;
			left -= take;
			off = 0;
		}
		rig_transmit(r, n->id, 0, &o, buf);
	}
	while (tcpl_acked(&w->tcp, &ref))
		;
}

/*
 * Gets the bytes of a segment by both functions, in any order: slices leave the CRC of a whole FPDU open, the copy has
 * it.
 */
static void bytes_of(struct rc_tcp_ctx *ctx, const struct rc_tcp *c, const struct tcpl_out *o, uint8_t *buf)
{
	struct rn_iov iov[128];
	static uint8_t again[70000];
	bool copy_first = (o->seq >> 3) & 1, crc_due;

	if (copy_first)
		rc_tcp_copy(ctx, c, o, buf, RC_TCP_CRC_KEPT);
	uint32_t n = rc_tcp_slices(c, o, iov, RN_ARRAY_LEN(iov), &crc_due);
	if (!copy_first)
		rc_tcp_copy(ctx, c, o, buf, RC_TCP_CRC_KEPT);
	if (n == 0)
		return;
	assert_int_equal(rn_iov_len(iov, n), o->len);
	rn_iov_gather(iov, n, again, sizeof(again));
	if (crc_due) {
		uint32_t crc = crc32c(0, again, o->len - MPA_CRC_LEN);
		memcpy(again + o->len - MPA_CRC_LEN, &crc, sizeof(crc));
	}
	assert_memory_equal(buf, again, o->len);
}

void rig_turn(struct rig *r, int id)
{
	struct rig_node *n = &r->n[id];
	struct rc_tcp *c;
	struct tcpl_out o;
	static uint8_t buf[70000];

	if (n->raw != NULL) {
		raw_turn(r, n);
		return;
	}
	n->ctx.rc.qp.now = r->now;
	do {
		while ((c = rc_tcp_ready_pop(&n->ctx)) != NULL) {
			while (rc_tcp_out(&n->ctx, c, &o)) {
				bytes_of(&n->ctx, c, &o, buf);
				rig_transmit(r, id, (uint32_t)(c - n->conn), &o, buf);
				if (rc_tcp_full(&n->ctx))
					take_effects(r, n);
			}
			if (rc_tcp_full(&n->ctx))
				take_effects(r, n);
		}
		rc_flush(&n->ctx.rc);
		take_effects(r, n);
	} while (rc_tcp_ready_first(&n->ctx) != NULL);
}

static void raw_in(struct rig *r, struct rig_node *n, struct rig_pkt *p)
{
	struct rig_raw *w = n->raw;
	struct tcpl_ev ev = { 0 };
	struct tcpl_slice s;

	if (!w->open && (p->seg.flags & TCPL_SYN)) {
		const struct tcpl_mem mem = {
			.chunk = w->chunk, .rec = w->rec, .hold = w->hold, .chunk_n = 256, .rec_n = 256, .hold_n = 64
		};
		tcpl_init(&w->tcp, &n->tcp, &mem);
		(void)tcpl_accept_syn(&w->tcp, r->now, 0xfffffff0u, &p->seg);
		w->open = true;
		free(p);
		return;
	}
	(void)tcpl_in(&w->tcp, r->now, &p->seg, &ev);
	if (ev.bits & TCPL_EV_DATA) {
		assert_true(w->rx_len + ev.slice.len <= RIG_RAW);
		memcpy(w->rx + w->rx_len, p->data + ev.slice.off, ev.slice.len);
		w->rx_len += ev.slice.len;
	}
	bool mine = !ev.held;
	while (tcpl_rx_next(&w->tcp, &s)) {
		struct rig_pkt *q = (struct rig_pkt *)(uintptr_t)s.ref;
		memcpy(w->rx + w->rx_len, q->data + s.off, s.len);
		w->rx_len += s.len;
		if (q == p)
			mine = true;
		else
			free(q);
	}
	w->fin |= (ev.bits & TCPL_EV_PEER_FIN) != 0;
	w->reset |= (ev.bits & TCPL_EV_RESET) != 0;
	if (mine)
		free(p);
}

static struct rc_tcp_params params(struct rig *r, struct rig_node *n)
{
	return (struct rc_tcp_params){
		.rc = { .dev = &n->dev,
			.owner = 500,
			.policy = { .rev = r->cfg.rev,
				    .crc = r->cfg.crc,
				    .markers = r->cfg.markers[n->id],
				    .p2p = r->cfg.p2p,
				    .rtr = r->cfg.rtr,
				    .ird = r->cfg.ird,
				    .ord = r->cfg.ord } },
		.tcp = &n->tcp,
		.iss = UINT32_MAX - rn_rng_below(&r->rng, 5000),
	};
}

static void deliver(struct rig *r, struct rig_pkt *p)
{
	struct rig_node *n = &r->n[p->to];

	if (n->raw != NULL) {
		raw_in(r, n, p);
		return;
	}
	struct rc_tcp *c = &n->conn[p->flow];
	n->ctx.rc.qp.now = r->now;
	if (rc_get_state(&c->rc) == RC_FREE) {
		if ((p->seg.flags & (TCPL_SYN | TCPL_ACK)) == TCPL_SYN) {
			struct rc_tcp_params pr = params(r, n);
			pr.rc.owner += p->flow;
			pr.rc.flags = r->cfg.accept_flags;
			(void)!rc_tcp_passive(&n->ctx, c, &p->seg, &pr);
		}
		free(p);
		return;
	}
	qp_burst(&n->ctx.rc.qp, r->cfg.bulk ? 32 : 1);
	if (rc_tcp_segment(&n->ctx, c, &p->seg))
		n->held++;
	else
		free(p);
	if (rc_tcp_full(&n->ctx))
		take_effects(r, n);
}

static uint64_t node_wake(const struct rig_node *n)
{
	uint64_t t = NEVER;

	if (n->raw != NULL)
		return n->raw->open ? tcpl_next_wake(&n->raw->tcp) : NEVER;
	for (uint32_t f = 0; f < RIG_FLOWS; f++)
		if (rc_get_state(&n->conn[f].rc) != RC_FREE)
			t = rn_min_u64(t, rc_tcp_next_wake(&n->conn[f]));
	return t;
}

static void node_timer(struct rig *r, struct rig_node *n)
{
	struct tcpl_ev ev = { 0 };

	if (n->raw != NULL) {
		if (n->raw->open)
			tcpl_timer(&n->raw->tcp, r->now, &ev);
		return;
	}
	n->ctx.rc.qp.now = r->now;
	for (uint32_t f = 0; f < RIG_FLOWS; f++)
		if (rc_get_state(&n->conn[f].rc) != RC_FREE && rc_tcp_next_wake(&n->conn[f]) <= r->now)
			rc_tcp_timer(&n->ctx, &n->conn[f]);
}

/* Handles one event: the next arrival or timer. */
static bool step_until(struct rig *r, uint64_t limit)
{
	for (int i = 0; i < 2; i++)
		if (!r->n[i].paused)
			rig_turn(r, i);
	uint64_t at = r->heap != NULL ? r->heap->at : NEVER;
	for (int i = 0; i < 2; i++)
		if (!r->n[i].paused)
			at = rn_min_u64(at, node_wake(&r->n[i]));
	if (at == NEVER || at > limit)
		return false;
	r->now = rn_max_u64(r->now, at);
	while (r->heap != NULL && r->heap->at <= r->now) {
		struct rig_pkt *p = r->heap;
		r->heap = p->next;
		deliver(r, p);
	}
	for (int i = 0; i < 2; i++)
		if (!r->n[i].paused)
			node_timer(r, &r->n[i]);
	return true;
}

bool rig_step(struct rig *r) { return step_until(r, NEVER - 1); }

void rig_run(struct rig *r, uint64_t ns)
{
	uint64_t end = r->now + ns;

	while (step_until(r, end))
		;
	r->now = end;
}

void rig_settle(struct rig *r)
{
	while (step_until(r, r->now + 300 * RN_NS_PER_MS))
		;
}

/* ---- connections ---- */

void rig_connect_start(struct rig *r, uint32_t f, const void *priv, uint32_t len)
{
	struct rc_tcp_params p = params(r, &r->n[0]);

	p.rc.owner += f;
	p.rc.flags = r->cfg.connect_flags;
	p.rc.qp = &r->n[0].q[f].qp;
	p.rc.priv = priv;
	p.rc.priv_len = len;
	r->n[0].ctx.rc.qp.now = r->now;
	assert_int_equal(rc_tcp_connect(&r->n[0].ctx, &r->n[0].conn[f], &p), QP_OK);
}

void rig_connect(struct rig *r, uint32_t f)
{
	rig_connect_start(r, f, "hello", 5);
	while (!rc_is_up(&r->n[0].conn[f].rc) || !rc_is_up(&r->n[1].conn[f].rc))
		if (!rig_step(r))
			fail_msg("no connection");
	rig_turn(r, 0);
	rig_turn(r, 1);
}

void rig_connect_self(struct rig *r, uint32_t f)
{
	struct rig_node *n = &r->n[0];
	struct rc_tcp_params p = params(r, n);

	p.rc.owner += f;
	p.rc.flags = r->cfg.connect_flags | RC_SELF;
	r->mirror = true;
	n->ctx.rc.qp.now = r->now;
	assert_int_equal(rc_tcp_connect(&n->ctx, &n->conn[f], &p), QP_OK);
	while (rig_fx(r, 0, QP_FX_CONNECT_REPLY) == NULL)
		if (!rig_step(r))
			fail_msg("its TCP does not open");
	assert_int_equal(rc_attach(&n->ctx.rc, &n->conn[f].rc, &n->q[f].qp), QP_OK);
	while (!rc_is_up(&n->conn[f].rc))
		if (!rig_step(r))
			fail_msg("no connection");
}

void rig_raw_connect(struct rig *r, int raw_id)
{
	struct rig_raw *w = r->n[raw_id].raw;
	const struct tcpl_mem mem = {
		.chunk = w->chunk, .rec = w->rec, .hold = w->hold, .chunk_n = 256, .rec_n = 256, .hold_n = 64
	};

	tcpl_init(&w->tcp, &r->n[raw_id].tcp, &mem);
	tcpl_connect(&w->tcp, r->now, 0xfffffe00u);
	w->open = true;
	rig_settle(r);
	assert_int_equal(tcpl_get_state(&w->tcp), TCPL_S_ESTABLISHED);
}

void rig_raw_send(struct rig *r, int raw_id, const void *p, uint32_t len)
{
	struct rig_raw *w = r->n[raw_id].raw;

	assert_true(w->tx_len + len <= RIG_RAW);
	memcpy(w->tx + w->tx_len, p, len);
	w->tx_len += len;
}

const struct qp_fx *rig_fx(struct rig *r, int id, enum qp_fx_type type)
{
	for (uint32_t i = 0; i < r->n[id].n_fx; i++)
		if (r->n[id].fx[i].type == type)
			return &r->n[id].fx[i];
	return NULL;
}

uint32_t rig_fx_count(struct rig *r, int id, enum qp_fx_type type)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->n[id].n_fx; i++)
		n += r->n[id].fx[i].type == type;
	return n;
}

static void node_free(struct rig *r, struct rig_node *n)
{
	uint32_t blocks = 0;

	if (n->raw != NULL) {
		uint64_t ref;
		struct tcpl_slice s;
		tcpl_abort(&n->raw->tcp);
		while (tcpl_rx_next(&n->raw->tcp, &s))
			free((void *)(uintptr_t)s.ref);
		while (tcpl_rx_drop(&n->raw->tcp, &ref))
			free((void *)(uintptr_t)ref);
		free(n->raw);
		return;
	}
	n->ctx.rc.qp.now = r->now;
	for (uint32_t f = 0; f < RIG_FLOWS; f++)
		if (rc_get_state(&n->conn[f].rc) != RC_FREE)
			rc_abort(&n->ctx.rc, &n->conn[f].rc);
	rig_turn(r, n->id);
	for (uint32_t f = 0; f < RIG_FLOWS; f++)
		assert_int_equal(rc_get_state(&n->conn[f].rc), RC_FREE);
	assert_int_equal(n->held, 0);
	assert_int_equal(n->ctx.held, 0);
	for (uint32_t i = 0; i <= QP_TENANTS; i++)
		assert_int_equal(n->ctx.held_of[i], 0);
	assert_int_equal(n->ctx.rc.rec_left, n->ctx.rc.cfg.recs);
	for (uint32_t kind = 0; kind < 2; kind++)
		for (struct rc_block **b = &n->ctx.rc.blk_free[kind]; *b != NULL; b = (struct rc_block **)(void *)*b)
			blocks++;
	assert_int_equal(blocks + n->ctx.rc.blk_fresh, n->ctx.rc.cfg.blocks);
	for (uint32_t i = 0; i <= QP_TENANTS; i++)
		assert_int_equal(n->ctx.rc.blks_of[i], 0);
	assert_int_equal(n->ctx.rc.stages_left, n->ctx.rc.cfg.stages);
	assert_int_equal(n->ctx.rc.copies_left, n->ctx.rc.cfg.copies);
	free(n->pool);
	free(n->region);
	free(n->mem);
}

void rig_free(struct rig *r)
{
	r->tap = NULL;
	node_free(r, &r->n[0]);
	node_free(r, &r->n[1]);
	while (r->heap != NULL) {
		struct rig_pkt *p = r->heap;
		r->heap = p->next;
		free(p);
	}
	free(r);
}
