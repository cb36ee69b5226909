/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections as their workers see them, for telemetry. */
#ifndef TELE_CONN_H
#define TELE_CONN_H

#include <stdint.h>

#include "qp/qp.h"

struct tele_conn {
	char name[128]; /* device and both ends */
	uint32_t worker;
	struct qp_conn *conn; /* not to be used by the reader */
	uint64_t key;
	bool here;            /* the rest was filled in */
	enum qp_conn_state state;
	struct tcpl_info tcp;
	struct tcpl_stats stats;
	bool crc, rx_markers, tx_markers;
};

/* Telemetry's thread, without loop_lock: asks the workers and waits for them. *n of them, freed by the caller; NULL: no
 * memory, or no answer in time. */
struct tele_conn *tele_conns(uint32_t *n);

#endif
