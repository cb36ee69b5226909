/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules of injected failures, which a user asks for to test how a program handles them: the parser, and the choice of
 * the call or completion that fails. doc/testing.md has the grammar. librnic makes the failures happen; rnicctl checks
 * a specification before sending it.
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
	INJECT_WC,    /* the completion fails, or comes later */
	INJECT_ASYNC, /* an asynchronous event comes with the completion */
	INJECT_GONE,  /* the connection to rnicd breaks with the completion */
	INJECT_POINTS
};

enum inject_side { INJECT_BOTH, INJECT_ACTIVE, INJECT_PASSIVE }; /* the side of a connection that a queue pair is */

#define INJECT_MOST  16u /* rules in one specification */
#define INJECT_TEXT  64u /* bytes of one rule's text */
#define INJECT_LATER -1  /* inject_rule.result of a rule that delays by inject_rule.last_ms and fails nothing */

struct inject_rule {
	enum inject_at at;
	uint32_t ops; /* for completions: the opcodes that count, a set of inject_op_bit() */
	uint32_t qpn; /* the number of the queue pair whose calls or completions count; 0: any */
	enum inject_side side;
	uint64_t nth;    /* the number of the call or completion that fails, from 1; 0: one_in or after_ms applies */
	uint32_t one_in; /* N: each call or completion fails with a chance of 1 in N, drawn from the seed; 0: unused */
	uint32_t after_ms; /* ms from setting the rules to the failure; 0: the failure does not come at a time */
	uint32_t last_ms;  /* ms: how long the failure lasts, or how much later its event comes; 0: not given */
	uint64_t seen;     /* atomic: calls or completions counted so far */
	/*
	 * A call: an errno. A completion: an enum ibv_wc_status. INJECT_ASYNC: an enum ibv_event_type. INJECT_GONE: 1.
	 * A rule that only delays: INJECT_LATER. 0: see `event`.
	 */
	int result;
	int event;              /* an enum rdma_cm_event_type above 0: the call succeeds and this event follows */
	bool refused;           /* for RDMA_CM_EVENT_REJECTED: the reason is that no program listens at the port */
	char text[INJECT_TEXT]; /* the rule as the user wrote it */
};

struct inject_rules {
	struct inject_rule r[INJECT_MOST];
	uint32_t n;
	uint64_t seed;
};

/* The bit of an opcode of enum ibv_wc_opcode. */
uint32_t inject_op_bit(uint32_t opcode);

/* Parses a specification. Returns NULL, or what is wrong with it; *rest is then the part that is wrong. */
const char *inject_parse(struct inject_rules *out, const char *spec, const char **rest);

/* Describes a call, or a completion of a queue pair; opcode, qpn and side are 0 where they mean nothing. */
struct inject_what {
	enum inject_at at;
	uint32_t opcode, qpn;
	enum inject_side side;
};

/*
 * The rule that applies to this call or completion now, or NULL; *count: how many calls or completions the rule has
 * counted. later: looks only at rules of INJECT_LATER; else only at all other rules. May be called from any thread.
 */
const struct inject_rule *inject_hit(struct inject_rules *rules, const struct inject_what *what, bool later,
				     uint64_t *count);

/* The name of the verbs or rdma_cm function that `at` stands for. */
const char *inject_function(enum inject_at at);

#endif
