/* SPDX-License-Identifier: BSD-3-Clause */
/* CM events: from the daemon's queue to the results of rdma_get_cm_event(). */
#include <arpa/inet.h>

#include "rnic/cm/cm.h"

#define GROUP_HOPS 64 /* the hop limit that the kernel gives a RoCE v2 group */

struct seen {
	struct rnic_cm_channel *ch; /* where the event came */
	struct rnic_cm_id *about;   /* NULL: the id does not exist any more */
};

/*
 * Called under the queue's lock. Finds the id that the fetched event is about, and counts the event for the id: from
 * now on rdma_destroy_id() waits for the acknowledgement of the event.
 */
static void on_seen(const void *slot, void *arg)
{
	const struct ipc_cm_event *ev = slot;
	struct seen *seen = arg;
	struct rnic_session *s = seen->ch->q.s;

	pthread_mutex_lock(&s->ids_lock);
	seen->about = cm_id_on(seen->ch, ev->type == RDMA_CM_EVENT_CONNECT_REQUEST ? ev->listen_id : ev->id);
	if (seen->about != NULL)
		seen->about->events_seen++;
	pthread_mutex_unlock(&s->ids_lock);
}

static void param_fill(struct rnic_cm_event *e, const struct ipc_cm_event *ev)
{
	struct rdma_conn_param *p = &e->ev.param.conn;
	uint16_t len = ev->param.priv_len <= IPC_PRIV_MAX ? ev->param.priv_len : IPC_PRIV_MAX;

	memset(e->priv, 0, sizeof(e->priv));
	memcpy(e->priv, ev->param.priv, len);
	p->private_data = len > 0 ? e->priv : NULL;
	p->private_data_len = (uint8_t)rn_min_u32(len, UINT8_MAX);
	/* The peer's initiator depth is our responder resources, and the other way round. */
	p->responder_resources = (uint8_t)rn_min_u32(ev->param.ord, UINT8_MAX);
	p->initiator_depth = (uint8_t)rn_min_u32(ev->param.ird, UINT8_MAX);
}

/* The parameters of a datagram id's event are the peer's address, QPN and Q_Key, in place of those of a connection. */
static void ud_param_fill(struct rnic_cm_event *e, const struct ipc_cm_event *ev)
{
	const struct rdma_conn_param conn = e->ev.param.conn;
	struct rdma_ud_param *p = &e->ev.param.ud;

	memset(&e->ev.param, 0, sizeof(e->ev.param));
	p->private_data = conn.private_data;
	p->private_data_len = conn.private_data_len;
	p->ah_attr.is_global = 1;
	p->ah_attr.port_num = 1;
	memcpy(p->ah_attr.grh.dgid.raw, ev->remote.ip, sizeof(p->ah_attr.grh.dgid.raw));
	p->ah_attr.grh.hop_limit = ev->type == RDMA_CM_EVENT_MULTICAST_JOIN ? GROUP_HOPS : UINT8_MAX;
	p->qp_num = ev->qpn;
	p->qkey = ev->qkey;
}

/* How much private data InfiniBand's message of this event has room for; 0: none. */
static uint8_t priv_room(const struct rnic_cm_id *id, enum rdma_cm_event_type type)
{
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		return CM_PRIV_CONNECT;
	if (!id->active)
		return 0;
	if (type == RDMA_CM_EVENT_CONNECT_RESPONSE || type == RDMA_CM_EVENT_ESTABLISHED)
		return CM_PRIV_ACCEPT;
	return type == RDMA_CM_EVENT_REJECTED ? CM_PRIV_REJECT : 0;
}

static void priv_fill_up(struct rnic_cm_event *e)
{
	struct rdma_conn_param *p = &e->ev.param.conn;
	uint8_t room = cm_adapter(cm_id(e->ev.id)) ? priv_room(cm_id(e->ev.id), e->ev.event) : 0;

	if (room <= p->private_data_len)
		return;
	p->private_data = e->priv;
	p->private_data_len = room;
}

