/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to lib/rc: what its files share. */
#ifndef RC_INT_H
#define RC_INT_H

#include "rc/rc.h"
#include "iwarp/mpa_tx.h"

#define RC_REF_FRAME UINT64_C(1)        /* stands for the MPA frame in setup, which has no struct rc_rec */
#define RC_CTRL_RECS 64u                /* records of a worker that are reserved for RTR, nudges and Terminates */
#define RC_REST_MAX  32u                /* blocks that connections may keep while they are at rest */
#define RC_STAGE_NS  (10 * RN_NS_PER_S) /* for an FPDU that comes in pieces, while another one waits for its stage */
#define RC_NOBODY    QP_TENANTS         /* in place of a tenant */
#define RC_OOO       64u                /* FPDUs of one connection placed ahead of their turn: a power of two */

_Static_assert(QP_SEG_HDR_MAX <= MPA_TX_HDR_MAX, "a segment's header lies in its record");
_Static_assert(MPA_VIEW_IOV <= QP_ULPDU_IOV, "a view has no more slices than the engine takes");

/*
 * A queued FPDU, until its last byte is acknowledged. Records are many and in no near cache, so what an FPDU without
 * markers and with one slice of payload needs lies together: two cache lines for a payload by reference, three for an
 * inline payload of 64 bytes.
 */
struct rc_rec {
	struct rc_rec *next;  /* in the list of free ones, or of due ones */
	uint8_t *copy;        /* of the ctx: all octets as first sent; NULL: they are taken from the client's memory */
	uint32_t wr;          /* the work request that completes when this is acknowledged, or QP_WR_NONE */
	bool crc;             /* the FPDU carries a CRC, summed over the sent bytes at each sending */
	uint8_t tenant;       /* that it counts for, and its copy */
	struct rn_iov few[3]; /* the slices, if they are enough */
	struct mpa_fpdu f;
	struct rn_iov iov[]; /* ctx->rec_iov slices, then QP_MAX_INLINE bytes for inline data */
};
_Static_assert(offsetof(struct rc_rec, f.inl) + MPA_LEN_FIELD + DDP_UNTAGGED_HDR_LEN + MPA_CRC_LEN <= 2 * RN_CACHE_LINE,
	       "what a payload by reference needs lies in two lines");

/* Begins the record's FPDU; returns where the header goes. few: it has at most one slice of payload, and no markers. */
static inline uint8_t *rc_rec_begin(const struct rc_ctx *ctx, struct rc_rec *r, bool few)
{
	return few ? mpa_tx_begin(&r->f, r->few, RN_ARRAY_LEN(r->few)) : mpa_tx_begin(&r->f, r->iov, ctx->rec_iov);
}

static inline uint8_t *rc_rec_inline(const struct rc_ctx *ctx, struct rc_rec *r)
{
	return (uint8_t *)(r->iov + ctx->rec_iov);
}

/* An FPDU placed ahead of its turn. */
struct rc_ooo {
	uint32_t pos; /* offset in Full Operation */
	uint32_t raw_len;
	struct ddp_hdr h;
};

/* An FPDU that lies in the stage and waits for a receive. */
struct rc_late {
	uint32_t ulpdu_len; /* 0: none */
	uint32_t pos, raw_len;
	uint8_t tenant; /* the tenant in whose share the stage counts */
};

/* A connection's working memory, from the ctx's pool. */
struct rc_block {
	struct rc_block *next;
	uint32_t ooo_head; /* free running */
	uint16_t n_ooo;    /* entries of ooo in use, in the order of their pos */
	uint16_t tenant;   /* in whose share the block counts; RC_NOBODY: of a connection without a QP so far */
	struct rc_late late;
	uint8_t *stream; /* the adapter's part */
	struct qp_work work;
	struct rc_ooo ooo[RC_OOO];
};

/* A connection's memory until it is operational. */
struct rc_setup {
	struct rc_setup *next;
	struct mpa_neg_rx rx;
	struct mpa_frame peer; /* points into rx */
	struct mpa_out out;    /* our Request or Reply */
	bool out_due;          /* our frame is to be sent */
	bool out_live;         /* our frame has been sent and is not yet acknowledged */
	bool fin_due;          /* the FIN waits for that acknowledgement: rc_quirk.h */
};

/* Whether the tenant has as many blocks as it may have. */
static inline bool rc_blocks_used_up(const struct rc_ctx *ctx, uint32_t tenant)
{
	return tenant != RC_NOBODY && ctx->blks_of[tenant] >= ctx->cfg.blk_share;
}

/*
 * How many blocks senders of the tenant may take. The last quarter of the blocks is for receivers: otherwise all
 * senders could wait, with a message open, for a receiver that has no block. But a tenant that has few blocks may take
 * all but the last sixteenth: else connections of another tenant whose peers or programs do nothing would stop it. If
 * there are blocks for all connections, nobody waits for one.
 */
static inline uint32_t rc_blocks_for_senders(const struct rc_ctx *ctx, uint8_t tenant)
{
	const uint32_t all = ctx->cfg.blocks;
	const uint32_t kept = ctx->cfg.blk_share == all ? 0 : ctx->blks_of[tenant] <= all / 8 ? all / 16 : all / 4;

	return ctx->blk_left > kept ? ctx->blk_left - kept : 0;
}

