/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timer wheel: hierarchical, intrusive, no allocation; the clock is an argument. Adding, moving and deleting cost O(1)
 * (re-arming later than the armed time is lazy: one store), a pop with nothing due is two loads and a compare. Timers
 * come out in the order of their ticks, also when the clock jumps; the order within a tick is not defined.
 *
 * One thread owns a wheel and all timers on it. The memory of both is the caller's; a timer must be disarmed before
 * its memory goes. A zeroed rn_timer is a disarmed one.
 */
#ifndef RN_WHEEL_H
#define RN_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"

#define RN_WHEEL_TICK_SHIFT 14
#define RN_WHEEL_TICK_NS    (UINT64_C(1) << RN_WHEEL_TICK_SHIFT) /* a timer fires at most one tick late, never early */
#define RN_WHEEL_BITS       6
#define RN_WHEEL_SLOTS      (1u << RN_WHEEL_BITS)
#define RN_WHEEL_LEVELS     9 /* 64^9 ticks: every time a uint64_t can name */

struct rn_timer {
	struct rn_timer *next;
	struct rn_timer **pprev; /* NULL when not armed */
	uint64_t when;           /* ns: when the timer shall fire; may be later than the slot that holds the timer */
};

struct rn_wheel {
	uint64_t tick;    /* all slots up to this tick have been emptied */
	uint64_t horizon; /* the clock's tick at the last pop; ahead of `tick` while a jump is worked off */
	struct rn_timer *expired;
	uint64_t occupied[RN_WHEEL_LEVELS]; /* a bit per slot that is not empty */
	struct rn_timer *slot[RN_WHEEL_LEVELS][RN_WHEEL_SLOTS];
};

void rn_wheel_init(struct rn_wheel *w, uint64_t now);

/*
 * Arms t for `when` (moves it when armed already). RN_NEVER disarms. A time that has passed means the tick after the
 * last pop, so that a timer that arms itself again for the past cannot hold its worker in a loop.
 */
void rn_wheel_arm(struct rn_wheel *w, struct rn_timer *t, uint64_t when);
void rn_wheel_disarm(struct rn_wheel *w, struct rn_timer *t);
static inline bool rn_timer_armed(const struct rn_timer *t) { return t->pprev != NULL; }

/* The slow part of rn_wheel_pop(). */
struct rn_timer *rn_wheel_pop_due(struct rn_wheel *w, uint64_t now);

/* Next timer that is due at `now`, disarmed, or NULL. Call until NULL. */
static inline struct rn_timer *rn_wheel_pop(struct rn_wheel *w, uint64_t now)
{
	if (rn_likely(w->expired == NULL && (now >> RN_WHEEL_TICK_SHIFT) <= w->tick))
		return NULL;
	return rn_wheel_pop_due(w, now);
}

/*
 * The first time at which a pop may have something to do (RN_NEVER when no timer is armed): how long a worker may
 * sleep. Not later than the tick in which the earliest timer fires; earlier when that one lies in a coarse slot or
 * was moved lazily, and then there is nothing to pop yet.
 */
uint64_t rn_wheel_next(const struct rn_wheel *w);

#endif
