/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/group.h"

#include <errno.h>
#include <stdlib.h>

static struct rn_list groups;

static bool empty(const struct group *g) { return g->joins == 0 && g->qps == 0; }

const struct rn_list *group_list(void) { return &groups; }

uint32_t group_count(uint32_t dev)
{
	uint32_t n = 0;

	rn_list_each(const struct group, g, &groups, link)
		n += g->dev == dev && !empty(g);
	return n;
}

uint32_t group_addrs(uint32_t dev, struct pkt_addr addr[DEV_MAX_GROUPS])
{
	uint32_t n = 0;

	rn_list_each(const struct group, g, &groups, link)
		if (g->dev == dev && !empty(g))
			addr[n++] = g->addr;
	return n;
}

static struct group *group_find(uint32_t dev, const struct pkt_addr *addr)
{
	rn_list_each(struct group, g, &groups, link) {
		if (g->dev == dev && pkt_addr_eq(&g->addr, addr))
			return g;
	}
	return NULL;
}

static uint32_t founded(uint32_t client, uint32_t dev)
{
	uint32_t n = 0;

	rn_list_each(const struct group, g, &groups, link)
		n += g->dev == dev && g->founder == client && !empty(g);
	return n;
}

/* ---- users ---- */

static struct group_user *group_user_find(const struct group *g, const struct user *user)
{
	rn_list_each(struct group_user, u, &g->users, link) {
		if (u->user == user)
			return u;
	}
	return NULL;
}

static struct group_user *group_user_new(struct group *g, struct user *user)
{
	struct group_user *u = calloc(1, sizeof(*u));

	if (u == NULL)
		return NULL;
	u->user = user_hold(user);
	rn_list_push_back(&g->users, &u->link);
	return u;
}

static void group_user_free(struct group *g, struct group_user *u)
{
	rn_list_remove(&g->users, &u->link);
	user_put(u->user);
	free(u);
}

/* The user has no member in the group any more. */
static void group_user_leave(struct group *g, struct group_user *u)
{
	const bool pays = rn_list_first(&g->users, struct group_user, link) == u;
	const struct group_user *next = rn_list_next(u, struct group_user, link);

	if (pays && next != NULL) {
		user_move(u->user, next->user, USER_GROUPS, g->dev);
		g->founder = 0;
	} else if (pays) {
		user_give(u->user, USER_GROUPS, g->dev, 1);
	}
	group_user_free(g, u);
}

/* ---- members ---- */

static bool group_has_room(struct client *c, const struct group *g)
{
	const struct group_user *u = group_user_find(g, c->user);

	if (g->qps >= DEV_GROUP_QPS)
		client_error(c, ENOMEM, "there are %u queue pairs in the group already", DEV_GROUP_QPS);
	else if (u != NULL && u->qps >= user_part(DEV_GROUP_QPS))
		client_error(c, ENOMEM, "this user has %u of the %u queue pairs that a group may have (user-share)",
			     u->qps, DEV_GROUP_QPS);
	else
		return true;
	return false;
}

/* Makes the group, or takes one that rests. NULL: the client was answered with an error. */
static struct group *group_new(struct client *c, uint32_t dev, const struct pkt_addr *addr, struct group *g)
{
	if (!dev_reaches(dev, addr->b)) {
		client_error(c, EOPNOTSUPP,
			     "the group's address and the device's are not both of IPv4, or both of IPv6");
		return NULL;
	}
	if (group_count(dev) >= DEV_MAX_GROUPS || founded(c->id, dev) >= GROUP_CLIENT_MAX) {
		client_error(c, ENOMEM, "no more groups: a device is in %u at most, %u of them for one client",
			     DEV_MAX_GROUPS, GROUP_CLIENT_MAX);
		return NULL;
	}
	if (g == NULL) {
		g = calloc(1, sizeof(*g) + rnicd.n_workers * sizeof(g->at[0]));
		if (g == NULL) {
			client_error(c, ENOMEM, "no memory for a group");
			return NULL;
		}
		g->dev = dev;
		g->addr = *addr;
		for (uint32_t i = 0; i < rnicd.n_workers; i++) {
			g->at[i].port = dev;
			g->at[i].addr = *addr;
		}
		rn_list_push_front(&groups, &g->link);
	}
	if (!user_take(c->user, USER_GROUPS, dev, 1)) {
		group_rest(g);
		client_error(c, ENOMEM, "no more groups: this user has %u of a device's %u (groups, user-share)",
			     (uint32_t)user_share(USER_GROUPS), rnicd.cfg.groups);
		return NULL;
	}
	g->founder = c->id;
	return g;
}

struct group *group_get(struct client *c, uint32_t dev, const struct pkt_addr *addr, bool qp, struct group_user **u)
{
	struct group *g = group_find(dev, addr);
	const bool made = g == NULL || empty(g);

	if (made ? (g = group_new(c, dev, addr, g)) == NULL : qp && !group_has_room(c, g))
		return NULL;
	*u = group_user_find(g, c->user);
	if (*u == NULL)
		*u = group_user_new(g, c->user);
	if (*u != NULL)
		return g;
	if (made)
		user_give(c->user, USER_GROUPS, dev, 1);
	group_rest(g);
	client_error(c, ENOMEM, "no memory for a group");
	return NULL;
}

void group_enter(struct group *g, struct group_user *u, bool qp)
{
	const bool first = empty(g);

	u->members++;
	u->qps += qp;
	g->qps += qp;
	g->joins += !qp;
	if (first)
		group_net_change(g->dev, &g->addr, true);
}

void group_leave(struct group *g, struct group_user *u, bool qp)
{
	u->members--;
	u->qps -= qp;
	g->qps -= qp;
	g->joins -= !qp;
	if (u->members == 0)
		group_user_leave(g, u);
	if (empty(g))
		group_net_change(g->dev, &g->addr, false);
	group_rest(g);
}

void group_rest(struct group *g)
{
	if (!empty(g) || g->commands > 0)
		return;
	rn_list_remove(&groups, &g->link);
	free(g);
}
