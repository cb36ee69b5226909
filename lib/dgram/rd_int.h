/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to rd*.c: what these files share. */
#ifndef RD_INT_H
#define RD_INT_H

#include "dgram/rd.h"

#define RD_QPN_MAX UINT32_C(0xffffff)

static inline struct rd_side *rd_side_of(const struct qp *qp) { return qp->beside; }

enum rd_end {
	RD_END_FAIL,    /* the client gets a completion for each work request */
	RD_END_ABANDON, /* it gets none: RESET, destroy */
};

/* The pair with this peer QP; NULL: there is none. */
struct rd_pair *rd_find(const struct rd_ctx *d, const struct qp *qp, const uint8_t *addr, uint32_t peer_qpn);
/* The list of the pairs with this peer's device, and with some others. */
struct rn_list *rd_addr_list(const struct rd_ctx *d, const uint8_t *addr);
/* Gives a pair at rest its working memory. False: none is free, or the tenant has its share. */
RN_NODISCARD bool rd_wake(struct rd_ctx *d, struct rd_pair *p);
/* The same for a pair that is to send a work request. */
RN_NODISCARD bool rd_wake_to_send(struct rd_ctx *d, struct rd_pair *p);
/* Lets the pair rest, if it can. */
void rd_rest(struct rd_ctx *d, struct rd_pair *p);
/* rd_look() shall call rd_route() for the QP when there is working memory. */
void rd_again(struct rd_ctx *d, struct qp *qp);
/* A QP of these for which there is memory now; NULL: there is none. */
struct qp *rd_any_again(struct rd_ctx *d);
/* Where the segment with this number is kept, and the argument of qp_acked() for it. */
static inline struct rd_hold **rd_held(struct rd_work *k, uint32_t number)
{
	return k->wide != NULL ? &k->wide->held[number % RD_WIDE] : &k->held[number % RD_SPAN];
}
static inline uint32_t *rd_wr_of(struct rd_work *k, uint32_t number)
{
	return k->wide != NULL ? &k->wide->wr_of[number % RD_WIDE] : &k->wr_of[number % RD_SPAN];
}
/* Frees the segment that is kept with this number, or all of them. */
void rd_drop_hold(struct rd_ctx *d, struct rd_work *k, uint32_t number);
void rd_drop_holds(struct rd_ctx *d, struct rd_work *k);
/* Frees a pair that has let go of its QP and has nothing to send. */
void rd_give_back(struct rd_ctx *d, struct rd_pair *p);
/* Ends the wait for a receive, if any, of a pair with working memory. */
void rd_wait_over(struct rd_ctx *d, struct rd_pair *p);
/* Ends the run. `tell`: the peer is told, with the Terminate in the pair's working memory if there is one. */
void rd_end(struct rd_ctx *d, struct rd_pair *p, enum rd_end how, bool tell);
/* Makes a pair, which rests; NULL: none is free. */
struct rd_pair *rd_make(struct rd_ctx *d, struct qp *qp, const uint8_t *addr, uint32_t peer_qpn);
/* The QP goes to ERR: all work of all pairs completes, and the peers are told. May be called again. */
void rd_qp_error(struct rd_ctx *d, struct qp *qp);
/* Gives the posted work requests to their pairs; one that has no destination fails by itself. */
void rd_route(struct rd_ctx *d, struct qp *qp);
/* Ends our run because of the engine's verdict, p->k->m.err; seg: the segment at fault, or NULL. */
void rd_fail(struct rd_ctx *d, struct rd_pair *p, const uint8_t *seg, uint32_t len);
/* From now on rd_tick() looks at pairs that wait for the peer. */
void rd_arm_probe(struct rd_ctx *d);

/* rd_wide.c */
/* Gives the pair what it needs to have more than RD_WIN segments on the way. False: there is none for it. */
RN_NODISCARD bool rd_widen(struct rd_ctx *d, struct rd_pair *p);
/* Takes it back, and all promises, from a pair that keeps no segments. */
void rd_narrow(struct rd_ctx *d, struct rd_pair *p);
/* The peer wants to send more: promises it memory, as far as there is some. */
void rd_promise(struct rd_ctx *d, struct rd_pair *p);
/* The peer may have n segments fewer on the way beyond RD_WIN than were promised. */
void rd_unpromise(struct rd_ctx *d, struct rd_pair *p, uint32_t n);
/* What a packet to the peer says as `room`. */
uint8_t rd_room(const struct rd_pair *p);
/* Notes what the peer has promised; the segments that it tells as taken are noted. */
void rd_promised(struct rd_ctx *d, struct rd_pair *p, const struct rd_hdr *h);
/* TAKEN with RD_F_BACK: the peer gives promises back. */
void rd_take_back(struct rd_ctx *d, struct rd_pair *p, const struct rd_hdr *h);
/* Whether the peer can keep one more segment. */
bool rd_may_send(const struct rd_pair *p);
/* Completes the header of a segment that is to be sent, or of a TAKEN, with what it says about promises. */
void rd_ask_room(struct rd_ctx *d, struct rd_pair *p, struct rd_hdr *h);
/* How long after a look at all busy pairs the next one is due: sooner while queues wait for memory. */
uint64_t rd_probe_ns(const struct rd_ctx *d);
/* The pair shall give back what the peer has promised: it has not sent for a while, or others need its memory. */
bool rd_gives_back(const struct rd_ctx *d, struct rd_pair *p);

/* rd_turn.c */
enum rd_turn {
	RD_TURN_NEXT,  /* the segment has had its turn */
	RD_TURN_EARLY, /* its turn has not come */
	RD_TURN_WAITS, /* its message waits for a receive */
	RD_TURN_ENDED, /* the pair has ended */
};
/* A segment of the peer's run that has not had its turn and is not kept. */
struct rd_seg {
	const uint8_t *p;
	uint32_t len, number;
	uint32_t asked;
	uint8_t flags, rnr;
};
enum rd_turn rd_take_turn(struct rd_ctx *d, struct rd_pair *p, const struct rd_seg *s);
/*
 * Keeps the segment until its turn. waits: its turn had come, and there is no receive. The caller has checked that
 * there is room.
 */
void rd_keep(struct rd_ctx *d, struct rd_pair *p, const struct rd_seg *s, bool waits);
/*
 * Takes the kept segments whose turn has come; of an ordered run RD_WIN at most, and rd_look() those behind them.
 * False: the pair has ended.
 */
bool rd_take_held(struct rd_ctx *d, struct rd_pair *p);

#endif
