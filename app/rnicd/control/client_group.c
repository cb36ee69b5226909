/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram QPs in multicast groups. To attach or detach a QP, a command goes to all workers: the QP's worker adds or
 * removes the QP, and the other workers learn to which workers they have to pass copies of the group's frames.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/group.h"

/* The membership of a QP in a group: on the QP's list until the QP leaves, freed when the workers have released it. */
struct client_member {
	struct cmd cmd;
	struct group *g;
	struct group_user *u; /* the client's user in it */
	struct client_qp *q;
	struct client *waits; /* the client that waits for the answer; NULL: none */
	uint32_t worker;      /* the QP's worker */
	bool gone;            /* the QP has left the group */
	struct ud_member m;
	struct rn_slink link; /* in the QP's groups */
};

static uint32_t workers_of(const struct group *g)
{
	uint32_t mask = 0;

	for (uint32_t i = 0; i < rnicd.n_workers; i++)
		mask |= g->on[i] != 0 ? 1u << i : 0;
	return mask;
}

static uint32_t members_of(const struct group *g)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < rnicd.n_workers; i++)
		n += g->on[i];
	return n;
}

/* The membership counts no longer; it is off the QP's list. */
static void client_group_uncount(struct client_member *i)
{
	i->q->n_groups--;
	i->g->on[i->worker]--;
	i->gone = true;
}

/* Ends a membership that the worker has refused: the worker keeps nothing of the membership. */
static void client_group_undo(struct client_member *i)
{
	rn_slist_remove(&i->q->groups, &i->link);
	client_group_uncount(i);
	group_leave(i->g, i->u, true);
}

static void client_group_done(struct cmd *cmd)
{
	struct client_member *i = rn_container_of(cmd, struct client_member, cmd);
	struct client *c = i->waits;
	const int err = cmd->group.err;

	i->waits = NULL;
	i->g->commands--;
	if (err != 0)
		client_group_undo(i); /* before client_back(): the QP of a client that is ending may end there */
	else
		group_rest(i->g);
	if (i->gone)
		free(i);
	if (c == NULL || !client_back(c))
		return;
	if (err != 0)
		client_error(c, err, "the kernel does not let the program into the group: %s", strerror(err));
	else
		client_ok(c);
}

static void send(struct client_member *i, struct client *waits)
{
	i->cmd = (struct cmd){ .type = CMD_GROUP,
			       .done = client_group_done,
			       .group = { .at = i->g->at,
					  .m = &i->m,
					  .worker = i->worker,
					  .workers = workers_of(i->g),
					  .qps = members_of(i->g),
					  .leaves = i->gone } };
	i->waits = waits;
	i->g->commands++;
	if (waits != NULL)
		client_hold(waits);
	cmd_send_all(&i->cmd);
}

/* Ends a membership that is off the QP's list. waits: the client to answer afterwards; NULL: none. */
static void client_group_leave(struct client_member *i, struct client *waits)
{
	client_group_uncount(i);
	send(i, waits);
	group_leave(i->g, i->u, true);
}

void client_groups_leave(struct client_qp *q)
{
	struct client_member *i;

	while ((i = rn_slist_pop(&q->groups, struct client_member, link)) != NULL)
		client_group_leave(i, NULL);
}

static struct client_member *client_group_find(const struct client_qp *q, const struct pkt_addr *addr)
{
	rn_slist_each(struct client_member, i, &q->groups, link) {
		if (pkt_addr_eq(&i->g->addr, addr))
			return i;
	}
	return NULL;
}

/* Finds the QP that a request names, and the group's address. NULL: the client was answered with an error. */
static struct client_qp *client_group_asked(struct client *c, uint32_t qp, const uint8_t group[16],
					    struct pkt_addr *addr)
{
	struct client_qp *q = table_get(&c->qp, qp);

	memcpy(addr->b, group, sizeof(addr->b));
	if (q == NULL || client_qp_is_ending(q) || !q->datagram || q->reliable)
		client_error(c, EINVAL, "there is no datagram queue pair %u", qp);
	else if (!pkt_addr_is_any_group(addr))
		client_error(c, EINVAL, "it is not the address of a group");
	else
		return q;
	return NULL;
}

