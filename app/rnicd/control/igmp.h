/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IGMP reports of a port's groups: the host's part of IGMP version 3 (RFC 3376), and of older versions while queries of
 * such a version come (section 7.2). Switches with IGMP snooping send a group's frames only to ports where the group
 * was reported.
 *
 * A joining or leaving is reported at once and once more some time later; queries are answered at a random time within
 * what they allow. Version 3 does not suppress a report that another host has sent, so the older versions do not do
 * this here either. 224.0.0.1 is not reported.
 *
 * A function of (state, calls, now): no clock, no memory but its own. One owner. Times are ns.
 */
#ifndef IGMP_H
#define IGMP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"
#include "base/rn_rng.h"
#include "pkt/pkt_igmp.h"

#define IGMP_GROUPS 64u               /* groups of a port, at most */
#define IGMP_SLOTS  (2 * IGMP_GROUPS) /* including groups whose leaving is still being reported */

struct igmp_group {
	bool used;
	bool leaving;
	uint8_t tells;      /* number of reports of the change that are still to be sent */
	uint64_t tell_at;   /* time of the next report; RN_NEVER: none */
	uint64_t answer_at; /* time of the answer to a query; RN_NEVER: none is due */
	struct pkt_addr addr;
};

struct igmp {
	struct rn_rng rng;
	uint64_t old_until[3]; /* [1], [2]: time until which queries in that version count */
	uint32_t version;      /* version in use now */
	struct igmp_group group[IGMP_SLOTS];
};

void igmp_init(struct igmp *i, uint64_t seed);
/* Join a group that the port is not in; leave a group that it is in. */
void igmp_join(struct igmp *i, const struct pkt_addr *addr, uint64_t now);
void igmp_leave(struct igmp *i, const struct pkt_addr *addr, uint64_t now);
void igmp_query(struct igmp *i, const struct pkt_igmp_query *q, uint64_t now);

/* When the next message is due; RN_NEVER: none so far. */
uint64_t igmp_next(const struct igmp *i);
/*
 * The next message that is due: records of version i->version, as pkt_igmp_build takes them. Returns their number;
 * 0: nothing is due any more.
 */
uint32_t igmp_out(struct igmp *i, uint64_t now, struct pkt_igmp_record r[IGMP_GROUPS]);

#endif
