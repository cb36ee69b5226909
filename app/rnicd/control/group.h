/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast groups of the devices (RFC 1112): IPv4 addresses, to which datagram QPs are attached and which ids of the
 * connection manager join. A group exists as long as somebody is in it; while it does, the port takes its frames and
 * tells the network so (igmp.h). Control thread; what workers need of it they are given by command (ud_view.h).
 */
#ifndef GROUP_H
#define GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "control/client.h"
#include "control/dev.h"
#include "border/event.h"

/* Limits, beside those of dev.h. */
#define GROUP_CLIENT_MAX 32u /* groups of a device that one client may be the first in */
#define GROUP_QP_MAX     16u /* that a QP is in */
#define GROUP_JOINS      16u /* of an id */

struct group {
	uint32_t dev;
	struct pkt_addr addr;
	uint32_t founder;                    /* number of the client */
	struct user *user;                   /* the founder's, while somebody is in it */
	uint32_t joins;                      /* ids in it, but for those that only send */
	uint32_t qps, on[RNICD_MAX_WORKERS]; /* attached, and by worker */
	uint32_t commands;                   /* under way */
	struct rn_link link;                 /* group_list() */
	struct ud_group at[];                /* [worker] */
};

/* The group, made when there is none yet. NULL: it cannot be, and the client has been answered. */
struct group *group_get(struct client *c, uint32_t dev, const struct pkt_addr *addr);
/* Counts in *count, g->joins or g->qps. The network is told of the first member's coming and the last one's going. */
void group_enter(struct group *g, uint32_t *count);
void group_leave(struct group *g, uint32_t *count);
/* A command of it is back; an empty one is freed with the last. */
void group_rest(struct group *g);

/* Groups of a device that somebody is in. */
uint32_t group_count(uint32_t dev);
/* All groups, struct group by `link`; telemetry reads them under loop_lock. */
const struct rn_list *group_list(void);

/* Their addresses; returns their number. */
uint32_t group_addrs(uint32_t dev, struct pkt_addr addr[DEV_MAX_GROUPS]);

/* ---- the network (group_net.c) ---- */

void group_net_start(void);
/* The device is in the group from now on, or no more. */
void group_net_change(uint32_t dev, const struct pkt_addr *addr, bool in);
void group_net_query(const struct event_query *ev);

/* ---- QPs (client_group.c) ---- */

void client_attach(struct client *c);
void client_detach(struct client *c);
void client_group_bind(struct client *c);
/* Takes the QP out of all its groups, before the command that destroys it is sent. */
void client_groups_leave(struct client_qp *q);

/* ---- ids (cm_join.c) ---- */

void cm_join(struct client *c);
void cm_leave(struct client *c);

#endif