/* A connection request gets an id of its own, on the listener's device and context, and on the request's channel. */
static int request_fill(struct rnic_cm_event *e, const struct ipc_cm_event *ev, struct rnic_cm_channel *ch)
{
	struct rnic_cm_id *listener = e->about;
	struct rnic_cm_id *id = cm_id_adopt(listener->s, ev->id, &ch->ch, false);
	int rc;

	if (id == NULL) {
		cm_request_end(ch, ev->id);
		return ENOMEM;
	}
	id->id.context = listener->id.context;
	id->id.ps = listener->id.ps;
	id->id.qp_type = listener->id.qp_type;
	id->bound = true;
	id->opt = listener->opt;
	id->peer_ird = e->ev.param.conn.initiator_depth;
	id->peer_ord = e->ev.param.conn.responder_resources;
	cm_addr_to(&id->id.route.addr.src_storage, &ev->local);
	cm_addr_to(&id->id.route.addr.dst_storage, &ev->remote);
	e->ev.id = &id->id;
	e->ev.listen_id = &listener->id;
	rc = cm_device(id, ev->dev);
	if (rc == 0 && listener->sync && rdma_migrate_id(&id->id, NULL) != 0)
		rc = errno;
	if (rc != 0)
		rdma_destroy_id(&id->id);
	return rc;
}

/* A request on a socket of rnicdv_await_socket() is about the id itself: there is no listener. */
static int own_request_fill(struct rnic_cm_event *e)
{
	e->about->peer_ird = e->ev.param.conn.initiator_depth;
	e->about->peer_ord = e->ev.param.conn.responder_resources;
	return 0;
}

/*
 * A channel adapter's request carries the requester's retry counts, which programs pass on to rdma_accept(). TCP does
 * not carry them, so they are the largest.
 */
static int request(struct rnic_cm_event *e, const struct ipc_cm_event *ev, struct rnic_cm_channel *ch)
{
	const int rc = ev->id == ev->listen_id ? own_request_fill(e) : request_fill(e, ev, ch);

	if (rc == 0 && cm_adapter(cm_id(e->ev.id))) {
		e->ev.param.conn.retry_count = RETRIES_MOST;
		e->ev.param.conn.rnr_retry_count = RNR_FOR_GOOD;
	}
	return rc;
}

/* With RNIC_VERBOSE, prints an event that reports a failure, with the peer's address. */
static void tell_failure(const struct ipc_cm_event *ev)
{
	const char *hint;
	char ip[INET6_ADDRSTRLEN] = "?";

	switch ((enum rdma_cm_event_type)ev->type) {
	case RDMA_CM_EVENT_ADDR_ERROR: hint = "no device reaches the address"; break;
	case RDMA_CM_EVENT_ROUTE_ERROR: hint = "nobody answers ARP for the address, or there is no route to it"; break;
	case RDMA_CM_EVENT_UNREACHABLE: hint = "no program listens at that port, or the host is silent"; break;
	case RDMA_CM_EVENT_REJECTED: hint = "the server rejected the connection; its private data may say why"; break;
	case RDMA_CM_EVENT_CONNECT_ERROR: hint = "the connection broke while it was set up"; break;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
	default: return;
	}
	if (!rnic_verbose())
		return;
	inet_ntop(AF_INET6, ev->remote.ip, ip, sizeof(ip));
	rnic_tell("rnic: connection to %s, port %u: %s (status %d): %s; rnicd's log says more", ip, ev->remote.port,
		  rdma_event_str((enum rdma_cm_event_type)ev->type), ev->status, hint);
}

static int id_update(struct rnic_cm_id *id, const struct ipc_cm_event *ev)
{
	tell_failure(ev);
	switch ((enum rdma_cm_event_type)ev->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		cm_addr_to(&id->id.route.addr.src_storage, &ev->local);
		cm_addr_to(&id->id.route.addr.dst_storage, &ev->remote);
		return cm_device(id, ev->dev);
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
		cm_addr_to(&id->id.route.addr.src_storage, &ev->local);
		cm_addr_to(&id->id.route.addr.dst_storage, &ev->remote);
		if (ev->type == RDMA_CM_EVENT_ESTABLISHED)
			rnic_qp_state(id->id.qp, id->made_qpn, IBV_QPS_RTS);
		return 0;
	case RDMA_CM_EVENT_DISCONNECTED:
		rnic_qp_state(id->id.qp, id->made_qpn, IBV_QPS_ERR);
		id->over = true;
		return 0;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED: id->over = true; return 0;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT: break;
	}
	return 0;
}

