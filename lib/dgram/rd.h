/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The carrier of reliable datagrams: queue pairs without a connection, whose work requests each name a peer. The
 * messages to and from one peer QP are one sequence of messages of the engine (qp_engine.h): Send, Write, Read and
 * Atomics, of any size, in order. The flows of udpr.h carry the packets of this room: each packet arrives at most once,
 * packets arrive in any order, and the sender is told when its flow is lost. doc/datagram-iwarp.md has the rules for
 * both ends. Its terms: a *run* is the sequence of segments that one QP sends to another; a segment has its *turn* when
 * the receiver checks, places and delivers it, and is *taken* from then on.
 *
 *	 0  kind (8 bits) | flags (8 bits) | patience (8 bits) | room (8 bits)
 *	 4  0 | destination QPN (24 bits)
 *	 8  0 | source QPN (24 bits)
 *	12  SEGMENT: Q_Key of the destination, or, in an answer to a Read or Atomic, the MSN of the request. TAKEN with
 *	    RD_F_BACK: how many segments of the run have been sent. SEGMENTS: 0
 *	16  run: the sender's number for this pair of QPs; a later run has a greater number (RFC 1982)
 *	20  the number of the receiver's run; 0: the sender does not know it yet
 *	24  SEGMENT: its number in the run, from 0. SEGMENTS: the number of the first one. TAKEN: how many segments of
 *	    the run were sent RD_SURE_NS ago
 *	28  how many segments of the receiver's run have had their turn
 *	32  with flag RD_F_MORE: which of the 64 segments behind the first missing one have had their turn (64 bits)
 *	    body: SEGMENT one DDP segment; SEGMENTS several, each behind the octets of struct rd_part; REFUSED
 *	    nothing, or what an RDMAP Terminate says (RFC 5040, 4.8)
 *
 * A pair of QPs is made on first use from a bounded table. A pair at rest is small: its working memory comes from a
 * bounded pool when a segment arrives or a work request is taken, and goes back when nothing is under way. When the
 * pool is empty, a send queue stands still, and a peer's segment is refused. At most RD_WIN segments of a run are on
 * the way unless the receiver promises more. So a receiver keeps at most RD_WIN segments for a pair whose next segment
 * is missing or finds no receive. A work request is complete when the peer QP has taken all of its segments, or has
 * answered. A failure ends the pair: the work request at fault gets the failure's status, later ones are flushed, and
 * REFUSED tells the peer. The QP and its other pairs go on; the next work request to that peer begins a new run. A
 * message whose completion says success was delivered exactly once, a failed message at most once.
 *
 * More than RD_WIN segments of an ordered run may be on the way when the receiver allows it. The run's sender asks for
 * this (RD_F_MUCH). The receiver promises to keep further segments, as far as it has free memory, and tells the sender
 * the sum as `room`. A promise stands until that many segments have had their turn, or until the sender gives it back
 * (RD_F_BACK) because it has sent nothing for a while. Promises made before the sender gives back are void: from then
 * on the sender counts only promises that come with a greater `taken`.
 *
 * A run is ordered or unordered. An unordered run consists of chains of segments, one chain for each message. A segment
 * has its turn when the segments before it in its chain have had theirs. So a lost segment delays its own message
 * alone, and work requests complete in any order. An ordered run is a single chain.
 *
 * Segments that are there at the same time share packets (SEGMENTS), as many as fit, when the peer has told that it
 * takes such packets (RD_F_PACKS). Nothing waits for a packet to fill. Each segment of such a packet has its own number
 * and its own turn, and may wait or fail by itself.
 *
 * A work request whose pair is full leaves the send queue and waits in a list of its pair, so that work requests behind
 * it for other peers go on. At most RD_SENDS work requests of a QP wait like this; then the queue stands still.
 *
 * In a worker's turn:
 *	for each DATA of a flow		udpr_rx_data(), rd_in(), send the answer if there is room
 *	for each doorbell		rd_doorbell(d, qp), or of a shared receive queue rd_recvs(d)
 *	when rd_timer(d) is due		rd_tick(d)
 *	while (rd_look(d)), as far as there is room for effects
 *	while ((p = rd_pop(d)))
 *		while (p's flow has room and rd_more(d, p) and (len = rd_out(d, p, buffer)))
 *			give it to the flow		(the flow is full: rd_park(p, list))
 *	a flow is gone			rd_lost(d, address)
 *
 * Pure. Memory is the caller's. Threads: the worker that owns the QP. Lengths are bytes, times are nanoseconds.
 */
#ifndef RD_H
#define RD_H

#include "base/rn_list.h"
#include "base/rn_wheel.h"
#include "iwarp/rdmap_wire.h"
#include "qp/qp_engine.h"

#define RD_HDR_LEN  32u
#define RD_MORE_LEN 8u
#define RD_ADDR_LEN 16u
#define RD_WIN      16u         /* segments of a run on the way, without a promise; a power of two */
#define RD_WIDE     4096u       /* places for segments on the way with promises; a power of two */
#define RD_ROOM_MAX 255u        /* greatest value of `room`, whose unit is RD_WIN segments */
#define RD_SPAN     64u         /* numbers of an unordered run's segments on the way lie this close; bits of a word */
#define RD_SENDS    64u         /* work requests of a QP that wait for their pairs, at most */
#define RD_WRS      64u         /* work requests of a pair on the way at most; a power of two */
#define RD_DEPTH    16u         /* Reads and Atomics of a pair under way at most, each way */
#define RD_SEG_MAX  1360u       /* bytes of a DDP segment: a packet fits an MTU of 1500 over IPv6 */
#define RD_TOLD     32u         /* ended runs whose errors are remembered, at most */
#define RD_NEAR     64u         /* pairs that are found without their hash table; a power of two */
#define RD_PARTS    RD_WIN      /* segments of a SEGMENTS, at most */
#define RD_PART_LEN 8u          /* octets before each of them */
#define RD_RNR_LAST 7u          /* rd_hdr.rnr: a sender with a larger value waits as long as the receiver does */
#define RD_PROBE_NS RN_NS_PER_S /* how often a silent peer is asked whether it knows the pair */
/*
 * After this time a flow has delivered a packet, or the flow is lost. A silent peer whose run is not known is not asked
 * sooner.
 */
#define RD_SURE_NS    (8 * RN_NS_PER_S)
#define RD_PACKET_MAX (RD_HDR_LEN + RD_SEG_MAX)
#define RD_ANSWER_MAX (RD_HDR_LEN + RD_MORE_LEN + RDMAP_TERM_MAX_LEN)
#define RD_RUN_NS     (RN_NS_PER_S / 64) /* unit of the clock that gives runs their numbers */
#define RD_RUNS       4096u              /* the numbers of this many runs are remembered, by QPN */

enum rd_kind {
	RD_SEGMENT = 1,
	RD_TAKEN,    /* has no segment; says how many segments have had their turn; refused when the pair is unknown */
	RD_REFUSED,  /* the run of the packet's receiver is over; never answered */
	RD_SEGMENTS, /* several segments with numbers that follow each other */
};

#define RD_F_LOOSE 0x01u /* SEGMENT, SEGMENTS: the run is unordered */
#define RD_F_FIRST 0x02u /* SEGMENT, or a part of SEGMENTS: the first of a chain */
#define RD_F_LAST  0x04u /* SEGMENT, or a part of SEGMENTS: the last of a chain */
#define RD_F_MORE  0x08u /* `more` follows the header */
#define RD_F_MUCH  0x10u /* SEGMENT, SEGMENTS of an ordered run: the sender asks for promises */
#define RD_F_BACK  0x20u /* TAKEN: the sender gives back all promises; rd_hdr.qkey: segments of the run sent so far */
#define RD_F_PACKS 0x40u /* SEGMENT, SEGMENTS, TAKEN: the sender takes SEGMENTS */

struct rd_hdr {
	uint8_t kind;  /* enum rd_kind */
	uint8_t flags; /* RD_F_*; rd_build() sets RD_F_MORE if more is not 0 */
	uint8_t rnr;  /* SEGMENT: how many RNR times its message waits for a receive, plus 1; 0: the receiver decides */
	uint8_t room; /* 0: no promise; else RD_WIN * room segments from `taken` on may be on the way */
	uint32_t dst_qpn, src_qpn, qkey;
	uint32_t run, peer_run, number, taken;
	uint64_t more; /* bit i: segment taken + 1 + i has had its turn */
	uint32_t body; /* parsed only: where the body begins */
};

/* A segment of a SEGMENTS: what the octets before it say, and where the segment lies. */
struct rd_part {
	uint32_t len;       /* octets of the segment */
	uint8_t flags, rnr; /* RD_F_FIRST, RD_F_LAST; as in rd_hdr */
	uint32_t qkey;      /* as in rd_hdr, of a SEGMENT */
	uint32_t at;        /* parsed only: where the segment begins in the packet */
};

/*
 * Reads a packet's header. False: too short, an unknown kind, an impossible number, or a SEGMENTS whose parts do not
 * fill the packet, or are empty or too many.
 */
RN_NODISCARD bool rd_parse(const uint8_t *p, uint32_t len, struct rd_hdr *h);
/* Reads the part that begins at `at` in a packet of len octets. False: there is no whole part, or an empty one. */
bool rd_part_parse(const uint8_t *p, uint32_t len, uint32_t at, struct rd_part *part);
/* Writes the RD_PART_LEN octets before a segment. */
void rd_part_build(uint8_t *p, const struct rd_part *part);
/* Writes RD_HDR_LEN octets, and RD_MORE_LEN more if h->more is not 0. Returns how many. */
uint32_t rd_build(uint8_t *p, const struct rd_hdr *h);

enum rd_state {
	RD_FREE = 0, /* in the list of free pairs; first use moves on */
	RD_UP,       /* in use; a failure, or the end of its QP, moves on */
	RD_ENDED,    /* belongs to no QP any more; rd_out sends REFUSED and moves on to RD_FREE */
	RD_GONE, /* has ended, sends nothing; rd_pop or rd_unpark takes the pair off its list, moves on to RD_FREE */
};

/* A segment that is kept because its turn has not come, or its message finds no receive. */
struct rd_hold {
	struct rn_slink link;
	uint32_t len;
	uint32_t asked; /* in an answer to a Read or Atomic: the MSN of the request */
	uint8_t flags;  /* RD_F_* */
	uint8_t rnr;    /* as in rd_hdr */
	uint8_t seg[RD_SEG_MAX];
};

/* A chain of an unordered run that is not the engine's current chain: what of struct qp_msgs belongs to the chain. */
struct rd_chain {
	struct rn_slink link;
	uint32_t at; /* the number of its next segment */
	bool imm_held;
	uint32_t imm, imm_len, write_len;
	struct ddp_uq uq;
	struct qp_recv recv;
};

/* Memory that a pair has beside its working memory while more than RD_WIN segments may be on the way. */
struct rd_wide {
	struct rn_slink link;          /* in the list of free ones */
	struct rd_hold *held[RD_WIDE]; /* kept segments of the peer's run, by number % RD_WIDE */
	uint32_t wr_of[RD_WIDE];       /* argument of qp_acked() for segment number % RD_WIDE */
};

/*
 * The working memory of a pair, which the pair has from the bounded pool of its worker while something is under way:
 * the engine's sequence of messages, and what is on the way in both runs.
 */
struct rd_work {
	struct rn_slink link;      /* in the list of free ones */
	struct rn_link of_busy;    /* the worker's pairs that are up and have such memory */
	struct rn_link of_widened; /* those of these that have a struct rd_wide, too */
	struct rd_pair *pair;
	uint64_t used;       /* when the pair last sent a packet, or a segment was last taken at either end */
	uint32_t sure, mark; /* our segments below `sure` were sent RD_SURE_NS ago; below `mark`, before mark_at */
	uint64_t mark_at;
	uint32_t qkey;            /* the peer's Q_Key for the message that is being sent */
	uint32_t acked;           /* number of our first segment that the peer has not taken */
	uint64_t had;             /* loose; bit i: the peer has taken our segment acked + i */
	uint32_t n_had;           /* number of bits set in `had` */
	bool inside;              /* the last segment that was sent did not end its message */
	bool sender;              /* the pair has taken work requests */
	bool waits;               /* segment wait_number waits for a receive */
	bool drains;              /* the QP is in SQD, and counts the pair in rd_side.draining */
	bool chained;             /* peer_loose: the engine has a current chain, whose next segment is `at` */
	uint64_t map;             /* peer_loose; bit i: segment next + i has had its turn */
	uint32_t at, wait_number; /* numbers of the peer's segments */
	struct rn_timer wait_end; /* when this wait ends; not armed: never */
	struct rn_link of_waits;  /* the worker's pairs that wait for a receive */
	struct rn_slist sends;    /* work requests that wait for their turn: struct rd_send */
	struct rn_slist chains;   /* struct rd_chain; at most RD_WIN */
	uint32_t n_chains;
	uint32_t holds;       /* how many segments are kept; at most RD_WIN + promised */
	struct rd_wide *wide; /* NULL: at most RD_WIN segments are on the way in each direction */
	uint32_t promised;    /* how many segments beyond RD_WIN the peer's ordered run may have on the way */
	uint32_t more;        /* how many segments beyond RD_WIN our ordered run may have on the way */
	uint32_t void_at;     /* a promise that came with this number as `taken` is void */
	bool gives;           /* the peer has made a promise that we have not given back */
	bool back;            /* the next TAKEN gives all promises back, if no segment of ours is on the way then */
	uint32_t gap;         /* the first missing segment when rd_tick() last looked; it is missing since gap_at */
	uint64_t gap_at;
	struct rn_link of_due; /* the worker's pairs that keep segments whose turn has come, or wait too long for one */
	struct qp_msgs m;
	struct rd_hold *held[RD_SPAN]; /* as in struct rd_wide, by number % RD_SPAN; not in use if `wide` is set */
	uint32_t wr_of[RD_SPAN];       /* the same for wr_of */
	uint32_t term_len;             /* RD_ENDED: octets of term */
	uint8_t term[RDMAP_TERM_MAX_LEN];
	struct qp_work work;
	struct qp_wr wr[RD_WRS];
};

/* A list of pairs, doubly linked by their places in the worker's table plus 1. 0: none. */
struct rd_list {
	uint16_t first, last;
};
struct rd_link {
	uint16_t next, prev;
};
#define RD_PAIRS_MAX (UINT16_MAX - 1u) /* pairs of a table, at most */

/*
 * What a pair at rest keeps of the engine's sequence of messages (struct qp_msgs), the numbers that must continue, and
 * its link.
 */
struct rd_rest {
	uint32_t msn_send, msn_read, msn_atomic; /* sending */
	uint32_t uq_send, uq_read, uq_atomic;    /* receiving */
	uint32_t imm_len;
	struct rd_link link; /* RD_IN_RESTS */
};

/* The lists in which a pair may be at the same time. */
enum rd_in {
	RD_IN_QP = 0, /* the QP's pairs */
	RD_IN_BOTH,   /* pairs by QP and peer */
	RD_IN_ADDR,   /* pairs by the peer's device */
	RD_INS,
	RD_IN_RESTS = RD_INS /* the tenant's pairs that rest; the first one has rested longest. Links: rd_rest.link */
};

/* A queue pair of ours, one of a peer, and their runs. A pair at rest is this struct alone. */
struct rd_pair {
	struct qp *qp; /* NULL: the pair has ended */
	uint8_t addr[RD_ADDR_LEN];
	uint32_t qpn, peer_qpn; /* ours, the peer's */
	uint32_t run, peer_run; /* peer_run 0: nothing has come from the peer */
	uint32_t sent;          /* how many segments of our run are sent */
	uint32_t next;          /* the first segment of the peer's run that has not had its turn */
	union {
		struct rd_rest rest; /* if `rests` */
		struct {
			struct rd_work *k;    /* if not `rests`. NULL: none, as the pair is free or has ended */
			struct rn_slink link; /* if not `rests`: free list, or the list of `listed` */
		};
	};
	struct rd_link in[RD_INS];
	uint8_t state; /* enum rd_state; written by rd_set_state() alone */
	uint8_t tenant;
	bool rests : 1;  /* has no working memory, and nothing to send */
	bool listed : 1; /* in the tenant's list of pairs with something to send, or in a list of rd_park() */
	bool owes : 1;   /* the peer must get a report: of segments that had their turn, of promises, or as a probe */
	bool loose : 1;  /* our run is unordered */
	bool peer_loose : 1;
	bool packs : 1; /* the peer takes SEGMENTS */
	bool wrote : 1; /* what a pair at rest keeps of qp_msgs.wrote */
};
_Static_assert(sizeof(struct rd_pair) <= 96, "a pair at rest has grown");

/* A work request that was taken from the queue and waits for its pair, which is busy with earlier ones. */
struct rd_send {
	struct rn_slink link;
	enum qp_wc_status why; /* not QP_WC_SUCCESS: the work request fails when its turn comes */
	uint32_t qkey;         /* the peer's Q_Key */
	struct qp_send s;
};

/* What a QP of reliable datagrams has beside its struct qp: qp->beside. */
struct rd_side {
	struct rd_list pairs;  /* RD_IN_QP */
	bool loose;            /* what the QP sends is unordered */
	bool strict;           /* the first work request that fails takes the QP to ERR */
	bool failed;           /* a work request has failed */
	bool fenced;           /* the next work request waits for earlier Reads and Atomics of the QP to complete */
	struct rn_slist spare; /* the free elements of `send` */
	uint32_t waiting;      /* pairs that wait for a receive */
	uint32_t draining;     /* pairs with work requests that had begun before SQD and have not completed */
	struct qp *qp;
	struct rn_link of_again; /* the tenant's list of queues for which rd_look() shall call rd_route() again */
	struct rd_send send[RD_SENDS];
};

struct rd_stats {
	uint64_t segs_in, segs_out;
	uint64_t packs_out; /* packets with several segments that were sent */
	uint64_t held;      /* segments that waited for their turn or for a receive */
	uint64_t refused;   /* runs that ended in an error, and packets that were refused */
	uint64_t no_pair;   /* packets and work requests for which no pair was free */
	uint64_t no_work;   /* how often a queue stood still, or a segment was refused, for want of working memory */
	uint64_t evicted;   /* resting pairs that were ended to make room */
	uint64_t bad;       /* impossible or late packets */
	uint64_t rnr_ends;  /* runs that ended because no receive was posted in time */
};

/* A peer's run that has ended: how many of its segments had had their turn, and the RDMAP Terminate that ended it. */
struct rd_told {
	uint32_t qpn, peer_qpn, peer_run, len; /* len: octets of term; 0: the entry is not in use */
	uint32_t taken;                        /* as in rd_hdr */
	uint64_t more;                         /* as in rd_hdr */
	uint8_t addr[RD_ADDR_LEN];
	uint8_t term[RDMAP_TERM_MAX_LEN];
};

/* What the queue pairs of one tenant (qp_attr) have of a worker's tables. */
struct rd_tenant {
	uint32_t pairs;        /* pairs that are up */
	uint32_t ended;        /* pairs that have ended, and have not told their peers yet */
	uint32_t works;        /* working memories, those of ended pairs included */
	uint32_t senders;      /* how many of these belong to pairs that send work requests */
	uint32_t wides;        /* struct rd_wide in use */
	uint32_t promised;     /* segments that are promised to the peers of all its pairs */
	struct rd_list rests;  /* RD_IN_RESTS */
	struct rn_slist ready; /* pairs with something to send */
	struct rn_list again;  /* struct rd_side: queues to be looked at when there is working memory */
};

/* A worker's carrier of reliable datagrams. */
struct rd_ctx {
	struct qp_ctx *qp;
	struct rd_pair *pair; /* the table of pairs */
	uint32_t share;       /* pairs of one tenant at most */
	uint32_t work_share;  /* working memories of one tenant at most */
	uint32_t run;         /* the run number that the clock gave at time 0 */
	uint64_t probe_at;    /* when rd_tick() looks at all busy pairs; RN_NEVER: nothing is under way */
	uint64_t hurried;     /* when rd_tick() last looked at the pairs of `widened` */
	uint64_t hurry_at;    /* when the next such look is due; RN_NEVER: no send queue waits for memory of theirs */
	/* The caller's; as udpr_cfg.stood of the flows, which hold packets for longer if the worker stands still. */
	const uint64_t *stood;
	uint64_t stood_seen; /* *stood, as far as the times of busy pairs allow for it */
	struct rn_pool free, works, holds, chains, wides;
	uint32_t n_works, works_used, senders;
	uint32_t n_wides, wides_free;
	uint32_t n_promises;             /* segments that can be promised to all pairs at once */
	uint32_t promised;               /* segments that are promised to all pairs now */
	uint64_t ready;                  /* bit i: rd_tenant.ready of tenant i may have pairs */
	uint64_t again;                  /* the same for rd_tenant.again */
	uint8_t ready_turn;              /* the tenant that rd_pop() looks at first */
	uint8_t again_turn;              /* the same for rd_any_again() */
	struct rn_list busy, waits, due; /* struct rd_work */
	struct rn_list widened;          /* struct rd_work, with a struct rd_wide */
	uint32_t n_waits;
	struct rn_wheel ends;    /* rd_work.wait_end */
	uint32_t looks;          /* how many pairs of `waits`, from the first on, rd_look() must look at */
	struct rd_list *both;    /* RD_IN_BOTH: bucket_mask + 1 lists, a power of two */
	struct rd_list *by_addr; /* RD_IN_ADDR: likewise */
	struct rd_list one[2];   /* the only buckets until rd_give_buckets */
	uint16_t near[RD_NEAR];  /* places of pairs that rd_find() has found last, plus 1; 0: none */
	uint32_t bucket_mask;
	uint64_t key[2];
	uint32_t last_run[RD_RUNS]; /* the latest run of a QP with this QPN % RD_RUNS; 0: there was none */
	struct rd_tenant tenant[QP_TENANTS];
	struct rd_told told[RD_TOLD]; /* the latest ended runs, a ring */
	uint32_t n_told;
	struct rd_stats stats;
};

/*
 * pair: zeroed memory, n_pairs of them, RD_PAIRS_MAX at most. run: the time of day at time 0 of qp_ctx.now, in units of
 * RD_RUN_NS. It makes run numbers greater than those before a restart of the device.
 */
void rd_init(struct rd_ctx *d, struct qp_ctx *qp, struct rd_pair *pair, uint32_t n_pairs, uint32_t run);
/*
 * Gives working memories, and memory for the segments and chains that pairs with working memory keep. hold and chain
 * have RD_WIN elements for each working memory, so no pair takes another's. All memory is zeroed. Called before the
 * first pair is made.
 */
void rd_give_works(struct rd_ctx *d, struct rd_work *work, struct rd_hold *hold, struct rd_chain *chain, uint32_t n);
/*
 * Gives memory for pairs with more than RD_WIN segments on the way. Called after rd_give_works(), whose `hold` must
 * have n_holds further elements. wide: n elements, zeroed. Without this call no promise is made or used.
 */
void rd_give_wides(struct rd_ctx *d, struct rd_wide *wide, uint32_t n, uint32_t n_holds);
/*
 * Limits how many pairs and working memories the queue pairs of one tenant may have. A tenant's part of the promises is
 * its part of the working memories. Without this call a tenant may have all.
 */
void rd_share(struct rd_ctx *d, uint32_t pairs, uint32_t works);
/*
 * Gives the hash tables of pairs, before the first pair. Without them each search goes through all pairs. bucket:
 * zeroed memory, 2 * n of them, n a power of two. key: random and secret, so that a peer cannot put all its pairs into
 * one bucket.
 */
void rd_give_buckets(struct rd_ctx *d, struct rd_list *bucket, uint32_t n, const uint64_t key[2]);

/* How many pairs are up. */
uint32_t rd_pairs(const struct rd_ctx *d);

/* How a queue pair of reliable datagrams behaves. */
struct rd_manner {
	bool loose;  /* what it sends is unordered */
	bool strict; /* the first work request that fails takes the QP to ERR */
};
/* Gives `side` to a QP of qp_attr.many, after qp_init. BAD_ATTR: the QP is of another kind. */
RN_NODISCARD enum qp_verdict rd_attach(struct qp *qp, struct rd_side *side, struct rd_manner manner);

/*
 * Called by the worker that owns the QP. rd_modify does what qp_step does, rd_destroy what qp_forget does. rd_doorbell:
 * the client has rung the QP's doorbell.
 */
enum qp_verdict rd_modify(struct rd_ctx *d, struct qp *qp, enum qp_state to);
void rd_destroy(struct rd_ctx *d, struct qp *qp);
void rd_doorbell(struct rd_ctx *d, struct qp *qp);
/* A client has posted to a queue for which pairs wait: rd_look() shall look at the pairs that wait. */
void rd_recvs(struct rd_ctx *d);
/*
 * Ends one pair whose wait for a receive is over; or looks at one pair that keeps segments whose turn has come, or at
 * one send queue that stands still and can go on, or at one waiting pair, whose message may find a receive now. False:
 * there is nothing to look at.
 */
bool rd_look(struct rd_ctx *d);

/*
 * The next pair for which rd_out must be called until it returns 0; NULL: there are no more. Tenants take turns, so one
 * that has many such pairs delays those of others by no more than one that has few.
 */
struct rd_pair *rd_pop(struct rd_ctx *d);
/* rd_pop() shall return the pair. Does nothing if the pair is free or rests. */
void rd_put(struct rd_ctx *d, struct rd_pair *p);
/*
 * Puts the pair, which rd_pop() has returned, into the caller's list, where it waits until rd_unpark(). Does nothing if
 * the pair is free or rests meanwhile, or if rd_out() has put it into the list of rd_pop() again.
 */
void rd_park(struct rd_pair *p, struct rn_slist *where);
/* Moves the first pair of the caller's list to the list of rd_pop(). False: the list is empty. */
bool rd_unpark(struct rd_ctx *d, struct rn_slist *where);
/*
 * Whether rd_out() may have a packet of the pair, which rd_pop() has returned. False: rd_out() would return 0; the pair
 * rests from now on if nothing is under way.
 */
bool rd_more(struct rd_ctx *d, struct rd_pair *p);
/*
 * Writes the pair's next packet, of at most RD_PACKET_MAX bytes, whose destination is the device at p->addr. Returns
 * the packet's length; 0: there is none now, and the pair may have ended.
 */
uint32_t rd_out(struct rd_ctx *d, struct rd_pair *p, uint8_t *buf);

/* A received packet, in one piece, from the device at addr. */
struct rd_rx {
	const uint8_t *p;
	uint32_t len;
	const struct rd_hdr *h; /* filled in by rd_parse() */
	const uint8_t *addr;    /* RD_ADDR_LEN */
};
/*
 * Takes a packet. qp: the QP with number h->dst_qpn; NULL: there is none. Returns the length of an answer, which the
 * caller sends to the same address; 0: there is no answer. An answer for which the caller has no room may be dropped:
 * the peer asks again after RD_PROBE_NS, or RD_SURE_NS. A packet MUST NOT be dropped because its answer has no room:
 * two flows that are full would stop each other.
 */
uint32_t rd_in(struct rd_ctx *d, struct qp *qp, const struct rd_rx *rx, uint8_t answer[RD_ANSWER_MAX]);

/* The flow to the device at addr is lost: work under way to this device fails with RETRY_EXC. */
void rd_lost(struct rd_ctx *d, const uint8_t addr[RD_ADDR_LEN]);

/*
 * When rd_tick() or rd_look() is due: a silent peer is to be asked, or a wait for a receive ends. RN_NEVER: nothing is
 * under way.
 */
uint64_t rd_timer(const struct rd_ctx *d);
void rd_tick(struct rd_ctx *d);

#endif
