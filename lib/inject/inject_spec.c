/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses WHAT[@WHOSE]:WHEN=RESULT[/TIME]. A specification has several of these, separated by commas, and perhaps
 * seed=N; or is "none".
 */
#include "inject/inject_rule.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>

#define ERRNO_MOST  200
#define ONE_IN_MOST 1000000000u
#define TIME_MAX    3600000u /* ms */
#define QPN_MAX     0xffffffu

static const struct {
	const char *name, *function;
	enum inject_at at;
} calls[] = {
	{ "open_device", "ibv_open_device", INJECT_OPEN_DEVICE },
	{ "alloc_pd", "ibv_alloc_pd", INJECT_ALLOC_PD },
	{ "reg_mr", "ibv_reg_mr", INJECT_REG_MR },
	{ "alloc_mw", "ibv_alloc_mw", INJECT_ALLOC_MW },
	{ "create_comp_channel", "ibv_create_comp_channel", INJECT_CREATE_CHANNEL },
	{ "create_cq", "ibv_create_cq", INJECT_CREATE_CQ },
	{ "create_srq", "ibv_create_srq", INJECT_CREATE_SRQ },
	{ "create_qp", "ibv_create_qp", INJECT_CREATE_QP },
	{ "modify_qp", "ibv_modify_qp", INJECT_MODIFY_QP },
	{ "create_ah", "ibv_create_ah", INJECT_CREATE_AH },
	{ "post_send", "ibv_post_send", INJECT_POST_SEND },
	{ "post_recv", "ibv_post_recv", INJECT_POST_RECV },
	{ "post_srq_recv", "ibv_post_srq_recv", INJECT_POST_SRQ_RECV },
	{ "bind_addr", "rdma_bind_addr", INJECT_BIND_ADDR },
	{ "resolve_addr", "rdma_resolve_addr", INJECT_RESOLVE_ADDR },
	{ "resolve_route", "rdma_resolve_route", INJECT_RESOLVE_ROUTE },
	{ "listen", "rdma_listen", INJECT_LISTEN },
	{ "connect", "rdma_connect", INJECT_CONNECT },
	{ "accept", "rdma_accept", INJECT_ACCEPT },
};

#define OPS_SENT UINT32_C(0xffff) /* all opcodes of requests: see inject_op_bit() */

static const struct {
	const char *name;
	enum inject_at at;
	uint32_t first, last; /* enum ibv_wc_opcode: the opcodes that count, added to `ops`; last < first: none */
	uint32_t ops;         /* further opcodes that count: a set of inject_op_bit() */
} completions[] = {
	{ "wc", INJECT_WC, 1, 0, UINT32_MAX },
	{ "wc.sq", INJECT_WC, 1, 0, OPS_SENT },
	{ "wc.send", INJECT_WC, IBV_WC_SEND, IBV_WC_SEND, 0 },
	{ "wc.write", INJECT_WC, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, 0 },
	{ "wc.read", INJECT_WC, IBV_WC_RDMA_READ, IBV_WC_RDMA_READ, 0 },
	{ "wc.atomic", INJECT_WC, IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD, 0 },
	{ "wc.recv", INJECT_WC, IBV_WC_RECV, IBV_WC_RECV_RDMA_WITH_IMM, 0 },
	{ "async", INJECT_ASYNC, 1, 0, UINT32_MAX },
	{ "daemon", INJECT_GONE, 1, 0, UINT32_MAX },
};

