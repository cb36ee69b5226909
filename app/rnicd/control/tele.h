/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Telemetry: commands /rnic/... of DPDK's telemetry socket (dpdk-telemetry.py). Without parameter a command lists
 * objects, one line of text each. With the number of an object (ports and flows: the name) it shows all values of that
 * object.
 */
#ifndef TELE_H
#define TELE_H

#include <stdbool.h>

bool tele_start(void);
void tele_stop(void);

/* The path of the socket; NULL: DPDK could not make one. */
const char *tele_path(void);

#endif
