/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners. Each is at every worker, for the id's device or for all devices. */
#include <errno.h>
#include <stdlib.h>

#include "control/cm.h"

#define BACKLOG_DEFAULT 128u
#define BACKLOG_MAX     4096u

_Static_assert(RNICD_MAX_PORTS <= 32, "a bit of cmd_listen.without for each device");

struct op {
	struct cmd cmd;
	struct cm_id *id;
};

/* Tells the client why a worker could not listen. */
static void tell_why(struct client *c, enum conn_verdict v, uint16_t port)
{
	switch (v) {
	case CONN_IN_USE: client_error(c, EADDRINUSE, "port %u is in use", port); return;
	case CONN_DENIED: client_error(c, EACCES, "port %u: " CM_DENIED, port); return;
	case CONN_NO_ROUTE:
		client_error(c, EADDRNOTAVAIL, "port %u: this host no longer has the device's address", port);
		return;
	case CONN_OK:
	case CONN_QP:
	case CONN_FULL: break;
	}
	client_error(c, ENOMEM, "port %u: the workers' tables of listeners are full", port);
}

/* A worker could not listen, and CMD_UNLISTEN has ended the listener on all others. */
static void undone(struct cmd *cmd)
{
	struct op *o = rn_container_of(cmd, struct op, cmd);
	struct client *c = o->id->c;
	enum conn_verdict v = CONN_OK;

	/* a worker's full table is told only if no worker has another cause */
	for (uint32_t i = 0; i < rnicd.n_workers; i++)
		if (v == CONN_OK || v == CONN_FULL)
			v = cmd->listen.verdict[i];
	owner_del(&o->id->owner);
	cm_listen_uncount(o->id);
	cm_requests_end(o->id); /* workers that could listen may have got requests already */
	if (client_back(c))
		tell_why(c, v, cmd->listen.lport);
	free(o);
}

static void cm_listen_listening(struct cmd *cmd)
{
	struct op *o = rn_container_of(cmd, struct op, cmd);
	struct client *c = o->id->c;

	for (uint32_t i = 0; i < rnicd.n_workers; i++) {
		if (cmd->listen.verdict[i] != CONN_OK) {
			cmd->type = CMD_UNLISTEN;
			cmd->done = undone;
			cmd_send_all(cmd);
			return;
		}
	}
	cm_set_state(o->id, CM_LISTENING);
	free(o);
	if (client_back(c))
		client_ok(c);
}

static struct op *cm_listen_op_new(struct cm_id *id, enum cmd_type type, void (*done)(struct cmd *))
{
	struct op *o = calloc(1, sizeof(*o));

	if (o == NULL)
		return NULL;
	o->id = id;
	o->cmd = (struct cmd){ .type = type, .done = done };
	o->cmd.listen.first = id->dev == CM_NO_DEV ? 0 : id->dev;
	o->cmd.listen.last = id->dev == CM_NO_DEV ? rnicd.n_ports : id->dev + 1;
	o->cmd.listen.lport = id->local.port;
	o->cmd.listen.tos = id->tos;
	for (uint32_t d = o->cmd.listen.first; d < o->cmd.listen.last; d++)
		if ((id->families & cm_family_of(d)) == 0)
			o->cmd.listen.without |= UINT32_C(1) << d;
	return o;
}

void cm_listen(struct client *c)
{
	struct cm_id *id = cm_find(c, c->req.cm_listen.id);

	if (id == NULL)
		return;
	if (id->state != CM_IDLE && id->state != CM_BOUND) {
		cm_wrong_state(c, id, "listen");
		return;
	}
	if (!id->has_port) {
		id->local.port = cm_port_any(c->user, id->dev, cm_port_space(id, id->families));
		id->has_port = id->local.port != 0;
		if (!id->has_port) {
			cm_port_error(c, 0);
			return;
		}
	}
	id->backlog = c->req.cm_listen.backlog == 0 ? BACKLOG_DEFAULT
						    : rn_min_u32(c->req.cm_listen.backlog, BACKLOG_MAX);
	id->tos = (uint8_t)c->req.cm_listen.tos;
	if (id->udp) {
		cm_sidr_listen(c, id);
		return;
	}
	struct op *o = cm_listen_op_new(id, CMD_LISTEN, cm_listen_listening);
	if (o == NULL) {
		client_error(c, ENOMEM, "no memory for another listener");
		return;
	}
	if (!cm_listen_count(c, id)) {
		free(o);
		return;
	}
	o->cmd.listen.backlog = (uint16_t)id->backlog;
	o->cmd.listen.owner = owner_new();
	owner_put(&id->owner, OWNER_LISTEN, o->cmd.listen.owner);
	client_hold(c);
	cmd_send_all(&o->cmd);
}

static void cm_listen_ended(struct cmd *cmd)
{
	struct op *o = rn_container_of(cmd, struct op, cmd);
	struct client *c = o->id->c;
	bool answer = o->id->answer;

	cm_listen_uncount(o->id);
	cm_id_free(o->id);
	free(o);
	if (client_back(c) && answer)
		client_ok(c);
}

void cm_listen_end(struct cm_id *id)
{
	struct op *o = cm_listen_op_new(id, CMD_UNLISTEN, cm_listen_ended);

	id->gone = true;
	owner_del(&id->owner); /* requests that arrive from now on find no listener and are rejected */
	if (o == NULL) {
		id->gone = false;
		if (id->answer)
			client_error(id->c, ENOMEM, "no memory");
		return;
	}
	client_hold(id->c);
	cmd_send_all(&o->cmd);
}
