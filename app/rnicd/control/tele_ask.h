/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What telemetry asks of workers, by command. Telemetry's thread, without loop_lock: each call sends a command to every
 * worker and waits for the answers, 2 s at most.
 */
#ifndef TELE_ASK_H
#define TELE_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "border/look.h"
#include "border/rnicd.h"

struct tele_conn {
	char name[128]; /* device and both ends */
	struct look_conn look;
};

/* Connections that still exist: *n of them, freed by the caller; NULL: no memory, or no answer in time. */
struct tele_conn *tele_conns(uint32_t *n);

/* False: no memory, or no answer in time. */
bool tele_workers(struct look_worker out[RNICD_MAX_WORKERS]);

/* The listeners of a worker, which are those of all: *n. False as above. */
bool tele_listeners(struct look_listener out[LOOK_LISTENERS], uint32_t *n);

/*
 * The flows of reliable datagrams: those of device i begin at [i * RD_PEERS], n[i] of them. Freed by the caller; NULL:
 * no memory, or no answer in time.
 */
struct look_flow *tele_flows(uint32_t n[RNICD_MAX_PORTS]);

/* The messages that wait for segments: those of worker i begin at [i * LOOK_RECORDS], n[i] of them. Else as above. */
struct look_record *tele_records(uint32_t n[RNICD_MAX_WORKERS]);

/* Under loop_lock: from now on no command is sent, and the calls above fail. */
void tele_ask_stop(void);

#endif
