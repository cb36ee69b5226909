/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Injected failures, to test how a program handles them. RNIC_INJECT, which rnicrun --inject sets, names the failures;
 * rnicctl inject replaces them while the program runs. RNIC_INJECT is read before main(); a wrong value ends the
 * process with a sentence and status 2. doc/testing.md has the grammar. Without RNIC_INJECT, a place where a failure
 * can be injected costs at most one load and one branch. The functions may be called from any thread.
 */
#ifndef RNIC_INJECT_H
#define RNIC_INJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"
#include "inject/inject_rule.h"

/* Set before main() if the process has RNIC_INJECT, even RNIC_INJECT=none. */
extern bool rnic_injecting __attribute__((visibility("hidden")));

/* The result of a call that is made to fail. */
struct rnic_injected {
	int rc;         /* errno; 0: the members below tell */
	int event;      /* the call succeeds, and this connection manager event follows */
	bool refused;   /* for RDMA_CM_EVENT_REJECTED: the reason is that no program listens at the port */
	uint32_t later; /* ms: how much later the event comes, or the receives reach the device; 0: no delay */
};

/* What the rules make of this call. */
RN_COLD struct rnic_injected rnic_inject_at(const struct inject_what *what);
RN_COLD int rnic_inject_call(enum inject_at at); /* 0, or the errno that the call fails with */
/* The status (enum ibv_wc_status) that replaces the completion's own; 0: no rule replaces it. */
RN_COLD uint32_t rnic_inject_cqe(const struct inject_what *what, uint64_t wr_id);
/* How long to hold back the completion that the program would get next, in ms; 0: not at all. */
RN_COLD uint32_t rnic_inject_delay(const struct inject_what *what, uint64_t wr_id);
/* The rule by which an asynchronous event comes, or the connection to rnicd breaks, with this completion; or NULL. */
RN_COLD const struct inject_rule *rnic_inject_beside(const struct inject_what *what);
/* Whether a rule names a side of connections (active or passive). */
bool rnic_inject_asks_side(void);

/* From now on a thread calls `fire` with each rule whose time (after_ms) has come, again until `fire` returns true. */
void rnic_inject_begin(bool (*fire)(const struct inject_rule *r));
/* Other rules, which rnicctl has sent to the running program, replace the present ones. */
void rnic_inject_order(const char *spec);

/* Called on entry to a function of verbs or rdma_cm: 0, or the errno that the call fails with. */
static inline int rnic_inject(enum inject_at at) { return rn_unlikely(rnic_injecting) ? rnic_inject_call(at) : 0; }

#endif
