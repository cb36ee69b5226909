/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reliable transport of datagrams. A flow carries packets one way, from a worker of one device to a worker of
 * another; all queue pairs of both workers share the flow. Each packet is delivered at most once; each packet that the
 * sender's end reports as delivered was delivered exactly once. The transport delivers packets in any order; a packet's
 * number tells its place in the order of sending.
 *
 *	 0  version 1 (high nibble), 0 | kind | flags | SACK ranges (of an ACK)
 *	 4  source worker (16 bits) | destination worker (16 bits)
 *	 8  flow: a random number that the sender has drawn for this flow
 *	12  token: the receiver's number for this flow, part of its cookie; 0 in a HELLO
 *	16  number of the packet (DATA), or the lowest number that has not come (ACK)
 *	20  time stamp of the sender (HELLO, DATA), or its echo (COOKIE, ACK); microseconds
 *	24  time between the echoed packet and this ACK; microseconds
 *	28  body: HELLO 16 octets of 0; COOKIE 16 octets; DATA the cookie if UDPR_F_COOKIE is set, then the payload;
 *	    ACK its ranges of numbers that have come: first (32 bits), last plus one (32 bits)
 *	 n  CRC32C as in udpl.h
 *
 * Each ACK tells how wide the receiver's window is. The window begins at the lowest number that has not come. The
 * receiver has a wider window for a sender with much to send, as long as the receiver's caller has memory for it.
 *
 * A HELLO is answered by a COOKIE. The receiver stores nothing for a HELLO, and the COOKIE is as long as the HELLO, so
 * forged HELLOs gain nothing. DATA carries the cookie until an ACK has come. A receiver answers DATA of an unknown flow
 * with UNKNOWN. The values of the kinds lie beyond those of udpl.h, so one UDP port serves both.
 *
 * Loss detection: RACK-TLP (RFC 8985) over packets. Congestion control: Swift (Kumar et al., SIGCOMM 2020), whose
 * target delay is the least round trip plus `target` and flow scaling; topology scaling is left out. What is added to
 * Swift is in udpr_cc.c.
 *
 * Pure: `now` is nanoseconds on the caller's monotonic clock. A flow belongs to one thread.
 */
#ifndef UDPR_H
#define UDPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/rn_base.h"

#define UDPR_HDR_LEN    28u
#define UDPR_COOKIE_LEN 16u
#define UDPR_SACKS      4u    /* ranges in an ACK at most, for a sender that has not set UDPR_F_MUCH */
#define UDPR_SACKS_MUCH 16u   /* the same for a sender that has set UDPR_F_MUCH */
#define UDPR_WINDOW     256u  /* a receiver takes this many numbers, from the lowest missing one on */
#define UDPR_WIDE       4096u /* the same with the memory of udpr_rx_widen() */
#define UDPR_ACK_LEN    (UDPR_HDR_LEN + 8u * UDPR_SACKS_MUCH)
#define UDPR_COOKIE_NS  (4 * RN_NS_PER_S) /* a cookie opens a flow for this long after it was made */
#define UDPR_IDLE_MIN \
	(2 * UDPR_COOKIE_NS + 1u) /* least time before an idle flow is forgotten: its cookies have expired then */

enum udpr_kind {
	UDPR_HELLO = 0x20,
	UDPR_COOKIE,
	UDPR_DATA,
	UDPR_ACK,
	UDPR_UNKNOWN,
};
#define UDPR_KIND_LAST 0x2fu /* kinds from 0x20 to this one are the transport's */

#define UDPR_F_COOKIE 0x01u /* DATA: the cookie precedes what is carried */
#define UDPR_F_TWICE  0x02u /* ACK: the echoed packet had come before */
#define UDPR_F_MUCH \
	0x08u           /* DATA: there is much to send; the sender takes ACKs of UDPR_SACKS_MUCH ranges in any order */
#define UDPR_F_WINDOW 4 /* ACK: the window is UDPR_WINDOW << (flags >> UDPR_F_WINDOW) */
#define UDPR_F_LATE   0x04u /* ACK: the receiver did not run when the packets came, so the delay is not the network's */

