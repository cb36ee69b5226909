/* SPDX-License-Identifier: BSD-3-Clause */
/* Telemetry about ports and their paths. */
#ifndef TELE_PORT_H
#define TELE_PORT_H

struct rte_tel_data;

/* The callback of /rnic/ports; it takes no lock. */
int tele_ports(const char *cmd, const char *params, struct rte_tel_data *d);

#endif
