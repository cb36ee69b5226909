/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's own state: pools, lists, effects. */
#include "rc/rc_int.h"

#define COPIES_MAX   1024u
#define COPIES_BYTES (2u << 20)
#define COPIES_AWAIT 4u  /* connections that are tried in a turn while copies are free */
#define BLOCKS_AWAIT 4u  /* the same, while blocks are free */
#define RECS_AWAIT   64u /* the same, while records are free */

void rc_cfg_default(struct rc_cfg *cfg, uint32_t worker, uint32_t max_mtu, uint32_t conns)
{
	*cfg = (struct rc_cfg){
		.worker = worker,
		.max_mtu = max_mtu,
		.blocks = conns,
		.wide = conns,
		.recs = 8192,
		.setups = rn_min_u32(conns, RC_SETUPS_MAX),
		.stages = 64,
		.rnr_stages = 32,
		.copies = rn_min_u32(COPIES_MAX, COPIES_BYTES / max_mtu),
		.chunks = 512,
		.open_ns = 10 * RN_NS_PER_S,
		.request_ns = 10 * RN_NS_PER_S,
		.reply_ns = 10 * RN_NS_PER_S,
		.accept_ns = 60 * RN_NS_PER_S,
		.drain_ns = 5 * RN_NS_PER_S,
		.close_ns = 5 * RN_NS_PER_S,
	};
}

static uint64_t line_up(uint64_t n) { return (n + RN_CACHE_LINE - 1) & ~(uint64_t)(RN_CACHE_LINE - 1); }

/* Slices of a record: payload, two ends, and two for each marker in a full segment. */
static uint32_t rec_iov_of(const struct rc_cfg *cfg)
{
	return MPA_TX_IOV(QP_SEG_SLICES, rn_min_u32(cfg->max_mtu / MPA_MARKER_STEP + 2, MPA_TX_MARKERS));
}

static uint64_t rec_size(const struct rc_cfg *cfg)
{
	return line_up(sizeof(struct rc_rec) + rec_iov_of(cfg) * sizeof(struct rn_iov) + QP_MAX_INLINE);
}

/* Bytes of a block with rings for n FPDUs. */
static uint64_t block_size(const struct rc_cfg *cfg, uint32_t n)
{
	return line_up(sizeof(struct rc_block)) + line_up(n * sizeof(struct qp_wr)) +
	       line_up(cfg->stream[n != cfg->chunks]);
}

static uint64_t blocks_size(const struct rc_cfg *cfg)
{
	uint64_t wide = rn_min_u32(cfg->wide, cfg->blocks);

	return wide * block_size(cfg, cfg->chunks) + (cfg->blocks - wide) * block_size(cfg, RC_NARROW_CHUNKS);
}

uint64_t rc_ctx_size(const struct rc_cfg *cfg)
{
	if (cfg->worker >= QP_MAX_WORKERS || cfg->max_mtu < 576 || cfg->max_mtu > 65535)
		return 0;
	if (cfg->blocks == 0 || cfg->setups == 0 || cfg->stages == 0 || cfg->copies == 0 || cfg->recs <= RC_CTRL_RECS)
		return 0;
	if (!rn_is_pow2(cfg->chunks) || cfg->chunks < 64 || cfg->chunks > 4096)
		return 0;
	return blocks_size(cfg) + cfg->recs * rec_size(cfg) + cfg->setups * line_up(sizeof(struct rc_setup)) +
	       cfg->stages * line_up(sizeof(struct rc_stage)) + (cfg->copies + 1ull) * line_up(cfg->max_mtu);
}

static void *carve(uint8_t **p, uint64_t size)
{
	void *r = *p;

	*p += line_up(size);
	return r;
}

/* Takes an object of `size` bytes from memory that was never used. */
void *rc_take_fresh(struct rc_fresh *f, uint64_t size)
{
	if (f->n == 0)
		return NULL;
	f->n--;
	return carve(&f->mem, size);
}

/* Takes the memory for n objects of `size` bytes, and touches none of them. */
static struct rc_fresh keep_fresh(uint8_t **p, uint32_t n, uint64_t size)
{
	struct rc_fresh f = { .mem = *p, .n = n };

	*p += n * line_up(size);
	return f;
}

