/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/port.h"
#include "plane/port_host.h"
#include "plane/port_link.h"

#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include "border/devargs.h"
#include "plane/intr_thread.h"

/*
 * The properties of each kind of device. zero_copy: the driver copies each frame with the CPU, so a chain may point
 * into a client's memory, which no DMA can reach.
 */
static const struct kind {
	const char *driver; /* NULL: the argument is a PCI address */
	const char *first;  /* key in front of a bare argument */
	bool zero_copy;
	bool offload; /* checksums in hardware; a software driver would only compute them later than this code */
	bool rx_fd;   /* receive interrupts */
} kinds[RNICD_PORT_KINDS] = {
	[RNICD_PORT_MEMIF] = { "net_memif", NULL, true, false, false },
	[RNICD_PORT_TAP] = { "net_tap", "iface", true, false, true },
	[RNICD_PORT_AF_PACKET] = { "net_af_packet", "iface", false, false, false },
	[RNICD_PORT_PCAP] = { "net_pcap", NULL, true, false, false },
	[RNICD_PORT_PCI] = { NULL, NULL, false, true, true },
};

/*
 * A slot of the packet socket's ring: the kernel's headers and one frame. The driver takes no slots larger than our
 * buffers, and expects no gap between slots: a block of whole pages must be a whole number of slots.
 */
#define AF_PACKET_ROOM  128u
#define AF_PACKET_ALIGN 1024u
#define AF_PACKET_BLOCK 4u
#define MEMIF_BUFFER    2048u /* bytes; the driver's own choice */
#define HELLO_MS        2000  /* a memif server that runs greets its callers at once */

uint32_t port_af_packet_slot(const struct rnicd_port *port)
{
	uint32_t need = AF_PACKET_ROOM + PKT_ETH_LEN + PKT_VLAN_LEN + port->cfg->mtu;

	return (need + AF_PACKET_ALIGN - 1) / AF_PACKET_ALIGN * AF_PACKET_ALIGN;
}

/* Whether the driver serves the socket already, for a port or path that has another id there. */
static bool serves_memif(const struct rnicd_port *port, const char *path)
{
	char other[RNICD_ARGS_MAX];

	for (uint32_t i = 0; i < port->index; i++) {
		const struct rnicd_port *p = rnicd.port[i];
		if (p->cfg->kind == RNICD_PORT_MEMIF && p->ethdev != RTE_MAX_ETHPORTS && !port_link_must_call(p) &&
		    devargs_get(p->cfg->args, "socket", other, sizeof(other)) && strcmp(other, path) == 0)
			return true;
	}
	return false;
}

/*
 * Removes the socket that a killed memif server has left behind, since the driver does not bind to a name that is
 * taken. False with a sentence in err: another program serves the socket.
 */
