/* SPDX-License-Identifier: BSD-3-Clause */
#include "rnic/later.h"

#include "rnic/common.h"

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

struct wish {
	struct rn_link link;
	uint64_t due; /* ns, CLOCK_MONOTONIC */
	void (*run)(void *object, uint64_t arg);
	void *object;
	uint64_t arg;
};

static pthread_mutex_t later_lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static pthread_cond_t later_cond = PTHREAD_COND_INITIALIZER;   /* a wish was added, or one is done */
static struct rn_list wishes;
static const void *being_done; /* the object of the wish that runs now */
static bool runs, hooked;

static struct wish *soonest(void)
{
	struct wish *first = NULL;

	rn_list_each(struct wish, w, &wishes, link) {
		if (first == NULL || w->due < first->due)
			first = w;
	}
	return first;
}

/* The caller holds later_lock, which is released while w->run() runs. */
static void wish_do(struct wish *w)
{
	rn_list_remove(&wishes, &w->link);
	being_done = w->object;
	pthread_mutex_unlock(&later_lock);
	w->run(w->object, w->arg);
	free(w);
	pthread_mutex_lock(&later_lock);
	being_done = NULL;
	pthread_cond_broadcast(&later_cond);
}

static void *wishes_do(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&later_lock);
	for (;;) {
		struct wish *w = soonest();
		if (w != NULL && w->due <= rnic_clock(CLOCK_MONOTONIC)) {
			wish_do(w);
			continue;
		}
		if (w == NULL) {
			pthread_cond_wait(&later_cond, &later_lock);
			continue;
		}
		const struct timespec until = { .tv_sec = (time_t)(w->due / NS_PER_S),
						.tv_nsec = (long)(w->due % NS_PER_S) };
		pthread_cond_clockwait(&later_cond, &later_lock, CLOCK_MONOTONIC, &until);
	}
	return NULL;
}

/* After fork(): the child has not inherited the thread, and the wishes are the parent's. */
static void later_child(void)
{
	pthread_mutex_init(&later_lock, NULL);
	pthread_cond_init(&later_cond, NULL);
	memset(&wishes, 0, sizeof(wishes));
	being_done = NULL;
	runs = false;
}

static void later_prepare(void) { pthread_mutex_lock(&later_lock); }
static void later_parent(void) { pthread_mutex_unlock(&later_lock); }

bool rnic_later(uint32_t ms, void (*run)(void *object, uint64_t arg), void *object, uint64_t arg)
{
	struct wish *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return false;
	*w = (struct wish){
		.due = rnic_clock(CLOCK_MONOTONIC) + ms * NS_PER_MS, .run = run, .object = object, .arg = arg
	};
	pthread_mutex_lock(&later_lock);
	if (!hooked)
		hooked = pthread_atfork(later_prepare, later_parent, later_child) == 0;
	if (!runs)
		runs = hooked && rnic_thread(wishes_do, NULL) == 0;
	const bool done = runs;
	if (done)
		rn_list_push_back(&wishes, &w->link);
	else
		free(w);
	pthread_cond_broadcast(&later_cond);
	pthread_mutex_unlock(&later_lock);
	return done;
}

void rnic_later_forget(const void *object)
{
	pthread_mutex_lock(&later_lock);
	while (being_done == object) /* before the search: the running function may add another wish */
		pthread_cond_wait(&later_cond, &later_lock);
	rn_list_each(struct wish, w, &wishes, link) {
		if (w->object != object)
			continue;
		rn_list_remove(&wishes, &w->link);
		free(w);
	}
	pthread_mutex_unlock(&later_lock);
}
