/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram sockets in a worker (border/grams.h): frames and buffers around the rules that both planes share. Worker
 * thread.
 *
 * 	program's record → tx ring → gram_transmit → gram_io.c: one copy → frame, or fragments (frag.h)
 * 	frame → gram_input: socket by port and address → one copy → rx ring → program
 * 	ud_input → gram_iwarp_input → gram_iwarp_take
 *
 * All sockets with one UDP port are the worker's that gram_owner() names, so any worker knows where a datagram goes.
 */
#ifndef RNICD_GRAM_H
#define RNICD_GRAM_H

#include <rte_mbuf.h>

#include "border/cmd.h"
#include "border/grams.h"

struct rnicd_worker;

/* At start: memory for the wire iwarp. False: there is none. */
RN_NODISCARD bool gram_start(struct rnicd_worker *w);
void gram_stop(struct rnicd_worker *w); /* all buffers are given back; before the ports' pools go */
void gram_timers(struct rnicd_worker *w);

/* A datagram whose destination is a socket's number; parsed. Takes m. */
void gram_iwarp_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p,
		      const struct udpl_hdr *h);

/* A UDP packet with a good checksum, for a port of this worker that is not datagram-port. The caller keeps the
 * frame. */
void gram_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p);

void command_gram(struct rnicd_worker *w, struct cmd *c);

/* ---- private to app/rnicd/plane ---- */

extern const struct gram_plane gram_frames; /* gram_io.c */

#endif
