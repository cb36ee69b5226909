/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rnicd's streams as this plane's connections: designs host and assisted. TCP runs in rnicd's worker; bytes go through
 * rings that rnicd and this process share (ipc_stream.h). RDMAP, DDP, MPA and markers run in this process. CRCs are
 * computed in this process, too, or (assisted) in rnicd's worker.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rnic/sock/sock.h"
#include "sockets/ks.h"

static struct ipc_addr endpoint_of(const struct pkt_addr *ip, uint16_t port)
{
	struct ipc_addr a = { .port = port };

	memcpy(a.ip, ip->b, sizeof(a.ip));
	return a;
}

/* ---- the devices are rnicd's ports ---- */

static bool host_port(const struct ipc_sock_port *at, const struct rnicd_port_cfg *like)
{
	struct rnicd_port_cfg *cfg = &rnicd.cfg.port[rnicd.n_ports];
	struct pkt_addr ip;

	memcpy(ip.b, at->ip, sizeof(ip.b));
	*cfg = *like;
	snprintf(cfg->name, sizeof(cfg->name), "%.*s", (int)sizeof(cfg->name) - 1, at->name);
	cfg->ip = ip;
	cfg->prefix_len = at->prefix_len;
	cfg->mtu = at->mtu;
	cfg->gateway_set = true; /* rnicd does the routing */
	cfg->gateway = ip;
	cfg->qp_port = 0; /* qp-port and datagram-port of the address are rnicd's own */
	cfg->ud_port = 0;
	const uint8_t mac[PKT_MAC_LEN] = { 2, 0, ip.b[12], ip.b[13], ip.b[14], ip.b[15] };
	return ks_port_add(mac);
}

static bool host_ports(const struct rnicd_port_cfg *like, char *err, uint32_t err_len)
{
	sock_libc_find();
	const struct ipc_sock_join_ok *world = sock_world();

	if (world == NULL) {
		snprintf(err, err_len,
			 "design %s needs rnicd for its TCP, and none answers at %s: start it, or set RNICD_SOCKET",
			 ks.assisted ? "assisted" : "host", sock_rnicd());
		return false;
	}
	for (uint32_t i = 0; i < world->ports && i < IPC_SOCK_PORTS_MAX; i++) {
		if ((world->port[i].flags & IPC_SOCK_PORT_HOST) != 0 && !host_port(&world->port[i], like)) {
			snprintf(err, err_len, "no memory");
			return false;
		}
	}
	if (rnicd.n_ports > 0)
		return true;
	snprintf(err, err_len,
		 "every port of rnicd has designs = offloaded: run the program in that design, or change the key");
	return false;
}

/* ---- begin and end ---- */

static void host_close(struct ks_src *s)
{
	if (s->sock != NULL)
		sock_put(s->sock);
	if (s->fd >= 0)
		close(s->fd);
	s->sock = NULL;
	s->fd = -1;
}

static bool host_open(struct ks_src *s, const struct conn_addr *a)
{
	const struct ipc_addr local = endpoint_of(&a->local, a->lport);
	int err = ENOMEM;

	s->fd = -1;
	s->sock = sock_new(AF_INET);
	if (s->sock != NULL)
		err = sock_bind_new(s->sock, &local, 0, &s->fd);
	if (err == 0)
		return true;
	host_close(s);
	errno = err;
	return false;
}

static uint16_t host_lport(const struct ks_src *s) { return s->sock->local.port; }

static bool host_connect(const struct ks_src *s, const struct conn_addr *a)
{
	const struct ipc_addr to = endpoint_of(&a->remote, a->rport);
	int err = sock_connect(s->sock, &to);

	if (err == 0)
		sock_watch(s->sock, s->fd);
	errno = err;
	return err == 0;
}

static int host_connected(const struct ks_src *s)
{
	uint32_t state = __atomic_load_n(&s->sock->mem->state, __ATOMIC_ACQUIRE);

	if ((state & IPC_STREAM_CONNECTED) != 0)
		return 0;
	if ((state & IPC_STREAM_ENDED) == 0)
		return EINPROGRESS;
	int err = sock_pending_error(s->sock);
	return err != 0 ? err : ECONNABORTED;
}

static bool host_listen(struct ks_src *s, const struct conn_addr *at, const struct ks_listening *how)
{
	if (s->sock == NULL && !host_open(s, at))
		return false;
	int err = sock_listen(s->sock, how->backlog);
	if (err == 0)
		return true;
	host_close(s);
	errno = err;
	return false;
}

static bool host_accept(const struct ks_src *l, struct ks_src *s)
{
	s->fd = -1;
	s->sock = sock_new(AF_INET);
	int err = s->sock == NULL ? ENOMEM : sock_accept(l->sock, l->fd, s->sock, &s->fd);
	if (err == 0) {
		sock_watch(s->sock, s->fd);
		return true;
	}
	host_close(s);
	errno = err;
	return false;
}

/*
 * The program's stream belongs to librnicsock, which was preloaded. librnicsock is another copy of the code that this
 * library uses. From now on both copies map the stream's memory; the program must no longer use its descriptor.
 */
