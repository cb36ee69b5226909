/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bodies of the commands about connections and listeners. A command names a connection by address and number: when
 * the number is another one, the connection has closed and the command does nothing.
 */
#include "border/policy.h"
#include "plane/worker_int.h"

static bool listens_on(const struct cmd_listen *l, uint32_t dev) { return (l->without >> dev & 1) == 0; }

static void unlisten(struct rnicd_worker *w, const struct cmd_listen *l, uint32_t devs)
{
	for (uint32_t d = l->first; d < l->first + devs; d++)
		if (listens_on(l, d))
			conn_unlisten(w, d, l->lport);
}

static void listen_all(struct rnicd_worker *w, struct cmd_listen *c)
{
	enum conn_verdict *v = &c->verdict[w->index];

	*v = CONN_OK;
	for (uint32_t d = c->first; d < c->last; d++) {
		if (!listens_on(c, d))
			continue;
		struct conn_listen l = { .port = d,
					 .lport = c->lport,
					 .backlog = c->backlog,
					 .tos = c->tos,
					 .flags = c->flags,
					 .owner = c->owner,
					 .policy = conn_policy(rnicd.port[d]) };
		if (c->rev != 0)
			l.policy.rev = c->rev;
		*v = conn_listen(w, &l);
		if (*v != CONN_OK) {
			unlisten(w, c, d - c->first);
			return;
		}
	}
}

static void conn_begin(struct rnicd_worker *w, struct cmd_conn_open *o)
{
	struct rc_tcp_params p = { .rc = { .dev = o->dev,
					   .owner = o->owner,
					   .policy = o->policy,
					   .flags = o->flags,
					   .qp = o->qp,
					   .priv = o->priv,
					   .priv_len = o->priv_len } };

	if (o->qp != NULL)
		qp_set(o->qp, &o->tune);
	o->cv = conn_open(w, &o->addr, &p, &o->conn, &o->qv);
	if (o->cv == CONN_OK && o->qp != NULL)
		conn_set_client(o->conn, o->client);
}

static bool conn_here(const struct cmd_conn *c) { return rc_owner(c->conn) == c->key; }

static void conn_join(struct rnicd_worker *w, struct cmd_conn_join *j)
{
	const struct rc_accept a = {
		.qp = j->qp, .ird = j->ird, .ord = j->ord, .priv_len = j->priv_len, .priv = j->priv
	};
	struct rc *conn = j->which.conn;

	j->qv = QP_BAD_STATE;
	if (!conn_here(&j->which))
		return;
	conn_set_client(conn, j->client);
	conn_set_tos(conn, j->tos);
	if (j->tune != NULL)
		qp_set(j->qp, j->tune);
	j->qv = rc_is_passive(conn) ? rc_accept(&w->tcp.rc, conn, &a) : rc_attach(&w->tcp.rc, conn, j->qp);
	if (j->qv != QP_OK)
		conn_set_client(conn, NULL);
}

static void conn_reject(struct rnicd_worker *w, struct cmd_conn_join *j)
{
	j->qv = conn_here(&j->which) ? rc_reject(&w->tcp.rc, j->which.conn, j->priv, j->priv_len) : QP_OK;
}

static void conn_end(struct rnicd_worker *w, struct rc *c)
{
	if (rc_get_state(c) != RC_WAIT_ACCEPT || rc_reject(&w->tcp.rc, c, NULL, 0) != QP_OK)
		rc_disconnect(&w->tcp.rc, c);
}

/*
 * The client's QP is gone, or there never was one. If everything is acknowledged, the connection ends in order; a
 * connection that still has to send from the client's memory is reset.
 */
static void conn_let_go(struct rnicd_worker *w, struct rc *c)
{
	conn_set_client(c, NULL);
	if (!rc_quiet(c))
		rc_abort(&w->tcp.rc, c);
}

/* ---- telemetry ---- */

static void look_listener(struct cmd_look_listeners *l, uint32_t port, uint16_t lport)
{
	if (l->n < LOOK_LISTENERS)
		l->l[l->n++] = (struct look_listener){ .port = port, .lport = lport };
}

/* Listeners of queue pairs, then of stream sockets; all users together have LOOK_LISTENERS at most. */
static void look_listeners(const struct rnicd_worker *w, struct cmd_look_listeners *l)
{
	l->n = 0;
	for (uint32_t i = 0; i < WORKER_LISTENERS; i++)
		if (w->listener[i].used)
			look_listener(l, w->listener[i].cfg.port, w->listener[i].cfg.lport);
	for (uint32_t i = 0; i < WORKER_LISTENERS; i++) {
		const struct stream_listener *sl = &w->streams.listener[i];
		for (uint32_t p = 0; sl->key != 0 && p < rnicd.n_ports; p++)
			if (sl->flow.key.port == p || (sl->flow.key.port == STREAM_ANY_PORT &&
						       (sl->families & stream_family(&rnicd.port[p]->cfg->ip)) != 0))
				look_listener(l, p, sl->flow.key.lport);
	}
}

static void look_conn(struct look_conn *l)
{
	const struct rc *c = l->conn;

	l->here = rc_owner(c) == l->key;
	if (!l->here)
		return;
	l->state = rc_get_state(c);
	tcpl_get_info(&rc_tcp_of(c)->tcp, &l->tcp);
	l->stats = rc_tcp_of(c)->tcp.stats;
	l->crc = rc_agreed(c)->crc;
	l->rx_markers = rc_agreed(c)->rx_markers;
	l->tx_markers = rc_agreed(c)->tx_markers;
}

void command_conn(struct rnicd_worker *w, struct cmd *c)
{
	switch ((int)c->type) {
	case CMD_LISTEN: listen_all(w, &c->listen); break;
	case CMD_UNLISTEN:
		if (c->listen.verdict[w->index] == CONN_OK)
			unlisten(w, &c->listen, c->listen.last - c->listen.first);
		break;
	case CMD_CONN_OPEN: conn_begin(w, &c->open); break;
	case CMD_CONN_JOIN: conn_join(w, &c->join); break;
	case CMD_CONN_REJECT: conn_reject(w, &c->join); break;
	case CMD_CONN_DISCONNECT:
		if (conn_here(&c->conn))
			rc_disconnect(&w->tcp.rc, c->conn.conn);
		break;
	case CMD_CONN_END:
		if (conn_here(&c->conn))
			conn_end(w, c->conn.conn);
		break;
	case CMD_CONN_LET_GO:
		if (conn_here(&c->conn))
			conn_let_go(w, c->conn.conn);
		break;
	case CMD_LOOK_LISTENERS:
		if (w->index == 0)
			look_listeners(w, &c->look_listeners);
		break;
	case CMD_LOOK_CONNS:
		for (uint32_t i = 0; i < c->look_conns.n; i++)
			if (c->look_conns.c[i].worker == w->index)
				look_conn(&c->look_conns.c[i]);
		break;
	default: break;
	}
}
