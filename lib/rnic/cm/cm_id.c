/* SPDX-License-Identifier: BSD-3-Clause */
/* CM ids: life, addresses, options. */
#include "rnic/cm/cm.h"

#include <arpa/inet.h>
#include <stddef.h>

#define BIND_ANY_DEV    UINT32_MAX
#define ROUTE_NS        UINT64_C(1000000000) /* ns for which a known route needs no new look-up */
#define ACK_TIMEOUT_MAX 31                   /* five bits; value n means 4.096 us << n (IBTA, local ACK timeout) */

/* ---- addresses ---- */

static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

int cm_addr_from(struct ipc_addr *a, const struct sockaddr *sa)
{
	memset(a, 0, sizeof(*a));
	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)sa;
		memcpy(a->ip, mapped, sizeof(mapped));
		memcpy(a->ip + sizeof(mapped), &in->sin_addr, 4);
		a->port = ntohs(in->sin_port);
		return 0;
	}
	if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)sa;
		memcpy(a->ip, &in6->sin6_addr, 16);
		a->port = ntohs(in6->sin6_port);
		a->scope = in6->sin6_scope_id;
		return 0;
	}
	return EAFNOSUPPORT;
}

void cm_addr_to(struct sockaddr_storage *ss, const struct ipc_addr *a)
{
	memset(ss, 0, sizeof(*ss));
	if (memcmp(a->ip, mapped, sizeof(mapped)) == 0) {
		struct sockaddr_in *in = (struct sockaddr_in *)(void *)ss;
		in->sin_family = AF_INET;
		in->sin_port = htons(a->port);
		memcpy(&in->sin_addr, a->ip + sizeof(mapped), 4);
	} else {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)ss;
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(a->port);
		in6->sin6_scope_id = a->scope;
		memcpy(&in6->sin6_addr, a->ip, 16);
	}
}

/* ---- the table ---- */

static bool table_put(struct rnic_session *s, uint32_t handle, struct rnic_cm_id *id)
{
	bool ok = true;

	pthread_mutex_lock(&s->ids_lock);
	if (handle >= s->nids) {
		uint32_t n = handle < 32 ? 64 : handle * 2;
		struct rnic_cm_id **p = realloc(s->ids, n * sizeof(struct rnic_cm_id *));
		if (p != NULL) {
			memset(p + s->nids, 0, (n - s->nids) * sizeof(struct rnic_cm_id *));
			s->ids = p;
			s->nids = n;
		}
		ok = p != NULL;
	}
	if (ok)
		s->ids[handle] = id;
	pthread_mutex_unlock(&s->ids_lock);
	return ok;
}

struct rnic_cm_id *cm_id_find(struct rnic_session *s, uint32_t handle)
{
	return handle < s->nids ? s->ids[handle] : NULL;
}

struct rnic_cm_id *cm_id_on(const struct rnic_cm_channel *ch, uint32_t handle)
{
	struct rnic_cm_id *id = cm_id_find(ch->q.s, handle);

	return id != NULL && (id->id.channel == &ch->ch || id->from == &ch->ch) ? id : NULL;
}

/* ---- life ---- */

struct rnic_cm_id *cm_id_adopt(struct rnic_session *s, uint32_t handle, struct rdma_event_channel *ch, bool sync)
{
	struct rnic_cm_id *id = calloc(1, sizeof(*id));

	if (id == NULL)
		return NULL;
	id->s = s;
	id->handle = handle;
	id->sync = sync;
	id->id.channel = ch;
	id->id.ps = RDMA_PS_TCP;
	id->id.qp_type = IBV_QPT_RC;
	pthread_mutex_init(&id->join_lock, NULL);
	pthread_mutex_init(&id->lock, NULL);
	pthread_cond_init(&id->cond, NULL);
	if (handle > UINT32_MAX / 4 || (handle != 0 && !table_put(s, handle, id))) {
		free(id);
		return NULL;
	}
	rnic_made(RNIC_OBJ_CM_ID, id);
	return id;
}

