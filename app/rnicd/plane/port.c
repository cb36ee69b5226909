/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/port.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_malloc.h>

#include "plane/capture.h"
#include "border/port_admin.h"
#include "plane/pool.h"
#include "plane/port_host.h"
#include "plane/port_link.h"
#include "plane/port_rss.h"
#include "plane/worker_int.h"

#define PORT_GROUPS 64u
#define RX_DESC     1024u
#define TX_DESC     1024u
#define PAGE        4096u
#define POOL_CACHE  512u
#define POOL_MIN    4096u
/* if the MTU is above RNICD_MTU_WIRE: a window is then only a few frames, and buffers are large */
#define POOL_MIN_BIG 1024u
#define POOL_MAX     16383u /* plus frames that an impairment may hold; more would only miss the caches more often */

/* Bytes of mbuf data room that hold any frame of the port, and of its paths, behind the usual headroom. */
static uint16_t buffer_room(const struct rnicd_port *port)
{
	uint16_t most = 0;

	for (uint32_t i = 0; i < port->n_paths; i++)
		most = (uint16_t)rn_max_u32(most, buffer_room(port->path[i]));
	if (most != 0)
		return most;
	uint32_t room = RTE_PKTMBUF_HEADROOM + PKT_ETH_LEN + PKT_VLAN_LEN + port->mtu;
	/* PCI devices use a multiple of 1 KiB of a buffer, which must hold the whole frame */
	if (port->cfg->kind == RNICD_PORT_PCI)
		room = rn_max_u32(room, RTE_MBUF_DEFAULT_BUF_SIZE);
	if (port->cfg->kind == RNICD_PORT_AF_PACKET)
		room = rn_max_u32(room, RTE_PKTMBUF_HEADROOM + port_af_packet_slot(port));
	return (uint16_t)((room + RN_CACHE_LINE - 1) / RN_CACHE_LINE * RN_CACHE_LINE);
}

static uint32_t impair_limit(const struct rnicd_port *port)
{
	uint32_t n = port->n_paths == 0 ? port->cfg->impair.limit : 0;

	for (uint32_t i = 0; i < port->n_paths; i++)
		n += impair_limit(port->path[i]);
	return n;
}

static bool has_nic(const struct rnicd_port *port)
{
	bool has = port->n_paths == 0 && port->cfg->kind == RNICD_PORT_PCI;

	for (uint32_t i = 0; i < port->n_paths; i++)
		has |= has_nic(port->path[i]);
	return has;
}

/* Packet buffers are shared evenly between ports; the paths of a port use the port's pool. */
static bool make_pool(struct rnicd_port *port, char *err, uint32_t err_len)
{
	uint32_t one = buffer_room(port) + MBUF_PRIV_SIZE + (uint32_t)sizeof(struct rte_mbuf) + 2 * RN_CACHE_LINE;
	char name[RTE_MEMPOOL_NAMESIZE];

	if (!rnicd.cfg.hugepages && one < PAGE) /* no object crosses the end of an ordinary page */
		one = PAGE / (PAGE / one);
	uint64_t n = rnicd_free_memory() / 2 / rnicd.cfg.n_ports / one;
	n = rn_max_u64(rn_min_u64(n, POOL_MAX + impair_limit(port)),
		       port->mtu > RNICD_MTU_WIRE ? POOL_MIN_BIG : POOL_MIN);
	snprintf(name, sizeof(name), "port_%u", port->index);
	const struct pool_size size = {
		.n = (uint32_t)n, .cache = POOL_CACHE, .room = buffer_room(port), .nic = has_nic(port)
	};
	port->pool = pool_create(name, &size, port->socket);
	if (port->pool == NULL && port->socket > 0) {
		rnicd_log(RNICD_LOG_WARNING, "port %s: no memory on its NUMA node %d, using another", port->cfg->name,
			  port->socket);
		port->pool = pool_create(name, &size, SOCKET_ID_ANY);
	}
	if (port->pool != NULL)
		return true;
	snprintf(err, err_len, "port %s: no memory for %u buffers of %u bytes (raise the daemon's memory)",
		 port->cfg->name, (unsigned int)n, buffer_room(port));
	return false;
}

