/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The link of a port: whether it carries frames, and how a device that is gone is opened again. The control thread's
 * calls are in border/port_admin.h.
 */
#ifndef RNICD_PORT_LINK_H
#define RNICD_PORT_LINK_H

#include "border/port_admin.h"

struct rnicd_worker;

/* Control thread, after the device was opened: remembers the host's interface behind it, and sets port->link. */
void port_link_begin(struct rnicd_port *port);

/* Worker's thread, port->link being GONE: forgets the descriptors of the device, drops the frames that wait for it. */
void worker_port_leave(struct rnicd_worker *w, struct rnicd_port *port);
/* Worker's thread, after the device was opened again. */
void worker_port_join(struct rnicd_worker *w, struct rnicd_port *port);
/*
 * Worker's thread, control/reload.c: from now on the port has the rate of its configuration, and on this worker the
 * impairment im; NULL: none. Returns the impairment before, with the frames in it, or im if another worker has the
 * queue; it is the caller's.
 */
struct impair *worker_port_change(struct rnicd_worker *w, struct rnicd_port *port, struct impair *im);
/* Worker's thread: the link carries frames again. Announces this port's address to the neighbours. */
void worker_port_up(struct rnicd_worker *w, struct rnicd_port *port);

#endif
