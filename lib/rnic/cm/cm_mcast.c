/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast groups that an id joins (rdma_join_multicast), so that the network delivers their datagrams. The event of a
 * join attaches the id's queue pair, as in the stock library.
 */
#include "rnic/cm/cm.h"

#include <infiniband/ib.h>

/* Converts a group's address. AF_IB: a GID, unchanged. 0 or an errno. */
static int group_of(const struct sockaddr *addr, union ibv_gid *group)
{
	struct ipc_addr a;
	int rc = 0;

	if (addr == NULL)
		return EINVAL;
	if (addr->sa_family == AF_IB) {
		memcpy(group->raw, &((const struct sockaddr_ib *)(const void *)addr)->sib_addr, sizeof(group->raw));
	} else {
		rc = cm_addr_from(&a, addr);
		memcpy(group->raw, a.ip, sizeof(group->raw));
	}
	return rc;
}

static struct rnic_cm_join *find(const struct rnic_cm_id *id, const union ibv_gid *group)
{
	rn_list_each(struct rnic_cm_join, j, &id->joins, link) {
		if (memcmp(j->group.raw, group->raw, sizeof(group->raw)) == 0)
			return j;
	}
	return NULL;
}

static struct rnic_cm_join *find_number(const struct rnic_cm_id *id, uint32_t number)
{
	rn_list_each(struct rnic_cm_join, j, &id->joins, link) {
		if (j->number == number)
			return j;
	}
	return NULL;
}

static void forget(struct rnic_cm_id *id, struct rnic_cm_join *j)
{
	rn_list_remove(&id->joins, &j->link);
	free(j);
}

void cm_joins_free(struct rnic_cm_id *id)
{
	rn_list_each(struct rnic_cm_join, j, &id->joins, link)
		forget(id, j);
}

static int join(struct rdma_cm_id *rid, const struct sockaddr *addr, bool send_only, void *context)
{
	struct rnic_cm_id *id = cm_id(rid);
	struct ipc_msg m = { .type = IPC_CM_JOIN, .len = IPC_MSG_LEN(cm_join), .cm_join = { .send_only = send_only } };
	struct rnic_cm_join *j;
	union ibv_gid group;
	int rc = rid->qp_type == IBV_QPT_UD ? group_of(addr, &group) : EINVAL;

	if (rc != 0)
		return cm_ret(rc);
	if (!rnic_gid_is_group(&group)) {
		rnic_unsupported("rdma_join_multicast", RNIC_GROUPS);
		return cm_ret(EINVAL);
	}
	rc = cm_made(id);
	if (rc != 0)
		return cm_ret(rc);
	m.cm_join.id = id->handle;
	j = calloc(1, sizeof(*j));
	if (j == NULL)
		return -1;
	*j = (struct rnic_cm_join){ .send_only = send_only, .group = group, .context = context };
	memcpy(m.cm_join.group, group.raw, sizeof(m.cm_join.group));
	pthread_mutex_lock(&id->join_lock);
	j->number = m.cm_join.join = ++id->last_join;
	rn_list_push_front(&id->joins, &j->link);
	rc = rnic_call(id->s, &m, IPC_MSG_HDR, -1);
	if (rc != 0)
		forget(id, j);
	pthread_mutex_unlock(&id->join_lock);
	return rc != 0 ? cm_ret(rc) : cm_complete(id);
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	return join(id, addr, false, context);
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	const uint32_t all = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;

	if ((attr->comp_mask & ~all) != 0)
		return cm_ret(EOPNOTSUPP);
	if (attr->comp_mask != all || attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return cm_ret(EINVAL);
	return join(id, attr->addr, attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, context);
}

int cm_joined(struct rnic_cm_id *id, const struct ipc_cm_event *ev, void **context)
{
	struct rnic_cm_join *j;
	int rc = -ev->status;

	pthread_mutex_lock(&id->join_lock);
	j = find_number(id, ev->join);
	if (j != NULL) {
		*context = j->context;
		if (rc == 0 && !j->send_only && id->id.qp != NULL)
			rc = ibv_attach_mcast(id->id.qp, &j->group, 0);
	}
	pthread_mutex_unlock(&id->join_lock);
	return rc;
}

struct whose {
	uint32_t id, number;
};

static bool join_event_of(const void *slot, void *arg)
{
	const struct ipc_cm_event *ev = slot;
	const struct whose *w = arg;

	return (ev->type == RDMA_CM_EVENT_MULTICAST_JOIN || ev->type == RDMA_CM_EVENT_MULTICAST_ERROR) &&
	       ev->id == w->id && ev->join == w->number;
}

int rdma_leave_multicast(struct rdma_cm_id *rid, struct sockaddr *addr)
{
	struct rnic_cm_id *id = cm_id(rid);
	struct ipc_msg m = { .type = IPC_CM_LEAVE, .len = IPC_MSG_LEN(cm_join), .cm_join = { .id = id->handle } };
	union ibv_gid group;
	int rc = group_of(addr, &group);

	if (rc != 0)
		return cm_ret(rc);
	pthread_mutex_lock(&id->join_lock);
	struct rnic_cm_join *j = find(id, &group);
	if (j == NULL) {
		pthread_mutex_unlock(&id->join_lock);
		return cm_ret(EADDRNOTAVAIL);
	}
	const struct whose whose = { .id = id->handle, .number = j->number };
	const bool send_only = j->send_only;
	forget(id, j);
	m.cm_join.join = whose.number;
	rc = rnic_call(id->s, &m, IPC_MSG_HDR, -1);
	/* Drops the event of the join if the program has not read it; then the join has not attached the queue pair. */
	rnic_evq_drop(&cm_channel(rid->channel)->q, join_event_of, (void *)(uintptr_t)&whose, NULL, NULL);
	if (rid->qp != NULL && !send_only && find(id, &group) == NULL)
		(void)ibv_detach_mcast(rid->qp, &group, 0);
	pthread_mutex_unlock(&id->join_lock);
	return cm_ret(rc);
}
