/* SPDX-License-Identifier: BSD-3-Clause */
#include "rnic/inject.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "rnic/say.h"

bool rnic_injecting;
static struct rnic_inject_rules inject_rules;

/* ---- the specification: WHAT:N=RESULT, several with commas ---- */

#define INJECT_ERRNO_MOST 200

static const struct {
	const char *name, *function;
	enum rnic_inject_at at;
} inject_calls[] = {
	{ "alloc_pd", "ibv_alloc_pd", RNIC_INJECT_ALLOC_PD },
	{ "reg_mr", "ibv_reg_mr", RNIC_INJECT_REG_MR },
	{ "create_cq", "ibv_create_cq", RNIC_INJECT_CREATE_CQ },
	{ "create_qp", "ibv_create_qp", RNIC_INJECT_CREATE_QP },
	{ "resolve_addr", "rdma_resolve_addr", RNIC_INJECT_RESOLVE_ADDR },
	{ "resolve_route", "rdma_resolve_route", RNIC_INJECT_RESOLVE_ROUTE },
	{ "listen", "rdma_listen", RNIC_INJECT_LISTEN },
	{ "connect", "rdma_connect", RNIC_INJECT_CONNECT },
	{ "accept", "rdma_accept", RNIC_INJECT_ACCEPT },
};

static const struct {
	const char *name;
	uint32_t first, last; /* enum ibv_wc_opcode */
} inject_ops[] = {
	{ "wc.send", IBV_WC_SEND, IBV_WC_SEND },
	{ "wc.write", IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE },
	{ "wc.read", IBV_WC_RDMA_READ, IBV_WC_RDMA_READ },
	{ "wc.atomic", IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD },
	{ "wc.recv", IBV_WC_RECV, IBV_WC_RECV_RDMA_WITH_IMM },
};

static const struct {
	const char *name;
	enum ibv_wc_status status;
} inject_statuses[] = {
	{ "LOC_LEN_ERR", IBV_WC_LOC_LEN_ERR },       { "LOC_QP_OP_ERR", IBV_WC_LOC_QP_OP_ERR },
	{ "LOC_PROT_ERR", IBV_WC_LOC_PROT_ERR },     { "WR_FLUSH_ERR", IBV_WC_WR_FLUSH_ERR },
	{ "MW_BIND_ERR", IBV_WC_MW_BIND_ERR },       { "BAD_RESP_ERR", IBV_WC_BAD_RESP_ERR },
	{ "LOC_ACCESS_ERR", IBV_WC_LOC_ACCESS_ERR }, { "REM_INV_REQ_ERR", IBV_WC_REM_INV_REQ_ERR },
	{ "REM_ACCESS_ERR", IBV_WC_REM_ACCESS_ERR }, { "REM_OP_ERR", IBV_WC_REM_OP_ERR },
	{ "RETRY_EXC_ERR", IBV_WC_RETRY_EXC_ERR },   { "RNR_RETRY_EXC_ERR", IBV_WC_RNR_RETRY_EXC_ERR },
	{ "FATAL_ERR", IBV_WC_FATAL_ERR },           { "GENERAL_ERR", IBV_WC_GENERAL_ERR },
};

/* Events in the place of a call's success. */
static const struct {
	enum rnic_inject_at at;
	const char *name;
	enum rdma_cm_event_type event;
} inject_events[] = {
	{ RNIC_INJECT_RESOLVE_ADDR, "ADDR_ERROR", RDMA_CM_EVENT_ADDR_ERROR },
	{ RNIC_INJECT_RESOLVE_ROUTE, "ROUTE_ERROR", RDMA_CM_EVENT_ROUTE_ERROR },
	{ RNIC_INJECT_CONNECT, "REJECTED", RDMA_CM_EVENT_REJECTED },
	{ RNIC_INJECT_CONNECT, "UNREACHABLE", RDMA_CM_EVENT_UNREACHABLE },
	{ RNIC_INJECT_CONNECT, "CONNECT_ERROR", RDMA_CM_EVENT_CONNECT_ERROR },
};

static const struct {
	const char *name;
	enum ibv_event_type event;
} inject_asyncs[] = {
	{ "PORT_ERR", IBV_EVENT_PORT_ERR },
	{ "PORT_ACTIVE", IBV_EVENT_PORT_ACTIVE },
	{ "DEVICE_FATAL", IBV_EVENT_DEVICE_FATAL },
	{ "QP_FATAL", IBV_EVENT_QP_FATAL },
	{ "QP_REQ_ERR", IBV_EVENT_QP_REQ_ERR },
	{ "QP_ACCESS_ERR", IBV_EVENT_QP_ACCESS_ERR },
	{ "QP_LAST_WQE_REACHED", IBV_EVENT_QP_LAST_WQE_REACHED },
	{ "SRQ_LIMIT_REACHED", IBV_EVENT_SRQ_LIMIT_REACHED },
};

