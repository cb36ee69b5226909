/* SPDX-License-Identifier: BSD-3-Clause */
/* The requests of a listener: ids that were made for peers' Requests, and that the client has not answered. */
#include "control/cm.h"

void cm_request_come(struct cm_id *id, struct cm_id *l)
{
	id->listener = l;
	id->listener_handle = l->handle;
	id->pending = true;
	l->requests++;
	rn_list_push_back(&l->came, &id->sibling);
}

void cm_request_leave(struct cm_id *id)
{
	struct cm_id *l = id->listener;

	if (l == NULL)
		return;
	l->requests -= id->pending ? 1 : 0;
	id->pending = false;
	rn_list_remove(&l->came, &id->sibling);
	id->listener = NULL;
}

/* CONNECT_REQUEST is the first event about such an id. */
bool cm_request_told(const struct cm_id *id)
{
	const struct ipc_cm_event *ev = ev_first(&id->untold);

	return ev == NULL || ev->type != CM_EV_CONNECT_REQUEST;
}

void cm_request_over(struct cm_id *id)
{
	if (cm_request_told(id)) {
		cm_request_leave(id);
	} else if (id->pending) {
		id->listener->requests--;
		id->pending = false;
	}
}