static int host_take(int fd, struct ks_src *s, char *err, uint32_t err_len)
{
	int (*look)(uint32_t version, int fd, struct sock_seen *seen) = NULL;
	void *found = dlsym(RTLD_DEFAULT, SOCK_SEE);
	struct sock_seen seen;

	memcpy(&look, &found, sizeof(look));
	if (look == NULL || look(IPC_VERSION, fd, &seen) != 0) {
		snprintf(err, err_len,
			 "descriptor %d is no connection over rnicd: run the program with rnicrun --sockets too, and "
			 "connect to an address that one of rnicd's ports reaches, or run it with rnicrun --embedded",
			 fd);
		return fcntl(fd, F_GETFD) < 0 ? EBADF : ENOTSOCK;
	}
	s->sock = sock_new(AF_INET);
	s->fd = s->sock != NULL ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
	if (s->fd >= 0 && sock_take(s->sock, s->fd, &seen))
		return 0;
	host_close(s);
	snprintf(err, err_len, "no memory or file descriptors, or rnicd does not answer");
	return ENOMEM;
}

static void host_begin(const struct ks_src *s)
{
	fcntl(s->fd, F_SETFL, fcntl(s->fd, F_GETFL) | O_NONBLOCK);
	sock_watch(s->sock, s->fd);
}

static bool host_ends(const struct ks_src *s, struct conn_addr *a)
{
	memcpy(a->local.b, s->sock->local.ip, sizeof(a->local.b));
	memcpy(a->remote.b, s->sock->remote.ip, sizeof(a->remote.b));
	a->lport = s->sock->local.port;
	a->rport = s->sock->remote.port;
	return true;
}

static uint32_t host_mss(const struct ks_src *s) { return s->sock->mem->mss; }

/* ---- bytes ---- */

static ssize_t host_recv(const struct ks_src *s, void *to, size_t len)
{
	const struct iovec iov = { .iov_base = to, .iov_len = len };
	ssize_t n = sock_recv(s->sock, s->fd, &iov, 1, MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN && !s->sock->watched)
		sock_unwatch(s->sock, s->fd); /* the descriptor was readable because of bytes that were read before */
	ks.rc.qp.stats.copied_rx += n > 0 ? (uint64_t)n : 0;
	return n;
}

/* Bytes whose CRCs rnicd has checked come first, and one call does not return them together with other bytes. */
static uint32_t host_look(const struct ks_src *s, struct iovec iov[2], bool *summed)
{
	uint32_t good = sock_summed(s->sock), n = sock_look(s->sock, iov);

	*summed = good != 0;
	if (good == 0 || good >= n)
		return n;
	iov[0].iov_len = rn_min_u32((uint32_t)iov[0].iov_len, good);
	iov[1].iov_len = good - iov[0].iov_len;
	return good;
}

static void host_took(const struct ks_src *s, uint32_t n) { sock_took(s->sock, s->fd, n); }

static ssize_t host_send(const struct ks_src *s, const struct iovec *iov, uint32_t n)
{
	ssize_t done = sock_send(s->sock, s->fd, iov, (int)n, MSG_DONTWAIT | MSG_NOSIGNAL);

	ks.rc.qp.stats.copied_tx += done > 0 ? (uint64_t)done : 0;
	return done;
}

static uint32_t host_unacked(const struct ks_src *s)
{
	/* relaxed: no other data is read depending on the index */
	return s->sock->mem->tx_tail - __atomic_load_n(&s->sock->mem->tx_head, __ATOMIC_RELAXED);
}

static void host_finish(const struct ks_src *s) { sock_finish(s->sock); }
static void host_reset(const struct ks_src *s) { sock_reset(s->sock); }
static bool host_readable(const struct ks_src *s) { return sock_readable(s->sock); }

static void host_fpdus_out(const struct ks_src *s, uint32_t ahead, uint32_t step)
{
	sock_fpdus_out(s->sock, ahead, step);
}

static bool host_fpdus_in(const struct ks_src *s, uint32_t offset, uint32_t step)
{
	return sock_fpdus_in(s->sock, offset, step);
}

static void host_polled(const struct ks_src *s, bool polled)
{
	if (polled && s->sock->watched)
		sock_unwatch(s->sock, s->fd);
	else if (!polled)
		sock_watch(s->sock, s->fd);
}

const struct ks_net ks_net_host = {
	.ports = host_ports,
	.open = host_open,
	.lport = host_lport,
	.connect = host_connect,
	.connected = host_connected,
	.listen = host_listen,
	.accept = host_accept,
	.take = host_take,
	.begin = host_begin,
	.ends = host_ends,
	.mss = host_mss,
	.recv = host_recv,
	.look = host_look,
	.took = host_took,
	.send = host_send,
	.unacked = host_unacked,
	.finish = host_finish,
	.reset = host_reset,
	.close = host_close,
	.readable = host_readable,
	.polled = host_polled,
	.fpdus_out = host_fpdus_out,
	.fpdus_in = host_fpdus_in,
};
