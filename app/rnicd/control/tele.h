/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Telemetry: commands /rnic/... of DPDK's telemetry socket (dpdk-telemetry.py). Without parameter a command lists, one
 * line of text for each object; with its number (ports: name) it tells everything of one.
 */
#ifndef TELE_H
#define TELE_H

#include <stdbool.h>

bool tele_start(void);
void tele_stop(void);

/* Where the socket lies; NULL: there is none, DPDK could not make it. */
const char *tele_path(void);

#endif