static void id_free(struct rnic_cm_id *id)
{
	pthread_mutex_destroy(&id->join_lock);
	pthread_mutex_destroy(&id->lock);
	pthread_cond_destroy(&id->cond);
	free(id->connect_data);
	rnic_gone(RNIC_OBJ_CM_ID, id);
	free(id);
}

/* Enters the id in the table under the handle that the daemon has given it. Under the session's id_lock. 0 or errno. */
static int placed(struct rnic_cm_id *id, uint32_t handle)
{
	if (handle == 0 || handle > UINT32_MAX / 4 || !table_put(id->s, handle, id)) {
		rnic_call_handle(id->s, IPC_CM_DESTROY_ID, handle);
		return ENOMEM;
	}
	id->handle = handle;
	cm_channel(id->id.channel)->unmade--;
	return 0;
}

int cm_made(struct rnic_cm_id *id)
{
	struct ipc_msg m = { .type = IPC_CM_CREATE_ID, .len = IPC_MSG_LEN(cm_create_id) };
	int rc = 0;

	if (rn_likely(id->handle != 0))
		return 0;
	pthread_mutex_lock(&id->s->id_lock);
	m.cm_create_id.channel = cm_channel(id->id.channel)->q.handle;
	m.cm_create_id.datagram = id->id.ps == RDMA_PS_UDP;
	if (id->handle == 0)
		rc = rnic_call(id->s, &m, IPC_MSG_LEN(handle), -1);
	if (id->handle == 0 && rc == 0)
		rc = placed(id, m.handle.handle);
	pthread_mutex_unlock(&id->s->id_lock);
	return rc;
}

/*
 * Makes the id that rdma_create_id() returns. A daemon with IPC_CAN_OPEN is told of the id by the next call on the id,
 * an older daemon is told now.
 */
static int id_new(struct rnic_session *s, struct rdma_event_channel *ch, bool sync, enum rdma_port_space ps,
		  struct rnic_cm_id **out)
{
	struct rnic_cm_id *id;

	rnic_watch_look(s);
	if (rnic_dead(s))
		return EIO;
	id = cm_id_adopt(s, 0, ch, sync);
	if (id == NULL)
		return ENOMEM;
	id->id.ps = ps;
	pthread_mutex_lock(&s->id_lock);
	cm_channel(ch)->unmade++;
	pthread_mutex_unlock(&s->id_lock);
	const int rc = (s->can & IPC_CAN_OPEN) != 0 ? 0 : cm_made(id);
	if (rc != 0) {
		pthread_mutex_lock(&s->id_lock);
		cm_channel(ch)->unmade--;
		pthread_mutex_unlock(&s->id_lock);
		id_free(id);
		return rc;
	}
	*out = id;
	return 0;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context, enum rdma_port_space ps)
{
	struct rdma_event_channel *ch = channel != NULL ? channel : NULL;
	struct rnic_cm_id *id = NULL;
	int rc;

	if (ps != RDMA_PS_TCP && ps != RDMA_PS_IB && ps != RDMA_PS_UDP) {
		rnic_unsupported("rdma_create_id", "the port spaces are RDMA_PS_TCP, RDMA_PS_IB and RDMA_PS_UDP");
		return cm_ret(EPROTONOSUPPORT);
	}
	if (ch == NULL)
		ch = rdma_create_event_channel();
	if (ch == NULL)
		return -1;
	rc = id_new(cm_channel(ch)->q.s, ch, channel == NULL, ps, &id);
	if (rc != 0) {
		if (channel == NULL)
			rdma_destroy_event_channel(ch);
		return cm_ret(rc);
	}
	id->id.context = context;
	if (ps == RDMA_PS_UDP)
		id->id.qp_type = IBV_QPT_UD;
	*out = &id->id;
	return 0;
}

/*
 * The id whose events event_of() finds in a queue, by its handle. The daemon uses freed handles again: behind a request
 * whose new id has this handle (`reborn`), the events with this handle are about the new id.
 */
