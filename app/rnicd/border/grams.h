/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram sockets, as both planes have them: UDP between a program's rings (ipc_gram.h) and any peer, and the wire
 * iwarp (udps.h, doc/datagram-sockets.md). A plane brings packets, buffers and what struct gram_plane names; all rules
 * of rings, slots, numbers, questions and answers are here.
 *
 * 	program's record → tx ring → gram_transmit: head copied and checked → plain(), or iwarp() if the peer takes it
 * 	UDP payload → gram_find: socket by port and address → gram_deliver: one copy → rx ring → program
 * 	datagram-port → gram_iwarp_take: CRC, rules, Q_Key, socket → one copy; of several segments gram_gather
 *
 * Everything is for the worker that has the sockets.
 */
#ifndef GRAMS_H
#define GRAMS_H

#include "border/flow_owner.h"
#include "border/gram_view.h"
#include "pkt/pkt_frag.h"
#include "pkt/pkt_icmp.h"
#include "udp/udps.h"

struct grams;
struct qp_stats;

#define GRAM_HASH  4096u
#define GRAM_SHARE 32u /* datagrams of one socket before the next one's turn, and in one step of its end */

/* What the planes do differently. */
struct gram_plane {
	/* Sends the `len` octets at p from the device's datagram-port to that of the address. */
	void (*say)(struct grams *c, uint32_t dev, const struct pkt_addr *to, const uint8_t *p, uint32_t len);
	/* Whether one more stranger may be answered now. */
	bool (*may_answer)(struct grams *c, uint32_t dev);
	/*
	 * Send the socket's next datagram, whose head is *rec: as plain UDP, or as gram_segments() segments to a peer.
	 * Both return its weight in the turn. 0: there is no room now.
	 */
	uint32_t (*plain)(struct grams *c, struct gram *g, const struct ipc_gram_rec *rec);
	uint32_t (*iwarp)(struct grams *c, const struct gram *g, const struct ipc_gram_rec *rec, struct udps_peer *to);
	/*
	 * NULL: each datagram to send names its device, and each received one does. Else the plane of sockets: finds
	 * the device by which a datagram to send leaves; GRAM_NO_DEV: by none.
	 */
	uint32_t (*route)(struct grams *c, const struct gram *g, const struct ipc_gram_rec *rec);
	/* NULL: always. Whether the socket still has its UDP port. */
	bool (*holds)(const struct gram *g);
};

/* The sockets of a worker. The plane sets the members up to `segs`, and calls grams_begin(). */
struct grams {
	const struct gram_plane *plane;
	const uint64_t *now;
	struct qp_stats *stats;
	uint32_t worker;
	struct udps_table *peers;
	struct pkt_frag_table *segs;  /* segments of incomplete datagrams */
	struct gram *slot[GRAM_HASH]; /* hash table by gram_slot(); the newest sockets are first */
	struct rn_list ready, telling;
	struct pkt_frag_counts seg_counts;
	uint32_t msn; /* of the last datagram that left as segments */
};

/* Ports in a chain have nothing in common that a program knows: it cannot put the sockets of many ports into one. */
static inline uint32_t gram_slot(uint16_t lport)
{
	return (uint32_t)flow_mix(lport ^ rnicd.secret[0]) % GRAM_HASH; /* other bits than those of gram_owner() */
}

void grams_begin(struct grams *c);

/* ---- life ---- */

void gram_open(struct grams *c, struct gram *g);
/*
 * The program has closed the socket: datagrams that it sent before still leave, unless give_up. False: some have not
 * left yet, and the socket is still open.
 */
bool gram_close(struct grams *c, struct gram *g, bool give_up);
/* The socket's doorbell has been rung, or its plane has room for it again. */
void gram_ring(struct grams *c, struct gram *g);

/* ---- the steps of a worker's turn ---- */

/* Sends; returns the weight of the datagrams that have left. */
uint32_t gram_transmit(struct grams *c);
void gram_events(struct grams *c);
/* Whether a socket has something to send or to tell: then the worker does not sleep. */
static inline bool gram_waits(const struct grams *c)
{
	return !rn_list_empty(&c->ready) || !rn_list_empty(&c->telling);
}
/* Gives up incomplete datagrams whose time is over. True: `segs` may have references to free (pkt_frag_dead()). */
bool gram_expire(struct grams *c);
static inline uint64_t gram_due(const struct grams *c) { return pkt_frag_due(c->segs); } /* ns */

/* ---- receiving ---- */

/* The socket that a packet to a port of this worker is for, by dport, src and sport; NULL: none. */
struct gram *gram_find(struct grams *c, uint32_t dev, const struct pkt *p);
/* Fills in a record's fields about the packet. */
struct ipc_gram_rec gram_record(uint32_t dev, const struct pkt *p, uint8_t ttl);
/*
 * Puts a datagram of the device, rec->len octets in n pieces, into the socket's receive ring. False: there was no room,
 * which was counted.
 */
bool gram_deliver(struct grams *c, struct gram *g, uint32_t dev, const struct ipc_gram_rec *rec,
		  const struct rn_iov *iov, uint32_t n);
