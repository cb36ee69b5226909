/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of ids: they are destroyed by a request, with their listener, or with their client. And the end of
 * connections whose client ends. */
#include <stdlib.h>

#include "control/cm.h"

void cm_requests_end(struct cm_id *l)
{
	rn_list_each(struct cm_id, id, &l->came, sibling) {
		cm_request_leave(id);
		if (cm_request_told(id))
			continue; /* the client knows the request and may still accept it */
		cm_conn_leave(id);
		cm_id_free(id);
	}
}

#define IDS_EACH 1024u /* of a client that dies, in one turn */

static void end_id(struct cm_id *id, bool answer)
{
	struct client *c = id->c;

	id->answer = answer;
	if (id->state == CM_LISTENING) {
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

bool cm_client_dies(struct client *c)
{
	struct cm_id *id;
	uint32_t n = 0;

	for (uint32_t h = 0; n < IDS_EACH && (id = table_next(&c->cm, &h)) != NULL;) {
		if (id->state == CM_LISTENING)
			continue;
		end_id(id, false);
		n++;
	}
	for (uint32_t h = 0; n < IDS_EACH && (id = table_next(&c->cm, &h)) != NULL; n++)
		end_id(id, false);
	return n < IDS_EACH;
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