struct whose {
	uint32_t handle;
	bool reborn;
};

static bool event_of(const void *slot, void *arg)
{
	const struct ipc_cm_event *ev = slot;
	struct whose *w = arg;

	if (ev->type != RDMA_CM_EVENT_CONNECT_REQUEST)
		return ev->id == w->handle && !w->reborn;
	if (ev->listen_id == w->handle) /* also a request of the id itself, which makes no new id */
		return true;
	w->reborn |= ev->id == w->handle;
	return false;
}

struct taken {
	struct rnic_evq *to; /* where the events go; NULL: nowhere */
	uint32_t request;    /* handle of the id that a request has made; 0: no request has been taken yet */
};

/* Refuses a second request: the daemon must be told first what becomes of the id of the first one. */
static bool event_take(const void *slot, void *arg)
{
	const struct ipc_cm_event *ev = slot;
	struct taken *t = arg;

	if (ev->type == RDMA_CM_EVENT_CONNECT_REQUEST && ev->id != ev->listen_id) {
		if (t->request != 0)
			return false;
		t->request = ev->id;
	}
	if (t->to != NULL)
		rnic_evq_put(t->to, slot);
	return true;
}

/*
 * Destroys a request's id at the daemon. Removes later events of the request, with their tokens, so that a reader does
 * not wait for an event after reading a token. The caller holds the session's id_lock.
 */
static void orphan_end(struct rnic_cm_channel *ch, uint32_t handle)
{
	struct whose orphan = { .handle = handle };

	rnic_call_handle(ch->q.s, IPC_CM_DESTROY_ID, handle);
	rnic_evq_drop(&ch->q, event_of, &orphan, NULL, NULL);
}

void cm_request_end(struct rnic_cm_channel *ch, uint32_t handle)
{
	pthread_mutex_lock(&ch->q.s->id_lock);
	orphan_end(ch, handle);
	pthread_mutex_unlock(&ch->q.s->id_lock);
}

/* Destroys the id at the daemon, and removes its queued events. The caller holds the session's id_lock. 0 or errno. */
static int id_unmake(struct rnic_cm_id *id)
{
	struct rdma_cm_id *rid = &id->id;
	struct rnic_session *s = id->s;
	struct whose whose = { .handle = id->handle };
	bool all;
	int rc;

	if (id->handle == 0) {
		cm_channel(rid->channel)->unmade--;
		return 0;
	}
	/*
	 * Takes the id out of the table first: once the daemon has answered, it may give the handle to the id of a
	 * connection request.
	 */
	table_put(s, id->handle, NULL);
	rc = rnic_call_handle(s, IPC_CM_DESTROY_ID, id->handle);
	if (rc != 0 && !rnic_dead(s)) {
		table_put(s, id->handle, id);
		return rc;
	}
	do {
		struct taken t = { .to = NULL };
		pthread_mutex_lock(&s->ids_lock);
		whose.reborn = cm_id_on(cm_channel(rid->channel), id->handle) != NULL;
		pthread_mutex_unlock(&s->ids_lock);
		all = rnic_evq_drop(&cm_channel(rid->channel)->q, event_of, &whose, event_take, &t);
		if (t.request != 0)
			orphan_end(cm_channel(rid->channel), t.request);
	} while (!all);
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *rid)
{
	struct rnic_cm_id *id = cm_id(rid);

	if (rn_unlikely(rnic_injecting))
		rnic_later_forget(id);
	pthread_mutex_lock(&id->s->id_lock);
	const int rc = id_unmake(id);
	pthread_mutex_unlock(&id->s->id_lock);
	if (rc != 0)
		return cm_ret(rc);
	cm_last_done(id);
	pthread_mutex_lock(&id->lock);
	while (id->events_done != id->events_seen)
		rnic_ack_wait(&id->cond, &id->lock, "rdma_destroy_id");
	pthread_mutex_unlock(&id->lock);
	if (id->sync)
		rdma_destroy_event_channel(rid->channel);
	cm_joins_free(id);
	id_free(id);
	return 0;
}

