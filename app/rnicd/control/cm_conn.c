/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens, accepts, rejects and disconnects connections, each by a command to the worker that the flow belongs to. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "border/policy.h"
#include "control/cm.h"
#include "control/dev.h"
#include "control/oob.h"

/* pause before another attempt, when connections that are being set up have taken all working memory */
#define WAIT_NS    (10 * RN_NS_PER_MS)
#define WAIT_TRIES 200u
#define PORT_TRIES 32u /* attempts with another local port, if the port has a connection to the same peer already */

static struct rn_list conns; /* the newest first */

const struct rn_list *cm_conns(void) { return &conns; }

struct cm_conn *cm_conn_of(uint64_t key)
{
	struct owner *o = owner_get(OWNER_CONN, key);

	return o == NULL ? NULL : rn_container_of(o, struct cm_conn, owner);
}

struct cm_conn *cm_conn_make(struct client *c, uint64_t key)
{
	static uint32_t made;
	struct cm_conn *k = calloc(1, sizeof(*k));

	if (k == NULL)
		return NULL;
	k->number = ++made;
	owner_put(&k->owner, OWNER_CONN, key);
	cm_conn_give(k, c);
	rn_list_push_front(&conns, &k->link);
	return k;
}

struct cm_conn *cm_conn_new(struct client *c, struct cm_id *id, uint64_t key)
{
	struct cm_conn *k = cm_conn_make(c, key);

	if (k == NULL)
		return NULL;
	k->id = id;
	k->dev = id->dev;
	k->local = id->local;
	k->remote = id->remote;
	id->conn = k;
	return k;
}

void cm_conn_established(struct cm_conn *k)
{
	if (k->user != NULL && k->set_up_as != USER_TABLES)
		user_give(k->user, k->set_up_as, k->worker, 1);
	k->set_up_as = USER_TABLES;
}

static void leave_worker(struct cm_conn *k)
{
	if (k->user == NULL)
		return;
	cm_conn_established(k);
	user_give(k->user, USER_FLOWS, k->worker, 1);
	user_put(k->user);
	k->user = NULL;
}

bool cm_conn_on(struct cm_conn *k, struct user *u, uint32_t worker, enum user_table as)
{
	leave_worker(k);
	k->worker = worker;
	if (!user_take(u, USER_FLOWS, worker, 1))
		return false;
	if (!user_take(u, as, worker, 1)) {
		user_give(u, USER_FLOWS, worker, 1);
		return false;
	}
	k->set_up_as = as;
	k->user = user_hold(u);
	return true;
}

void cm_conn_free(struct cm_conn *k)
{
	if (k->id != NULL)
		k->id->conn = NULL;
	oob_conn_gone(k);
	leave_worker(k);
	cm_conn_give(k, NULL);
	rn_list_remove(&conns, &k->link);
	owner_del(&k->owner);
	free(k);
}

/* A request of a client that a worker carries out. The client waits for the answer, so its id and QP stay valid. */
struct op {
	struct cmd cmd;
	struct client *c;
	struct cm_id *id;
	struct cm_conn *k;
	struct client_qp *q; /* NULL: none */
	struct cmd_conn which;
	struct conn_addr addr;
	struct mpa_policy policy;
	struct qp_tune tune;
	enum cm_state was; /* state of the id before accept */
	uint32_t tries;    /* local ports tried so far */
	uint16_t tried;    /* the first one of them */
	uint32_t waits;    /* pauses so far for lack of working memory or of the user's share */
	struct loop_timer wait;
	void (*go)(struct op *o); /* continues when the QP is at the worker */
	uint16_t ird, ord;
	uint8_t tos;
	uint16_t priv_len;
	uint8_t priv[IPC_PRIV_MAX];
};

static struct op *cm_conn_op_new(struct client *c, struct cm_id *id, enum cmd_type type, void (*done)(struct cmd *))
{
	struct op *o = calloc(1, sizeof(*o));

	if (o == NULL) {
		client_error(c, ENOMEM, "no memory");
		return NULL;
	}
	o->c = c;
	o->id = id;
	o->k = id->conn;
	o->cmd.type = type;
	o->cmd.done = done;
	if (o->k != NULL)
		o->which = (struct cmd_conn){ .conn = o->k->conn, .key = o->k->owner.key };
	return o;
}

