/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to rd*.c: what these files share. */
#ifndef RD_INT_H
#define RD_INT_H

#include "dgram/rd.h"

#define RD_QPN_MAX UINT32_C(0xffffff)

static inline struct rd_side *rd_side_of(const struct qp *qp) { return qp->beside; }

enum rd_end {
	RD_END_FAIL,    /* the client gets a completion for each work request */
	RD_END_ABANDON, /* the client gets no completions: RESET, destroy */
};

/* The QP's pair with this peer QP; NULL: there is none. */
struct rd_pair *rd_find(struct rd_ctx *d, const struct qp *qp, const uint8_t *addr, uint32_t peer_qpn);
/* The pair at a place of the table, plus 1; NULL: place 0. */
static inline struct rd_pair *rd_at(const struct rd_ctx *d, uint32_t place)
{
	return place != 0 ? &d->pair[place - 1] : NULL;
}
/* The pair's working memory; NULL: it has none. */
static inline struct rd_work *rd_work_of(const struct rd_pair *p) { return p->rests ? NULL : p->k; }
/* The list of the pairs with the peer's device at addr; the list may have pairs with other devices, too. */
struct rd_list *rd_addr_list(const struct rd_ctx *d, const uint8_t *addr);
/* Gives a pair at rest its working memory. False: none is free, or the tenant has its share. */
RN_NODISCARD bool rd_wake(struct rd_ctx *d, struct rd_pair *p);
/* Gives a pair working memory to send work requests. False: none is free, or other senders have all they may have. */
RN_NODISCARD bool rd_wake_to_send(struct rd_ctx *d, struct rd_pair *p);
/* Takes the working memory from a pair for which nothing is under way: the pair rests. */
void rd_rest(struct rd_ctx *d, struct rd_pair *p);
/* rd_look() shall call rd_route() for the QP when there is working memory. */
void rd_again(struct rd_ctx *d, struct qp *qp);
/* Whether there is working memory for a QP of those given to rd_again(). */
bool rd_any_again(const struct rd_ctx *d);
/* Takes such a QP; NULL: there is none. Tenants take turns. */
struct qp *rd_take_again(struct rd_ctx *d);
/* Takes this QP, if it is one of those given to rd_again(). */
void rd_again_over(struct rd_ctx *d, struct qp *qp);
/* Where the peer's segment with this number is kept. */
static inline struct rd_hold **rd_held(struct rd_work *k, uint32_t number)
{
	return k->wide != NULL ? &k->wide->held[number % RD_WIDE] : &k->held[number % RD_SPAN];
}
/* Where the argument of qp_acked() for our segment with this number is stored. */
static inline uint32_t *rd_wr_of(struct rd_work *k, uint32_t number)
{
	return k->wide != NULL ? &k->wide->wr_of[number % RD_WIDE] : &k->wr_of[number % RD_SPAN];
}
/* rd_drop_hold frees the segment that is kept with this number, rd_drop_holds frees all that the pair keeps. */
void rd_drop_hold(struct rd_ctx *d, struct rd_work *k, uint32_t number);
void rd_drop_holds(struct rd_ctx *d, struct rd_work *k);
/* Frees a pair in state RD_ENDED, which has nothing more to send. */
void rd_give_back(struct rd_ctx *d, struct rd_pair *p);
/* Ends the wait for a receive, if any, of a pair with working memory. */
void rd_wait_over(struct rd_ctx *d, struct rd_pair *p);
/* Ends the pair. tell: the peer gets REFUSED, with the Terminate in the pair's working memory if there is one. */
void rd_end(struct rd_ctx *d, struct rd_pair *p, enum rd_end how, bool tell);
/* Makes a pair, which rests at first; NULL: no pair is free, or the tenant has its share. */
struct rd_pair *rd_make(struct rd_ctx *d, struct qp *qp, const uint8_t *addr, uint32_t peer_qpn);
/* The QP goes to ERR: all work of all pairs completes, and the peers are told. May be called again. */
void rd_qp_error(struct rd_ctx *d, struct qp *qp);
/*
 * Gives the posted work requests to their pairs. A work request for whose destination no pair is free fails alone. In
 * SQD: raises QP_EVENT_SQ_DRAINED if the event is due.
 */
void rd_route(struct rd_ctx *d, struct qp *qp);
/*
 * After work requests may have completed: calls rd_route() if the QP's next work request waits for Reads and Atomics,
 * and all of these have completed, or if the QP is in SQD.
 */