/* Takes a block from memory that was never used. */
static struct rc_block *block_fresh(struct rc_ctx *ctx)
{
	if (ctx->blk_fresh == 0)
		return NULL;
	uint32_t n = ctx->cfg.blocks - ctx->blk_fresh < ctx->cfg.wide ? ctx->cfg.chunks : RC_NARROW_CHUNKS;
	ctx->blk_fresh--;
	struct rc_block *b = carve(&ctx->blk_mem, sizeof(*b));
	b->next = NULL;
	b->work.wr = carve(&ctx->blk_mem, n * sizeof(struct qp_wr));
	b->work.wr_mask = n - 1;
	b->stream = carve(&ctx->blk_mem, ctx->cfg.stream[n != ctx->cfg.chunks]);
	return b;
}

/* Puts a buffer on the list of free ones, each of which keeps the link to the next one in its first bytes. */
static void buf_put(uint8_t **list, uint8_t *mem)
{
	memcpy(mem, list, sizeof(*list));
	*list = mem;
}

/* Takes a free buffer, or one of `size` bytes that was never used. */
static uint8_t *buf_get(uint8_t **list, struct rc_fresh *fresh, uint64_t size)
{
	uint8_t *mem = *list;

	if (mem == NULL)
		return rc_take_fresh(fresh, size);
	memcpy(list, mem, sizeof(*list));
	return mem;
}

static void copy_put(struct rc_ctx *ctx, uint8_t *mem, uint8_t tenant)
{
	buf_put(&ctx->copy_free, mem);
	ctx->copies_left++;
	ctx->copies_of[tenant]--;
}

uint8_t *rc_copy_get(struct rc_ctx *ctx, uint8_t tenant)
{
	ctx->copies_left--;
	ctx->copies_of[tenant]++;
	return buf_get(&ctx->copy_free, &ctx->copy_fresh, ctx->cfg.max_mtu);
}

enum qp_verdict rc_ctx_init(struct rc_ctx *ctx, const struct rc_cfg *cfg, void *mem, uint64_t size)
{
	uint64_t need = rc_ctx_size(cfg);
	uint8_t *p = mem;

	if (need == 0 || size < need || (uintptr_t)mem % RN_CACHE_LINE != 0)
		return QP_BAD_ATTR;
	*ctx = (struct rc_ctx){ .cfg = *cfg, .rec_iov = rec_iov_of(cfg) };
	if (qp_ctx_init(&ctx->qp, cfg->worker) != QP_OK)
		return QP_BAD_ATTR;
	ctx->blk_mem = carve(&p, blocks_size(cfg));
	ctx->blk_fresh = ctx->blk_left = cfg->blocks;
	if (cfg->blk_share == 0)
		ctx->cfg.blk_share = cfg->blocks;
	const uint32_t recs = cfg->recs - RC_CTRL_RECS;
	ctx->rec_left = cfg->recs;
	ctx->rec_spare = RC_CTRL_RECS + recs / 8;
	ctx->rec_share = recs - recs / 4;
	ctx->rec_most = recs - recs / 8;
	ctx->rec_end = recs - recs / 16;
	ctx->setups_left = cfg->setups;
	ctx->copies_left = cfg->copies;
	ctx->stages_left = cfg->stages;
	ctx->rec_fresh = keep_fresh(&p, cfg->recs, rec_size(cfg));
	ctx->setup_fresh = keep_fresh(&p, cfg->setups, sizeof(struct rc_setup));
	ctx->stage_fresh = keep_fresh(&p, cfg->stages, sizeof(struct rc_stage));
	ctx->copy_fresh = keep_fresh(&p, cfg->copies, cfg->max_mtu);
	ctx->copy_once = carve(&p, cfg->max_mtu);
	ctx->rec_free = rc_take_fresh(&ctx->rec_fresh, rec_size(cfg));
	return QP_OK;
}

/* ---- pools ---- */

/*
 * Whether few records are left for the connection and yet it gets one: the last of them are for connections that have
 * none in flight, since to these no acknowledgement gives a turn, and for records that must go. So the silent peers of
 * one tenant stop no other tenant's connections; they slow down its own.
 */
