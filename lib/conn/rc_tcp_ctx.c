/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's own state: TCP's part of a connection's block, packets that go back to the caller, prefetching. */
#include "conn/rc_tcp_int.h"

void rc_tcp_cfg_default(struct rc_tcp_cfg *cfg, uint32_t worker, uint32_t max_mtu, uint32_t conns)
{
	*cfg = (struct rc_tcp_cfg){ .rnr_pkts = 4096, .hold_pkts = 8192 };
	rc_cfg_default(&cfg->rc, worker, max_mtu, conns);
}

static uint32_t line_up(size_t n) { return (uint32_t)(n + RN_CACHE_LINE - 1) & ~(RN_CACHE_LINE - 1u); }

/* Packets that a peer has sent ahead of a hole: with a wide block as many as fit in a window. */
static uint32_t holds_of(uint32_t n)
{
	return n == RC_NARROW_CHUNKS ? RC_TCP_HOLD_NARROW : rn_min_u32(n, RC_TCP_HOLD_MAX);
}

/* Bytes of TCP's part with rings for n FPDUs. */
static uint32_t mem_size(const struct rc_tcp_cfg *cfg, uint32_t n)
{
	return line_up(sizeof(struct rc_tcp_mem)) + line_up(n * sizeof(struct tcpl_chunk)) +
	       line_up(n * sizeof(struct tcpl_txrec)) + (cfg->rates ? line_up(n * sizeof(struct tcpl_sent)) : 0) +
	       (cfg->tracks ? line_up((TCPL_PATHS - 1) * sizeof(struct tcpl_track)) : 0) +
	       line_up(holds_of(n) * sizeof(struct tcpl_hold));
}

static struct rc_cfg sized(const struct rc_tcp_cfg *cfg)
{
	struct rc_cfg rc = cfg->rc;

	if (rc.chunks <= 4096) { /* larger values are refused by rc */
		rc.stream[0] = mem_size(cfg, rc.chunks);
		rc.stream[1] = mem_size(cfg, RC_NARROW_CHUNKS);
	}
	return rc;
}

uint64_t rc_tcp_ctx_size(const struct rc_tcp_cfg *cfg)
{
	const struct rc_cfg rc = sized(cfg);

	return rc_ctx_size(&rc);
}

enum qp_verdict rc_tcp_ctx_init(struct rc_tcp_ctx *ctx, const struct rc_tcp_cfg *cfg, void *mem, uint64_t size)
{
	const struct rc_cfg rc = sized(cfg);

	ctx->turns = (struct tcpl_turns){ 0 };
	ctx->cfg = *cfg;
	ctx->held = ctx->rnr_kept = ctx->n_refs = 0;
	memset(ctx->held_of, 0, sizeof(ctx->held_of));
	memset(ctx->rnr_of, 0, sizeof(ctx->rnr_of));
	return rc_ctx_init(&ctx->rc, &rc, mem, size);
}

void rc_tcp_ref_back(struct rc_tcp_ctx *ctx, uint64_t ref)
{
	if (ref != 0 && ctx->n_refs < RC_TCP_REFS)
		ctx->refs[ctx->n_refs++] = ref;
}

static void *carve(uint8_t **p, size_t size)
{
	void *r = *p;

	*p += line_up(size);
	return r;
}

void rc_tcp_give_mem(struct rc_tcp_ctx *ctx, struct rc_tcp *c)
{
	if (c->rc.blk == NULL)
		return;
	struct rc_tcp_mem *m = rc_tcp_mem_of(c);
	uint8_t *p = (uint8_t *)m + line_up(sizeof(*m));
	uint32_t n = rc_stream_records(&c->rc);

	m->kept_head = m->kept_tail = NULL;
	m->held = 0;
	m->tcp = (struct tcpl_mem){ .chunk_n = n, .rec_n = n, .hold_n = holds_of(n) };
	m->tcp.chunk = carve(&p, n * sizeof(struct tcpl_chunk));
	m->tcp.rec = carve(&p, n * sizeof(struct tcpl_txrec));
	if (ctx->cfg.rates)
		m->tcp.sent = carve(&p, n * sizeof(struct tcpl_sent));
	if (c->tcp.cfg->tracks && ctx->cfg.tracks)
		m->tcp.track = carve(&p, (TCPL_PATHS - 1) * sizeof(struct tcpl_track));
	m->tcp.hold = carve(&p, holds_of(n) * sizeof(struct tcpl_hold));
	(void)tcpl_set_mem(&c->tcp, &m->tcp); /* TCP has no memory now, so nothing lies in it */
}

/* ---- prefetching the next connections ---- */

/*
 * The bytes of tcpl_conn that segments need while nothing is lost: its lines 1 to 7. A processor has few fetches under
 * way at once, so the lines behind them are not fetched ahead.
 */
#define TCP_NEAR (7u * RN_CACHE_LINE)
_Static_assert(offsetof(struct tcpl_conn, stats) < TCP_NEAR && offsetof(struct tcpl_conn, patience) >= TCP_NEAR,
	       "each segment needs the first counters, and not what loss needs");

/*
 * With many connections no connection's lines are in the cache. While one connection is served TCP's lines are fetched,
 * as rc fetches its own: the struct of the third connection from here, and the queue entry of the next one.
 */
static void fetch_ahead(const struct rc *next)
{
	const struct rc *second = rn_list_next(next, struct rc, ready);
	const struct rc *third = second != NULL ? rn_list_next(second, struct rc, ready) : NULL;
	const struct tcpl_conn *tcp = &rc_tcp_of(next)->tcp;

	for (uint32_t at = 0; third != NULL && at < TCP_NEAR; at += RN_CACHE_LINE)
		__builtin_prefetch((const uint8_t *)rc_tcp_of(third) + at);
	if (next->blk != NULL)
		rn_prefetch_write(tcpl_chunk(tcp, tcp->q_tail));
}

struct rc_tcp *rc_tcp_ready_pop(struct rc_tcp_ctx *ctx)
{
	struct rc *c = rc_ready_pop(&ctx->rc);

	if (c == NULL)
		return NULL;
	const struct rc *next = rc_ready_first(&ctx->rc);
	if (next != NULL)
		fetch_ahead(next);
	return rc_tcp_of(c);
}

struct rc_tcp *rc_tcp_answer_pop(struct rc_tcp_ctx *ctx)
{
	struct rc *c = rc_answer_pop(&ctx->rc);

	return c != NULL ? rc_tcp_of(c) : NULL;
}

const struct rc_tcp *rc_tcp_ready_first(const struct rc_tcp_ctx *ctx)
{
	const struct rc *c = rc_ready_first(&ctx->rc);

	return c != NULL ? rc_tcp_of(c) : NULL;
}

void rc_tcp_fetch(const struct rc_tcp *c) { rc_fetch(&c->rc); }

void rc_tcp_fetch_queues(const struct rc_tcp *c)
{
	if (c->rc.blk != NULL)
		__builtin_prefetch(tcpl_chunk(&c->tcp, c->tcp.q_head));
	rc_fetch_queues(&c->rc);
}
