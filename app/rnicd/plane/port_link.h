/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The line of a port: whether it carries frames, and how a device that is gone comes back. Control thread only, but for
 * the two worker_ functions. Who calls when stands in control/link.h.
 */
#ifndef RNICD_PORT_LINK_H
#define RNICD_PORT_LINK_H

#include "border/rnicd.h"

struct rnicd_worker;

/* After the device was opened: remembers the host's interface behind it, and sets port->link. */
void port_link_begin(struct rnicd_port *port);

/* What the line is like now. GONE: the device must be opened again, no worker being in it. */
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

/* Worker's thread, port->link being GONE: forgets the descriptors of the device, drops the frames that wait for it. */
void worker_port_leave(struct rnicd_worker *w, struct rnicd_port *port);
/* Worker's thread, after the device was opened again. */
void worker_port_join(struct rnicd_worker *w, struct rnicd_port *port);
/* Worker's thread: the line carries frames again. The neighbours are told our address. */
void worker_port_up(struct rnicd_worker *w, struct rnicd_port *port);

#endif
