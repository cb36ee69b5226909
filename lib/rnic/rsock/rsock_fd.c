/* SPDX-License-Identifier: BSD-3-Clause */
/* rsockets: making and finding them. Descriptors are real ones, so their numbers never collide with other files'. */
#include "rnic/rsock/rsock.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rsock **table; /* indexed by descriptor */
static int table_len;

static const struct rsock_opts defaults = {
	.rcvbuf = 262144, .sndbuf = 262144, .sq = 384, .rq = 384, .inl = RSOCK_INLINE
};

static void destroy(struct rsock *rs)
{
	rsock_ep_free(rs);
	if (rs->id != NULL)
		rdma_destroy_id(rs->id);
	if (rs->ch != NULL)
		rdma_destroy_event_channel(rs->ch);
	if (rs->fd >= 0)
		close(rs->fd);
	pthread_mutex_destroy(&rs->lock);
	pthread_mutex_destroy(&rs->snd);
	pthread_mutex_destroy(&rs->rcv);
	free(rs);
}

/* Makes the id, on a channel of the socket's own. 0 or an errno. */
static int channel_make(struct rsock *rs)
{
	struct epoll_event ev = { .events = EPOLLIN };

	rs->ch = rdma_create_event_channel();
	if (rs->ch == NULL)
		return errno;
	if (rs->id != NULL ? rdma_migrate_id(rs->id, rs->ch) != 0
			   : rdma_create_id(rs->ch, &rs->id, NULL, RDMA_PS_TCP) != 0)
		return errno;
	if (fcntl(rs->ch->fd, F_SETFL, O_NONBLOCK) != 0 || epoll_ctl(rs->fd, EPOLL_CTL_ADD, rs->ch->fd, &ev) != 0)
		return errno;
	return 0;
}

struct rsock *rsock_make(int domain, const struct rsock_opts *opt, struct rdma_cm_id *id)
{
	struct rsock *rs = calloc(1, sizeof(*rs));
	int rc;

	if (rs == NULL) {
		if (id != NULL)
			rdma_destroy_id(id);
		errno = ENOMEM;
		return NULL;
	}
	rs->id = id;
	rs->domain = domain;
	rs->refs = 1;
	rs->opt = opt != NULL ? *opt : defaults;
	pthread_mutex_init(&rs->lock, NULL);
	pthread_mutex_init(&rs->snd, NULL);
	pthread_mutex_init(&rs->rcv, NULL);
	rs->fd = epoll_create1(EPOLL_CLOEXEC);
	rc = rs->fd >= 0 ? channel_make(rs) : errno;
	if (rc == 0)
		return rs;
	destroy(rs);
	errno = rc;
	return NULL;
}

static bool table_put(int fd, struct rsock *rs)
{
	if (fd >= table_len) {
		int len = fd < 32 ? 64 : fd * 2;
		struct rsock **p = realloc(table, (size_t)len * sizeof(struct rsock *));
		if (p == NULL)
			return false;
		memset(p + table_len, 0, (size_t)(len - table_len) * sizeof(struct rsock *));
		table = p;
		table_len = len;
	}
	table[fd] = rs;
	return true;
}

int rsock_publish(struct rsock *rs)
{
	int fd = rs->fd;

	pthread_mutex_lock(&table_lock);
	bool ok = table_put(fd, rs);
	pthread_mutex_unlock(&table_lock);
	if (ok)
		return fd;
	destroy(rs);
	errno = ENOMEM;
	return -1;
}

struct rsock *rsock_find(int fd)
{
	struct rsock *rs;

	pthread_mutex_lock(&table_lock);
	rs = fd >= 0 && fd < table_len ? table[fd] : NULL;
	if (rs != NULL)
		rs->refs++;
	pthread_mutex_unlock(&table_lock);
	return rs;
}

__thread struct rsock_call rsock_call;

void rsock_call_begin(void)
{
	int cancel = PTHREAD_CANCEL_ENABLE;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	rsock_call = (struct rsock_call){ .cancel = cancel };
}

void rsock_call_end(void)
{
	int off;

	pthread_setcancelstate(rsock_call.cancel, &off);
}

struct rsock *rsock_get(int fd)
{
	rsock_call_begin();
	struct rsock *rs = rsock_find(fd);

	if (rs != NULL)
		return rs;
	rsock_call_end();
	errno = EBADF;
	return NULL;
}

void rsock_put(struct rsock *rs)
{
	pthread_mutex_lock(&table_lock);
	bool last = --rs->refs == 0;
	pthread_mutex_unlock(&table_lock);
	if (last)
		destroy(rs);
}

int rsock_done(struct rsock *rs, int rc)
{
	rsock_put(rs);
	rsock_call_end();
	if (rc == 0)
		return 0;
	errno = rc;
	return -1;
}

int rsocket(int domain, int type, int protocol)
{
	struct rsock *rs;
	int fd = -1;

	if (domain != AF_INET && domain != AF_INET6) {
		errno = EAFNOSUPPORT;
		return -1;
	}
	/* Datagrams would need unreliable queue pairs, so SOCK_DGRAM is refused. */
	if ((type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) != SOCK_STREAM) {
		errno = ESOCKTNOSUPPORT;
		return -1;
	}
	if (protocol != 0 && protocol != IPPROTO_TCP) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	rsock_call_begin();
	rs = rsock_make(domain, NULL, NULL);
	if (rs != NULL) {
		rs->nonblock = (type & SOCK_NONBLOCK) != 0;
		fd = rsock_publish(rs);
	}
	rsock_call_end();
	return fd;
}

int rclose(int fd)
{
	struct rsock *rs = NULL;

	pthread_mutex_lock(&table_lock);
	if (fd >= 0 && fd < table_len) {
		rs = table[fd];
		table[fd] = NULL;
	}
	pthread_mutex_unlock(&table_lock);
	if (rs == NULL) {
		errno = EBADF;
		return -1;
	}
	rsock_call_begin();
	pthread_mutex_lock(&rs->lock);
	rs->closing = true;
	rsock_kick(rs);
	rsock_shut_all(rs, rs->opt.linger.l_onoff != 0 ? rs->opt.linger.l_linger * 1000 : RSOCK_CLOSE_MS);
	pthread_mutex_unlock(&rs->lock);
	return rsock_done(rs, 0);
}