static void op_end(struct op *o, int err, const char *sentence)
{
	struct client *c = o->c;

	if (o->q != NULL)
		client_qp_return(o->q);
	free(o);
	if (!client_back(c))
		return;
	if (err == 0)
		client_ok(c);
	else
		client_error(c, err, "%s", sentence);
}

/* Checks the parameters and the QP of CONNECT and ACCEPT, and makes the op; NULL: the client was answered with an
 * error. */
static struct op *op_with_qp(struct client *c, struct cm_id *id, enum cmd_type type, void (*done)(struct cmd *))
{
	const struct ipc_cm_connect *r = &c->req.cm_connect;
	struct client_qp *q = r->qp != 0 ? table_get(&c->qp, r->qp) : NULL;
	const struct rnicd_port_cfg *p = rnicd.port[id->dev]->cfg;

	if (r->qp != 0 && (q == NULL || !client_qp_is_free(q))) {
		client_error(c, EINVAL, "there is no queue pair %u", r->qp);
		return NULL;
	}
	if (q != NULL && (q->datagram || q->xrc != IPC_XRC_NONE)) {
		client_error(c, EINVAL, "the queue pair is one of %s",
			     q->datagram ? "datagrams: it cannot be connected"
					 : "XRC: connect it by ibv_modify_qp, without connection manager");
		return NULL;
	}
	if (q != NULL && q->pd->dev != id->dev) {
		client_error(c, EINVAL, "the queue pair is not of the device that the connection uses (%s)", p->name);
		return NULL;
	}
	if (r->param.priv_len > IPC_PRIV_MAX) {
		client_error(c, EINVAL, "private data of %u bytes: at most %u are possible", r->param.priv_len,
			     IPC_PRIV_MAX);
		return NULL;
	}
	struct op *o = cm_conn_op_new(c, id, type, done);
	if (o == NULL)
		return NULL;
	o->q = q;
	o->ird = (uint16_t)rn_min_u32(r->param.ird, p->max_ird);
	o->ord = (uint16_t)rn_min_u32(r->param.ord, p->max_ord);
	o->priv_len = r->param.priv_len;
	memcpy(o->priv, r->param.priv, o->priv_len);
	o->tos = r->param.tos;
	if (q != NULL) {
		client_qp_rnr(q, r->param.rnr_retry, 0); /* rdma_cm sets no RNR timer: the longest */
		client_qp_silence(q, r->param.timeout, r->param.retry_cnt);
	}
	return o;
}

static void qp_there(struct client_qp *q)
{
	struct op *o = q->borrower;

	o->go(o);
}

/* True: the QP has a connection of another worker, and so has not been moved. */
static bool qp_stayed(const struct op *o) { return o->q != NULL && !client_qp_is_there(o->q); }

/* Moves the QP to that worker, unless qp_stayed(), and then calls `go`; at once if there is no QP. */
static void bring_qp(struct op *o, uint32_t worker, void (*go)(struct op *o))
{
	o->go = go;
	if (o->q == NULL)
		go(o);
	else
		client_qp_lend(o->q, worker, o, qp_there);
}

/* ---- connect ---- */

static void open_go(struct op *o);

static uint16_t next_port(const struct op *o) { return cm_port_next(o->id->dev, cm_family_of(o->id->dev)); }

/*
 * Chooses the local port, if possible one with which the flow belongs to the QP's worker. Returns the flow's worker. If
 * few ports are free, each call of next_port() is a long search: the port that comes first again ends the loop.
 */
static uint32_t choose_port(struct op *o)
{
	if (o->id->has_port || o->id->handed != NULL) {
		o->addr.lport = o->id->local.port;
		return conn_owner(&o->addr);
	}
	const uint16_t first = next_port(o);
	uint16_t p = first;
	o->addr.lport = first;
	for (uint32_t i = 0; o->q != NULL && i < 16 * rnicd.n_workers && conn_owner(&o->addr) != o->q->worker &&
			     (p = next_port(o)) != first;
	     i++)
		o->addr.lport = p;
	return conn_owner(&o->addr);
}

static void open_retry(struct op *o) { bring_qp(o, choose_port(o), open_go); }

