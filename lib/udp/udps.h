/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram sockets over this transport instead of plain UDP (doc/datagram-sockets.md): a socket with a UDP port has the
 * QPN UDPL_QPN_SOCKS + port, and its datagrams are Sends and segments between such QPNs. A question finds out whether a
 * peer accepts them. A question, and likewise an answer, consists of a header and ten octets:
 *
 *	 0, 3  of the header, the unit: the longest segment that the sender of this message accepts, in 64 octets
 *	12  question: 0 | answer: Q_Key for datagrams from the asker to this port | unasked: the Q_Key of the datagram
 *	    that gave rise to this message
 *	16  STag of the slots that are lent (memory for long datagrams, which come as Write-Records); 0: none
 *	20  nonce, not 0, chosen by the asker; an answer repeats it; 0: the message answers no question
 *	28  enum udps_status
 *	29  question: 1: slots are wanted, since long datagrams are sent | answer: how many slots are lent
 *
 * The asking side remembers its peers in a bounded table, which only datagrams sent here fill. No datagram waits for an
 * answer: until the answer comes, and if none comes, datagrams go as plain UDP.
 *
 *	NEW     nothing is known                                first datagram: question, ASKED
 *	ASKED   plain; asked up to UDPS_TRIES times             answer: SPEAKS or PLAIN; none: PLAIN for UDPS_SILENT_NS
 *	SPEAKS  in this format; asked anew each UDPS_FRESH_NS   no answer, "nobody": PLAIN; "stale": NEW
 *	PLAIN   plain, until struct udps_peer.at                time over: NEW
 *
 * Pure; the caller passes the time `now`. One thread at a time. Times are nanoseconds, lengths octets, ports in host
 * order.
 */
#ifndef UDPS_H
#define UDPS_H

#include "udp/udpl.h"

#define UDPS_LEN      34u    /* a question, an answer */
#define UDPS_SLOT_MIN 32768u /* a datagram of at least so many octets goes to a slot: a ring holds many shorter ones */
#define UDPS_LONGEST  65507u /* octets of a datagram: 65,535 less the headers of IPv4 and UDP */
#define UDPS_SEGS_MAX 128u   /* segments of a datagram; a datagram that needs more goes as plain UDP */

enum udps_status {
	UDPS_ASKS = 0,   /* a question */
	UDPS_TAKES = 1,  /* a socket has the port */
	UDPS_NOBODY = 2, /* no socket has the port; unasked: the socket with the port is gone */
	UDPS_STALE = 3,  /* unasked: a datagram's Q_Key is unknown to its receiver, perhaps because of a restart */
};

struct udps_msg {
	uint16_t to, from; /* UDP ports: of the receiving socket, and of the sending one */
	uint32_t unit;     /* a multiple of UDPL_UNIT */
	uint32_t qkey, stag;
	uint64_t nonce;
	uint8_t status; /* enum udps_status */
	uint8_t slots;
};

static inline uint32_t udps_number(uint16_t port) { return UDPL_QPN_SOCKS | port; }
static inline uint16_t udps_port(uint32_t number) { return (uint16_t)number; }

/* Parses the body of UDPL_SOCK_*. The caller has checked the CRC. False: the message breaks a rule of the format. */
RN_NODISCARD bool udps_parse(const struct udpl_hdr *h, const uint8_t *body, struct udps_msg *m);
/* Writes UDPS_LEN octets, CRC included: a question if the status is UDPS_ASKS, else an answer. */
void udps_build(uint8_t *out, const struct udps_msg *m);

/* ---- peers ---- */

#define UDPS_SETS      512u
#define UDPS_WAYS      4u
#define UDPS_TRIES     4u
#define UDPS_RETRY_NS  (20 * RN_NS_PER_MS) /* wait before the second question; each later wait is twice as long */
#define UDPS_FRESH_NS  RN_NS_PER_S
#define UDPS_OLD_NS    (3 * RN_NS_PER_S) /* unused for this long beyond UDPS_FRESH_NS, an answer is forgotten */
#define UDPS_NOBODY_NS RN_NS_PER_S
#define UDPS_LENT_NS   (2 * RN_NS_PER_S) /* how long slots are used after an answer; they are lent for twice as long */
#define UDPS_SILENT_NS (10 * RN_NS_PER_S)
#define UDPS_IDLE_NS   RN_NS_PER_S /* a peer to which nothing was sent for this long may be replaced by another */

/* Compared as bytes, so there is no padding. */
struct udps_key {
	uint8_t ip[16]; /* of the peer */
	uint32_t dev;
	uint16_t port; /* of the peer's socket */
	uint16_t from; /* of the socket here */
};

enum udps_state { UDPS_NEW, UDPS_ASKED, UDPS_SPEAKS, UDPS_PLAIN };

struct udps_peer {
	struct udps_key key;
	uint8_t state; /* enum udps_state */
	uint8_t tries; /* questions asked since the last answer */
	uint8_t slots;
	uint8_t wants;             /* not 0: questions ask the peer for slots, since long datagrams are sent to it */
	uint8_t slot;              /* the slot that the last Write-Record went to */
	uint8_t tenant;            /* whose datagram looked for this peer last */
	uint32_t unit, qkey, stag; /* from the peer's answer */
	uint64_t nonce;            /* nonce of the questions since the last answer; 0: none was asked */
	uint64_t at;               /* SPEAKS, ASKED: when the peer is asked again; PLAIN: when this state ends */
	uint64_t lent;             /* until when the lent slots may be used */
	uint64_t used;             /* when a datagram last looked for this peer */
};

struct udps_table {
	uint64_t key[2];
	uint64_t nonces;
	struct udps_peer peer[UDPS_SETS][UDPS_WAYS];
};

void udps_init(struct udps_table *t, const uint64_t key[2]);

/*
 * Looks up the peer of a datagram that a tenant (qp_attr.tenant) sends. NULL, or any state but SPEAKS: the datagram goes
 * as plain UDP. *ask: a question with the peer's nonce goes first.
 */
struct udps_peer *udps_way(struct udps_table *t, const struct udps_key *k, uint8_t tenant, uint64_t now, bool *ask);

/*
 * Chooses a slot for a long datagram to a peer in SPEAKS. A peer that has lent no slots is asked for some. False: there
 * is no slot, and the datagram goes as a Send.
 */
bool udps_slot(struct udps_peer *p, uint64_t now);

/*
 * Takes an answer or an unasked message. True: a datagram's destination port has no socket, and the caller tells the
 * socket that sent the datagram.
 */
RN_NODISCARD bool udps_hear(struct udps_table *t, const struct udps_key *k, const struct udps_msg *m, uint64_t now);

#endif