/* A join that fails when the queue pair is attached to the group becomes an error event. */
static void join_fill(struct rnic_cm_event *e, const struct ipc_cm_event *ev)
{
	void *context = NULL;
	int rc = cm_joined(cm_id(e->ev.id), ev, &context);

	ud_param_fill(e, ev);
	e->ev.param.ud.private_data = context;
	if (rc != 0) {
		e->ev.event = RDMA_CM_EVENT_MULTICAST_ERROR;
		e->ev.status = -rc;
	}
}

static void ack_count(struct rnic_cm_id *id)
{
	pthread_mutex_lock(&id->lock);
	id->events_done++;
	pthread_cond_signal(&id->cond);
	pthread_mutex_unlock(&id->lock);
}

/*
 * Makes *e from the daemon's event. False: the event is not for the program. Another thread may be destroying the
 * listener of a request: it looks for requests in the queue only, so the request taken from the queue is ended here.
 */
static bool translate(struct rnic_cm_event *e, const struct seen *seen, const struct ipc_cm_event *ev)
{
	struct rnic_cm_id *about = seen->about;
	int rc;

	if (about == NULL) {
		if (ev->type == RDMA_CM_EVENT_CONNECT_REQUEST && ev->id != ev->listen_id)
			cm_request_end(seen->ch, ev->id);
		return false;
	}
	e->about = about;
	e->ev.event = (enum rdma_cm_event_type)ev->type;
	e->ev.status = ev->status;
	e->ev.id = &e->about->id;
	param_fill(e, ev);
	rc = ev->type == RDMA_CM_EVENT_CONNECT_REQUEST ? request(e, ev, seen->ch) : id_update(e->about, ev);
	if (ev->type == RDMA_CM_EVENT_ESTABLISHED && about->quiet) {
		about->quiet = false;
		ack_count(about);
		return false;
	}
	if (rc == 0) {
		if (ev->type == RDMA_CM_EVENT_MULTICAST_JOIN || ev->type == RDMA_CM_EVENT_MULTICAST_ERROR)
			join_fill(e, ev);
		else if (about->id.ps == RDMA_PS_UDP)
			ud_param_fill(e, ev);
		else
			priv_fill_up(e);
		return true;
	}
	if (ev->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		ack_count(e->about);
		return false;
	}
	e->ev.event = RDMA_CM_EVENT_ADDR_ERROR;
	e->ev.status = -rc;
	return true;
}

/* ---- the daemon's death ---- */

/* The handles of the channel's ids that have a device: a malloc'ed list of *n. NULL: no memory. */
static uint32_t *bereaved(struct rnic_cm_channel *ch, uint32_t *n)
{
	struct rnic_session *s = ch->q.s;
	uint32_t *list;

	*n = 0;
	pthread_mutex_lock(&s->ids_lock);
	list = calloc(s->nids + 1, sizeof(*list));
	for (uint32_t i = 0; list != NULL && i < s->nids; i++) {
		const struct rnic_cm_id *id = s->ids[i];
		if (id != NULL && id->id.verbs != NULL && id->id.channel == &ch->ch)
			list[(*n)++] = i;
	}
	pthread_mutex_unlock(&s->ids_lock);
	return list;
}

/* The daemon is gone and all its events have been read: adds one DEVICE_REMOVAL for each id, as the id's last event. */
static void removal_tell(struct rnic_cm_channel *ch)
{
	uint32_t n = 0;

	pthread_mutex_lock(&ch->removal_lock);
	uint32_t *list = ch->removal_told ? NULL : bereaved(ch, &n);
	for (uint32_t i = 0; i < n; i++) {
		union {
			struct ipc_cm_event ev;
			uint8_t slot[IPC_EVENT_SLOT_CM];
		} u = { .ev = { .type = RDMA_CM_EVENT_DEVICE_REMOVAL, .id = list[i] } };
		rnic_evq_put(&ch->q, u.slot);
	}
	ch->removal_told = true;
	pthread_mutex_unlock(&ch->removal_lock);
	free(list);
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct rnic_cm_event *e;
	struct seen seen;
	bool removal = false;
	union {
		struct ipc_cm_event ev;
		uint8_t slot[IPC_EVENT_SLOT_CM];
	} u;

	if (channel == NULL || event == NULL)
		return cm_ret(EINVAL);
	seen.ch = cm_channel(channel);
	e = calloc(1, sizeof(*e));
	if (e == NULL)
		return -1;
	do {
		while (rnic_evq_get(&cm_channel(channel)->q, u.slot, on_seen, &seen) != 0) {
			int err = errno;
			if (err == EIO && !removal) {
				removal = true;
				removal_tell(cm_channel(channel));
				continue;
			}
			free(e);
			return cm_ret(err);
		}
	} while (!translate(e, &seen, &u.ev));
	*event = &e->ev;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct rnic_cm_event *e = (struct rnic_cm_event *)event;

	if (event == NULL)
		return cm_ret(EINVAL);
	ack_count(e->about);
	free(e);
	return 0;
}

