/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocates and frees the memory of a worker, on the NUMA node of the worker's CPU. */
#include <errno.h>
#include <stdio.h>

#include <rte_lcore.h>
#include <rte_malloc.h>

#include "plane/pool.h"
#include "plane/port.h"
#include "plane/worker_int.h"

#define FLOWS_DEFAULT 4096u
#define MOVED_RING    1024u
#define SMALL_BUFFERS 8191u
#define BLOCKS_MIN    64u
#define RECS_MAX      65536u
#define RNR_SHARE     8u /* one packet buffer in RNR_SHARE may hold a message that waits for a receive */
#define HOLD_SHARE    2u /* one packet buffer in HOLD_SHARE may hold a packet that came ahead of a hole */
#define WIDE_BLOCKS   64u
#define LATE_SHARE    16u /* one packet buffer in LATE_SHARE may hold a frame to a group that waits for a later turn */
#define LATE_MOST     1024u
/* BBR goes on sending while holes are repaired: a window of bytes and their retransmissions are under way at once */
#define RATES_CHUNKS 2048u
#define SMALL_ROOM   (RTE_PKTMBUF_HEADROOM + 128u)
#define SMALL_CACHE  256u

/* Makes a ring of frames into which any worker may put frames. */
static struct rte_ring *make_ring(const struct rnicd_worker *w, const char *what)
{
	char name[RTE_RING_NAMESIZE];

	snprintf(name, sizeof(name), "w%u_%s", w->index, what);
	return rte_ring_create(name, MOVED_RING, w->socket, RING_F_SC_DEQ);
}

static bool worker_create_make_rings(struct rnicd_worker *w)
{
	w->sh.rx_moved = make_ring(w, "rx");
	w->sh.tx_moved = make_ring(w, "tx");
	return w->sh.rx_moved != NULL && w->sh.tx_moved != NULL;
}

static void *worker_create_take(const struct rnicd_worker *w, const char *what, size_t size)
{
	return rte_zmalloc_socket(what, size, RN_CACHE_LINE, w->socket);
}

/* One of `parts` equal parts of the packet buffers of the port that has the fewest; at least 1. */
static uint32_t pool_share(uint32_t parts)
{
	uint32_t least = UINT32_MAX;

	for (uint32_t i = 0; i < rnicd.n_ports; i++)
		least = rn_min_u32(least, rnicd.port[i]->pool->size);
	return rn_max_u32(least / parts, 1);
}