static void choose_mac(struct rnicd_port *port)
{
	struct rte_ether_addr own;

	if (port->cfg->mac_set) {
		memcpy(port->mac, port->cfg->mac, PKT_MAC_LEN);
		return;
	}
	/* a tap's own address is that of the kernel's end of the wire */
	if (port->cfg->kind == RNICD_PORT_PCI && rte_eth_macaddr_get(port->ethdev, &own) == 0) {
		memcpy(port->mac, own.addr_bytes, PKT_MAC_LEN);
		return;
	}
	/* FNV-1a over address and name: the same device gets the same MAC again */
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	for (size_t i = 0; i < sizeof(port->cfg->ip.b); i++)
		h = (h ^ port->cfg->ip.b[i]) * UINT64_C(0x100000001b3);
	for (const char *c = port->cfg->name; *c != '\0'; c++)
		h = (h ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
	memcpy(port->mac, &h, PKT_MAC_LEN);
	port->mac[0] = (uint8_t)((port->mac[0] & 0xfc) | 0x02);
}

static int setup_queues(struct rnicd_port *port)
{
	struct rte_eth_dev_info info;
	uint16_t rx = RX_DESC, tx = TX_DESC;
	int rc = rte_eth_dev_info_get(port->ethdev, &info);

	if (rc == 0)
		rc = rte_eth_dev_adjust_nb_rx_tx_desc(port->ethdev, &rx, &tx);
	for (uint16_t q = 0; rc == 0 && q < port->caps.queues; q++) {
		rc = rte_eth_rx_queue_setup(port->ethdev, q, rx, (unsigned int)port->socket, NULL, port->pool);
		if (rc == 0)
			rc = rte_eth_tx_queue_setup(port->ethdev, q, tx, (unsigned int)port->socket, NULL);
	}
	return rc;
}

static void check_rx_interrupts(struct rnicd_port *port)
{
	for (uint16_t q = 0; port->caps.rx_fd && q < port->caps.queues; q++) {
		/* a tap's driver lacks this call, but its descriptor reports packets anyway */
		int rc = rte_eth_dev_rx_intr_enable(port->ethdev, q);
		if (port_rx_fd(port, q) < 0 || (rc != 0 && rc != -ENOTSUP))
			port->caps.rx_fd = false;
	}
}

/* A host port has no ethdev to be set up: only its interface's MTU and link are looked at. */
static bool bring_up_host(struct rnicd_port *port, char *err, uint32_t err_len)
{
	if (!port_dev_set_mtu(port, err, err_len))
		return false;
	port_link_begin(port);
	return true;
}

static bool bring_up(struct rnicd_port *port, char *err, uint32_t err_len)
{
	if (port->host != NULL)
		return bring_up_host(port, err, err_len);
	int rc = setup_queues(port);

	if (rc == 0 && !port_dev_set_mtu(port, err, err_len))
		return false;
	if (rc == 0)
		rc = rte_eth_dev_start(port->ethdev);
	if (rc != 0 && port_link_must_call(port)) {
		/* the memif server does not run yet: control/link.c connects later */
		port_set_link(port, RNICD_LINK_GONE);
		return true;
	}
	if (rc != 0) {
		snprintf(err, err_len, "port %s: cannot be started: %s", port->cfg->name, strerror(-rc));
		return false;
	}
	struct rte_ether_addr mac;
	memcpy(mac.addr_bytes, port->mac, PKT_MAC_LEN);
	if (port->cfg->kind != RNICD_PORT_PCI || rte_eth_dev_default_mac_addr_set(port->ethdev, &mac) != 0)
		rte_eth_promiscuous_enable(port->ethdev);
	rte_eth_dev_set_link_up(port->ethdev);

	if (rnicd.cfg.spin_us != UINT32_MAX && port_wake_open(port))
		port->caps.rx_fd = true;
	else
		check_rx_interrupts(port);
	if (port->cfg->kind == RNICD_PORT_TAP)
		port_tap_quiet(port);
	if (port->cfg->kind == RNICD_PORT_PCI)
		port_rss_read(port);
	port_link_begin(port);
	return true;
}

static struct rnicd_port *port_by_name(const char *name)
{
	for (uint32_t i = 0; i < rnicd_lines(); i++) {
		if (strcmp(rnicd.port[i]->cfg->name, name) == 0)
			return rnicd.port[i];
	}
	return NULL;
}

static bool create_dev(struct rnicd_port *port, char *err, uint32_t err_len)
{
	if (port->cfg->kind != RNICD_PORT_PAIR)
		return port_dev_create(port, err, err_len);
	if (port->peer != NULL)
		return true; /* made with the other end */
	struct rnicd_port *other = port_by_name(port->cfg->args);
	if (other == NULL || other == port || other->cfg->kind != RNICD_PORT_PAIR ||
	    strcmp(other->cfg->args, port->cfg->name) != 0) {
		snprintf(err, err_len, "port %s: its peer \"%s\" must be another pair port that names it in turn",
			 port->cfg->name, port->cfg->args);
		return false;
	}
	if (!port_pair_create(port, other, err, err_len))
		return false;

	struct rte_eth_conf conf = { 0 };
	uint16_t n = port->caps.queues;
	int rc = rte_eth_dev_configure(port->ethdev, n, n, &conf);
	if (rc == 0)
		rc = rte_eth_dev_configure(other->ethdev, n, n, &conf);
	if (rc != 0)
		snprintf(err, err_len, "port %s: cannot be configured: %s", port->cfg->name, strerror(-rc));
	return rc == 0;
}

static bool start_one(struct rnicd_port *port, char *err, uint32_t err_len)
{
	/* the wire of a pair lies on the first worker's NUMA node */
	port->socket = (int)rte_lcore_to_socket_id(1);
	if (port->n_paths == 0 && !create_dev(port, err, err_len))
		return false;
	if (port->n_paths == 0 && port->cfg->kind != RNICD_PORT_PAIR && port->host == NULL)
		port->socket = rte_eth_dev_socket_id(port->ethdev);
	if (port->socket < 0 || !rnicd.cfg.hugepages)
		port->socket = 0;
	choose_mac(port);
	if (port->of != NULL) {
		memcpy(port->mac, port->of->mac, PKT_MAC_LEN);
		port->pool = port->of->pool;
	} else if (!make_pool(port, err, err_len)) {
		return false;
	}
	if (port->n_paths == 0 && !bring_up(port, err, err_len))
		return false;
	if (port->cfg->capture[0] != '\0') {
		port->capture = capture_start(port, err, err_len);
		return port->capture != NULL;
	}
	return true;
}

/*
 * Receives the groups' MAC addresses, and that of 224.0.0.1, to which queries are sent. Some drivers take no single
 * addresses, others a few.
 */
void port_groups(struct rnicd_port *port, const struct pkt_addr *addr, uint32_t n)
{
	struct rte_ether_addr mac[PORT_GROUPS + 1] = { { .addr_bytes = { 0x01, 0x00, 0x5e, 0x00, 0x00, 0x01 } } };

	for (uint32_t i = 0; i < port->n_paths; i++)
		port_groups(port->path[i], addr, n);
	if (port->n_paths != 0 || port_link(port) == RNICD_LINK_GONE || port->host != NULL ||
	    rte_eth_promiscuous_get(port->ethdev) == 1 || port->cfg->kind == RNICD_PORT_PAIR)
		return;
	for (uint32_t i = 0; i < n && i < PORT_GROUPS; i++)
		pkt_group_mac(mac[1 + i].addr_bytes, &addr[i]);
	if (n == 0)
		rte_eth_allmulticast_disable(port->ethdev);
	if (rte_eth_dev_set_mc_addr_list(port->ethdev, mac, n > 0 ? n + 1 : 0) != 0 && n > 0 &&
	    rte_eth_allmulticast_enable(port->ethdev) != 0)
		rnicd_log(RNICD_LOG_WARNING, "port %s: its driver cannot receive multicast", port->cfg->name);
}

static bool give_up(void)
{
	port_close_all();
	port_free_all();
	return false;
}

bool port_start_all(char *err, uint32_t err_len)
{
	for (uint32_t i = 0; i < rnicd.cfg.n_ports + rnicd.cfg.n_paths; i++) {
		struct rnicd_port *port = rte_zmalloc("port", sizeof(*port), RN_CACHE_LINE);
		if (port == NULL) {
			snprintf(err, err_len, "no memory for port %s (raise the daemon's memory)",
				 rnicd.cfg.port[i].name);
			return give_up();
		}
		port->index = (uint16_t)i;
		port->ethdev = RTE_MAX_ETHPORTS;
		port->socket = -1;
		memset(port->bell, 0xff, sizeof(port->bell));
		port->cfg = &rnicd.cfg.port[i];
		port->mtu = (uint16_t)port->cfg->mtu;
		port->crc_always = port->cfg->crc_always;
		rnicd.port[i] = port;
		if (port->cfg->is_path) {
			port->of = rnicd.port[port->cfg->of];
			port->of->path[port->of->n_paths++] = port;
			rnicd.n_paths++;
		} else {
			rnicd.n_ports++;
		}
	}
	for (uint32_t i = 0; i < rnicd_lines(); i++)
		if (!start_one(rnicd.port[i], err, err_len))
			return give_up();
	for (uint32_t i = 0; i < rnicd.n_ports; i++)
		if (rnicd.port[i]->n_paths != 0)
			port_paths_join(rnicd.port[i]);
	return true;
}

static void close_dev(struct rnicd_port *port)
{
	port_host_close(port);
	if (port->ethdev == RTE_MAX_ETHPORTS)
		return;
	port_wake_close(port);
	port_dev_destroy(port);
	port->ethdev = RTE_MAX_ETHPORTS;
}

bool port_open_again(struct rnicd_port *port, char *err, uint32_t err_len)
{
	struct rnicd_port_caps had = port->caps;
	const struct rnicd_rss rss = port->rss; /* connections stay with their owners */

	close_dev(port);
	if (!port_dev_create(port, err, err_len))
		return false;
	if (!bring_up(port, err, err_len)) {
		close_dev(port);
		port_set_link(port, RNICD_LINK_GONE);
		return false;
	}
	if (port->caps.queues == had.queues && port->caps.multi_seg == had.multi_seg &&
	    port->caps.zero_copy == had.zero_copy && memcmp(&rss, &port->rss, sizeof(rss)) == 0)
		return true;
	snprintf(err, err_len, "port %s: the device is another one than before: restart rnicd", port->cfg->name);
	close_dev(port);
	port->caps = had;
	port_set_link(port, RNICD_LINK_GONE);
	return false;
}

void port_close_all(void)
{
	for (uint32_t i = 0; i < rnicd_lines(); i++) {
		struct rnicd_port *port = rnicd.port[i];
		capture_stop(port->capture);
		port->capture = NULL;
		close_dev(port);
	}
	for (uint32_t i = 0; i < rnicd_lines(); i++)
		port_pair_destroy(rnicd.port[i]);
}

void port_free_all(void)
{
	for (uint32_t i = rnicd_lines(); i-- > 0;) {
		port_host_free(rnicd.port[i]);
		if (rnicd.port[i]->of == NULL)
			rte_mempool_free(rnicd.port[i]->pool);
		free(rnicd.port[i]->qp_ports); /* no worker runs any more that could read these bits */
		rte_free(rnicd.port[i]);
		rnicd.port[i] = NULL;
	}
	rnicd.n_ports = rnicd.n_paths = 0;
}