void client_attach(struct client *c)
{
	struct pkt_addr addr;
	struct client_qp *q = client_group_asked(c, c->req.attach.qp, c->req.attach.group, &addr);

	if (q == NULL)
		return;
	if (client_group_find(q, &addr) != NULL) {
		client_ok(c);
		return;
	}
	if (q->n_groups == GROUP_QP_MAX) {
		client_error(c, ENOMEM, "a queue pair can be in %u groups", GROUP_QP_MAX);
		return;
	}
	struct client_member *i = calloc(1, sizeof(*i));
	if (i == NULL) {
		client_error(c, ENOMEM, "no memory");
		return;
	}
	struct group_user *u;
	struct group *g = group_get(c, q->pd->dev, &addr, true, &u);
	if (g == NULL) {
		free(i);
		return;
	}
	*i = (struct client_member){
		.g = g, .u = u, .q = q, .worker = q->worker, .m = { .u = ud_of(q->qp), .deaf = q->deaf }
	};
	rn_slist_push_front(&q->groups, &i->link);
	q->n_groups++;
	g->on[i->worker]++;
	send(i, c);
	group_enter(g, u, true);
}

void client_detach(struct client *c)
{
	struct pkt_addr addr;
	struct client_qp *q = client_group_asked(c, c->req.attach.qp, c->req.attach.group, &addr);

	if (q == NULL)
		return;
	struct client_member *i = client_group_find(q, &addr);
	if (i == NULL) {
		client_error(c, EINVAL, "the queue pair is not in the group");
		return;
	}
	rn_slist_remove(&q->groups, &i->link);
	client_group_leave(i, c);
}

/* ---- Write-Records to a group ---- */

struct client_bind {
	struct cmd cmd;
	struct client *c;
};

static void bound(struct cmd *cmd)
{
	struct client_bind *b = rn_container_of(cmd, struct client_bind, cmd);
	const bool ok = cmd->group_bind.ok, unbinds = cmd->group_bind.b.len == 0;
	struct client *c = b->c;

	free(b);
	if (!client_back(c))
		return;
	if (ok)
		client_ok(c);
	else if (unbinds)
		client_error(c, EINVAL, "the queue pair has bound no memory to this tag of the group");
	else
		client_error(c, ENOMEM, "a queue pair can bind %u tags", DGRAM_BINDS);
}

static bool may_be_written(const struct client_qp *q, const struct ipc_group_bind *r)
{
	const struct qp_access a = { .pd = q->pd->id,
				     .stag = r->stag,
				     .to = r->addr,
				     .len = (uint32_t)r->len,
				     .rights = QP_ACC_REMOTE_WRITE,
				     .qpn = q->qpn };

	return r->len == 0 || (r->len <= UINT32_MAX && qp_mr_check(dev_get(q->pd->dev), &a) == QP_MR_OK);
}

void client_group_bind(struct client *c)
{
	const struct ipc_group_bind r = c->req.group_bind;
	struct pkt_addr addr;
	struct client_qp *q = client_group_asked(c, r.qp, r.group, &addr);

	if (q == NULL)
		return;
	if (dgram_msgs_of(q->qp) == NULL) {
		client_error(c, EINVAL, "queue pair %u has no Write-Records: rnicdv_create_qp() makes some that do",
			     r.qp);
		return;
	}
	if (!may_be_written(q, &r)) {
		client_error(c, EINVAL,
			     "the memory is not open for remote writes in the queue pair's protection domain");
		return;
	}
	struct client_bind *b = calloc(1, sizeof(*b));
	if (b == NULL) {
		client_error(c, ENOMEM, "no memory");
		return;
	}
	b->c = c;
	b->cmd = (struct cmd){ .type = CMD_GROUP_BIND,
			       .done = bound,
			       .group_bind = { .qp = q->qp,
					       .b = { .tag = r.tag, .stag = r.stag, .to = r.addr, .len = r.len } } };
	memcpy(b->cmd.group_bind.b.group, addr.b, sizeof(addr.b));
	client_hold(c);
	cmd_send(&b->cmd, q->worker);
}
