/* SPDX-License-Identifier: BSD-3-Clause */
/* The control thread's part of datagram sockets (ipc_gram.h): UDP ports, requests, the end. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "control/cm.h"
#include "control/dev.h"
#include "control/sk.h"

#define FIRST     32768u /* first dynamic port, as in cm_port.c */
#define LAST      60999u
#define LAST_TURN 64u /* turns of the worker in which a closed socket may still send queued datagrams */

/* Datagram sockets by UDP port. A socket may have the port on all addresses. */
static struct rn_list ports[UINT16_MAX + 1];

/* ---- UDP ports ---- */

static bool same_address(const struct sk *s, uint32_t dev)
{
	return s->dev == dev || s->dev == GRAM_ANY_DEV || dev == GRAM_ANY_DEV;
}

/* Whether no process has the socket open, even if the loop has not handled this yet: as in a kernel, a port is free as
 * soon as its socket is closed or its program has ended. */
static bool has_ended(struct sk *s)
{
	struct pollfd p = { .fd = s->src.fd };

	return s->gone || p.fd < 0 || poll(&p, 1, 0) == 1;
}

static bool may_share(const struct sk *s, const struct sk *o)
{
	return o->user == s->user && ((s->reuse && o->reuse) || (s->balance && o->balance));
}

bool sk_gram_has_port(uint32_t dev, uint16_t port)
{
	rn_list_each(struct sk, o, &ports[port], bound)
		if (same_address(o, dev) && !has_ended(o))
			return true;
	return false;
}

/*
 * Whether the port has room for one more of the sockets that share it with s, on each device of s. A worker looks at
 * all of them for each datagram.
 */
static bool has_room(const struct sk *s, uint16_t port)
{
	uint32_t n[RNICD_MAX_PORTS] = { 0 };

	rn_list_each(struct sk, o, &ports[port], bound) {
		if (!same_address(o, s->dev) || has_ended(o))
			continue;
		for (uint32_t d = 0; d < rnicd.n_ports; d++)
			if (same_address(o, d) && same_address(s, d) && ++n[d] == SK_SHARE_MAX)
				return false;
	}
	return true;
}

static enum sk_port is_free(const struct sk *s, uint16_t port)
{
	uint32_t n = 0;

	for (uint32_t d = 0; d < rnicd.n_ports; d++)
		if (same_address(s, d) && port_has_qp(rnicd.port[d], port))
			return SK_PORT_TAKEN;
	rn_list_each(struct sk, o, &ports[port], bound) {
		if (!same_address(o, s->dev))
			continue;
		if (!may_share(s, o) && !has_ended(o))
			return SK_PORT_TAKEN;
		n++;
	}
	return n < SK_SHARE_MAX || has_room(s, port) ? SK_PORT_OK : SK_PORT_CROWDED;
}

static uint16_t gram_port_any(const struct sk *s)
{
	static uint32_t at; /* starts at a random port (RFC 6056), then counts up */

	if (at == 0 && getrandom(&at, sizeof(at), 0) != (ssize_t)sizeof(at))
		at = 1;
	for (uint32_t i = FIRST; i <= LAST; i++) {
		uint16_t port = (uint16_t)(FIRST + ++at % (LAST - FIRST + 1));
		if (is_free(s, port) == SK_PORT_OK && sk_gram_refusal(NULL, s->dev, port) == NULL)
			return port;
	}
	return 0;
}

static enum sk_port gram_take_port(struct sk *s)
{
	enum sk_port got = SK_PORT_OK;

	if (s->local.port == 0)
		s->local.port = gram_port_any(s);
	else
		got = is_free(s, s->local.port);
	if (got != SK_PORT_OK || s->local.port == 0)
		return got != SK_PORT_OK ? got : SK_PORT_TAKEN;
	s->has_port = true;
	rn_list_push_front(&ports[s->local.port], &s->bound);
	return SK_PORT_OK;
}

bool sk_gram_joins(struct sk *s)
{
	uint32_t n = 0;

	rn_list_each(const struct sk, o, &ports[s->local.port], bound)
		n++;
	if (n >= SK_SHARE_MAX)
		return false;
	s->has_port = true;
	rn_list_push_front(&ports[s->local.port], &s->bound);
	return true;
}

bool sk_gram_ends(uint16_t port)
{
	rn_list_each(const struct sk, o, &ports[port], bound)
		if (o->gone && o->gram != NULL)
			return true;
	return false;
}

void sk_gram_give_port(struct sk *s) { rn_list_remove(&ports[s->local.port], &s->bound); }

const char *sk_gram_refusal(const struct client *c, uint32_t dev, uint16_t port)
{
	for (uint32_t d = 0; d < rnicd.n_ports; d++)
		if ((d == dev || dev == GRAM_ANY_DEV) && port != 0 && rnicd.port[d]->cfg->ud_port == port)
			return "it is datagram-port, which is rnicd's own: choose another port, or move datagram-port "
			       "in rnicd's configuration, on all hosts";
	return c == NULL || port == 0 || port >= CM_PORT_FREE || c->uid == 0 || c->uid == geteuid()
		       ? NULL
		       : "ports below 1024 are root's, as those of the system: choose another one";
}

/* ---- requests ---- */