enum udpr_verdict {
	UDPR_OK = 0,
	UDPR_SHORT,
	UDPR_BAD_VERSION,
	UDPR_BAD_KIND,
	UDPR_BAD_BODY,   /* the body's length does not fit the kind and the flags */
	UDPR_BAD_COOKIE, /* forged, too old, or for another flow */
	UDPR_STRANGE,    /* for a flow other than this one */
	UDPR_TWICE,      /* the packet had come before */
	UDPR_FAR,        /* a number lies outside the window, or an ACK reports numbers that were not sent */
	UDPR_VERDICTS
};

struct udpr_hdr {
	uint8_t kind; /* enum udpr_kind */
	uint8_t flags;
	uint8_t sacks;
	uint16_t src_worker, dst_worker;
	uint32_t flow, token, number, stamp, hold;
	uint8_t cookie[UDPR_COOKIE_LEN]; /* COOKIE, and DATA with UDPR_F_COOKIE */
	uint32_t body;                   /* parsed only: octets from the begin of the header to the payload of DATA */
	uint32_t body_len;               /* parsed only: octets of the payload */
	struct {
		uint32_t from, to;
	} sack[UDPR_SACKS_MUCH]; /* ACK: the first `sacks` are valid */
};

/* Sets all to 0 but the ranges: to clear these for each packet took 2 % of a worker's time. */
static inline void udpr_hdr_clear(struct udpr_hdr *h) { memset(h, 0, offsetof(struct udpr_hdr, sack)); }

/* The destination worker in a datagram of UDPR_HDR_LEN octets or more. The number is not checked. */
static inline uint32_t udpr_dst_worker(const uint8_t *p) { return (uint32_t)p[6] << 8 | p[7]; }

/* Reads a datagram of len octets, its CRC included. The caller checks the CRC with udpl_crc_good(). */
RN_NODISCARD enum udpr_verdict udpr_parse(const uint8_t *p, uint32_t len, struct udpr_hdr *h);

/*
 * Writes the header, and the cookie or the ranges behind it. Returns how many octets: UDPR_ACK_LEN at most.
 */
uint32_t udpr_build(uint8_t *p, const struct udpr_hdr *h);

/* ---- the receiver's end ---- */

/*
 * Makes the COOKIE that answers a HELLO. peer: the sender's address of peer_len octets, in the caller's form; key: a
 * random secret, the same for all cookies.
 */
void udpr_cookie_make(const uint64_t key[2], const void *peer, uint32_t peer_len, const struct udpr_hdr *hello,
		      uint64_t now, struct udpr_hdr *out);

/* A receiver's flow, 88 octets. Zeroed memory is no flow. */
struct udpr_rx {
	uint64_t heard;  /* when the last DATA came; the caller forgets the flow UDPR_IDLE_MIN after that, or later */
	uint64_t issued; /* when the flow's cookie was made: a flow of the same peer with an older cookie is refused */
	uint64_t *wide;  /* memory of udpr_rx_widen(), in use instead of `bits`; NULL: none */
	uint64_t bits[UDPR_WINDOW / 64]; /* bit (number % window): a number above `next` has come */
	uint32_t next;                   /* the lowest number that has not come */
	uint32_t turn;                   /* number where the ranges of the next ACK begin, if one ACK cannot tell all */
	uint32_t flow, token;
	uint32_t stamp; /* the latest packet's time stamp */
	uint16_t src_worker, dst_worker;
	uint8_t owed;  /* how many packets no ACK has reported */
	bool at_once;  /* the next ACK must not wait: a number is missing, or a packet came twice */
	uint8_t flags; /* UDPR_F_* of the next ACK */
	bool open;
	bool takes; /* the sender has set UDPR_F_MUCH at least once */
	bool much;  /* the sender set UDPR_F_MUCH in its last packet */
};

/*
 * Opens a flow, or replaces the flow that rx holds, if DATA carries a good cookie. UDPR_OK: the caller passes the
 * packet to udpr_rx_data(). The call changes nothing if rx holds this flow already. On another verdict the caller
 * answers with udpr_unknown().
 */
RN_NODISCARD enum udpr_verdict udpr_rx_open(struct udpr_rx *rx, const uint64_t key[2], const void *peer,
					    uint32_t peer_len, const struct udpr_hdr *h, uint64_t now);

