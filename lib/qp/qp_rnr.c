/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message that finds no receive posted, on a QP with patience (rnr_ns): InfiniBand's "receiver not ready". iWARP has
 * no word for it but the stream's end (RFC 5041, 7.1). So nothing is said: the message's first FPDU and all that comes
 * after it are kept as a TCP keeps what its user does not read, and the window closes. The peer sees a slow reader and
 * nothing else; its Sends are acknowledged, and so complete, before they are delivered.
 *
 * What is kept: the packets themselves, in a list in the order of the stream, then what TCP holds and has in order; of
 * an FPDU that came in pieces the stage. Both are counted per worker; where there is no more room, segments are as if
 * lost (qp_cfg.rnr_pkts), and the message fails as it does without patience (stages).
 *
 * The client is asked, by a word in the ring, to ring when it posts: for a queue pair's own receives its doorbell, for
 * those of a shared queue one of the worker that leads to qp_recvs().
 */
#include "qp/qp_priv.h"

#define AT_ONCE 128u /* kept packets worked off in a turn */
#define OWN_BIT 1u /* of a ring that belongs to one QP; a shared one has a bit for each worker */

static uint32_t worker_bit(const struct qp_ctx *ctx) { return UINT32_C(1) << ctx->cfg.worker; }

/* ---- who waits ---- */

static void list_put(struct qp_ctx *ctx, struct qp_conn *c)
{
	c->rnr_srq = c->qp->srq;
	c->rnr_srq->waiting[ctx->cfg.worker]++;
	c->rnr_next = NULL;
	c->rnr_prev = ctx->rnr_tail;
	if (ctx->rnr_tail != NULL)
		ctx->rnr_tail->rnr_next = c;
	else
		ctx->rnr_head = c;
	ctx->rnr_tail = c;
}

static void list_del(struct qp_ctx *ctx, struct qp_conn *c)
{
	if (c->rnr_prev != NULL)
		c->rnr_prev->rnr_next = c->rnr_next;
	else
		ctx->rnr_head = c->rnr_next;
	if (c->rnr_next != NULL)
		c->rnr_next->rnr_prev = c->rnr_prev;
	else
		ctx->rnr_tail = c->rnr_prev;
	if (--c->rnr_srq->waiting[ctx->cfg.worker] == 0)
		spsc_cons_unask(&c->rnr_srq->ring, worker_bit(ctx));
	c->rnr_srq = NULL;
}

/* It no longer waits, or its QP leaves it; what is kept goes with the next qp_conn_out. */
void qp_rnr_stop(struct qp_ctx *ctx, struct qp_conn *c)
{
	if (rn_likely(c->rnr != QP_RNR_WAITS))
		return;
	c->rnr = QP_RNR_BEHIND;
	if (c->rnr_srq != NULL)
		list_del(ctx, c);
	else if (c->qp != NULL)
		spsc_cons_unask(&c->qp->rq, OWN_BIT);
	qp_ready_put(ctx, c);
}

void qp_recvs(struct qp_ctx *ctx)
{
	for (struct qp_conn *c = ctx->rnr_head; c != NULL; c = c->rnr_next)
		qp_ready_put(ctx, c);
}

/*
 * No receive is there for the message that begins with v. True: the QP has patience, and the client knows that it is
 * waited for: look once more, then qp_rnr_wait().
 */
bool qp_rnr_ask(struct qp_ctx *ctx, struct qp_conn *c, const struct mpa_view *v)
{
	struct qp *qp = c->qp;

	if (qp->rnr_ns == 0 || v == NULL)
		return false;
	if (ctx->now >= c->rnr_until || (v->staged && ctx->rnr_stages >= ctx->cfg.stages / 2)) {
		ctx->stats.rnr_timeouts++;
		return false;
	}
	if (qp->srq != NULL)
		spsc_cons_ask(&qp->srq->ring, worker_bit(ctx));
	else
		spsc_cons_ask(&qp->rq, OWN_BIT);
	return true;
}

/* Where a connection manager waits for the peer's last word, that will not wait for good. */
static void bound(const struct qp_ctx *ctx, struct qp_conn *c)
{
	if (c->rnr_fin && !(c->flags & QP_CONN_KEEP_RECV))
		c->rnr_until = rn_min_u64(c->rnr_until, ctx->now + ctx->cfg.close_ns);
}

void qp_rnr_wait(struct qp_ctx *ctx, struct qp_conn *c, const struct mpa_view *v)
{
	uint64_t ns = c->qp->rnr_ns;

	c->rnr = QP_RNR_WAITS;
	if (c->qp->srq != NULL)
		list_put(ctx, c);
	if (c->rnr_until == RN_NEVER) {
		ctx->stats.rnr_waits++;
		if (ns < RN_NEVER - ctx->now)
			c->rnr_until = ctx->now + ns;
		bound(ctx, c);
	}
	ctx->stats.fpdus_in--;
	if (v->staged) {
		c->blk->late = (struct qp_late){ .ulpdu_len = v->ulpdu_len, .pos = v->pos, .raw_len = v->raw_len };
		ctx->rnr_stages++;
	} else {
		mpa_rx_unread(&c->rx, v);
	}
}

/* ---- what is kept ---- */

static struct qp_pkt *packet(struct qp_ctx *ctx, const struct tcpl_slice *s)
{
	struct qp_pkt *p = (struct qp_pkt *)(uintptr_t)s->ref;

