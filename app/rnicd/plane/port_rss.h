/* SPDX-License-Identifier: BSD-3-Clause */
/* What a device's receive side scaling does. Control thread. */
#ifndef RNICD_PORT_RSS_H
#define RNICD_PORT_RSS_H

#include "border/rnicd.h"

/*
 * The device is started: asks for its RSS and sets port->owners and port->rss. port->owners is RNICD_OWNERS_HASH if the
 * port has one queue, the device does not hash TCP, or its key or redirection table cannot be read.
 */
void port_rss_read(struct rnicd_port *port);

#endif
