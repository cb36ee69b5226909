/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Telemetry's questions to workers. Called in telemetry's thread without loop_lock: each call sends a command to every
 * worker and waits at most 2 s for the answers.
 */
#ifndef TELE_ASK_H
#define TELE_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "border/look.h"
#include "border/rnicd.h"

struct tele_conn {
	uint32_t number; /* as in struct cm_conn */
	char name[128];  /* device and both ends */
	struct look_conn look;
};

/*
 * The connection with this number, if it still exists; number 0: as many of those that still exist as an answer of
 * telemetry may have, without the first `skip` of the list. *n of them, freed by the caller; NULL: no memory, or no
 * answer in time.
 */
struct tele_conn *tele_conns(uint32_t number, uint32_t skip, uint32_t *n);

/* False: no memory, or no answer in time. */
bool tele_workers(struct look_worker out[RNICD_MAX_WORKERS]);

/* The listeners of worker 0, which are the same on all workers: *n of them. False as above. */
bool tele_listeners(struct look_listener out[LOOK_LISTENERS], uint32_t *n);

/*
 * The flows of reliable datagrams. The list has a part for each device i and worker k: part p = k * n_ports + i begins
 * at [p * LOOK_FLOWS] and has n[p] entries. The caller frees the list. NULL: no memory, or no answer in time.
 */
struct look_flow *tele_flows(uint32_t n[RNICD_MAX_PORTS * RNICD_MAX_WORKERS]);

/* The messages that wait for segments. Those of worker i begin at [i * LOOK_RECORDS], and are n[i]. Else as above. */
struct look_record *tele_records(uint32_t n[RNICD_MAX_WORKERS]);

/* Under loop_lock: makes the calls above fail from now on, without sending commands. */
void tele_ask_stop(void);

#endif
