/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IPv4 fragments (RFC 791, sections 2.3 and 3.2): putting the pieces of a datagram together, and the headers of pieces
 * that leave.
 *
 * A table knows which bytes of which datagram have arrived. The table never sees the bytes: the caller keeps each
 * fragment in a buffer and gives the table a reference to the buffer, which the table keeps and gives back.
 *
 *	pkt_frag_read → pkt_frag_in: HELD     the table has the reference
 *	                             WHOLE    likewise; pkt_frag_whole() gives the datagram's references back, in order
 *	                             DROPPED  the caller still has the reference
 *	then pkt_frag_dead(): the references of datagrams that will not become whole, until there is none.
 *	Call pkt_frag_dead() also after pkt_frag_expire() and pkt_frag_clear().
 *
 * Rules beyond RFC 791
 *   - Fragments that overlap, two different ends, or bytes behind the end spoil the datagram: all its fragments go, and
 *     those that are still to come, until its time is over (RFC 5722, section 4; RFC 8900, section 3.7 on why). The
 *     same fragment once more is dropped alone (RFC 8200, section 4.5).
 *   - A fragment that is wrong in itself is dropped alone: without bytes, reaching beyond 65,535 octets, not the last
 *     one and no multiple of 8 octets long, or a first one that is shorter than the smallest MTU has it (RFC 1858,
 *     section 3.1.1; RFC 791: every link takes 68 octets).
 *   - A datagram must be whole PKT_FRAG_NS after its first fragment. RFC 791 has 15 s, RFC 1122 (section 3.3.2) 60 s;
 *     at today's rates identifications are used again sooner, and pieces of two datagrams would be mixed (RFC 4963).
 *   - A datagram is given up when its source has begun `far` others since, and one more fragment with its
 *     identification comes: this fragment belongs to a new datagram. A time alone cannot tell. A source that counts its
 *     identifications up uses one again after 65,536 datagrams (RFC 6864, section 4.1): with 65,535 octets each this
 *     takes 1 s at 34 Gb/s, with 1,500 octets 79 ms at 10 Gb/s; but one datagram alone takes 52 ms at 10 Mb/s. The
 *     number of datagrams between is the same at all rates.
 *   - A full table gives up its oldest datagram. One source has half of the table at most, and then its own oldest
 *     datagram goes, so that a flood from one source leaves room for the others. Sources are told apart by a keyed hash
 *     of 10 bits.
 *   - Congestion marks are joined as RFC 3168, section 5.3 has it.
 *
 * Sizes: references, datagrams. Times: ns of the caller's clock. Pure; the memory of a table is the caller's and stays
 * where it is. One thread at a time. Addresses are IPv4 alone.
 */
#ifndef PKT_FRAG_H
#define PKT_FRAG_H

#include "base/rn_list.h"
#include "pkt/pkt.h"

#define PKT_FRAG_PIECES     512u /* fragments that a table holds at most */
#define PKT_FRAG_PIECES_MIN 256u
#define PKT_FRAG_GRAMS      256u /* datagrams that a table holds at most */
#define PKT_FRAG_EACH       128u /* fragments of one datagram; 65,535 octets at an MTU of 576 are 119 */
#define PKT_FRAG_HASH       256u
#define PKT_FRAG_SOURCES    1024u
#define PKT_FRAG_NS         RN_NS_PER_S
#define PKT_FRAG_FAR        1024u /* `far` for IP: a 64th of the identifications, and far more than paths reorder */

/* A fragment, as its IPv4 header describes it. */
struct pkt_frag {
	uint32_t src, dst; /* host order */
	uint16_t id;
	uint8_t proto;
	uint8_t ecn;     /* the two ECN bits */
	uint8_t hdr_len; /* of the IPv4 header, options included */
	bool more;       /* not the last fragment */
	uint32_t off;    /* of the fragment's bytes in the datagram, counted from the end of the header */
	uint32_t len;
};

/* Counters, which only grow. */
struct pkt_frag_counts {
	uint64_t taken;   /* fragments that were read */
	uint64_t whole;   /* datagrams put together */
	uint64_t bad;     /* fragments that break a rule, and those of datagrams that they have spoilt */
	uint64_t again;   /* fragments that had arrived already */
	uint64_t late;    /* datagrams that were not whole in time, or before `far` others of their source */
	uint64_t evicted; /* datagrams that made room for newer ones */
};

enum pkt_frag_verdict {
	PKT_FRAG_HELD,
	PKT_FRAG_WHOLE,
	PKT_FRAG_DROPPED,
};

