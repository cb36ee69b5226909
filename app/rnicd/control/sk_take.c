/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes sockets of the kernel's sockets that programs pass, for a process that serves sockets without a TCP of its own
 * (embedded.c). The kernel has checked address and port; a socket of this kind reserves no port here.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "border/handed.h"
#include "control/cm.h"
#include "control/dev.h"
#include "control/sk.h"
#include "ipc/ipc_sock_opt.h"

/* Closes the program's end of the socket pair, if no program has got this end: on_hup() then ends the socket. */
static void keep_no_end(struct sk *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	sk_settle(s);
}

/* The socket has not become one: answers with an error, and lets the socket end. */
static void took_nothing(struct sk *s, struct client *c)
{
	if (client_back(c))
		client_error(c, ENOBUFS, "no more memory for sockets, or for connections (flows)");
	keep_no_end(s);
}

/* Answers with the socket. If the client has gone, nobody has the descriptor, and the socket ends. */
static void took(struct sk *s, struct client *c, bool with_memory)
{
	if (client_back(c))
		sk_hand_over(c, s, with_memory);
	keep_no_end(s);
}

static void took_stream(struct cmd *cmd)
{
	struct sk *s = rn_container_of(cmd, struct sk, cmd);
	struct client *c = s->c;

	s->busy = false;
	s->c = NULL;
	s->stream = cmd->stream.stream;
	if (cmd->stream.verdict != CONN_OK) {
		sk_disarm(s);
		took_nothing(s, c);
		return;
	}
	took(s, c, true);
}

static void took_listener(struct cmd *cmd)
{
	struct sk *s = rn_container_of(cmd, struct sk, cmd);
	struct client *c = s->c;

	s->busy = false;
	s->c = NULL;
	if (cmd->stream_listen.verdict[0] != CONN_OK) {
		user_give(s->user, USER_LISTENERS, 0, 1);
		took_nothing(s, c);
		return;
	}
	sk_set_state(s, SK_LISTENING);
	took(s, c, false);
}

/*
 * The peer's address as the kernel names it. A program that connects to the address "any" reaches its own host, and a
 * link-local address is one of the interface of the local end, if the program names no interface.
 */
static struct ipc_addr peer_of(const struct sk *s, const struct ipc_addr *to)
{
	static const struct pkt_addr any, loopback = { .b = { [15] = 1 } };
	struct ipc_addr a = *to;
	struct pkt_addr ip;

	memcpy(ip.b, a.ip, sizeof(ip.b));
	if (pkt_addr_is_ip4(&ip) ? pkt_addr_to_ip4(&ip) == 0 : pkt_addr_eq(&ip, &any)) {
		memcpy(ip.b, s->local.ip, sizeof(ip.b));
		memcpy(a.ip, pkt_addr_is_ip4(&ip) ? ip.b : loopback.b, sizeof(a.ip));
	}
	if (dev_is_local(a.ip) && a.scope == 0)
		a.scope = s->local.scope;
	return a;
}

static const char *take_connection(struct client *c, struct sk *s, struct conn_addr *a, struct handed *h)
{
	const char *no;

	s->remote = peer_of(s, &c->req.sock_take.remote);
	if (!sk_arm(s, &no)) {
		sk_disarm(s);
		return no;
	}
	memcpy(a->remote.b, s->remote.ip, 16);
	a->rport = s->remote.port;
	sk_set_state(s, SK_STREAM);
	s->cmd.stream = (struct cmd_stream){ .key = s->owner.key,
					     .addr = *a,
					     .mem = s->mem,
					     .user = s->su->view[0],
					     .bit = s->bit,
					     .iwarp = true,
					     .handed = h };
	s->c = c;
	client_hold(c);
	sk_send(s, CMD_STREAM_OPEN, took_stream);
	return NULL;
}

static const char *take_listener(struct client *c, struct sk *s, struct handed *h)
{
	if (!user_take(s->user, USER_LISTENERS, 0, 1))
		return "no more listeners";
	s->backlog = rn_min_u32(rn_max_u32(c->req.sock_take.backlog, 1), UINT16_MAX);
	s->cmd.stream_listen =
		(struct cmd_stream_listen){ .backlog = (uint16_t)s->backlog, .key = s->owner.key, .handed = h };
	s->c = c;
	client_hold(c);
	sk_send(s, CMD_STREAM_LISTEN, took_listener);
	return NULL;
}

static void take_tcp(struct client *c)
{
	struct conn_addr a = { .port = 0 };
	char text[IPC_TEXT_MAX] = "";
	struct handed *h = NULL;
	const char *no = NULL;
	bool listens = false;

	struct sk *s = sk_make(c);
	if (s == NULL)
		return;
	const int err = rnicd.taker->keep(c->shown_fd, &h, &s->local, &listens, text, sizeof(text));
	if (err != 0) {
		client_error(c, err, "%s", text);
		sk_settle(s);
		return;
	}
	memcpy(a.local.b, s->local.ip, 16);
	a.lport = s->local.port;
	const uint32_t dev = dev_by_addr(a.local.b);
	a.port = dev == UINT32_MAX ? 0 : dev;
	s->dev = listens ? CM_NO_DEV : a.port;
	if (!sk_open(s))
		no = "no more file descriptors: raise the limit (ulimit -n)";
	s->gone = no != NULL;
	if (no == NULL)
		no = listens ? take_listener(c, s, h) : take_connection(c, s, &a, h);
	if (no == NULL)
		return;
	rnicd.taker->drop(h);
	client_error(c, ENOBUFS, "%s", no);
	keep_no_end(s);
}

