/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An idle worker: it spins for cfg.spin_us, yielding the CPU to any thread that waits for it. Then it sleeps until
 * something happens (a command, a doorbell, a frame from another worker, a packet at a port that can signal packets) or
 * is due (a timer, a frame that waits for the line). If a port cannot signal packets, the worker sleeps for 20 us only,
 * and each further sleep is twice as long, up to 500 us.
 */
#include <sched.h>
#include <time.h>

#include <rte_pause.h>

#include "plane/port.h"
#include "plane/worker_int.h"

#define NAP_MIN_NS   (20 * RN_NS_PER_US)
#define NAP_MAX_NS   (500 * RN_NS_PER_US)
#define SLEEP_MAX_NS (100 * RN_NS_PER_MS)
#define PAUSES       8u
#define HOGGED_NS    (50 * RN_NS_PER_US) /* if a yield takes longer, another program is using this CPU */
#define SHY_NS       (10 * RN_NS_PER_MS) /* how long the worker does not spin after such a yield */
#define ALONE_NS     RN_NS_PER_US        /* a yield that takes less found no other thread that wants the CPU */
#define ALONE_TURNS  8u                  /* idle turns after such a yield before the next one */

static void say_sleeping(struct rnicd_worker *w, uint32_t value)
{
	bell_set_sleeping(w->index, value);
	stream_users_say_sleeping(w->streams.users, value);
	for (struct worker_client *c = w->clients; c != NULL; c = c->next)
		__atomic_store_n(&c->doorbell->need_wakeup, value, __ATOMIC_RELAXED);
}

/* Whether the sockets have rung, or streams have work for another turn. */
static bool stream_waits(const struct rnicd_worker *w)
{
	return stream_users_rung(w->streams.users) || w->streams.ready_any != 0 || !rn_list_empty(&w->streams.telling);
}

static bool anything_waits(const struct rnicd_worker *w)
{
	if (cmd_waits(w->index) || !rte_ring_empty(w->sh.rx_moved) || !rte_ring_empty(w->sh.tx_moved) ||
	    w->loop_head != w->loop_tail || rc_tcp_full(&w->tcp) || stream_waits(w) || gram_waits(&w->grams))
		return true;
	for (const struct worker_client *c = w->clients; c != NULL; c = c->next) {
		if (__atomic_load_n(&c->doorbell->summary, __ATOMIC_RELAXED) != 0 ||
		    __atomic_load_n(&c->doorbell->recvs, __ATOMIC_RELAXED) != 0)
			return true;
	}
	return false;
}

static void arm_ports(const struct rnicd_worker *w)
{
	for (uint32_t i = 0; i < rnicd_lines(); i++) {
		if (port_link(rnicd.port[i]) != RNICD_LINK_GONE && w->index < rnicd.port[i]->caps.queues)
			port_rx_arm(rnicd.port[i], (uint16_t)w->index);
	}
}

/* When the first timer is due. */
static uint64_t next_due(const struct rnicd_worker *w)
{
	uint64_t due = rn_min_u64(rn_wheel_next(&w->wheel), rn_wheel_next(&w->streams.wheel));

	due = rn_min_u64(rn_min_u64(due, dgram_due(&w->dgram)), rd_port_due(w));
	due = rn_min_u64(due, rn_min_u64(frag_due(w), gram_due(&w->grams)));
	for (uint32_t i = 0; i < rnicd.n_ports; i++)
		due = rn_min_u64(due, arp_next(w->arp[i]));
	for (uint32_t i = 0; i < rnicd_lines(); i++)
		due = rn_min_u64(due, w->tx[i].wake);
	return due;
}

/* The longest sleep that the ports allow: short if a port cannot signal packets. */
static uint64_t longest_nap(struct rnicd_worker *w)
{
	uint32_t blind = w->blind_ports;

	/* a device that is gone receives nothing */
	for (uint32_t i = 0; blind != 0 && i < rnicd_lines(); i++)
		blind &= ~((uint32_t)(port_link(rnicd.port[i]) == RNICD_LINK_GONE) << i);
	if (blind == 0)
		return SLEEP_MAX_NS;
	w->nap = rn_min_u64(rn_max_u64(w->nap * 2, NAP_MIN_NS), NAP_MAX_NS);
	return w->nap;
}

static void sleep_until(struct rnicd_worker *w, uint64_t due)
{
	uint64_t now = rnicd_now();

	if (due <= now)
		return;
	uint64_t left = rn_min_u64(due - now, longest_nap(w));
	struct timespec ts = { .tv_sec = (time_t)(left / RN_NS_PER_S), .tv_nsec = (long)(left % RN_NS_PER_S) };
	bool rang = bell_wait(w->index, &ts);
	uint64_t woke = rnicd_now();
	/* time beyond the sleep's end is time without the CPU, also if a doorbell has ended the sleep */
	w->ran = rn_min_u64(woke, now + left);
	w->woken = rang;
	if (rang) {
		w->nap = 0;
		worker_read_all(w);
		/*
		 * A descriptor may become readable just before its packet is visible, so the worker spins for a while.
		 */
		w->busy = woke;
	}
	w->sleeps++;
}

/*
 * Spins by yielding. A client that polls on the same CPU runs at once, and the worker runs again when the client yields
 * in turn. A client that does not yield keeps the CPU for its whole time slice, and its own doorbell waits for these
 * milliseconds. So after a long yield the worker sleeps without spinning for a while, because the scheduler prefers a
 * thread that wakes up to one that computes. A yield takes longer than an idle turn also where no thread wants the CPU,
 * and a frame or doorbell waits meanwhile, so the worker then yields in few of its turns.
 */
static void give_way(struct rnicd_worker *w)
{
	if (w->alone > 0) {
		w->alone--;
		return;
	}
	uint64_t from = rnicd_now();
	sched_yield();
	uint64_t back = rnicd_now();
	if (back - from < ALONE_NS)
		w->alone = ALONE_TURNS;
	else if (back - from > HOGGED_NS)
		w->shy_until = back + SHY_NS;
}

void worker_idle(struct rnicd_worker *w)
{
	if (rnicd.cfg.spin_us == UINT32_MAX) {
		for (uint32_t i = 0; i < PAUSES; i++)
			rte_pause();
		return;
	}
	if (w->now - w->busy < rnicd.cfg.spin_us * RN_NS_PER_US && w->now >= w->shy_until) {
		give_way(w);
		return;
	}
	say_sleeping(w, 1);
	arm_ports(w);
	/* pairs with the fences in bell_ring() and in the client's doorbell */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	worker_read_all(w);
	if (!anything_waits(w)) {
		if (worker_rx(w) == 0)
			sleep_until(w, next_due(w));
		else /* stores all received bytes: the next turn begins with commands, whose answers say that */
			worker_effects(w);
	}
	say_sleeping(w, 0);
}
