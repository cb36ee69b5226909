/* SPDX-License-Identifier: BSD-3-Clause */
#define ALLOW_EXPERIMENTAL_API /* DPDK's calls that fill an interrupt handle */
#include "plane/intr_thread.h"

#include <errno.h>
#include <semaphore.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_interrupts.h>

struct intr_call {
	void (*fn)(void *);
	void *arg;
	sem_t done;
};

static void intr_call_run(void *arg)
{
	struct intr_call *c = arg;

	c->fn(c->arg);
	sem_post(&c->done);
}

static void intr_wait(sem_t *sem)
{
	while (sem_wait(sem) != 0 && errno == EINTR)
		;
}

void intr_thread_run(void (*fn)(void *), void *arg)
{
	struct intr_call c = { .fn = fn, .arg = arg };

	sem_init(&c.done, 0, 0);
	if (rte_eal_alarm_set(1, intr_call_run, &c) == 0)
		intr_wait(&c.done);
	else
		fn(arg);
	sem_destroy(&c.done);
}

/* ---- the end ---- */

static sem_t at_rest;

static void intr_rest(void *arg)
{
	(void)arg;
	sem_post(&at_rest);
	for (;;)
		pause();
}

/* Makes a source that interrupts at once. False: no memory, or no descriptor. */
static bool intr_last_source(void)
{
	struct rte_intr_handle *h = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	const int fd = eventfd(1, EFD_CLOEXEC);
	const bool made = h != NULL && fd >= 0 && rte_intr_fd_set(h, fd) == 0 &&
			  rte_intr_type_set(h, RTE_INTR_HANDLE_EXT) == 0 &&
			  rte_intr_callback_register(h, intr_rest, NULL) == 0; /* which copies the handle */

	rte_intr_instance_free(h);
	return made;
}

/* Not by an alarm: rte_eal_cleanup() waits until no alarm is under way. */
void intr_thread_end(void)
{
	sem_init(&at_rest, 0, 0);
	if (intr_last_source())
		intr_wait(&at_rest);
}
