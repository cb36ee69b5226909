/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failures that a program asks for, to test what it does about them: RNIC_INJECT, which rnicrun --inject sets, and
 * rnicctl inject, which replaces them while the program runs. RNIC_INJECT is read before main(); a wrong one ends the
 * process with a sentence and status 2. doc/testing.md has the grammar. Without RNIC_INJECT each point costs one load
 * and one branch at most. Any thread.
 */
#ifndef RNIC_INJECT_H
#define RNIC_INJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"
#include "inject/inject_rule.h"

/* Written before main(): the process has RNIC_INJECT, be it "none". */
extern bool rnic_injecting __attribute__((visibility("hidden")));

/* How a call ends that is made to fail. */
struct rnic_injected {
	int rc;         /* errno; 0: see the others */
	int event;      /* it succeeds, and this event of the connection manager follows */
	bool refused;   /* of RDMA_CM_EVENT_REJECTED: nobody listens there */
	uint32_t later; /* ms: how much later the event comes, or the receives reach the device; 0: at once, not held */
};

/* qpn, side: as in struct inject_what. */
RN_COLD struct rnic_injected rnic_inject_at(const struct inject_what *what);
RN_COLD int rnic_inject_call(enum inject_at at);
/* The status that the completion gets; 0: its own. */
RN_COLD uint32_t rnic_inject_cqe(const struct inject_what *what, uint64_t wr_id);
/* ms for which the completion, the next one that the program would get, is held back. */
RN_COLD uint32_t rnic_inject_delay(const struct inject_what *what, uint64_t wr_id);
/* The rule by which with this completion an asynchronous event comes, or the connection to rnicd breaks; or NULL. */
RN_COLD const struct inject_rule *rnic_inject_beside(const struct inject_what *what);
/* Whether a rule asks for a side of connections. */
bool rnic_inject_asks_side(void);

/* From now on each rule that is due at a time is handed to `fire` then, by a thread, again until that is true. */
void rnic_inject_begin(bool (*fire)(const struct inject_rule *r));
/* A running program is told of other rules, which replace those there are. */
void rnic_inject_order(const char *spec);

/* Where a call enters: 0, or the errno that it fails with. */
static inline int rnic_inject(enum inject_at at) { return rn_unlikely(rnic_injecting) ? rnic_inject_call(at) : 0; }

#endif