/* ---- moving to another channel ---- */

/* Tells the daemon that the id's events go to this channel from now on. 0 or an errno. */
static int daemon_moves(struct rnic_session *s, uint32_t handle, struct rnic_cm_channel *to)
{
	struct ipc_msg m = { .type = IPC_CM_MIGRATE,
			     .len = IPC_MSG_LEN(cm_migrate),
			     .cm_migrate = { .id = handle, .channel = to->q.handle } };

	return rnic_call(s, &m, IPC_MSG_HDR, -1);
}

/* Moves the events that wait, and the ids of the requests among them. The caller holds the session's id_lock. */
static void events_move(struct rnic_cm_channel *from, struct rnic_cm_channel *to, uint32_t handle)
{
	bool all;

	do {
		struct whose whose = { .handle = handle };
		struct taken t = { .to = &to->q }, later = { .to = &to->q };
		all = rnic_evq_drop(&from->q, event_of, &whose, event_take, &t);
		if (t.request == 0)
			continue;
		daemon_moves(from->q.s, t.request, to);
		whose = (struct whose){ .handle = t.request };
		rnic_evq_drop(&from->q, event_of, &whose, event_take, &later);
	} while (!all);
}

static void channel_set(struct rnic_cm_id *id, struct rdma_event_channel *ch, struct rdma_event_channel *from)
{
	pthread_mutex_lock(&id->s->ids_lock);
	id->id.channel = ch;
	id->from = from;
	pthread_mutex_unlock(&id->s->ids_lock);
}

/*
 * Until the events that wait on the old channel have moved, threads may read events of the id from both channels. 0 or
 * an errno.
 */
static int id_move(struct rnic_cm_id *id, struct rdma_event_channel *ch)
{
	pthread_mutex_lock(&id->s->id_lock); /* event_comes() uses the old channel before this, the new one after it */
	struct rdma_event_channel *old = id->id.channel;
	channel_set(id, ch, old);
	const int rc = daemon_moves(id->s, id->handle, cm_channel(ch));
	if (rc == 0)
		events_move(cm_channel(old), cm_channel(ch), id->handle);
	channel_set(id, rc == 0 ? ch : old, NULL);
	pthread_mutex_unlock(&id->s->id_lock);
	return rc;
}

int rdma_migrate_id(struct rdma_cm_id *rid, struct rdma_event_channel *channel)
{
	struct rnic_cm_id *id = cm_id(rid);
	struct rdma_event_channel *old = rid->channel, *ch = channel;
	bool was_sync = id->sync;
	int rc = cm_made(id);

	if (rc != 0)
		return cm_ret(rc);
	if (was_sync && ch == NULL)
		return cm_ret(EINVAL);
	if (ch == old) { /* the queue's lock cannot be taken twice, and the channel is the program's from now on */
		if (was_sync)
			cm_last_done(id);
		id->sync = false;
		return 0;
	}
	if (ch == NULL)
		ch = rdma_create_event_channel();
	if (ch == NULL)
		return -1;
	/* A channel of an earlier session has a number that means another channel, or none, in this one. */
	rc = cm_channel(ch)->q.s == id->s || rnic_dead(id->s) ? id_move(id, ch) : EINVAL;
	if (rc != 0) {
		if (channel == NULL)
			rdma_destroy_event_channel(ch);
		return cm_ret(rc);
	}
	/* A synchronous id keeps its last event. It is acknowledged here, as the id leaves the channel it came from. */
	if (was_sync)
		cm_last_done(id);
	id->sync = channel == NULL;
	if (was_sync)
		rdma_destroy_event_channel(old);
	return 0;
}

/* ---- an id's addresses ---- */

