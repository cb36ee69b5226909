/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on a port's device that may block, so the control thread and no worker carries them out. They are
 * implemented in the plane. Control thread only; control/link.h says when each is called.
 */
#ifndef PORT_ADMIN_H
#define PORT_ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/rnicd.h"

/*
 * Asks the device for the link's state. GONE: the device must be opened again while no worker uses it (CMD_PORT_LEAVE).
 */
enum rnicd_link port_link_ask(const struct rnicd_port *port);

/* Writes half a sentence for the log: why the link is in its present state. */
void port_link_why(const struct rnicd_port *port, char *why, size_t len);

/* True: the link stays down until this end connects again, as that of a memif client does. */
bool port_link_must_call(const struct rnicd_port *port);

/*
 * Closes what is left of the device and opens it again, with the same capabilities. Called while no worker uses the
 * device. False with a sentence in err: the device does not exist or cannot be opened; the caller tries again later.
 */
bool port_link_reopen(struct rnicd_port *port, char *err, uint32_t err_len);

struct capture;
struct impair;

/*
 * Makes an impairment for each worker that has a queue of the port, for CMD_PORT_CHANGE. im has RNICD_MAX_WORKERS
 * elements; all are NULL if cfg wants no impairment. False: no memory, nothing was made. After the command im has the
 * old impairments, which port_impair_end() ends; the frames in them are lost.
 */
bool port_impair_make(const struct rnicd_port *port, const struct rnicd_impair_cfg *cfg, struct impair **im);
void port_impair_end(struct impair **im);

/*
 * Makes a capture as port->cfg says; the caller stores it in port->capture. NULL with a sentence in err.
 */
struct capture *port_capture_begin(const struct rnicd_port *port, char *err, uint32_t err_len);
/*
 * Writes out the frames that a capture still holds, and frees the capture. Before this call port->capture must be NULL,
 * and every worker must have answered a command since then. c may be NULL.
 */
void port_capture_end(struct capture *c);

/*
 * Makes the port receive the frames of these n groups. The driver is asked only if the port does not receive all
 * frames.
 */
void port_groups(struct rnicd_port *port, const struct pkt_addr *addr, uint32_t n);

#endif