static void gram_opened(struct cmd *cmd)
{
	struct sk *s = rn_container_of(cmd, struct sk, cmd);
	struct client *c = s->c;

	s->busy = false;
	s->c = NULL;
	if (client_back(c))
		sk_hand_over(c, s, true);
	if (s->fd >= 0) { /* the descriptor has not been passed to the program */
		close(s->fd);
		s->fd = -1;
	}
	sk_settle(s);
}

bool sk_gram_make(struct client *c, struct sk *s)
{
	const char *why;

	s->gram = calloc(1, sizeof(*s->gram));
	/* an open socket ends when its descriptor is closed */
	if (s->gram != NULL && sk_arm(s, &why) && sk_open(s)) {
		sk_writable(s);
		return true;
	}
	client_error(c, ENOBUFS,
		     "this user has as many descriptors or sockets of rnicd as a user may, or the system has no more: "
		     "close some, or raise user-share or flows");
	free(s->gram);
	s->gram = NULL;
	sk_settle(s);
	return false;
}

void sk_gram_begin(struct client *c, struct sk *s)
{
	s->gram->key = s->owner.key;
	s->gram->dev = s->dev;
	s->gram->lport = s->local.port;
	s->gram->bit = s->bit;
	s->gram->balance = s->balance;
	s->gram->mem = (struct ipc_gram *)(void *)s->mem;
	s->gram->user = s->su->view[s->worker];
	s->gone = false;
	s->c = c;
	s->cmd.gram = (struct cmd_gram){ .gram = s->gram };
	client_hold(c);
	sk_send(s, CMD_GRAM_OPEN, gram_opened);
}

/* Finds the device with the address; GRAM_ANY_DEV for the wildcard address. False: the client was answered with an
 * error. */
static bool device_of(struct client *c, const struct ipc_addr *a, uint32_t *dev)
{
	static const uint8_t none[16];
	const char *no;

	*dev = memcmp(a->ip, none, sizeof(none)) == 0 ? GRAM_ANY_DEV : dev_by_addr(a->ip);
	if (*dev == UINT32_MAX && memcmp(a->ip, none, sizeof(none)) != 0) {
		client_error(c, EADDRNOTAVAIL, "no port of rnicd has this address");
		return false;
	}
	if (*dev != GRAM_ANY_DEV && !pkt_addr_is_ip4(&rnicd.port[*dev]->cfg->ip)) {
		client_error(c, EAFNOSUPPORT,
			     "datagram sockets support IPv4 only: choose a port of rnicd with an IPv4 address");
		return false;
	}
	no = sk_gram_refusal(c, *dev, a->port);
	if (no != NULL)
		client_error(c, EACCES, "port %u: %s", a->port, no);
	return no == NULL;
}

static void sk_gram_new(struct client *c)
{
	const struct ipc_sock_gram r = c->req.sock_gram;
	uint32_t dev;

	if (!device_of(c, &r.local, &dev))
		return;
	struct sk *s = sk_make(c);
	if (s == NULL)
		return;
	sk_set_state(s, SK_GRAM);
	s->dev = dev;
	s->local = r.local;
	s->reuse = (r.flags & IPC_GRAM_REUSE) != 0;
	s->balance = (r.flags & IPC_GRAM_BALANCE) != 0;
	const enum sk_port got = gram_take_port(s);
	if (got != SK_PORT_OK) {
		client_error(c, EADDRINUSE, got == SK_PORT_CROWDED ? SK_PORT_FULL : SK_PORT_USED, r.local.port);
		sk_settle(s);
		return;
	}
	s->worker = gram_owner(s->local.port);
	if (sk_gram_make(c, s))
		sk_gram_begin(c, s);
}

static void has_peer(struct cmd *cmd)
{
	struct sk *s = rn_container_of(cmd, struct sk, cmd);
	struct client *c = s->c;

	s->busy = false;
	s->c = NULL;
	if (client_back(c))
		sk_hand_over(c, s, false);
	sk_settle(s);
}

static void sk_gram_peer(struct client *c)
{
	const struct ipc_sock_gram r = c->req.sock_gram;
	struct sk *s = sk_find(c, r.sock, SK_GRAM);

	if (s == NULL)
		return;
	s->remote = r.remote;
	s->c = c;
	s->cmd.gram = (struct cmd_gram){ .gram = s->gram, .peer.port = r.remote.port };
	memcpy(s->cmd.gram.peer.ip.b, r.remote.ip, sizeof(r.remote.ip));
	client_hold(c);
	sk_send(s, CMD_GRAM_PEER, has_peer);
}

void sk_gram_request(struct client *c)
{
	if (c->req.type == IPC_SOCK_GRAM)
		sk_gram_new(c);
	else
		sk_gram_peer(c);
}

/* ---- end ---- */

static void gram_closed(struct cmd *cmd)
{
	struct sk *s = rn_container_of(cmd, struct sk, cmd);

	s->busy = false;
	if (!cmd->gram.waits) {
		free(s->gram);
		s->gram = NULL;
	}
	sk_settle(s);
}

bool sk_gram_end(struct sk *s)
{
	if (s->gram == NULL)
		return false;
	s->cmd.gram = (struct cmd_gram){ .gram = s->gram, .give_up = ++s->tokens > LAST_TURN };
	sk_send(s, CMD_GRAM_CLOSE, gram_closed);
	return true;
}