static RN_COLD bool rec_scarce(const struct rc_ctx *ctx, const struct rc *c, bool ctrl)
{
	const uint32_t used = ctx->recs_of[rc_tenant(c)];

	if (ctrl)
		return ctx->rec_left > 0 && used < ctx->rec_end;
	return c->out.flying == 0 && ctx->rec_left > RC_CTRL_RECS && used < ctx->rec_most;
}

/* Takes a record. The list is empty only if no record is free. */
struct rc_rec *rc_rec_get(struct rc_ctx *ctx, const struct rc *c, bool ctrl)
{
	struct rc_rec *r = ctx->rec_free;
	const uint8_t tenant = rc_tenant(c);

	if (rn_unlikely(ctx->rec_left <= ctx->rec_spare || ctx->recs_of[tenant] >= ctx->rec_share) &&
	    !rec_scarce(ctx, c, ctrl)) {
		ctx->qp.stats.no_rec++;
		return NULL;
	}
	r->tenant = tenant;
	ctx->recs_of[tenant]++;
	struct rc_rec *next = r->next;
	ctx->rec_free = next;
	ctx->rec_left--;
	/*
	 * With many connections free records are in no near cache, so the next one is fetched while this one is filled.
	 */
	if (rn_likely(next != NULL)) {
		rn_prefetch_write(next);
		rn_prefetch_write((const uint8_t *)next + RN_CACHE_LINE);
		rn_prefetch_write((const uint8_t *)next + 2 * RN_CACHE_LINE);
	} else {
		ctx->rec_free = rc_take_fresh(&ctx->rec_fresh, rec_size(&ctx->cfg));
	}
	return r;
}

void rc_rec_put(struct rc_ctx *ctx, struct rc_rec *r)
{
	if (rn_unlikely(r->copy != NULL)) {
		copy_put(ctx, r->copy, r->tenant);
		r->copy = NULL;
	}
	ctx->recs_of[r->tenant]--;
	r->next = ctx->rec_free;
	ctx->rec_free = r;
	ctx->rec_left++;
}

void *rc_stream_mem(const struct rc *c) { return c->blk->stream; }
uint32_t rc_stream_records(const struct rc *c) { return c->blk->work.wr_mask + 1; }

struct rc_block *rc_block_get(struct rc_ctx *ctx, uint32_t tenant)
{
	if (rn_unlikely(rc_blocks_used_up(ctx, tenant))) {
		ctx->qp.stats.no_block++;
		return NULL;
	}
	struct rc_block **list = ctx->blk_free[0] != NULL ? &ctx->blk_free[0] : &ctx->blk_free[1];
	struct rc_block *b = *list;

	if (rn_likely(b != NULL))
		*list = b->next;
	else
		b = block_fresh(ctx); /* wide blocks first: narrow ones are used when these are all taken */
	if (rn_unlikely(b == NULL)) {
		ctx->qp.stats.no_block++;
		return NULL;
	}
	ctx->blk_left--;
	ctx->blks_of[tenant]++;
	b->tenant = (uint16_t)tenant;
	qp_work_init(&b->work);
	b->ooo_head = 0;
	b->n_ooo = 0;
	b->late.ulpdu_len = 0;
	return b;
}

void rc_block_join(struct rc_ctx *ctx, struct rc_block *b, uint8_t tenant)
{
	ctx->blks_of[b->tenant]--;
	ctx->blks_of[tenant]++;
	b->tenant = tenant;
}

void rc_block_put(struct rc_ctx *ctx, struct rc_block *b)
{
	struct rc_block **list = &ctx->blk_free[b->work.wr_mask + 1 < ctx->cfg.chunks];
	ctx->blk_left++;
	ctx->blks_of[b->tenant]--;
	b->next = *list;
	*list = b;
}

struct rc_setup *rc_setup_get(struct rc_ctx *ctx)
{
	struct rc_setup *s = ctx->setup_free;

	if (s != NULL)
		ctx->setup_free = s->next;
	else
		s = rc_take_fresh(&ctx->setup_fresh, sizeof(*s));
	if (s == NULL) {
		ctx->qp.stats.no_setup++;
		return NULL;
	}
	ctx->setups_left--;
	s->out_due = s->out_live = s->fin_due = false;
	s->out.len = 0;
	s->peer = (struct mpa_frame){ 0 };
	return s;
}

