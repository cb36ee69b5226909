/* SPDX-License-Identifier: BSD-3-Clause */
#include "border/event.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ring/spsc.h"

/*
 * An event takes as many slots as its bytes need, as most events are short and few carry private data. So the ring can
 * be small. That saves memory, since all pages of the ring become resident as events go round it.
 */
#define SLOT     64u
#define SLOTS    4096u
#define LOSSLESS 2048u /* slots for lossless events alone */
#define DROPPED  512u  /* slots that notifications leave beside these */
#define LONGEST  ((uint32_t)((sizeof(struct event) + SLOT - 1) / SLOT))            /* slots of the longest event */
#define NOTIFY   ((uint32_t)((offsetof(struct event, fx.priv) + SLOT - 1) / SLOT)) /* slots of a CQ's notification */
_Static_assert(LONGEST <= DROPPED && CMD_SLOTS + LOSSLESS + DROPPED + NOTIFY < SLOTS, "each class of events has room");
_Static_assert(offsetof(struct event, fx.priv_len) + 2 <= SLOT && offsetof(struct event, sidr.len) + 4 <= SLOT &&
		       offsetof(struct event, cmd) + sizeof(struct cmd *) <= SLOT,
	       "the first slot says how long the event is; an answer is one slot");

/* Memory beside the ring, for an event that would wrap around the ring's end. */
union aside {
	struct event ev;
	uint8_t slots[LONGEST * SLOT];
};

/* Each worker has a ring, into which it puts events; the control thread takes them. */
struct event_ring {
	struct spsc_prod prod RN_ALIGNED(RN_CACHE_LINE); /* worker */
	struct event *room;                              /* where the worker writes the next event */
	bool told;                                       /* an event was put since the last flush */
	struct spsc_cons cons RN_ALIGNED(RN_CACHE_LINE); /* control thread */
	void *mem;
	union aside written RN_ALIGNED(RN_CACHE_LINE); /* worker */
	union aside read RN_ALIGNED(RN_CACHE_LINE);    /* control thread */
};

static struct event_ring *ring[RNICD_MAX_WORKERS];
static uint32_t n_rings;
static uint32_t control_sleeping; /* 1: the control thread sleeps and control_fd must be written */
/*
 * Used by the control thread only. announced: it has set control_sleeping, and has not taken this back. knocked: a
 * worker has cleared control_sleeping, so control_fd is readable or will be.
 */
static bool announced, knocked;

static void stop(void)
{
	for (uint32_t i = 0; i < n_rings; i++) {
		free(ring[i]->mem);
		free(ring[i]);
		ring[i] = NULL;
	}
	n_rings = 0;
}

static bool start(uint32_t workers)
{
	uint64_t size = spsc_size(SLOTS, SLOT);

	for (uint32_t i = 0; i < workers; i++) {
		struct event_ring *r = aligned_alloc(RN_CACHE_LINE, sizeof(*r));
		void *mem = aligned_alloc(RN_CACHE_LINE, size);
		if (r == NULL || mem == NULL) {
			free(r);
			free(mem);
			return false;
		}
		memset(mem, 0, sizeof(struct spsc_hdr));
		*r = (struct event_ring){ .mem = mem };
		ring[i] = r;
		n_rings = i + 1;
		struct spsc_place at = { .region = mem, .region_size = size, .nslots = SLOTS, .slot_size = SLOT };
		if (spsc_prod_attach(&r->prod, &at) != SPSC_OK || spsc_cons_attach(&r->cons, &at) != SPSC_OK)
			return false;
	}
	return true;
}

bool event_start(uint32_t workers, char *err, uint32_t err_len)
{
	announced = knocked = false;
	rnicd.control_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (rnicd.control_fd < 0) {
		snprintf(err, err_len, "no file descriptors: %s", strerror(errno));
		return false;
	}
	if (start(workers) && cmd_start(workers))
		return true;
	event_stop();
	snprintf(err, err_len, "no memory for the queues between the control thread and the workers");
	return false;
}

void event_stop(void)
{
	cmd_stop();
	stop();
	if (rnicd.control_fd >= 0)
		close(rnicd.control_fd);
	rnicd.control_fd = -1;
}

/* How many slots an event takes. Reads only the event's first slot. */
static uint32_t slots_of(const struct event *ev)
{
	size_t bytes = sizeof(*ev);

	switch (ev->type) {
	case EVENT_ANSWER: return 1;
	case EVENT_FX: bytes = offsetof(struct event, fx.priv) + ev->fx.priv_len; break;
	case EVENT_SIDR: bytes = offsetof(struct event, sidr.body) + ev->sidr.len; break;
	case EVENT_NEIGH: bytes = offsetof(struct event, neigh) + sizeof(ev->neigh); break;
	case EVENT_QUERY: bytes = offsetof(struct event, query) + sizeof(ev->query); break;
	case EVENT_STREAM: bytes = offsetof(struct event, stream) + sizeof(ev->stream); break;
	case EVENT_PATH: bytes = offsetof(struct event, path) + sizeof(ev->path); break;
	}
	return rn_min_u32((uint32_t)(bytes + SLOT - 1) / SLOT, LONGEST);
}