/* No socket has the port of a datagram that was sent from a port of this worker. */
void gram_refused(struct grams *c, const struct pkt_refused *r);

/* The program's next call fails with this errno. */
void gram_fail(struct grams *c, struct gram *g, int err);

/* A datagram of datagram-port: a UDP payload in one piece. */
struct gram_came {
	uint32_t dev;
	const struct pkt *p;  /* its addresses, TOS and length */
	const uint8_t *bytes; /* p->payload_len octets */
	uint8_t ttl;
};

/* One of the segments of a datagram that is not whole yet. */
struct gram_part {
	struct gram *g;
	uint32_t dev;
	struct ipc_gram_rec rec; /* of the whole datagram */
	struct pkt_frag f;       /* its place */
	const uint8_t *bytes;    /* f.len octets */
};

enum gram_took {
	GRAM_DROPPED, /* it broke a rule or had no socket, or was a question or an answer */
	GRAM_TAKEN,
	GRAM_PART, /* *part tells of it: the plane keeps the segment, and calls gram_gather() */
};

/* Takes a datagram whose destination is a socket's number, parsed as *h. */
enum gram_took gram_iwarp_take(struct grams *c, const struct gram_came *in, const struct udpl_hdr *h,
			       struct gram_part *part);
/* The same where no process has the port: tells the sender so. */
void gram_iwarp_nobody(struct grams *c, const struct gram_came *in, const struct udpl_hdr *h);
/*
 * Notes the segment, which the plane keeps as `ref`. PKT_FRAG_WHOLE: the plane takes the datagram's references
 * (pkt_frag_whole()), and delivers it if gram_whole_good(). Afterwards it frees those of pkt_frag_dead().
 */
enum pkt_frag_verdict gram_gather(struct grams *c, const struct gram_part *part, void *ref);
bool gram_whole_good(struct grams *c, const struct gram_part *part);

/* ---- sending ---- */

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

/* A datagram that leaves as segments: what they have in common. */
struct gram_cut {
	struct udpl_hdr h;
	uint32_t unit, len;
	uint32_t msn, stag;
	uint64_t to; /* of the slot's first octet */
};

/* In how many segments a datagram goes to the peer. */
uint32_t gram_segments(const struct ipc_gram_rec *rec, const struct udps_peer *to);
/* Begins the datagram, of which there is room for all segments, and counts it. */
struct gram_cut gram_cut_begin(struct grams *c, const struct gram *g, const struct ipc_gram_rec *rec,
			       struct udps_peer *to);
/* Builds segment i of the socket's next record in one pass that copies and sums; returns its length. */
uint32_t gram_cut_build(const struct gram *g, const struct gram_cut *c, uint32_t i, uint8_t *to);

/* ---- private to app/rnicd/border ---- */

/* Notifies a program that waits. */
void gram_answer(struct grams *c, struct gram *g);
/* Handles a program that has written impossible values into the shared memory. */
void gram_broken(struct grams *c, struct gram *g);
/* Whether the socket still has its UDP port; if not, it is broken from now on. */
bool gram_holds(struct grams *c, struct gram *g);
/* Tells the program and IPC_SOCK_LIST by which wire a datagram has left or come. */
static inline void gram_say_wire(const struct gram *g, uint32_t wire)
{
	__atomic_store_n(&g->mem->wire, wire, __ATOMIC_RELAXED);
}
/* Sends at most `share` datagrams. False: there is no room for more now. */
bool gram_send(struct grams *c, struct gram *g, uint32_t share, uint32_t *count);

/* Takes over the program's index of the receive ring. False: the index is impossible. */
bool gram_read(struct grams *c, struct gram *g);
/* Puts a record whose octets lie in a slot into the receive ring. False: there is no room for the record now. */
bool gram_put_slot(struct grams *c, struct gram *g, uint32_t dev, const struct ipc_gram_rec *rec);

/* A segment of a Write-Record; q: its packet, with the sockets' ports and its number of octets. */
struct gram_seg {
	const struct pkt *q;
	const uint8_t *bytes;
	uint32_t unit, total;
	uint32_t id, offset;
	uint32_t stag;
	uint64_t to; /* tagged offset */
};

/*
 * Lends g's slots to the peer's socket that asks by packet q, or renews its loan. Returns the slots' STag; 0: another
 * socket has the slots.
 */
uint32_t gram_lend(struct grams *c, struct gram *g, uint32_t dev, const struct pkt *q);
/*
 * Frees the slots that the program has read. Called whenever the program's index is taken over: when the index has
 * moved on by half its range, a slot that was read looks unread.
 */
void gram_slots_read(struct gram *g);
/*
 * Places a segment of a Write-Record, of which only the slot is still to be checked. The datagram is delivered with
 * *rec when the segment completes it.
 */
void gram_place(struct grams *c, struct gram *g, uint32_t dev, const struct ipc_gram_rec *rec,
		const struct gram_seg *seg);

/*
 * The peer of a record that leaves by the device, if the peer takes the datagram by iWARP; NULL: the datagram leaves as
 * plain UDP. May send the peer a question.
 */
struct udps_peer *gram_iwarp_peer(struct grams *c, struct gram *g, const struct ipc_gram_rec *rec, uint32_t dev);

#endif
