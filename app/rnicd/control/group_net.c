/* SPDX-License-Identifier: BSD-3-Clause */
/* The network's side of groups: multicast filters of the ports, and IGMP messages (igmp.h). */
#include <stdlib.h>

#include "border/port_admin.h"
#include "control/group.h"
#include "control/igmp.h"

static struct net {
	struct igmp igmp;
	struct loop_timer timer;
} nets[RNICD_MAX_PORTS];

struct out {
	struct cmd cmd;
	uint8_t frame[PKT_IGMP_FRAME(IGMP_GROUPS)];
};
_Static_assert(IGMP_GROUPS == DEV_MAX_GROUPS, "all groups of a device");

static void group_net_sent(struct cmd *cmd) { free(rn_container_of(cmd, struct out, cmd)); }

static void group_net_say(uint32_t dev, const struct pkt_igmp_record *r, uint32_t n)
{
	const struct rnicd_port *port = rnicd.port[dev];
	struct pkt_l2 l2 = { .vlan = port->cfg->vlan };
	struct out *o = calloc(1, sizeof(*o));

	if (o == NULL)
		return; /* no memory: the same as a packet lost on the network */
	memcpy(l2.src, port->mac, sizeof(l2.src));
	o->cmd = (struct cmd){ .type = CMD_SEND_FRAME, .done = group_net_sent, .send = { .port = dev, .p = o->frame } };
	o->cmd.send.len = pkt_igmp_build(o->frame, &l2, &port->cfg->ip, nets[dev].igmp.version, r, n);
	cmd_send(&o->cmd, 0);
}

static void group_net_go_on(uint32_t dev)
{
	struct pkt_igmp_record r[IGMP_GROUPS];
	struct net *net = &nets[dev];
	uint32_t n;

	while ((n = igmp_out(&net->igmp, rnicd_now(), r)) > 0)
		group_net_say(dev, r, n);
	if (igmp_next(&net->igmp) == RN_NEVER)
		loop_timer_disarm(&net->timer);
	else
		loop_timer_arm(&net->timer, igmp_next(&net->igmp));
}

static void due(struct loop_timer *t) { group_net_go_on((uint32_t)(rn_container_of(t, struct net, timer) - nets)); }

void group_net_start(void)
{
	for (uint32_t i = 0; i < rnicd.n_ports; i++) {
		igmp_init(&nets[i].igmp, rnicd.secret[0] + i);
		nets[i].timer.due = due;
	}
}

void group_net_change(uint32_t dev, const struct pkt_addr *addr, bool in)
{
	struct pkt_addr all[DEV_MAX_GROUPS];

	port_groups(rnicd.port[dev], all, group_addrs(dev, all));
	if (in)
		igmp_join(&nets[dev].igmp, addr, rnicd_now());
	else
		igmp_leave(&nets[dev].igmp, addr, rnicd_now());
	group_net_go_on(dev);
}

void group_net_query(const struct event_query *ev)
{
	const struct pkt_igmp_query q = {
		.version = ev->version, .all = ev->all, .group = ev->group, .within_ms = ev->within_ms
	};

	igmp_query(&nets[ev->port].igmp, &q, rnicd_now());
	group_net_go_on(ev->port);
}
