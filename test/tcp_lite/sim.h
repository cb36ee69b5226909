/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A discrete-event simulation: two engines, a link each way, and two applications that send and check known streams.
 * One seed determines the whole run.
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
	/* ppm of segments that are truncated and get a good checksum: a shorter segment arrives */
	uint32_t cut;
	uint32_t flip; /* ppm of segments in which header bits change without a wrong checksum */
	uint64_t delay_ns, reorder_ns, jitter_ns;
	uint32_t ns_per_kb; /* ns that 1,024 bytes take on the line */
	uint32_t queue;     /* packets */
	uint32_t mtu;       /* bytes of payload and options; larger segments are lost without a message. 0: no limit */
	uint32_t tells;     /* ppm of such losses for which the sender gets an ICMP message */
};

struct sim_profile {
	struct sim_link link[2];
	struct tcpl_cfg cfg[2];
	uint64_t bytes[2]; /* bytes that each side sends */
	uint32_t chunk_max[2];
	uint32_t iss[2];
	bool simultaneous;   /* both sides connect at the same time */
	bool cookie;         /* the listener answers with a SYN cookie */
	bool slow_reader[2]; /* now and then the window runs shut */
	bool use_budget[2];
	bool place[2];      /* takes the bytes of out-of-order segments at once */
	bool close_late[2]; /* closes only after the peer has closed (half-close) */
	bool lazy[2];       /* sometimes leaves ready slices in the engine */
	uint32_t hold_n, rec_n, chunk_n;
	uint64_t turn_ns; /* a segment waits up to so long for its receiver's turn */
	bool hostile;     /* header bits flip: only crashes and lost references count as failures */
	int abort_at;     /* the side that aborts half-way; -1: none */
	uint32_t paths;   /* number of paths that each side uses in turns; 0: one path, and no memory for tracks */
	uint64_t path_delay_ns[TCPL_PATHS]; /* in addition to the link's delay */
	uint32_t path_loss[TCPL_PATHS];     /* ppm, in addition to the link's loss */
	uint64_t dies_at;                   /* time from which the second path loses everything; 0: never */
};

struct sim_result {
	bool ok;
	char why[256];
	uint64_t end_ns;
	uint64_t delivered[2];
	struct tcpl_stats stats[2];
	uint32_t events;
	uint32_t segments;
	uint32_t lost[2];        /* lost data segments, by the side that sent them */
	uint32_t of[TCPL_PATHS]; /* number of segments by each path */
	bool reset, timeout;
};

void sim_profile_from_seed(struct sim_profile *p, uint64_t seed);
void sim_run(const struct sim_profile *p, uint64_t seed, bool trace, struct sim_result *r);

#endif
