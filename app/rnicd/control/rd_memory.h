/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of reliable datagrams: pairs, flows, packets. Control thread. */
#ifndef RD_MEMORY_H
#define RD_MEMORY_H

#include "border/rd_view.h"

/*
 * The memory of the device's reliable datagrams at the worker that owns the QPN. It is made when it is first asked for,
 * and kept as long as the daemon runs. NULL: no memory.
 */
struct rd_port *rd_memory(uint32_t port, uint32_t qpn);

/* Called after qp_init() of a QP_RD, which lies in a struct rd_qp: joins it with the memory `of`. Returns what
 * rd_attach() returns. */
RN_NODISCARD enum qp_verdict rd_qp_init(struct qp *qp, struct rd_port *of, struct rd_manner manner);

#endif