struct pkt_frag_piece {
	void *ref;
	uint16_t off, len;
	uint16_t next; /* the next piece: of the same datagram, by offset; or in free_piece, dead or whole */
};

struct pkt_frag_gram {
	uint32_t src, dst;
	uint16_t id;
	uint8_t proto;
	bool spoilt;     /* a fragment has broken a rule: no pieces are held, and none taken */
	uint8_t ecn;     /* a bit for each ECN value that has arrived */
	uint8_t hdr_len; /* the first fragment's; 0: that has not arrived */
	uint8_t bucket;
	uint16_t source;      /* index of its source's counters */
	uint16_t chain;       /* the next datagram with the same hash */
	uint16_t first, last; /* pieces */
	uint16_t n;
	uint32_t have, total; /* octets; total 0: the last fragment has not arrived */
	uint32_t begun;       /* its source's count of datagrams then, this one included */
	uint64_t at;          /* ns: when the first fragment came */
	struct rn_link age;   /* in open, oldest first, or in free */
};

struct pkt_frag_table {
	struct pkt_frag_counts *counts;
	uint64_t key[2];
	uint32_t far;                     /* 0: no limit */
	uint32_t pieces_max, pieces;      /* pieces: how many belong to datagrams that are open */
	uint16_t free_piece, dead, whole; /* chains of pieces */
	uint32_t whole_len;               /* octets of the datagram that was put together last */
	uint8_t whole_ecn;
	struct rn_list open, free;
	uint16_t head[PKT_FRAG_HASH];
	uint16_t source_pieces[PKT_FRAG_SOURCES], source_grams[PKT_FRAG_SOURCES];
	uint32_t source_begun[PKT_FRAG_SOURCES]; /* datagrams of each source since the start; wraps */
	struct pkt_frag_gram gram[PKT_FRAG_GRAMS];
	struct pkt_frag_piece piece[PKT_FRAG_PIECES + 1]; /* one more, for a new piece beside evicted ones in `dead` */
};

/*
 * pieces: from PKT_FRAG_PIECES_MIN to PKT_FRAG_PIECES. far: how many other datagrams of its source may begin before a
 * datagram is whole; 0: any number, since the caller's identifications are not used again. key: secret random bits.
 * counts: in the caller's memory.
 */
void pkt_frag_init(struct pkt_frag_table *t, uint32_t pieces, uint32_t far, const uint64_t key[2],
		   struct pkt_frag_counts *counts);

/* Reads the header of a frame for which pkt_parse() returned PKT_FRAGMENT. False: the frame is not IPv4. */
bool pkt_frag_read(const uint8_t *frame, const struct pkt *p, struct pkt_frag *f);

RN_NODISCARD enum pkt_frag_verdict pkt_frag_in(struct pkt_frag_table *t, const struct pkt_frag *f, void *ref,
					       uint64_t now);

/* The next reference of the datagram that has just become whole, in the order of its bytes; NULL: there are no more. */
void *pkt_frag_whole(struct pkt_frag_table *t);
/* The next reference that the table no longer needs; NULL: none. */
void *pkt_frag_dead(struct pkt_frag_table *t);

/*
 * Gives up datagrams whose time is over. Returns when the time of the next one will be over; RN_NEVER: there is none.
 */
uint64_t pkt_frag_expire(struct pkt_frag_table *t, uint64_t now);
static inline uint64_t pkt_frag_due(const struct pkt_frag_table *t)
{
	const struct pkt_frag_gram *g = rn_list_first(&t->open, const struct pkt_frag_gram, age);

	return g == NULL ? RN_NEVER : g->at + PKT_FRAG_NS;
}
/* Gives up all datagrams; none is counted. */
void pkt_frag_clear(struct pkt_frag_table *t);

/* Makes the IPv4 header of a first fragment that of the datagram which has just become whole. */
void pkt_frag_join(const struct pkt_frag_table *t, uint8_t *ip);

/*
 * Makes a datagram's IPv4 header, without options, that of one of its fragments: len octets at off, a multiple of 8. DF
 * is not set, since the fragment may be cut again on the way.
 */
void pkt_frag_cut(uint8_t *ip, uint16_t id, uint32_t off, uint32_t len, bool more);

/* How many octets behind an IPv4 header without options a link takes, in a fragment that is not the last one. */
static inline uint32_t pkt_frag_step(uint32_t mtu) { return (mtu - PKT_IP4_LEN) & ~7u; }

#endif