/* Records a DATA packet. UDPR_OK: the caller delivers the packet. Any other verdict: the caller must not. */
RN_NODISCARD enum udpr_verdict udpr_rx_data(struct udpr_rx *rx, const struct udpr_hdr *h, uint64_t now);

/*
 * Gives the flow a window of UDPR_WIDE. bits: UDPR_WIDE / 64 zeroed words. The caller may do so while rx->much is set.
 */
void udpr_rx_widen(struct udpr_rx *rx, uint64_t *bits);
/*
 * Gives the flow the window UDPR_WINDOW again. Returns the words, which are zero again. NULL: the flow has none, or
 * still needs them.
 */
uint64_t *udpr_rx_narrow(struct udpr_rx *rx);

/*
 * Makes the next ACK say that its packets may have waited because this worker did not run. Called when such packets are
 * read.
 */
static inline void udpr_rx_late(struct udpr_rx *rx) { rx->flags |= UDPR_F_LATE; }

/* When an ACK is due: at once (0), at a time, or RN_NEVER. delay: how long an ACK may wait for more packets. */
uint64_t udpr_rx_due(const struct udpr_rx *rx, uint64_t delay);

/* Writes the ACK that is due. */
void udpr_rx_ack(struct udpr_rx *rx, uint64_t now, struct udpr_hdr *out);

/* What is remembered of a receiver's flow at rest. Zeroed memory is no flow. */
struct udpr_fold {
	uint64_t issued;
	uint32_t flow, next; /* flow 0: no flow */
};

/*
 * Writes what must be remembered of the flow: udpr_rx_unfold() makes the same flow of it, which takes each number at
 * most once. False: an ACK is owed, or a number above the lowest missing one has come, or the window is wide.
 */
RN_NODISCARD bool udpr_rx_fold(const struct udpr_rx *rx, struct udpr_fold *f);
/*
 * Makes the flow in rx, which the caller has zeroed except src_worker, dst_worker and heard. key, peer: as of
 * udpr_rx_open().
 */
void udpr_rx_unfold(struct udpr_rx *rx, const uint64_t key[2], const void *peer, uint32_t peer_len,
		    const struct udpr_fold *f);

/* The answer to DATA of an unknown flow. */
void udpr_unknown(const struct udpr_hdr *data, struct udpr_hdr *out);

/* ---- the sender's end ---- */

struct udpr_cfg {
	uint64_t target;    /* delay above the least round trip that is no congestion for the largest window; ns */
	uint64_t patience;  /* a peer that answers nothing for this long while packets wait is taken as gone; ns */
	uint64_t ack_delay; /* how long receivers delay an ACK, as in udpr_rx_due(); ns */
	/*
	 * For how long the caller did not run although it wanted to; grows; ns. NULL: nothing is known. No peer can be
	 * heard meanwhile, so this time is no part of `patience`.
	 */
	const uint64_t *stood;
};

enum udpr_state {
	UDPR_CLOSED = 0, /* no flow; udpr_tx_open() moves on */
	UDPR_ASKING,     /* waits for the receiver's COOKIE; COOKIE or patience moves on */
	UDPR_OPENING,    /* DATA carries the cookie; the first ACK moves on, or patience */
	UDPR_OPEN,       /* DATA carries no cookie; UNKNOWN, patience or UDPR_TX_IDLE moves on */
	UDPR_LOST,       /* the receiver has forgotten the flow, or is silent: packets fail; udpr_tx_open() moves on */
};

enum udpr_pkt_state {
	UDPR_PKT_NEW = 0, /* waits for its first sending */
	UDPR_PKT_FLIGHT,  /* waits for an ACK; the ACK or the rules of loss move on */
	UDPR_PKT_GONE,    /* waits to be sent again */
	UDPR_PKT_HAD,     /* the receiver has the packet; udpr_tx_done() moves on */
	UDPR_PKT_TOLD,    /* udpr_tx_done() has returned the packet; waits until all packets before it are TOLD */
};

#define UDPR_TX_IDLE UDPR_COOKIE_NS /* a flow unused for this long ends, before the receiver forgets it */

struct udpr_pkt {
	uint64_t user;       /* the caller's value, for udpr_tx_done() */
	uint64_t sent;       /* when the packet was last sent; ns */
	uint16_t next, prev; /* neighbours in the list of its state: low 16 bits of their numbers */
	uint16_t run;        /* HAD, TOLD: at least this many packets, from this one on, have come */
	uint8_t state;       /* enum udpr_pkt_state */
	uint8_t again;       /* sent more than once */
};

