/* SPDX-License-Identifier: BSD-3-Clause */
#include "ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Free bytes; none behind a FIN. */
static uint32_t room(const struct ring_pipe *p) { return p->fin ? 0 : p->size - (p->tail - p->head); }

static void put(struct ring_pipe *p, const uint8_t *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		p->buf[p->tail++ % sizeof(p->buf)] = b[i];
}

/* ---- sending ---- */

static void queue(struct ring_end *e, uint32_t len, uint64_t ref)
{
	assert_true(e->tail - e->head < RING_QUEUE);
	e->queued += len;
	e->q[e->tail++ % RING_QUEUE] = (struct ring_rec){ .ref = ref, .len = len, .end = e->queued };
}

static void drop_all(struct ring_end *e)
{
	for (; e->head != e->tail; e->head++)
		rc_dropped(&e->n->ctx.rc, &e->rc, e->q[e->head % RING_QUEUE].ref);
	e->next = e->tail;
}

/* Carries out what lib/rc asks of its stream (rc_todo()). False: lib/rc has asked for nothing. */
static bool obey(struct ring_end *e)
{
	uint32_t todo = rc_todo(&e->rc), len;
	uint64_t ref;

	rc_todo_clear(&e->rc);
	for (uint32_t i = e->head; (todo & RC_TODO_LET_GO) && i != e->tail; i++)
		if (!rc_let_go(&e->n->ctx.rc, &e->rc, e->q[i % RING_QUEUE].ref))
			todo |= RC_TODO_RST;
	if (todo & RC_TODO_RST) {
		e->out->rst = true;
		drop_all(e);
		rc_closed(&e->n->ctx.rc, &e->rc);
		return true;
	}
	while ((todo & RC_TODO_SEND) && (len = rc_due(&e->rc, &ref)) != 0)
		queue(e, len, ref);
	e->fin_due |= (todo & RC_TODO_FIN) != 0;
	return todo != 0;
}

/* Makes records until more bytes are queued than the ring has room for, as an adapter over a kernel's socket does. */
static bool fill(struct ring_end *e)
{
	struct rc_ctx *ctx = &e->n->ctx.rc;
	bool any = false;
	uint64_t ref;

	if (!rc_tx_begin(ctx, &e->rc))
		return false;
	(void)obey(e);
	while (rc_tx_open(&e->rc) && e->tail - e->head < RING_QUEUE - 4) {
		if (e->queued - e->out->tail >= room(e->out) || rc_peek(ctx, &e->rc) == 0)
			break;
		uint32_t len = rc_pull(ctx, &e->rc, &ref);
		if (len == 0)
			break;
		queue(e, len, ref);
		any = true;
	}
	return any;
}

/* Writes a random number of the queued bytes into the ring. */
static bool write_some(struct ring *g, struct ring_end *e)
{
	uint8_t buf[10000];
	bool any = false;

	while (e->next != e->tail && room(e->out) > 0) {
		const struct ring_rec *q = &e->q[e->next % RING_QUEUE];
		struct rc_part p = { .ref = q->ref, .off = e->off, .len = rn_min_u32(q->len - e->off, room(e->out)) };
		bool crc_due = false;

		if (rn_rng_below(&g->r->rng, 4) == 0)
			p.len = 1 + rn_rng_below(&g->r->rng, p.len);
		rc_copy(&e->n->ctx.rc, &e->rc, &p, buf, &crc_due);
		put(e->out, buf, p.len);
		e->off += p.len;
		any = true;
		if (e->off < q->len)
			continue;
		e->off = 0;
		e->next++;
	}
	if (e->fin_due && e->next == e->tail && !e->out->fin)
		any = e->out->fin = true;
	return any;
}

static bool done_with(const struct ring *g, const struct ring_end *e)
{
	if (e->head == e->next)
		return false;
	return g->done == RING_TAKEN || !rn_seq_gt(e->q[e->head % RING_QUEUE].end, e->out->head);
}

