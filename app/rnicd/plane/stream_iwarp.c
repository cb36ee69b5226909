/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a stream of the wire iwarp: MPA set-up between the rnicds of both ends, and the end. The room iws makes
 * the queue pair. An effect that the engine reports for a stream is first only marked in the stream (iws_note). The
 * marks are carried out when the engine's list of effects is empty again.
 */
#include "plane/stream_iwarp.h"

#include "border/policy.h"
#include "plane/worker_int.h"

/* Each stream has a protection domain of its own. */
static uint32_t iw_pd(const struct rnicd_worker *w, const struct stream *s)
{
	return (uint32_t)(s - w->streams.at) + 1;
}

/* ---- the worker's context ---- */

/* The callback of struct iws_ctx. */
static struct rc_ctx *iw_rc(struct iws_ctx *x)
{
	return &stream_iwarp_ctx(rn_container_of(x, struct stream_iwarp_ctx, iws)->w)->rc;
}

static bool iw_start(struct rnicd_worker *w)
{
	struct stream_iwarp_ctx *x = w->streams.iwarp;

	if (rc_tcp_ctx_init(&x->tcp, &x->cfg, x->mem, x->size) != QP_OK) {
		x->bad = true;
		return false;
	}
	qp_dev_init(&x->dev, x->mr, x->n_mr, rnicd.secret[3] ^ (w->now + w->index));
	x->iws = (struct iws_ctx){ .dev = &x->dev, .rc = iw_rc };
	x->w = w;
	x->on = true;
	return true;
}

bool stream_iwarp_room(struct rnicd_worker *w, bool passive)
{
	struct stream_iwarp_ctx *x = w->streams.iwarp;

	if (rn_unlikely(!x->on) && (x->bad || !iw_start(w)))
		return false;
	/*
	 * Connections of listeners take at most three quarters of the set-ups, so that programs of this host can always
	 * connect.
	 */
	return x->tcp.rc.setups_left > (passive ? x->cfg.rc.setups / 4 : 0) && x->tcp.rc.blk_left > 0;
}

static struct iws *iw_of(const struct rnicd_worker *w, const struct stream *s)
{
	return &w->streams.iwarp->at[s - w->streams.at];
}

void stream_iwarp_touch(struct rnicd_worker *w, struct stream *s)
{
	if (!rn_link_linked(&s->touched))
		rn_list_push_back(&w->streams.iwarp->touched, &s->touched);
}

/* ---- set-up ---- */

static struct mpa_policy iw_policy(const struct stream *s)
{
	const struct mpa_policy p = conn_policy(s->way.port);

	return iws_policy(&p);
}

static void iw_begin(struct rnicd_worker *w, struct stream *s)
{
	s->iwarp = iw_of(w, s);
	iws_begin(s->iwarp, &s->qc.rc, &s->pos, iw_pd(w, s));
}

bool stream_iwarp_syn(struct rnicd_worker *w, struct stream *s, const struct tcpl_seg *syn, const struct tcpl_cfg *cfg,
		      uint32_t iss)
{
	const struct rc_tcp_params p = { .rc = { .policy = iw_policy(s) }, .tcp = cfg, .iss = iss };

	if (rc_tcp_passive(stream_iwarp_ctx(w), &s->qc, syn, &p) != QP_OK)
		return false;
	tcpl_set_turns(&s->qc.tcp, &w->tcp.turns);
	iw_begin(w, s);
	return true;
}

bool stream_iwarp_begin(struct rnicd_worker *w, struct stream *s)
{
	uint8_t hello[IWS_HELLO_MAX];
	struct rc_params p = { .policy = iw_policy(s), .priv = hello };

	iw_begin(w, s);
	p.priv_len = iws_ask(&w->streams.iwarp->iws, s->iwarp, s->mem, s->user->tenant, hello);
	if (p.priv_len == 0)
		return false;
	p.qp = &s->iwarp->qp;
	if (rc_tcp_take(stream_iwarp_ctx(w), &s->qc, &p) != QP_OK)
		return false;
	stream_flag(s, IPC_STREAM_IWARP);
	return true;
}

void stream_iwarp_adopt(struct rnicd_worker *w, struct stream *s)
{
	iws_adopt(&w->streams.iwarp->iws, s->iwarp, s->mem, s->user->tenant);
	stream_iwarp_touch(w, s);
}