/* ---- worker ---- */

struct event *event_room(uint32_t worker, enum event_class class)
{
	struct event_ring *r = ring[worker];
	const uint32_t want = LONGEST + (class == EVENT_LOSSLESS ? CMD_SLOTS : CMD_SLOTS + LOSSLESS);

	if (spsc_prod_free(&r->prod, want) < want)
		return NULL;
	r->room = spsc_prod_place(&r->prod, 0, LONGEST, &r->written);
	r->room->worker = worker;
	return r->room;
}

uint32_t event_notify_room(uint32_t worker)
{
	const uint32_t kept = CMD_SLOTS + LOSSLESS + DROPPED;
	const uint32_t left = spsc_prod_free(&ring[worker]->prod, SLOTS - SLOTS / 8);

	return left > kept ? (left - kept) / NOTIFY : 0;
}

void event_put(uint32_t worker)
{
	struct event_ring *r = ring[worker];
	const uint32_t n = slots_of(r->room);

	spsc_prod_placed(&r->prod, 0, r->room, &r->written, n * SLOT);
	spsc_prod_publish(&r->prod, n);
	r->told = true;
}

void event_answer(uint32_t worker, struct cmd *c)
{
	struct event_ring *r = ring[worker];

	(void)spsc_prod_free(&r->prod,
			     1); /* other events leave CMD_SLOTS slots free, one for the answer to each command */
	struct event *ev = spsc_prod_slot(&r->prod, 0);
	ev->type = EVENT_ANSWER;
	ev->worker = worker;
	ev->cmd = c;
	r->room = ev;
	event_put(worker);
}

void event_flush(uint32_t worker)
{
	struct event_ring *r = ring[worker];

	if (!r->told)
		return;
	r->told = false;
	/* pairs with the fence in event_prepare_sleep() */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&control_sleeping, __ATOMIC_RELAXED) == 0 ||
	    __atomic_exchange_n(&control_sleeping, 0, __ATOMIC_RELAXED) == 0)
		return;
	uint64_t one = 1;
	/* The write fails only if the counter is full: then the descriptor is readable in any case. */
	if (write(rnicd.control_fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
		return;
}

/* ---- control thread ---- */

/* The oldest event, in one piece; *slots: how many slots it takes. */
static const struct event *next(struct event_ring *r, uint32_t *slots)
{
	const struct event *ev = spsc_cons_slot(&r->cons, 0);

	*slots = slots_of(ev);
	if (rn_likely((r->cons.own & r->cons.mask) + *slots <= SLOTS))
		return ev;
	spsc_cons_copy(&r->cons, 0, &r->read, *slots * SLOT);
	return &r->read.ev;
}

uint32_t event_collect(uint32_t n, void (*take)(const struct event *ev))
{
	static uint32_t turn; /* the worker whose events come first */
	uint32_t k = 0;

	cmd_go_on();
	for (uint32_t i = 0; i < n_rings; i++) {
		struct event_ring *r = ring[(turn + i) % n_rings];
		for (; k < n && spsc_cons_avail(&r->cons, 1) > 0; k++) {
			uint32_t slots;
			const struct event *ev = next(r, &slots);
			if (ev->type == EVENT_ANSWER)
				cmd_answered(ev->cmd, ev->worker);
			else
				take(ev);
			spsc_cons_release(&r->cons, slots);
		}
	}
	turn++;
	return k;
}

/* Takes the announcement back that the control thread sleeps, and notes whether a worker has answered it. */
static void take_back(void)
{
	if (announced && __atomic_exchange_n(&control_sleeping, 0, __ATOMIC_RELAXED) == 0)
		knocked = true;
	announced = false;
}

bool event_prepare_sleep(void)
{
	take_back();
	__atomic_store_n(&control_sleeping, 1, __ATOMIC_RELAXED);
	announced = true;
	/* pairs with the fence in event_flush() */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (uint32_t i = 0; i < n_rings; i++) {
		if (spsc_cons_avail(&ring[i]->cons, 1) > 0) {
			take_back();
			return false;
		}
	}
	return true;
}

void event_awake(void)
{
	uint64_t n;

	take_back();
	/* If the worker writes only after this read, the next sleep ends at once, and this function is called again. */
	if (knocked && read(rnicd.control_fd, &n, sizeof(n)) == (ssize_t)sizeof(n))
		knocked = false;
}
