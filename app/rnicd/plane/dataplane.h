/* SPDX-License-Identifier: BSD-3-Clause */
/* Start and stop of the plane. Control thread only. */
#ifndef RNICD_DATAPLANE_H
#define RNICD_DATAPLANE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Makes the plane that rnicd.cfg describes: EAL, the two queues of the border, ports, workers. On failure, err has one
 * sentence (what failed, and what to do), and everything is undone except EAL, which DPDK can start only once per
 * process.
 */
bool rnicd_dataplane_start(char *err, uint32_t err_len);
/* One sentence: why DPDK has no telemetry socket, if control/tele.h finds none. */
const char *rnicd_dataplane_no_telemetry(void);
/* Stops workers, drains, closes ports, frees the queues. Connections are ended by the control side before. */
void rnicd_dataplane_stop(void);
/* The end of DPDK in this process, after the stop; it cannot be started again. */
void rnicd_dataplane_exit(void);

#endif
