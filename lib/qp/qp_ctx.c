/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's own: pools, lists, effects. */
#include "qp/qp_priv.h"

void qp_cfg_default(struct qp_cfg *cfg, uint32_t worker, uint32_t max_mtu, uint32_t conns)
{
	*cfg = (struct qp_cfg){
		.worker = worker,
		.max_mtu = max_mtu,
		.blocks = conns,
		.wide = conns,
		.recs = 8192,
		.setups = rn_min_u32(conns, 1024),
		.stages = 64,
		.chunks = 512,
		.rnr_pkts = 4096,
		.hold_pkts = 8192,
		.request_ns = 10 * RN_NS_PER_S,
		.reply_ns = 10 * RN_NS_PER_S,
		.accept_ns = 60 * RN_NS_PER_S,
		.close_ns = 5 * RN_NS_PER_S,
	};
}

static uint64_t line_up(uint64_t n) { return (n + RN_CACHE_LINE - 1) & ~(uint64_t)(RN_CACHE_LINE - 1); }

/* Slices of a record: payload, two ends, and two for each marker in a full segment. */
static uint32_t rec_iov_of(const struct qp_cfg *cfg)
{
	return MPA_TX_IOV(QP_SEG_SLICES, rn_min_u32(cfg->max_mtu / MPA_MARKER_STEP + 2, MPA_TX_MARKERS));
}

static uint64_t rec_size(const struct qp_cfg *cfg)
{
	return line_up(sizeof(struct qp_rec) + rec_iov_of(cfg) * sizeof(struct rn_iov) + QP_MAX_INLINE);
}

/* Packets that a peer sent too early: with a wide block as many as a window has. */
static uint32_t holds_of(uint64_t n)
{
	return n == QP_NARROW_CHUNKS ? QP_HOLD_NARROW : rn_min_u32((uint32_t)n, QP_HOLD_MAX);
}

/* With rings for n FPDUs. */
static uint64_t block_size(const struct qp_cfg *cfg, uint64_t n)
{
	return line_up(sizeof(struct qp_block)) + line_up(n * sizeof(struct qp_wr)) +
	       line_up(n * sizeof(struct tcpl_chunk)) + line_up(n * sizeof(struct tcpl_txrec)) +
	       (cfg->rates ? line_up(n * sizeof(struct tcpl_sent)) : 0) + line_up(holds_of(n) * sizeof(struct tcpl_hold));
}

static uint64_t blocks_size(const struct qp_cfg *cfg)
{
	uint64_t wide = rn_min_u32(cfg->wide, cfg->blocks);

	return wide * block_size(cfg, cfg->chunks) + (cfg->blocks - wide) * block_size(cfg, QP_NARROW_CHUNKS);
}

uint64_t qp_ctx_size(const struct qp_cfg *cfg)
{
	if (cfg->worker >= QP_MAX_WORKERS || cfg->max_mtu < 576 || cfg->max_mtu > 9600)
		return 0;
	if (cfg->blocks == 0 || cfg->setups == 0 || cfg->stages == 0 || cfg->recs <= QP_CTRL_RECS)
		return 0;
	if (!rn_is_pow2(cfg->chunks) || cfg->chunks < 64 || cfg->chunks > 4096)
		return 0;
	return blocks_size(cfg) + cfg->recs * rec_size(cfg) +
	       cfg->setups * line_up(sizeof(struct qp_setup)) + cfg->stages * line_up(MPA_STAGE_SIZE);
}

static void *carve(uint8_t **p, uint64_t size)
{
	void *r = *p;

	*p += line_up(size);
	return r;
}

/* A block out of memory that was never used. */
static struct qp_block *block_fresh(struct qp_ctx *ctx)
{
	if (ctx->blk_fresh == 0)
		return NULL;
	uint32_t n = ctx->cfg.blocks - ctx->blk_fresh < ctx->cfg.wide ? ctx->cfg.chunks : QP_NARROW_CHUNKS;
	ctx->blk_fresh--;
	struct qp_block *b = carve(&ctx->blk_mem, sizeof(*b));
	b->next = NULL;
	b->wr = carve(&ctx->blk_mem, n * sizeof(struct qp_wr));
	b->wr_mask = n - 1;
	b->tcp = (struct tcpl_mem){ .chunk_n = n, .rec_n = n, .hold_n = holds_of(n) };
	b->tcp.chunk = carve(&ctx->blk_mem, n * sizeof(struct tcpl_chunk));
	b->tcp.rec = carve(&ctx->blk_mem, n * sizeof(struct tcpl_txrec));
	if (ctx->cfg.rates)
		b->tcp.sent = carve(&ctx->blk_mem, n * sizeof(struct tcpl_sent));
	b->tcp.hold = carve(&ctx->blk_mem, holds_of(n) * sizeof(struct tcpl_hold));
	return b;
}

