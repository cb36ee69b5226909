/* SPDX-License-Identifier: BSD-3-Clause */
/* What rd.c and rd_in.c share. Not for anyone else. */
#ifndef RD_INT_H
#define RD_INT_H

#include "dgram/rd.h"

#define RD_QPN_MAX UINT32_C(0xffffff)

static inline struct rd_side *rd_side_of(const struct qp *qp) { return qp->beside; }

enum rd_end {
	RD_END_FAIL,    /* the client hears of each work request */
	RD_END_ABANDON, /* it does not: RESET, destroy */
};

/* The pair with this peer QP; NULL: there is none. */
struct rd_pair *rd_find(const struct rd_ctx *d, const struct qp *qp, const uint8_t *addr, uint32_t peer_qpn);
/* Gives back what is held in place i, or all. */
void rd_drop_hold(struct rd_ctx *d, struct rd_pair *p, uint32_t i);
void rd_drop_holds(struct rd_ctx *d, struct rd_pair *p);
/* The pair has let go of its QP and has nothing to say. */
void rd_give_back(struct rd_ctx *d, struct rd_pair *p);
/* The pair waits for no receive any more. */
void rd_wait_over(struct rd_ctx *d, struct rd_pair *p);
/* The run is over. The peer is told when `tell`; p->term says what, p->term_len how much. */
void rd_end(struct rd_ctx *d, struct rd_pair *p, enum rd_end how, bool tell);
/* A new pair; NULL: none is free. */
struct rd_pair *rd_make(struct rd_ctx *d, struct qp *qp, const uint8_t *addr, uint32_t peer_qpn);
/* ERR: all work of all pairs completes, and the peers are told. Any number of times. */
void rd_qp_error(struct rd_ctx *d, struct qp *qp);
/* Takes the posted work requests to their pairs; what can go nowhere fails by itself. */
void rd_route(struct rd_ctx *d, struct qp *qp);
/* Our run has failed by the engine's verdict, p->m.err; seg: what led to it, or NULL. */
void rd_fail(struct rd_ctx *d, struct rd_pair *p, const uint8_t *seg, uint32_t len);
/* From now on pairs that wait for the peer are looked at. */
void rd_arm_probe(struct rd_ctx *d);

/* rd_turn.c */
enum rd_turn {
	RD_TURN_NEXT,  /* the segment has had its turn */
	RD_TURN_EARLY, /* its turn has not come */
	RD_TURN_WAITS, /* for a receive */
	RD_TURN_ENDED, /* the pair has */
};
/* A segment of the peer's run that has not had its turn, and is not held. */
struct rd_seg {
	const uint8_t *p;
	uint32_t len, number;
	uint32_t asked;
	uint8_t flags, rnr;
};
enum rd_turn rd_take_turn(struct rd_ctx *d, struct rd_pair *p, const struct rd_seg *s);
/* Keeps it until its turn has come; waits: that was so, and there is no receive. There is room. */
void rd_keep(struct rd_ctx *d, struct rd_pair *p, const struct rd_seg *s, bool waits);
/* Takes what is held and whose turn has come. False: the pair has ended. */
bool rd_take_held(struct rd_ctx *d, struct rd_pair *p);

#endif