static const struct {
	const char *name;
	enum ibv_wc_status status;
} statuses[] = {
	{ "LOC_LEN_ERR", IBV_WC_LOC_LEN_ERR },       { "LOC_QP_OP_ERR", IBV_WC_LOC_QP_OP_ERR },
	{ "LOC_PROT_ERR", IBV_WC_LOC_PROT_ERR },     { "WR_FLUSH_ERR", IBV_WC_WR_FLUSH_ERR },
	{ "MW_BIND_ERR", IBV_WC_MW_BIND_ERR },       { "BAD_RESP_ERR", IBV_WC_BAD_RESP_ERR },
	{ "LOC_ACCESS_ERR", IBV_WC_LOC_ACCESS_ERR }, { "REM_INV_REQ_ERR", IBV_WC_REM_INV_REQ_ERR },
	{ "REM_ACCESS_ERR", IBV_WC_REM_ACCESS_ERR }, { "REM_OP_ERR", IBV_WC_REM_OP_ERR },
	{ "RETRY_EXC_ERR", IBV_WC_RETRY_EXC_ERR },   { "RNR_RETRY_EXC_ERR", IBV_WC_RNR_RETRY_EXC_ERR },
	{ "FATAL_ERR", IBV_WC_FATAL_ERR },           { "GENERAL_ERR", IBV_WC_GENERAL_ERR },
};

/* Events of the connection manager that may follow a call in place of the event of success. */
static const struct {
	enum inject_at at;
	const char *name;
	enum rdma_cm_event_type event;
} followers[] = {
	{ INJECT_RESOLVE_ADDR, "ADDR_ERROR", RDMA_CM_EVENT_ADDR_ERROR },
	{ INJECT_RESOLVE_ROUTE, "ROUTE_ERROR", RDMA_CM_EVENT_ROUTE_ERROR },
	{ INJECT_CONNECT, "REFUSED", RDMA_CM_EVENT_REJECTED },
	{ INJECT_CONNECT, "REJECTED", RDMA_CM_EVENT_REJECTED },
	{ INJECT_CONNECT, "TIMED_OUT", RDMA_CM_EVENT_UNREACHABLE },
	{ INJECT_CONNECT, "UNREACHABLE", RDMA_CM_EVENT_UNREACHABLE },
	{ INJECT_CONNECT, "CONNECT_ERROR", RDMA_CM_EVENT_CONNECT_ERROR },
};

static const struct {
	const char *name;
	enum ibv_event_type event;
} asyncs[] = {
	{ "PORT_ERR", IBV_EVENT_PORT_ERR },
	{ "PORT_ACTIVE", IBV_EVENT_PORT_ACTIVE },
	{ "DEVICE_FATAL", IBV_EVENT_DEVICE_FATAL },
	{ "QP_FATAL", IBV_EVENT_QP_FATAL },
	{ "QP_REQ_ERR", IBV_EVENT_QP_REQ_ERR },
	{ "QP_ACCESS_ERR", IBV_EVENT_QP_ACCESS_ERR },
	{ "QP_LAST_WQE_REACHED", IBV_EVENT_QP_LAST_WQE_REACHED },
	{ "SRQ_LIMIT_REACHED", IBV_EVENT_SRQ_LIMIT_REACHED },
};

const char *inject_function(enum inject_at at)
{
	for (size_t i = 0; i < RN_ARRAY_LEN(calls); i++)
		if (calls[i].at == at)
			return calls[i].function;
	return "";
}

/* ---- words ---- */

static bool is_word(const char *text, size_t len, const char *word)
{
	return strlen(word) == len && memcmp(text, word, len) == 0;
}

static bool what_is(struct inject_rule *r, const char *name, size_t len)
{
	for (size_t i = 0; i < RN_ARRAY_LEN(calls); i++)
		if (is_word(name, len, calls[i].name)) {
			r->at = calls[i].at;
			return true;
		}
	for (size_t i = 0; i < RN_ARRAY_LEN(completions); i++)
		if (is_word(name, len, completions[i].name)) {
			r->at = completions[i].at;
			r->ops = completions[i].ops;
			for (uint32_t op = completions[i].first; op <= completions[i].last; op++)
				r->ops |= inject_op_bit(op);
			return true;
		}
	return false;
}

/* Reads the digits at *p as a number above 0 and moves *p past them. */
static bool number_is(const char **p, uint64_t most, uint64_t *out)
{
	char *end;

	if (**p < '1' || **p > '9')
		return false;
	errno = 0;
	*out = strtoull(*p, &end, 10);
	*p = end;
	return errno == 0 && *out <= most;
}

