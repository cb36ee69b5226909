/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failures that a program asks for, to test what it does about them: RNIC_INJECT, which rnicrun --inject sets.
 * It is read before main(); a wrong one ends the process with a sentence and status 2. doc/testing.md has the grammar.
 * Without RNIC_INJECT each point costs one load and one branch. Any thread.
 */
#ifndef RNIC_INJECT_H
#define RNIC_INJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"

enum rnic_inject_at {
	RNIC_INJECT_ALLOC_PD,
	RNIC_INJECT_REG_MR,
	RNIC_INJECT_CREATE_CQ,
	RNIC_INJECT_CREATE_QP,
	RNIC_INJECT_RESOLVE_ADDR,
	RNIC_INJECT_RESOLVE_ROUTE,
	RNIC_INJECT_LISTEN,
	RNIC_INJECT_CONNECT,
	RNIC_INJECT_ACCEPT,
	RNIC_INJECT_WC,    /* a completion that the program polls */
	RNIC_INJECT_ASYNC, /* the same: with it an asynchronous event comes */
	RNIC_INJECT_GONE,  /* the same: with it the connection to rnicd breaks */
};

#define RNIC_INJECT_MOST 16u /* failures in one RNIC_INJECT */

struct rnic_inject_rule {
	enum rnic_inject_at at;
	uint32_t ops;  /* of completions: which opcodes count, a set of bits rnic_inject_op() */
	uint32_t qpn;  /* of completions: whose completions count; 0: any queue pair's */
	uint64_t nth;  /* from 1: which one fails */
	uint64_t seen; /* atomic: calls or completions that counted */
	int result;    /* errno of a call, enum ibv_wc_status of a completion, enum ibv_event_type, 1; 0: `event` is */
	int event;     /* the call succeeds and this event follows, an enum rdma_cm_event_type above 0 */
	char text[40]; /* the rule as the user wrote it */
};

struct rnic_inject_rules {
	struct rnic_inject_rule r[RNIC_INJECT_MOST];
	uint32_t n;
};

/* The bit of an opcode, which is an enum ibv_wc_opcode. */
uint32_t rnic_inject_op(uint32_t opcode);

/* Reads a specification. NULL, or what is wrong with it; *rest is then the part that is wrong. */
const char *rnic_inject_parse(struct rnic_inject_rules *out, const char *spec, const char **rest);

/* The rule that fails this call or completion now, or NULL. Each rule fails one. */
const struct rnic_inject_rule *rnic_inject_hit(struct rnic_inject_rules *rules, enum rnic_inject_at at, uint32_t opcode,
					       uint32_t qpn);

/* Written before main(). */
extern bool rnic_injecting __attribute__((visibility("hidden")));

/* *event: as in the rule, where calls of this kind have events; else NULL. */
RN_COLD int rnic_inject_call(enum rnic_inject_at at, int *event);
RN_COLD uint32_t rnic_inject_cqe(uint32_t opcode, uint32_t qpn, uint64_t wr_id);
/* The asynchronous event that comes with this completion, an enum ibv_event_type above 0; 0: none. */
RN_COLD int rnic_inject_async(uint32_t opcode, uint32_t qpn);
/* With this completion rnicd is to be gone, as far as this process can see. */
bool rnic_inject_gone(uint32_t opcode, uint32_t qpn);

/* Where a call enters: 0, or the errno that it fails with. */
static inline int rnic_inject(enum rnic_inject_at at)
{
	return rn_unlikely(rnic_injecting) ? rnic_inject_call(at, NULL) : 0;
}

#endif