static bool make_tables(struct rnicd_worker *w)
{
	uint32_t flows = rnicd.cfg.flows != 0 ? rnicd.cfg.flows : FLOWS_DEFAULT;
	uint32_t slots = flow_slots(flows), lslots = flow_slots(WORKER_LISTENERS);
	uint32_t mtu = 0;
	char name[RTE_MEMPOOL_NAMESIZE];
	struct rc_tcp_cfg cfg;

	for (uint32_t i = 0; i < rnicd.n_ports; i++)
		mtu = rn_max_u32(mtu, rnicd.port[i]->mtu);
	w->n_conns = flows;
	w->conns = worker_create_take(w, "conns", flows * sizeof(w->conns[0]));
	w->flow_slots = worker_create_take(w, "flows", slots * sizeof(struct flow_slot));
	w->listen_slots = worker_create_take(w, "listeners", lslots * sizeof(struct flow_slot));
	w->ud_slots = worker_create_take(w, "datagrams", slots * sizeof(struct ud_qp *));
	snprintf(name, sizeof(name), "w%u_small", w->index);
	w->small_pool = pool_create(
		name, &(struct pool_size){ .n = SMALL_BUFFERS, .cache = SMALL_CACHE, .room = SMALL_ROOM }, w->socket);

	/* A connection has a block only while bytes are under way, so there may be fewer blocks than connections. */
	uint64_t budget = rnicd_free_memory() / 4 / rnicd.cfg.n_workers + ((uint64_t)rnicd.cfg.work_mb << 20);
	rc_tcp_cfg_default(&cfg, w->index, mtu, flows);
	if (rnicd.cfg.work_mb != 0)
		cfg.rc.recs = rn_max_u32(cfg.rc.recs, rn_min_u32(flows, RECS_MAX));
	cfg.rnr_pkts = pool_share(RNR_SHARE * rnicd.cfg.n_workers);
	cfg.hold_pkts = pool_share(HOLD_SHARE * rnicd.cfg.n_workers);
	w->late_free = rn_min_u32(pool_share(LATE_SHARE * rnicd.cfg.n_workers), LATE_MOST);
	cfg.rc.wide = WIDE_BLOCKS;
	for (uint32_t i = 0; i < rnicd.n_ports; i++) {
		cfg.rates |= rnicd.port[i]->cfg->congestion == RNICD_BBR;
		cfg.tracks |= rnicd.port[i]->n_paths != 0;
	}
	if (cfg.rates)
		cfg.rc.chunks = RATES_CHUNKS;
	while (cfg.rc.blocks > BLOCKS_MIN && rc_tcp_ctx_size(&cfg) > budget)
		cfg.rc.blocks -= cfg.rc.blocks / 16;
	if (cfg.rc.blocks < flows)
		cfg.rc.blk_share = cfg.rc.blocks - cfg.rc.blocks / 8;
	rnicd.setups = rn_min_u32(cfg.rc.setups, cfg.rc.blocks); /* the same for each worker */
	uint64_t size = rc_tcp_ctx_size(&cfg);
	w->qp_mem = size == 0 ? NULL : worker_create_take(w, "qp", size);
	if (w->conns == NULL || w->flow_slots == NULL || w->listen_slots == NULL || w->ud_slots == NULL ||
	    w->small_pool == NULL || w->qp_mem == NULL || rc_tcp_ctx_init(&w->tcp, &cfg, w->qp_mem, size) != QP_OK ||
	    !stream_start(w, flows, mtu))
		return false;
	w->dgram.qp = &w->tcp.rc.qp;
	w->dgram.timeout = rnicd.cfg.record_timeout_ns;
	w->dgram.linger = rnicd.cfg.record_linger_ns;
	flow_init(&w->flows, w->flow_slots, slots);
	flow_init(&w->listens, w->listen_slots, lslots);
	w->uds = (struct ud_table){ .slot = w->ud_slots, .mask = slots - 1, .max = flows };
	return true;
}

static bool make_port_side(struct rnicd_worker *w, struct rnicd_port *port)
{
	struct port_tx *t = &w->tx[port->index];
	uint32_t owner = w->index % port->caps.queues;

	t->port = port;
	t->st = &port->stats[w->index];
	t->queue = (uint16_t)owner;
	t->wake = RN_NEVER;
	for (uint32_t i = 0; i < port->n_paths; i++)
		t->path[t->n_paths++] = &w->tx[port->path[i]->index];
	if (owner != w->index) {
		/* the owner does shaping and impairment; workers are created in order, so the owner exists already */
		t->through = worker_at[owner]->sh.tx_moved;
	} else {
		shape_init(&t->shape, &port->shape_tat, port->cfg->rate_bps);
		if (impair_wanted(&port->cfg->impair)) {
			t->impair = impair_create(&port->cfg->impair, w->index, port->pool, w->socket);
			if (t->impair == NULL)
				return false;
		}
	}
	if (port->of != NULL)
		return true; /* a path uses the neighbour table of its port */
	w->arp[port->index] = arp_create(port, t->st, w->socket);
	return w->arp[port->index] != NULL;
}

/*
 * The descriptor of a tap is the tap itself. Frames may be left in it after a poll, so the watch must be
 * level-triggered. Other ports' descriptors are eventfds that are never read, so their watch is edge-triggered.
 */
