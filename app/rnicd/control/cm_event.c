/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns the workers' reports about connections into events of rdma_cm. An event's status is the one that the kernel's
 * iWARP connection manager gives.
 */
#include <errno.h>
#include <string.h>

#include "border/news.h"
#include "control/addr_text.h"
#include "control/cm.h"
#include "control/oob.h"
#include "control/why.h"

/* A Request has come to a listener: makes a new id for it, which the client gets with the event. */
static void cm_event_on_request(const struct event_fx *fx)
{
	struct owner *o = owner_get(OWNER_LISTEN, fx->listener);
	struct cm_id *l = o != NULL ? rn_container_of(o, struct cm_id, owner) : NULL;
	struct cm_id *id = NULL;

	if (l != NULL && l->c->state == CLIENT_READY && l->requests < l->backlog)
		id = cm_id_new(l->c, l->chan);
	if (id != NULL) {
		id->dev = fx->port;
		id->local = fx->local;
		id->remote = fx->remote;
	}
	struct cm_conn *k = id != NULL ? cm_conn_new(l->c, id, fx->owner) : NULL;
	if (k != NULL && !cm_conn_on(k, l->c->user, fx->worker, USER_REQUESTS)) {
		cm_conn_free(k);
		k = NULL;
	}
	if (k == NULL) { /* the listener is gone, or has too many unanswered requests: reject, as with a full backlog */
		if (id != NULL)
			cm_id_free(id);
		cm_conn_end(fx->worker, fx->conn, fx->owner);
		return;
	}
	k->conn = fx->conn;
	cm_request_come(id, l);
	cm_set_state(id, CM_REQUESTED);
	if (!cm_event(id, CM_EV_CONNECT_REQUEST, 0, fx)) { /* a lost event: the client would never destroy the id */
		cm_conn_leave(id);
		cm_id_free(id);
	}
}

/* Reasons of an InfiniBand REJ message (IBTA volume 1, 12.6.7.2): programs for InfiniBand and RoCE adapters expect them
 * as the status of REJECTED. */
enum { IB_REJ_SERVICE = 8, IB_REJ_CONSUMER = 28 };

static int refused(const struct cm_id *id, int ib_reason)
{
	return rnicd_adapter(rnicd.port[id->dev]->cfg) ? ib_reason : -ECONNREFUSED;
}

static void on_end(struct cm_id *id, enum cm_event_type type, int status, const struct event_fx *fx)
{
	cm_request_over(id);
	cm_set_state(id, CM_OVER);
	cm_event(id, type, status, fx);
}

static void on_disconnected(struct cm_id *id, uint64_t qp, uint32_t worker)
{
	cm_request_over(id);
	cm_set_state(id, CM_OVER);
	id->disconnected = true;
	cm_disconnected(id, qp, worker);
}

static void on_closed(struct cm_conn *k)
{
	struct cm_id *id = k->id;
	const uint64_t qp = k->qp;
	const uint32_t worker = k->worker;

	cm_conn_free(k);
	if (id == NULL)
		return;
	if (id->state == CM_CONNECTED)
		on_disconnected(id, qp, worker);
	else if (id->state != CM_OVER)
		on_end(id, CM_EV_CONNECT_ERROR, -ECONNRESET, NULL);
	/* InfiniBand's connection manager reports when the QPN may be used again; iWARP's has no such event. */
	if (id->disconnected && rnicd_adapter(rnicd.port[id->dev]->cfg))
		cm_timewait_over(id);
}

/* The fate of a connection, for rnicctl events. */
static void fx_news(const struct event_fx *fx)
{
	const char *what = NULL;
	char from[46], to[46];

	switch ((enum qp_fx_type)fx->type) {
	case QP_FX_ESTABLISHED: what = "established"; break;
	case QP_FX_REJECTED: what = "rejected by the peer"; break;
	case QP_FX_UNREACHABLE: what = fx->code == 0 ? "not answered" : "refused by the peer"; break;
	case QP_FX_CONNECT_ERROR: what = "broken in its set-up"; break;
	case QP_FX_DISCONNECTED: what = fx->vendor_err == 0 ? "ended" : "ended by a Terminate"; break;
	case QP_FX_CONNECT_REQUEST:
	case QP_FX_CONNECT_REPLY:
	case QP_FX_CLOSED:
	case QP_FX_QP_EVENT:
	case QP_FX_CQ_ERROR:
	case QP_FX_CQ_NOTIFY:
	case QP_FX_SRQ_EVENT: return;
	}
	news_add(NEWS_CONNECTION, "port %s: %s:%u to %s:%u is %s", rnicd.port[fx->port]->cfg->name,
		 addr_text(fx->local.ip, from, sizeof(from)), fx->local.port, addr_text(fx->remote.ip, to, sizeof(to)),
		 fx->remote.port, what);
}

void cm_fx(const struct event_fx *fx)
{
	struct cm_conn *k = cm_conn_of(fx->owner);

	if (k == NULL) {
		if (fx->type == QP_FX_CONNECT_REQUEST && !oob_request(fx))
			cm_event_on_request(fx);
		return;
	}
	k->conn = fx->conn;
	if (fx->type == QP_FX_ESTABLISHED)
		cm_conn_established(k);
	why_connection(fx);
	fx_news(fx);
	if (k->oob != NULL)
		oob_fx(k, fx);
	struct cm_id *id = k->id;
	if (fx->type == QP_FX_CLOSED) {
		on_closed(k);
		return;
	}
	if (id == NULL)
		return;
	switch ((enum qp_fx_type)fx->type) {
	case QP_FX_CONNECT_REPLY:
		cm_set_state(id, CM_RESPONDED);
		cm_event(id, CM_EV_CONNECT_RESPONSE, 0, fx);
		break;
	case QP_FX_ESTABLISHED:
		cm_set_state(id, CM_CONNECTED);
		if (!id->quiet)
			cm_event(id, CM_EV_ESTABLISHED, 0, fx);
		break;
	case QP_FX_REJECTED: on_end(id, CM_EV_REJECTED, refused(id, IB_REJ_CONSUMER), fx); break;
	case QP_FX_UNREACHABLE:
		if (fx->code == 0)
			on_end(id, CM_EV_UNREACHABLE, -ETIMEDOUT, NULL);
		else /* nobody listens at that port */
			on_end(id, CM_EV_REJECTED, refused(id, IB_REJ_SERVICE), NULL);
		break;
	case QP_FX_CONNECT_ERROR: on_end(id, CM_EV_CONNECT_ERROR, fx->code != 0 ? -EPROTO : -ECONNRESET, NULL); break;
	case QP_FX_DISCONNECTED: on_disconnected(id, k->qp, k->worker); break;
	case QP_FX_CONNECT_REQUEST: /* on a socket of the program (cm_socket.c), without listener */
		id->listener_handle = id->handle;
		cm_set_state(id, CM_REQUESTED);
		cm_event(id, CM_EV_CONNECT_REQUEST, 0, fx);
		break;
	case QP_FX_CLOSED:
	case QP_FX_QP_EVENT:
	case QP_FX_CQ_ERROR:
	case QP_FX_CQ_NOTIFY:
	case QP_FX_SRQ_EVENT: break;
	}
}
