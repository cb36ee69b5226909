/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast: the groups of a device that queue pairs of this process have joined. Each group has a socket that is bound
 * to the group's address and joins the group on the device's interface. The kernel sends IGMP or MLD reports, and gives
 * every such socket of the host a copy of each datagram, also of datagrams from this host.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "border/policy.h"
#include "sockets/ks_ud.h"

/* A group with its socket. Exists as long as the group has a member. */
struct ks_group {
	struct ks_src src;
	const struct ud_group *g;
	struct rn_link link;
};

static struct rn_list groups;

static struct ks_group *group_of(const struct ud_group *g)
{
	rn_list_each(struct ks_group, k, &groups, link)
		if (k->g == g)
			return k;
	return NULL;
}

/*
 * The kernel would give the socket the datagrams that come to any interface: those of other interfaces are for other
 * devices. Kernels before 5.7 let only root bind a socket to an interface.
 */
static bool enter6(int fd, const struct ud_group *g)
{
	const struct rnicd_port *port = rnicd.port[g->port];
	struct ipv6_mreq who = { .ipv6mr_interface = port->if_index };
	const int index = (int)port->if_index, off = 0;

	memcpy(&who.ipv6mr_multiaddr, g->addr.b, sizeof(who.ipv6mr_multiaddr));
	setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &index, sizeof(index));
	setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, &off, sizeof(off));
	return setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &who, sizeof(who)) == 0;
}

static bool enter(int fd, const struct ud_group *g)
{
	struct ip_mreqn who = { 0 };
	const int off = 0;

	if (!pkt_addr_is_ip4(&g->addr))
		return enter6(fd, g);
	memcpy(&who.imr_multiaddr, g->addr.b + 12, sizeof(who.imr_multiaddr));
	memcpy(&who.imr_address, rnicd.port[g->port]->cfg->ip.b + 12, sizeof(who.imr_address));
	/* Datagrams that come to other interfaces are for other devices. */
	setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off));
	return setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &who, sizeof(who)) == 0;
}

/* 0 or an errno. */
static int group_open(const struct ud_group *g)
{
	const uint16_t ud_port = rnicd.port[g->port]->cfg->ud_port;
	struct ks_group *k = calloc(1, sizeof(*k));
	int fd = k != NULL ? ks_ud_socket(&g->addr, g->port, ud_port, SO_REUSEADDR) : -1;

	if (fd < 0 || !enter(fd, g)) {
		const int err = errno;
		rnicd_log(RNICD_LOG_ERROR, "%s does not enter a group: the kernel says %s",
			  rnicd.port[g->port]->cfg->name, strerror(err));
		if (fd >= 0)
			close(fd);
		free(k);
		return err;
	}
	k->src = (struct ks_src){ .kind = KS_GROUP, .fd = fd };
	k->g = g;
	rn_list_push_front(&groups, &k->link);
	ks_watch(&k->src, EPOLLIN);
	return 0;
}

static void group_end(struct ks_group *k)
{
	if (k == NULL)
		return;
	ks_watch(&k->src, 0);
	close(k->src.fd);
	rn_list_remove(&groups, &k->link);
	free(k);
}

void ks_group_change(struct cmd_group *c)
{
	struct ud_group *g = c->at;
	struct ud_member **at = &g->members;

	if (g->workers == 0 && c->workers != 0)
		c->err = group_open(g);
	if (c->err != 0)
		return;
	if (c->leaves) {
		while (*at != c->m)
			at = &(*at)->next;
		*at = c->m->next;
	} else {
		c->m->next = g->members;
		g->members = c->m;
	}
	if (g->workers != 0 && c->workers == 0)
		group_end(group_of(g));
	g->workers = c->workers;
}

uint32_t ks_group_event(struct ks_src *s)
{
	const struct ks_group *k = rn_container_of(s, struct ks_group, src);

	return ks_ud_read(s, &(struct ks_gram){ .port = k->g->port,
						.to = k->g->addr,
						.dport = rnicd.port[k->g->port]->cfg->ud_port });
}

/* What goes to a group fits a packet (doc/datagram-iwarp.md). */
static bool fits_packet(const struct ks_gram *gram)
{
	const struct rnicd_port *port = rnicd.port[gram->port];

	return port_ip_len(port) + PKT_UDP_LEN + gram->len <= port->mtu;
}

void ks_group_take(const struct ks_gram *gram, const struct udpl_hdr *h)
{
	const bool own = pkt_addr_eq(&gram->from, &rnicd.port[gram->port]->cfg->ip);
	const struct ud_group *g = NULL;

	rn_list_each(const struct ks_group, k, &groups, link)
		if (k->g->port == gram->port && pkt_addr_eq(&k->g->addr, &gram->to))
			g = k->g;
	if (udpl_for_cm(h->kind) || h->dst_qpn != UDPL_QPN_GROUP || !fits_packet(gram)) {
		ks.rc.qp.stats.ud_bad++;
		return;
	}
	if (g == NULL) { /* the group's last member has just left */
		ks.rc.qp.stats.ud_no_qp++;
		return;
	}
	if (!udpl_crc_good(gram->p, gram->len)) {
		ks.rc.qp.stats.ud_crc++;
		return;
	}
	const struct ud_member *i = g->members;
	for (; i != NULL && ks_space(); i = i->next)
		if (!own || !i->deaf || i->u->qp.qpn != h->src_qpn)
			ks_ud_deliver(&i->u->qp, gram, h, true);
	rnicd.port[gram->port]->stats[0].rx_no_room += i != NULL; /* some members do not get the datagram */
}

void ks_group_close(void)
{
	rn_list_each(struct ks_group, k, &groups, link)
		close(k->src.fd);
}
