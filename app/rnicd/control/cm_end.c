/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of ids: they are destroyed by a request, with their listener, or with their client. And the end of
 * connections whose client ends. */
#include <stdlib.h>

#include "control/cm.h"

/* Matches waiting events CONNECT_REQUEST of the listener, and marks their ids, which the client does not know. */
static bool untold(const void *data, const void *arg)
{
	const struct ipc_cm_event *ev = data;
	const struct cm_id *l = arg;

	if (ev->type != CM_EV_CONNECT_REQUEST || ev->listen_id != l->handle)
		return false;
	struct cm_id *id = table_get(&l->c->cm, ev->id);
	if (id != NULL)
		id->gone = true;
	return true;
}

/* Withdraws the listener's events CONNECT_REQUEST from all channels, because the listener may have changed its channel
 * since, and marks their ids. False: no such event waits. */
static bool mark_untold(const struct cm_id *l)
{
	struct client_chan *ch;
	bool any = false;

	for (uint32_t h = 0; (ch = table_next(&l->c->chan, &h)) != NULL;) {
		const uint32_t before = ch->waiting;
		if (ch->kind == IPC_CHANNEL_CM && before > 0)
			ev_cancel_if(ch, untold, l);
		any |= ch->waiting != before;
	}
	return any;
}

void cm_requests_end(struct cm_id *l)
{
	struct cm_id *id;

	if (!mark_untold(l) && l->requests == 0)
		return;
	for (uint32_t h = 0; (id = table_next(&l->c->cm, &h)) != NULL;) {
		if (id->gone && id->listener_handle == l->handle) { /* also one whose peer has given up */
			cm_conn_leave(id);
			cm_id_free(id);
		} else if (id->listener == l) {
			id->listener = NULL; /* the client knows the request and may still accept it */
			l->requests--;
		}
	}
}

static void end_id(struct cm_id *id, bool answer)
{
	struct client *c = id->c;

	id->answer = answer;
	if (id->state == CM_LISTENING) {
		if (c->state != CLIENT_DYING) /* else the requests have ended, and all events end with their channels */
			cm_requests_end(id);
		if (!id->udp) {
			cm_listen_end(id);
			return;
		}
		cm_sidr_listen_end(id);
	}
	cm_conn_leave(id);
	cm_id_free(id);
	if (answer)
		client_ok(c);
}

void cm_destroy_id(struct client *c)
{
	struct cm_id *id = cm_find(c, c->req.handle.handle);

	if (id != NULL)
		end_id(id, true);
}

/* The command that makes a connection forget its client. */
struct let_go {
	struct cmd cmd;
	struct client *c;
};

static void let_go_done(struct cmd *cmd)
{
	struct let_go *l = rn_container_of(cmd, struct let_go, cmd);

	client_unhold(l->c);
	free(l);
}

void cm_client_dies(struct client *c)
{
	struct cm_id *id;

	for (uint32_t h = 0; (id = table_next(&c->cm, &h)) != NULL;)
		if (id->state != CM_LISTENING)
			end_id(id, false);
	for (uint32_t h = 0; (id = table_next(&c->cm, &h)) != NULL;)
		end_id(id, false);
}

void cm_client_conns(struct client *c)
{
	struct cm_conn *k;

	while ((k = rn_list_first(&c->conns, struct cm_conn, mine)) != NULL) {
		cm_conn_give(k, NULL);
		struct let_go *l = k->conn != NULL ? calloc(1, sizeof(*l)) : NULL;
		if (l == NULL)
			continue;
		*l = (struct let_go){ .c = c,
				      .cmd = { .type = CMD_CONN_LET_GO,
					       .done = let_go_done,
					       .conn = { .conn = k->conn, .key = k->owner.key } } };
		client_hold(c);
		cmd_send(&l->cmd, k->worker);
	}
}
