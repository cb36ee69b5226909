/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of programs about stream sockets; for datagram sockets see sk_gram.c. */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/cm.h"
#include "control/dev.h"
#include "control/sk.h"

#define BACKLOG_MAX 4096u

static void sk_join(struct client *c)
{
	struct ipc_msg m = { .sock_join_ok = { .version = IPC_VERSION,
					       .workers = rnicd.n_workers,
					       .ports = rnicd.n_ports,
					       .flags = rnicd.own ? IPC_SOCK_KERNELS : 0 } };
	struct sk_user *su = sk_user_get(c);

	_Static_assert(RNICD_MAX_PORTS <= IPC_SOCK_PORTS_MAX, "a place for each port");
	if (su == NULL) {
		client_error(c, ENOMEM, "rnicd has no memory or descriptors for sockets of another user: see its log");
		return;
	}
	for (uint32_t i = 0; i < rnicd.n_ports; i++) {
		const struct rnicd_port_cfg *p = rnicd.port[i]->cfg;
		struct ipc_sock_port *o = &m.sock_join_ok.port[i];
		memcpy(o->ip, p->ip.b, 16);
		o->prefix_len = p->prefix_len;
		o->mtu = rnicd.port[i]->mtu;
		o->flags = p->designs == RNICD_DESIGNS_ANY ? IPC_SOCK_PORT_HOST : 0;
		snprintf(o->name, sizeof(o->name), "%s", p->name);
	}
	const int fds[2] = { su->bells_fd, su->wake_fd };
	c->state = CLIENT_SOCKETS;
	client_answer_fds(c, &m, IPC_MSG_LEN(sock_join_ok), fds, 2);
}

struct ipc_sock_ok sk_answer(const struct sk *s)
{
	return (struct ipc_sock_ok){
		.sock = s->owner.key, .worker = s->worker, .bit = s->bit, .local = s->local, .remote = s->remote
	};
}

struct sk *sk_make(struct client *c)
{
	struct sk_user *su = sk_user_get(c);
	struct sk *s = su != NULL ? sk_new(c->user, su, 0) : NULL;

	if (s == NULL)
		client_error(c, ENOMEM, "no memory for another socket");
	else
		s->gone = true;
	return s;
}