/*
 * The status of an injected event, as the kernel's connection manager gives it; for a reject on InfiniBand the reason
 * (IBTA, 12.6.7).
 */
#define IB_REJ_SERVICE  8
#define IB_REJ_CONSUMER 28
static int status_of(const struct rnic_cm_id *id, const struct rnic_injected *i)
{
	switch (i->event) {
	case RDMA_CM_EVENT_REJECTED:
		if (cm_adapter(id))
			return i->refused ? IB_REJ_SERVICE : IB_REJ_CONSUMER;
		return -ECONNREFUSED;
	case RDMA_CM_EVENT_CONNECT_ERROR: return -ECONNRESET;
	case RDMA_CM_EVENT_ADDR_ERROR: return -EHOSTUNREACH;
	default: return -ETIMEDOUT;
	}
}

union cm_slot {
	struct ipc_cm_event ev;
	uint8_t slot[IPC_EVENT_SLOT_CM];
};

int cm_tell(struct rnic_cm_id *id, const struct ipc_cm_event *ev)
{
	union cm_slot u = { .ev = *ev };

	u.ev.id = id->handle;
	pthread_mutex_lock(&id->s->id_lock); /* rdma_migrate_id() may change the channel */
	const bool put = rnic_evq_put(&cm_channel(id->id.channel)->q, u.slot);
	pthread_mutex_unlock(&id->s->id_lock);
	return put ? cm_complete(id) : cm_ret(ENOMEM);
}

/* arg: the event's type and status. */
static void event_comes(void *object, uint64_t arg)
{
	struct rnic_cm_id *id = object;
	const union cm_slot u = {
		.ev = { .type = (uint32_t)(arg >> 32), .status = (int32_t)(uint32_t)arg, .id = id->handle }
	};

	pthread_mutex_lock(&id->s->id_lock); /* rdma_migrate_id() may change the channel */
	rnic_evq_put(&cm_channel(id->id.channel)->q, u.slot);
	pthread_mutex_unlock(&id->s->id_lock);
}

bool cm_injected(struct rnic_cm_id *id, enum inject_at at, int *ret)
{
	const struct inject_what what = { .at = at };
	struct rnic_injected i = { .rc = 0 };

	if (rn_unlikely(rnic_injecting))
		i = rnic_inject_at(&what);
	if (i.rc == 0 && i.event == 0)
		return false;
	if (i.rc == 0)
		i.rc = cm_made(id); /* an event names its id by the handle */
	if (i.rc != 0) {
		*ret = cm_ret(i.rc);
		return true;
	}
	const uint64_t arg = (uint64_t)i.event << 32 | (uint32_t)status_of(id, &i);
	if (i.later == 0 || !rnic_later(i.later, event_comes, id, arg))
		event_comes(id, arg);
	*ret = cm_complete(id);
	return true;
}

void cm_last_done(struct rnic_cm_id *id)
{
	if (id->id.event != NULL)
		rdma_ack_cm_event(id->id.event);
	id->id.event = NULL;
}

int cm_complete(struct rnic_cm_id *id)
{
	if (!id->sync)
		return 0;
	cm_last_done(id);
	if (rdma_get_cm_event(id->id.channel, &id->id.event) != 0)
		return -1;
	if (id->id.event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		return cm_ret(ENODEV);
	if (id->id.event->status == 0)
		return 0;
	/* The status of a reject may be no errno. */
	if (id->id.event->event == RDMA_CM_EVENT_REJECTED)
		return cm_ret(ECONNREFUSED);
	return cm_ret(id->id.event->status < 0 ? -id->id.event->status : id->id.event->status);
}
