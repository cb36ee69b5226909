/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports: opens each configured device as an ethdev, queries its offloads once, makes its queues, buffers and capture.
 * Control thread only, before workers start and after they have stopped.
 */
#ifndef RNICD_PORT_H
#define RNICD_PORT_H

#include <rte_mbuf.h>
#include <rte_ring.h>

#include "border/rnicd.h"

/* Brings up all configured ports. On failure one sentence in err, and nothing is left up. */
bool port_start_all(char *err, uint32_t err_len);
/* Closes the devices and frees the frames on wires. */
void port_close_all(void);
/* Frees buffers and ports. No frame may be left anywhere. */
void port_free_all(void);

/* Whether the port is a wire inside the process that holds no frame for the queue's worker, as in most turns. */
static inline bool port_wire_is_empty(const struct rnicd_port *port, uint32_t queue)
{
	return port->wire != NULL && queue < port->caps.queues && rte_ring_empty(port->wire[queue]);
}

/* True when received frames for MAC dst may be the port's: its own, broadcast, multicast. */
static inline bool port_mac_is_ours(const struct rnicd_port *port, const uint8_t *dst)
{
	return memcmp(dst, port->mac, PKT_MAC_LEN) == 0 || (dst[0] & 1) != 0;
}

/* A file descriptor that becomes readable when packets come into a queue; -1: the port has none. */
int port_rx_fd(const struct rnicd_port *port, uint16_t queue);
/* The queue's worker, before its last check and its sleep: the descriptor reports packets that come from now on. */
void port_rx_arm(const struct rnicd_port *port, uint16_t queue);

/* port_dev.c: bytes of one slot of a packet socket's ring; the driver wants buffers at least as large. */
uint32_t port_af_packet_slot(const struct rnicd_port *port);

/*
 * For port_link.c, no worker being in the port: closes the device and opens it again. The device must have the
 * capabilities that it had. False with a sentence in err: the device is closed, and the call may be repeated.
 */
bool port_open_again(struct rnicd_port *port, char *err, uint32_t err_len);

#define PORT_CAUSE_MAX 256u
/*
 * port_cause.c: why the driver has not opened the device, as far as the system shows it, and what to do. rc: DPDK's
 * result, a negative errno, or 0; `why` names rc if no better cause is found.
 */
void port_cause(const struct rnicd_port_cfg *cfg, int rc, char *why, size_t len);

/* port_dev.c: creates the ethdev of a port that is not a pair. Only for port.c. */
bool port_dev_create(struct rnicd_port *port, char *err, uint32_t err_len);
void port_dev_destroy(struct rnicd_port *port);
bool port_dev_set_mtu(const struct rnicd_port *port, char *err, uint32_t err_len);
/* port_wake.c: false: the port has no bell of ours. Only for port.c. */
bool port_wake_open(struct rnicd_port *port);
void port_wake_close(struct rnicd_port *port);
void port_tap_quiet(struct rnicd_port *port);
/* port_paths.c: all paths are up; the port's capabilities are those that all its paths have. Only for port.c. */
void port_paths_join(struct rnicd_port *port);
/* port_pair.c: creates the ethdevs of both ends. Only for port.c. */
bool port_pair_create(struct rnicd_port *a, struct rnicd_port *b, char *err, uint32_t err_len);
void port_pair_destroy(struct rnicd_port *port);

#endif
