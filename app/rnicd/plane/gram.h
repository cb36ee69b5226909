/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram sockets in a worker: UDP between a program's rings (ipc_gram.h) and any peer. Worker thread.
 *
 * 	program's record → tx ring → gram_transmit: head copied and checked → one copy → frame, or fragments (frag.h)
 * 	frame → gram_input: socket by port and address → one copy → rx ring → program
 *
 * Over the wire iwarp (udps.h) the frames are segments to datagram-port instead, whose number names the UDP port:
 *
 * 	gram_transmit → gram_iwarp_peer: does the peer take them? → gram_iwarp_send: one copy that sums → frames
 * 	ud_input → gram_iwarp_input: CRC, rules, Q_Key, socket → one copy; of several segments when all are there
 *
 * All sockets with one UDP port are the worker's that gram_owner() names, so any worker knows where a datagram goes.
 */
#ifndef RNICD_GRAM_H
#define RNICD_GRAM_H

#include <rte_mbuf.h>

#include "border/cmd.h"
#include "border/flow_owner.h"
#include "border/gram_view.h"
#include "pkt/pkt_frag.h"
#include "pkt/pkt_icmp.h"
#include "udp/udps.h"

struct rnicd_worker;

#define GRAM_HASH 4096u

struct gram_ctx {
	struct gram *slot[GRAM_HASH]; /* hash table by gram_slot(); the newest sockets are first */
	struct rn_list ready, telling;
	struct udps_table *peers;
	struct pkt_frag_table *segs; /* segments of incomplete datagrams */
	struct pkt_frag_counts seg_counts;
	uint32_t msn; /* of the last datagram that left as segments */
};

/* A segment of a Write-Record; q: its packet, with the sockets' ports and the place of its octets. */
struct gram_seg {
	const struct pkt *q;
	uint32_t unit, total;
	uint32_t id, offset;
	uint32_t stag;
	uint64_t to; /* tagged offset */
};

/* Ports in a chain have nothing in common that a program knows: it cannot put the sockets of many ports into one. */
static inline uint32_t gram_slot(uint16_t lport)
{
	return (uint32_t)flow_mix(lport ^ rnicd.secret[0]) % GRAM_HASH; /* other bits than those of gram_owner() */
}

/* At start: memory for the wire iwarp. False: there is none. */
RN_NODISCARD bool gram_start(struct rnicd_worker *w);
void gram_stop(struct rnicd_worker *w); /* all buffers are given back; before the ports' pools go */
void gram_timers(struct rnicd_worker *w);
uint64_t gram_due(const struct rnicd_worker *w); /* ns */

/* A datagram whose destination is a socket's number; parsed. Takes m. */
void gram_iwarp_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p,
		      const struct udpl_hdr *h);

/* A UDP packet with a good checksum, for a port of this worker that is not datagram-port. The caller keeps the
 * frame. */
void gram_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p);
/* An ICMP message, checksum good: no socket has the port of a datagram that was sent from a port of this worker. */
void gram_refused(struct rnicd_worker *w, const struct pkt_refused *r);

/* The socket's doorbell has been rung. */
void gram_ring(struct rnicd_worker *w, struct gram *g);
/* The steps of a worker's turn. gram_transmit returns how many datagrams have left. */
uint32_t gram_transmit(struct rnicd_worker *w);
void gram_events(struct rnicd_worker *w);
/* Whether a socket has something to send or to tell: then the worker does not sleep. */
bool gram_waits(const struct rnicd_worker *w);

void command_gram(struct rnicd_worker *w, struct cmd *c);

/* ---- between the files of this kind ---- */

/* Notifies a program that waits. */
void gram_answer(struct rnicd_worker *w, struct gram *g);
/* Tells the program and IPC_SOCK_LIST by which wire a datagram has left or come. */
static inline void gram_say_wire(const struct gram *g, uint32_t wire)
{
	__atomic_store_n(&g->mem->wire, wire, __ATOMIC_RELAXED);
}
/* Sends at most `share` datagrams. False: there is no room for more now. */
bool gram_send(struct rnicd_worker *w, struct gram *g, uint32_t share, uint32_t *count);
/* The next record's bytes from `at` on, where they lie in the ring; returns the number of pieces. */
static inline uint32_t gram_tx_bytes(const struct gram *g, uint32_t at, uint32_t len, struct rn_iov iov[2])
{
	uint8_t *ring = (uint8_t *)g->mem + IPC_GRAM_TX_OFF;
	const uint32_t place = (g->tx_head + (uint32_t)sizeof(struct ipc_gram_rec) + at) & (IPC_GRAM_RING - 1);
	const uint32_t first = rn_min_u32(len, IPC_GRAM_RING - place);

	iov[0] = (struct rn_iov){ .base = ring + place, .len = first };
	iov[1] = (struct rn_iov){ .base = ring, .len = len - first };
	return len > first ? 2 : 1;
}

/* This worker's socket that p is for, by dport, src and sport; NULL: none. */
struct gram *gram_find(struct rnicd_worker *w, uint32_t dev, const struct pkt *p);
/*
 * Puts a datagram into the socket's receive ring: rec->len octets of m from `off` on. False: there was no room, which
 * was counted.
 */
bool gram_deliver(struct rnicd_worker *w, struct rnicd_port *port, struct gram *g, const struct rte_mbuf *m,
		  uint32_t off, const struct ipc_gram_rec *rec);
/* Fills in a record's fields about the packet. */
struct ipc_gram_rec gram_record(const struct rnicd_port *port, const struct rte_mbuf *m, const struct pkt *p);

/* Takes over the program's index of the receive ring. False: the index is impossible. */
bool gram_read(struct rnicd_worker *w, struct gram *g);
/* Puts a record whose octets lie in a slot into the receive ring. False: there is no room for the record now. */
bool gram_put_slot(struct rnicd_worker *w, struct gram *g, const struct ipc_gram_rec *rec);

/* ---- the wire iwarp: gram_iwarp.c sends, gram_iwarp_rx.c receives, gram_slot.c places ---- */

/*
 * Lends g's slots to the peer's socket that asks by packet q, or renews its loan. Returns the slots' STag; 0: another
 * socket has the slots.
 */
uint32_t gram_lend(struct rnicd_worker *w, struct gram *g, uint32_t dev, const struct pkt *q);
/*
 * Frees the slots that the program has read. Called whenever the program's index is taken over: when the index has
 * moved on by half its range, a slot that was read looks unread.
 */
void gram_slots_read(struct gram *g);
/*
 * Places a segment of a Write-Record, of which only the slot is still to be checked. True: the segment completed its
 * datagram, which was delivered.
 */
bool gram_place(struct rnicd_worker *w, struct rnicd_port *port, struct gram *g, const struct rte_mbuf *m,
		const struct gram_seg *seg);

/*
 * The record's peer, if the peer takes the datagram by iWARP; NULL: the datagram leaves as plain UDP. May send the peer
 * a question.
 */
struct udps_peer *gram_iwarp_peer(struct rnicd_worker *w, const struct gram *g, const struct ipc_gram_rec *rec);
/* Sends the next record; returns the number of frames. 0: there is no room now. */
uint32_t gram_iwarp_send(struct rnicd_worker *w, const struct gram *g, const struct ipc_gram_rec *rec,
			 struct udps_peer *to);

/* Handles a program that has written impossible values into the shared memory. */
void gram_broken(struct rnicd_worker *w, struct gram *g);

#endif
