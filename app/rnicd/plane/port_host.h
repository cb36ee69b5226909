/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A port on an interface of the host's kernel, by packet sockets of our own and not by a driver of DPDK's. The kernel
 * is handed large TCP segments and checksums that are left to compute, and hands over the same. Each worker has a
 * socket. The first section is for the control thread, with no worker in the port; the rest for the queue's worker.
 */
#ifndef RNICD_PORT_HOST_H
#define RNICD_PORT_HOST_H

#include <rte_mbuf.h>

#include "border/rnicd.h"

/* False with a sentence in err. Memory of an earlier call is kept until port_host_free(). */
bool port_host_open(struct rnicd_port *port, char *err, uint32_t err_len);
/* Closes the sockets and frees the buffers that waited for frames. */
void port_host_close(struct rnicd_port *port);
void port_host_free(struct rnicd_port *port);

int port_host_fd(const struct rnicd_port *port, uint16_t queue);
/*
 * Whether the frame has a large buffer, of which more than half are in use. Such a frame is not kept: packets that are
 * held ahead of a hole, or wait for a receive, could otherwise leave no large buffer to receive with.
 */
bool port_host_scarce(const struct rte_mbuf *m);
uint32_t port_host_rx(struct rnicd_port *port, uint16_t queue, struct rte_mbuf **m, uint32_t n);
/* Sends and counts frames. Returns how many frames were sent or lost; the others are still the caller's. */
uint32_t port_host_tx(struct rnicd_port *port, uint16_t queue, struct rte_mbuf **m, uint32_t n);

#endif
