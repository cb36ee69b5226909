/* SPDX-License-Identifier: BSD-3-Clause */
/* What telemetry tells of ports and of the paths of those that have several. */
#ifndef TELE_PORT_H
#define TELE_PORT_H

struct rte_tel_data;

/* A telemetry callback, under loop_lock(). */
int tele_ports(const char *cmd, const char *params, struct rte_tel_data *d);

#endif
