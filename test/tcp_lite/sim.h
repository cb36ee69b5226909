/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Next-event simulation: two engines, a link each way, two applications that send and check a known stream. One seed
 * decides everything; the same seed gives the same run.
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_rng.h"
#include "tcp_lite/tcpl.h"

#define SIM_CHUNKS 256u
#define SIM_RECS   256u
#define SIM_HOLD   256u
#define SIM_PKTS   8192u
#define SIM_MTU    9216u

struct sim_link {
	uint32_t loss, dup, reorder, corrupt; /* ppm; a corrupt packet fails its checksum: it is dropped */
	uint32_t cut;                         /* ppm; truncated and its checksum made good: a shorter segment */
	uint32_t flip;                        /* ppm: header bits change and no checksum notices */
	uint64_t delay_ns, reorder_ns, jitter_ns;
	uint32_t ns_per_kb; /* serialisation */
	uint32_t queue;     /* packets */
	uint32_t mtu;       /* bytes of payload and options; larger ones are lost in silence; 0: all pass */
	uint32_t tells;     /* ppm: of those lost so, ICMP tells the sender */
};

struct sim_profile {
	struct sim_link link[2];
	struct tcpl_cfg cfg[2];
	uint64_t bytes[2]; /* to be sent by each side */
	uint32_t chunk_max[2];
	uint32_t iss[2];
	bool simultaneous;   /* both connect */
	bool cookie;         /* the listener answers with a cookie */
	bool slow_reader[2]; /* window runs shut now and then */
	bool use_budget[2];
	bool place[2];      /* places out-of-order segments at once */
	bool close_late[2]; /* closes only after the peer (half-close) */
	bool lazy[2];       /* leaves ready slices in the engine now and then */
	uint32_t hold_n, rec_n, chunk_n;
	uint64_t turn_ns; /* a segment waits up to this long for the owner's turn */
	bool hostile;     /* header bits flip: only survival and references are checked */
	int abort_at;     /* side that aborts half-way, -1: none */
	uint32_t paths;   /* by which each side sends in turns; 0: there is one, and no memory for tracks */
	uint64_t path_delay_ns[TCPL_PATHS]; /* added to the link's */
	uint32_t path_loss[TCPL_PATHS];     /* ppm, beside the link's */
	uint64_t dies_at;                   /* the second path loses everything from then on; 0: it does not */
};

struct sim_result {
	bool ok;
	char why[256];
	uint64_t end_ns;
	uint64_t delivered[2];
	struct tcpl_stats stats[2];
	uint32_t events;
	uint32_t segments;
	uint32_t lost[2];        /* of those, data, on the way from each side */
	uint32_t of[TCPL_PATHS]; /* how many went by each path */
	bool reset, timeout;
};

void sim_profile_from_seed(struct sim_profile *p, uint64_t seed);
void sim_run(const struct sim_profile *p, uint64_t seed, bool trace, struct sim_result *r);

#endif
