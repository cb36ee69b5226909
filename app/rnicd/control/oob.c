/* SPDX-License-Identifier: BSD-3-Clause */
/* A QP's side of a connection without connection manager: looks for the peer, opens the connection, attaches the QP. */
#include "control/oob.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "border/policy.h"
#include "control/dev.h"

#define PORT_TRIES     32u                /* ports that are tried at once */
#define TELL_NS        (10 * RN_NS_PER_S) /* at most one line of the log in this time */
#define PAUSE_FIRST_NS (20 * RN_NS_PER_MS)
#define PAUSE_MAX_NS   (250 * RN_NS_PER_MS)
/*
 * time after the connection's end until unacknowledged sends fail: a peer's program may end as soon as it has received,
 * before its ACK is here
 */
#define PARTING_NS RN_NS_PER_S
/* least time for a set-up: ARP, two TCP handshakes, and the scheduling of two processes */
#define PATIENCE_MIN_NS (4 * RN_NS_PER_S)

struct oob_totals oob_totals;

static void oob_set_state(struct oob *o, enum oob_state to) { o->state = to; }

/* ---- looking for the peer ---- */

static void tick(struct loop_timer *t);

static void look_later(struct oob *o, uint64_t pause_ns)
{
	o->pause_ns = pause_ns;
	o->timer.due = tick;
	loop_timer_arm(&o->timer, rnicd_now() + pause_ns);
}

/*
 * Whether the QP must be looked at while it seeks its peer: to connect, or to give up sends that wait for too long. A
 * side that waits for the peer without end costs nothing, so a user may have any number of them.
 */
static bool must_look(const struct oob *o) { return o->active || o->patience_ns != RN_NEVER; }

static void seek(struct oob *o, uint64_t pause_ns)
{
	oob_set_state(o, OOB_SEEKING);
	if (must_look(o))
		look_later(o, pause_ns);
}

/* Ends the attempt to connect, separates the connection from the QP if it still exists, and plans the next attempt. */
static void seek_again(struct oob *o)
{
	if (o->k != NULL)
		o->k->oob = NULL;
	o->k = NULL;
	o->due = false;
	seek(o, o->pause_ns);
}

struct open {
	struct cmd cmd;
	uint8_t priv[OOB_PRIV_LEN];
};

/* Logs that the QP waits for a port below 1024. */
static void oob_tell(const struct oob *o, const char *why)
{
	static uint64_t told;
	const uint64_t now = rnicd_now();

	if (told != 0 && now - told <= TELL_NS)
		return;
	told = now;
	rnicd_log(RNICD_LOG_WARNING, "queue pair %u of uid %u waits for a port below 1024 (qp-peers = daemons): %s",
		  o->q->qpn, (unsigned)o->q->c->uid, why);
}

static struct mpa_policy policy(uint32_t dev, bool self)
{
	struct mpa_policy p = conn_policy(rnicd.port[dev]);

	p.rev = 2; /* both ends are rnicds: no older revision is needed, and either may send first */
	p.p2p = !self;
	return p;
}

static bool open_conn(struct oob *o);

/* Another connection of the device to this peer has the port. */
static void port_in_use(struct oob *o)
{
	if (o->tries < PORT_TRIES && o->q->c->state == CLIENT_READY) {
		o->tries++;
		if (open_conn(o))
			return;
	} else if (o->tries == PORT_TRIES && rnicd.port[o->q->pd->dev]->cfg->qp_peers == RNICD_PEERS_DAEMONS) {
		oob_tell(o, "those that were tried have connections to its peer already");
	}
	seek_again(o);
}

static void oob_opened(struct cmd *cmd)
{
	struct open *op = rn_container_of(cmd, struct open, cmd);
	/* NULL: the connection has ended already, and its effects were handled before this answer */
	struct cm_conn *k = cm_conn_of(cmd->open.owner);

	if (k != NULL && cmd->open.cv == CONN_OK) {
		k->conn = cmd->open.conn;
		if (k->oob == NULL) /* the QP was destroyed meanwhile */
			cm_conn_end(k->worker, k->conn, k->owner.key);
	} else if (k != NULL) {
		struct oob *o = k->oob;
		cm_conn_free(k);
		if (o != NULL && cmd->open.cv == CONN_IN_USE)
			port_in_use(o);
		else if (o != NULL)
			seek_again(o);
	}
	free(op);
}