void rc_setup_put(struct rc_ctx *ctx, struct rc_setup *s)
{
	s->next = ctx->setup_done;
	ctx->setup_done = s;
}

/* ---- effects ---- */

struct qp_fx *rc_fx_conn(struct rc_ctx *ctx, enum qp_fx_type type, struct rc *c)
{
	struct qp_fx *fx = qp_fx_add(&ctx->qp, type, c->owner);

	fx->conn = c;
	fx->vendor_err = c->vendor_err;
	fx->spacings = c->spacings;
	return fx;
}

void rc_drained(struct rc_ctx *ctx)
{
	qp_drained(&ctx->qp);
	while (ctx->setup_done != NULL) {
		struct rc_setup *s = ctx->setup_done;

		ctx->setup_done = s->next;
		s->next = ctx->setup_free;
		ctx->setup_free = s;
		ctx->setups_left++;
	}
}

/* ---- lists ---- */

void rc_ready_put(struct rc_ctx *ctx, struct rc *c)
{
	if (!rn_link_linked(&c->ready) && c->state != RC_FREE)
		rn_list_push_back(&ctx->ready, &c->ready);
}

/* Lists a connection that has received something. */
void rc_answer_put(struct rc_ctx *ctx, struct rc *c)
{
	if (!rn_link_linked(&c->answers) && c->state != RC_FREE)
		rn_list_push_back(&ctx->answers, &c->answers);
}

struct rc *rc_answer_pop(struct rc_ctx *ctx) { return rn_list_pop(&ctx->answers, struct rc, answers); }

/* Lists a connection that waits until something comes back to the pool. */
void rc_starve(struct rc_ctx *ctx, struct rc *c, enum rc_want want)
{
	if (rn_link_linked(&c->starved) && c->want != want)
		rn_list_remove(&ctx->starved[c->want], &c->starved);
	if (!rn_link_linked(&c->starved))
		rn_list_push_back(&ctx->starved[want], &c->starved);
	c->want = (uint8_t)want;
}

/* Makes the first n waiting connections ready, in their order, ahead of the connection at `before`. */
static void feed(struct rc_ctx *ctx, enum rc_want want, uint32_t n, struct rn_link *before)
{
	struct rc *c;

	for (; n > 0 && (c = rn_list_pop(&ctx->starved[want], struct rc, starved)) != NULL; n--)
		if (!rn_link_linked(&c->ready))
			rn_list_insert(&ctx->ready, before, &c->ready);
}

/*
 * As feed(), for blocks. Not every tenant may have a block: a connection that may have none now goes to the list's end,
 * so each one is looked at, a few in a turn.
 */
static void feed_blocks(struct rc_ctx *ctx, struct rn_link *before)
{
	const uint32_t all = ctx->cfg.blocks, last = all / 16, kept = all / 4, left = ctx->blk_left;
	uint32_t given = 0;
	struct rc *c;

	if (left <= last)
		return;
	for (uint32_t n = left > kept + BLOCKS_AWAIT ? left - kept : BLOCKS_AWAIT;
	     n > 0 && (c = rn_list_pop(&ctx->starved[RC_WANT_BLOCK], struct rc, starved)) != NULL; n--) {
		if (rc_blocks_for_senders(ctx, rc_tenant(c)) <= given) {
			rn_list_push_back(&ctx->starved[RC_WANT_BLOCK], &c->starved);
		} else {
			given++;
			if (!rn_link_linked(&c->ready))
				rn_list_insert(&ctx->ready, before, &c->ready);
		}
	}
}

/*
 * The connection that has waited longest goes ahead of the ready ones, which would take the records and blocks that
 * have just come back.
 */
static void feed_starved(struct rc_ctx *ctx)
{
	uint32_t recs = ctx->rec_left > RC_CTRL_RECS ? ctx->rec_left - RC_CTRL_RECS : 0;
	struct rn_link *before = ctx->ready.first;

	ctx->fed = true;
	feed(ctx, RC_WANT_REC, rn_min_u32(recs, RECS_AWAIT), before);
	feed_blocks(ctx, before);
	feed(ctx, RC_WANT_COPY, rn_min_u32(ctx->copies_left, COPIES_AWAIT), before);
}

