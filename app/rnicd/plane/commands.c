/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bodies of all commands (cmd.h): here those about clients, QPs, CQs, groups and the worker itself; those about
 * connections and listeners are in commands_conn.c. A body does not block and does not allocate.
 */
#include "plane/port_link.h"
#include "plane/stream_iwarp.h"
#include "plane/worker_int.h"

/* ---- clients ---- */

static void client_add(struct rnicd_worker *w, struct worker_client *c)
{
	c->next = w->clients;
	w->clients = c;
}

static void client_del(struct rnicd_worker *w, const struct worker_client *c)
{
	struct worker_client **at = &w->clients;

	while (*at != NULL && *at != c)
		at = &(*at)->next;
	if (*at == c)
		*at = c->next;
	if (w->ring_first == c)
		w->ring_first = c->next;
}

static void client_refers(const struct rnicd_worker *w, struct cmd_refers *r)
{
	if (conn_refers(w, r))
		__atomic_store_n(&r->found, true, __ATOMIC_RELAXED);
}

/* ---- QPs ---- */

static void qp_create(struct rnicd_worker *w, struct cmd_qp *q)
{
	q->verdict = q->datagram && !ud_add(&w->uds, ud_of(q->qp), q->port) ? QP_NO_MEMORY : QP_OK;
	if (q->verdict != QP_OK)
		return;
	if (qp_get_type(q->qp) == QP_RD)
		rd_port_join(w, rd_port_of(q->qp));
	if (q->has_state)
		(void)worker_qp_modify(w, q->qp, q->state);
	q->client->qp[q->bit] = q->qp;
}

static void qp_change(struct rnicd_worker *w, struct cmd_qp *q)
{
	qp_set(q->qp, &q->tune);
	q->verdict = q->has_state ? worker_qp_modify(w, q->qp, q->state) : QP_OK;
	if (q->verdict != QP_OK)
		qp_set(q->qp, &q->was);
}

/* A QP that is attached to a connection stays: the connection is of this worker. */
static void qp_leave(struct rnicd_worker *w, struct cmd_qp *q)
{
	q->verdict = rc_of(q->qp) != NULL ? QP_BAD_STATE : QP_OK;
	if (q->verdict != QP_OK)
		return;
	q->client->qp[q->bit] = NULL;
	qp_unlist(&w->tcp.rc.qp, q->qp);
	q->seen = w->now;
}

static void qp_arrive(struct rnicd_worker *w, const struct cmd_qp *q)
{
	q->client->qp[q->bit] = q->qp;
	worker_qp_doorbell(w, q->qp); /* for a doorbell that was rung at the old worker while the QP left */
}

/* In a later turn the QP is on no list, and neither are its completion queues, which may end with the QP. */
static void qp_later(struct rnicd_worker *w, struct cmd_qp *q)
{
	q->later = w->now != q->seen;
	qp_told(&w->tcp.rc.qp, q->qp);
}

/*
 * In the turn in which the last target lets go of the SRQ, the SRQ's completion queue may still be on a list. So the
 * command comes again, as it does while there is no room for the effects of all targets.
 */
static void srq_leave(struct rnicd_worker *w, struct cmd_srq *s)
{
	if (s->srq->cq != NULL)
		qp_cq_told(&w->tcp.rc.qp, s->srq->cq);
	if (s->seen[w->index] == 0 && rc_srq_leave(&w->tcp.rc, s->srq))
		s->seen[w->index] = w->now;
	if (s->seen[w->index] == 0 || s->seen[w->index] == w->now)
		__atomic_store_n(&s->again, true, __ATOMIC_RELAXED); /* relaxed: the answer orders it */
}

static void qp_end(struct rnicd_worker *w, struct cmd_qp *q)
{
	q->client->qp[q->bit] = NULL;
	if (qp_get_type(q->qp) == QP_UD && !q->orphan)
		ud_finish(w, ud_of(q->qp));
	if (q->datagram)
		ud_del(&w->uds, ud_of(q->qp));
	if (q->orphan && rc_of(q->qp) != NULL)
		conn_set_client(rc_of(q->qp), NULL);
	worker_qp_destroy(w, q->qp);
	q->seen = w->now;
}

/* ---- groups, frames of the control thread's ---- */

static void group_change(struct rnicd_worker *w, const struct cmd_group *g)
{
	if (w->index == g->worker && g->leaves)
		ud_group_del(&g->at[w->index], g->m);
	else if (w->index == g->worker)
		ud_group_add(&g->at[w->index], g->m);
	ud_group_set(w, &g->at[w->index], g->workers, g->qps);
}

/* ---- telemetry ---- */

/* Bytes of stream sockets over the wire iwarp. */
static void add_touched(struct qp_stats *to, const struct qp_stats *streams)
{
	to->copied_tx += streams->copied_tx;
	to->copied_rx += streams->copied_rx;
	to->summed_tx += streams->summed_tx;
	to->summed_rx += streams->summed_rx;
}