/* Whether received bytes are still parsed as FPDUs. */
static inline bool rc_streaming(const struct rc *c)
{
	return c->state == RC_WAIT_FIRST || c->state == RC_OPERATIONAL || c->state == RC_DRAINING ||
	       c->state == RC_CLOSING;
}

/* rc_ctx.c */
void *rc_take_fresh(struct rc_fresh *f, uint64_t size);
struct qp_fx *rc_fx_conn(struct rc_ctx *ctx, enum qp_fx_type type, struct rc *c);
/*
 * ctrl: for a record that must go, the reserved ones are free too, and a few more than the tenant's share. NULL: the
 * connection gets none now.
 */
struct rc_rec *rc_rec_get(struct rc_ctx *ctx, const struct rc *c, bool ctrl);
void rc_rec_put(struct rc_ctx *ctx, struct rc_rec *r);
/* tenant: RC_NOBODY while the connection has no QP. NULL: no block is free, or the tenant has its share. */
struct rc_block *rc_block_get(struct rc_ctx *ctx, uint32_t tenant);
/* The connection has got a QP, so its block counts in the share of the QP's tenant. */
void rc_block_join(struct rc_ctx *ctx, struct rc_block *b, uint8_t tenant);
void rc_block_put(struct rc_ctx *ctx, struct rc_block *b);
struct rc_setup *rc_setup_get(struct rc_ctx *ctx);
void rc_setup_put(struct rc_ctx *ctx, struct rc_setup *s); /* the set-up is free after the next rc_drained */
uint8_t *rc_copy_get(struct rc_ctx *ctx, uint8_t tenant);  /* a copy must be free */
void rc_starve(struct rc_ctx *ctx, struct rc *c, enum rc_want want);
void rc_unlist(struct rc_ctx *ctx, struct rc *c);

/* rc_tx.c */
void rc_tx_due(struct rc_ctx *ctx, struct rc *c, struct rc_rec *r);
bool rc_tx_idle(const struct rc *c);
bool rc_tx_nudge(struct rc_ctx *ctx, struct rc *c);
bool rc_tx_ask(struct rc_ctx *ctx, struct rc *c);

/* rc_rx.c */
void rc_rx_fpdu(struct rc_ctx *ctx, struct rc *c, const struct mpa_view *v);
void rc_rx_first(struct rc_ctx *ctx, struct rc *c);

/* rc_rnr.c */
RN_COLD bool rc_rnr_wait(struct rc_ctx *ctx, struct rc *c, const struct mpa_view *v);

/* rc_ooo.c */
bool rc_ooo_placed(struct rc *c, const struct ddp_hdr *h, const struct mpa_view *v);

/* rc_stage.c */
struct rc_stage {
	struct rn_link link; /* in the ctx's list of stages in use, in the order of `since`; or of free ones */
	struct rc *c;        /* the connection that holds it */
	uint64_t since;      /* when the FPDU in it began */
	uint32_t start;      /* that FPDU's offset in Full Operation */
	uint8_t tenant;      /* in whose share the stage counts */
	_Alignas(RN_CACHE_LINE) uint8_t mem[MPA_STAGE_SIZE];
};
/* The next FPDU needs a stage. False: the connection waits for one, or is reset since it has waited too long. */
bool rc_stage_get(struct rc_ctx *ctx, struct rc *c);
/* Gives the stage back if nothing lies in it; otherwise the time counts for the FPDU that lies in it now. */
void rc_stage_look(struct rc_ctx *ctx, struct rc *c);
/* Gives the stage back, whatever lies in it. */
void rc_stage_put(struct rc_ctx *ctx, struct rc *c);

/* rc_term.c */
/* The segment that the Terminate names after the sequence has failed. v: the current segment, or NULL. */
static inline const struct mpa_view *rc_named(const struct rc *c, const struct mpa_view *v)
{
	return c->m.err_named ? v : NULL;
}
RN_COLD void rc_terminate(struct rc_ctx *ctx, struct rc *c, struct iw_err e, const struct mpa_view *v);
RN_COLD void rc_term_received(struct rc_ctx *ctx, struct rc *c, const struct mpa_view *v, uint32_t hdr_len);

/* rc_neg.c */
void rc_neg_send(struct rc *c);
bool rc_neg_request(struct rc *c, const uint8_t *priv, uint32_t len);
RN_COLD uint32_t rc_neg_feed(struct rc_ctx *ctx, struct rc *c, const uint8_t *p, uint32_t n);
RN_COLD void rc_neg_operational(struct rc_ctx *ctx, struct rc *c);

/* rc_life.c */
void rc_rnr_bound(const struct rc_ctx *ctx, struct rc *c);
void rc_rnr_stop(struct rc_ctx *ctx, struct rc *c);
void rc_tell(struct rc *c, enum rc_news to);
void rc_to(struct rc_ctx *ctx, struct rc *c, enum rc_state to);
RN_COLD void rc_end(struct rc_ctx *ctx, struct rc *c, enum qp_fx_type what, uint8_t code);
void rc_ask(struct rc *c, enum rc_todo_bit what);
void rc_shutdown(struct rc_ctx *ctx, struct rc *c);
void rc_setup_done(struct rc_ctx *ctx, struct rc *c);
void rc_drain(struct rc_ctx *ctx, struct rc *c);
RN_COLD void rc_drain_over(struct rc_ctx *ctx, struct rc *c);
bool rc_unheard(const struct rc *c);
bool rc_young(const struct rc *c);
void rc_peer_ended(struct rc_ctx *ctx, struct rc *c, enum rc_state to);

#endif
