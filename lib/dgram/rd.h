/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The carrier of reliable datagrams: queue pairs without a connection, whose work requests each name a peer. What goes
 * to one peer QP, and what comes from there, is one sequence of messages of the engine (qp_engine.h): Send, Write, Read
 * and Atomics, of any size, in order. A packet of this room is what udpr.h carries: each arrives at most once, in any
 * order, and the sender hears when the flow is gone. The rules, for both ends, are in doc/datagram-iwarp.md.
 *
 *	 0  kind (8 bits) | flags (8 bits) | 0
 *	 4  0 | destination QPN (24 bits)
 *	 8  0 | source QPN (24 bits)
 *	12  Q_Key of the destination (SEGMENT); of an answer to a Read or Atomic the MSN of the request
 *	16  run: the sender's number for this pair of QPs; a later run has a greater number (RFC 1982)
 *	20  the receiver's run, as far as the sender knows it; 0: not yet
 *	24  number of the segment in the run, from 0 (SEGMENT)
 *	28  how many segments of the receiver's run have had their turn
 *	32  with flag RD_F_MORE: which segments behind these have had their turn (64 bits)
 *	    body: SEGMENT one DDP segment; REFUSED nothing, or what an RDMAP Terminate says (RFC 5040, 4.8)
 *
 * A pair of QPs is made on first use from a bounded table. At most RD_WIN segments of a run are on the way, so a
 * receiver keeps no more than that for a pair whose next segment is missing, or finds no receive. A work request is
 * complete when the peer QP has taken all of its segments, or has answered. What fails ends the pair: the work request
 * that is at fault gets its status, those behind are flushed, and REFUSED tells the peer. The QP and its
 * other pairs go on; the next work request to that peer begins a new run. A success was delivered exactly once, a
 * failure at most once.
 *
 * A run is ordered, or unordered: then its segments are chains, one for each message. A segment has its turn when those
 * before it in its chain have had theirs, so what is lost delays its own message alone, and work requests complete in
 * any order. An ordered run is a chain of its own.
 *
 * A work request whose pair is full waits beside the queue, so those behind it for other peers go on; RD_SENDS of a QP
 * wait at most, then the queue stands still.
 *
 * In a worker's turn:
 *	for each DATA of a flow		rd_room(d), else lost; udpr_rx_data(), rd_in(), send the answer
 *	for each doorbell		rd_doorbell(d, qp), or of a shared receive queue rd_recvs(d)
 *	while (rd_look(d)), as far as there is room for effects
 *	when rd_timer(d) is due		rd_tick(d)
 *	while ((p = rd_pop(d)))
 *		while (p's flow has room and (len = rd_out(d, p, buffer))) give it to the flow;	(no room: rd_put(d, p))
 *	a flow is gone			rd_lost(d, address)
 *
 * Pure. Memory is the caller's. Threads: as a QP that belongs to one worker. Lengths are bytes, times nanoseconds.
 */
#ifndef RD_H
#define RD_H

#include "base/rn_list.h"
#include "iwarp/rdmap_wire.h"
#include "qp/qp_engine.h"

#define RD_HDR_LEN    32u
#define RD_MORE_LEN   8u
#define RD_ADDR_LEN   16u
#define RD_WIN        16u         /* segments of a run on the way; a power of two */
#define RD_SPAN       64u         /* of an unordered run: from the first to the last of these; bits of a word */
#define RD_SENDS      64u         /* work requests of a QP that wait for their pairs */
#define RD_WRS        64u         /* work requests of a pair on the way; a power of two */
#define RD_DEPTH      16u         /* Reads and Atomics of a pair under way, each way */
#define RD_SEG_MAX    1360u       /* bytes of a DDP segment: a packet fits an MTU of 1500 over IPv6 */
#define RD_TOLD       32u         /* ended runs whose errors are remembered */
#define RD_RNR_LAST   7u          /* of rnr: a sender that waits more often waits for good */
#define RD_PROBE_NS   RN_NS_PER_S /* a silent peer is asked this often whether it knows the pair */
#define RD_PACKET_MAX (RD_HDR_LEN + RD_SEG_MAX)
#define RD_ANSWER_MAX (RD_HDR_LEN + RD_MORE_LEN + RDMAP_TERM_MAX_LEN)

enum rd_kind {
	RD_SEGMENT = 1,
	RD_TAKEN,   /* no segment; says how many have had their turn, and is refused when the pair is not known */
	RD_REFUSED, /* the receiver's run is over; has no answer */
};

#define RD_F_LOOSE 0x01u /* SEGMENT: its run is unordered, */
#define RD_F_FIRST 0x02u /* and it begins a chain */
#define RD_F_LAST  0x04u /* and it ends a chain */
#define RD_F_MORE  0x08u /* `more` follows the header */

struct rd_hdr {
	uint8_t kind;  /* enum rd_kind */
	uint8_t flags; /* RD_F_*; RD_F_MORE is so when more is not 0 */
	uint8_t rnr;   /* SEGMENT: how often its message waits for a receive, times + 1; 0: as the receiver has it */
	uint32_t dst_qpn, src_qpn, qkey;
	uint32_t run, peer_run, number, taken;
	uint64_t more; /* bit i: segment taken + 1 + i has had its turn */
	uint32_t body; /* parsed only: where the body begins */
};

/* Reads a packet's header. False: too short, a kind that there is not, or a number that cannot be. */
RN_NODISCARD bool rd_parse(const uint8_t *p, uint32_t len, struct rd_hdr *h);
/* Writes RD_HDR_LEN octets, or RD_MORE_LEN more. Returns how many. */
uint32_t rd_build(uint8_t *p, const struct rd_hdr *h);

enum rd_state {
	RD_FREE = 0, /* in the list of free ones; first use moves on */
	RD_UP,       /* carries; a failure, or the end of its QP, moves on */
	RD_ENDED,    /* has let go of its QP; rd_out sends REFUSED and moves on to RD_FREE */
};

/* A segment that is here before its turn, or whose message finds no receive. */
struct rd_hold {
	struct rn_slink link;
	uint32_t len;
	uint32_t asked; /* of an answer: the MSN of its request */
	uint8_t flags;  /* RD_F_* */
	uint8_t rnr;    /* of rd_hdr */
	uint8_t seg[RD_SEG_MAX];
};

/* A chain of an unordered run that goes on, while the engine is in the middle of another one. */
struct rd_chain {
	struct rn_slink link;
	uint32_t at; /* the number of its next segment */
	bool imm_held;
	uint32_t imm, imm_len, write_len;
	struct ddp_uq uq;
	struct qp_recv recv;
};

struct rd_pair {
	struct qp_msgs m;
	uint8_t state; /* enum rd_state; written by rd_set_state() alone */
	bool listed;   /* in the worker's list of pairs with something to send */
	bool owes;     /* segments have had their turn and no packet has said so */
	bool waits;    /* segment wait_number, for a receive, until wait_end */
	bool loose;    /* our run is unordered */
	bool peer_loose;
	bool chained; /* peer_loose: the engine is in the middle of the chain whose next segment is `at` */
	uint8_t addr[RD_ADDR_LEN];
	uint32_t qpn, peer_qpn;        /* ours, the peer's */
	uint32_t qkey;                 /* of the peer, in the message that is sent */
	uint32_t run, peer_run;        /* peer_run 0: nothing has come from the peer */
	uint32_t sent, acked;          /* segments of our run: made; of these, taken by the peer */
	uint64_t had;                  /* loose; bit i: the peer has taken segment acked + i */
	uint32_t n_had;                /* bits in it */
	uint32_t next;                 /* the first segment of the peer's run that has not had its turn */
	uint64_t map;                  /* peer_loose; bit i: segment next + i has had its turn */
	uint32_t at, wait_number;      /* numbers of the peer's segments */
	uint32_t wr_of[RD_SPAN];       /* what qp_acked() wants, of segment number % RD_SPAN */
	struct rd_hold *held[RD_SPAN]; /* the peer's segment number % RD_SPAN */
	uint32_t holds;                /* how many are held; RD_WIN at most */
	struct rn_slist chains;        /* struct rd_chain; RD_WIN at most */
	uint32_t n_chains;
	uint32_t term_len; /* RD_ENDED: of term */
	uint8_t term[RDMAP_TERM_MAX_LEN];
	uint64_t wait_end;
	uint64_t used;                  /* when something was last sent or taken */
	struct rn_slist sends;          /* work requests that wait for their turn: struct rd_send */
	struct rn_slink link;           /* free list, or the worker's list of pairs with something to send */
	struct rn_link of_qp, of_waits; /* the QP's pairs; the worker's pairs that wait for a receive */
	struct rn_link of_bucket;
	struct qp_work work;
	struct qp_wr wr[RD_WRS];
};

/* A work request that is taken from the queue and waits until its pair is done with those before it. */
struct rd_send {
	struct rn_slink link;
	enum qp_wc_status why; /* no success: it fails when its turn comes */
	uint32_t qkey;         /* of the peer */
	struct qp_send s;
};

/* Beside a QP; qp->beside leads here. */
struct rd_side {
	struct rn_list pairs;
	bool loose;            /* its runs are unordered */
	bool strict;           /* the first work request that fails takes the QP to ERR */
	bool failed;           /* one has */
	struct rn_slist spare; /* of send, those that hold nothing */
	uint32_t waiting;      /* pairs that wait for a receive */
	struct rd_send send[RD_SENDS];
};

struct rd_stats {
	uint64_t segs_in, segs_out;
	uint64_t held;     /* segments that waited for their turn or for a receive */
	uint64_t refused;  /* runs that ended in an error, and packets that were refused */
	uint64_t no_pair;  /* packets and work requests that found no free pair */
	uint64_t evicted;  /* resting pairs that gave their place to others */
	uint64_t bad;      /* packets that cannot be, or come too late */
	uint64_t rnr_ends; /* runs that ended because no receive was posted in time */
};

/* The end of a peer's run: how far it came, and what an RDMAP Terminate says of it. */
struct rd_told {
	uint32_t qpn, peer_qpn, peer_run, len; /* len: of term; 0: an entry that is not in use */
	uint32_t taken;                        /* of rd_hdr */
	uint64_t more;                         /* of rd_hdr */
	uint8_t addr[RD_ADDR_LEN];
	uint8_t term[RDMAP_TERM_MAX_LEN];
};

/* A worker's. */
struct rd_ctx {
	struct qp_ctx *qp;
	struct rd_pair *pair; /* n of them */
	uint32_t n;
	uint32_t share;               /* pairs of one tenant at most */
	uint32_t used_by[QP_TENANTS]; /* pairs of each tenant's queue pairs, those that have ended left out */
	uint32_t run;                 /* the last one that was given */
	uint64_t probe_at;            /* when pairs that wait are looked at; RN_NEVER: none is under way */
	struct rn_pool free, holds, chains;
	struct rn_slist ready;
	struct rn_list waits;
	uint32_t looks;         /* how many of `waits` must be looked at, from the first one on */
	struct rn_list *bucket; /* pairs by their QP and peer; a power of two of them */
	struct rn_list one;     /* until rd_give_buckets */
	uint32_t bucket_mask;
	uint64_t key[2];
	struct rd_told told[RD_TOLD]; /* the latest ones, in turns */
	uint32_t n_told;
	struct rd_stats stats;
};

/*
 * pair and hold: zeroed memory, n_pairs and n_holds of them. run: greater than any that this device has used before its
 * restart, as the time of day in units of 1/64 s is.
 */
void rd_init(struct rd_ctx *d, struct qp_ctx *qp, struct rd_pair *pair, uint32_t n_pairs, uint32_t run);
/* How many of the pairs the queue pairs of one tenant (qp_attr) may have; all, until this is called. */
void rd_share(struct rd_ctx *d, uint32_t pairs);
/* RD_WIN of each for each pair: then no pair is held up by others. Fewer, too, do for tests. */
void rd_give_holds(struct rd_ctx *d, struct rd_hold *hold, uint32_t n_holds);
void rd_give_chains(struct rd_ctx *d, struct rd_chain *chain, uint32_t n_chains);
/*
 * Before the first pair: where pairs are looked up, without which each search goes through all of them. bucket: zeroed
 * memory, n of them, a power of two. key: random and secret, else a peer could have all its pairs in one bucket.
 */
void rd_give_buckets(struct rd_ctx *d, struct rn_list *bucket, uint32_t n, const uint64_t key[2]);

/* How a queue pair of reliable datagrams behaves. */
struct rd_manner {
	bool loose;  /* what it sends is unordered */
	bool strict; /* the first work request that fails takes it to ERR */
};
/* A QP of qp_attr.many, after qp_init. BAD_ATTR: it is another QP. */
RN_NODISCARD enum qp_verdict rd_attach(struct qp *qp, struct rd_side *side, struct rd_manner manner);

/* The worker that owns the QP. What qp_step and qp_forget say, and the client has rung. */
enum qp_verdict rd_modify(struct rd_ctx *d, struct qp *qp, enum qp_state to);
void rd_destroy(struct rd_ctx *d, struct qp *qp);
void rd_doorbell(struct rd_ctx *d, struct qp *qp);
/* The client has posted to a shared receive queue: pairs that wait are looked at by rd_look(). */
void rd_recvs(struct rd_ctx *d);
/* Looks at one pair that waits, whose message may have a receive now. False: none is left to look at. */
bool rd_look(struct rd_ctx *d);

/* Pairs of which rd_out must be called, until it returns 0; NULL: no more. */
struct rd_pair *rd_pop(struct rd_ctx *d);
void rd_put(struct rd_ctx *d, struct rd_pair *p); /* also one that has gone meanwhile: then nothing happens */
/* The pair's next packet, of at most RD_PACKET_MAX bytes, to p->addr. 0: none now; p may have gone. */
uint32_t rd_out(struct rd_ctx *d, struct rd_pair *p, uint8_t *buf);

/* A packet that has come, in one piece, from the device at addr. */
struct rd_rx {
	const uint8_t *p;
	uint32_t len;
	const struct rd_hdr *h; /* what rd_parse() said of it */
	const uint8_t *addr;    /* RD_ADDR_LEN */
};
/* Whether a packet can be taken that is not in its turn. */
static inline bool rd_room(const struct rd_ctx *d) { return !rn_pool_empty(&d->holds); }
/*
 * Takes it. qp: the one that h->dst_qpn names; NULL: none. Returns the length of the answer to the same address, which
 * MUST be sent; 0: none.
 */
uint32_t rd_in(struct rd_ctx *d, struct qp *qp, const struct rd_rx *rx, uint8_t answer[RD_ANSWER_MAX]);

/* No packet to the device at addr has a chance any more: what is under way there fails with RETRY_EXC. */
void rd_lost(struct rd_ctx *d, const uint8_t addr[RD_ADDR_LEN]);

/* When rd_tick() is due: a receive was waited for too long, or a peer was silent. RN_NEVER: nothing is under way. */
uint64_t rd_timer(const struct rd_ctx *d);
void rd_tick(struct rd_ctx *d);

#endif