/* Reads the unit of a time, ms or s. */
static bool unit_is(const char **p, uint64_t n, uint32_t *ms)
{
	const uint64_t each = strncmp(*p, "ms", 2) == 0 ? 1 : **p == 's' ? 1000 : 0;

	*p += each == 1 ? 2 : 1;
	if (each == 0 || n > TIME_MAX / each)
		return false;
	*ms = (uint32_t)(n * each);
	return true;
}

static bool counts_of_a_queue_pair(enum inject_at at)
{
	return at >= INJECT_WC || at == INJECT_POST_SEND || at == INJECT_POST_RECV;
}

static const char *whose_is(struct inject_rule *r, const char **p)
{
	const size_t len = strcspn(*p, ":");
	uint64_t qpn;

	if (!counts_of_a_queue_pair(r->at))
		return "@ may follow only async, daemon, post_send, post_recv or a word that begins with wc";
	if (is_word(*p, len, "active") || is_word(*p, len, "passive")) {
		r->side = **p == 'a' ? INJECT_ACTIVE : INJECT_PASSIVE;
		*p += len;
		return NULL;
	}
	if (!number_is(p, QPN_MAX, &qpn))
		return "after @ comes the number of a queue pair, or its side of the connection: active or passive";
	r->qpn = (uint32_t)qpn;
	return NULL;
}

static const char *when_is(struct inject_rule *r, const char **p)
{
	const bool chance = **p == '?';
	uint64_t n;

	*p += chance;
	if (!number_is(p, INT64_MAX, &n))
		return "after the colon come a number from 1 on, which chooses the call or completion that "
		       "fails, and an equals sign";
	if (chance) {
		r->one_in = (uint32_t)n;
		return n <= ONE_IN_MOST && **p == '=' ? NULL
						      : "after ? come a number N and an equals sign: "
							"one in N fails, by chance";
	}
	if (**p == '=') {
		r->nth = n;
		return NULL;
	}
	if (!unit_is(p, n, &r->after_ms) || **p != '=')
		return "after the number comes an equals sign, or ms= or s= if the number is a time (at most an hour)";
	return r->at == INJECT_ASYNC || r->at == INJECT_GONE ? NULL
							     : "only async and daemon can "
							       "happen at a given time (ms= or s=)";
}

/* ---- results ---- */

static bool result_of_call(struct inject_rule *r, const char *name, size_t len)
{
	for (size_t i = 0; i < RN_ARRAY_LEN(followers); i++)
		if (followers[i].at == r->at && is_word(name, len, followers[i].name)) {
			r->event = (int)followers[i].event;
			r->refused = is_word(name, len, "REFUSED");
			return true;
		}
	if ((r->at == INJECT_POST_RECV || r->at == INJECT_POST_SRQ_RECV) && is_word(name, len, "HELD")) {
		r->result = INJECT_LATER;
		return true;
	}
	for (int e = 1; e < ERRNO_MOST && r->result == 0; e++) {
		const char *is = strerrorname_np(e);
		if (is != NULL && is_word(name, len, is))
			r->result = e;
	}
	return r->result != 0;
}

static bool result_is(struct inject_rule *r, const char *name, size_t len)
{
	if (r->at < INJECT_WC)
		return result_of_call(r, name, len);
	if (r->at == INJECT_WC) {
		if (is_word(name, len, "DELAYED"))
			r->result = INJECT_LATER;
		for (size_t i = 0; i < RN_ARRAY_LEN(statuses); i++)
			if (is_word(name, len, statuses[i].name))
				r->result = (int)statuses[i].status;
	} else if (r->at == INJECT_ASYNC) {
		for (size_t i = 0; i < RN_ARRAY_LEN(asyncs); i++)
			if (is_word(name, len, asyncs[i].name))
				r->result = (int)asyncs[i].event;
	} else {
		r->result = is_word(name, len, "GONE");
	}
	return r->result != 0;
}

