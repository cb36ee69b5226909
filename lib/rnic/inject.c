/* SPDX-License-Identifier: BSD-3-Clause */
#include "rnic/inject.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "rnic/later.h"
#include "rnic/say.h"

#define AGAIN_MS    20
#define ORDERS_MOST 1000u /* replaced rule sets are never freed, since other threads may read them: bounded */

bool rnic_injecting;

/* A set of rules. Any thread reads the set that is in force. */
struct rule_set {
	struct inject_rules rules;
	bool sides; /* a rule of the set names a side of connections */
	struct rule_set *before;
};

static struct rule_set first;                                  /* the rules of RNIC_INJECT */
static struct rule_set *in_force = &first;                     /* atomic */
static pthread_mutex_t order_lock = PTHREAD_MUTEX_INITIALIZER; /* guards writes of in_force, and all below */
static uint32_t orders;
static bool (*fire_rule)(const struct inject_rule *r);

static struct rule_set *now_in_force(void) { return __atomic_load_n(&in_force, __ATOMIC_ACQUIRE); }

bool rnic_inject_asks_side(void) { return now_in_force()->sides; }

/* ---- what fails ---- */

struct rnic_injected rnic_inject_at(const struct inject_what *what)
{
	struct inject_rules *rules = &now_in_force()->rules;
	const char *function = inject_function(what->at);
	uint64_t n;
	const struct inject_rule *r = inject_hit(rules, what, false, &n);

	if (r != NULL && r->event != 0) {
		rnic_report("rnic: injected %s: call %llu of %s succeeds, and an event tells of a failure", r->text,
			    (unsigned long long)n, function);
		return (struct rnic_injected){ .event = r->event, .refused = r->refused, .later = r->last_ms };
	}
	if (r != NULL) {
		rnic_report("rnic: injected %s: call %llu of %s fails with %s", r->text, (unsigned long long)n,
			    function, strerrorname_np(r->result));
		return (struct rnic_injected){ .rc = r->result };
	}
	r = inject_hit(rules, what, true, &n);
	if (r == NULL)
		return (struct rnic_injected){ .rc = 0 };
	rnic_report("rnic: injected %s: receives of call %llu of %s, and later ones, reach the device %u ms later",
		    r->text, (unsigned long long)n, function, r->last_ms);
	return (struct rnic_injected){ .later = r->last_ms };
}

int rnic_inject_call(enum inject_at at) { return rnic_inject_at(&(struct inject_what){ .at = at }).rc; }

uint32_t rnic_inject_cqe(const struct inject_what *what, uint64_t wr_id)
{
	uint64_t n;
	const struct inject_rule *r = inject_hit(&now_in_force()->rules, what, false, &n);

	if (r == NULL)
		return IBV_WC_SUCCESS;
	rnic_report("rnic: injected %s: work request 0x%llx of queue pair %u completes with an error", r->text,
		    (unsigned long long)wr_id, what->qpn);
	return (uint32_t)r->result;
}

uint32_t rnic_inject_delay(const struct inject_what *what, uint64_t wr_id)
{
	uint64_t n;
	const struct inject_rule *r = inject_hit(&now_in_force()->rules, what, true, &n);

	if (r == NULL)
		return 0;
	rnic_report("rnic: injected %s: the completion of work request 0x%llx of queue pair %u comes %u ms later",
		    r->text, (unsigned long long)wr_id, what->qpn, r->last_ms);
	return r->last_ms;
}

const struct inject_rule *rnic_inject_beside(const struct inject_what *what)
{
	uint64_t n;
	const struct inject_rule *r = inject_hit(&now_in_force()->rules, what, false, &n);

	if (r != NULL)
		rnic_report("rnic: injected %s: %s with completion %llu", r->text,
			    what->at == INJECT_GONE ? "the connection to rnicd breaks" : "an asynchronous event comes",
			    (unsigned long long)n);
	return r;
}

/* ---- rules that are due at a time ---- */

static void time_is_up(void *set, uint64_t i)
{
	const struct inject_rule *r = &((struct rule_set *)set)->rules.r[i];

	if (set != now_in_force())
		return; /* other rules have replaced the set */
	if (fire_rule(r))
		rnic_report("rnic: injected %s: after %u ms %s", r->text, r->after_ms,
			    r->at == INJECT_GONE ? "the connection to rnicd breaks" : "an asynchronous event comes");
	else
		rnic_later(AGAIN_MS, time_is_up, set, i); /* there is nothing yet to apply the rule to: try again */
}

/* Starts the times of the set's rules, if fire_rule is known. The caller holds order_lock. */
static void times_set(struct rule_set *set)
{
	for (uint32_t i = 0; i < set->rules.n && fire_rule != NULL; i++)
		if (set->rules.r[i].after_ms != 0)
			rnic_later(set->rules.r[i].after_ms, time_is_up, set, i);
}

void rnic_inject_begin(bool (*fire)(const struct inject_rule *r))
{
	pthread_mutex_lock(&order_lock);
	if (fire_rule == NULL) {
		fire_rule = fire;
		times_set(now_in_force());
	}
	pthread_mutex_unlock(&order_lock);
}

/* ---- setting ---- */

static void note_sides(struct rule_set *set)
{
	for (uint32_t i = 0; i < set->rules.n; i++)
		set->sides |= set->rules.r[i].side != INJECT_BOTH;
}

void rnic_inject_order(const char *spec)
{
	const char *rest = "", *wrong = NULL;
	struct rule_set *set = NULL;

	pthread_mutex_lock(&order_lock);
	if (orders < ORDERS_MOST)
		set = calloc(1, sizeof(*set));
	if (set == NULL)
		wrong = "there is no room for more orders";
	else
		wrong = inject_parse(&set->rules, spec, &rest);
	if (wrong != NULL) {
		rnic_report("rnic: what rnicctl inject has sent is wrong at '%.40s': %s", rest, wrong);
		free(set);
	} else {
		note_sides(set);
		set->before = now_in_force();
		orders++;
		rnic_report("rnic: rnicctl inject: from now on %.400s", spec);
		__atomic_store_n(&in_force, set, __ATOMIC_RELEASE);
		times_set(set);
	}
	pthread_mutex_unlock(&order_lock);
}

static void inject_child(void)
{
	pthread_mutex_init(&order_lock, NULL);
	fire_rule = NULL; /* the child's first device starts the times of its rules anew */
}

/* A program that was to be tested must not run untested, so a wrong specification ends the process. */
__attribute__((constructor)) static void inject_start(void)
{
	const char *spec = getenv("RNIC_INJECT"), *rest = "";

	if (spec == NULL || *spec == '\0')
		return;
	const char *wrong = inject_parse(&first.rules, spec, &rest);
	if (wrong != NULL) {
		rnic_report("rnic: RNIC_INJECT is wrong at '%.40s': %s", rest, wrong);
		_exit(2);
	}
	note_sides(&first);
	rnic_injecting = pthread_atfork(NULL, NULL, inject_child) == 0;
}