int rdma_bind_addr(struct rdma_cm_id *rid, struct sockaddr *addr)
{
	struct rnic_cm_id *id = cm_id(rid);
	struct ipc_msg m = { .type = IPC_CM_BIND, .len = IPC_MSG_LEN(cm_bind) };
	int rc = rnic_inject(INJECT_BIND_ADDR);

	if (rc != 0 || addr == NULL)
		return cm_ret(rc != 0 ? rc : EINVAL);
	m.cm_bind.own_family = id->opt.own_family;
	rc = cm_addr_from(&m.cm_bind.addr, addr);
	if (rc == 0)
		rc = cm_made(id);
	m.cm_bind.id = id->handle;
	if (rc == 0)
		rc = rnic_call(id->s, &m, IPC_MSG_LEN(cm_bind_ok), -1);
	if (rc != 0)
		return cm_ret(rc);
	id->bound = true;
	cm_addr_to(&rid->route.addr.src_storage, &m.cm_bind_ok.addr);
	/* The wildcard address is returned in the family in which it was given. */
	if (addr->sa_family == AF_INET6 && rid->route.addr.src_addr.sa_family == AF_INET) {
		rid->route.addr.src_sin6 = *(struct sockaddr_in6 *)(void *)addr;
		rid->route.addr.src_sin6.sin6_port = htons(m.cm_bind_ok.addr.port);
	}
	return m.cm_bind_ok.dev == BIND_ANY_DEV ? 0 : cm_ret(cm_device(id, m.cm_bind_ok.dev));
}

/*
 * rdma_resolve_addr() of an id that the daemon does not know: one request makes the id and resolves the address, and
 * librnic makes the event from the answer.
 */
static int open_to(struct rnic_cm_id *id, const struct ipc_cm_resolve *to)
{
	struct ipc_msg m = { .type = IPC_CM_OPEN,
			     .len = IPC_MSG_LEN(cm_open),
			     .cm_open = { .channel = cm_channel(id->id.channel)->q.handle,
					  .datagram = id->id.ps == RDMA_PS_UDP,
					  .to = *to } };
	int rc;

	pthread_mutex_lock(&id->s->id_lock);
	rc = id->handle != 0 ? EINVAL : rnic_call(id->s, &m, IPC_MSG_LEN(cm_open_ok), -1);
	if (rc == 0)
		rc = placed(id, m.cm_open_ok.handle);
	pthread_mutex_unlock(&id->s->id_lock);
	if (rc != 0)
		return cm_ret(rc);
	id->bound = true;
	if (m.cm_open_ok.routed != 0)
		id->route_until = rnic_clock(CLOCK_MONOTONIC) + ROUTE_NS;
	cm_addr_to(&id->id.route.addr.dst_storage, &to->dst);
	struct ipc_cm_event ev = { .type = m.cm_open_ok.status == 0 ? RDMA_CM_EVENT_ADDR_RESOLVED
								    : RDMA_CM_EVENT_ADDR_ERROR,
				   .status = m.cm_open_ok.status,
				   .dev = m.cm_open_ok.dev,
				   .local = m.cm_open_ok.local,
				   .remote = m.cm_open_ok.remote };
	return cm_tell(id, &ev);
}

int rdma_resolve_addr(struct rdma_cm_id *rid, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	struct rnic_cm_id *id = cm_id(rid);
	struct ipc_msg m = { .type = IPC_CM_RESOLVE_ADDR, .len = IPC_MSG_LEN(cm_resolve) };
	int rc;

	if (cm_injected(id, INJECT_RESOLVE_ADDR, &rc))
		return rc;
	if (dst == NULL)
		return cm_ret(EINVAL);
	rc = cm_addr_from(&m.cm_resolve.dst, dst);
	if (rc == 0 && src != NULL && !id->bound) {
		rc = cm_addr_from(&m.cm_resolve.src, src);
		m.cm_resolve.has_src = 1;
	}
	m.cm_resolve.timeout_ms = timeout_ms > 0 ? (uint32_t)timeout_ms : 0;
	if (rc == 0 && id->handle == 0)
		return open_to(id, &m.cm_resolve);
	m.cm_resolve.id = id->handle;
	if (rc == 0)
		rc = rnic_call(id->s, &m, IPC_MSG_HDR, -1);
	if (rc != 0)
		return cm_ret(rc);
	id->bound = true;
	cm_addr_to(&rid->route.addr.dst_storage, &m.cm_resolve.dst);
	return cm_complete(id);
}

