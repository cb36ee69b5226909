/* SPDX-License-Identifier: BSD-3-Clause */
/* Telemetry about datagrams: flows of reliable datagrams, and incomplete messages. Telemetry's thread. */
#ifndef TELE_DGRAM_H
#define TELE_DGRAM_H

#include <rte_telemetry.h>

/* Callbacks of DPDK's telemetry: /rnic/flows, /rnic/records. */
int tele_tell_flows(const char *cmd, const char *params, struct rte_tel_data *d);
int tele_tell_records(const char *cmd, const char *params, struct rte_tel_data *d);

#endif
