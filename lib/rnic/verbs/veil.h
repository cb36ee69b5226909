/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Veils: protection of memory that the device may be writing, in a program under rnicrun --sanitize: the buffers of
 * posted receives, and the targets of a peer's Writes that nothing orders yet (wqe/qp_hold.h). Such pages get
 * PROT_NONE. When the program touches such a byte, that is a finding, and the page becomes accessible again. Only pages
 * without other memory of the program are protected: for a receive those wholly inside its buffer, for a Write those
 * wholly inside the region. There are no veils where the device's part runs in this process, since the device's part
 * writes through the same addresses. The functions may be called from any thread and from the handler of SIGSEGV. Under
 * the one spinlock no veiled byte is touched.
 */
#ifndef RNIC_VEIL_H
#define RNIC_VEIL_H

#include "rnic/verbs/objects.h"

/* ---- private to lib/rnic/verbs ---- */

struct rnic_veil {
	const struct rnic_qp *qp; /* NULL: of a shared receive queue */
	const void *queue;        /* names the veil in rnic_veil_take(): the receive's queue; for Writes the qp */
	uint64_t from, to;        /* the veiled bytes */
	uint64_t least, most;     /* only pages inside these addresses are protected */
	uint64_t wr_id;           /* for a receive */
	bool write;               /* for a peer's Write */
	uint32_t number;          /* number of the receive in its queue; for Writes: of their last record in qp->hold */
};

/* Installs the fault handler. Call before the first veil of a process. */
void rnic_veil_start(void);
void rnic_veil_put(const struct rnic_veil *v);
/* Take veils off: of the receive with this number; of all that name this queue; of a range of memory. */
void rnic_veil_take(const void *queue, uint32_t number);
void rnic_veil_take_all(const void *queue);
void rnic_veil_take_range(uint64_t from, uint64_t len);

#endif