/* Opens a connection to the peer. False: no memory or port at the moment, or the user has too many connections. */
static bool open_conn(struct oob *o)
{
	struct open *op = calloc(1, sizeof(*op));
	struct cm_conn *k = op != NULL ? cm_conn_make(NULL, owner_new()) : NULL;
	uint32_t dev = o->q->pd->dev;
	const bool low = rnicd.port[dev]->cfg->qp_peers == RNICD_PEERS_DAEMONS;

	if (k == NULL || getrandom(&o->cookie, sizeof(o->cookie), 0) != (ssize_t)sizeof(o->cookie)) {
		if (k != NULL)
			cm_conn_free(k);
		free(op);
		return false;
	}
	const struct oob_hello h = {
		.src_qpn = o->q->qpn, .dst_qpn = o->peer_qpn, .cookie = o->cookie, .xrc = (uint8_t)o->q->xrc
	};
	oob_hello_build(op->priv, OOB_REQUEST, &h);
	struct conn_addr a = { .port = dev, .local = rnicd.port[dev]->cfg->ip, .rport = rnicd.port[dev]->cfg->qp_port };
	a.lport = low ? cm_port_own(dev, o->tries > 0) : cm_port_next(dev, cm_family_of(dev));
	a.tos = o->tos;
	if (o->self)
		a.rport = a.lport;
	if (a.lport == 0) { /* programs have all ports */
		cm_conn_free(k);
		free(op);
		return false;
	}
	memcpy(a.remote.b, o->peer, sizeof(o->peer));
	op->cmd = (struct cmd){ .type = CMD_CONN_OPEN, .done = oob_opened };
	op->cmd.open = (struct cmd_conn_open){ .addr = a,
					       .owner = k->owner.key,
					       .dev = dev_get(dev),
					       .policy = policy(dev, o->self),
					       .priv = op->priv,
					       .priv_len = sizeof(op->priv),
					       .flags = RC_KEEP_RECV | (o->self ? RC_SELF : 0u) };
	if (low && (k->share = oob_share_take(o->q->c->user, dev, o->peer)) == NULL) {
		oob_tell(o, "its user has as many connections to its peer as a user may (user-share)");
		cm_conn_free(k);
		free(op);
		return false;
	}
	if (!cm_conn_on(k, o->q->c->user, conn_owner(&a), USER_OPENINGS)) {
		cm_conn_free(k);
		free(op);
		return false;
	}
	k->oob = o;
	k->dev = dev;
	k->lport = a.lport;
	memcpy(k->local.ip, a.local.b, sizeof(k->local.ip));
	memcpy(k->remote.ip, o->peer, sizeof(o->peer));
	k->local.port = a.lport;
	k->remote.port = a.rport;
	o->k = k;
	oob_set_state(o, OOB_OPENING);
	cmd_send(&op->cmd, k->worker);
	return true;
}

/* ---- sends that wait for a connection ---- */

static void gave_up(struct cmd *cmd)
{
	struct client_qp *q = rn_container_of(cmd, struct client_qp, cmd);

	oob_totals.gave_up++;
	oob_set_state(q->oob, OOB_OVER);
	client_qp_return(q);
}

static void looked(struct cmd *cmd)
{
	struct client_qp *q = rn_container_of(cmd, struct client_qp, cmd);
	struct oob *o = q->oob;
	uint64_t now = rnicd_now();

	if (!cmd->qp.waits)
		o->since = 0;
	else if (o->since == 0)
		o->since = now;
	uint64_t patience_ns = o->state == OOB_OVER ? PARTING_NS : o->patience_ns;
	bool looks = o->state == OOB_SEEKING || o->state == OOB_OVER;
	if (looks && o->since != 0 && now - o->since > patience_ns) {
		q->cmd.qp = (struct cmd_qp){ .qp = q->qp };
		client_qp_command(q, CMD_QP_GIVE_UP, gave_up);
		return;
	}
	if (o->state == OOB_SEEKING) {
		o->pause_ns = rn_min_u64(2 * o->pause_ns, PAUSE_MAX_NS);
		o->tries = 0;
		if (!o->active || !open_conn(o))
			seek(o, o->pause_ns);
	} else if (o->state == OOB_OVER && cmd->qp.works) {
		look_later(o, PAUSE_MAX_NS);
	}
	client_qp_return(q);
}

