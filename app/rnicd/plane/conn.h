/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connections, listeners and neighbours of a worker: the functions that commands and the other files of a worker's
 * turn call. Only the worker's thread calls them.
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
 * Opens a connection actively. w must be the worker that conn_owner() names for a. conn_open() fills in p->tcp and
 * p->iss, and looks up the neighbour; the SYN waits until the neighbour's MAC address is known. *c stays valid until
 * QP_FX_CLOSED. *qp: why the connection was refused, set if the result is CONN_QP.
 */
RN_NODISCARD enum conn_verdict conn_open(struct rnicd_worker *w, const struct conn_addr *a, struct rc_tcp_params *p,
					 struct rc **c, enum qp_verdict *qp);

/*
 * Sets the client that owns the connection's QP. From now on frames may refer to the client's memory. The caller is
 * the command that attaches a QP (open, accept, attach). NULL: every byte is copied into the frames.
 */
void conn_set_client(struct rc *c, struct worker_client *client);

/* Sets the DSCP of the connection's packets from now on. The two ECN bits belong to TCP (RFC 3168), which sends 0. */
void conn_set_tos(struct rc *c, uint8_t tos);

/* The addresses of a connection. The pointer is valid until QP_FX_CLOSED. */
const struct conn_addr *conn_addr(const struct rc *c);

/*
 * Whether bytes of these regions wait to be sent or acknowledged on any of the worker's connections. If the tenant has
 * anything in flight, the time is proportional to the number of connections.
 */
bool conn_refers(const struct rnicd_worker *w, const struct cmd_refers *r);

/*
 * A listener: each worker has its own copy. A connection that the listener takes begins with the listener's tos,
 * flags, owner and policy; owner and policy may change when the program accepts the connection.
 */
struct conn_listen {
	uint32_t port;
	uint16_t lport;
	uint16_t backlog; /* connections of this worker that may be without QP_FX_CONNECT_REQUEST at once; 0: 64 */
	uint8_t tos;      /* of the packets that its connections send */
	uint32_t flags;   /* RC_* */
	uint64_t owner;   /* rc_params.owner */
	struct mpa_policy policy;
};

/* Puts a listener up: CONN_OK, CONN_IN_USE or CONN_FULL. */
RN_NODISCARD enum conn_verdict conn_listen(struct rnicd_worker *w, const struct conn_listen *l);

/* Ends the listener, if there is one. Connections that it has taken go on. */
void conn_unlisten(struct rnicd_worker *w, uint32_t port, uint16_t lport);

/*
 * Looks up the MAC address of the neighbour that packets to ip go to. After NEIGH_WAIT an EVENT_NEIGH follows. The
 * port's own address is NEIGH_READY.
 */
enum neigh_verdict neigh_resolve(struct rnicd_worker *w, struct rnicd_port *port, const struct pkt_addr *ip);

#endif
