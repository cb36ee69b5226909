/* SPDX-License-Identifier: BSD-3-Clause */
#include "rnic/sanitize.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/rn_list.h"
#include "rnic/say.h"

#define ACK_WAIT_S 5
#define BUCKETS    1024u

bool rnic_sanitizing;
struct rnic_sanitize_options rnic_sanitize;

static pthread_mutex_t sanitize_lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below; no lock is taken under it */
static uint32_t findings[RNIC_FINDINGS];
static struct rn_list left[BUCKETS]; /* struct left_object, hashed by address: objects not yet destroyed */
static uint32_t nleft[RNIC_OBJECTS];

struct left_object {
	struct rn_link link;
	enum rnic_object kind;
	const void *object;
};

static const struct {
	const char *what, *end; /* what: the objects; end: the call that destroys one */
} objects[RNIC_OBJECTS] = {
	[RNIC_OBJ_CONTEXT] = { "device contexts", "ibv_close_device" },
	[RNIC_OBJ_PD] = { "protection domains", "ibv_dealloc_pd" },
	[RNIC_OBJ_MR] = { "memory regions", "ibv_dereg_mr" },
	[RNIC_OBJ_MW] = { "memory windows", "ibv_dealloc_mw" },
	[RNIC_OBJ_CHANNEL] = { "completion channels", "ibv_destroy_comp_channel" },
	[RNIC_OBJ_CQ] = { "completion queues", "ibv_destroy_cq" },
	[RNIC_OBJ_SRQ] = { "shared receive queues", "ibv_destroy_srq" },
	[RNIC_OBJ_QP] = { "queue pairs", "ibv_destroy_qp or rdma_destroy_qp" },
	[RNIC_OBJ_AH] = { "address handles", "ibv_destroy_ah" },
	[RNIC_OBJ_CM_CHANNEL] = { "event channels", "rdma_destroy_event_channel" },
	[RNIC_OBJ_CM_ID] = { "connection manager ids", "rdma_destroy_id" },
};

/* ---- findings ---- */

void rnic_finding(enum rnic_finding kind, const char *fmt, ...)
{
	char line[400];
	va_list ap;

	pthread_mutex_lock(&sanitize_lock);
	const uint32_t n = ++findings[kind];
	pthread_mutex_unlock(&sanitize_lock);
	if (n > RNIC_SANITIZE_LINES)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	rnic_report("rnic: sanitize: %s%s", line,
		    n == RNIC_SANITIZE_LINES ? " (the next ones of this kind are only counted)" : "");
}

void rnic_ack_wait(pthread_cond_t *cond, pthread_mutex_t *lock, const char *call)
{
	struct timespec until;

	if (rn_likely(!rnic_sanitizing)) {
		pthread_cond_wait(cond, lock);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ACK_WAIT_S;
	if (pthread_cond_clockwait(cond, lock, CLOCK_MONOTONIC, &until) == 0)
		return;
	rnic_finding(RNIC_FIND_ACK,
		     "%s: waits for the acknowledgement of an event of this object: call ibv_ack_cq_events, "
		     "ibv_ack_async_event or rdma_ack_cm_event for each event that was got",
		     call);
	pthread_cond_wait(cond, lock);
}

/* ---- objects ---- */

static struct rn_list *bucket_of(const void *object) { return &left[((uintptr_t)object >> 4) % BUCKETS]; }

void rnic_object_made(enum rnic_object kind, const void *object)
{
	struct left_object *o = malloc(sizeof(*o));

	if (o == NULL) /* no memory to note the object: it is not reported at the end */
		return;
	*o = (struct left_object){ .kind = kind, .object = object };
	pthread_mutex_lock(&sanitize_lock);
	rn_list_push_front(bucket_of(object), &o->link);
	nleft[kind]++;
	pthread_mutex_unlock(&sanitize_lock);
}

void rnic_object_gone(enum rnic_object kind, const void *object)
{
	struct rn_list *l = bucket_of(object);

	pthread_mutex_lock(&sanitize_lock);
	rn_list_each(struct left_object, o, l, link) {
		if (o->object != object || o->kind != kind)
			continue;
		rn_list_remove(l, &o->link);
		nleft[kind]--;
		free(o);
		break;
	}
	pthread_mutex_unlock(&sanitize_lock);
}

/* ---- the end ---- */

static void leaks_tell(void)
{
	for (uint32_t k = 0; k < RNIC_OBJECTS; k++)
		if (nleft[k] > 0)
			rnic_finding(RNIC_FIND_LEAK, "exit: %s that were never destroyed: %u: call %s for each",
				     objects[k].what, nleft[k], objects[k].end);
}

/*
 * At exit. A program that ends with an error status need not destroy its objects. With findings, _exit() ends the
 * process with RNIC_SANITIZE_STATUS; as _exit() does not flush stdio's buffers, they are flushed before.
 */
static void sanitize_end(int status, void *arg)
{
	uint32_t n = 0;

	(void)arg;
	if (status == 0)
		leaks_tell();
	for (uint32_t k = 0; k < RNIC_FINDINGS; k++)
		n += findings[k];
	if (n == 0)
		return;
	rnic_report("rnic: sanitize: findings: %u", n);
	if (status != 0)
		return;
	fflush(NULL);
	_exit(RNIC_SANITIZE_STATUS);
}

/* After fork(): the parent's objects and findings are not the child's. */
static void sanitize_child(void)
{
	pthread_mutex_init(&sanitize_lock, NULL);
	memset(findings, 0, sizeof(findings));
	memset(nleft, 0, sizeof(nleft));
	memset(left, 0, sizeof(left));
}

/* ---- the start ---- */

/* One word of the specification, of len characters. */
static bool sanitize_word(struct rnic_sanitize_options *out, const char *word, size_t len)
{
	char *end;

	if (len == 2 && memcmp(word, "ib", len) == 0) {
		out->ib = true;
		return true;
	}
	if (len == 5 && memcmp(word, "iwarp", len) == 0)
		return true;
	if (*word < '1' || *word > '9')
		return false;
	errno = 0;
	out->seed = strtoull(word, &end, 10);
	return errno == 0 && end == word + len;
}

const char *rnic_sanitize_parse(struct rnic_sanitize_options *out, const char *spec)
{
	*out = (struct rnic_sanitize_options){ .seed = 0 };
	for (;; spec++) {
		const size_t len = strcspn(spec, ",");
		if (!sanitize_word(out, spec, len))
			return "the words are iwarp, ib, and a number from 1 on, with commas";
		spec += len;
		if (*spec == '\0')
			return NULL;
	}
}

/* A program that was to be tested must not run untested, so a wrong value ends the process. */
__attribute__((constructor)) static void sanitize_start(void)
{
	const char *spec = getenv("RNIC_SANITIZE");

	if (spec == NULL || *spec == '\0')
		return;
	const char *wrong = rnic_sanitize_parse(&rnic_sanitize, spec);
	if (wrong != NULL) {
		rnic_report("rnic: RNIC_SANITIZE is wrong at '%.40s': %s", spec, wrong);
		_exit(2);
	}
	rnic_sanitizing = on_exit(sanitize_end, NULL) == 0 && pthread_atfork(NULL, NULL, sanitize_child) == 0;
}
