/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The turn of a worker.
 */
#include "plane/worker_int.h"

#include <errno.h>

#include "border/cmd.h"
#include "plane/ud.h"

uint32_t worker_index(const struct rnicd_worker *w) { return w->index; }

struct qp_ctx *worker_qp_ctx(struct rnicd_worker *w) { return &w->qp; }

/* ---- clients ---- */

void worker_client_add(struct rnicd_worker *w, struct worker_client *c)
{
	c->next = w->clients;
	w->clients = c;
}

void worker_client_del(struct rnicd_worker *w, struct worker_client *c)
{
	struct worker_client **at = &w->clients;

	while (*at != NULL && *at != c)
		at = &(*at)->next;
	if (*at == c)
		*at = c->next;
}

bool worker_client_quiet(const struct worker_client *c)
{
	uint64_t freed = 0;

	/* acquire: pairs with the release in ext_freed(), whoever freed last has stopped reading */
	for (size_t i = 0; i < RN_ARRAY_LEN(c->ext_freed); i++)
		freed += __atomic_load_n(&c->ext_freed[i].n, __ATOMIC_ACQUIRE);
	return freed == __atomic_load_n(&c->ext_taken, __ATOMIC_ACQUIRE);
}

/* Rings for each QP of a word of doorbell bits; what there is no room for goes back. */
static bool ring_word(struct rnicd_worker *w, struct worker_client *c, uint32_t word, uint32_t *n)
{
	/* acquire: pairs with the client's release; the work requests are in the queues */
	uint64_t bits = __atomic_exchange_n(&c->doorbell->bits[word], 0, __ATOMIC_ACQUIRE);

	while (bits != 0) {
		struct qp *qp = c->qp[word * 64 + (uint32_t)__builtin_ctzll(bits)];
		if (qp != NULL) {
			if (!worker_space(w)) {
				__atomic_fetch_or(&c->doorbell->bits[word], bits, __ATOMIC_RELAXED);
				return false;
			}
			qp_doorbell(&w->qp, qp);
			(*n)++;
		}
		bits &= bits - 1;
	}
	return true;
}

static uint32_t doorbells(struct rnicd_worker *w)
{
	uint32_t n = 0;

	for (struct worker_client *c = w->clients; c != NULL; c = c->next) {
		struct ipc_doorbell *db = c->doorbell;
		if (rn_unlikely(__atomic_load_n(&db->recvs, __ATOMIC_RELAXED) != 0) &&
		    __atomic_exchange_n(&db->recvs, 0, __ATOMIC_ACQUIRE) != 0) {
			qp_recvs(&w->qp);
			n++;
		}
		if (rn_likely(__atomic_load_n(&db->summary, __ATOMIC_RELAXED) == 0))
			continue;
		uint64_t words = __atomic_exchange_n(&db->summary, 0, __ATOMIC_ACQUIRE);
		for (; words != 0; words &= words - 1) {
			if (!ring_word(w, c, (uint32_t)__builtin_ctzll(words), &n)) {
				__atomic_fetch_or(&db->summary, words, __ATOMIC_RELAXED);
				return n;
			}
		}
	}
	return n;
}

/* ---- neighbours ---- */

void worker_arp_todo(struct rnicd_worker *w, struct rnicd_port *port, const struct arp_todo *todo)
{
	for (uint32_t i = 0; i < todo->n_out; i++)
		port_tx_push(&w->tx[port->index], todo->out[i]);
	struct arp_entry *e = todo->told;
	if (e == NULL)
		return;
	struct rnicd_event ev = { .type = RNICD_EV_NEIGH, .worker = w->index, .port = port->index, .addr = e->ip,
				  .status = arp_usable(e) ? 0 : -EHOSTUNREACH };
	memcpy(&ev.arg[0], e->mac, PKT_MAC_LEN);
	/* a full ring: the next news of the neighbour, or the control plane's own time-out, will do */
	if (rnicd_event_push(w, &ev))
		e->notify = false;
}

static void neighbour_timers(struct rnicd_worker *w)
{
	for (uint32_t i = 0; i < rnicd.n_ports; i++) {
		for (;;) {
			struct arp_todo todo = { .n_out = 0 };
			if (!arp_timer(w->arp[i], w->now, &todo))
				break;
			worker_arp_todo(w, rnicd.port[i], &todo);
		}
	}
}

/* ---- effects ---- */

bool worker_effects(struct rnicd_worker *w)
{
	struct qp_ctx *ctx = &w->qp;

	qp_flush(ctx);
	if (!cmd_effects(w, ctx))
		return false;
	for (uint32_t i = 0; i < ctx->n_fx; i++) {
		const struct qp_fx *fx = &ctx->fx[i];
		if (fx->type == QP_FX_CONNECT_REQUEST)
			conn_requested(w, fx->conn);
		else if (fx->type == QP_FX_CLOSED)
			conn_died(w, fx->conn);
	}
	for (uint32_t i = 0; i < ctx->n_refs; i++)
		rte_pktmbuf_free(mbuf_of_ref(ctx->refs[i]));
	qp_drained(ctx);
	return true;
}

static uint32_t transmit(struct rnicd_worker *w)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < rnicd.n_ports; i++)
		n += port_tx_flush(&w->tx[i], w->now);
	return n;
}

static uint32_t turn(struct rnicd_worker *w)
{
	uint32_t n;

	stage_end(&w->stages, STAGE_IDLE);
	w->now = rnicd_now();
	w->qp.now = w->now;
	n = worker_commands(w);
	stage_end(&w->stages, STAGE_COMMANDS);
	n += worker_rx(w);
	stage_end(&w->stages, STAGE_RECEIVE);
	n += doorbells(w);
	stage_end(&w->stages, STAGE_DOORBELLS);
	n += conn_timers(w);
	neighbour_timers(w);
	stage_end(&w->stages, STAGE_TIMERS);
	n += conn_transmit(w);
	n += ud_transmit(w);
	stage_end(&w->stages, STAGE_SEND);
	worker_effects(w);
	conn_bury(w);
	stage_end(&w->stages, STAGE_EFFECTS);
	n += transmit(w);
	rnicd_event_flush(w);
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
	/* relaxed: nothing is read under the word, the join orders the rest */
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
