/* SPDX-License-Identifier: BSD-3-Clause */
/* rsockets: addresses, listening, connecting, accepting. */
#include "rnic/rsock/rsock.h"

#define RESOLVE_MS 5000

static bool open_or_gone(const struct rsock *rs) { return rs->state == RSOCK_OPEN || rs->state == RSOCK_GONE; }

/* ---- setting up a connection ---- */

static struct rdma_conn_param param_of(const struct rsock_hello *h)
{
	return (struct rdma_conn_param){
		.private_data = h, .private_data_len = sizeof(*h), .retry_count = 7, .rnr_retry_count = 7
	};
}

static int route_found(struct rsock *rs)
{
	struct rdma_conn_param p;
	struct rsock_hello h;
	int rc = rsock_ep_make(rs);

	if (rc != 0)
		return rc;
	rsock_hello_fill(rs, &h);
	p = param_of(&h);
	if (rdma_connect(rs->id, &p) != 0)
		return errno;
	rsock_move(rs, RSOCK_CONNECTING);
	return 0;
}

static int established(struct rsock *rs, const struct rdma_conn_param *p)
{
	int rc = rs->state == RSOCK_CONNECTING ? rsock_hello_take(rs, p->private_data, p->private_data_len) : 0;

	if (rc != 0)
		return rc;
	rsock_move(rs, RSOCK_OPEN);
	/* Offers the second half of the ring. For the responder this is also the FPDU that it waits for. */
	rsock_offer(rs);
	return 0;
}

static int status_of(const struct rdma_cm_event *e, int otherwise) { return e->status < 0 ? -e->status : otherwise; }

/* Handles an event. 0, or the errno with which the socket ends. */
static int step(struct rsock *rs, const struct rdma_cm_event *e)
{
	switch (e->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (rdma_resolve_route(rs->id, RESOLVE_MS) != 0)
			return errno;
		rsock_move(rs, RSOCK_ROUTE);
		return 0;
	case RDMA_CM_EVENT_ROUTE_RESOLVED: return route_found(rs);
	case RDMA_CM_EVENT_ESTABLISHED: return established(rs, &e->param.conn);
	case RDMA_CM_EVENT_REJECTED: return ECONNREFUSED;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR: return status_of(e, EHOSTUNREACH);
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR: return status_of(e, ETIMEDOUT);
	case RDMA_CM_EVENT_DISCONNECTED:
		/* what the peer had sent before is handled first */
		rsock_progress(rs);
		rsock_lost(rs);
		return 0;
	case RDMA_CM_EVENT_DEVICE_REMOVAL: return ENETDOWN;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT: break;
	}
	return 0;
}

void rsock_cm_events(struct rsock *rs)
{
	struct rdma_cm_event *e;

	while (rdma_get_cm_event(rs->ch, &e) == 0) {
		int rc = step(rs, e);
		rdma_ack_cm_event(e);
		if (rc != 0) {
			rs->broken = true;
			rsock_over(rs, rc);
		}
	}
	if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
		rs->broken = true;
		rsock_over(rs, errno);
	}
}

/* Waits as connect() does. 0 or an errno; late: the errno when the time is over. */
static int connected(struct rsock *rs, bool now, int late)
{
	const int rc = rsock_wait(rs, open_or_gone, now, rsock_ms(&rs->opt.sndtimeo));

	return rc == EAGAIN ? late : rc;
}

int rconnect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct rsock *rs = rsock_get(fd);
	struct sockaddr_storage to = { 0 };
	int rc = 0;

	if (rs == NULL)
		return -1;
	if (addr == NULL || len > sizeof(to))
		return rsock_done(rs, EINVAL);
	memcpy(&to, addr, len);
	pthread_mutex_lock(&rs->lock);
	switch (rs->state) {
	case RSOCK_NEW:
		if (rdma_resolve_addr(rs->id, NULL, (struct sockaddr *)&to, RESOLVE_MS) != 0) {
			rc = errno;
			break;
		}
		rsock_move(rs, RSOCK_ADDR);
		rc = rs->nonblock ? EINPROGRESS : connected(rs, false, EINPROGRESS);
		break;
	case RSOCK_ADDR:
	case RSOCK_ROUTE:
	case RSOCK_CONNECTING: rc = connected(rs, rs->nonblock, EALREADY); break;
	case RSOCK_LISTENING: rc = EOPNOTSUPP; break;
	case RSOCK_ACCEPTING:
	case RSOCK_OPEN: rc = EISCONN; break;
	case RSOCK_GONE: break;
	}
	if (rc == 0 && rs->state == RSOCK_GONE) {
		rc = rs->err != 0 ? rs->err : ECONNABORTED;
		rs->so_error = 0;
	}
	pthread_mutex_unlock(&rs->lock);
	return rsock_done(rs, rc);
}

/* ---- the accepting side ---- */

