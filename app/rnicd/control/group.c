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

struct group *group_get(struct client *c, uint32_t dev, const struct pkt_addr *addr)
{
	struct group *g = group_find(dev, addr);

	if (g != NULL && !empty(g))
		return g;
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
	g->user = user_hold(c->user);
	g->founder = c->id;
	return g;
}

void group_enter(struct group *g, uint32_t *count)
{
	const bool first = empty(g);

	(*count)++;
	if (first)
		group_net_change(g->dev, &g->addr, true);
}

void group_leave(struct group *g, uint32_t *count)
{
	(*count)--;
	if (empty(g)) {
		user_give(g->user, USER_GROUPS, g->dev, 1);
		user_put(g->user);
		group_net_change(g->dev, &g->addr, false);
	}
	group_rest(g);
}

void group_rest(struct group *g)
{
	if (!empty(g) || g->commands > 0)
		return;
	rn_list_remove(&groups, &g->link);
	free(g);
}