enum qp_verdict qp_ctx_init(struct qp_ctx *ctx, const struct qp_cfg *cfg, void *mem, uint64_t size)
{
	uint64_t need = qp_ctx_size(cfg);
	uint8_t *p = mem;
	uint32_t width;

	if (need == 0 || size < need || (uintptr_t)mem % RN_CACHE_LINE != 0)
		return QP_BAD_ATTR;
	*ctx = (struct qp_ctx){ .cfg = *cfg, .rec_iov = rec_iov_of(cfg) };
	ctx->stream.copy = rn_stream_choose(64, &width);
	ctx->blk_mem = carve(&p, blocks_size(cfg));
	ctx->blk_fresh = ctx->blk_left = cfg->blocks;
	for (uint32_t i = 0; i < cfg->recs; i++)
		qp_rec_put(ctx, carve(&p, rec_size(cfg)));
	for (uint32_t i = 0; i < cfg->setups; i++) {
		struct qp_setup *s = carve(&p, sizeof(*s));
		s->next = ctx->setup_free;
		ctx->setup_free = s;
	}
	for (uint32_t i = 0; i < cfg->stages; i++)
		qp_stage_put(ctx, carve(&p, MPA_STAGE_SIZE));
	return QP_OK;
}

/* ---- pools ---- */

/* NULL when no more than `reserve` records are left. */
struct qp_rec *qp_rec_get(struct qp_ctx *ctx, uint32_t reserve)
{
	struct qp_rec *r = ctx->rec_free;

	if (rn_unlikely(ctx->rec_left <= reserve)) {
		ctx->stats.no_rec++;
		return NULL;
	}
	struct qp_rec *next = r->next;
	ctx->rec_free = next;
	ctx->rec_left--;
	/* With many connections the free ones are in no cache near: the next one comes while this one is filled. */
	if (rn_likely(next != NULL)) {
		__builtin_prefetch(next, 1);
		__builtin_prefetch((const uint8_t *)next + RN_CACHE_LINE, 1);
		__builtin_prefetch(next->iov, 1);
	}
	return r;
}

void qp_rec_put(struct qp_ctx *ctx, struct qp_rec *r)
{
	r->next = ctx->rec_free;
	ctx->rec_free = r;
	ctx->rec_left++;
}

struct qp_block *qp_block_get(struct qp_ctx *ctx)
{
	struct qp_block **list = ctx->blk_free[0] != NULL ? &ctx->blk_free[0] : &ctx->blk_free[1];
	struct qp_block *b = *list;

	if (rn_likely(b != NULL))
		*list = b->next;
	else
		b = block_fresh(ctx); /* wide ones first: there are no narrow ones before they have gone */
	if (rn_unlikely(b == NULL)) {
		ctx->stats.no_block++;
		return NULL;
	}
	ctx->blk_left--;
	b->wr_head = b->wr_tail = 0;
	b->resp_head = b->resp_tail = 0;
	b->tx_stop = false;
	b->ooo_head = b->n_ooo = 0;
	b->kept_head = b->kept_tail = NULL;
	b->late.ulpdu_len = 0;
	b->send.loaded = b->send.started = false;
	b->recv.loaded = false;
	return b;
}

void qp_block_put(struct qp_ctx *ctx, struct qp_block *b)
{
	struct qp_block **list = &ctx->blk_free[b->wr_mask + 1 < ctx->cfg.chunks];
	ctx->blk_left++;
	b->next = *list;
	*list = b;
}

struct qp_setup *qp_setup_get(struct qp_ctx *ctx)
{
	struct qp_setup *s = ctx->setup_free;

	if (s == NULL) {
		ctx->stats.no_setup++;
		return NULL;
	}
	ctx->setup_free = s->next;
	s->out_live = s->fin_due = false;
	s->out.len = 0;
	s->peer = (struct mpa_frame){ 0 };
	return s;
}

void qp_setup_put(struct qp_ctx *ctx, struct qp_setup *s)
{
	s->next = ctx->setup_done;
	ctx->setup_done = s;
}

/* A free stage keeps the link in its first bytes. */
uint8_t *qp_stage_get(struct qp_ctx *ctx)
{
	uint8_t *mem = ctx->stage_free;

	if (mem == NULL) {
		ctx->stats.no_stage++;
		return NULL;
	}
	memcpy(&ctx->stage_free, mem, sizeof(ctx->stage_free));
	return mem;
}