/* The list of the packets of one state; first, last: the low 16 bits of their numbers. */
struct udpr_list {
	uint32_t n;
	uint16_t first, last;
};

/* A sender's flow. Packets in flight lie in the caller's ring, which the flow needs only while udpr_tx_busy(). */
struct udpr_tx {
	const struct udpr_cfg *cfg;
	struct udpr_pkt *ring;
	uint64_t heard;     /* when the last answer came, or the wait for one began; less cfg->stood at that time */
	uint64_t last_sent; /* when a packet was last sent */
	uint64_t pace;      /* no new packet is sent before this time */
	uint64_t round;     /* when the measuring of `low` began */
	uint64_t cut;       /* when delay or loss last made the window smaller */
	uint64_t slow;      /* when the next slowdown is due, or the present one ends; 0: not decided */
	uint64_t base_from; /* since when `base` is measured; 0: it is not */
	uint64_t rack_sent; /* the latest time of sending of all packets that have come (RACK.xmit_ts) */
	uint64_t reo_due;   /* when the next packet counts as lost by RACK's rule; RN_NEVER: none waits for that */
	uint32_t mask;      /* the ring's length - 1 */
	uint32_t una;       /* the lowest number that udpr_tx_done() has not returned */
	uint32_t nxt;       /* the next new number to be sent */
	uint32_t end;       /* one more than the last number that was given */
	uint32_t rack_num;  /* the number of the packet of rack_sent */
	uint32_t window;    /* the receiver takes this many numbers, from the lowest missing one on */
	struct udpr_list flight; /* packets that are UDPR_PKT_FLIGHT, in the order of their last sending */
	struct udpr_list gone;   /* UDPR_PKT_GONE, in the order in which they were found lost */
	struct udpr_list had;    /* UDPR_PKT_HAD */
	uint32_t cwnd;           /* Swift's window; packets * 65536 */
	uint32_t came;           /* how many of the latest packets (LATEST) ACKs have reported */
	uint32_t lost;           /* how many of the latest packets counted as lost */
	uint32_t keep;           /* the window before the present slowdown; 0: there is none */
	uint32_t low, lows;      /* the least round trip measured since `round`, ns, and how many were measured */
	uint32_t low_before;     /* `low` of the round before, ns; 0: none, or a cut or a slowdown came since */
	uint32_t base;           /* the least round trip since base_from, ns; 0: none measured */
	uint32_t srtt, min_rtt, rttvar, rack_rtt; /* ns; 0: none measured */
	uint32_t flow, token;
	uint16_t src_worker, dst_worker;
	uint8_t state;  /* enum udpr_state; written by set_state() alone */
	uint8_t probes; /* timeouts since the last answer */
	uint8_t reo;    /* the reordering window: quarters of the least round trip */
	bool probe;     /* the last packet in flight is sent again next, as a probe */
	bool starts;    /* slow start: the window doubles every round trip */
	uint8_t cookie[UDPR_COOKIE_LEN];
};

/* The sizes of flows' state: of both ends without packets in flight, and of the receiver's end alone. */
_Static_assert(sizeof(struct udpr_tx) + sizeof(struct udpr_rx) <= 1024, "an active peer's state has grown");
_Static_assert(sizeof(struct udpr_rx) == 88, "a receiver's state has grown");
_Static_assert(sizeof(struct udpr_pkt) <= 24, "a packet in flight costs three words");

/*
 * Begins a flow. ring: `len` entries, a power of two, UDPR_WIDE at most. flow: random, another one at each call,
 * never 0. The caller has set src_worker and dst_worker, which every packet carries.
 */
void udpr_tx_open(struct udpr_tx *t, const struct udpr_cfg *cfg, struct udpr_pkt *ring, uint32_t len, uint32_t flow);

/* Moves the flow's packets to another ring, which must have room for them. The old ring is the caller's again. */
void udpr_tx_ring(struct udpr_tx *t, struct udpr_pkt *ring, uint32_t len);
/* The packet with this number, which the flow has. */
static inline struct udpr_pkt *udpr_tx_pkt(const struct udpr_tx *t, uint32_t n) { return &t->ring[n & t->mask]; }

