/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timer wheel: hierarchical, intrusive, no allocation; the clock is an argument. Adding, moving and deleting cost O(1)
 * (re-arming later than the armed time is lazy: one store). One thread owns a wheel and all timers on it.
 */
#ifndef RN_WHEEL_H
#define RN_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"

#define RN_WHEEL_TICK_NS  UINT64_C(16384) /* resolution: a timer fires at most one tick late, never early */
#define RN_WHEEL_BITS     6
#define RN_WHEEL_SLOTS    (1u << RN_WHEEL_BITS)
#define RN_WHEEL_LEVELS   5 /* 64^5 ticks of 16 us: about 4.9 hours; later timers wait in the last level */

struct rn_timer {
	struct rn_timer *next;
	struct rn_timer **pprev; /* NULL when not armed */
	uint64_t when;           /* ns: when it shall fire; may be later than the slot it lies in */
};

struct rn_wheel {
	uint64_t tick; /* the next tick to be looked at */
	uint64_t occupied[RN_WHEEL_LEVELS];
	struct rn_timer *slot[RN_WHEEL_LEVELS][RN_WHEEL_SLOTS];
	struct rn_timer *expired;
};

void rn_wheel_init(struct rn_wheel *w, uint64_t now);

/* Arms t for `when` (moves it when armed already). RN_NEVER disarms. */
void rn_wheel_arm(struct rn_wheel *w, struct rn_timer *t, uint64_t when);
void rn_wheel_disarm(struct rn_wheel *w, struct rn_timer *t);
static inline bool rn_timer_armed(const struct rn_timer *t) { return t->pprev != NULL; }

/* Next timer that is due at `now`, disarmed, or NULL. Call until NULL. */
struct rn_timer *rn_wheel_pop(struct rn_wheel *w, uint64_t now);

/* A time not later than the earliest armed timer (RN_NEVER when none): how long a worker may sleep. */
uint64_t rn_wheel_next(const struct rn_wheel *w);

#endif