void worker_port_fd(struct rnicd_worker *w, const struct rnicd_port *port)
{
	if (port->caps.wire_mem || port->n_paths != 0 || w->index >= port->caps.queues)
		return;
	int fd = port_rx_fd(port, (uint16_t)w->index);
	if (fd < 0 || !bell_watch(w->index, fd, port->cfg->kind == RNICD_PORT_TAP ? EPOLLIN : EPOLLIN | EPOLLET))
		w->blind_ports |= 1u << port->index;
	else
		w->blind_ports &= ~(1u << port->index);
}

/* Adds what wakes a sleeping worker: its own eventfd and the receive interrupts of its ports. */
static bool make_fds(struct rnicd_worker *w)
{
	if (!bell_make(w->index))
		return false;
	for (uint32_t i = 0; i < rnicd_lines(); i++)
		worker_port_fd(w, rnicd.port[i]);
	return true;
}

struct rnicd_worker *worker_create(uint32_t index, char *err, uint32_t err_len)
{
	unsigned int lcore = index + 1;
	int socket = rnicd.cfg.hugepages ? (int)rte_lcore_to_socket_id(lcore) : 0;
	struct rnicd_worker *w = rte_zmalloc_socket("worker", sizeof(*w), RN_CACHE_LINE, socket);

	if (w == NULL) {
		snprintf(err, err_len, "worker %u: no memory (raise the daemon's memory)", index);
		return NULL;
	}
	w->index = index;
	w->stages = (struct stages){ .on = rnicd.cfg.stage_cycles, .last = rte_rdtsc() };
	w->lcore = lcore;
	w->socket = socket;
	rn_wheel_init(&w->wheel, rnicd_now());
	bool ok = worker_create_make_rings(w) && make_tables(w);
	w->ud_whole = worker_create_take(w, "datagram", UINT16_MAX);
	ok = ok && w->ud_whole != NULL;
	for (uint32_t i = 0; ok && i < rnicd_lines(); i++)
		ok = make_port_side(w, rnicd.port[i]);
	ok = ok && frag_start(w) && gram_start(w);
	if (!ok) {
		snprintf(err, err_len,
			 "worker %u: no memory for %u connections (raise the daemon's memory or lower flows)", index,
			 w->n_conns);
		worker_drain(w);
		worker_destroy(w);
		return NULL;
	}
	if (!make_fds(w)) {
		snprintf(err, err_len, "worker %u: no file descriptors: %s", index, strerror(errno));
		worker_drain(w);
		worker_destroy(w);
		return NULL;
	}
	return w;
}

static void drain_frames(struct rte_ring *r)
{
	void *m;

	while (r != NULL && rte_ring_sc_dequeue(r, &m) == 0)
		rte_pktmbuf_free(m);
}

void worker_drain(struct rnicd_worker *w)
{
	frag_stop(w);
	gram_stop(w);
	ud_group_drain(w);
	for (; w->loop_head != w->loop_tail; w->loop_head++)
		rte_pktmbuf_free(w->loop[w->loop_head % WORKER_LOOP]);
	for (uint32_t i = 0; i < rnicd_lines(); i++) {
		if (w->tx[i].port != NULL)
			port_tx_drop_all(&w->tx[i]);
		impair_destroy(w->tx[i].impair);
		w->tx[i].impair = NULL;
		if (i < rnicd.n_ports) {
			arp_destroy(w->arp[i]);
			w->arp[i] = NULL;
		}
	}
	drain_frames(w->sh.rx_moved);
	drain_frames(w->sh.tx_moved);
}

void worker_destroy(struct rnicd_worker *w)
{
	rte_ring_free(w->sh.rx_moved);
	rte_ring_free(w->sh.tx_moved);
	bell_free(w->index);
	rte_mempool_free(w->small_pool);
	rte_free(w->conns);
	rte_free(w->flow_slots);
	rte_free(w->listen_slots);
	rte_free(w->ud_slots);
	rte_free(w->ud_whole);
	rte_free(w->qp_mem);
	stream_stop(w);
	rte_free(w);
}
