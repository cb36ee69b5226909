/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stages: the memory in which FPDUs that come in pieces are put together. A worker has a fixed number, and three
 * quarters of them are for QPs of one tenant at most.
 *
 * A connection that gets none waits as for a receive (rc_rnr.c): the adapter keeps the bytes, and the window closes. A
 * stage that comes back goes to the connection of a tenant that has waited longest; one tenant after another has its
 * turn. A peer may take RC_STAGE_NS for the rest of an FPDU that it has begun. Later its connection is reset as soon as
 * another one needs the stage.
 */
#include "rc/rc_int.h"

/* Whether the tenant has all stages that it may have. */
static bool used_up(const struct rc_ctx *ctx, uint8_t tenant)
{
	const uint32_t all = ctx->cfg.stages;

	return ctx->stages_of[tenant] >= all - all / 4;
}

static bool room(const struct rc_ctx *ctx, uint8_t tenant) { return ctx->stages_left > 0 && !used_up(ctx, tenant); }

/* Gives the connection a stage; there is room for it. False: this would be our own bug. */
static bool give(struct rc_ctx *ctx, struct rc *c)
{
	struct rc_stage *s = rn_list_pop(&ctx->stages_free, struct rc_stage, link);

	if (s == NULL)
		s = rc_take_fresh(&ctx->stage_fresh, sizeof(*s));
	if (!mpa_rx_give_stage(&c->in.mpa, s->mem, sizeof(s->mem))) {
		rn_list_push_front(&ctx->stages_free, &s->link);
		return false;
	}
	s->c = c;
	s->since = ctx->qp.now;
	s->start = c->in.mpa.start;
	s->tenant = rc_tenant(c);
	rn_list_push_back(&ctx->stages, &s->link);
	ctx->stages_left--;
	ctx->stages_of[s->tenant]++;
	c->rnr.until = RN_NEVER;
	return true;
}

/* Gives a stage that has come back to a connection that waits. Tenants whose connections wait take turns. */
static void serve(struct rc_ctx *ctx)
{
	for (uint64_t left = ctx->stageless_of; left != 0;) {
		const uint8_t t = rn_bit_from(left, ctx->stage_turn);
		struct rc *c = rn_list_first(&ctx->stageless[t], struct rc, rnr.link);

		left &= ~(UINT64_C(1) << t);
		if (c == NULL) {
			ctx->stageless_of &= ~(UINT64_C(1) << t);
		} else if (room(ctx, t) && give(ctx, c)) {
			ctx->stage_turn = (uint8_t)((t + 1u) % QP_TENANTS);
			rc_rnr_stop(ctx, c);
			return;
		}
	}
}

void rc_stage_put(struct rc_ctx *ctx, struct rc *c)
{
	if (c->in.mpa.stage == NULL)
		return;
	struct rc_stage *s = rn_container_of(c->in.mpa.stage, struct rc_stage, mem);
	c->in.mpa.stage = NULL;
	c->in.mpa.stage_size = 0;
	rn_list_remove(&ctx->stages, &s->link);
	rn_list_push_front(&ctx->stages_free, &s->link);
	ctx->stages_left++;
	ctx->stages_of[s->tenant]--;
	serve(ctx);
}

void rc_stage_look(struct rc_ctx *ctx, struct rc *c)
{
	if (c->in.mpa.stage == NULL)
		return;
	struct rc_stage *s = rn_container_of(c->in.mpa.stage, struct rc_stage, mem);
	if (mpa_rx_idle(&c->in.mpa)) {
		rc_stage_put(ctx, c);
	} else if (s->start != c->in.mpa.start) {
		s->start = c->in.mpa.start;
		s->since = ctx->qp.now;
		rn_list_remove(&ctx->stages, &s->link);
		rn_list_push_back(&ctx->stages, &s->link);
	}
}

/* A connection whose stage another one of this tenant may have: the one whose peer has stopped longest. NULL: none. */
static struct rc *stopped(const struct rc_ctx *ctx, uint8_t tenant)
{
	const bool own = used_up(ctx, tenant);

	rn_list_each(struct rc_stage, s, &ctx->stages, link) {
		/* a message that waits for a receive lies in a stage of the share rc_cfg.rnr_stages */
		if ((own && s->tenant != tenant) || s->c->rnr.state != RC_RNR_NONE)
			continue;
		if (!rc_streaming(s->c) || ctx->qp.now - s->since >= RC_STAGE_NS)
			return s->c;
	}
	return NULL;
}

/* The bytes that follow are kept until the connection has a stage for them. */
static void wait_for_one(struct rc_ctx *ctx, struct rc *c)
{
	c->rnr.state = RC_RNR_WAITS;
	c->rnr.stage = true;
	rn_list_push_back(&ctx->stageless[rc_tenant(c)], &c->rnr.link);
	ctx->stageless_of |= UINT64_C(1) << rc_tenant(c);
	if (c->rnr.until == RN_NEVER) {
		c->rnr.until = ctx->qp.now + RC_STAGE_NS;
		rc_rnr_bound(ctx, c);
	}
}

bool rc_stage_get(struct rc_ctx *ctx, struct rc *c)
{
	const uint8_t tenant = rc_tenant(c);
	struct rc *other;

	while (!room(ctx, tenant) && (other = stopped(ctx, tenant)) != NULL) {
		if (rc_streaming(other))
			rc_reset(ctx, other);
		rc_stage_put(ctx, other);
	}
	if (room(ctx, tenant)) {
		if (give(ctx, c))
			return true;
		rc_reset(ctx, c);
		return false;
	}
	ctx->qp.stats.no_stage++;
	if (ctx->qp.now < c->rnr.until)
		wait_for_one(ctx, c);
	else
		rc_reset(ctx, c); /* others have used all stages, each of them for a short time */
	return false;
}
