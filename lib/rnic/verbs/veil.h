/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the device may be writing, of a program under rnicrun --sanitize: the buffers of receives that are posted, and
 * what a peer's Writes are for that nothing orders yet (wqe/qp_hold.h). Their pages are taken away from the program;
 * when it touches such a byte, that is a finding, and it gets the page back. Pages are taken away only where no other
 * memory of the program's is on them: of a receive those that lie in its buffer whole, of a Write those that lie in the
 * region whole. Not where the device's part runs in this process, which writes by the same addresses. Any thread, and
 * the handler of SIGSEGV: one spinlock, under which no such byte is touched.
 */
#ifndef RNIC_VEIL_H
#define RNIC_VEIL_H

#include "rnic/verbs/objects.h"

/* ---- private to lib/rnic/verbs ---- */

struct rnic_veil {
	const struct rnic_qp *qp; /* NULL: of a shared receive queue */
	const void *queue;        /* whose, for taking it off; of Writes the qp */
	uint64_t from, to;        /* the bytes */
	uint64_t least, most;     /* no page beyond */
	uint64_t wr_id;           /* of a receive */
	bool write;               /* of a peer's */
	uint32_t number;          /* of the receive in its queue; of Writes the last record's: an Atomic allows them */
};

/* Before the first one of a process, and before others that are watched: the handler. */
void rnic_veil_start(void);
void rnic_veil_put(const struct rnic_veil *v);
/* The program may use it: the receive of that number, those that the queue has, those in memory; all. */
void rnic_veil_take(const void *queue, uint32_t number);
void rnic_veil_take_all(const void *queue);
void rnic_veil_take_range(uint64_t from, uint64_t len);

#endif