/* The local port may not be used: tries another one. False: no other port is free, or enough have been tried. */
static bool open_elsewhere(struct op *o)
{
	if (o->tries == 0)
		o->tried = o->addr.lport;
	if (o->id->has_port || ++o->tries >= PORT_TRIES || o->c->state == CLIENT_DYING)
		return false;
	const uint32_t w = choose_port(o);
	if (o->addr.lport == o->tried)
		return false;
	bring_qp(o, w, open_go);
	return true;
}

static void waited(struct loop_timer *t) { open_retry(rn_container_of(t, struct op, wait)); }

/* Other connections are being set up and use all memory, or the user's whole share: tries again after a pause. False:
 * there were WAIT_TRIES pauses already, or the client is dying. */
static bool wait_for_others(struct op *o)
{
	if (++o->waits >= WAIT_TRIES || o->c->state == CLIENT_DYING)
		return false;
	o->wait.due = waited;
	loop_timer_arm(&o->wait, rnicd_now() + WAIT_NS);
	return true;
}

static void cm_conn_opened(struct cmd *cmd)
{
	struct op *o = rn_container_of(cmd, struct op, cmd);

	const enum conn_verdict cv = cmd->open.cv;
	const enum qp_verdict qv = cmd->open.qv;

	if (cv != CONN_OK)
		leave_worker(o->k); /* while it waits for another attempt it takes nothing of the user's share */
	switch (cv) {
	case CONN_OK:
		/* The first effects of the connection may have been handled before this answer: the connection may even
		 * be over. */
		if (cm_conn_of(cmd->open.owner) != NULL) {
			o->k->conn = cmd->open.conn;
			o->k->lport = o->addr.lport;
		}
		o->id->handed = NULL;
		op_end(o, 0, "");
		return;
	case CONN_IN_USE:
	case CONN_DENIED:
		if (open_elsewhere(o))
			return;
		break;
	case CONN_QP:
		if (qv == QP_NO_MEMORY && wait_for_others(o))
			return;
		break;
	case CONN_NO_ROUTE:
	case CONN_FULL: break;
	}
	cm_conn_free(o->k);
	cm_set_state(o->id, CM_ROUTE_KNOWN);
	switch (cv) {
	case CONN_IN_USE: op_end(o, EADDRINUSE, "there is such a connection already: same addresses and ports"); break;
	case CONN_DENIED: op_end(o, EACCES, CM_DENIED); break;
	case CONN_NO_ROUTE:
		op_end(o, ENETUNREACH, "the destination is not on the device's network and there is no gateway");
		break;
	case CONN_FULL:
		op_end(o, ENOMEM,
		       rnicd.own
			       ? "no memory or descriptor for another connection: raise the program's limit (ulimit -n)"
			       : "the worker has no room for another connection: raise 'flows' in rnicd's configuration");
		break;
	case CONN_OK:
	case CONN_QP:
		op_end(o, qv == QP_NO_MEMORY ? ENOMEM : EINVAL,
		       qv == QP_NO_MEMORY
			       ? rnicd.own ? "too many connections are being set up at once: connect again later"
					   : "too many connections are being set up at once: raise 'memory' in rnicd's "
					     "configuration"
		       : qv == QP_BAD_PRIV
			       ? "the private data is too long: 508 bytes with MPA revision 2, 512 with 1"
			       : "the queue pair is connected already, or in a state that cannot be connected");
		break;
	}
}

static void open_refused(struct op *o, int err, const char *why)
{
	if (o->k != NULL)
		cm_conn_free(o->k);
	cm_set_state(o->id, CM_ROUTE_KNOWN);
	op_end(o, err, why);
}