void qp_stage_put(struct qp_ctx *ctx, uint8_t *mem)
{
	memcpy(mem, &ctx->stage_free, sizeof(ctx->stage_free));
	ctx->stage_free = mem;
}

/* ---- effects ---- */

struct qp_fx *qp_fx_add(struct qp_ctx *ctx, enum qp_fx_type type, uint64_t owner)
{
	/* A caller that drains by qp_ctx_full() never meets a full list; one that does not loses the last news. */
	uint32_t i = rn_min_u32(ctx->n_fx, QP_FX_MAX - 1);

	ctx->n_fx = i + 1;
	ctx->fx[i] = (struct qp_fx){ .type = (uint8_t)type, .owner = owner };
	return &ctx->fx[i];
}

struct qp_fx *qp_fx_conn(struct qp_ctx *ctx, enum qp_fx_type type, struct qp_conn *c)
{
	struct qp_fx *fx = qp_fx_add(ctx, type, c->owner);

	fx->conn = c;
	fx->vendor_err = c->vendor_err;
	return fx;
}

void qp_ref_back(struct qp_ctx *ctx, uint64_t ref)
{
	if (ref != 0 && ctx->n_refs < QP_REFS_MAX)
		ctx->refs[ctx->n_refs++] = ref;
}

void qp_drained(struct qp_ctx *ctx)
{
	ctx->n_fx = 0;
	ctx->n_refs = 0;
	while (ctx->setup_done != NULL) {
		struct qp_setup *s = ctx->setup_done;

		ctx->setup_done = s->next;
		s->next = ctx->setup_free;
		ctx->setup_free = s;
	}
}

/* ---- lists ---- */

void qp_ready_put(struct qp_ctx *ctx, struct qp_conn *c)
{
	if (c->ready || c->state == QP_C_FREE)
		return;
	c->ready = true;
	c->ready_next = NULL;
	if (ctx->ready_tail != NULL)
		ctx->ready_tail->ready_next = c;
	else
		ctx->ready_head = c;
	ctx->ready_tail = c;
}

/* Has received something. */
void qp_answer_put(struct qp_ctx *ctx, struct qp_conn *c)
{
	if (c->answers || c->state == QP_C_FREE)
		return;
	c->answers = true;
	c->answer_next = NULL;
	if (ctx->answer_tail != NULL)
		ctx->answer_tail->answer_next = c;
	else
		ctx->answer_head = c;
	ctx->answer_tail = c;
}

struct qp_conn *qp_answer_pop(struct qp_ctx *ctx)
{
	struct qp_conn *c = ctx->answer_head;

	if (c == NULL)
		return NULL;
	ctx->answer_head = c->answer_next;
	if (ctx->answer_head == NULL)
		ctx->answer_tail = NULL;
	c->answers = false;
	return c;
}

/* The connection waits until something comes back to the pool. */
void qp_starve(struct qp_ctx *ctx, struct qp_conn *c, enum qp_want want)
{
	struct qp_wait *w = &ctx->wait[want];

	if (c->starved)
		return;
	c->starved = (uint8_t)(1 + want);
	c->starve_next = NULL;
	if (w->tail != NULL)
		w->tail->starve_next = c;
	else
		w->head = c;
	w->tail = c;
}

/* The first n that wait become ready, behind *at in the list of those that are. Returns where the next one goes. */
static struct qp_conn **feed(struct qp_ctx *ctx, struct qp_wait *w, uint32_t n, struct qp_conn **at)
{
	struct qp_conn *c;

	for (; n > 0 && (c = w->head) != NULL; n--) {
		w->head = c->starve_next;
		if (w->head == NULL)
			w->tail = NULL;
		c->starved = 0;
		if (c->ready)
			continue;
		c->ready = true;
		c->ready_next = *at;
		if (*at == NULL)
			ctx->ready_tail = c;
		*at = c;
		at = &c->ready_next;
	}
	return at;
}

/* Who has waited longest goes before those that are ready: these would take what has just come back. */
static void feed_starved(struct qp_ctx *ctx)
{
	uint32_t recs = ctx->rec_left > QP_CTRL_RECS ? ctx->rec_left - QP_CTRL_RECS : 0;
	struct qp_conn **at = &ctx->ready_head;

	ctx->fed = true;
	at = feed(ctx, &ctx->wait[QP_WANT_REC], recs, at);
	feed(ctx, &ctx->wait[QP_WANT_BLOCK], qp_blocks_for_senders(ctx), at);
}

static void fetch(const void *p, uint32_t len)
{
	for (uint32_t at = 0; at < len; at += RN_CACHE_LINE)
		__builtin_prefetch((const uint8_t *)p + at);
}