/* A bit for each opcode: those of requests, then those of receives (IBV_WC_RECV and more). */
uint32_t rnic_inject_op(uint32_t opcode)
{
	uint32_t bit = (opcode & IBV_WC_RECV) != 0 ? 16 + (opcode & 15) : opcode & 15;

	return UINT32_C(1) << bit;
}

static bool inject_what(struct rnic_inject_rule *r, const char *name)
{
	for (size_t i = 0; i < sizeof(inject_calls) / sizeof(inject_calls[0]); i++)
		if (strcmp(name, inject_calls[i].name) == 0) {
			r->at = inject_calls[i].at;
			return true;
		}
	r->at = strcmp(name, "async") == 0    ? RNIC_INJECT_ASYNC
		: strcmp(name, "daemon") == 0 ? RNIC_INJECT_GONE
					      : RNIC_INJECT_WC;
	r->ops = r->at != RNIC_INJECT_WC || strcmp(name, "wc") == 0 ? UINT32_MAX : 0;
	for (size_t i = 0; i < sizeof(inject_ops) / sizeof(inject_ops[0]); i++)
		for (uint32_t op = inject_ops[i].first;
		     strcmp(name, inject_ops[i].name) == 0 && op <= inject_ops[i].last; op++)
			r->ops |= rnic_inject_op(op);
	return r->ops != 0;
}

static bool inject_result(struct rnic_inject_rule *r, const char *name)
{
	if (r->at == RNIC_INJECT_WC) {
		for (size_t i = 0; i < sizeof(inject_statuses) / sizeof(inject_statuses[0]); i++)
			if (strcmp(name, inject_statuses[i].name) == 0)
				r->result = (int)inject_statuses[i].status;
		return r->result != 0;
	}
	if (r->at == RNIC_INJECT_ASYNC) {
		for (size_t i = 0; i < sizeof(inject_asyncs) / sizeof(inject_asyncs[0]); i++)
			if (strcmp(name, inject_asyncs[i].name) == 0)
				r->result = (int)inject_asyncs[i].event;
		return r->result != 0;
	}
	if (r->at == RNIC_INJECT_GONE)
		return (r->result = strcmp(name, "GONE") == 0) != 0;
	for (size_t i = 0; i < sizeof(inject_events) / sizeof(inject_events[0]); i++)
		if (inject_events[i].at == r->at && strcmp(name, inject_events[i].name) == 0)
			r->event = (int)inject_events[i].event;
	if (r->event != 0)
		return true;
	for (int e = 1; e < INJECT_ERRNO_MOST && r->result == 0; e++) {
		const char *is = strerrorname_np(e);
		if (is != NULL && strcmp(name, is) == 0)
			r->result = e;
	}
	return r->result != 0;
}

/* The digits at *p as a number above 0; *p is then behind them. */
static bool inject_number(const char **p, uint64_t most, uint64_t *out)
{
	char *end;

	if (**p < '1' || **p > '9')
		return false;
	errno = 0;
	*out = strtoull(*p, &end, 10);
	*p = end;
	return errno == 0 && *out <= most;
}

/* One rule, which is r->text. */
static const char *inject_rule(struct rnic_inject_rule *r)
{
	char name[sizeof(r->text)];
	const size_t len = strcspn(r->text, "@:");
	const char *p = r->text + len;
	uint64_t qpn;

	memcpy(name, r->text, len);
	name[len] = '\0';
	if (!inject_what(r, name))
		return "the first word is alloc_pd, reg_mr, create_cq, create_qp, resolve_addr, resolve_route, listen, "
		       "connect, accept, wc, wc.send, wc.write, wc.read, wc.atomic, wc.recv, async or daemon";
	if (*p == '@') {
		p++;
		if (r->at < RNIC_INJECT_WC || !inject_number(&p, 0xffffff, &qpn))
			return "@ and the number of a queue pair go behind async, daemon or a word that begins with wc";
		r->qpn = (uint32_t)qpn;
	}
	if (*p != ':')
		return "the form is WHAT:N=RESULT, for example reg_mr:1=ENOMEM or wc.write:3=RETRY_EXC_ERR";
	p++;
	if (!inject_number(&p, INT64_MAX, &r->nth) || *p != '=')
		return "behind the colon stand a number from 1 on, which says the one that fails, and an equals sign";
	if (inject_result(r, p + 1))
		return NULL;
	if (r->at == RNIC_INJECT_WC)
		return "the result of a completion is the name of a status without IBV_WC_, as RETRY_EXC_ERR";
	if (r->at == RNIC_INJECT_ASYNC)
		return "the result of async is the name of an event without IBV_EVENT_, as PORT_ERR";
	if (r->at == RNIC_INJECT_GONE)
		return "the result of daemon is GONE";
	return "the result of a call is the name of an errno, as ENOMEM, or an event that may follow it, as REJECTED";
}