/* Called when the peer's MPA Request has come: reports the stream to its listener, if the Request has a valid hello. */
static void iw_asked(struct rnicd_worker *w, struct stream *s, uint32_t marks)
{
	if ((marks & IWS_HELLO) == 0) {
		stream_iwarp_abort(w, s);
		return;
	}
	s->connected = true;
	if (s->listener != NULL)
		stream_arrived(w, s);
}

/* ---- the end ---- */

void stream_iwarp_abort(struct rnicd_worker *w, struct stream *s)
{
	iws_abort(&w->streams.iwarp->iws, s->iwarp);
	stream_iwarp_touch(w, s);
}

void stream_iwarp_free(struct rnicd_worker *w, struct stream *s)
{
	struct stream_iwarp_ctx *x = w->streams.iwarp;

	iws_free(&x->iws, s->iwarp);
	if (rn_link_linked(&s->touched)) /* here: effects that iws_free() has carried out may have touched the stream */
		rn_list_remove(&x->touched, &s->touched);
	s->iwarp = NULL;
}

/*
 * Called when the connection has ended. Tells the program at once if the end was not orderly, since TCP's own end may
 * have to wait for the peer's FIN.
 */
static void iw_gone(struct rnicd_worker *w, struct stream *s, uint32_t marks)
{
	const int error = iws_gone(s->iwarp, marks, stream_reset_error(s));

	stream_ended(s, error);
	if (error != 0 && s->mem != NULL)
		stream_tell(w, s, STREAM_OUT | STREAM_PEER_FIN);
}

static void iw_look(struct rnicd_worker *w, struct stream *s)
{
	struct iws *i = s->iwarp;
	const uint32_t marks = i->marks;

	i->marks = 0; /* the calls below may set new marks */
	if (marks & IWS_ASKED)
		iw_asked(w, s, marks);
	if ((marks & IWS_UP) && iws_up(&w->streams.iwarp->iws, i, marks))
		stream_ready(w, s);
	if (i->ready)
		stream_iwarp_take(w, s);
	if (marks & IWS_GONE)
		iw_gone(w, s, marks);
	if (marks & IWS_CLOSED)
		stream_over(w, s, i->error);
}

/* ---- effects of the engine ---- */

/* Adds the counters of the engine's context to the worker's, and zeroes them. */
static void iw_count(struct rnicd_worker *w, struct qp_stats *of)
{
	uint64_t *from = (uint64_t *)(void *)of, *to = (uint64_t *)(void *)&w->tcp.rc.qp.stats;

	for (uint32_t i = 0; i < sizeof(*of) / sizeof(*from); i++) {
		to[i] += from[i];
		from[i] = 0;
	}
}

static void iw_effects(struct rnicd_worker *w)
{
	struct rc_tcp_ctx *ctx = &w->streams.iwarp->tcp;

	ctx->rc.qp.now = w->now;
	rc_flush(&ctx->rc);
	for (uint32_t i = 0; i < ctx->rc.qp.n_fx; i++) {
		const struct qp_fx *fx = &ctx->rc.qp.fx[i];
		if (fx->type > QP_FX_CLOSED)
			/*
			 * An effect of the queue pair is ignored: its connection ends, too, and has an effect of its
			 * own.
			 */
			continue;
		struct stream *s = rn_container_of(rc_tcp_of(fx->conn), struct stream, qc);
		if (s->iwarp == NULL)
			continue;
		iws_note(s->iwarp, fx);
		stream_iwarp_touch(w, s);
	}
	for (uint32_t i = 0; i < ctx->n_refs; i++)
		rte_pktmbuf_free(mbuf_of_ref(ctx->refs[i]));
	rc_tcp_drained(ctx);
}

struct rc_tcp_ctx *stream_iwarp_ctx(struct rnicd_worker *w)
{
	struct rc_tcp_ctx *ctx = &w->streams.iwarp->tcp;

	ctx->rc.qp.now = w->now;
	if (rn_unlikely(rc_tcp_full(ctx)))
		iw_effects(w);
	return ctx;
}

uint32_t stream_iwarp_settle(struct rnicd_worker *w)
{
	struct stream_iwarp_ctx *x = w->streams.iwarp;
	struct stream *s;
	uint32_t n = 0;

	if (rn_likely(!x->on))
		return 0;
	iw_effects(w);
	for (; (s = rn_list_pop(&x->touched, struct stream, touched)) != NULL; n++)
		iw_look(w, s);
	if (n != 0)
		iw_count(w, &x->tcp.rc.qp.stats);
	return n;
}
