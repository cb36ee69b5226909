/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of reliable datagrams. Control thread. */
#ifndef RD_MEMORY_H
#define RD_MEMORY_H

#include "border/rd_view.h"

/*
 * Of the device, at the worker that owns the QPN; made when it is first asked for, and kept as long as the daemon runs.
 * NULL: no memory.
 */
struct rd_port *rd_memory(uint32_t port, uint32_t qpn);

/* A queue pair of QP_RD, which lies in a struct rd_qp, after qp_init. Returns what rd_attach returns. */
RN_NODISCARD enum qp_verdict rd_qp_init(struct qp *qp, struct rd_port *of, struct rd_manner manner);

#endif