const char *rnic_inject_parse(struct rnic_inject_rules *out, const char *spec, const char **rest)
{
	const char *wrong = NULL;

	*out = (struct rnic_inject_rules){ .n = 0 };
	while (wrong == NULL) {
		struct rnic_inject_rule *r = &out->r[out->n];
		const size_t len = strcspn(spec, ",");

		*rest = spec;
		if (out->n == RNIC_INJECT_MOST)
			return "there are at most 16 failures";
		if (len >= sizeof(r->text))
			return "one failure has at most 39 characters";
		memcpy(r->text, spec, len);
		wrong = inject_rule(r);
		out->n++;
		if (spec[len] == '\0')
			break;
		spec += len + 1;
	}
	return wrong;
}

/* ---- what fails ---- */

const struct rnic_inject_rule *rnic_inject_hit(struct rnic_inject_rules *rules, enum rnic_inject_at at, uint32_t opcode,
					       uint32_t qpn)
{
	const struct rnic_inject_rule *hit = NULL;

	for (uint32_t i = 0; i < rules->n; i++) {
		struct rnic_inject_rule *r = &rules->r[i];
		if (r->at != at || (at >= RNIC_INJECT_WC &&
				    ((r->ops & rnic_inject_op(opcode)) == 0 || (r->qpn != 0 && r->qpn != qpn))))
			continue;
		if (__atomic_add_fetch(&r->seen, 1, __ATOMIC_RELAXED) == r->nth && hit == NULL)
			hit = r;
	}
	return hit;
}

int rnic_inject_call(enum rnic_inject_at at, int *event)
{
	const struct rnic_inject_rule *r = rnic_inject_hit(&inject_rules, at, 0, 0);
	const char *function = "";

	if (r == NULL)
		return 0;
	for (size_t i = 0; i < sizeof(inject_calls) / sizeof(inject_calls[0]); i++)
		if (inject_calls[i].at == at)
			function = inject_calls[i].function;
	if (r->event != 0) {
		rnic_report("rnic: injected %s: after call %llu of %s an event tells a failure", r->text,
			    (unsigned long long)r->nth, function);
		*event = r->event;
		return 0;
	}
	rnic_report("rnic: injected %s: call %llu of %s fails with %s", r->text, (unsigned long long)r->nth, function,
		    strerrorname_np(r->result));
	return r->result;
}

uint32_t rnic_inject_cqe(uint32_t opcode, uint32_t qpn, uint64_t wr_id)
{
	const struct rnic_inject_rule *r = rnic_inject_hit(&inject_rules, RNIC_INJECT_WC, opcode, qpn);

	if (r == NULL)
		return IBV_WC_SUCCESS;
	rnic_report("rnic: injected %s: work request 0x%llx of queue pair %u completes with an error", r->text,
		    (unsigned long long)wr_id, qpn);
	return (uint32_t)r->result;
}

int rnic_inject_async(uint32_t opcode, uint32_t qpn)
{
	const struct rnic_inject_rule *r = rnic_inject_hit(&inject_rules, RNIC_INJECT_ASYNC, opcode, qpn);

	if (r == NULL)
		return 0;
	rnic_report("rnic: injected %s: an asynchronous event comes with completion %llu", r->text,
		    (unsigned long long)r->nth);
	return r->result;
}

bool rnic_inject_gone(uint32_t opcode, uint32_t qpn)
{
	const struct rnic_inject_rule *r = rnic_inject_hit(&inject_rules, RNIC_INJECT_GONE, opcode, qpn);

	if (r != NULL)
		rnic_report("rnic: injected %s: the connection to rnicd breaks with completion %llu", r->text,
			    (unsigned long long)r->nth);
	return r != NULL;
}

/* A program that was to be tested must not run untested: a wrong specification ends the process. */
__attribute__((constructor)) static void inject_start(void)
{
	const char *spec = getenv("RNIC_INJECT"), *rest = "";

	if (spec == NULL || *spec == '\0')
		return;
	const char *wrong = rnic_inject_parse(&inject_rules, spec, &rest);
	if (wrong != NULL) {
		rnic_report("rnic: RNIC_INJECT is wrong at '%.40s': %s", rest, wrong);
		_exit(2);
	}
	rnic_injecting = true;
}
