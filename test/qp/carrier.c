/* SPDX-License-Identifier: BSD-3-Clause */
#include "carrier.h"

void carrier_up(struct carrier *c, struct qp_ctx *ctx, struct qp *qp, uint32_t depth)
{
	*c = (struct carrier){ .ctx = ctx };
	c->work.wr = c->wr;
	c->work.wr_mask = CARRIER_WIN - 1;
	qp_work_init(&c->work);
	qp_msgs_work(&c->m, &c->work);
	qp_attach(&c->m, qp);
	qp_msgs_init(&c->m, depth, depth);
	qp_set_state(qp, QP_S_RTS);
}

static void end(struct carrier *c)
{
	c->failed = true;
	qp_detach(c->ctx, &c->m, QP_END_FLUSH);
}

/* Sends what the engine has while there is room. The bytes are copied here; a stream would keep slices. */
static bool fill(struct carrier *c)
{
	bool any = false;

	while (c->m.qp != NULL && c->sent - c->acked < CARRIER_WIN) {
		struct carrier_slot *s = &c->out[c->sent % CARRIER_WIN];
		uint8_t inl[QP_MAX_INLINE];
		struct rn_iov iov[QP_SEG_SLICES];
		struct qp_seg seg = { .hdr = s->bytes, .inl = inl, .iov = iov };
		uint32_t len;

		enum qp_pull v = qp_peek(c->ctx, &c->m, CARRIER_SEG, &len);
		if (v == QP_PULL_OK)
			v = qp_pull(c->ctx, &c->m, CARRIER_SEG, &seg);
		if (v == QP_PULL_FAILED)
			end(c);
		if (v != QP_PULL_OK)
			break;
		rn_iov_gather(iov, seg.n, s->bytes + seg.hdr_len, seg.len);
		s->len = seg.hdr_len + seg.len;
		s->wr = seg.wr;
		s->seq = c->sent++;
		s->full = any = true;
	}
	return any;
}

/* A segment arrives, in any order: it is kept until its turn, and placed early if the engine can judge it. */
static void arrive(struct carrier *c, const struct carrier_slot *from)
{
	struct carrier_slot *s = &c->in[from->seq % CARRIER_WIN];

	if (from->seq - c->next >= CARRIER_WIN || s->full) {
		c->repeats++;
		return;
	}
	*s = *from;
	s->placed = false;
	if (ddp_parse(s->bytes, s->len, &s->h) != DDP_OK || c->m.qp == NULL || s->seq == c->next)
		return;
	struct rn_iov ulpdu = { s->bytes, s->len };
	s->placed = qp_early(&c->m, &s->h) != 0 && qp_early_place(c->ctx, &c->m, &s->h, &ulpdu, 1);
	c->early += s->placed;
}

/* Gives the engine each segment that is in turn. True: there was one. */
static bool deliver(struct carrier *c)
{
	bool any = false;

	for (;;) {
		struct carrier_slot *s = &c->in[c->next % CARRIER_WIN];
		struct rn_iov ulpdu = { s->bytes, s->len };

		if (!s->full || s->seq != c->next || c->m.qp == NULL)
			return any;
		s->full = false;
		any = true;
		if (qp_push(c->ctx, &c->m, &s->h, s->placed ? NULL : &ulpdu, 1) == QP_PUSH_FAILED)
			end(c); /* a refused segment is never acknowledged */
		else
			c->next++;
	}
}

/* Acknowledges what the peer has received in order. */
static void acknowledge(struct carrier *c, const struct carrier *peer)
{
	for (; c->acked != peer->next; c->acked++) {
		struct carrier_slot *s = &c->out[c->acked % CARRIER_WIN];

		s->full = false;
		if (s->wr != QP_WR_NONE && c->m.qp != NULL)
			qp_acked(&c->m, s->wr);
	}
	if (c->m.qp != NULL && qp_complete(c->ctx, &c->m) == QP_PULL_FAILED)
		end(c);
}

/*
 * The line: some of the segments under way arrive, in any order and perhaps repeatedly; now and then the receiver gets
 * a turn.
 */
static void line(struct carrier *from, struct carrier *to, struct rn_rng *rng)
{
	uint32_t n = from->sent - from->acked;

	for (uint32_t i = 0; i < 2 * n; i++) {
		arrive(to, &from->out[(from->acked + rn_rng_below(rng, n)) % CARRIER_WIN]);
		if (rn_rng_below(rng, 4) == 0)
			(void)deliver(to);
	}
}

static bool turn(struct carrier *a, struct carrier *b, struct rn_rng *rng)
{
	bool any = fill(a);

	line(a, b, rng);
	any |= deliver(b);
	acknowledge(a, b);
	qp_flush(a->ctx);
	qp_flush(b->ctx);
	return any || (a->sent != a->acked && b->m.qp != NULL);
}

void carrier_run(struct carrier *a, struct carrier *b, struct rn_rng *rng)
{
	bool any;

	do {
		any = turn(a, b, rng);
		any |= turn(b, a, rng);
	} while (any);
}
