/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The carrier of reliable datagrams: queue pairs without a connection, whose work requests each name a peer. The
 * messages to and from one peer QP are one sequence of messages of the engine (qp_engine.h): Send, Write, Read and
 * Atomics, of any size, in order. A packet of this room is what udpr.h carries: each arrives at most once, in any
 * order, and the sender hears when the flow is gone. The rules, for both ends, are in doc/datagram-iwarp.md.
 *
 *	 0  kind (8 bits) | flags (8 bits) | patience (8 bits) | room (8 bits)
 *	 4  0 | destination QPN (24 bits)
 *	 8  0 | source QPN (24 bits)
 *	12  Q_Key of the destination (SEGMENT); of an answer to a Read or Atomic the MSN of the request; of a TAKEN with
 *	    RD_F_BACK how many segments of the run are sent
 *	16  run: the sender's number for this pair of QPs; a later run has a greater number (RFC 1982)
 *	20  the receiver's run, as far as the sender knows it; 0: not yet
 *	24  SEGMENT: its number in the run, from 0. TAKEN: how many segments of the run were sent RD_SURE_NS ago
 *	28  how many segments of the receiver's run have had their turn
 *	32  with flag RD_F_MORE: which segments behind these have had their turn (64 bits)
 *	    body: SEGMENT one DDP segment; REFUSED nothing, or what an RDMAP Terminate says (RFC 5040, 4.8)
 *
 * A pair of QPs is made on first use from a bounded table. A pair at rest is small: its working memory comes from a
 * bounded pool when a segment comes or a work request is taken, and goes back when nothing is under way. When the pool
 * is empty, a queue stands still, and a peer's segment is refused. At most RD_WIN segments of a run are on the way
 * unless the receiver promises more, so a receiver keeps no more than that for a pair whose next segment is missing, or
 * finds no receive. A work request is complete when the peer QP has taken all of its segments, or has answered. A
 * failure ends the pair: the work request at fault gets its status, later ones are flushed, and REFUSED tells the peer.
 * The QP and its other pairs go on; the next work request to that peer begins a new run. A success was delivered
 * exactly once, a failure at most once.
 *
 * Of an ordered run more than RD_WIN segments may be on the way when the receiver allows it. Its sender asks
 * (RD_F_MUCH). The receiver promises memory for further segments, out of what is free, and tells the sum as `room`.
 * What is promised stays promised until that many segments have had their turn, or the sender gives it back
 * (RD_F_BACK), which it does when it has sent nothing for a while. Promises made before then are void: the sender
 * counts what comes with a greater `taken` only.
 *
 * A run is ordered, or unordered: then its segments are chains, one for each message. A segment has its turn when those
 * before it in its chain have had theirs, so what is lost delays its own message alone, and work requests complete in
 * any order. An ordered run is a chain of its own.
 *
 * A work request whose pair is full waits beside the queue, so those behind it for other peers go on; RD_SENDS of a QP
 * wait at most, then the queue stands still.
 *
 * In a worker's turn:
 *	for each DATA of a flow		udpr_rx_data(), rd_in(), send the answer
 *	for each doorbell		rd_doorbell(d, qp), or of a shared receive queue rd_recvs(d)
 *	while (rd_look(d)), as far as there is room for effects
 *	when rd_timer(d) is due		rd_tick(d)
 *	while ((p = rd_pop(d)))
 *		while (p's flow has room and (len = rd_out(d, p, buffer))) give it to the flow;	(full: rd_park(p, list))
 *	a flow is gone			rd_lost(d, address)
 *
 * Pure. Memory is the caller's. Threads: as a QP that belongs to one worker. Lengths are bytes, times nanoseconds.
 */
#ifndef RD_H
#define RD_H

#include "base/rn_list.h"
#include "iwarp/rdmap_wire.h"
#include "qp/qp_engine.h"

#define RD_HDR_LEN  32u
#define RD_MORE_LEN 8u
#define RD_ADDR_LEN 16u
#define RD_WIN      16u         /* segments of a run on the way, without a promise; a power of two */
#define RD_WIDE     4096u       /* a number beyond what `room` can tell; a power of two */
#define RD_ROOM_MAX 255u        /* of room, in units of RD_WIN segments */
#define RD_SPAN     64u         /* of an unordered run: span of the numbers on the way; bits of a word */
#define RD_SENDS    64u         /* work requests of a QP that wait for their pairs, at most */
#define RD_WRS      64u         /* work requests of a pair on the way at most; a power of two */
#define RD_DEPTH    16u         /* Reads and Atomics of a pair under way at most, each way */
#define RD_SEG_MAX  1360u       /* bytes of a DDP segment: a packet fits an MTU of 1500 over IPv6 */
#define RD_TOLD     32u         /* ended runs whose errors are remembered, at most */
#define RD_RNR_LAST 7u          /* of rnr: a sender with a larger value waits without end */
#define RD_PROBE_NS RN_NS_PER_S /* how often a silent peer is asked whether it knows the pair */
/* By then a flow has brought a segment, or is lost; a peer whose run is not known is not asked sooner. */
#define RD_SURE_NS    (8 * RN_NS_PER_S)
#define RD_PACKET_MAX (RD_HDR_LEN + RD_SEG_MAX)
#define RD_ANSWER_MAX (RD_HDR_LEN + RD_MORE_LEN + RDMAP_TERM_MAX_LEN)

enum rd_kind {
	RD_SEGMENT = 1,
	RD_TAKEN,   /* no segment: says how many have had their turn; refused when the pair is unknown */
	RD_REFUSED, /* the receiver's run is over; never answered */
};

#define RD_F_LOOSE 0x01u /* SEGMENT: the run is unordered */
#define RD_F_FIRST 0x02u /* SEGMENT: the first of a chain */
#define RD_F_LAST  0x04u /* SEGMENT: the last of a chain */
#define RD_F_MORE  0x08u /* `more` follows the header */
#define RD_F_MUCH  0x10u /* SEGMENT: of an ordered run that has more to send than may be on the way */
#define RD_F_BACK  0x20u /* TAKEN: the sender gives back what was promised; `qkey` */

struct rd_hdr {
	uint8_t kind;  /* enum rd_kind */
	uint8_t flags; /* RD_F_*; rd_build() sets RD_F_MORE if more is not 0 */
	uint8_t rnr;   /* SEGMENT: how often its message waits for a receive, plus 1; 0: as the receiver decides */
	uint8_t room;  /* 0: no promise; else RD_WIN * room segments from `taken` on may be on the way */
	uint32_t dst_qpn, src_qpn, qkey;
	uint32_t run, peer_run, number, taken;
	uint64_t more; /* bit i: segment taken + 1 + i has had its turn */
	uint32_t body; /* parsed only: where the body begins */
};

/* Reads a packet's header. False: too short, an unknown kind, or an impossible number. */
RN_NODISCARD bool rd_parse(const uint8_t *p, uint32_t len, struct rd_hdr *h);
/* Writes RD_HDR_LEN octets, and RD_MORE_LEN more if h->more is not 0. Returns how many. */
uint32_t rd_build(uint8_t *p, const struct rd_hdr *h);

enum rd_state {
	RD_FREE = 0, /* in the list of free pairs; first use moves on */
	RD_UP,       /* in use; a failure, or the end of its QP, moves on */
	RD_ENDED,    /* has let go of its QP; rd_out sends REFUSED and moves on to RD_FREE */
	RD_GONE,     /* has ended and tells nobody; rd_pop or rd_unpark takes it off its list and moves on to RD_FREE */
};

/* A segment that is kept because its turn has not come, or its message finds no receive. */
struct rd_hold {
	struct rn_slink link;
	uint32_t len;
	uint32_t asked; /* of an answer: the MSN of its request */
	uint8_t flags;  /* RD_F_* */
	uint8_t rnr;    /* as in rd_hdr */
	uint8_t seg[RD_SEG_MAX];
};

/* A chain of an unordered run that is not the engine's current one. */
struct rd_chain {
	struct rn_slink link;
	uint32_t at; /* the number of its next segment */
	bool imm_held;
	uint32_t imm, imm_len, write_len;
	struct ddp_uq uq;
	struct qp_recv recv;
};

/* What a pair has beside its working memory while more than RD_WIN segments may be on the way. */
struct rd_wide {
	struct rn_slink link;          /* free */
	struct rd_hold *held[RD_WIDE]; /* the kept segment with number % RD_WIDE of the peer's run */
	uint32_t wr_of[RD_WIDE];       /* argument of qp_acked() for segment number % RD_WIDE */
};

/* What a pair at rest keeps of the engine's sequence of messages (struct qp_msgs): the numbers that go on. */
struct rd_rest {
	uint32_t msn_send, msn_read, msn_atomic; /* sending */
	uint32_t uq_send, uq_read, uq_atomic;    /* receiving */
	uint32_t imm_len;
	bool wrote;
};

/*
 * The working memory of a pair, which the pair has from the bounded pool of its worker while something is under way:
 * the engine's sequence of messages, and what is on the way in both runs.
 */
struct rd_work {
	struct rn_slink link;   /* free */
	struct rn_link of_busy; /* the worker's pairs that are up and have such memory */
	struct rd_pair *pair;
	uint64_t used;       /* when a packet was last sent or taken */
	uint32_t sure, mark; /* segments below `sure` were sent RD_SURE_NS ago; below `mark`, before mark_at */
	uint64_t mark_at;
	uint32_t qkey;            /* of the peer, for the message that is being sent */
	uint32_t acked;           /* of our segments, those that the peer has taken in order */
	uint64_t had;             /* loose; bit i: the peer has taken segment acked + i */
	uint32_t n_had;           /* number of bits set in `had` */
	bool sender;              /* the pair has taken work requests */
	bool waits;               /* segment wait_number waits for a receive until wait_end */
	bool chained;             /* peer_loose: the engine has a current chain, whose next segment is `at` */
	uint64_t map;             /* peer_loose; bit i: segment next + i has had its turn */
	uint32_t at, wait_number; /* numbers of the peer's segments */
	uint64_t wait_end;
	struct rn_link of_waits; /* the worker's pairs that wait for a receive */
	struct rn_slist sends;   /* work requests that wait for their turn: struct rd_send */
	struct rn_slist chains;  /* struct rd_chain; at most RD_WIN */
	uint32_t n_chains;
	uint32_t holds;        /* how many segments are kept; at most RD_WIN + promised */
	struct rd_wide *wide;  /* NULL: RD_WIN segments each way */
	uint32_t promised;     /* the peer may have so many segments of its ordered run on the way beyond RD_WIN */
	uint32_t more;         /* we may have so many on the way beyond RD_WIN */
	uint32_t void_at;      /* a promise is void that came with this number as taken */
	bool gives;            /* the peer has promised something that we have not given back */
	bool back;             /* the next TAKEN gives it back, if nothing is on the way then */
	struct rn_link of_due; /* the worker's pairs that keep segments whose turn has come */
	struct qp_msgs m;
	struct rd_hold *held[RD_SPAN]; /* as in struct rd_wide, by number % RD_SPAN; not used while there is `wide` */
	uint32_t wr_of[RD_SPAN];       /* likewise */
	uint32_t term_len;             /* RD_ENDED: octets of term */
	uint8_t term[RDMAP_TERM_MAX_LEN];
	struct qp_work work;
	struct qp_wr wr[RD_WRS];
};

/* Two queue pairs and their runs. A pair at rest is this struct alone. */
struct rd_pair {
	struct rd_work *k; /* NULL: the pair rests */
	struct qp *qp;     /* NULL: the pair has ended */
	uint8_t addr[RD_ADDR_LEN];
	uint32_t qpn, peer_qpn; /* ours, the peer's */
	uint32_t run, peer_run; /* peer_run 0: nothing has come from the peer */
	uint32_t sent;          /* how many segments of our run are sent */
	uint32_t next;          /* the first segment of the peer's run that has not had its turn */
	struct rd_rest rest;
	uint8_t state; /* enum rd_state; written by rd_set_state() alone */
	uint8_t tenant;
	bool listed; /* in the worker's list of pairs with something to send, or in a list of rd_park() */
	bool owes;   /* segments have had their turn, and no packet has told the peer yet */
	bool loose;  /* our run is unordered */
	bool peer_loose;
	struct rn_slink link;    /* free list, or the worker's list of pairs with something to send */
	struct rn_link of_qp;    /* the QP's pairs */
	struct rn_link of_rests; /* the tenant's pairs that rest; the first one has rested longest */
	struct rn_link of_both;  /* pairs by QP and peer */
	struct rn_link of_addr;  /* pairs by the peer's device */
};
_Static_assert(sizeof(struct rd_pair) <= 176, "a pair at rest has grown");

/* A work request that was taken from the queue and waits for its pair, which is busy with earlier ones. */
struct rd_send {
	struct rn_slink link;
	enum qp_wc_status why; /* not QP_WC_SUCCESS: the work request fails when its turn comes */
	uint32_t qkey;         /* the peer's Q_Key */
	struct qp_send s;
};

/* What a QP of reliable datagrams has beside its struct qp: qp->beside. */
struct rd_side {
	struct rn_list pairs;
	bool loose;            /* what the QP sends is unordered */
	bool strict;           /* the first work request that fails takes the QP to ERR */
	bool failed;           /* a work request has failed */
	struct rn_slist spare; /* the free elements of `send` */
	uint32_t waiting;      /* pairs that wait for a receive */
	struct qp *qp;
	struct rn_link of_again; /* the worker's queues that are to be looked at again */
	struct rd_send send[RD_SENDS];
};

struct rd_stats {
	uint64_t segs_in, segs_out;
	uint64_t held;     /* segments that waited for their turn or for a receive */
	uint64_t refused;  /* runs that ended in an error, and packets that were refused */
	uint64_t no_pair;  /* packets and work requests for which no pair was free */
	uint64_t no_work;  /* how often a queue stood still, or a segment was refused, for want of working memory */
	uint64_t evicted;  /* resting pairs that were ended to make room */
	uint64_t bad;      /* impossible or late packets */
	uint64_t rnr_ends; /* runs that ended because no receive was posted in time */
};

/* The end of a peer's run: how far the run came, and the RDMAP Terminate that ended it. */
struct rd_told {
	uint32_t qpn, peer_qpn, peer_run, len; /* len: octets of term; 0: the entry is not in use */
	uint32_t taken;                        /* as in rd_hdr */
	uint64_t more;                         /* as in rd_hdr */
	uint8_t addr[RD_ADDR_LEN];
	uint8_t term[RDMAP_TERM_MAX_LEN];
};

/* What the queue pairs of one tenant (qp_attr) have of a worker's tables. */
struct rd_tenant {
	uint32_t pairs;       /* that are up */
	uint32_t ended;       /* that have ended, and have not told their peers yet */
	uint32_t works;       /* working memories, those of ended pairs included */
	uint32_t senders;     /* of these, of pairs that send work requests */
	uint32_t wides;       /* struct rd_wide */
	uint32_t promised;    /* segments, for all of its pairs */
	struct rn_list rests; /* pairs at rest, by of_rests */
};

/* A worker's carrier of reliable datagrams. */
struct rd_ctx {
	struct qp_ctx *qp;
	uint32_t share;      /* pairs of one tenant at most */
	uint32_t work_share; /* working memories of one tenant at most */
	uint32_t run;        /* the run number that was given last */
	uint64_t probed;     /* when rd_tick() has last looked at all busy pairs */
	uint64_t probe_at;   /* when the next such look is due; RN_NEVER: nothing is under way */
	struct rn_pool free, works, holds, chains, wides;
	uint32_t n_works, works_used, senders;
	uint32_t n_wides, wides_free;
	uint32_t n_promises; /* segments that can be promised to all pairs at once */
	uint32_t promised;   /* segments that are promised to all pairs now */
	struct rn_slist ready;
	struct rn_list busy, waits, due; /* struct rd_work */
	struct rn_list again;            /* struct rd_side: queues to be looked at when there is working memory */
	bool fed; /* there may be some for a queue of `again`: memory has come back, or the queue is new */
	uint32_t n_waits;
	uint64_t wait_due;       /* no wait in `waits` ends before this time */
	uint32_t looks;          /* how many of `waits`, from the first on, must be looked at */
	struct rn_list *both;    /* pairs by their QP and peer: bucket_mask + 1 lists, a power of two */
	struct rn_list *by_addr; /* pairs by the peer's device: likewise */
	struct rn_list one[2];   /* the only buckets until rd_give_buckets */
	uint32_t bucket_mask;
	uint64_t key[2];
	struct rd_tenant tenant[QP_TENANTS];
	struct rd_told told[RD_TOLD]; /* the latest ended runs, a ring */
	uint32_t n_told;
	struct rd_stats stats;
};

/*
 * pair: zeroed memory, n_pairs of them. run: greater than any run number that this device used before a restart, for
 * example the time of day in units of 1/64 s.
 */
void rd_init(struct rd_ctx *d, struct qp_ctx *qp, struct rd_pair *pair, uint32_t n_pairs, uint32_t run);
/*
 * Working memory, and the segments and chains that pairs with such memory keep: RD_WIN of each for each work, so no
 * pair takes another's. All in zeroed memory. Before the first pair.
 */
void rd_give_works(struct rd_ctx *d, struct rd_work *work, struct rd_hold *hold, struct rd_chain *chain, uint32_t n);
/*
 * Memory for pairs with more than RD_WIN segments on the way, after rd_give_works(), to which `hold` was given with
 * further n_holds elements. wide: n of them, zeroed. Without this call no promise is made or used.
 */
void rd_give_wides(struct rd_ctx *d, struct rd_wide *wide, uint32_t n, uint32_t n_holds);
/*
 * How many pairs and working memories the queue pairs of one tenant may have, and the same part of what is promised;
 * without this call: all.
 */
void rd_share(struct rd_ctx *d, uint32_t pairs, uint32_t works);
/*
 * Gives the hash tables of pairs, before the first pair. Without them each search goes through all pairs. bucket:
 * zeroed memory, 2 * n of them, n a power of two. key: random and secret, so that a peer cannot put all its pairs into
 * one bucket.
 */
void rd_give_buckets(struct rd_ctx *d, struct rn_list *bucket, uint32_t n, const uint64_t key[2]);

/* How many pairs are up. */
uint32_t rd_pairs(const struct rd_ctx *d);

/* How a queue pair of reliable datagrams behaves. */
struct rd_manner {
	bool loose;  /* what it sends is unordered */
	bool strict; /* the first work request that fails takes the QP to ERR */
};
/* Gives `side` to a QP of qp_attr.many, after qp_init. BAD_ATTR: the QP is of another kind. */
RN_NODISCARD enum qp_verdict rd_attach(struct qp *qp, struct rd_side *side, struct rd_manner manner);

/* Called by the worker that owns the QP. As qp_step and qp_forget; rd_doorbell: the client has rung. */
enum qp_verdict rd_modify(struct rd_ctx *d, struct qp *qp, enum qp_state to);
void rd_destroy(struct rd_ctx *d, struct qp *qp);
void rd_doorbell(struct rd_ctx *d, struct qp *qp);
/* The client has posted to a shared receive queue: rd_look() shall look at the pairs that wait. */
void rd_recvs(struct rd_ctx *d);
/*
 * Looks at one pair that keeps segments whose turn has come, at one waiting pair, whose message may find a receive now,
 * or at one queue that stands still and can go on. False: there is none to look at.
 */
bool rd_look(struct rd_ctx *d);

/* The next pair for which rd_out must be called until it returns 0; NULL: there are no more. */
struct rd_pair *rd_pop(struct rd_ctx *d);
void rd_put(struct rd_ctx *d, struct rd_pair *p); /* nothing happens for a pair that has ended meanwhile */
/*
 * The pair, which rd_pop() has returned, waits in the caller's list until rd_unpark(). Nothing happens for a pair that
 * has ended meanwhile, or that rd_out() has made one for rd_pop() again.
 */
void rd_park(struct rd_pair *p, struct rn_slist *where);
/* The first pair of the list is one for rd_pop() again. False: there is none. */
bool rd_unpark(struct rd_ctx *d, struct rn_slist *where);
/* Writes the pair's next packet, to p->addr, of at most RD_PACKET_MAX bytes. 0: none now; the pair may have ended. */
uint32_t rd_out(struct rd_ctx *d, struct rd_pair *p, uint8_t *buf);

/* A received packet, in one piece, from the device at addr. */
struct rd_rx {
	const uint8_t *p;
	uint32_t len;
	const struct rd_hdr *h; /* filled in by rd_parse() */
	const uint8_t *addr;    /* RD_ADDR_LEN */
};
/*
 * Takes a packet. qp: the QP of h->dst_qpn; NULL: none. Returns the length of an answer to the same address, which MUST
 * be sent; 0: none.
 */
uint32_t rd_in(struct rd_ctx *d, struct qp *qp, const struct rd_rx *rx, uint8_t answer[RD_ANSWER_MAX]);

/* The flow to the device at addr is lost: work under way to this device fails with RETRY_EXC. */
void rd_lost(struct rd_ctx *d, const uint8_t addr[RD_ADDR_LEN]);

/* When rd_tick() is due: a wait for a receive ends, or a silent peer is to be asked. RN_NEVER: nothing is under way. */
uint64_t rd_timer(const struct rd_ctx *d);
void rd_tick(struct rd_ctx *d);

#endif
