/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram sockets in a worker: UDP between a program's rings (ipc_gram.h) and a peer that may be anyone. Worker
 * thread.
 *
 *	program's record → tx ring → gram_transmit: head copied and checked → one copy → frame, or fragments (frag.h)
 *	frame → gram_input: socket by port and address → one copy → rx ring → program
 *
 * All sockets with one UDP port are the worker's that gram_owner() names, so any worker knows where a datagram goes.
 */
#ifndef RNICD_GRAM_H
#define RNICD_GRAM_H

#include <rte_mbuf.h>

#include "border/cmd.h"
#include "border/gram_view.h"
#include "pkt/pkt_icmp.h"

struct rnicd_worker;

#define GRAM_HASH 4096u

struct gram_ctx {
	struct gram *slot[GRAM_HASH]; /* by the lower bits of lport; those that came last are first */
	struct rn_list ready, telling;
};

/* A UDP packet for a port of this worker's that is not datagram-port, checksum good. The frame stays the caller's. */
void gram_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p);
/* A host says by ICMP, checksum good, that nobody has the port of a datagram; this worker has the sender's port. */
void gram_refused(struct rnicd_worker *w, const struct pkt_refused *r);

/* The socket's doorbell has been rung. */
void gram_ring(struct rnicd_worker *w, struct gram *g);
/* The steps of a turn; how many datagrams have left. */
uint32_t gram_transmit(struct rnicd_worker *w);
void gram_events(struct rnicd_worker *w);
/* Before the worker sleeps. */
bool gram_waits(const struct rnicd_worker *w);

void command_gram(struct rnicd_worker *w, struct cmd *c);

/* ---- between the files of this kind ---- */

/* Answers a program that has asked to be told. */
void gram_answer(struct rnicd_worker *w, struct gram *g);
/* At most `share` datagrams. False: there is no room for more now. */
bool gram_send(struct rnicd_worker *w, struct gram *g, uint32_t share, uint32_t *count);
/* The program has broken the rules of its memory. */
void gram_broken(struct rnicd_worker *w, struct gram *g);

#endif