static bool acknowledge(struct ring *g, struct ring_end *e)
{
	bool any = false;

	for (; done_with(g, e); e->head++, any = true)
		rc_acked(&e->n->ctx.rc, &e->rc, e->q[e->head % RING_QUEUE].ref);
	if (any)
		rc_complete(&e->n->ctx.rc, &e->rc);
	return any;
}

/* ---- receiving ---- */

/* Reads as from a socket: some of the bytes, in some pieces. Bytes that lib/rc does not use stay in the ring. */
static bool read_some(struct ring *g, struct ring_end *e)
{
	struct rc_ctx *ctx = &e->n->ctx.rc;
	static uint8_t buf[sizeof(e->in->buf)];
	struct rn_iov iov[RC_MAX_IOV];
	uint32_t n = e->in->tail - e->in->head, k = 0;

	if (n == 0 || e->in->stalled || e->rc.rnr.state == RC_RNR_WAITS || !rc_wake(ctx, &e->rc))
		return false;
	n = 1 + rn_rng_below(&g->r->rng, n);
	for (uint32_t i = 0; i < n; i++)
		buf[i] = e->in->buf[(e->in->head + i) % sizeof(e->in->buf)];
	for (uint32_t at = 0; at < n; k++) {
		uint32_t len = k + 1 < RC_MAX_IOV ? 1 + rn_rng_below(&g->r->rng, n - at) : n - at;
		iov[k] = (struct rn_iov){ buf + at, len };
		at += len;
	}
	const struct rc_bytes b = { .iov = iov, .n = k, .len = n, .pos = e->in->head };
	uint32_t used = rc_in(ctx, &e->rc, &b);
	assert_true(used == n || e->rc.rnr.state == RC_RNR_WAITS);
	e->in->head += used;
	return true;
}

static bool look_at_end(struct ring_end *e)
{
	struct rc_ctx *ctx = &e->n->ctx.rc;

	if (e->in->rst) {
		rc_lost(ctx, &e->rc, RC_LOST_RESET);
		drop_all(e);
		rc_closed(ctx, &e->rc);
		return true;
	}
	if (e->in->fin && !e->in->stalled && e->in->head == e->in->tail && rc_get_state(&e->rc) != RC_DEAD) {
		rc_fin(ctx, &e->rc);
		return true;
	}
	if (rc_get_state(&e->rc) != RC_DEAD || !e->out->fin || e->head != e->tail || e->rc.rnr.state != RC_RNR_NONE)
		return false;
	rc_closed(ctx, &e->rc);
	return true;
}

/* ---- turns ---- */

static void effects(struct ring *g, struct ring_end *e)
{
	struct rc_ctx *ctx = &e->n->ctx.rc;

	for (uint32_t i = 0; i < ctx->qp.n_fx; i++) {
		const struct qp_fx *fx = &ctx->qp.fx[i];
		const struct rc_accept a = { .qp = &e->n->q[0].qp, .ird = g->r->cfg.ird, .ord = g->r->cfg.ord };

		if (g->take != NULL) {
			g->take(g->owner, (int)(e - g->end), fx);
			continue;
		}
		if (fx->type == QP_FX_CONNECT_REQUEST)
			assert_int_equal(rc_accept(ctx, &e->rc, &a), QP_OK);
		if (fx->conn == &e->rc && e->n_fx < RN_ARRAY_LEN(e->fx))
			e->fx[e->n_fx++] = *fx;
	}
	rc_drained(ctx);
}

