/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IGMP as a host speaks it: versions 1 (RFC 1112), 2 (RFC 2236) and 3 (RFC 3376). Queries are parsed, reports and
 * leaves are built as whole frames. Pure, as pkt.h.
 */
#ifndef PKT_IGMP_H
#define PKT_IGMP_H

#include "pkt/pkt.h"

#define PKT_IP4_ALL_HOSTS   UINT32_C(0xe0000001) /* 224.0.0.1: every host belongs to this group, none reports it */
#define PKT_IP4_ALL_ROUTERS UINT32_C(0xe0000002)
#define PKT_IP4_IGMP3       UINT32_C(0xe0000016) /* 224.0.0.22: routers that take version 3 reports */

struct pkt_igmp_query {
	uint8_t version; /* of the asking router: 1, 2 or 3 */
	bool all;        /* the query asks about every group */
	struct pkt_addr group;
	uint32_t within_ms; /* the host answers after a random time of at most this */
};

enum pkt_igmp_verdict {
	PKT_IGMP_QUERY,
	PKT_IGMP_OTHER, /* reports of others, which a host ignores */
	PKT_IGMP_BAD,   /* to be ignored: malformed, or it has passed a router */
};

/*
 * Parses a packet of PKT_PROTO_IGMP to a group, of which `contiguous` bytes lie at frame. q is set for PKT_IGMP_QUERY.
 * The sources that a version 3 query may name are ignored, since this host receives from all sources.
 */
RN_NODISCARD enum pkt_igmp_verdict pkt_igmp_parse(const uint8_t *frame, uint32_t contiguous, const struct pkt *p,
						  struct pkt_igmp_query *q);

/*
 * Record types of version 3 (RFC 3376, section 4.2.12), for any version. The list of sources is empty, so each means
 * all sources or none.
 */
enum pkt_igmp_says {
	PKT_IGMP_IS_IN_IT = 2, /* MODE_IS_EXCLUDE {}: the answer to a query */
	PKT_IGMP_LEAVES = 3,   /* CHANGE_TO_INCLUDE_MODE {} */
	PKT_IGMP_JOINS = 4,    /* CHANGE_TO_EXCLUDE_MODE {} */
};

struct pkt_igmp_record {
	enum pkt_igmp_says says;
	struct pkt_addr group;
};

/* Bytes that a report of n groups needs, tag and padding included. */
#define PKT_IGMP_FRAME(n) (PKT_ETH_LEN + PKT_VLAN_LEN + PKT_IP4_LEN + 4u + 8u + 8u * (n) + 10u)

/*
 * Writes a whole frame with a report of n groups to `out`, and sets the destination MAC itself. Returns the frame's
 * length. Before version 3 a message is about one group (n is 1), and version 1 has no message for leaving.
 */
uint32_t pkt_igmp_build(uint8_t *out, const struct pkt_l2 *l2, const struct pkt_addr *src, uint32_t version,
			const struct pkt_igmp_record *r, uint32_t n);

#endif