/*
 * Gives a packet to the flow. False: udpr_tx_room() is 0, or the state is UDPR_CLOSED or UDPR_LOST; then the caller
 * opens a flow anew. A flow that was not used for UDPR_TX_IDLE becomes UDPR_CLOSED here. user: udpr_tx_done() returns
 * it.
 */
RN_NODISCARD bool udpr_tx_send(struct udpr_tx *t, uint64_t user, uint64_t now);

/*
 * Takes back a packet that the flow was given, so that the caller can give the packet to another flow. *user: the
 * packet's. False: none is left, and the flow is closed now; or one of the flow's packets has been sent already, and no
 * packet is taken back.
 */
RN_NODISCARD bool udpr_tx_back(struct udpr_tx *t, uint64_t *user);

/*
 * The next packet to send. True: *out is the header; for DATA *user is the packet's, and the caller appends the
 * packet's octets to what udpr_build() has written. False: nothing to send until udpr_tx_timer().
 */
RN_NODISCARD bool udpr_tx_next(struct udpr_tx *t, uint64_t now, struct udpr_hdr *out, uint64_t *user);

/* Takes a COOKIE, ACK or UNKNOWN. */
RN_NODISCARD enum udpr_verdict udpr_tx_in(struct udpr_tx *t, const struct udpr_hdr *h, uint64_t now);

/* When to call udpr_tx_tick() and udpr_tx_next() again; RN_NEVER: not before a packet comes or is given. */
uint64_t udpr_tx_timer(const struct udpr_tx *t, uint64_t now);
void udpr_tx_tick(struct udpr_tx *t, uint64_t now);

/*
 * The next packet whose fate is known, in no particular order. *delivered true: the receiver got the packet exactly
 * once; false: at most once. False: there is no such packet.
 */
RN_NODISCARD bool udpr_tx_done(struct udpr_tx *t, uint64_t *user, bool *delivered);

static inline bool udpr_tx_busy(const struct udpr_tx *t) { return t->una != t->end; }

/*
 * How many more packets the flow takes (a closed flow: once it is opened anew). len: length of the ring, as in
 * udpr_tx_open(). A packet's number stays in use until udpr_tx_done() has returned all packets before it. So the room
 * may grow by less than the number of packets that udpr_tx_done() returns.
 */
static inline uint32_t udpr_tx_room(const struct udpr_tx *t, uint32_t len)
{
	const uint32_t used = t->end - t->una;

	if (t->state == UDPR_CLOSED)
		return rn_min_u32(len, UDPR_WINDOW);
	len = rn_min_u32(len, t->window);
	return t->state == UDPR_LOST || used > len ? 0 : len - used;
}

/* ---- both ends ---- */

/*
 * When a worker may forget the flows to and from another worker, if they carry nothing more: `idle` ns after the last
 * packet, but not less than UDPR_IDLE_MIN after it. RN_NEVER: a packet's fate is not known yet, or an ACK is owed.
 */
uint64_t udpr_rest_due(const struct udpr_tx *t, const struct udpr_rx *rx, uint64_t idle);

/* ---- private to lib/udp ---- */

void udpr_cc_start(struct udpr_tx *t);
/* The longest time that a flow with packets waits before it sends one; ns. */
static inline uint64_t udpr_cc_longest(const struct udpr_tx *t) { return t->cfg->patience / 16; }
/*
 * A round trip of rtt ns was measured. acked: how many packets the ACK reports for the first time. late: the receiver
 * did not run meanwhile, so a long round trip is no sign of congestion and does not make the window smaller.
 */
void udpr_cc_ack(struct udpr_tx *t, uint64_t rtt, bool late, uint32_t acked, uint64_t now);
/* `lost` packets count as lost now. */
void udpr_cc_loss(struct udpr_tx *t, uint32_t lost, uint64_t now);
void udpr_cc_timeout(struct udpr_tx *t, uint64_t now);
/* Whether the window and the pace allow one more packet now. */
bool udpr_cc_room(const struct udpr_tx *t, uint64_t now);
/* A packet is sent now: sets t->pace, the time before which no further packet is sent. */
void udpr_cc_sent(struct udpr_tx *t, uint64_t now);

#endif
