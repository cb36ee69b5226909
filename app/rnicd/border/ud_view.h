/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram QPs and multicast groups as a worker has them. The control thread makes and frees the memory; the worker
 * alone writes it from the command that adds the object until the answer to the command that takes it away.
 */
#ifndef UD_VIEW_H
#define UD_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_list.h"
#include "pkt/pkt.h"
#include "dgram/dgram.h"

/* A datagram QP with its place in the worker's table. */
struct ud_qp {
	struct qp qp;
	uint32_t port;      /* index of the device */
	uint32_t hash;      /* ud_hash */
	struct ud_qp *next; /* in the same bucket of the worker's table */
};

/* A queue pair whose messages may take several datagrams. */
struct ud_long_qp {
	struct ud_qp u;
	struct dgram_msgs msgs;
};

static inline struct ud_qp *ud_of(struct qp *qp) { return rn_container_of(qp, struct ud_qp, qp); }

/* A QP in a group. */
struct ud_member {
	struct ud_qp *u;
	bool deaf; /* block loopback: the QP does not receive the datagrams that it has sent to the group */
	struct ud_member *next;
};

/*
 * A group that QPs of a device have joined, as one worker has it. Every worker has this struct as long as any worker
 * has a QP in the group.
 */
struct ud_group {
	uint32_t port;
	struct pkt_addr addr;
	uint32_t workers;          /* bit mask of the workers that have members */
	uint32_t qps;              /* members, on all workers */
	struct ud_member *members; /* on this worker */
	struct ud_group *next;
	struct rn_slist late; /* frames from lines that wait for a later turn (ud_group.c), the oldest first */
	uint32_t n_late;
	struct rn_link late_link; /* in the worker's list of groups with such frames */
};

#endif
