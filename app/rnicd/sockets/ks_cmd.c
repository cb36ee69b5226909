/* SPDX-License-Identifier: BSD-3-Clause */
/* Carries out all commands (cmd.h) on this plane. No command blocks. */
#include "border/event.h"
#include "border/policy.h"
#include "ipc/ipc.h"
#include "sockets/ks_gram.h"
#include "sockets/ks_sk.h"
#include "sockets/ks_ud.h"

/* ---- clients and QPs ---- */

static void client_add(struct worker_client *c)
{
	c->next = ks.clients;
	ks.clients = c;
}

static void client_del(const struct worker_client *c)
{
	struct worker_client **at = &ks.clients;

	while (*at != NULL && *at != c)
		at = &(*at)->next;
	if (*at == c)
		*at = c->next;
}

static enum qp_verdict modify(struct qp *qp, enum qp_state to)
{
	return qp_get_type(qp) == QP_UD ? dgram_modify(&ks.dgram, qp, to) : rc_modify(&ks.rc, qp, to);
}

static void qp_create(struct cmd_qp *q)
{
	q->verdict = QP_OK;
	if (q->datagram && (q->err = ks_ud_add(ud_of(q->qp), q->port)) != 0) {
		q->verdict = QP_NO_MEMORY;
		return;
	}
	if (q->has_state)
		(void)modify(q->qp, q->state);
	q->client->qp[q->bit] = q->qp;
}

static void qp_change(struct cmd_qp *q)
{
	qp_set(q->qp, &q->tune);
	q->verdict = q->has_state ? modify(q->qp, q->state) : QP_OK;
	if (q->verdict != QP_OK)
		qp_set(q->qp, &q->was);
}

static void qp_leave(struct cmd_qp *q)
{
	q->verdict = rc_of(q->qp) != NULL ? QP_BAD_STATE : QP_OK;
	if (q->verdict != QP_OK)
		return;
	q->client->qp[q->bit] = NULL;
	qp_unlist(&ks.rc.qp, q->qp);
	q->seen = ks.now;
}

static void qp_arrive(const struct cmd_qp *q)
{
	q->client->qp[q->bit] = q->qp;
	ks_doorbell(q->qp); /* for a doorbell that was rung while the QP belonged to no worker */
}

static void srq_leave(struct cmd_srq *s)
{
	if (s->seen[0] == 0 && rc_srq_leave(&ks.rc, s->srq))
		s->seen[0] = ks.now;
	s->again = s->seen[0] == 0 || s->seen[0] == ks.now;
}

static void qp_end(struct cmd_qp *q)
{
	q->client->qp[q->bit] = NULL;
	if (q->datagram) {
		ks_ud_end(ud_of(q->qp), !q->orphan);
		dgram_destroy(&ks.dgram, q->qp);
	} else {
		rc_destroy(&ks.rc, q->qp);
	}
	q->seen = ks.now;
}

/* ---- connections: a command names a connection by address and number, as the address may be in use again ---- */

static bool conn_here(const struct cmd_conn *c) { return rc_owner(c->conn) == c->key; }

/* The devices on which the command's listener has a socket (bit mask). */
static uint32_t listens_on(const struct cmd_listen *c)
{
	uint32_t devs = 0;

	for (uint32_t d = c->first; d < c->last; d++)
		devs |= UINT32_C(1) << d;
	return ks_distinct(devs & ~c->without);
}

/* Ends the listener on its devices below `last`. On the others the port may be another listener's. */
static void unlisten(const struct cmd_listen *c, uint32_t last)
{
	const uint32_t devs = listens_on(c);

	for (uint32_t d = c->first; d < last; d++)
		if ((devs >> d & 1) != 0)
			ks_unlisten(d, c->lport);
}

