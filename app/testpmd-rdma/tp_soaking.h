/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Common parts of soak over connections and over unreliable datagrams: the seeded mix of operations, the pattern that
 * Reads fetch, and the loop. Operation number k of a queue pair is a function of (seed, side, queue pair, k).
 */
#ifndef TP_SOAKING_H
#define TP_SOAKING_H

#include "tp_engine.h"

enum tp_soak_kind { TP_SOAK_SEND, TP_SOAK_WRITE, TP_SOAK_READ };

struct tp_soak_op {
	enum tp_soak_kind kind;
	uint32_t len, off; /* off: 0..63, inside the slot */
	uint64_t seed;
};

struct tp_soak_op tp_soak_op(const struct tp_run *r, bool by_server, uint32_t q, uint64_t k);

/* The seed of the constant area that Reads fetch from: the one of this side, or of the peer. */
uint64_t tp_soak_constant(const struct tp_run *r, bool of_peer);
void tp_soak_fill_constant(const struct tp_run *r);

/* The engine's state begins with this. */
struct tp_soaking {
	uint64_t started, bytes, come; /* own operations; their bytes; operations of the peer that have come */
};

/* The functions in which soak over connections and soak over datagrams differ. */
struct tp_soak_way {
	bool by_time; /* progress may depend on time alone, so it does not sleep until an event */
	enum tp_verdict (*on_wc)(struct tp_run *r, const struct ibv_wc *wc, uint64_t now);
	/* Posts one operation of the queue pair if possible, and then sets *posted. drained: no completion is left to
	 * poll. */
	enum tp_verdict (*start)(struct tp_run *r, uint32_t q, uint64_t now, bool drained, bool *posted);
	bool (*done)(const struct tp_run *r, uint64_t now);     /* no operation of this side is under way */
	enum tp_verdict (*end)(struct tp_run *r);               /* tells the peer by tp_ctrl_send_fin() */
	bool (*all_come)(const struct tp_run *r, uint64_t now); /* after the peer's FIN */
};

enum tp_verdict tp_soak_run(struct tp_run *r, const struct tp_soak_way *way);

#endif
