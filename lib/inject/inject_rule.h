/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failures that a user asks for, to test what a program does about them: how they are written, and which call or
 * completion each of them is about. doc/testing.md has the grammar. librnic makes them happen; rnicctl looks whether a
 * specification is right before it sends it.
 */
#ifndef INJECT_RULE_H
#define INJECT_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"

enum inject_at {
	/* calls */
	INJECT_OPEN_DEVICE,
	INJECT_ALLOC_PD,
	INJECT_REG_MR,
	INJECT_ALLOC_MW,
	INJECT_CREATE_CHANNEL,
	INJECT_CREATE_CQ,
	INJECT_CREATE_SRQ,
	INJECT_CREATE_QP,
	INJECT_MODIFY_QP,
	INJECT_CREATE_AH,
	INJECT_POST_SEND,
	INJECT_POST_RECV,
	INJECT_POST_SRQ_RECV,
	INJECT_BIND_ADDR,
	INJECT_RESOLVE_ADDR,
	INJECT_RESOLVE_ROUTE,
	INJECT_LISTEN,
	INJECT_CONNECT,
	INJECT_ACCEPT,
	/* completions that the program polls */
	INJECT_WC,    /* it fails, or comes later */
	INJECT_ASYNC, /* with it an asynchronous event comes */
	INJECT_GONE,  /* with it the connection to rnicd breaks */
	INJECT_POINTS
};

enum inject_side { INJECT_BOTH, INJECT_ACTIVE, INJECT_PASSIVE }; /* of the connection of a queue pair */

#define INJECT_MOST  16u /* failures in one specification */
#define INJECT_TEXT  64u /* bytes of one */
#define INJECT_LATER -1  /* inject_rule.result of what does not fail and comes inject_rule.last_ms later */

struct inject_rule {
	enum inject_at at;
	uint32_t ops; /* of completions: which opcodes count, a set of bits inject_op_bit() */
	uint32_t qpn; /* of queue pairs: which one counts; 0: any */
	enum inject_side side;
	uint64_t nth;      /* from 1: which one fails; 0: one of the other two */
	uint32_t one_in;   /* by chance one in so many fails, drawn from the seed */
	uint32_t after_ms; /* at that time after the rules were set */
	uint32_t last_ms;  /* how long it lasts, or how much later its event comes; 0: not said */
	uint64_t seen;     /* atomic: calls or completions that counted */
	/* errno of a call, enum ibv_wc_status of a completion, enum ibv_event_type, 1; INJECT_LATER; 0: event */
	int result;
	int event;              /* the call succeeds and this event follows, an enum rdma_cm_event_type above 0 */
	bool refused;           /* of RDMA_CM_EVENT_REJECTED: nobody listens there */
	char text[INJECT_TEXT]; /* the rule as the user wrote it */
};

struct inject_rules {
	struct inject_rule r[INJECT_MOST];
	uint32_t n;
	uint64_t seed;
};

/* The bit of an opcode, which is an enum ibv_wc_opcode. */
uint32_t inject_op_bit(uint32_t opcode);

/* Reads a specification. NULL, or what is wrong with it; *rest is then the part that is wrong. */
const char *inject_parse(struct inject_rules *out, const char *spec, const char **rest);

/* What a call, or a queue pair's completion, is; opcode, qpn and side are 0 where they mean nothing. */
struct inject_what {
	enum inject_at at;
	uint32_t opcode, qpn;
	enum inject_side side;
};

/*
 * The rule that fails this call or completion now, or NULL; *count: how many calls or completions it has counted.
 * later: rules of INJECT_LATER alone, else all others. Any thread.
 */
const struct inject_rule *inject_hit(struct inject_rules *rules, const struct inject_what *what, bool later,
				     uint64_t *count);

/* The function of verbs or rdma_cm that a point is. */
const char *inject_function(enum inject_at at);

#endif
