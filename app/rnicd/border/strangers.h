/* SPDX-License-Identifier: BSD-3-Clause */
/* How often strangers are answered: a flood of packets that nobody has asked for takes little of a worker's time. */
#ifndef STRANGERS_H
#define STRANGERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"

#define STRANGER_NS       (200 * RN_NS_PER_US) /* one answer in 200 us: 5,000 a second */
#define STRANGERS_AT_ONCE 1000u                /* answers in a burst after a pause */

/* Whether one more answer may be given now. *at: the caller's, 0 at first. */
static inline bool stranger_allowed(uint64_t *at, uint64_t now)
{
	const uint64_t depth = STRANGERS_AT_ONCE * STRANGER_NS;

	if (*at + depth < now)
		*at = now - depth;
	if (*at + STRANGER_NS > now)
		return false;
	*at += STRANGER_NS;
	return true;
}

#endif
