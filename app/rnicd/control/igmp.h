/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IGMP reports of a port's groups: the host's part of IGMP version 3 (RFC 3376), and of older versions while queries of
 * such a version come (section 7.2). Switches with IGMP snooping send a group's frames only to ports where the group
 * was reported.
 *
 * When the port joins or leaves a group, this is reported at once and once more some time later (in version 2 leaving
 * only once, in version 1 not at all). A query is answered at a random time within the time that it allows. In version
 * 3 a host sends its report even if another host has sent the same one; here this is so in the older versions, too.
 * 224.0.0.1 is not reported.
 *
 * The code depends only on its state, the calls and `now`: it reads no clock and allocates nothing. A struct igmp has
 * one owner. Times are ns.
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
	uint64_t old_until[3]; /* [1], [2]: until then the last query of that version decides the version in use */
	uint32_t version;      /* version in use now */
	struct igmp_group group[IGMP_SLOTS];
};

void igmp_init(struct igmp *i, uint64_t seed);
/* The port joins a group that it is not in; leaves a group that it is in. */
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
