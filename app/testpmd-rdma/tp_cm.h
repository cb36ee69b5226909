/* SPDX-License-Identifier: BSD-3-Clause */
/* What client and server share of the connection manager. */
#ifndef TP_CM_H
#define TP_CM_H

#include "tp_session.h"

#include <netinet/in.h>

/* The next event, waiting at most timeout ns; *ev is NULL when none came. The caller acknowledges it. */
enum tp_verdict tp_cm_next(struct rdma_event_channel *ch, uint64_t timeout, struct rdma_cm_event **ev,
			   struct tp_err *err);
/* An address out of a name; passive: for listening. */
enum tp_verdict tp_cm_address(const char *host, uint16_t port, bool passive, struct sockaddr_storage *sa,
			      struct tp_err *err);
/* Connection parameters with as many Reads outstanding as the device does, and p as private data in wire[]. */
void tp_cm_param(struct rdma_conn_param *cp, struct ibv_context *verbs, const struct tp_private *p,
		 uint8_t wire[TP_PRIVATE_SIZE]);
/* "10.0.0.1 port 4711" */
void tp_cm_format(const struct sockaddr *sa, char *buf, size_t len);

#endif