static void look_worker(const struct rnicd_worker *w, struct look_worker *l)
{
	*l = (struct look_worker){ .qp = w->tcp.rc.qp.stats,
				   .turns = w->turns,
				   .sleeps = w->sleeps,
				   .flushed_most = w->flushed_most,
				   .locals_most = w->locals_most,
				   .rung_most = w->rung_most,
				   .has_cycles = w->stages.on,
				   .connections = w->flows.used,
				   .half_open = w->half_opens,
				   .blocks_used = w->tcp.rc.cfg.blocks - w->tcp.rc.blk_left };
	add_touched(&l->qp, &w->streams.iwarp->tcp.rc.qp.stats);
	rd_port_look(w, l);
	memcpy(l->cycles, w->stages.total, sizeof(l->cycles));
}

static void port_command(struct rnicd_worker *w, struct cmd *c)
{
	if (c->type == CMD_PORT_LEAVE)
		worker_port_leave(w, c->port);
	else if (c->type == CMD_PORT_JOIN)
		worker_port_join(w, c->port);
	else if (c->type == CMD_PORT_CHANGE)
		c->change.im[w->index] = worker_port_change(w, c->change.port, c->change.im[w->index]);
	else
		worker_port_up(w, c->port);
}

static void run_command(struct rnicd_worker *w, struct cmd *c)
{
	switch (c->type) {
	case CMD_NOTHING:
	case CMD_TYPES: break;
	case CMD_CLIENT_ADD: client_add(w, c->client.view[w->index]); break;
	case CMD_CLIENT_DEL: client_del(w, c->client.view[w->index]); break;
	case CMD_CLIENT_REFERS: client_refers(w, &c->refers); break;
	case CMD_QP_CREATE: qp_create(w, &c->qp); break;
	case CMD_QP_MODIFY: qp_change(w, &c->qp); break;
	case CMD_QP_LEAVE: qp_leave(w, &c->qp); break;
	case CMD_QP_LATER: qp_later(w, &c->qp); break;
	case CMD_QP_ARRIVE: qp_arrive(w, &c->qp); break;
	case CMD_QP_DESTROY: qp_end(w, &c->qp); break;
	case CMD_QP_WAITS:
		c->qp.waits = qp_send_waits(c->qp.qp);
		c->qp.works = !qp_failed(c->qp.qp);
		break;
	case CMD_QP_GIVE_UP: qp_unreachable(&w->tcp.rc.qp, c->qp.qp); break;
	case CMD_CQ_RESIZE: qp_cq_change(&w->tcp.rc.qp, c->resize.cq, c->resize.ring); break;
	case CMD_SRQ_LEAVE: srq_leave(w, &c->srq); break;
	case CMD_GROUP: group_change(w, &c->group); break;
	case CMD_GROUP_BIND: c->group_bind.ok = dgram_bind(dgram_msgs_of(c->group_bind.qp), &c->group_bind.b); break;
	case CMD_SEND_FRAME: ud_group_report(w, rnicd.port[c->send.port], c->send.p, c->send.len); break;
	case CMD_SEND_DATAGRAM: ud_send(w, rnicd.port[c->send.port], &c->send.to, c->send.p, c->send.len); break;
	case CMD_NEIGH: c->neigh.verdict = neigh_resolve(w, rnicd.port[c->neigh.port], &c->neigh.dst); break;
	case CMD_PORT_LEAVE:
	case CMD_PORT_JOIN:
	case CMD_PORT_CHANGE:
	case CMD_PORT_UP: port_command(w, c); break;
	case CMD_LOOK_WORKER: look_worker(w, &c->look_worker[w->index]); break;
	case CMD_LOOK_FLOWS: rd_port_flows(w, &c->look_flows); break;
	case CMD_LOOK_RECORDS: ud_records(w, &c->look_records); break;
	case CMD_STREAM_JOIN:
	case CMD_STREAM_LISTEN:
	case CMD_STREAM_UNLISTEN:
	case CMD_STREAM_OPEN:
	case CMD_STREAM_ADOPT:
	case CMD_STREAM_OPTION:
	case CMD_STREAM_CLOSE: command_stream(w, c); break;
	case CMD_GRAM_OPEN:
	case CMD_GRAM_PEER:
	case CMD_GRAM_CLOSE: command_gram(w, c); break;
	case CMD_LISTEN:
	case CMD_UNLISTEN:
	case CMD_CONN_OPEN:
	case CMD_CONN_JOIN:
	case CMD_CONN_REJECT:
	case CMD_CONN_DISCONNECT:
	case CMD_CONN_END:
	case CMD_CONN_LET_GO:
	case CMD_LOOK_LISTENERS:
	case CMD_LOOK_CONNS: command_conn(w, c); break;
	}
}

uint32_t worker_commands(struct rnicd_worker *w)
{
	struct cmd *c;
	uint32_t n = 0;

	while (worker_space(w) && (c = cmd_take(w->index)) != NULL) {
		run_command(w, c);
		event_answer(w->index, c);
		n++;
	}
	return n;
}
