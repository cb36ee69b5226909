/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to lib/conn: what its files share. */
#ifndef RC_TCP_INT_H
#define RC_TCP_INT_H

#include "conn/rc_tcp.h"

#define RC_TCP_CTRL_CHUNKS 4u /* chunks of each connection reserved for records that are due: RTR and Terminate */

/* TCP's part of a connection's working memory; its rings follow the struct. */
struct rc_tcp_mem {
	struct tcpl_mem tcp;
	struct rc_tcp_pkt *kept_head, *kept_tail; /* rc_tcp_rnr.c */
	uint8_t tenant;                           /* the tenant in whose share of ctx->rnr_of the kept packets count */
	uint8_t held_as;                          /* the same of ctx->held_of and the packets that TCP holds */
	uint16_t held;                            /* packets that TCP holds */
};

static inline struct rc_tcp_mem *rc_tcp_mem_of(const struct rc_tcp *c)
{
	return (struct rc_tcp_mem *)rc_stream_mem(&c->rc);
}

/*
 * The share of ctx->held_of in which the connection's packets count: as long as there are any, the one in which the
 * first of them was counted, although the connection may get a QP, or lose it.
 */
static inline uint8_t rc_tcp_held_as(const struct rc_tcp *c)
{
	const struct rc_tcp_mem *m = rc_tcp_mem_of(c);

	if (m->held > 0)
		return m->held_as;
	return c->rc.m.qp != NULL ? c->rc.m.qp->tenant : QP_TENANTS;
}

/* TCP holds another packet behind a hole. */
static inline void rc_tcp_hold(struct rc_tcp_ctx *ctx, struct rc_tcp *c)
{
	struct rc_tcp_mem *m = rc_tcp_mem_of(c);

	m->held_as = rc_tcp_held_as(c);
	m->held++;
	ctx->held++;
	ctx->held_of[m->held_as]++;
}

/* TCP has given back a packet that it held. */
static inline void rc_tcp_unhold(struct rc_tcp_ctx *ctx, struct rc_tcp *c)
{
	struct rc_tcp_mem *m = rc_tcp_mem_of(c);

	m->held--;
	ctx->held--;
	ctx->held_of[m->held_as]--;
}

/* rc_tcp_ctx.c */
void rc_tcp_ref_back(struct rc_tcp_ctx *ctx, uint64_t ref);
RN_COLD void rc_tcp_give_mem(struct rc_tcp_ctx *ctx, struct rc_tcp *c);

/* Gives TCP its part of the connection's working memory; to be called before TCP queues or holds anything. */
static inline void rc_tcp_use_mem(struct rc_tcp_ctx *ctx, struct rc_tcp *c)
{
	if (rn_unlikely(c->tcp.mem.chunk_n == 0))
		rc_tcp_give_mem(ctx, c);
}

/* rc_tcp_in.c */
bool rc_tcp_slice(struct rc_tcp_ctx *ctx, struct rc_tcp *c, const struct tcpl_slice *s);

/* rc_tcp_out.c */
/* While rc_resting(): gives the working memory back, if TCP holds nothing in it either. */
void rc_tcp_rest(struct rc_tcp_ctx *ctx, struct rc_tcp *c);
RN_COLD void rc_tcp_let_go(struct rc_tcp_ctx *ctx, struct rc_tcp *c);

/* rc_tcp_rnr.c */
void rc_tcp_keep(struct rc_tcp_ctx *ctx, struct rc_tcp *c, const struct tcpl_slice *s);
void rc_tcp_keep_rest(struct rc_tcp_ctx *ctx, struct rc_tcp *c, const struct tcpl_slice *s);
void rc_tcp_window(struct rc_tcp_ctx *ctx, struct rc_tcp *c, bool refused);
/* Whether no more packets may be kept for this connection's QP. */
RN_COLD bool rc_tcp_rnr_full(const struct rc_tcp_ctx *ctx, const struct rc_tcp *c);
RN_COLD void rc_tcp_rnr(struct rc_tcp_ctx *ctx, struct rc_tcp *c);

#endif