	p->off = s->off;
	p->len = s->len;
	p->seq = s->seq;
	ctx->rnr_kept++;
	return p;
}

/* Behind all that is kept. */
void qp_rnr_keep(struct qp_ctx *ctx, struct qp_conn *c, const struct tcpl_slice *s)
{
	struct qp_pkt *p = packet(ctx, s);
	struct qp_block *b = c->blk;

	p->next = NULL;
	if (b->kept_tail != NULL)
		b->kept_tail->next = p;
	else
		b->kept_head = p;
	b->kept_tail = p;
}

/* What is left of a slice in which a message began to wait, before all that is kept. False: nothing is. */
bool qp_rnr_rest(struct qp_ctx *ctx, struct qp_conn *c, const struct tcpl_slice *s)
{
	uint32_t used = c->rx_base + mpa_rx_pos(&c->rx) - s->seq;
	struct qp_block *b = c->blk;

	if (used >= s->len)
		return false;
	const struct tcpl_slice rest = { .ref = s->ref, .off = s->off + used, .len = s->len - used, .seq = s->seq + used };
	struct qp_pkt *p = packet(ctx, &rest);
	p->next = b->kept_head;
	b->kept_head = p;
	if (b->kept_tail == NULL)
		b->kept_tail = p;
	return true;
}

/* The announced edge stands still while what lies before it is not used. */
void qp_rnr_window(struct qp_conn *c)
{
	uint32_t space = c->tcp.cfg->rcv_space;
	uint32_t kept = c->tcp.rcv_nxt - (c->rx_base + mpa_rx_pos(&c->rx));

	tcpl_set_rcv_space(&c->tcp, space - rn_min_u32(kept, space));
}

void qp_rnr_fin(struct qp_ctx *ctx, struct qp_conn *c)
{
	c->rnr_fin = true;
	bound(ctx, c);
}

/* The oldest of it. */
static bool next(struct qp_ctx *ctx, struct qp_conn *c, struct tcpl_slice *s, bool *twice)
{
	struct qp_block *b = c->blk;
	struct qp_pkt *p = b->kept_head;

	*twice = false;
	if (p == NULL) {
		if (!tcpl_rx_next(&c->tcp, s))
			return false;
		ctx->held--;
		((struct qp_pkt *)(uintptr_t)s->ref)->twice = false;
		return true;
	}
	b->kept_head = p->next;
	if (p->next == NULL)
		b->kept_tail = NULL;
	ctx->rnr_kept--;
	*s = (struct tcpl_slice){ .ref = (uintptr_t)p, .off = p->off, .len = p->len, .seq = p->seq };
	*twice = p->twice;
	return true;
}

/* The FPDU in the stage; it may begin to wait again. */
static void late(struct qp_ctx *ctx, struct qp_conn *c, bool use)
{
	const struct qp_late l = c->blk->late;
	struct mpa_view v = { .ulpdu_len = l.ulpdu_len, .pos = l.pos, .raw_len = l.raw_len, .n = 1, .staged = true,
			      .ulpdu[0] = { .base = c->rx.stage, .len = l.ulpdu_len } };

	if (l.ulpdu_len == 0)
		return;
	c->blk->late.ulpdu_len = 0;
	ctx->rnr_stages--;
	if (!use)
		return;
	ctx->stats.fpdus_in++;
	qp_rx_fpdu(ctx, c, &v);
	if (c->rnr != QP_RNR_WAITS)
		qp_rx_stage_back(ctx, c);
}

/* Works off what is kept, so much at a time, as far as there are receives; thrown away when nobody is there for it. */
static void go_on(struct qp_ctx *ctx, struct qp_conn *c)
{
	bool dead = tcpl_get_state(&c->tcp) == TCPL_S_CLOSED;
	struct tcpl_slice s;
	uint32_t n = 0;
	bool twice;

	late(ctx, c, !dead && qp_conn_streaming(c) && c->qp != NULL);
	while (c->rnr == QP_RNR_BEHIND && n++ < AT_ONCE) {
		if (!next(ctx, c, &s, &twice)) {
			c->rnr = QP_RNR_NONE;
			break;
		}
		if ((dead || !qp_rx_slice(ctx, c, &s)) && !twice)
			qp_ref_back(ctx, s.ref);
	}
	if (c->rnr == QP_RNR_BEHIND) {
		qp_ready_put(ctx, c);
		return;
	}
	qp_rnr_window(c);
	if (c->rnr == QP_RNR_WAITS)
		return;
	c->rnr_until = RN_NEVER;
	tcpl_set_rcv_space(&c->tcp, c->tcp.cfg->rcv_space);
	if (c->rnr_fin) {
		c->rnr_fin = false;
		qp_rx_fin(ctx, c);
	}
}

/* With each turn of a connection that is not in NONE. */
void qp_rnr_look(struct qp_ctx *ctx, struct qp_conn *c)
{
	if (c->rnr == QP_RNR_WAITS) {
		bool there = qp_conn_streaming(c) && c->qp != NULL && tcpl_get_state(&c->tcp) != TCPL_S_CLOSED;

		if (there && ctx->now < c->rnr_until && !qp_rq_any(c->qp))
			return;
		qp_rnr_stop(ctx, c);
	}
	go_on(ctx, c);
}
