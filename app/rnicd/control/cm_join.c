/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ids that join multicast groups: while an id is in a group, the port receives the group's frames. A QP gets these
 * frames only if it is attached to the group (client_group.c). An id that only sends to a group does not announce the
 * group to the network.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/cm.h"
#include "control/group.h"
#include "udp/udpl.h"

#define RDMA_UDP_QKEY 0x01234567u /* Q_Key of the port space, the same as in <rdma/rdma_cma.h> */

struct cm_join {
	uint32_t number;       /* names the join; the client has chosen it */
	struct group *g;       /* NULL: a join that only sends */
	struct group_user *u;  /* the client's user in it */
	struct rn_link link;   /* in the id's joins */
	struct rn_list untold; /* struct ev_node, by `of_object`: its event, if that waits for room */
};

static void cm_join_end(struct cm_id *id, struct cm_join *j)
{
	rn_list_remove(&id->joins, &j->link);
	id->n_joins--;
	if (j->g != NULL)
		group_leave(j->g, j->u, false);
	ev_cancel_all(&j->untold);
	user_free(id->c->user, j);
}

void cm_joins_end(struct cm_id *id)
{
	rn_list_each(struct cm_join, j, &id->joins, link)
		cm_join_end(id, j);
}

void cm_joins_move(struct cm_id *id)
{
	rn_list_each(struct cm_join, j, &id->joins, link)
		ev_migrate(&j->untold, id->chan);
}

static void cm_join_tell(const struct cm_id *id, struct cm_join *j, const struct pkt_addr *addr)
{
	struct ipc_cm_event ev = { .type = CM_EV_MULTICAST_JOIN,
				   .id = id->handle,
				   .dev = id->dev,
				   .join = j->number,
				   .local = id->local,
				   .qpn = UDPL_QPN_GROUP,
				   .qkey = RDMA_UDP_QKEY };

	memcpy(ev.remote.ip, addr->b, sizeof(ev.remote.ip));
	ev_push_copy(id->chan, &j->untold, &ev, sizeof(ev));
}

static const char *refusal(const struct cm_id *id, const struct pkt_addr *addr)
{
	if (!id->udp)
		return "only an id of datagrams (RDMA_PS_UDP) can join a group";
	if (id->dev == CM_NO_DEV)
		return "bind the id to an address, or resolve one, before it joins a group";
	return pkt_addr_is_any_group(addr) ? NULL : "it is not the address of a group";
}

void cm_join(struct client *c)
{
	const struct ipc_cm_join r = c->req.cm_join;
	struct cm_id *id = cm_find(c, r.id);
	struct pkt_addr addr;

	if (id == NULL)
		return;
	memcpy(addr.b, r.group, sizeof(addr.b));
	const char *no = refusal(id, &addr);
	if (no != NULL) {
		client_error(c, EINVAL, "%s", no);
		return;
	}
	if (id->n_joins == GROUP_JOINS) {
		client_error(c, ENOMEM, "an id can be in %u groups", GROUP_JOINS);
		return;
	}
	struct cm_join *j = user_alloc(c->user, sizeof(*j));
	if (j == NULL) {
		client_error(c, ENOMEM, "no memory");
		return;
	}
	j->number = r.join;
	if (r.send_only == 0) {
		j->g = group_get(c, id->dev, &addr, false, &j->u);
		if (j->g == NULL) {
			user_free(c->user, j);
			return;
		}
		group_enter(j->g, j->u, false);
	}
	rn_list_push_front(&id->joins, &j->link);
	id->n_joins++;
	client_ok(c);
	cm_join_tell(id, j, &addr);
}

static struct cm_join *cm_join_find(const struct cm_id *id, uint32_t number)
{
	rn_list_each(struct cm_join, j, &id->joins, link) {
		if (j->number == number)
			return j;
	}
	return NULL;
}

void cm_leave(struct client *c)
{
	const struct ipc_cm_join *r = &c->req.cm_join;
	struct cm_id *id = cm_find(c, r->id);

	if (id == NULL)
		return;
	struct cm_join *j = cm_join_find(id, r->join);
	if (j == NULL) {
		client_error(c, EINVAL, "the id has no join %u", r->join);
		return;
	}
	cm_join_end(id, j);
	client_ok(c);
}
