/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the control thread does with a port's device itself, because it blocks: a worker must not. The bodies are the
 * plane's (port_link.c, port.c). Control thread only; when to call what stands in control/link.h.
 */
#ifndef PORT_ADMIN_H
#define PORT_ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/rnicd.h"

/* What the line is like now. GONE: the device must be opened again, no worker being in it (CMD_PORT_LEAVE). */
enum rnicd_link port_link_ask(const struct rnicd_port *port);

/* Half a sentence for people: why the line is as it is. */
void port_link_why(const struct rnicd_port *port, char *why, size_t len);

/* True: the other end of the line answers nobody until this end calls again (a client of memif). */
bool port_link_must_call(const struct rnicd_port *port);

/*
 * No worker uses the device: closes what is left of it and opens it again, with the same abilities. False with a
 * sentence in err: it is not there yet, or cannot be had; try again later.
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
