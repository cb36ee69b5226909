/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/port_link.h"

#include <linux/ethtool.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_ethdev.h>

#include "border/devargs.h"
#include "plane/capture.h"
#include "plane/intr_thread.h"
#include "plane/port.h"
#include "plane/worker_int.h"

/* ---- the host's interface behind a port ---- */

/* A socket for ioctls, in the network namespace in which the daemon was started. */
static int ask_fd(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return fd;
}

/* The interface's present name: it may have been renamed, its number stays. False: it is not in our namespace. */
static bool name_of(uint32_t if_index, struct ifreq *req)
{
	memset(req, 0, sizeof(*req));
	req->ifr_ifindex = (int)if_index;
	return ioctl(ask_fd(), SIOCGIFNAME, req) == 0;
}

/* Whether frames can go through: the driver reports a carrier, or, if it reports none, the interface is up. */
static bool carries(struct ifreq *req)
{
	struct ethtool_value v = { .cmd = ETHTOOL_GLINK };
	struct ifreq ask = *req;

	ask.ifr_data = (void *)&v;
	if (ioctl(ask_fd(), SIOCETHTOOL, &ask) == 0)
		return v.data != 0;
	ask = *req;
	return ioctl(ask_fd(), SIOCGIFFLAGS, &ask) == 0 && (ask.ifr_flags & IFF_UP) != 0;
}

/* Whether the tap still has its interface: not if that was deleted; yes if it was moved to another namespace. */
static bool tap_attached(const struct rnicd_port *port)
{
	struct ifreq req = { .ifr_flags = 0 };

	return ioctl(rte_eth_dev_rx_intr_ctl_q_get_fd(port->ethdev, 0), TUNGETIFF, &req) == 0;
}

static enum rnicd_link host_link(const struct rnicd_port *port)
{
	struct ifreq req;

	if (port->cfg->kind == RNICD_PORT_TAP && !tap_attached(port))
		return RNICD_LINK_GONE;
	if (name_of(port->if_index, &req))
		return carries(&req) ? RNICD_LINK_UP : RNICD_LINK_DOWN;
	/* a moved tap goes on working; whether its interface is up cannot be seen from here */
	return port->cfg->kind == RNICD_PORT_TAP ? RNICD_LINK_UP : RNICD_LINK_GONE;
}

/* ---- any port ---- */

enum rnicd_link port_link_ask(const struct rnicd_port *port)
{
	struct rte_eth_link link;

	for (uint32_t i = 0; i < port->n_paths; i++)
		if (port_link(port->path[i]) == RNICD_LINK_UP)
			return RNICD_LINK_UP;
	if (port->n_paths != 0)
		return RNICD_LINK_DOWN;
	if (port->cfg->kind == RNICD_PORT_PAIR)
		return RNICD_LINK_UP; /* both ends of the wire are here */
	if (port->if_index != 0)
		return host_link(port);
	if (port->host != NULL)
		return RNICD_LINK_GONE;
	/* a driver that cannot report the link is assumed to have one */
	if (rte_eth_link_get_nowait(port->ethdev, &link) != 0 || link.link_status == RTE_ETH_LINK_UP)
		return RNICD_LINK_UP;
	return RNICD_LINK_DOWN;
}

void port_link_begin(struct rnicd_port *port)
{
	struct rte_eth_dev_info info;
	struct ifreq req;

	info.if_index = port->host != NULL ? port->if_index : 0;
	port->if_index = 0;
	if (port->cfg->kind != RNICD_PORT_PAIR &&
	    (port->host != NULL || rte_eth_dev_info_get(port->ethdev, &info) == 0) && info.if_index != 0 &&
	    name_of(info.if_index, &req)) {
		port->if_index = info.if_index;
		snprintf(port->if_name, sizeof(port->if_name), "%s", req.ifr_name);
	}
	port_set_link(port, port_link_ask(port));
}

bool port_link_must_call(const struct rnicd_port *port)
{
	char role[16];

	if (port->cfg->kind != RNICD_PORT_MEMIF)
		return false;
	return !devargs_get(port->cfg->args, "role", role, sizeof(role)) ||
	       (strcmp(role, "server") != 0 && strcmp(role, "master") != 0);
}