static void open_go(struct op *o)
{
	if (qp_stayed(o)) {
		open_refused(o, EINVAL, "the queue pair is connected already");
		return;
	}
	if (o->addr.lport == 0) {
		open_refused(o, EADDRNOTAVAIL, CM_NO_PORT);
		return;
	}
	if (!user_has_room(o->c->user, USER_OPENINGS, conn_owner(&o->addr), 1) && wait_for_others(o))
		return;
	if (o->k == NULL)
		o->k = cm_conn_new(o->c, o->id, owner_new());
	if (o->k == NULL) {
		op_end(o, ENOMEM, "no memory");
		return;
	}
	if (!cm_conn_on(o->k, o->c->user, conn_owner(&o->addr), USER_OPENINGS)) {
		open_refused(o, ENOMEM,
			     "the user of this client has as many connections of a worker, or opens as many at once, "
			     "as one user may (flows, user-share)");
		return;
	}
	o->k->qp = o->q != NULL ? o->q->owner.key : 0;
	o->k->local.port = o->addr.lport;
	o->id->local.port = o->addr.lport;
	cm_set_state(o->id, CM_CONNECTING);
	o->cmd.open = (struct cmd_conn_open){ .addr = o->addr,
					      .owner = o->k->owner.key,
					      .dev = dev_get(o->addr.port),
					      .policy = o->policy,
					      .handed = o->id->handed,
					      .priv = o->priv,
					      .priv_len = o->priv_len };
	if (o->q != NULL) {
		o->cmd.open.qp = o->q->qp;
		o->cmd.open.client = o->c->wc[o->k->worker];
		o->cmd.open.tune = client_qp_tune(o->q);
		o->cmd.open.design = o->q->design;
	}
	cmd_send(&o->cmd, o->k->worker);
}

void cm_connect(struct client *c)
{
	struct cm_id *id = cm_find(c, c->req.cm_connect.id);

	if (id == NULL)
		return;
	if (id->udp) {
		cm_sidr_connect(c, id);
		return;
	}
	if (!cm_has_route(id) || id->conn != NULL) {
		cm_wrong_state(c, id, "connect");
		return;
	}
	/* Only daemons may announce queue pair numbers on qp-port (oob.h). */
	if (id->remote.port != 0 && id->remote.port == rnicd.port[id->dev]->cfg->qp_port) {
		client_error(c, EACCES, "port %u: %s", id->remote.port, cm_port_refusal(c, id->dev, id->remote.port));
		return;
	}
	struct op *o = op_with_qp(c, id, CMD_CONN_OPEN, cm_conn_opened);
	if (o == NULL)
		return;
	o->policy = conn_policy(rnicd.port[id->dev]);
	o->policy.ird = o->ird;
	o->policy.ord = o->ord;
	o->addr = (struct conn_addr){ .port = id->dev, .rport = id->remote.port, .tos = o->tos };
	memcpy(o->addr.local.b, id->local.ip, 16);
	memcpy(o->addr.remote.b, id->remote.ip, 16);
	client_hold(c);
	bring_qp(o, choose_port(o), open_go);
}

/* ---- accept ---- */

static void accepted(struct cmd *cmd)
{
	struct op *o = rn_container_of(cmd, struct op, cmd);
	const enum qp_verdict qv = cmd->join.qv;
	bool over = qv == QP_BAD_STATE;

	if (qv == QP_OK || qv == QP_NO_AGREEMENT) {
		op_end(o, 0, ""); /* if the negotiation fails, CONNECT_ERROR follows */
		return;
	}
	if (o->id->state == CM_ACCEPTING) /* no effect has reported the end of the connection */
		cm_set_state(o->id, o->was);
	op_end(o, over ? ENOTCONN : EINVAL,
	       over                ? "the peer has given up, or the queue pair is connected already"
	       : qv == QP_BAD_PRIV ? "the private data is too long for the peer's MPA revision"
				   : "the queue pair is in a state that cannot be connected");
}

static void accept_go(struct op *o)
{
	/* the connection has ended while the QP moved to its worker */
	if (o->id->conn == NULL || o->id->state != o->was) {
		op_end(o, ENOTCONN, "the peer has given up");
		return;
	}
	if (qp_stayed(o)) {
		op_end(o, ENOTCONN, "the queue pair is connected already");
		return;
	}
	o->k->qp = o->q->owner.key;
	cm_set_state(o->id, CM_ACCEPTING);
	o->tune = client_qp_tune(o->q);
	o->cmd.join = (struct cmd_conn_join){ .which = o->which,
					      .qp = o->q->qp,
					      .client = o->c->wc[o->k->worker],
					      .tune = &o->tune,
					      .ird = o->ird,
					      .ord = o->ord,
					      .tos = o->tos,
					      .design = (uint8_t)o->q->design,
					      .priv = o->priv,
					      .priv_len = o->priv_len };
	cmd_send(&o->cmd, o->k->worker);
}

