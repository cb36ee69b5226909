/* SPDX-License-Identifier: BSD-3-Clause */
/* The start: the host's interfaces become ports, the worker gets its memory. */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "border/bell.h"
#include "border/event.h"
#include "sockets/ks_gram.h"
#include "sockets/ks_sk.h"
#include "sockets/ks_ud.h"

#define MTU_MIN    576
#define RECS       1024u /* FPDUs under way at once: those of one batch */
#define RNR_STAGES 128u  /* FPDUs kept for queue pairs that are not ready to receive: 8 MiB */

/* Two functions of flow_owner.h: the only worker owns all connections and queue pairs. */
uint32_t conn_owner(const struct conn_addr *a)
{
	(void)a;
	return 0;
}

uint32_t ud_owner(uint32_t port, uint32_t qpn)
{
	(void)port;
	(void)qpn;
	return 0;
}

/* ---- ports ---- */

/*
 * The order of devices. A program that takes the first device expects a network, so loopback comes after the others.
 * Link-local addresses come last, since a host has one for each of its bridges and veth pairs.
 */
enum turn { IP4, IP6, LO4, LO6, LOCAL, TURNS };

static uint32_t mtu_of(int sock, const char *name)
{
	struct ifreq r = { 0 };

	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	if (ioctl(sock, SIOCGIFMTU, &r) != 0 || r.ifr_mtu < MTU_MIN)
		return MTU_MIN;
	return rn_min_u32((uint32_t)r.ifr_mtu, KS_MTU_MAX);
}

/* An interface without an Ethernet address gets a locally administered one made from its IP address. */
static void mac_of(const struct ifaddrs *all, const struct ifaddrs *i, const struct pkt_addr *ip,
		   uint8_t mac[PKT_MAC_LEN])
{
	mac[0] = 2;
	mac[1] = 0;
	memcpy(mac + 2, ip->b + 12, 4);
	for (; all != NULL; all = all->ifa_next) {
		const struct sockaddr_ll *ll = (const void *)all->ifa_addr;
		if (ll == NULL || ll->sll_family != AF_PACKET || strcmp(all->ifa_name, i->ifa_name) != 0)
			continue;
		for (unsigned k = 0; ll->sll_halen == PKT_MAC_LEN && k < PKT_MAC_LEN; k++)
			if (ll->sll_addr[k] != 0) {
				memcpy(mac, ll->sll_addr, PKT_MAC_LEN);
				return;
			}
	}
}

static bool begins_with(const char *name, const char *beginning)
{
	return strncmp(name, beginning, strlen(beginning)) == 0;
}

static bool name_clashes(const char *name)
{
	for (uint32_t i = 0; i < rnicd.n_ports; i++)
		if (begins_with(name, rnicd.port[i]->cfg->name) || begins_with(rnicd.port[i]->cfg->name, name))
			return true;
	return false;
}

/*
 * The name of a device: rnic-eth0; the second address of an interface is rnic2-eth0. IPv6 and link-local addresses are
 * counted separately (rnicv6-eth0, rnicll-eth0), so that an address of one kind that comes or goes changes no name of
 * another kind. No name is the beginning of another one: libfabric takes such a device for the other one. What
 * distinguishes devices of one interface therefore comes first, and eth10 beside eth1 has rnic2-eth10.
 */
static void name_of(const char *interface, enum turn turn, char name[RNICD_NAME_MAX])
{
	static const char *const kind[TURNS] = { [IP4] = "", [IP6] = "v6", [LO4] = "", [LO6] = "v6", [LOCAL] = "ll" };

	snprintf(name, RNICD_NAME_MAX, "rnic%s-%.15s", kind[turn], interface);
	for (unsigned n = 2; name_clashes(name); n++)
		snprintf(name, RNICD_NAME_MAX, "rnic%u%s-%.15s", n, kind[turn], interface);
}

static enum turn turn_of(const struct ifaddrs *i)
{
	const union ks_sockaddr *a = (const void *)i->ifa_addr;
	const bool loop = (i->ifa_flags & IFF_LOOPBACK) != 0;

	if (a == NULL || (i->ifa_flags & IFF_UP) == 0)
		return TURNS;
	if (a->sa.sa_family == AF_INET)
		return loop ? LO4 : IP4;
	if (a->sa.sa_family != AF_INET6)
		return TURNS;
	return loop ? LO6 : IN6_IS_ADDR_LINKLOCAL(&a->v6.sin6_addr) ? LOCAL : IP6;
}

static uint32_t prefix_of(const struct ifaddrs *i)
{
	const union ks_sockaddr *mask = (const void *)i->ifa_netmask;
	uint32_t n = 0;

	if (mask == NULL)
		return 128;
	if (i->ifa_addr->sa_family == AF_INET)
		return 96 + (uint32_t)__builtin_popcount(mask->v4.sin_addr.s_addr);
	for (unsigned k = 0; k < sizeof(mask->v6.sin6_addr.s6_addr); k++)
		n += (uint32_t)__builtin_popcount(mask->v6.sin6_addr.s6_addr[k]);
	return n;
}