void port_link_why(const struct rnicd_port *port, char *why, size_t len)
{
	char path[RNICD_ARGS_MAX];
	struct ifreq req;

	if (port->n_paths != 0) {
		snprintf(why, len, "none of its paths carries frames");
	} else if (port->cfg->kind == RNICD_PORT_MEMIF) {
		devargs_get(port->cfg->args, "socket", path, sizeof(path));
		snprintf(why, len,
			 port_link_must_call(port) ? "no memif server answers at %s" : "no memif client is at %s",
			 path[0] != '\0' ? path : "the driver's own socket");
	} else if (port->if_index == 0) {
		snprintf(why, len, "the device has no carrier");
	} else if (port_link(port) == RNICD_LINK_GONE) {
		snprintf(why, len, "the interface %s is gone", port->if_name);
	} else {
		snprintf(why, len, "the interface %s is down or has no carrier",
			 name_of(port->if_index, &req) ? req.ifr_name : port->if_name);
	}
}

/* ---- opening again ---- */

static void hang_up(void *ethdev) { rte_eth_dev_stop(*(const uint16_t *)ethdev); }

/* The call itself is made here: it may wait for a server in this process, that is for DPDK's interrupt thread. */
static bool call_again(struct rnicd_port *port, char *err, uint32_t err_len)
{
	intr_thread_run(hang_up, &port->ethdev);
	if (rte_eth_dev_start(port->ethdev) == 0)
		return true;
	port_link_why(port, err, err_len);
	return false;
}

bool port_link_reopen(struct rnicd_port *port, char *err, uint32_t err_len)
{
	if (port->cfg->kind == RNICD_PORT_MEMIF)
		return call_again(port, err, err_len);
	if (port->cfg->kind != RNICD_PORT_TAP && if_nametoindex(port->if_name) == 0) {
		port_link_why(port, err, err_len);
		return false;
	}
	return port_open_again(port, err, err_len);
}

/* ---- changing a port that is in use ---- */

void port_impair_end(struct impair **im)
{
	for (uint32_t i = 0; i < RNICD_MAX_WORKERS; i++)
		impair_destroy(im[i]);
}

bool port_impair_make(const struct rnicd_port *port, const struct rnicd_impair_cfg *cfg, struct impair **im)
{
	memset(im, 0, RNICD_MAX_WORKERS * sizeof(*im));
	for (uint32_t i = 0; impair_wanted(cfg) && i < rnicd.n_workers && i < port->caps.queues; i++) {
		im[i] = impair_create(cfg, i, port->pool, port->socket);
		if (im[i] == NULL) {
			port_impair_end(im);
			return false;
		}
	}
	return true;
}

struct capture *port_capture_begin(const struct rnicd_port *port, char *err, uint32_t err_len)
{
	return capture_start(port, err, err_len);
}

void port_capture_end(struct capture *c) { capture_stop(c); }

/* ---- in the worker's thread ---- */

void worker_port_leave(struct rnicd_worker *w, struct rnicd_port *port)
{
	if (w->index < port->caps.queues && port_rx_fd(port, (uint16_t)w->index) >= 0)
		bell_unwatch(w->index, port_rx_fd(port, (uint16_t)w->index));
	port_tx_drop_all(&w->tx[port->index]);
}

void worker_port_join(struct rnicd_worker *w, struct rnicd_port *port) { worker_port_fd(w, port); }

struct impair *worker_port_change(struct rnicd_worker *w, struct rnicd_port *port, struct impair *im)
{
	struct port_tx *t = &w->tx[port->index];
	struct impair *had = t->impair;

	if (t->through != NULL)
		return im; /* another worker has the queue */
	shape_init(&t->shape, &port->shape_tat, port->cfg->rate_bps);
	t->impair = im;
	return had;
}

void worker_port_up(struct rnicd_worker *w, struct rnicd_port *port)
{
	const struct rnicd_port *dev = port->of != NULL ? port->of : port;
	struct rte_mbuf *m = w->index == 0 ? arp_gratuitous(w->arp[dev->index]) : NULL;

	if (m != NULL)
		port_tx_push(&w->tx[port->index], m);
}
