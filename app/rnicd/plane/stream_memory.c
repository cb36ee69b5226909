/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of a worker's streams. It is large and mostly unused. So it is not part of the memory that rnicd has
 * allocated for ports and queue pairs, but consists of ordinary pages, which the kernel provides when they are first
 * touched.
 */
#include <sys/mman.h>

#include "plane/stream_iwarp.h"
#include "plane/worker_int.h"

#define SLOTS flow_slots(WORKER_LISTENERS)

/* Maps memory without touching it. NULL: no memory. */
static void *untouched(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void give_back(void *p, size_t size)
{
	if (p != NULL)
		munmap(p, size);
}

/*
 * Packets that were received ahead of a hole hold buffers, and so do those that wait until an FPDU in pieces has a
 * stage (rc_stage.c). Limits for the packets of each of the two kinds, of all streams of the wire iwarp of a worker
 * together: HOLD_PKTS packets, and one HOLD_SHARE-th of the smallest pool, shared by the workers.
 */
#define HOLD_PKTS  1024u
#define HOLD_SHARE 16u
#define RECS       4096u
#define COPIES     128u
#define WIDE       64u

/* Maps the memory for streams of the wire iwarp. Most of it is not touched before the first such stream. */
static bool iwarp_memory(struct rnicd_worker *w, uint32_t flows, uint32_t mtu)
{
	struct stream_iwarp_ctx *x = untouched(sizeof(*x));
	uint32_t pkts = UINT32_MAX;

	w->streams.iwarp = x;
	if (x == NULL)
		return false;
	for (uint32_t i = 0; i < rnicd.n_ports; i++)
		pkts = rn_min_u32(pkts, rnicd.port[i]->pool->size);
	rc_tcp_cfg_default(&x->cfg, 0, mtu, flows);
	for (uint32_t i = 0; i < rnicd.n_ports; i++)
		x->cfg.tracks |= rnicd.port[i]->n_paths != 0;
	pkts = rn_min_u32(HOLD_PKTS, pkts / HOLD_SHARE / rnicd.cfg.n_workers);
	x->cfg.rnr_pkts = rn_max_u32(pkts, 2); /* half of them are for one user's streams at most */
	x->cfg.hold_pkts = rn_max_u32(pkts, 1);
	x->cfg.rc.wide = WIDE;
	x->cfg.rc.recs = RECS;
	x->cfg.rc.copies = rn_min_u32(x->cfg.rc.copies, COPIES);
	x->cfg.rc.setups = rn_min_u32(flows, IWARP_SETUPS);
	iws_times(&x->cfg.rc);
	x->size = rc_tcp_ctx_size(&x->cfg);
	x->n_mr = 2 * flows + 2;
	x->mem = x->size != 0 ? untouched(x->size) : NULL;
	x->mr = untouched(x->n_mr * sizeof(x->mr[0]));
	x->at = untouched(flows * sizeof(x->at[0]));
	return x->mem != NULL && x->mr != NULL && x->at != NULL;
}

static void iwarp_memory_end(struct rnicd_worker *w)
{
	struct stream_iwarp_ctx *x = w->streams.iwarp;

	if (x == NULL)
		return;
	give_back(x->mem, x->size);
	give_back(x->mr, x->n_mr * sizeof(x->mr[0]));
	give_back(x->at, w->streams.n * sizeof(x->at[0]));
	give_back(x, sizeof(*x));
}

bool stream_start(struct rnicd_worker *w, uint32_t flows, uint32_t mtu)
{
	struct stream_ctx *x = &w->streams;

	rn_wheel_init(&x->wheel, rnicd_now());
	x->n = flows;
	x->at = untouched(flows * sizeof(x->at[0]));
	x->listener = untouched(WORKER_LISTENERS * sizeof(x->listener[0]));
	x->listen_slots = untouched(SLOTS * sizeof(x->listen_slots[0]));
	if (x->at == NULL || x->listener == NULL || x->listen_slots == NULL || !iwarp_memory(w, flows, mtu))
		return false;
	flow_init(&x->listens, x->listen_slots, SLOTS);
	return true;
}

void stream_stop(struct rnicd_worker *w)
{
	give_back(w->streams.at, w->streams.n * sizeof(w->streams.at[0]));
	give_back(w->streams.listener, WORKER_LISTENERS * sizeof(w->streams.listener[0]));
	give_back(w->streams.listen_slots, SLOTS * sizeof(w->streams.listen_slots[0]));
	iwarp_memory_end(w);
}
