/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/rn_wheel.h"

#include <string.h>

/*
 * A timer of tick T lies on the level of the highest 6-bit digit in which T differs from w->tick, in the slot of that
 * digit. Hence every occupied slot lies ahead of the current digit of its level, all of a level comes before any of
 * the next, and the first slot of the lowest occupied level is the next one to be looked at.
 */

/* Rounded up, so that the tick never begins before `when`. */
static uint64_t tick_of(uint64_t when)
{
	return (when >> RN_WHEEL_TICK_SHIFT) + ((when & (RN_WHEEL_TICK_NS - 1)) != 0);
}

static void link_front(struct rn_timer **head, struct rn_timer *t)
{
	t->next = *head;
	t->pprev = head;
	if (t->next != NULL)
		t->next->pprev = &t->next;
	*head = t;
}

static void unlink_timer(struct rn_wheel *w, struct rn_timer *t)
{
	uintptr_t off = (uintptr_t)t->pprev - (uintptr_t)w->slot;

	*t->pprev = t->next;
	if (t->next != NULL)
		t->next->pprev = t->pprev;
	else if (off < sizeof(w->slot)) {
		uint64_t i = off / sizeof(w->slot[0][0]);
		w->occupied[i / RN_WHEEL_SLOTS] &= ~(UINT64_C(1) << (i % RN_WHEEL_SLOTS));
	}
	t->pprev = NULL;
}

/* tick > w->tick */
static void insert(struct rn_wheel *w, struct rn_timer *t, uint64_t tick)
{
	uint32_t level = (63u - (uint32_t)__builtin_clzll(tick ^ w->tick)) / RN_WHEEL_BITS;
	uint32_t digit = (uint32_t)(tick >> (level * RN_WHEEL_BITS)) & (RN_WHEEL_SLOTS - 1);

	link_front(&w->slot[level][digit], t);
	w->occupied[level] |= UINT64_C(1) << digit;
}

void rn_wheel_init(struct rn_wheel *w, uint64_t now)
{
	memset(w, 0, sizeof(*w));
	w->tick = now >> RN_WHEEL_TICK_SHIFT;
	w->horizon = w->tick;
}

void rn_wheel_arm(struct rn_wheel *w, struct rn_timer *t, uint64_t when)
{
	if (when == RN_NEVER) {
		rn_wheel_disarm(w, t);
		return;
	}
	if (rn_timer_armed(t)) {
		if (when >= t->when) {
			/*
			 * Lazy: the timer stays in its slot, which comes too early. When the slot is emptied, the timer
			 * is put where it belongs.
			 */
			t->when = when;
			return;
		}
		unlink_timer(w, t);
	}
	t->when = rn_max_u64(when, (w->horizon + 1) << RN_WHEEL_TICK_SHIFT);
	insert(w, t, tick_of(t->when));
}

void rn_wheel_disarm(struct rn_wheel *w, struct rn_timer *t)
{
	if (rn_timer_armed(t))
		unlink_timer(w, t);
}

/* The next slot to be looked at; false when there is none. */
static bool next_slot(const struct rn_wheel *w, uint32_t *level, uint32_t *digit, uint64_t *tick)
{
	for (uint32_t l = 0; l < RN_WHEEL_LEVELS; l++) {
		if (w->occupied[l] == 0)
			continue;
		*level = l;
		*digit = (uint32_t)__builtin_ctzll(w->occupied[l]);
		uint64_t above = w->tick >> ((l + 1) * RN_WHEEL_BITS) << RN_WHEEL_BITS;
		*tick = (above | *digit) << (l * RN_WHEEL_BITS);
		return true;
	}
	return false;
}

/* Empties the next slot, if it has begun by w->horizon: its timers go onto the expired list or into finer slots. */
static bool advance(struct rn_wheel *w)
{
	uint32_t level, digit;
	uint64_t tick;
	struct rn_timer *t;

	if (!next_slot(w, &level, &digit, &tick) || tick > w->horizon) {
		w->tick = w->horizon;
		return false;
	}
	w->tick = tick;
	w->occupied[level] &= ~(UINT64_C(1) << digit);
	t = w->slot[level][digit];
	w->slot[level][digit] = NULL;
	while (t != NULL) {
		struct rn_timer *next = t->next;
		uint64_t due = tick_of(t->when);

		if (due <= tick)
			link_front(&w->expired, t);
		else
			insert(w, t, due);
		t = next;
	}
	return true;
}

struct rn_timer *rn_wheel_pop_due(struct rn_wheel *w, uint64_t now)
{
	w->horizon = rn_max_u64(w->horizon, now >> RN_WHEEL_TICK_SHIFT);
	do {
		while (w->expired != NULL) {
			struct rn_timer *t = w->expired;
			uint64_t due = tick_of(t->when);

			unlink_timer(w, t);
			if (due <= w->tick)
				return t;
			/* The timer was moved to a later time while it was on the expired list. */
			insert(w, t, due);
		}
	} while (advance(w));
	return NULL;
}

uint64_t rn_wheel_next(const struct rn_wheel *w)
{
	uint32_t level, digit;
	uint64_t tick = w->tick;

	if (w->expired == NULL && !next_slot(w, &level, &digit, &tick))
		return RN_NEVER;
	return tick > RN_NEVER >> RN_WHEEL_TICK_SHIFT ? RN_NEVER : tick << RN_WHEEL_TICK_SHIFT;
}
