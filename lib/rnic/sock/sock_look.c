/* SPDX-License-Identifier: BSD-3-Clause */
/* Time, and how long a waiting thread looks at the memory before it sleeps. */
#include <time.h>

#include "rnic/sock/sock.h"

#define LOOK_NS  (50 * RN_NS_PER_US)
#define ROUND_NS (2 * RN_NS_PER_US) /* a round of looks and a yield that takes longer has left the CPU to others */
#define LOOK_MAX (20 * LOOK_NS)
#define CROWDED  16u

/*
 * How many waits the thread begins without looking. Where other programs keep the CPU for longer than LOOK_MAX, a
 * thread that yields gets the CPU back later than one that sleeps and is woken.
 */
static __thread uint32_t crowded;

uint64_t sock_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * RN_NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t sock_end_of(const struct timespec *ts)
{
	uint64_t now = sock_now(), most = (UINT64_MAX - now) / RN_NS_PER_S - 1;

	return (uint64_t)ts->tv_sec > most ? UINT64_MAX
					   : now + (uint64_t)ts->tv_sec * RN_NS_PER_S + (uint64_t)ts->tv_nsec;
}

bool sock_look_on(struct sock_looks *t)
{
	if (t->begin == 0) {
		if (crowded > 0) {
			crowded--;
			return false;
		}
		t->begin = t->now = sock_now();
	}
	if (t->looked >= LOOK_NS)
		return false;
	if (t->now - t->begin >= LOOK_MAX) {
		crowded = CROWDED;
		return false;
	}
	const uint64_t before = t->now;
	sock_libc_yield();
	t->now = sock_now();
	t->looked += rn_min_u64(t->now - before, ROUND_NS);
	return true;
}
