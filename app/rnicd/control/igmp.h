/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a port tells the network of the groups it is in: a host's part of IGMP version 3 (RFC 3376), and of the older
 * ones while somebody asks in them (section 7.2). Switches that snoop send a group's frames only to where it is
 * reported.
 *
 * A joining or leaving is reported at once and once more some time later; queries are answered at a random time within
 * what they allow. Version 3 suppresses no report because others have sent it, so it is not done in the older ones
 * either. 224.0.0.1 is not reported.
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

#define IGMP_GROUPS 64u               /* a port is in at most */
#define IGMP_SLOTS  (2 * IGMP_GROUPS) /* with those whose leaving is being told */

struct igmp_group {
	bool used;
	bool leaving;
	uint8_t tells;      /* times that the change is still to be told */
	uint64_t tell_at;   /* the next time; RN_NEVER: not */
	uint64_t answer_at; /* to a query; RN_NEVER: none is due */
	struct pkt_addr addr;
};

struct igmp {
	struct rn_rng rng;
	uint64_t old_until[3]; /* [1], [2]: when the router that asked in that version is forgotten */
	uint32_t version;      /* spoken now */
	struct igmp_group group[IGMP_SLOTS];
};

void igmp_init(struct igmp *i, uint64_t seed);
/* A group that it is not in; and one that it is in. */
void igmp_join(struct igmp *i, const struct pkt_addr *addr, uint64_t now);
void igmp_leave(struct igmp *i, const struct pkt_addr *addr, uint64_t now);
void igmp_query(struct igmp *i, const struct pkt_igmp_query *q, uint64_t now);

/* When igmp_out has something to say next; RN_NEVER: nothing so far. */
uint64_t igmp_next(const struct igmp *i);
/*
 * The next message that is due: records of version i->version, as pkt_igmp_build takes them. Returns their number;
 * 0: nothing is due any more.
 */
uint32_t igmp_out(struct igmp *i, uint64_t now, struct pkt_igmp_record r[IGMP_GROUPS]);

#endif