static bool turn(struct ring *g, struct ring_end *e)
{
	struct rc_ctx *ctx = &e->n->ctx.rc;
	struct rc *c = &e->rc;
	bool any = false;

	ctx->qp.now = g->r->now;
	while (rc_ready_pop(ctx) != NULL)
		;
	if (rc_get_state(c) != RC_FREE) {
		if (ctx->qp.now >= rc_next_wake(c))
			rc_timer(ctx, c);
		any |= read_some(g, e);
		any |= acknowledge(g, e);
		rc_turn(ctx, c);
		if (c->rnr.state != RC_RNR_NONE)
			rc_rnr_look(ctx, c, false);
		if (c->rnr.state == RC_RNR_BEHIND) { /* unused bytes are still in the ring, before all later ones */
			rc_caught_up(ctx, c);
			any = true;
		}
		any |= fill(e);
		rc_turn_end(ctx, c);
		any |= obey(e);
	}
	if (rc_get_state(c) != RC_FREE)
		any |= write_some(g, e);
	if (rc_get_state(c) != RC_FREE)
		any |= look_at_end(e);
	if (rc_get_state(c) != RC_FREE)
		any |= obey(e);
	rc_flush(ctx);
	effects(g, e);
	return any;
}

bool ring_turn(struct ring *g)
{
	bool any = turn(g, &g->end[0]);

	return turn(g, &g->end[1]) || any;
}

void ring_run(struct ring *g)
{
	while (ring_turn(g))
		;
}

void ring_wait(struct ring *g, uint64_t ns)
{
	for (uint64_t until = g->r->now + ns; g->r->now < until; g->r->now += RN_NS_PER_MS)
		ring_run(g);
	ring_run(g);
}

struct qp_cqe ring_cqe(struct ring *g, struct spsc_cons *c)
{
	struct qp_cqe e = { 0 };

	while (!rig_poll(c, &e))
		if (!ring_turn(g)) {
			if (!rig_poll(c, &e))
				fail_msg("no completion");
			break;
		}
	return e;
}

const struct qp_fx *ring_fx(const struct ring *g, int id, enum qp_fx_type type)
{
	for (uint32_t i = 0; i < g->end[id].n_fx; i++)
		if (g->end[id].fx[i].type == type)
			return &g->end[id].fx[i];
	return NULL;
}

/* ---- life ---- */

struct ring *ring_new(const struct rig_cfg *cfg, uint32_t mss, enum ring_done done, uint32_t first)
{
	struct ring *g = calloc(1, sizeof(*g));

	g->r = rig_new(cfg);
	g->mss = mss;
	g->done = done;
	for (int id = 0; id < 2; id++) {
		g->pipe[id].size = sizeof(g->pipe[id].buf);
		g->pipe[id].head = g->pipe[id].tail = first;
		g->end[id].n = &g->r->n[id];
		g->end[id].out = &g->pipe[id];
		g->end[id].in = &g->pipe[!id];
		g->end[id].queued = first;
	}
	return g;
}

void ring_free(struct ring *g)
{
	for (int id = 0; id < 2; id++) {
		assert_int_equal(rc_get_state(&g->end[id].rc), RC_FREE);
		assert_int_equal(g->end[id].head, g->end[id].tail);
	}
	rig_free(g->r);
	free(g);
}

static struct rc_params params(const struct ring *g, int id)
{
	const struct rig_cfg *c = &g->r->cfg;

	return (struct rc_params){
		.dev = &g->r->n[id].dev,
		.policy = { .rev = c->rev, .crc = c->crc, .markers = c->markers[id], .ird = c->ird, .ord = c->ord }
	};
}

void ring_connect(struct ring *g)
{
	struct rc_params a = params(g, 0), b = params(g, 1);
	struct rc *c[2] = { &g->end[0].rc, &g->end[1].rc };

	for (int id = 0; id < 2; id++)
		g->r->n[id].ctx.rc.qp.now = g->r->now;
	a.qp = &g->r->n[0].q[0].qp;
	assert_int_equal(rc_connect(&g->r->n[0].ctx.rc, c[0], &a), QP_OK);
	assert_int_equal(rc_passive(&g->r->n[1].ctx.rc, c[1], &b), QP_OK);
	for (int id = 0; id < 2; id++)
		rc_set_mss(c[id], g->mss);
	rc_opened(&g->r->n[0].ctx.rc, c[0], g->pipe[1].head);
	ring_run(g);
	assert_true(rc_is_up(c[0]) && rc_is_up(c[1]));
}