/* Of several devices, those are left out whose address the host no longer has. */
static void listen_on(struct cmd_listen *c)
{
	enum conn_verdict *v = &c->verdict[0];
	const uint32_t devs = listens_on(c);
	bool listens = false;

	*v = CONN_OK;
	for (uint32_t d = c->first; d < c->last; d++) {
		if ((devs >> d & 1) == 0)
			continue;
		struct ks_listener l = { .port = d,
					 .lport = c->lport,
					 .backlog = c->backlog,
					 .flags = c->flags,
					 .tos = c->tos,
					 .owner = c->owner,
					 .policy = conn_policy(rnicd.port[d]) };
		if (c->rev != 0)
			l.policy.rev = c->rev;
		*v = ks_listen(&l);
		if (*v != CONN_OK && *v != CONN_NO_ROUTE) {
			unlisten(c, d);
			return;
		}
		listens |= *v == CONN_OK;
	}
	if (listens)
		*v = CONN_OK;
}

/*
 * Sets the connection's design, which its queue pair decides. Called before the connection sends or receives an FPDU.
 */
static void conn_design(struct rc *c, uint32_t design)
{
	ks_conn_of(c)->assisted = design == IPC_DESIGN_ANY ? ks.assisted : design == IPC_DESIGN_ASSISTED;
}

static void conn_begin(struct cmd_conn_open *o)
{
	struct rc_params p = { .dev = o->dev,
			       .owner = o->owner,
			       .policy = o->policy,
			       .flags = o->flags,
			       .qp = o->qp,
			       .priv = o->priv,
			       .priv_len = o->priv_len };

	if (o->qp != NULL)
		qp_set(o->qp, &o->tune);
	if (o->handed != NULL)
		o->cv = ks_conn_take(o->handed, &o->addr, &p, o->passive, &o->conn, &o->qv);
	else
		o->cv = ks_conn_open(&o->addr, &p, &o->conn, &o->qv);
	if (o->cv == CONN_OK && o->qp != NULL)
		conn_design(o->conn, o->design);
}

static void conn_join(struct cmd_conn_join *j)
{
	const struct rc_accept a = {
		.qp = j->qp, .ird = j->ird, .ord = j->ord, .priv_len = j->priv_len, .priv = j->priv
	};
	struct rc *conn = j->which.conn;

	j->qv = QP_BAD_STATE;
	if (!conn_here(&j->which))
		return;
	ks_conn_tos(ks_conn_of(conn), j->tos);
	conn_design(conn, j->design);
	if (j->tune != NULL)
		qp_set(j->qp, j->tune);
	j->qv = rc_is_passive(conn) ? rc_accept(&ks.rc, conn, &a) : rc_attach(&ks.rc, conn, j->qp);
}

static void conn_reject(struct cmd_conn_join *j)
{
	j->qv = conn_here(&j->which) ? rc_reject(&ks.rc, j->which.conn, j->priv, j->priv_len) : QP_OK;
}

static void conn_end(struct rc *c)
{
	if (rc_get_state(c) != RC_WAIT_ACCEPT || rc_reject(&ks.rc, c, NULL, 0) != QP_OK)
		rc_disconnect(&ks.rc, c);
}

/* The client has gone: resets a connection that still has bytes to send from the client's memory. */
static void conn_let_go(struct rc *c)
{
	if (!rc_quiet(c))
		rc_abort(&ks.rc, c);
}

static void conn_command(struct cmd *c)
{
	switch ((int)c->type) {
	case CMD_LISTEN: listen_on(&c->listen); break;
	case CMD_UNLISTEN:
		if (c->listen.verdict[0] == CONN_OK)
			unlisten(&c->listen, c->listen.last);
		break;
	case CMD_CONN_OPEN: conn_begin(&c->open); break;
	case CMD_CONN_JOIN: conn_join(&c->join); break;
	case CMD_CONN_REJECT: conn_reject(&c->join); break;
	case CMD_CONN_DISCONNECT:
		if (conn_here(&c->conn))
			rc_disconnect(&ks.rc, c->conn.conn);
		break;
	case CMD_CONN_END:
		if (conn_here(&c->conn))
			conn_end(c->conn.conn);
		break;
	case CMD_CONN_LET_GO:
		if (conn_here(&c->conn))
			conn_let_go(c->conn.conn);
		break;
	default: break;
	}
}

