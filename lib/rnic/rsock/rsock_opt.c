/* SPDX-License-Identifier: BSD-3-Clause */
/* rsockets: names, options, flags. */
#include "rnic/rsock/rsock.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>

#define QUEUE_MIN 16u
#define QUEUE_MAX 4096u
#define BUF_MIN   8192u
#define BUF_MAX   (UINT32_C(64) << 20)
#define INL_MIN   (uint32_t)sizeof(struct rsock_map) /* bytes that are always sent inline */
#define INL_MAX   480u
#define MAPS_MAX  4096u
#define MAXSEG    1460 /* the value of TCP_MAXSEG: the daemon decides about segments */

/* ---- names ---- */

static int name_out(const struct rsock *rs, const struct sockaddr_storage *from, struct sockaddr *addr, socklen_t *len)
{
	struct sockaddr_storage ss = *from;
	socklen_t size;

	if (addr == NULL || len == NULL)
		return EFAULT;
	if (ss.ss_family == AF_UNSPEC)
		ss.ss_family = (sa_family_t)rs->domain;
	size = ss.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	memcpy(addr, &ss, *len < size ? *len : size);
	*len = size;
	return 0;
}

int rgetsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct rsock *rs = rsock_get(fd);

	return rs != NULL ? rsock_done(rs, name_out(rs, &rs->id->route.addr.src_storage, addr, len)) : -1;
}

int rgetpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct rsock *rs = rsock_get(fd);

	if (rs == NULL)
		return -1;
	if (rs->state != RSOCK_OPEN && rs->state != RSOCK_ACCEPTING && rs->state != RSOCK_GONE)
		return rsock_done(rs, ENOTCONN);
	return rsock_done(rs, name_out(rs, &rs->id->route.addr.dst_storage, addr, len));
}

/* ---- options ---- */

static uint32_t clamp(int v, uint32_t lo, uint32_t hi)
{
	if (v < 0 || (uint32_t)v < lo)
		return lo;
	return (uint32_t)v > hi ? hi : (uint32_t)v;
}

static int set_socket(struct rsock *rs, int name, const void *val, socklen_t len)
{
	const int *v = val;

	switch (name) {
	case SO_RCVBUF:
		/* As with sockets: twice the requested size, since the ring has two halves. */
		rs->opt.rcvbuf = 2 * clamp(*v, BUF_MIN, BUF_MAX);
		return 0;
	case SO_SNDBUF: rs->opt.sndbuf = 2 * clamp(*v, BUF_MIN, BUF_MAX); return 0;
	case SO_LINGER:
		if (len < sizeof(struct linger))
			return EINVAL;
		memcpy(&rs->opt.linger, val, sizeof(struct linger));
		return 0;
	case SO_RCVTIMEO:
	case SO_SNDTIMEO:
		if (len < sizeof(struct timeval))
			return EINVAL;
		memcpy(name == SO_RCVTIMEO ? &rs->opt.rcvtimeo : &rs->opt.sndtimeo, val, sizeof(struct timeval));
		return 0;
	case SO_REUSEADDR: rs->opt.reuseaddr = *v != 0; return 0;
	case SO_KEEPALIVE: rs->opt.keepalive = *v != 0; return 0;
	case SO_OOBINLINE: rs->opt.oobinline = *v != 0; return 0;
	default: return ENOPROTOOPT;
	}
}

static int set_tcp(struct rsock *rs, int name, int v)
{
	switch (name) {
	case TCP_NODELAY: /* always on */ rs->opt.nodelay = v != 0; return 0;
	case TCP_KEEPIDLE: rs->opt.keepidle = v; return 0;
	case TCP_MAXSEG: return 0;
	default: return ENOPROTOOPT;
	}
}

/* The id decides at the bind whether [::] stands for IPv4 too; later it refuses. */
static int set_ip6(struct rsock *rs, int name, int v)
{
	if (name != IPV6_V6ONLY)
		return ENOPROTOOPT;
	if (rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &v, sizeof(v)) != 0)
		return errno;
	rs->opt.v6only = v != 0;
	return 0;
}

/* Sizes are fixed when the connection is made. RDMA_ROUTE: an iWARP connection has an IP route. */
static int set_rdma(struct rsock *rs, int name, int v)
{
	if (name < RDMA_SQSIZE || name > RDMA_IOMAPSIZE)
		return ENOPROTOOPT;
	if (rs->cq != NULL)
		return EINVAL;
	switch (name) {
	case RDMA_SQSIZE: rs->opt.sq = clamp(v, QUEUE_MIN, QUEUE_MAX); return 0;
	case RDMA_RQSIZE: rs->opt.rq = clamp(v, QUEUE_MIN, QUEUE_MAX); return 0;
	case RDMA_INLINE: rs->opt.inl = clamp(v, INL_MIN, INL_MAX); return 0;
	default: rs->opt.maps = v <= 128 ? clamp(v, 0, 128) : clamp(v + 255, 0, MAPS_MAX) & ~255u; return 0;
	}
}