void cm_accept(struct client *c)
{
	struct cm_id *id = cm_find(c, c->req.cm_connect.id);

	if (id == NULL)
		return;
	if (id->udp) {
		cm_sidr_accept(c, id);
		return;
	}
	if ((id->state != CM_REQUESTED && id->state != CM_RESPONDED) || id->conn == NULL) {
		cm_wrong_state(c, id, "accept");
		return;
	}
	if (c->req.cm_connect.qp == 0) {
		client_error(c, EINVAL, "accept needs a queue pair");
		return;
	}
	struct op *o = op_with_qp(c, id, CMD_CONN_JOIN, accepted);
	if (o == NULL)
		return;
	o->was = id->state;
	id->quiet = c->req.cm_connect.param.quiet != 0;
	cm_request_leave(id);
	client_hold(c);
	bring_qp(o, id->conn->worker, accept_go);
}

/* ---- reject, disconnect ---- */

static void rejected(struct cmd *cmd)
{
	struct op *o = rn_container_of(cmd, struct op, cmd);

	if (cmd->join.qv == QP_BAD_PRIV) {
		op_end(o, EINVAL, "the private data is too long for the peer's MPA revision");
		return;
	}
	cm_set_state(o->id, CM_OVER);
	op_end(o, 0, ""); /* success, even if the peer has ended the connection before */
}

void cm_reject(struct client *c)
{
	const struct ipc_cm_reject *r = &c->req.cm_reject;
	struct cm_id *id = cm_find(c, r->id);

	if (id == NULL)
		return;
	if (id->udp) {
		cm_sidr_reject(c, id);
		return;
	}
	if (id->state != CM_REQUESTED || id->conn == NULL) {
		cm_wrong_state(c, id, "reject");
		return;
	}
	if (r->priv_len > IPC_PRIV_MAX) {
		client_error(c, EINVAL, "private data of %u bytes: at most %u are possible", r->priv_len, IPC_PRIV_MAX);
		return;
	}
	struct op *o = cm_conn_op_new(c, id, CMD_CONN_REJECT, rejected);
	if (o == NULL)
		return;
	o->priv_len = r->priv_len;
	memcpy(o->priv, r->priv, r->priv_len);
	cm_request_leave(id);
	client_hold(c);
	o->cmd.join = (struct cmd_conn_join){ .which = o->which, .priv = o->priv, .priv_len = o->priv_len };
	cmd_send(&o->cmd, o->k->worker);
}

static void disconnected(struct cmd *cmd)
{
	op_end(rn_container_of(cmd, struct op, cmd), 0, ""); /* DISCONNECTED follows */
}

void cm_disconnect(struct client *c)
{
	struct cm_id *id = cm_find(c, c->req.handle.handle);

	if (id == NULL)
		return;
	if (id->udp) {
		client_error(c, EINVAL, "an id for datagrams has no connection to disconnect");
		return;
	}
	if (id->state == CM_OVER) { /* the peer has ended the connection already, which is what the client wants */
		client_ok(c);
		return;
	}
	if (id->conn == NULL || id->conn->conn == NULL) {
		cm_wrong_state(c, id, "disconnect");
		return;
	}
	struct op *o = cm_conn_op_new(c, id, CMD_CONN_DISCONNECT, disconnected);
	if (o == NULL)
		return;
	client_hold(c);
	o->cmd.conn = o->which;
	cmd_send(&o->cmd, o->k->worker);
}

/* ---- an id is destroyed: the end of its connection ---- */

static void cm_conn_left(struct cmd *cmd) { free(cmd); }

void cm_conn_end(uint32_t worker, struct rc *conn, uint64_t key)
{
	struct cmd *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return; /* no memory: an unanswered request ends by its time-out, a connection with its QP */
	*c = (struct cmd){ .type = CMD_CONN_END, .done = cm_conn_left, .conn = { .conn = conn, .key = key } };
	cmd_send(c, worker);
}

void cm_conn_leave(struct cm_id *id)
{
	struct cm_conn *k = id->conn;

	if (k == NULL)
		return;
	k->id = NULL;
	id->conn = NULL;
	if (k->conn != NULL)
		cm_conn_end(k->worker, k->conn, k->owner.key);
}