int rbind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct rsock *rs = rsock_get(fd);
	struct sockaddr_storage at = { 0 };
	int rc = 0;

	if (rs == NULL)
		return -1;
	if (addr == NULL || len > sizeof(at))
		return rsock_done(rs, EINVAL);
	memcpy(&at, addr, len);
	pthread_mutex_lock(&rs->lock);
	if (rs->state != RSOCK_NEW || rs->id->route.addr.src_addr.sa_family != AF_UNSPEC)
		rc = EINVAL;
	else if (rdma_bind_addr(rs->id, (struct sockaddr *)&at) != 0)
		rc = errno;
	pthread_mutex_unlock(&rs->lock);
	return rsock_done(rs, rc);
}

int rlisten(int fd, int backlog)
{
	struct rsock *rs = rsock_get(fd);
	int rc = 0;

	if (rs == NULL)
		return -1;
	pthread_mutex_lock(&rs->lock);
	if (rs->state == RSOCK_NEW) {
		if (rdma_listen(rs->id, backlog) == 0)
			rsock_move(rs, RSOCK_LISTENING);
		else
			rc = errno;
	} else if (rs->state != RSOCK_LISTENING) {
		rc = EINVAL;
	}
	pthread_mutex_unlock(&rs->lock);
	return rsock_done(rs, rc);
}

/*
 * Makes the socket for a request, and accepts. NULL: the request is no rsocket's, or cannot be served; it is rejected.
 */
static struct rsock *answer(const struct rsock *listener, struct rdma_cm_id *id, const void *priv, size_t len)
{
	struct rdma_conn_param p;
	struct rsock_hello h;
	struct rsock *rs = rsock_make(listener->domain, &listener->opt, id);
	int rc;

	if (rs == NULL)
		return NULL;
	pthread_mutex_lock(&rs->lock);
	rc = rsock_hello_take(rs, priv, len);
	if (rc == 0)
		rc = rsock_ep_make(rs);
	if (rc == 0) {
		rsock_hello_fill(rs, &h);
		p = param_of(&h);
		rsock_move(rs, RSOCK_ACCEPTING);
		rc = rdma_accept(id, &p) == 0 ? 0 : errno;
	} else {
		rdma_reject(id, NULL, 0);
	}
	pthread_mutex_unlock(&rs->lock);
	if (rc == 0)
		return rs;
	rsock_put(rs);
	errno = rc;
	return NULL;
}

/* Accepts the next request that can be served. NULL and errno (EAGAIN: there is none). */
static struct rsock *next_request(struct rsock *listener)
{
	struct rdma_cm_event *e;

	while (rdma_get_cm_event(listener->ch, &e) == 0) {
		uint8_t priv[sizeof(struct rsock_hello)];
		size_t len = 0;
		struct rdma_cm_id *id = e->event == RDMA_CM_EVENT_CONNECT_REQUEST ? e->id : NULL;
		if (id != NULL && e->param.conn.private_data != NULL) {
			len = e->param.conn.private_data_len < sizeof(priv) ? e->param.conn.private_data_len
									    : sizeof(priv);
			memcpy(priv, e->param.conn.private_data, len);
		}
		rdma_ack_cm_event(e);
		struct rsock *rs = id != NULL ? answer(listener, id, priv, len) : NULL;
		if (rs != NULL)
			return rs;
		if (id != NULL && (errno == ENOMEM || errno == EMFILE || errno == ENFILE))
			return NULL;
	}
	return NULL;
}

static struct rsock *accept_wait(struct rsock *rs)
{
	const int ms = rsock_ms(&rs->opt.rcvtimeo);
	const uint64_t begin = rsock_now_us();

	for (;;) {
		struct rsock *got = next_request(rs);
		if (got != NULL || (errno != EAGAIN && errno != EWOULDBLOCK) || rs->nonblock)
			return got;
		const uint64_t waited = (rsock_now_us() - begin) / 1000;
		if (ms >= 0 && waited >= (uint64_t)ms) {
			errno = EAGAIN;
			return NULL;
		}
		int rc = rsock_doze(rs, ms < 0 ? -1 : ms - (int)waited);
		if (rc != 0 || rs->closing) {
			errno = rc != 0 ? rc : EBADF;
			return NULL;
		}
	}
}

int raccept(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct rsock *rs = rsock_get(fd), *got = NULL;
	int rc = 0;

	if (rs == NULL)
		return -1;
	pthread_mutex_lock(&rs->lock);
	if (rs->state != RSOCK_LISTENING)
		rc = EINVAL;
	else
		got = accept_wait(rs);
	if (rc == 0 && got == NULL)
		rc = errno;
	pthread_mutex_unlock(&rs->lock);
	if (got == NULL)
		return rsock_done(rs, rc);
	int new_fd = rsock_publish(got);
	if (rsock_done(rs, new_fd < 0 ? errno : 0) != 0)
		return -1;
	if (addr != NULL && len != NULL)
		rgetpeername(new_fd, addr, len);
	return new_fd;
}