/*
 * With many connections none is in the cache. While one is served the lines of the next three come, each step needing
 * what the one before it has fetched: the connection; its block and its QP; the work request.
 */
static void fetch_ahead(const struct qp_conn *next)
{
	const struct qp_conn *second = next->ready_next;
	const struct qp_conn *third = second != NULL ? second->ready_next : NULL;

	if (third != NULL)
		fetch(third, sizeof(*third));
	if (second != NULL && second->qp != NULL)
		fetch(second->qp, offsetof(struct qp, rq));
	if (second != NULL && second->blk != NULL) {
		fetch(second->blk, offsetof(struct qp_block, send.u) + RN_CACHE_LINE);
		__builtin_prefetch(&second->blk->send.total);
	}
	if (next->qp != NULL) {
		__builtin_prefetch(&next->qp->sq.hdr->prod);
		__builtin_prefetch(spsc_cons_slot(&next->qp->sq, next->qp->sq_taken));
	}
	if (next->blk != NULL) {
		__builtin_prefetch(tcpl_chunk(&next->tcp, next->tcp.q_tail), 1);
		__builtin_prefetch(&next->blk->wr[next->blk->wr_tail & next->blk->wr_mask], 1);
	}
}

void qp_conn_fetch(const struct qp_conn *c)
{
	if (c->qp != NULL)
		__builtin_prefetch(c->qp);
	if (c->blk != NULL)
		fetch(c->blk, offsetof(struct qp_block, late));
}

void qp_conn_fetch_queues(const struct qp_conn *c)
{
	if (c->blk == NULL)
		return;
	__builtin_prefetch(tcpl_chunk(&c->tcp, c->tcp.q_head));
	__builtin_prefetch(&c->blk->wr[c->blk->wr_head & c->blk->wr_mask], 1);
	__builtin_prefetch(&c->blk->wr[(c->blk->wr_head + 2) & c->blk->wr_mask], 1);
}

struct qp_conn *qp_ready_pop(struct qp_ctx *ctx)
{
	if (rn_unlikely(ctx->wait[QP_WANT_REC].head != NULL || ctx->wait[QP_WANT_BLOCK].head != NULL) && !ctx->fed)
		feed_starved(ctx);
	struct qp_conn *c = qp_answer_pop(ctx);
	if (rn_unlikely(c != NULL))
		return c;
	c = ctx->ready_head;
	if (c == NULL)
		return NULL;
	ctx->ready_head = c->ready_next;
	if (ctx->ready_head == NULL)
		ctx->ready_tail = NULL;
	else
		fetch_ahead(ctx->ready_head);
	c->ready = false;
	return c;
}

/* Takes the connection off a list that links by `next`. */
#define UNLIST(head, tail, next, c)                                    \
	for (struct qp_conn *i_ = (head), *prev_ = NULL; i_ != NULL; prev_ = i_, i_ = i_->next) { \
		if (i_ != (c))                                         \
			continue;                                      \
		if (prev_ != NULL)                                     \
			prev_->next = (c)->next;                       \
		else                                                   \
			(head) = (c)->next;                            \
		if ((tail) == (c))                                     \
			(tail) = prev_;                                \
		break;                                                 \
	}

/* The connection goes away. */
void qp_unlist(struct qp_ctx *ctx, struct qp_conn *c)
{
	if (c->starved) {
		struct qp_wait *w = &ctx->wait[c->starved - 1];
		UNLIST(w->head, w->tail, starve_next, c);
	}
	if (c->ready)
		UNLIST(ctx->ready_head, ctx->ready_tail, ready_next, c);
	if (c->answers)
		UNLIST(ctx->answer_head, ctx->answer_tail, answer_next, c);
	c->ready = c->answers = false;
	c->starved = 0;
}

void qp_list_qp(struct qp_ctx *ctx, struct qp *qp)
{
	if (qp->listed)
		return;
	if (ctx->n_dirty_qp == QP_DIRTY_MAX) {
		qp_release(qp);
		return;
	}
	qp->listed = 1;
	ctx->dirty_qp[ctx->n_dirty_qp++] = qp;
}

void qp_flush(struct qp_ctx *ctx)
{
	qp_place_settle(ctx);
	/* Slots first: a client that has seen the completion finds room to post. */
	for (uint32_t i = 0; i < ctx->n_dirty_qp; i++) {
		ctx->dirty_qp[i]->listed = 0;
		qp_release(ctx->dirty_qp[i]);
	}
	ctx->n_dirty_qp = 0;
	for (uint32_t i = 0; i < ctx->n_dirty_cq; i++)
		qp_cq_publish(ctx, ctx->dirty_cq[i]);
	ctx->n_dirty_cq = 0;
	ctx->fed = false;
}
