/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections, listeners and neighbours of a worker, as the bodies of commands and the turn's other files use them.
 * Worker thread.
 */
#ifndef RNICD_CONN_H
#define RNICD_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "border/cmd.h"
#include "pkt/pkt.h"
#include "conn/rc_tcp.h"

struct rnicd_worker;
struct worker_client;

/*
 * Active open on the worker that conn_owner() names. p->tcp and p->iss are filled in here. The neighbour is looked up,
 * and the SYN waits for it. *c is valid until QP_FX_CLOSED.
 */
RN_NODISCARD enum conn_verdict conn_open(struct rnicd_worker *w, const struct conn_addr *a, struct rc_tcp_params *p,
					 struct rc **c, enum qp_verdict *qp);

/*
 * The connection's QP belongs to this client: from now on frames may refer to the client's memory. Called when a QP is
 * attached (open, accept, attach). NULL: everything is copied.
 */
void conn_set_client(struct rc *c, struct worker_client *client);

/* The DSCP of the connection's packets from now on; the two bits of ECN are TCP's (RFC 3168), which leaves them 0. */
void conn_set_tos(struct rc *c, uint8_t tos);

/* The addresses of a connection; valid until QP_FX_CLOSED. */
const struct conn_addr *conn_addr(const struct rc *c);

/* Whether any connection still has bytes in this memory to send, or to send again. Checks every connection. */
bool conn_refers(const struct rnicd_worker *w, const uint8_t *base, uint64_t len);

/*
 * A listener is put on every worker. owner: what rc.owner of its connections starts with. policy: of its
 * connections until accept. backlog: connections that may be without QP_FX_CONNECT_REQUEST at once, per worker.
 */
struct conn_listen {
	uint32_t port;
	uint16_t lport;
	uint16_t backlog; /* 0: 64 */
	uint8_t tos;      /* of the packets of its connections */
	uint32_t flags;   /* RC_* of its connections */
	uint64_t owner;
	struct mpa_policy policy;
};
RN_NODISCARD enum conn_verdict conn_listen(struct rnicd_worker *w, const struct conn_listen *l); /* OK, IN_USE, FULL */
void conn_unlisten(struct rnicd_worker *w, uint32_t port, uint16_t lport);

/* Looks up the neighbour for an address: EVENT_NEIGH follows NEIGH_WAIT. The port's own address is READY. */
enum neigh_verdict neigh_resolve(struct rnicd_worker *w, struct rnicd_port *port, const struct pkt_addr *ip);

#endif
