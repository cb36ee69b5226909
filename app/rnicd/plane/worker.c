/* SPDX-License-Identifier: BSD-3-Clause */
/* The turn of a worker. */
#include "plane/worker_int.h"

/* ---- queue pairs: the type of a queue pair decides which carrier is called ---- */

static inline void doorbell(struct rnicd_worker *w, struct qp *qp)
{
	switch (qp_get_type(qp)) {
	case QP_RC: rc_doorbell(&w->tcp.rc, qp); return;
	case QP_UD: dgram_doorbell(&w->dgram, qp); return;
	case QP_RD: rd_doorbell(&rd_port_of(qp)->d, qp); return;
	}
}

void worker_qp_doorbell(struct rnicd_worker *w, struct qp *qp) { doorbell(w, qp); }

enum qp_verdict worker_qp_modify(struct rnicd_worker *w, struct qp *qp, enum qp_state to)
{
	switch (qp_get_type(qp)) {
	case QP_RC: return rc_modify(&w->tcp.rc, qp, to);
	case QP_UD: return dgram_modify(&w->dgram, qp, to);
	case QP_RD: return rd_modify(&rd_port_of(qp)->d, qp, to);
	}
	return QP_BAD_STATE;
}

void worker_qp_destroy(struct rnicd_worker *w, struct qp *qp)
{
	switch (qp_get_type(qp)) {
	case QP_RC: rc_destroy(&w->tcp.rc, qp); return;
	case QP_UD: dgram_destroy(&w->dgram, qp); return;
	case QP_RD: rd_destroy(&rd_port_of(qp)->d, qp); return;
	}
}

/*
 * What a client may have of a turn, however many bits it sets: the other clients' queue pairs wait for the turn's end.
 * A word of the doorbell is begun while the client has doorbells left, so up to 63 more may be rung.
 */
#define RINGS_EACH   256u
#define RINGS_ALL    2048u /* doorbells of all clients in a turn: a user may have a thousand clients */
#define FLUSHES_EACH 1024u /* work requests flushed by its doorbells; the last queue pair flushes all that it has */

enum rung {
	RUNG,      /* all bits */
	RUNG_FULL, /* there was no room for effects */
	RUNG_MUCH, /* the client has had its part of the turn */
};

/*
 * Tells the carrier of each QP whose bit is set in a word of the doorbell. *n counts them. Unless the result is RUNG,
 * the bits that are left are set again. flushed: work requests flushed before the client's part of the turn.
 */
static enum rung ring_word(struct rnicd_worker *w, struct worker_client *c, uint32_t word, uint64_t flushed,
			   uint32_t *n)
{
	/* acquire: pairs with the client's release; the work requests are in the queues */
	uint64_t bits = __atomic_exchange_n(&c->doorbell->bits[word], 0, __ATOMIC_ACQUIRE);

	/* pairs with the client's fence: a client that finds its bit set does not ring, so its queue is read now */
	rn_fence_exchanged();
	while (bits != 0) {
		struct qp *qp = c->qp[word * 64 + (uint32_t)__builtin_ctzll(bits)];
		if (qp != NULL) {
			const bool much = w->tcp.rc.qp.stats.flushed - flushed >= FLUSHES_EACH;
			if (rn_unlikely(much) || !worker_space(w)) {
				__atomic_fetch_or(&c->doorbell->bits[word], bits, __ATOMIC_RELAXED);
				return much ? RUNG_MUCH : RUNG_FULL;
			}
			doorbell(w, qp);
			(*n)++;
		}
		bits &= bits - 1;
	}
	return RUNG;
}

/* Rings a client's doorbells, as far as its part of the turn goes. False: there was no room for effects. */
static bool ring_client(struct rnicd_worker *w, struct worker_client *c, uint32_t *n)
{
	uint64_t words = __atomic_exchange_n(&c->doorbell->summary, 0, __ATOMIC_ACQUIRE);
	const uint64_t flushed = w->tcp.rc.qp.stats.flushed;
	enum rung v = RUNG;
	uint32_t rung = 0;

	while (words != 0 && v == RUNG) {
		const uint32_t word = rn_bit_from(words, c->first);
		v = rung < RINGS_EACH ? ring_word(w, c, word, flushed, &rung) : RUNG_MUCH;
		if (v == RUNG)
			words &= ~(UINT64_C(1) << word);
		else /* words that have not been begun go first in the next turn */
			c->first = (uint8_t)(rung < RINGS_EACH ? (word + 1) % 64 : word);
	}
	if (v != RUNG)
		__atomic_fetch_or(&c->doorbell->summary, words, __ATOMIC_RELAXED);
	w->rung_most = rn_max_u32(w->rung_most, rung);
	*n += rung;
	return v != RUNG_FULL;
}

/* Looks at a client's doorbells; *n counts them. False: the turn has no room for more of them. */
static inline bool look_client(struct rnicd_worker *w, struct worker_client *c, uint32_t *n)
{
	struct ipc_doorbell *db = c->doorbell;

	if (rn_unlikely(__atomic_load_n(&db->recvs, __ATOMIC_RELAXED) != 0) &&
	    __atomic_exchange_n(&db->recvs, 0, __ATOMIC_ACQUIRE) != 0) {
		rc_recvs(&w->tcp.rc);
		rd_port_recvs(w);
		(*n)++;
	}
	if (rn_likely(__atomic_load_n(&db->summary, __ATOMIC_RELAXED) == 0))
		return true;
	return ring_client(w, c, n) && *n < RINGS_ALL;
}