/* False: the command is answered later. */
static bool run_command(struct cmd *c)
{
	switch (c->type) {
	case CMD_NOTHING:
	case CMD_TYPES: break;
	case CMD_CLIENT_ADD: client_add(c->client.view[0]); break;
	case CMD_CLIENT_DEL: client_del(c->client.view[0]); break;
	case CMD_CLIENT_REFERS:
		c->refers.found = false;
		break; /* commands run between turns, when unsent bytes have been copied already */
	case CMD_QP_CREATE: qp_create(&c->qp); break;
	case CMD_QP_MODIFY: qp_change(&c->qp); break;
	case CMD_QP_LEAVE: qp_leave(&c->qp); break;
	case CMD_QP_LATER: c->qp.later = ks.now != c->qp.seen; break;
	case CMD_QP_ARRIVE: qp_arrive(&c->qp); break;
	case CMD_QP_DESTROY: qp_end(&c->qp); break;
	case CMD_QP_WAITS:
		c->qp.waits = qp_send_waits(c->qp.qp);
		c->qp.works = !qp_failed(c->qp.qp);
		break;
	case CMD_QP_GIVE_UP: qp_unreachable(&ks.rc.qp, c->qp.qp); break;
	case CMD_CQ_RESIZE: qp_cq_change(&ks.rc.qp, c->resize.cq, c->resize.ring); break;
	case CMD_GROUP: ks_group_change(&c->group); break;
	case CMD_GROUP_BIND: c->group_bind.ok = dgram_bind(dgram_msgs_of(c->group_bind.qp), &c->group_bind.b); break;
	case CMD_SEND_DATAGRAM: ks_ud_send(c->send.port, &c->send.to, c->send.p, c->send.len); break;
	case CMD_SRQ_LEAVE: srq_leave(&c->srq); break;
	case CMD_NEIGH: c->neigh.verdict = NEIGH_READY; break; /* the kernel resolves neighbours by itself */
	case CMD_LISTEN:
	case CMD_UNLISTEN:
	case CMD_CONN_OPEN:
	case CMD_CONN_JOIN:
	case CMD_CONN_REJECT:
	case CMD_CONN_DISCONNECT:
	case CMD_CONN_END:
	case CMD_CONN_LET_GO: conn_command(c); break;
	case CMD_STREAM_JOIN:
	case CMD_STREAM_LISTEN:
	case CMD_STREAM_UNLISTEN:
	case CMD_STREAM_OPEN:
	case CMD_STREAM_ADOPT:
	case CMD_STREAM_OPTION:
	case CMD_STREAM_CLOSE: ks_sk_command(c); break;
	case CMD_GRAM_OPEN:
	case CMD_GRAM_PEER:
	case CMD_GRAM_CLOSE: return ks_gram_command(c);
	/* Commands about Ethernet ports and telemetry, which this plane does not have. */
	case CMD_SEND_FRAME:
	case CMD_PORT_LEAVE:
	case CMD_PORT_JOIN:
	case CMD_PORT_CHANGE:
	case CMD_PORT_UP:
	case CMD_LOOK_WORKER:
	case CMD_LOOK_LISTENERS:
	case CMD_LOOK_CONNS:
	case CMD_LOOK_FLOWS:
	case CMD_LOOK_RECORDS: break;
	}
	return true;
}

uint32_t ks_commands(void)
{
	struct cmd *c;
	uint32_t n = 0;

	while (ks_space() && (c = cmd_take(0)) != NULL) {
		if (run_command(c))
			event_answer(0, c);
		n++;
	}
	return n;
}