int rsetsockopt(int fd, int level, int name, const void *val, socklen_t len)
{
	struct rsock *rs = rsock_get(fd);
	int rc;

	if (rs == NULL)
		return -1;
	if (val == NULL || len < sizeof(int))
		return rsock_done(rs, EINVAL);
	pthread_mutex_lock(&rs->lock);
	switch (level) {
	case SOL_SOCKET: rc = set_socket(rs, name, val, len); break;
	case IPPROTO_TCP: rc = set_tcp(rs, name, *(const int *)val); break;
	case SOL_RDMA: rc = set_rdma(rs, name, *(const int *)val); break;
	case IPPROTO_IPV6: rc = set_ip6(rs, name, *(const int *)val); break;
	default: rc = ENOPROTOOPT;
	}
	pthread_mutex_unlock(&rs->lock);
	return rsock_done(rs, rc);
}

static int so_error(struct rsock *rs)
{
	int v;

	if (rs->state == RSOCK_OPEN)
		rsock_progress(rs);
	else if (rs->state != RSOCK_LISTENING)
		rsock_events(rs);
	v = rs->so_error;
	rs->so_error = 0;
	return v;
}

static int get_socket(struct rsock *rs, int name, int *v)
{
	switch (name) {
	case SO_ERROR: *v = so_error(rs); return 0;
	case SO_TYPE: *v = SOCK_STREAM; return 0;
	case SO_DOMAIN: *v = rs->domain; return 0;
	case SO_PROTOCOL: *v = IPPROTO_TCP; return 0;
	case SO_ACCEPTCONN: *v = rs->state == RSOCK_LISTENING; return 0;
	case SO_RCVBUF: *v = (int)rs->opt.rcvbuf; return 0;
	case SO_SNDBUF: *v = (int)rs->opt.sndbuf; return 0;
	case SO_REUSEADDR: *v = rs->opt.reuseaddr; return 0;
	case SO_KEEPALIVE: *v = rs->opt.keepalive; return 0;
	case SO_OOBINLINE: *v = rs->opt.oobinline; return 0;
	default: return ENOPROTOOPT;
	}
}

static int get_int(struct rsock *rs, int level, int name, int *v)
{
	if (level == SOL_SOCKET)
		return get_socket(rs, name, v);
	if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY) {
		*v = rs->opt.v6only;
		return 0;
	}
	if (level == IPPROTO_TCP) {
		*v = name == TCP_NODELAY ? rs->opt.nodelay : name == TCP_KEEPIDLE ? rs->opt.keepidle : MAXSEG;
		return name == TCP_NODELAY || name == TCP_KEEPIDLE || name == TCP_MAXSEG ? 0 : ENOPROTOOPT;
	}
	if (level != SOL_RDMA)
		return ENOPROTOOPT;
	switch (name) {
	case RDMA_SQSIZE: *v = (int)rs->opt.sq; return 0;
	case RDMA_RQSIZE: *v = (int)rs->opt.rq; return 0;
	case RDMA_INLINE: *v = (int)(rs->cq != NULL ? rs->inl : rs->opt.inl); return 0;
	case RDMA_IOMAPSIZE: *v = (int)rs->opt.maps; return 0;
	default: return ENOPROTOOPT;
	}
}

int rgetsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	struct rsock *rs = rsock_get(fd);
	const void *from;
	socklen_t size = sizeof(int);
	int rc = 0, v = 0;

	if (rs == NULL)
		return -1;
	if (val == NULL || len == NULL)
		return rsock_done(rs, EFAULT);
	pthread_mutex_lock(&rs->lock);
	from = &v;
	if (level == SOL_SOCKET && name == SO_LINGER) {
		from = &rs->opt.linger;
		size = sizeof(struct linger);
	} else if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO)) {
		from = name == SO_RCVTIMEO ? &rs->opt.rcvtimeo : &rs->opt.sndtimeo;
		size = sizeof(struct timeval);
	} else {
		rc = get_int(rs, level, name, &v);
	}
	if (rc == 0) {
		size = *len < size ? *len : size;
		memcpy(val, from, size);
		*len = size;
	}
	pthread_mutex_unlock(&rs->lock);
	return rsock_done(rs, rc);
}

int rfcntl(int fd, int cmd, ...)
{
	struct rsock *rs = rsock_get(fd);
	va_list ap;
	int arg, v = 0, rc = 0;

	if (rs == NULL)
		return -1;
	va_start(ap, cmd);
	arg = va_arg(ap, int);
	va_end(ap);
	switch (cmd) {
	case F_GETFL: v = O_RDWR | (rs->nonblock ? O_NONBLOCK : 0); break;
	case F_SETFL: rs->nonblock = (arg & O_NONBLOCK) != 0; break;
	case F_GETFD: v = fcntl(fd, F_GETFD); break;
	case F_SETFD: v = fcntl(fd, F_SETFD, arg); break;
	default: rc = EOPNOTSUPP;
	}
	return rsock_done(rs, rc) == 0 ? v : -1;
}