uint32_t worker_doorbells(struct rnicd_worker *w)
{
	struct worker_client *first = w->ring_first != NULL ? w->ring_first : w->clients, *c = first;
	uint32_t n = 0;

	while (c != NULL) {
		struct worker_client *next = c->next != NULL ? c->next : w->clients;
		if (rn_unlikely(!look_client(w, c, &n))) { /* the others go first in the next turn */
			w->ring_first = next;
			break;
		}
		c = next != first ? next : NULL;
	}
	return n + rc_recvs_look(&w->tcp.rc);
}

static uint32_t transmit(struct rnicd_worker *w)
{
	uint32_t n = 0;

	for (uint32_t i = 0, lines = rnicd_lines(); i < lines; i++)
		n += port_tx_flush(&w->tx[i], w->now);
	return n;
}

/* A turn takes far less: if the next turn begins later than this, another program had the CPU. */
#define TURN_MAX_NS RN_NS_PER_MS
#define LATE_NS     (50 * RN_NS_PER_US) /* frames that arrive during a turn longer than this have waited: w->late */

void worker_tell_lost(struct rnicd_worker *w)
{
	uint64_t gap = w->now - w->ran;

	if (rn_unlikely(gap > TURN_MAX_NS)) {
		w->tcp.turns.lost += gap;
		if (gap > __atomic_load_n(&rnicd.stalled[w->index], __ATOMIC_RELAXED))
			__atomic_store_n(&rnicd.stalled[w->index], gap, __ATOMIC_RELAXED);
		w->stood = w->now;
	}
	w->late = gap > LATE_NS || w->woken || (w->late && w->more);
	w->woken = false;
	w->ran = w->now;
}

void worker_tell_behind(struct rnicd_worker *w)
{
	w->more_turns = w->more ? w->more_turns + 1 : 0;
	w->tcp.turns.behind = w->more && w->more_turns <= WORKER_BACKLOG_TURNS;
}

/*
 * A client can cause work without a peer: work requests that are flushed, and those that send nothing. These counters
 * show that a turn's part of such work is bounded. Returns how many work requests have sent nothing: there may be more.
 */
static uint32_t count_own_work(struct rnicd_worker *w)
{
	const struct qp_stats *st = &w->tcp.rc.qp.stats;
	const uint32_t locals = (uint32_t)(st->locals - w->locals);

	w->flushed_most = rn_max_u64(w->flushed_most, st->flushed - w->flushed);
	w->flushed = st->flushed;
	w->locals_most = rn_max_u32(w->locals_most, locals);
	w->locals = st->locals;
	return locals;
}

/*
 * Whether a program has ever had a socket on this worker: the doorbells of a user stay with the worker. A worker
 * without sockets leaves their steps out of its turns.
 */
static inline bool has_sockets(const struct rnicd_worker *w) { return rn_unlikely(w->streams.users != NULL); }

/* Timers that may fire a tick late: reassembly of fragments, and the table of neighbours. */
static void coarse_timers(struct rnicd_worker *w)
{
	if (rn_likely(w->now < w->coarse_at))
		return;
	w->coarse_at = w->now + RN_WHEEL_TICK_NS;
	frag_timers(w);
	gram_timers(w);
	neigh_timers(w);
}

static uint32_t turn(struct rnicd_worker *w)
{
	uint32_t n, received;

	stage_end(&w->stages, STAGE_IDLE);
	w->now = rnicd_now();
	w->tcp.rc.qp.now = w->now;
	worker_tell_lost(w);
	n = worker_commands(w);
	stage_end(&w->stages, STAGE_COMMANDS);
	received = worker_rx(w);
	if (received != 0)
		qp_flush_received(&w->tcp.rc.qp);
	n += received;
	worker_tell_behind(w);
	stage_end(&w->stages, STAGE_RECEIVE);
	n += worker_doorbells(w);
	if (has_sockets(w))
		n += worker_socket_bells(w);
	stage_end(&w->stages, STAGE_DOORBELLS);
	n += conn_timers(w);
	if (has_sockets(w))
		n += stream_timers(w);
	n += ud_timers(w);
	coarse_timers(w);
	stage_end(&w->stages, STAGE_TIMERS);
	n += conn_transmit(w);
	n += ud_transmit(w);
	n += rd_port_turn(w);
	if (has_sockets(w))
		n += stream_transmit(w) + gram_transmit(&w->grams);
	stage_end(&w->stages, STAGE_SEND);
	worker_effects(w);
	if (has_sockets(w)) {
		stream_events(w);
		gram_events(&w->grams);
	}
	n += count_own_work(w);
	/* the next turn has more to flush, or notifications to make, so the worker must not sleep */
	n += !rn_list_empty(&w->tcp.rc.qp.flushing) || !rn_list_empty(&w->tcp.rc.qp.waiting_cq);
	conn_bury(w);
	stage_end(&w->stages, STAGE_EFFECTS);
	n += transmit(w);
	event_flush(w->index);
	stage_end(&w->stages, STAGE_PORTS);
	stage_turn(&w->stages, n != 0);
	w->turns++;
	return n;
}

int worker_main(void *arg)
{
	struct rnicd_worker *w = arg;

	for (uint32_t i = 0; i < rnicd.n_ports && w->index == 0; i++) {
		struct rte_mbuf *m = arp_gratuitous(w->arp[i]);
		if (m != NULL)
			port_tx_push(&w->tx[i], m);
	}
	w->ran = rnicd_now();
	/* relaxed: no data depends on the word; joining the thread orders everything else */
	while (!__atomic_load_n(&w->sh.stop, __ATOMIC_RELAXED)) {
		if (turn(w) == 0) {
			worker_idle(w);
		} else {
			w->busy = w->now;
			w->nap = 0;
		}
	}
	return 0;
}