static bool clear_memif(const struct rnicd_port *port, char *err, uint32_t err_len)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	char no[8];
	struct stat st;

	if (port_link_must_call(port) || !devargs_get(port->cfg->args, "socket-abstract", no, sizeof(no)) ||
	    strcmp(no, "no") != 0 || !devargs_get(port->cfg->args, "socket", un.sun_path, sizeof(un.sun_path)) ||
	    serves_memif(port, un.sun_path) || lstat(un.sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
		return true;
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc = connect(s, (struct sockaddr *)&un, sizeof(un)), e = errno;
	struct pollfd hello = { .fd = s, .events = POLLIN };
	/* the driver of DPDK 22.11 does not survive a caller that hangs up before it has been greeted */
	if (rc == 0)
		poll(&hello, 1, HELLO_MS);
	if (s >= 0)
		close(s);
	if (rc != 0 && e == ECONNREFUSED) {
		unlink(un.sun_path);
		return true;
	}
	snprintf(err, err_len, "port %s: another program serves memif's socket %s: stop it, or name another socket",
		 port->cfg->name, un.sun_path);
	return false;
}

/*
 * The bytes of a memif's buffers, if the arguments leave them out or make them smaller than a frame; else 0. The driver
 * of DPDK 22.11 may put a frame of several buffers together with the next ones, and deliver frames again.
 */
static uint32_t memif_buffer(const struct rnicd_port *port)
{
	const uint32_t frame = PKT_ETH_LEN + PKT_VLAN_LEN + port->cfg->mtu;
	char given[16];

	if (devargs_get(port->cfg->args, "bsize", given, sizeof(given)) && strtoul(given, NULL, 0) >= frame)
		return 0;
	return rn_max_u32((frame + RN_CACHE_LINE - 1) / RN_CACHE_LINE * RN_CACHE_LINE, MEMIF_BUFFER);
}

static bool probe(struct rnicd_port *port, char *err, uint32_t err_len)
{
	const struct kind *k = &kinds[port->cfg->kind];
	const char *args = port->cfg->args;
	char devargs[RNICD_ARGS_MAX + 128];
	char name[RTE_ETH_NAME_MAX_LEN];

	if (port->cfg->kind == RNICD_PORT_MEMIF && !clear_memif(port, err, err_len))
		return false;
	if (k->driver == NULL) {
		snprintf(devargs, sizeof(devargs), "%s", args);
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(args, ","), args);
	} else {
		snprintf(name, sizeof(name), "%s%u", k->driver, port->index);
		bool bare = k->first != NULL && strchr(args, '=') == NULL;
		snprintf(devargs, sizeof(devargs), "%s,%s%s%s", name, bare ? k->first : "", bare ? "=" : "", args);
	}
	size_t len = strlen(devargs);
	if (port->cfg->kind == RNICD_PORT_AF_PACKET) {
		uint32_t slot = port_af_packet_slot(port);
		snprintf(devargs + len, sizeof(devargs) - len, ",qpairs=%u,blocksz=%u,framesz=%u,framecnt=512",
			 rnicd.cfg.n_workers, AF_PACKET_BLOCK * slot, slot);
	}
	if (port->cfg->kind == RNICD_PORT_MEMIF && memif_buffer(port) != 0)
		snprintf(devargs + len, sizeof(devargs) - len, ",bsize=%u", memif_buffer(port));
	/* EAL has opened the PCI devices that it was allowed */
	if (k->driver == NULL && rte_eth_dev_get_port_by_name(name, &port->ethdev) == 0)
		return true;
	int rc = rte_dev_probe(devargs);
	if (rc != 0 || rte_eth_dev_get_port_by_name(name, &port->ethdev) != 0) {
		char why[PORT_CAUSE_MAX];
		port_cause(port->cfg, rc, why, sizeof(why));
		snprintf(err, err_len, "port %s: device \"%s\" cannot be opened: %s", port->cfg->name, port->cfg->args,
			 why);
		return false;
	}
	return true;
}

static void ask_caps(struct rnicd_port *port, const struct rte_eth_dev_info *info)
{
	const struct kind *k = &kinds[port->cfg->kind];
	const uint64_t tx_sums = RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
	const uint64_t rx_sums = RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
	uint32_t queues = rn_min_u32(rnicd.cfg.n_workers, rn_min_u32(info->max_rx_queues, info->max_tx_queues));

	port->caps.multi_seg = (info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
	port->caps.zero_copy = k->zero_copy && port->caps.multi_seg;
	port->caps.tx_csum = k->offload && (info->tx_offload_capa & tx_sums) == tx_sums;
	port->caps.rx_csum = k->offload && (info->rx_offload_capa & rx_sums) == rx_sums;
	port->caps.rx_fd = k->rx_fd && rnicd.cfg.spin_us != UINT32_MAX;
	port->caps.queues = (uint16_t)rn_max_u32(queues, 1);
	port->caps.max_mtu = info->max_mtu;
}

static int configure(struct rnicd_port *port, const struct rte_eth_dev_info *info)
{
	/* a tap's descriptors are wanted in any case: port_tap_quiet() */
	struct rte_eth_conf conf = { .intr_conf.rxq = port->caps.rx_fd || port->cfg->kind == RNICD_PORT_TAP };

	if (port->caps.multi_seg)
		conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	if (port->caps.tx_csum)
		conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
	if (port->caps.rx_csum)
		conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
	if (port->caps.queues > 1 && port->cfg->kind == RNICD_PORT_PCI) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = (RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP) & info->flow_type_rss_offloads;
	}
	if (port->cfg->kind == RNICD_PORT_PCI)
		conf.rxmode.mtu = port->mtu;
	return rte_eth_dev_configure(port->ethdev, port->caps.queues, port->caps.queues, &conf);
}

