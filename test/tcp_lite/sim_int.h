/* SPDX-License-Identifier: BSD-3-Clause */
/* What the source files of the simulation share: its sides, its packets, and the heap of arrivals. */
#ifndef SIM_INT_H
#define SIM_INT_H

#include "sim.h"

enum pkt_state { PKT_FREE, PKT_FLIGHT, PKT_OWNED, PKT_HELD };

struct pkt {
	enum pkt_state state;
	uint8_t to, path;
	struct tcpl_seg seg;
	uint8_t opt[TCPL_OPT_MAX];
	uint8_t *data;
};

struct event {
	uint64_t at;
	uint32_t order;
	uint32_t pkt;
};

struct side {
	struct tcpl_conn c;
	struct tcpl_chunk chunk[SIM_CHUNKS];
	struct tcpl_txrec rec[SIM_RECS];
	struct tcpl_sent sent[SIM_RECS];
	struct tcpl_hold hold[SIM_HOLD];
	uint64_t queued;               /* bytes of the stream given to tcpl_send() */
	uint64_t acked;                /* bytes of the stream whose chunk came back */
	uint64_t got;                  /* bytes of the stream delivered */
	uint64_t base[SIM_CHUNKS * 2]; /* offset in the stream by slot of references */
	uint64_t next_ref, next_acked;
	uint64_t turn_at; /* time of the owner's next turn */
	uint64_t link_free[TCPL_PATHS];
	uint32_t path, came; /* path of the segments sent now; path of the segment received last */
	struct tcpl_track track[TCPL_PATHS - 1];
	uint32_t in_link;
	uint32_t inbox[SIM_PKTS], n_inbox;
	uint64_t unread; /* bytes delivered, but not yet read by a slow reader */
	uint32_t irs;
	bool alive, ended, peer_fin, shut;
	bool opened;
};

struct sim {
	const struct sim_profile *p;
	struct rn_rng rng;
	struct sim_result *r;
	bool trace;
	uint64_t now;
	struct side s[2];
	struct pkt pkt[SIM_PKTS];
	uint32_t free_pkt[SIM_PKTS], n_free;
	struct event heap[SIM_PKTS];
	uint32_t n_heap, order;
	bool cookie_out;
	struct tcpl_out cookie;
};

/* The run has failed for this reason; only the first reason counts. */
void sim_fail(struct sim *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Packet number pkt will arrive at that time. */
void sim_push(struct sim *m, uint64_t at, uint32_t pkt);
/* Takes the number of the packet that arrives next. */
uint32_t sim_pop(struct sim *m);
/* Takes a free packet. UINT32_MAX: all are in use, which is a failure. */
uint32_t sim_pkt_get(struct sim *m);
/* Frees the packet, which must be in that state. */
void sim_pkt_put(struct sim *m, uint32_t i, enum pkt_state expect);

#endif