void sk_hand_over(struct client *c, struct sk *s, bool with_memory)
{
	struct ipc_msg m = { .sock_ok = sk_answer(s) };
	int fds[2] = { -1, -1 };
	uint32_t n = 0;

	if (s->fd >= 0)
		fds[n++] = s->fd;
	if (with_memory && s->mem_fd >= 0)
		fds[n++] = s->mem_fd;
	client_answer_fds(c, &m, IPC_MSG_LEN(sock_ok), fds, n);
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

struct sk *sk_find(struct client *c, uint64_t key, enum sk_state state)
{
	struct sk *s = sk_of(key);

	if (s == NULL || !sk_may_use(c, s) || s->gone) {
		client_error(c, EBADF, "there is no such socket");
		return NULL;
	}
	if (s->busy || s->state != state) {
		client_error(c, EINVAL, "the socket is in the wrong state for this request");
		return NULL;
	}
	return s;
}

/* Finds the device with the address, and the families in which the port is to be reserved. CM_NO_DEV: all devices of
 * these families. False: the client was answered with an error. */
static bool bound_to(struct client *c, const struct ipc_sock_addr *r, uint32_t *dev, uint8_t *families)
{
	static const uint8_t none[16];
	const bool all = memcmp(r->addr.ip, none, sizeof(none)) == 0 && r->addr.port != 0;
	const char *no;

	*dev = dev_by_addr(r->addr.ip);
	*families = CM_IP4 | CM_IP6; /* a socket with one device's address reserves its port in both families */
	if (all) {
		*dev = CM_NO_DEV;
		*families = (r->flags & IPC_SOCK_IP4 ? CM_IP4 : 0) | (r->flags & IPC_SOCK_IP6 ? CM_IP6 : 0);
	}
	if (all ? *families == 0 : *dev == UINT32_MAX) {
		client_error(c, EADDRNOTAVAIL, "no port of rnicd has this address");
		return false;
	}
	no = cm_port_refusal(c, *dev, r->addr.port);
	if (no != NULL)
		client_error(c, EACCES, "port %u: %s", r->addr.port, no);
	return no == NULL;
}

static void sk_bind(struct client *c)
{
	const struct ipc_sock_addr r = c->req.sock_addr;
	uint32_t dev;
	uint8_t families;

	if (!bound_to(c, &r, &dev, &families))
		return;
	struct sk *s = sk_make(c);
	if (s == NULL)
		return;
	s->dev = dev;
	s->families = families;
	s->local = r.addr;
	s->balance = (r.flags & IPC_SOCK_REUSE) != 0;
	const enum sk_port got = sk_take_port(s);
	if (got != SK_PORT_OK) {
		if (got == SK_PORT_CROWDED)
			client_error(c, EADDRINUSE, SK_PORT_FULL, r.addr.port);
		else
			cm_port_error(c, r.addr.port);
		sk_settle(s);
		return;
	}
	if (!sk_open(s)) {
		client_error(c, EMFILE,
			     "this user has as many descriptors of rnicd as a user may, or the system has no "
			     "more: close some, or raise rnicd's limit (ulimit -n)");
		sk_settle(s);
		return;
	}
	s->gone = false;
	sk_hand_over(c, s, false);
}

/* ---- listen ---- */

static void not_listening(struct cmd *cmd)
{
	struct sk *s = rn_container_of(cmd, struct sk, cmd);
	struct client *c = s->c;

	s->busy = false;
	s->c = NULL;
	user_give(s->user, USER_LISTENERS, 0, 1);
	if (client_back(c))
		client_error(c, ENOMEM, "port %u: the workers' tables of listeners are full", s->local.port);
	sk_settle(s);
}

static void sk_listens_now(struct cmd *cmd)
{
	struct sk *s = rn_container_of(cmd, struct sk, cmd);
	struct client *c = s->c;

	for (uint32_t i = 0; i < rnicd.n_workers; i++) {
		if (cmd->stream_listen.verdict[i] != CONN_OK) {
			sk_send(s, CMD_STREAM_UNLISTEN, not_listening);
			return;
		}
	}
	s->busy = false;
	s->c = NULL;
	sk_set_state(s, SK_LISTENING);
	if (client_back(c))
		client_ok(c);
	sk_settle(s);
}

/* listen() was called once more: sets another backlog. The socket does not become busy, so that accept() is possible
 * meanwhile. */
static void listen_again(struct client *c, struct sk *s, uint32_t backlog)
{
	struct cmd *cmd = calloc(1, sizeof(*cmd));

	if (cmd == NULL) {
		client_error(c, ENOMEM, "rnicd has no memory for another backlog");
		return;
	}
	s->backlog = backlog;
	*cmd = (struct cmd){ .type = CMD_STREAM_LISTEN, .done = sk_forget_cmd };
	cmd->stream_listen = (struct cmd_stream_listen){
		.port = s->dev, .lport = s->local.port, .backlog = (uint16_t)backlog, .again = true, .key = s->owner.key
	};
	cmd_send_all(cmd);
	client_ok(c);
}

static void sk_listen(struct client *c)
{
	const struct ipc_sock_listen r = c->req.sock_listen;
	uint32_t backlog = rn_min_u32(rn_max_u32(r.backlog, 1), BACKLOG_MAX);
	struct sk *s = sk_of(r.sock);

	if (s != NULL && sk_may_use(c, s) && s->state == SK_LISTENING) {
		listen_again(c, s, backlog);
		return;
	}
	s = sk_find(c, r.sock, SK_BOUND);
	if (s == NULL)
		return;
	if (!user_take(s->user, USER_LISTENERS, 0, 1)) {
		client_error(c, ENOMEM,
			     "the user of this client has as many listeners as a user may: %u (listeners, user-share)",
			     (uint32_t)user_share(USER_LISTENERS));
		return;
	}
	s->backlog = backlog;
	s->c = c;
	s->cmd.stream_listen = (struct cmd_stream_listen){
		.port = s->dev,
		.lport = s->local.port,
		.backlog = (uint16_t)backlog,
		.families = STREAM_IP4 | STREAM_IP6,
		.key = s->owner.key,
	};
	if (s->dev == CM_NO_DEV)
		s->cmd.stream_listen.families = (s->families & CM_IP4 ? STREAM_IP4 : 0) |
						(s->families & CM_IP6 ? STREAM_IP6 : 0);
	client_hold(c);
	sk_send(s, CMD_STREAM_LISTEN, sk_listens_now);
}

/* ---- connect and accept ---- */

static struct conn_addr address(const struct sk *s)
{
	struct conn_addr a = { .port = s->dev, .lport = s->local.port, .rport = s->remote.port };

	memcpy(a.local.b, s->local.ip, 16);
	memcpy(a.remote.b, s->remote.ip, 16);
	return a;
}

static int errno_of(enum conn_verdict v)
{
	switch (v) {
	case CONN_OK: return 0;
	case CONN_IN_USE: return EADDRINUSE;
	case CONN_DENIED: return EACCES;
	case CONN_NO_ROUTE: return ENETUNREACH;
	case CONN_FULL:
	case CONN_QP: return ENOBUFS;
	}
	return EIO;
}

static void connecting(struct cmd *cmd)
{
	struct sk *s = rn_container_of(cmd, struct sk, cmd);
	struct client *c = s->c;
	int err = errno_of(cmd->stream.verdict);

	s->busy = false;
	s->c = NULL;
	s->stream = cmd->stream.stream;
	if (err != 0) {
		sk_disarm(s);
		sk_set_state(s, SK_BOUND);
		if (client_back(c))
			client_error(c, err,
				     "the connection cannot be opened: it exists already, there is no route to the "
				     "peer, or no more room (flows)");
	} else if (client_back(c)) {
		sk_hand_over(c, s, true);
	}
	sk_settle(s);
}

static bool wants_iwarp(const struct sk *s, uint32_t flags)
{
	if (flags & (IPC_SOCK_PLAIN | IPC_SOCK_IWARP))
		return (flags & IPC_SOCK_IWARP) != 0;
	return rnicd.port[s->dev]->cfg->stream_wire == RNICD_WIRE_IWARP;
}

static void sk_connect(struct client *c)
{
	const struct ipc_sock_addr r = c->req.sock_addr;
	struct sk *s = sk_find(c, r.sock, SK_BOUND);
	const char *no;

	if (s == NULL)
		return;
	s->remote = r.addr;
	if (r.addr.port == 0 || s->dev == CM_NO_DEV || !dev_reaches(s->dev, r.addr.ip)) {
		client_error(c, ENETUNREACH, "the socket's port does not reach this address");
		return;
	}
	/* Only daemons may announce queue pair numbers on qp-port (oob.h). */
	if (r.addr.port == rnicd.port[s->dev]->cfg->qp_port) {
		client_error(c, EACCES, "port %u: %s", r.addr.port, cm_port_refusal(c, s->dev, r.addr.port));
		return;
	}
	struct conn_addr a = address(s);
	s->worker = conn_owner(&a);
	if (!sk_arm(s, &no)) {
		sk_disarm(s);
		client_error(c, ENOBUFS, "%s", no);
		return;
	}
	sk_set_state(s, SK_STREAM);
	s->c = c;
	s->cmd.stream = (struct cmd_stream){ .key = s->owner.key,
					     .addr = a,
					     .mem = s->mem,
					     .user = s->su->view[s->worker],
					     .bit = s->bit,
					     .iwarp = wants_iwarp(s, r.flags) };
	client_hold(c);
	sk_send(s, CMD_STREAM_OPEN, connecting);
}

static void adopted(struct cmd *cmd)
{
	struct sk *s = rn_container_of(cmd, struct sk, cmd);
	struct client *c = s->c;
	bool ok = cmd->stream.verdict == CONN_OK && s->stream != NULL;

	s->busy = false;
	s->c = NULL;
	if (s->stream == NULL)
		sk_disarm(s);
	if (client_back(c)) {
		sk_writable(s);
		if (s->peer_fin)
			shutdown(s->src.fd, SHUT_WR);
		if (ok)
			sk_hand_over(c, s, true);
		else
			client_error(c, ECONNABORTED, "the connection has ended before it was accepted");
	}
	if (s->fd >= 0) { /* the descriptor has not been passed to the program */
		close(s->fd);
		s->fd = -1;
	}
	sk_settle(s);
}

static void sk_accept(struct client *c)
{
	struct sk *l = sk_find(c, c->req.sock_listen.sock, SK_LISTENING);
	struct sk *s = l != NULL ? rn_list_first(&l->pending, struct sk, link) : NULL;
	const char *why;

	if (l == NULL)
		return;
	if (l->tokens > 0)
		l->tokens--; /* the program reads this byte before it sends the request */
	if (s == NULL) {
		struct ipc_msg m = { .status = EAGAIN };
		client_answer(c, &m, IPC_MSG_HDR);
		return;
	}
	rn_list_remove(&l->pending, &s->link);
	l->n_pending--;
	s->listener = NULL;
	sk_listener_readable(l);
	s->gone = true; /* so that it is freed if it gets no descriptor */
	if (s->stream == NULL || !sk_arm(s, &why) || !sk_open(s)) {
		client_error(c, s->stream == NULL ? ECONNABORTED : ENOBUFS,
			     s->stream == NULL ? "the connection has ended before it was accepted"
					       : "no more descriptors or memory for this user's sockets");
		sk_settle(s);
		return;
	}
	s->gone = false;
	sk_set_state(s, SK_STREAM);
	s->c = c;
	s->cmd.stream = (struct cmd_stream){
		.stream = s->stream, .key = s->owner.key, .mem = s->mem, .user = s->su->view[s->worker], .bit = s->bit
	};
	client_hold(c);
	sk_send(s, CMD_STREAM_ADOPT, adopted);
}

void sk_request(struct client *c)
{
	switch ((int)c->req.type) {
	case IPC_SOCK_JOIN: sk_join(c); break;
	case IPC_SOCK_BIND: sk_bind(c); break;
	case IPC_SOCK_LISTEN: sk_listen(c); break;
	case IPC_SOCK_CONNECT: sk_connect(c); break;
	case IPC_SOCK_ACCEPT: sk_accept(c); break;
	case IPC_SOCK_GRAM:
	case IPC_SOCK_PEER: sk_gram_request(c); break;
	case IPC_SOCK_FIND: sk_show(c); break;
	case IPC_SOCK_TAKE:
	case IPC_SOCK_CLOSED:
	case IPC_SOCK_OPTION:
		client_error(c, EOPNOTSUPP, "this rnicd has a TCP of its own, and takes no sockets of the kernel's");
		break;
	case IPC_SOCK_LIST: sk_tell(c); break;
	default: break;
	}
}
