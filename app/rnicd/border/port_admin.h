/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on a port's device that block. So the control thread, not a worker, carries them out. They are implemented
 * in the plane (port_link.c, port.c). Control thread only; control/link.h says when each is called.
 */
#ifndef PORT_ADMIN_H
#define PORT_ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/rnicd.h"

/* The present state of the link. GONE: the device must be opened again while no worker uses it (CMD_PORT_LEAVE). */
enum rnicd_link port_link_ask(const struct rnicd_port *port);

/* Half a sentence for the log: why the link is in this state. */
void port_link_why(const struct rnicd_port *port, char *why, size_t len);

/* True: the link stays down until this end connects again (a memif client). */
bool port_link_must_call(const struct rnicd_port *port);

/*
 * No worker uses the device: closes what is left of it and opens it again, with the same capabilities. False with a
 * sentence in err: the device does not exist or cannot be opened; try again later.
 */
bool port_link_reopen(struct rnicd_port *port, char *err, uint32_t err_len);

struct capture;
struct impair;

/*
 * An impairment for each worker that has a queue of the port, or none where cfg wants none; im has RNICD_MAX_WORKERS
 * elements. False: no memory, nothing was made. For CMD_PORT_CHANGE, after which the old ones are ended, and the frames
 * in them lost.
 */
bool port_impair_make(const struct rnicd_port *port, const struct rnicd_impair_cfg *cfg, struct impair **im);
void port_impair_end(struct impair **im);

/*
 * A capture by port->cfg, not yet in use. NULL with a sentence in err. Before one is ended, which writes out what it
 * holds, port->capture has been NULL and every worker has come round since. NULL is allowed.
 */
struct capture *port_capture_begin(const struct rnicd_port *port, char *err, uint32_t err_len);
void port_capture_end(struct capture *c);

/* The port takes the frames of these groups; asks the driver to where it does not take all frames anyway. */
void port_groups(struct rnicd_port *port, const struct pkt_addr *addr, uint32_t n);

#endif
