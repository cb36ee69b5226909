/* SPDX-License-Identifier: BSD-3-Clause */
/* Telemetry about ports and their paths. */
#ifndef TELE_PORT_H
#define TELE_PORT_H

#include "border/rnicd.h"

struct rte_tel_data;

/* The counters of a port and its paths, added up over all workers. */
void tele_port_sum(const struct rnicd_port *p, struct rnicd_port_stats *sum);
/* The callback of /rnic/ports; it takes no lock. */
int tele_ports(const char *cmd, const char *params, struct rte_tel_data *d);

#endif