/* ---- UDP sockets ---- */

#define GRAM_FDS 2 /* the kernel's socket, and the one by which other processes pass datagrams */

static void take_gram(struct client *c)
{
	static const uint8_t none[16];
	struct handed_gram about;
	char text[IPC_TEXT_MAX] = "";
	struct handed *h = NULL;

	struct sk *s = sk_make(c);
	if (s == NULL)
		return;
	sk_set_state(s, SK_GRAM);
	const int err = rnicd.taker->keep_gram(c->shown_fd, &h, &about, text, sizeof(text));
	if (err != 0) {
		client_error(c, err, "%s", text);
		sk_settle(s);
		return;
	}
	s->local = about.local;
	s->remote = about.peer;
	s->balance = about.balance;
	s->dev = memcmp(s->local.ip, none, sizeof(none)) == 0 ? GRAM_ANY_DEV : dev_by_addr(s->local.ip);
	if (s->dev == UINT32_MAX && memcmp(s->local.ip, none, sizeof(none)) != 0)
		s->dev = GRAM_NO_DEV;
	const bool joins = sk_gram_joins(s);
	if (joins && user_take(s->user, USER_FDS, 0, GRAM_FDS))
		s->more_fds = GRAM_FDS;
	if (!joins)
		client_error(c, EADDRINUSE, SK_PORT_FULL, s->local.port);
	else if (s->more_fds == 0)
		client_error(c, EMFILE, "this user has as many descriptors as a user may: close some sockets");
	if (s->more_fds == 0)
		sk_settle(s);
	if (s->more_fds == 0 || !sk_gram_make(c, s)) {
		rnicd.taker->drop(h);
		return;
	}
	s->gram->below = h;
	s->gram->peer.port = s->remote.port;
	memcpy(s->gram->peer.ip.b, s->remote.ip, sizeof(s->remote.ip));
	sk_gram_begin(c, s);
}

static bool is_udp(int fd)
{
	int protocol = 0;
	socklen_t len = sizeof(protocol);

	return getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) == 0 && protocol == IPPROTO_UDP;
}

void sk_take(struct client *c)
{
	if (is_udp(c->shown_fd))
		take_gram(c);
	else
		take_tcp(c);
}

/* A command after which a client gets its answer. */
struct answered_later {
	struct cmd cmd;
	struct client *c;
	/* IPC_SOCK_CLOSED */
	uint16_t port;
	struct rn_link link;
};

static void answer_now(struct cmd *cmd)
{
	struct answered_later *a = rn_container_of(cmd, struct answered_later, cmd);

	if (client_back(a->c))
		client_ok(a->c);
	free(a);
}

void sk_option(struct client *c)
{
	const struct ipc_sock_option r = c->req.sock_option;
	const struct sk *l = sk_of(r.sock);

	if (!ipc_sock_opt_passes(r.level, r.name)) {
		client_error(c, EOPNOTSUPP, "no socket of the kernel's gets such an option");
		return;
	}
	const struct sk *s = sk_find(c, r.sock, l != NULL && l->state == SK_LISTENING ? SK_LISTENING : SK_STREAM);

	if (s == NULL)
		return;
	struct answered_later *a = calloc(1, sizeof(*a));
	if (a == NULL) {
		client_error(c, ENOMEM, "no memory");
		return;
	}
	*a = (struct answered_later){ .cmd = { .type = CMD_STREAM_OPTION, .done = answer_now }, .c = c };
	a->cmd.stream_option = (struct cmd_stream_option){
		.stream = s->stream, .key = s->owner.key, .level = r.level, .name = r.name, .value = r.value
	};
	client_hold(c);
	cmd_send(&a->cmd, s->worker);
}

/* Clients that wait for the ends of datagram sockets. */
static struct rn_list awaiting;

/* The worker carries out commands in order: it has closed the listeners when it answers this one. */
static void listeners_closed(struct cmd *cmd)
{
	struct answered_later *a = rn_container_of(cmd, struct answered_later, cmd);

	rn_list_push_back(&awaiting, &a->link);
}

void sk_tell_closed(void)
{
	struct rn_list again = { 0 };
	struct answered_later *a;

	while ((a = rn_list_pop(&awaiting, struct answered_later, link)) != NULL) {
		if (sk_gram_ends(a->port))
			rn_list_push_back(&again, &a->link);
		else
			answer_now(&a->cmd);
	}
	while ((a = rn_list_pop(&again, struct answered_later, link)) != NULL)
		rn_list_push_back(&awaiting, &a->link);
}

void sk_await_closed(struct client *c)
{
	struct answered_later *a = calloc(1, sizeof(*a));

	if (a == NULL) {
		client_error(c, ENOMEM, "no memory");
		return;
	}
	*a = (struct answered_later){ .cmd = { .type = CMD_NOTHING, .done = listeners_closed },
				      .c = c,
				      .port = (uint16_t)c->req.sock_addr.addr.port };
	sk_see_closed(a->port);
	client_hold(c);
	cmd_send_all(&a->cmd);
}