int rdma_resolve_route(struct rdma_cm_id *rid, int timeout_ms)
{
	struct rnic_cm_id *id = cm_id(rid);
	struct ipc_msg m = { .type = IPC_CM_RESOLVE_ROUTE, .len = IPC_MSG_LEN(cm_resolve) };
	int rc;

	if (cm_injected(id, INJECT_RESOLVE_ROUTE, &rc))
		return rc;
	const uint64_t until = id->route_until;
	id->route_until = 0;
	if (until != 0 && rnic_clock(CLOCK_MONOTONIC) < until && !rnic_dead(id->s)) {
		struct ipc_cm_event ev = { .type = RDMA_CM_EVENT_ROUTE_RESOLVED };
		cm_addr_from(&ev.local, &rid->route.addr.src_addr);
		cm_addr_from(&ev.remote, &rid->route.addr.dst_addr);
		return cm_tell(id, &ev);
	}
	rc = cm_made(id);
	if (rc != 0)
		return cm_ret(rc);
	m.cm_resolve.id = id->handle;
	m.cm_resolve.timeout_ms = timeout_ms > 0 ? (uint32_t)timeout_ms : 0;
	rc = rnic_call(id->s, &m, IPC_MSG_HDR, -1);
	return rc != 0 ? cm_ret(rc) : cm_complete(id);
}

static __be16 port_of(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET)
		return ((const struct sockaddr_in *)(const void *)sa)->sin_port;
	return sa->sa_family == AF_INET6 ? ((const struct sockaddr_in6 *)(const void *)sa)->sin6_port : 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id) { return port_of(&id->route.addr.src_addr); }
__be16 rdma_get_dst_port(struct rdma_cm_id *id) { return port_of(&id->route.addr.dst_addr); }

/* ---- options ---- */

static int option_byte(uint8_t *to, const void *val, size_t len, uint8_t max)
{
	const uint8_t *v = val;

	if (len != sizeof(*v) || *v > max)
		return EINVAL;
	*to = *v;
	return 0;
}

/*
 * TOS and ACK_TIMEOUT apply to connections made afterwards, AFONLY to the bind that follows. REUSEADDR is accepted
 * without effect: here connections do not keep the port of their listener busy after the listener is closed.
 */
static int option_of_id(struct rnic_cm_id *id, int optname, const void *val, size_t len)
{
	int on;

	switch (optname) {
	case RDMA_OPTION_ID_TOS: return option_byte(&id->opt.tos, val, len, UINT8_MAX);
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (id->id.ps == RDMA_PS_UDP) /* datagrams are not acknowledged */
			return EINVAL;
		return option_byte(&id->opt.ack_timeout, val, len, ACK_TIMEOUT_MAX);
	case RDMA_OPTION_ID_REUSEADDR: return len == sizeof(on) ? 0 : EINVAL;
	case RDMA_OPTION_ID_AFONLY:
		if (len != sizeof(on) || id->bound)
			return EINVAL;
		memcpy(&on, val, sizeof(on));
		id->opt.own_family = on != 0;
		return 0;
	default: return ENOSYS; /* as the kernel returns */
	}
}

int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen)
{
	if (optval == NULL)
		return cm_ret(EINVAL);
	if (level == RDMA_OPTION_ID)
		return cm_ret(option_of_id(cm_id(id), optname, optval, optlen));
	if (level != RDMA_OPTION_IB)
		return cm_ret(ENOSYS);
	/* RDMA_OPTION_IB_PATH is a path record of a subnet manager, which Ethernet does not have. */
	rnic_unsupported("rdma_set_option", "a path record is InfiniBand's: call rdma_resolve_route() in its place");
	return cm_ret(EOPNOTSUPP);
}
