/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast groups of the devices (RFC 1112): addresses to which datagram QPs are attached, and which ids of the
 * connection manager join. These QPs and ids are a group's members. While a group has members, the port receives the
 * group's frames and reports the group to the network (igmp.h). Control thread; workers get their part by command
 * (ud_view.h).
 */
#ifndef GROUP_H
#define GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "control/client.h"
#include "control/dev.h"
#include "border/event.h"

/* Further limits are in dev.h. */
#define GROUP_CLIENT_MAX 32u /* groups of a device that one client may create */
#define GROUP_QP_MAX     16u /* groups that a QP may be in */
#define GROUP_JOINS      16u /* groups that an id may join */

/* A user that has members in a group. */
struct group_user {
	struct rn_link link; /* in group.users */
	struct user *user;
	uint32_t members, qps; /* members in all, and those of them that are QPs */
};

struct group {
	uint32_t dev;
	struct pkt_addr addr;
	uint32_t founder;                    /* number of the client that created the group; 0: its user has left */
	struct rn_list users;                /* struct group_user; the group counts in the share of the first one */
	uint32_t joins;                      /* joined ids, except those that only send */
	uint32_t qps, on[RNICD_MAX_WORKERS]; /* attached QPs, in all and for each worker */
	uint32_t commands;                   /* commands about the group under way */
	struct rn_link link;                 /* group_list() */
	struct ud_group at[];                /* [worker] */
};

/* Finds or makes the group and the client's user in it, for a QP or an id; group_enter() must follow. NULL: not
 * possible, and the client was answered with an error. */
struct group *group_get(struct client *c, uint32_t dev, const struct pkt_addr *addr, bool qp, struct group_user **u);
/* A member of the user enters or leaves. The network is told when the first member enters and when the last one leaves.
 * When the last member of the user in whose share the group counts leaves, it counts in another member's. */
void group_enter(struct group *g, struct group_user *u, bool qp);
void group_leave(struct group *g, struct group_user *u, bool qp);
/* Frees the group if it has neither members nor commands under way. */
void group_rest(struct group *g);

/* Number of groups of a device that have members. */
uint32_t group_count(uint32_t dev);
/* All groups, struct group by `link`; telemetry reads them under loop_lock. */
const struct rn_list *group_list(void);

/* The addresses of the device's groups that have members; returns their number. */
uint32_t group_addrs(uint32_t dev, struct pkt_addr addr[DEV_MAX_GROUPS]);

/* ---- the network (group_net.c) ---- */

void group_net_start(void);
/* The device joins (in) or leaves the group. */
void group_net_change(uint32_t dev, const struct pkt_addr *addr, bool in);
/* A router asks for the groups of the device. */
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