/* The host sets the interface's MTU; the driver does not know larger MTUs but carries any frame that fits its slots. */
static bool interface_mtu(const struct rnicd_port *port, char *err, uint32_t err_len)
{
	struct rte_eth_dev_info info = { .if_index = port->if_index };
	struct ifreq req = { .ifr_mtu = 0 };
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (s >= 0 && (port->host != NULL || rte_eth_dev_info_get(port->ethdev, &info) == 0) &&
	    if_indextoname(info.if_index, req.ifr_name) != NULL)
		ioctl(s, SIOCGIFMTU, &req);
	if (s >= 0)
		close(s);
	if (req.ifr_mtu >= port->mtu)
		return true;
	snprintf(err, err_len, "port %s: mtu %u: the interface's own is %d (ip link set %s mtu %u)", port->cfg->name,
		 port->mtu, req.ifr_mtu, req.ifr_name, port->mtu);
	return false;
}

bool port_dev_set_mtu(const struct rnicd_port *port, char *err, uint32_t err_len)
{
	struct rte_eth_dev_info info;

	if (port->cfg->kind == RNICD_PORT_AF_PACKET || port->host != NULL)
		return interface_mtu(port, err, err_len);
	int rc = rte_eth_dev_set_mtu(port->ethdev, port->mtu);

	/* a driver without the call takes frames as long as its buffers */
	if (rc == 0 || rc == -ENOTSUP)
		return true;
	if (rc == -EINVAL && rte_eth_dev_info_get(port->ethdev, &info) == 0)
		snprintf(err, err_len, "port %s: mtu %u: the frames of this device have at most %u bytes",
			 port->cfg->name, port->mtu, info.max_rx_pktlen);
	else
		snprintf(err, err_len, "port %s: mtu %u: %s", port->cfg->name, port->mtu, strerror(-rc));
	return false;
}

bool port_dev_create(struct rnicd_port *port, char *err, uint32_t err_len)
{
	struct rte_eth_dev_info info;

	if (port->cfg->kind == RNICD_PORT_HOST)
		return port_host_open(port, err, err_len);
	if (!probe(port, err, err_len))
		return false;
	int rc = rte_eth_dev_info_get(port->ethdev, &info);
	if (rc == 0) {
		ask_caps(port, &info);
		rc = configure(port, &info);
		if (rc != 0 && port->caps.rx_fd) {
			/* some drivers report receive interrupts only after they were told to use them */
			port->caps.rx_fd = false;
			rc = configure(port, &info);
		}
	}
	if (rc != 0) {
		snprintf(err, err_len, "port %s: cannot be configured: %s", port->cfg->name, strerror(-rc));
		port_dev_destroy(port);
		return false;
	}
	return true;
}

static void stop_and_close(void *ethdev)
{
	const uint16_t e = *(const uint16_t *)ethdev;

	rte_eth_dev_stop(e);
	rte_eth_dev_close(e);
}

void port_dev_destroy(struct rnicd_port *port)
{
	struct rte_eth_dev_info info;

	if (port->host != NULL) {
		port_host_close(port);
		return;
	}
	if (rte_eth_dev_info_get(port->ethdev, &info) != 0)
		return;
	if (port->cfg->kind == RNICD_PORT_MEMIF)
		intr_thread_run(stop_and_close, &port->ethdev);
	else
		stop_and_close(&port->ethdev);
	rte_dev_remove(info.device);
}