static void tick(struct loop_timer *t)
{
	struct oob *o = rn_container_of(t, struct oob, timer);

	if (o->q->c->state != CLIENT_READY)
		return;
	if (!client_qp_is_free(o->q)) {
		look_later(o, o->pause_ns);
		return;
	}
	o->q->cmd.qp = (struct cmd_qp){ .qp = o->q->qp };
	client_qp_command(o->q, CMD_QP_WAITS, looked);
}

/* ---- attaching ---- */

static void oob_joined(struct cmd *cmd)
{
	struct client_qp *q = rn_container_of(cmd, struct client_qp, cmd);
	struct oob *o = q->oob;

	if (o->state == OOB_JOINING && cmd->join.qv == QP_OK) {
		oob_set_state(o, OOB_JOINED);
	} else if (o->state == OOB_JOINING) { /* the QP is in the wrong state, or the peer has gone */
		if (o->k != NULL && cmd->join.qv != QP_NO_AGREEMENT)
			cm_conn_end(o->k->worker, o->k->conn, o->k->owner.key);
		seek_again(o);
	}
	client_qp_return(q);
}

/* Attaches the QP, which is at the connection's worker and whose client is alive. */
static void send_join(struct oob *o)
{
	struct client_qp *q = o->q;
	const struct rnicd_port_cfg *p = rnicd.port[q->pd->dev]->cfg;
	const struct oob_hello h = {
		.src_qpn = q->qpn, .dst_qpn = o->peer_qpn, .cookie = o->cookie, .xrc = (uint8_t)q->xrc
	};

	oob_hello_build(o->priv, OOB_REPLY, &h);
	q->cmd.join = (struct cmd_conn_join){ .which = o->which,
					      .qp = q->qp,
					      .client = q->c->wc[q->worker],
					      .ird = p->max_ird,
					      .ord = p->max_ord,
					      .tos = o->tos,
					      .priv = o->priv,
					      .priv_len = sizeof(o->priv) };
	client_qp_command(q, CMD_CONN_JOIN, oob_joined);
}

/* The QP has moved to the connection's worker, unless another worker's connection has it. */
static void oob_arrived(struct client_qp *q)
{
	struct oob *o = q->oob;

	if (o->state != OOB_JOINING || q->c->state == CLIENT_DYING) { /* the peer or the client has gone meanwhile */
		client_qp_return(q);
		return;
	}
	if (client_qp_is_there(q)) {
		send_join(o);
		return;
	}
	if (o->k != NULL)
		cm_conn_end(o->k->worker, o->k->conn, o->k->owner.key);
	seek_again(o);
	client_qp_return(q);
}

static void start_join(struct oob *o)
{
	struct client_qp *q = o->q;

	o->due = false;
	o->which = (struct cmd_conn){ .conn = o->k->conn, .key = o->k->owner.key };
	cm_conn_give(o->k, q->c);
	o->k->qp = q->owner.key;
	client_qp_lend(q, o->k->worker, o, oob_arrived);
}

void oob_join(struct oob *o, struct cm_conn *k)
{
	loop_timer_disarm(&o->timer);
	oob_set_state(o, OOB_JOINING);
	o->k = k;
	k->oob = o;
	if (!client_qp_is_free(o->q))
		o->due = true;
	else
		start_join(o);
}

void oob_settled(struct client_qp *q)
{
	if (q->oob != NULL && q->oob->due && q->c->state == CLIENT_READY)
		start_join(q->oob);
}

/* ---- reports of workers ---- */

static bool reply_good(const struct oob *o, const struct event_fx *fx)
{
	struct oob_hello h;

	return o->self || (oob_hello_parse(fx->priv, fx->priv_len, OOB_REPLY, &h) && h.src_qpn == o->peer_qpn &&
			   h.dst_qpn == o->q->qpn && h.cookie == o->cookie && h.xrc == oob_counterpart(o->q->xrc));
}

