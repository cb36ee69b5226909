/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a waiting thread looks at the memory before it sleeps. */
#include "rnic/sock/sock.h"

#define LOOK_NS  (50 * RN_NS_PER_US)
#define ROUND_NS (2 * RN_NS_PER_US) /* a round of looks and a yield that takes longer has left the CPU to others */
#define LOOK_MAX (20 * LOOK_NS)     /* a thread that gets the CPU this rarely wakes sooner from sleep */

bool sock_look_on(struct sock_looks *t)
{
	if (t->begin == 0)
		t->begin = t->now = sock_now();
	if (t->looked >= LOOK_NS || t->now - t->begin >= LOOK_MAX)
		return false;
	const uint64_t before = t->now;
	sock_libc_yield();
	t->now = sock_now();
	t->looked += rn_min_u64(t->now - before, ROUND_NS);
	return true;
}