void rd_settle(struct rd_ctx *d, struct qp *qp);
/* SQD waits no longer for work requests of this pair, whose `drains` is set. */
void rd_drained(struct rd_pair *p);
/* After work requests of the pair may have completed: whether all that had begun have completed is noted for SQD. */
static inline void rd_look_drained(struct rd_pair *p)
{
	if (rn_unlikely(p->k->drains) && p->k->work.wr_head == p->k->work.wr_tail)
		rd_drained(p);
}
/* Ends the pair because of the engine's error p->k->m.err. seg: the segment at fault, or NULL. */
void rd_fail(struct rd_ctx *d, struct rd_pair *p, const uint8_t *seg, uint32_t len);
/* Builds the Terminate for the peer, of the error and the segment that led to it. Returns the Terminate's length. */
uint32_t rd_term(uint8_t term[RDMAP_TERM_MAX_LEN], struct iw_err e, const uint8_t *seg, uint32_t len);
/*
 * The number of a run that the QP with this QPN begins: that of the clock, or a greater one if a QP with this QPN has
 * used this number. So a QP that begins very many runs is ahead of the clock, and few other QPs are.
 */
uint32_t rd_next_run(struct rd_ctx *d, uint32_t qpn);
/* From now on rd_tick() looks at pairs that wait for the peer. */
void rd_arm_probe(struct rd_ctx *d);

/* rd_list.c */
/* Puts the pair, which is in no list of this kind, at the list's begin or end. */
void rd_enlist_first(struct rd_ctx *d, struct rd_list *l, enum rd_in in, struct rd_pair *p);
void rd_enlist_last(struct rd_ctx *d, struct rd_list *l, enum rd_in in, struct rd_pair *p);
/* Takes the pair off the list, in which it is. */
void rd_delist(struct rd_ctx *d, struct rd_list *l, enum rd_in in, struct rd_pair *p);

/* rd_wide.c */
/* Gives the pair a struct rd_wide, with which it may have more than RD_WIN segments on the way. False: none is free. */
RN_NODISCARD bool rd_widen(struct rd_ctx *d, struct rd_pair *p);
/* Takes the struct rd_wide, if any, and all promises to the peer, from a pair that keeps no segments. */
void rd_narrow(struct rd_ctx *d, struct rd_pair *p);
/* The peer has asked to send more: promises it memory, as far as there is some. */
void rd_promise(struct rd_ctx *d, struct rd_pair *p);
/* Takes n segments off what the peer is promised: they have had their turn, or the peer has given them back. */
void rd_unpromise(struct rd_ctx *d, struct rd_pair *p, uint32_t n);
/* The value of `room` in a packet to the peer. */
uint8_t rd_room(const struct rd_pair *p);
/* Notes what the peer promises in a packet. The caller has already noted which segments the packet reports as taken. */
void rd_promised(struct rd_ctx *d, struct rd_pair *p, const struct rd_hdr *h);
/* TAKEN with RD_F_BACK: the peer gives promises back. */
void rd_take_back(struct rd_ctx *d, struct rd_pair *p, const struct rd_hdr *h);
/* Whether one more segment of our run may be on the way. */
bool rd_may_send(const struct rd_pair *p);
/* Adds to the header of a SEGMENT or TAKEN that is to be sent what it says about promises: RD_F_MUCH or RD_F_BACK. */
void rd_ask_room(struct rd_ctx *d, struct rd_pair *p, struct rd_hdr *h);
/* If queues wait for memory, rd_tick() shall soon call rd_tick_widened(). */
void rd_hurry(struct rd_ctx *d);
/* Lets the pairs with a struct rd_wide give back what their peers have promised, as far as they do not need it now. */
void rd_tick_widened(struct rd_ctx *d);
/*
 * Whether the pair shall give back what the peer has promised: no segment of the pair is on the way, and the pair has
 * sent none for a while, or a send queue waits for memory. Sets or clears rd_work.back.
 */
bool rd_gives_back(const struct rd_ctx *d, struct rd_pair *p);

/* rd_turn.c */
enum rd_turn {
	RD_TURN_NEXT,  /* the segment has had its turn: the engine has taken it */
	RD_TURN_EARLY, /* the segment's turn has not come */
	RD_TURN_WAITS, /* the segment's turn has come, but its message waits for a receive */
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
 * Keeps the segment until rd_take_held() or rd_look(). waits: the segment's turn had come, and there is no receive.
 * False: the pair keeps as many segments as it may, so the peer has more on the way than it may have.
 */
RN_NODISCARD bool rd_keep(struct rd_ctx *d, struct rd_pair *p, const struct rd_seg *s, bool waits);
/* Ends the pair, as the peer's run is impossible. seg: the segment that shows it, or NULL. */
void rd_impossible(struct rd_ctx *d, struct rd_pair *p, const uint8_t *seg, uint32_t len);
/*
 * Takes the kept segments whose turn has come. Of an ordered run, one call takes at most RD_WIN segments, and rd_look()
 * takes the others. False: the pair has ended.
 */
bool rd_take_held(struct rd_ctx *d, struct rd_pair *p);

#endif