void oob_fx(struct cm_conn *k, const struct event_fx *fx)
{
	struct oob *o = k->oob;

	switch ((enum qp_fx_type)fx->type) {
	case QP_FX_CONNECT_REPLY:
		if (reply_good(o, fx)) {
			oob_join(o, k);
			return;
		}
		oob_totals.bad++;
		cm_conn_end(k->worker, k->conn, k->owner.key);
		seek_again(o);
		return;
	case QP_FX_ESTABLISHED:
		oob_totals.up++;
		oob_set_state(o, OOB_UP);
		return;
	case QP_FX_REJECTED:
	case QP_FX_UNREACHABLE:
	case QP_FX_CONNECT_ERROR:
	case QP_FX_DISCONNECTED:
	case QP_FX_CLOSED:
		if (o->state == OOB_UP) {
			oob_set_state(o, OOB_OVER);
			o->k = NULL;
			k->oob = NULL;
			o->since = 0;
			look_later(o, PAUSE_MAX_NS);
		} else {
			seek_again(o);
		}
		return;
	case QP_FX_CONNECT_REQUEST:
	case QP_FX_QP_EVENT:
	case QP_FX_SRQ_EVENT:
	case QP_FX_CQ_ERROR:
	case QP_FX_CQ_NOTIFY: return;
	}
}

/* ---- life ---- */

/* Whether this side connects: the side with the larger (address, QPN) does. */
static bool larger(const struct client_qp *q, const uint8_t peer[16], uint32_t peer_qpn)
{
	int d = memcmp(rnicd.port[q->pd->dev]->cfg->ip.b, peer, 16);

	return d > 0 || (d == 0 && q->qpn > peer_qpn);
}

bool oob_begin(struct client_qp *q, const struct ipc_modify_qp *r)
{
	static const uint8_t nowhere[16];
	struct oob *o = calloc(1, sizeof(*o));

	if (o == NULL)
		return false;
	memcpy(o->peer, r->dest_ip, sizeof(o->peer));
	/* without a GRH the destination is a device of this daemon */
	if (memcmp(o->peer, nowhere, sizeof(o->peer)) == 0) {
		const struct client_qp *other = client_qp_of(r->dest_qpn);
		uint32_t dev = other != NULL ? other->pd->dev : q->pd->dev;
		memcpy(o->peer, rnicd.port[dev]->cfg->ip.b, sizeof(o->peer));
	}
	o->q = q;
	o->peer_qpn = r->dest_qpn;
	o->tos = r->tos;
	o->self = r->dest_qpn == q->qpn && q->xrc == IPC_XRC_NONE &&
		  memcmp(o->peer, rnicd.port[q->pd->dev]->cfg->ip.b, sizeof(o->peer)) == 0;
	o->active = o->self || larger(q, o->peer, r->dest_qpn);
	o->patience_ns = RN_NEVER;
	o->pause_ns = PAUSE_FIRST_NS;
	q->oob = o;
	struct cm_conn *k = o->active ? NULL : oob_held_take(o);
	if (k != NULL)
		oob_join(o, k);
	else
		seek(o, o->pause_ns);
	if (o->active && open_conn(o))
		loop_timer_disarm(&o->timer);
	return true;
}

void oob_patience(struct client_qp *q, uint8_t timeout, uint8_t retry_cnt)
{
	if (q->oob == NULL)
		return;
	uint64_t each = UINT64_C(4096) << (timeout & 31); /* IBTA volume 1, 9.7.6.1.3 */
	q->oob->patience_ns = timeout == 0 ? RN_NEVER : rn_max_u64(each * (retry_cnt + 1u), PATIENCE_MIN_NS);
	if (q->oob->state == OOB_SEEKING && must_look(q->oob) && !rn_timer_armed(&q->oob->timer.t))
		look_later(q->oob, q->oob->pause_ns);
}

void oob_leave(struct client_qp *q)
{
	struct oob *o = q->oob;

	if (o == NULL)
		return;
	loop_timer_disarm(&o->timer);
	if (o->k != NULL) {
		o->k->oob = NULL;
		if (o->state < OOB_JOINED && o->k->conn != NULL)
			cm_conn_end(o->k->worker, o->k->conn, o->k->owner.key);
	}
	q->oob = NULL;
	free(o);
}
