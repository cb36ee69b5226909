/* SPDX-License-Identifier: BSD-3-Clause */
/* What a device's receive side scaling does. Control thread. */
#ifndef RNICD_PORT_RSS_H
#define RNICD_PORT_RSS_H

#include "border/rnicd.h"

/*
 * The device is started: asks for its RSS and sets port->owners and port->rss. It is RNICD_OWNERS_HASH where the port
 * has one queue, or the device does not hash TCP, or tells neither key nor redirection table.
 */
void port_rss_read(struct rnicd_port *port);

#endif
