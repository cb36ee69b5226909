/* SPDX-License-Identifier: BSD-3-Clause */
#include "border/cmd.h"

#include <stdlib.h>

#include "border/bell.h"
#include "ring/spsc.h"

/* A ring of pointers to commands; each worker has one. */
struct cmd_ring {
	struct spsc_prod prod RN_ALIGNED(RN_CACHE_LINE); /* control thread */
	uint32_t unanswered;                             /* control thread: commands without answer yet */
	struct spsc_cons cons RN_ALIGNED(RN_CACHE_LINE); /* worker */
	void *mem;
};

static struct cmd_ring *ring[RNICD_MAX_WORKERS];
static uint32_t n_rings;
static struct cmd *unsent, **unsent_end = &unsent;

_Static_assert(RNICD_MAX_WORKERS <= 32, "a bit for each worker");

void cmd_stop(void)
{
	for (uint32_t i = 0; i < n_rings; i++) {
		free(ring[i]->mem);
		free(ring[i]);
		ring[i] = NULL;
	}
	n_rings = 0;
	unsent = NULL;
	unsent_end = &unsent;
}

bool cmd_start(uint32_t workers)
{
	uint64_t size = spsc_size(CMD_SLOTS, sizeof(struct cmd *));

	for (uint32_t i = 0; i < workers; i++) {
		struct cmd_ring *r = aligned_alloc(RN_CACHE_LINE, sizeof(*r));
		void *mem = aligned_alloc(RN_CACHE_LINE, size);
		if (r == NULL || mem == NULL) {
			free(r);
			free(mem);
			cmd_stop();
			return false;
		}
		memset(mem, 0, size);
		*r = (struct cmd_ring){ .mem = mem };
		ring[i] = r;
		n_rings = i + 1;
		struct spsc_place at = {
			.region = mem, .region_size = size, .nslots = CMD_SLOTS, .slot_size = sizeof(struct cmd *)
		};
		if (spsc_prod_attach(&r->prod, &at) != SPSC_OK || spsc_cons_attach(&r->cons, &at) != SPSC_OK) {
			cmd_stop();
			return false;
		}
	}
	return true;
}

/* ---- control thread ---- */

static bool send_one(struct cmd *c, uint32_t worker)
{
	struct cmd_ring *r = ring[worker];

	if (r->unanswered == CMD_SLOTS)
		return false;
	r->unanswered++; /* this bound leaves a slot here, and later a slot for the answer */
	(void)spsc_prod_free(&r->prod, 1);
	memcpy(spsc_prod_slot(&r->prod, 0), &c, sizeof(c));
	spsc_prod_publish(&r->prod, 1);
	bell_ring(worker);
	return true;
}

/* True: the command has been sent to all its workers. */
static bool send_some(struct cmd *c)
{
	for (; c->unsent != 0; c->unsent &= c->unsent - 1)
		if (!send_one(c, (uint32_t)__builtin_ctz(c->unsent)))
			return false;
	return true;
}

static void send_to(struct cmd *c, uint32_t workers)
{
	c->unsent = workers;
	c->left = (uint32_t)__builtin_popcount(workers);
	c->next = NULL;
	if (unsent == NULL && send_some(c))
		return;
	*unsent_end = c;
	unsent_end = &c->next;
}

void cmd_send(struct cmd *c, uint32_t worker) { send_to(c, 1u << worker); }
void cmd_send_all(struct cmd *c) { send_to(c, (uint32_t)((UINT64_C(1) << n_rings) - 1)); }

void cmd_go_on(void)
{
	while (unsent != NULL && send_some(unsent))
		unsent = unsent->next;
	if (unsent == NULL)
		unsent_end = &unsent;
}

bool cmd_all_answered(void)
{
	for (uint32_t i = 0; i < n_rings; i++)
		if (ring[i]->unanswered > 0)
			return false;
	return unsent == NULL;
}

void cmd_answered(struct cmd *c, uint32_t worker)
{
	ring[worker]->unanswered--;
	if (--c->left == 0 && c->done != NULL)
		c->done(c);
}

/* ---- worker ---- */

struct cmd *cmd_take(uint32_t worker)
{
	struct cmd_ring *r = ring[worker];
	struct cmd *c;

	if (spsc_cons_avail(&r->cons, 1) == 0)
		return NULL;
	memcpy(&c, spsc_cons_slot(&r->cons, 0), sizeof(c));
	spsc_cons_release(&r->cons, 1);
	return c;
}

bool cmd_waits(uint32_t worker) { return spsc_cons_avail(&ring[worker]->cons, 1) != 0; }