static void fetch(const void *p, uint32_t len)
{
	for (uint32_t at = 0; at < len; at += RN_CACHE_LINE)
		__builtin_prefetch((const uint8_t *)p + at);
}

/*
 * With many connections no connection's lines are in the cache. While one connection is served, lines of the next three
 * are fetched: of the third the connection, of the second its block and QP, of the next its work request. Each step
 * needs the lines of the step before.
 */
static void fetch_ahead(const struct rc *next)
{
	const struct rc *second = rn_list_next(next, struct rc, ready);
	const struct rc *third = second != NULL ? rn_list_next(second, struct rc, ready) : NULL;

	if (third != NULL)
		fetch(third, sizeof(*third));
	if (second != NULL && second->m.qp != NULL)
		fetch(second->m.qp, offsetof(struct qp, rq));
	if (second != NULL && second->blk != NULL) {
		fetch(second->blk, offsetof(struct rc_block, work.send.u) + RN_CACHE_LINE);
		__builtin_prefetch(&second->blk->work.send.total);
	}
	if (next->m.qp != NULL) {
		__builtin_prefetch(&next->m.qp->sq.hdr->prod);
		__builtin_prefetch(spsc_cons_slot(&next->m.qp->sq, next->m.qp->sq_taken));
	}
	if (next->blk != NULL)
		rn_prefetch_write(&next->blk->work.wr[next->blk->work.wr_tail & next->blk->work.wr_mask]);
}

#define POSTED_AHEAD 8u /* qp_sq_take() fetches those behind */

/*
 * Of the connection that is served now, fetches the work requests behind the first. fetch_ahead() has fetched the
 * client's index.
 */
static void fetch_posted(const struct rc *c)
{
	const struct qp *qp = c->m.qp;

	if (qp == NULL || !qp->rung || qp->sq.hdr == NULL)
		return;
	/* relaxed: the index decides which lines are fetched, and nothing else */
	uint32_t n = __atomic_load_n(&qp->sq.hdr->prod, __ATOMIC_RELAXED) - qp->sq.own - qp->sq_taken;
	for (uint32_t i = 1; i < rn_min_u32(n, POSTED_AHEAD); i++)
		__builtin_prefetch(spsc_cons_slot(&qp->sq, qp->sq_taken + i));
}

void rc_fetch(const struct rc *c)
{
	if (c->m.qp != NULL)
		__builtin_prefetch(c->m.qp);
	if (c->blk != NULL)
		fetch(c->blk, offsetof(struct rc_block, work.send));
}

void rc_fetch_queues(const struct rc *c)
{
	if (c->blk == NULL)
		return;
	rn_prefetch_write(&c->blk->work.wr[c->blk->work.wr_head & c->blk->work.wr_mask]);
	rn_prefetch_write(&c->blk->work.wr[(c->blk->work.wr_head + 2) & c->blk->work.wr_mask]);
}

const struct rc *rc_ready_first(const struct rc_ctx *ctx) { return rn_list_first(&ctx->ready, struct rc, ready); }

struct rc *rc_ready_pop(struct rc_ctx *ctx)
{
	if (rn_unlikely(!rn_list_empty(&ctx->starved[RC_WANT_REC]) || !rn_list_empty(&ctx->starved[RC_WANT_BLOCK]) ||
			!rn_list_empty(&ctx->starved[RC_WANT_COPY])) &&
	    !ctx->fed)
		feed_starved(ctx);
	struct rc *c = rc_answer_pop(ctx);
	if (rn_unlikely(c != NULL))
		return c;
	c = rn_list_pop(&ctx->ready, struct rc, ready);
	if (c != NULL && !rn_list_empty(&ctx->ready)) {
		fetch_posted(c);
		fetch_ahead(rc_ready_first(ctx));
	}
	return c;
}

/* Takes a connection that goes away off all lists. */
void rc_unlist(struct rc_ctx *ctx, struct rc *c)
{
	rn_list_remove(&ctx->starved[c->want], &c->starved);
	rn_list_remove(&ctx->ready, &c->ready);
	rn_list_remove(&ctx->answers, &c->answers);
}

void rc_flush(struct rc_ctx *ctx)
{
	qp_flush(&ctx->qp);
	ctx->fed = false;
}