static const char *why_no_result(enum inject_at at)
{
	if (at == INJECT_WC)
		return "the result of a completion is the name of a status without IBV_WC_, for example "
		       "RETRY_EXC_ERR, or "
		       "DELAYED/TIME";
	if (at == INJECT_ASYNC)
		return "the result of async is the name of an event without IBV_EVENT_, for example PORT_ERR";
	if (at == INJECT_GONE)
		return "the result of daemon is GONE, or GONE/TIME";
	return "the result of a call is an errno, for example ENOMEM, or an event that may follow the call, "
	       "for example REJECTED; "
	       "for post_recv and post_srq_recv also HELD/TIME";
}

static const char *time_is(struct inject_rule *r, const char *p)
{
	const bool may = r->result == INJECT_LATER || r->event != 0 || r->at == INJECT_GONE;
	uint64_t n;

	if (*p == '\0')
		return r->result != INJECT_LATER ? NULL : "DELAYED and HELD need a time: DELAYED/500ms";
	p++;
	if (!may || !number_is(&p, TIME_MAX, &n) || !unit_is(&p, n, &r->last_ms) || *p != '\0')
		return "/ and a time, for example /500ms or /2s, may follow only DELAYED, HELD, GONE or an event of "
		       "a connection";
	return NULL;
}

/* Parses one rule, whose text is r->text. */
static const char *rule_is(struct inject_rule *r)
{
	const size_t len = strcspn(r->text, "@:");
	const char *p = r->text + len, *wrong = NULL;

	if (!what_is(r, r->text, len))
		return "the first word is open_device, alloc_pd, reg_mr, alloc_mw, create_comp_channel, create_cq, "
		       "create_srq, create_qp, modify_qp, create_ah, post_send, post_recv, post_srq_recv, bind_addr, "
		       "resolve_addr, resolve_route, listen, connect, accept, wc, wc.sq, wc.send, wc.write, wc.read, "
		       "wc.atomic, wc.recv, async, daemon or seed";
	if (*p == '@') {
		p++;
		wrong = whose_is(r, &p);
	}
	if (wrong != NULL)
		return wrong;
	if (*p != ':')
		return "the form is WHAT:N=RESULT, for example reg_mr:1=ENOMEM or wc.write:3=RETRY_EXC_ERR";
	p++;
	wrong = when_is(r, &p);
	if (wrong != NULL)
		return wrong;
	p++;
	const size_t name = strcspn(p, "/");
	return result_is(r, p, name) ? time_is(r, p + name) : why_no_result(r->at);
}

/* Parses seed=N, a text of len bytes. *is: whether the text has this form. Returns NULL, or what is wrong. */
static const char *seed_is(struct inject_rules *out, const char *spec, size_t len, bool *is)
{
	const char *p = spec + strlen("seed=");

	*is = len > strlen("seed=") && strncmp(spec, "seed=", strlen("seed=")) == 0;
	if (!*is)
		return NULL;
	return number_is(&p, UINT64_MAX, &out->seed) && p == spec + len ? NULL : "seed= takes a number from 1 on";
}

const char *inject_parse(struct inject_rules *out, const char *spec, const char **rest)
{
	const char *wrong = NULL;

	*out = (struct inject_rules){ .n = 0 };
	*rest = spec;
	if (strcmp(spec, "none") == 0)
		return NULL;
	for (; wrong == NULL; spec++) {
		struct inject_rule *r = &out->r[out->n];
		const size_t len = strcspn(spec, ",");
		bool seed;

		*rest = spec;
		wrong = seed_is(out, spec, len, &seed);
		if (!seed && out->n == INJECT_MOST)
			return "a specification has at most 16 failures";
		if (!seed && len >= sizeof(r->text))
			return "one failure has at most 63 characters";
		if (!seed) {
			memcpy(r->text, spec, len);
			wrong = rule_is(r);
			out->n++;
		}
		spec += len;
		if (*spec == '\0')
			break;
	}
	return wrong;
}
