/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IPv4 fragments of UDP datagrams (pkt_frag.h): reassembled before the owner is looked up, and made from datagrams
 * longer than the port's MTU. All fragments that a port receives are one worker's (frag_owner), whichever queue they
 * came by: only the first of a datagram names UDP ports. A complete datagram is a frame in several buffers, and goes to
 * its owner like any other frame. Worker thread.
 */
#ifndef RNICD_FRAG_H
#define RNICD_FRAG_H

#include <rte_mbuf.h>

#include "border/rnicd.h"
#include "pkt/pkt_frag.h"

struct rnicd_worker;

#define FRAG_IDS 256u /* counters of identifications; destinations share them by a hash */

static inline uint32_t frag_owner(const struct rnicd_port *port) { return port->index % rnicd.cfg.n_workers; }

/* At start: memory for the ports whose fragments are this worker's. False: there is none. */
RN_NODISCARD bool frag_start(struct rnicd_worker *w);
void frag_stop(struct rnicd_worker *w); /* all buffers are given back; before the ports' pools go */

/*
 * Handles a fragment (PKT_FRAGMENT of pkt_parse()) for the port's own address, at the worker frag_owner(). Takes m.
 * Returns the whole datagram, to be parsed; NULL: fragments are still missing, or m was dropped and counted.
 */
struct rte_mbuf *frag_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p);

/* Makes one frame of the fragments that pkt_frag_whole() returns; frees those that pkt_frag_dead() returns. */
struct rte_mbuf *frag_joined(struct pkt_frag_table *t);
void frag_free_dead(struct pkt_frag_table *t);

void frag_timers(struct rnicd_worker *w);
uint64_t frag_due(const struct rnicd_worker *w); /* ns */

/* Buffers for a datagram with `len` octets behind its IPv4 header on this port; at most PKT_FRAG_EACH. */
uint32_t frag_buffers(const struct rnicd_port *port, uint32_t len);
/* Allocates this many buffers as one frame, each with room for a fragment's headers; NULL: not enough buffers. */
struct rte_mbuf *frag_chain(const struct rnicd_port *port, uint32_t n);
/*
 * Makes fragments of a frame of frag_chain(), one of each buffer: the first buffer has all headers, the others only
 * bytes; each but the last has pkt_frag_step() octets behind the IPv4 header. Takes m. Returns the number of fragments;
 * out has room for PKT_FRAG_EACH.
 */
uint32_t frag_cut(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, struct rte_mbuf **out);
/* Puts m into the port's queue: as one frame, or as fragments if it is longer than the MTU. Takes m. */
void frag_push(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m);

#endif