bool ks_port_add(const uint8_t mac[PKT_MAC_LEN])
{
	struct rnicd_port_cfg *cfg = &rnicd.cfg.port[rnicd.n_ports];
	struct rnicd_port *p = aligned_alloc(RN_CACHE_LINE, sizeof(*p));

	if (p == NULL)
		return false;
	memset(p, 0, sizeof(*p));
	p->index = (uint16_t)rnicd.n_ports;
	p->cfg = cfg;
	p->mtu = (uint16_t)cfg->mtu;
	p->link = RNICD_LINK_UP;
	p->owners = RNICD_OWNERS_HASH;
	p->crc_always = true;
	memcpy(p->mac, mac, sizeof(p->mac));
	rnicd.port[rnicd.n_ports++] = p;
	rnicd.cfg.n_ports = rnicd.n_ports;
	return true;
}

static bool interface_add(const struct ifaddrs *all, const struct ifaddrs *i, const struct rnicd_port_cfg *like,
			  int sock)
{
	struct rnicd_port_cfg *cfg = &rnicd.cfg.port[rnicd.n_ports];
	const enum turn turn = turn_of(i);
	uint8_t mac[PKT_MAC_LEN];
	uint16_t port;

	*cfg = *like;
	name_of(i->ifa_name, turn, cfg->name);
	cfg->ip = ks_sockaddr_ip((const void *)i->ifa_addr, &port);
	cfg->prefix_len = prefix_of(i);
	cfg->mtu = mtu_of(sock, i->ifa_name);
	/* The kernel does the routing. Only loopback and link-local addresses reach nothing beyond their interface. */
	cfg->gateway_set = turn == IP4 || turn == IP6;
	cfg->gateway = cfg->ip;
	mac_of(all, i, &cfg->ip, mac);
	if (!ks_port_add(mac))
		return false;
	struct rnicd_port *p = rnicd.port[rnicd.n_ports - 1];
	snprintf(p->if_name, sizeof(p->if_name), "%.15s", i->ifa_name);
	p->if_index = if_nametoindex(i->ifa_name);
	return true;
}

bool ks_ports(const struct rnicd_port_cfg *like, char *err, uint32_t err_len)
{
	struct ifaddrs *all;
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool good = true;

	if (sock < 0 || getifaddrs(&all) != 0) {
		snprintf(err, err_len, "the host's interfaces cannot be seen: %s", strerror(errno));
		if (sock >= 0)
			close(sock);
		return false;
	}
	for (enum turn turn = 0; turn < TURNS; turn++)
		for (const struct ifaddrs *i = all; good && i != NULL && rnicd.n_ports < RNICD_MAX_PORTS;
		     i = i->ifa_next)
			if (turn_of(i) == turn)
				good = interface_add(all, i, like, sock);
	freeifaddrs(all);
	close(sock);
	if (good && rnicd.n_ports > 0)
		return true;
	snprintf(err, err_len,
		 good ? "no interface of the host is up and has an address (ip addr shows them)" : "no memory");
	return false;
}

/* ---- the worker ---- */

static bool memory(void)
{
	struct rc_cfg cfg;

	rc_cfg_default(&cfg, 0, KS_MTU_MAX, rnicd.cfg.flows);
	cfg.recs = RECS;
	/* each connection may have received a part of an FPDU, and three quarters are for one tenant at most */
	cfg.stages = cfg.blocks + (cfg.blocks + 1) / 2;
	cfg.rnr_stages = RNR_STAGES;
	if (ks.serves) { /* all connections are those of stream sockets */
		iws_times(&cfg);
		cfg.setups = cfg.blocks; /* without a time limit, each connection may be being set up */
	}
	ks.rc_size = rc_ctx_size(&cfg);
	/* Pages that no connection uses stay untouched, so they take no memory. */
	ks.rc_mem = mmap(NULL, ks.rc_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (ks.rc_mem == MAP_FAILED)
		return false;
	ks.out = malloc(KS_BATCH + KS_MTU_MAX);
	ks.dgram = (struct dgram_ctx){ .qp = &ks.rc.qp,
				       .timeout = rnicd.cfg.record_timeout_ns,
				       .linger = rnicd.cfg.record_linger_ns };
	rnicd.setups = rn_min_u32(cfg.setups, cfg.blocks);
	return ks.out != NULL && rc_ctx_init(&ks.rc, &cfg, ks.rc_mem, ks.rc_size) == QP_OK;
}

bool ks_start(char *err, uint32_t err_len)
{
	rnicd.n_workers = 1;
	if (getrandom(rnicd.secret, sizeof(rnicd.secret), 0) != (ssize_t)sizeof(rnicd.secret)) {
		snprintf(err, err_len, "the system has no random numbers: %s", strerror(errno));
		return false;
	}
	if (!event_start(1, err, err_len))
		return false;
	rn_wheel_init(&ks.wheel, rnicd_now());
	ks.ep = epoll_create1(EPOLL_CLOEXEC);
	if (ks.ep < 0 || !bell_make(0) || !bell_watch(0, ks.ep, EPOLLIN)) {
		snprintf(err, err_len, "no file descriptors: %s", strerror(errno));
		return false;
	}
	if (!ks_pass_start(err, err_len))
		return false;
	ks_ud_start();
	if (memory() && ks_gram_start() && (!ks.serves || ks_sk_start(rnicd.cfg.flows)))
		return true;
	snprintf(err, err_len, "no memory: see whether ulimit -v is unlimited");
	return false;
}

void ks_stop(void)
{
	ks_close_all();
	bell_free(0);
	event_stop();
	free(ks.out);
	ks_gram_stop();
	ks_sk_stop();
	if (ks.rc_mem != NULL && ks.rc_mem != MAP_FAILED)
		munmap(ks.rc_mem, ks.rc_size);
	while (rnicd.n_ports > 0)
		free(rnicd.port[--rnicd.n_ports]);
}
