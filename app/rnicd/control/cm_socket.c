/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ids that use an existing connection of the program: it hands over a connected TCP socket, at a point of the stream
 * that both ends have agreed upon (RFC 5044, 7.1). The active end then connects as usual. The passive end has no
 * listener: its id itself waits for the peer's MPA Request.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "border/handed.h"
#include "border/policy.h"
#include "control/addr_text.h"
#include "control/cm.h"
#include "control/dev.h"

struct await {
	struct cmd cmd;
	struct client *c;
	struct cm_id *id;
};

static void cm_socket_ok(struct client *c, const struct cm_id *id)
{
	struct ipc_msg m = { .cm_socket_ok = { .local = id->local, .remote = id->remote, .dev = id->dev } };

	client_answer(c, &m, IPC_MSG_LEN(cm_socket_ok));
}

/* Gives up the socket that was taken over: the id is idle again. */
static void unhand(struct cm_id *id)
{
	rnicd.taker->drop(id->handed);
	id->handed = NULL;
	id->dev = CM_NO_DEV;
	cm_set_state(id, CM_IDLE);
}

static void awaited(struct cmd *cmd)
{
	struct await *w = rn_container_of(cmd, struct await, cmd);
	/* NULL: the connection has ended already, and its effects were handled before this answer */
	struct cm_conn *k = cm_conn_of(cmd->open.owner);
	struct cm_id *id = w->id;
	struct client *c = w->c;
	bool good = cmd->open.cv == CONN_OK;

	if (good) {
		id->handed = NULL;
		if (k != NULL)
			k->conn = cmd->open.conn;
	} else {
		cm_conn_free(k);
		unhand(id);
	}
	free(w);
	if (!client_back(c))
		return;
	if (good)
		cm_socket_ok(c, id);
	else
		client_error(c, ENOMEM, "too many connections are being set up at once: raise 'memory' or 'flows'");
}

/* Passive end: lets the worker wait for the peer's MPA Request. */
static void await(struct client *c, struct cm_id *id, const struct conn_addr *a)
{
	struct await *w = calloc(1, sizeof(*w));
	struct cm_conn *k = w != NULL ? cm_conn_new(c, id, owner_new()) : NULL;

	if (k == NULL || !cm_conn_on(k, c->user, conn_owner(a), USER_REQUESTS)) {
		if (k != NULL)
			cm_conn_free(k);
		free(w);
		unhand(id);
		client_error(c, ENOMEM, "no memory for another connection, or this user sets up as many as a user may");
		return;
	}
	k->lport = a->lport;
	w->c = c;
	w->id = id;
	w->cmd = (struct cmd){ .type = CMD_CONN_OPEN, .done = awaited };
	w->cmd.open = (struct cmd_conn_open){ .addr = *a,
					      .owner = k->owner.key,
					      .dev = dev_get(id->dev),
					      .policy = conn_policy(rnicd.port[id->dev]),
					      .flags = RC_AWAITED,
					      .handed = id->handed,
					      .passive = true };
	cm_set_state(id, CM_AWAITING);
	client_hold(c);
	cmd_send(&w->cmd, k->worker);
}

static struct ipc_addr end_of(const struct pkt_addr *ip, uint16_t port)
{
	struct ipc_addr a = { .port = port };

	memcpy(a.ip, ip->b, sizeof(a.ip));
	return a;
}

void cm_socket(struct client *c)
{
	const struct ipc_cm_socket r = c->req.cm_socket;
	struct cm_id *id = cm_find(c, r.id);
	struct conn_addr a = { .port = 0 };
	char text[IPC_TEXT_MAX] = "";

	if (id == NULL)
		return;
	if (id->udp || id->state != CM_IDLE) {
		cm_wrong_state(c, id, "a socket");
		return;
	}
	/* the descriptor's number names a descriptor of this process: only this process itself may name one */
	if (rnicd.taker == NULL || c->pid != getpid()) {
		client_error(c, EOPNOTSUPP,
			     "rnicd cannot take over a socket: run the program with rnicrun --embedded, or with "
			     "--design host --sockets");
		return;
	}
	int err = rnicd.taker->take((int)r.fd, &id->handed, &a, text, sizeof(text));
	if (err != 0) {
		id->handed = NULL;
		client_error(c, err, "%s", text);
		return;
	}
	id->dev = dev_by_addr(a.local.b);
	if (id->dev == UINT32_MAX) {
		char ip[46];
		unhand(id);
		client_error(c, EADDRNOTAVAIL, "no RDMA device has the address %s of the socket",
			     addr_text(a.local.b, ip, sizeof(ip)));
		return;
	}
	a.port = id->dev;
	id->local = end_of(&a.local, a.lport);
	id->remote = end_of(&a.remote, a.rport);
	id->families = cm_family_of(id->dev);
	if (r.passive != 0) {
		await(c, id, &a);
		return;
	}
	cm_set_state(id, CM_ROUTE_KNOWN);
	cm_socket_ok(c, id);
}
