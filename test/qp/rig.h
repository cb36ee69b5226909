/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two devices with their clients in one process, a seeded link between them, and a clock that moves only when nothing
 * else can be done. A raw peer may replace either side: a bare TCP engine whose bytes the test writes itself.
 */
#ifndef RIG_H
#define RIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_rng.h"
#include "conn/rc_tcp.h"
#include "dgram/dgram.h"

#define RIG_QPS    4u
#define RIG_FLOWS  4u
#define RIG_MEM    (4u << 20)
#define RIG_REGION (1u << 20)
#define RIG_SLOTS  256u
#define RIG_CQE    1024u
#define RIG_RAW    (1u << 20)
#define RIG_FX     256u
#define RIG_PD     7u

struct rig_link {
	uint32_t loss, dup, reorder; /* parts per million */
	uint32_t cut;                /* ppm of segments that a middlebox cuts in two */
	uint64_t delay_ns, reorder_ns;
};

struct rig_cfg {
	uint64_t seed;
	uint32_t mtu;
	bool crc, markers[2]; /* markers[i]: side i wants to receive them */
	bool p2p;
	uint8_t rtr, rev;
	uint16_t ird, ord;
	uint32_t accept_flags, connect_flags; /* RC_* */
	bool raw[2];
	bool manual; /* the test handles CONNECT_REQUESTs */
	bool split;  /* received packets consist of several slices */
	/* received packets come in several slices and in long bursts, one between two turns */
	bool bulk;
	uint32_t rcv_space; /* 0: default */
	uint8_t ahead;      /* enum tcpl_ahead */
	bool no_sack;
	uint32_t cqe;                                        /* 0: RIG_CQE */
	bool from;                                           /* completion queues have senders' addresses */
	uint32_t chunks, recs, stages, copies, blocks, wide; /* 0: default */
	struct rig_link link;
};

struct rig_qp {
	struct qp qp;
	struct spsc_prod sq, rq; /* the client's ends of the rings */
	uint64_t shm_off, sq_off, rq_off;
};

struct rig_raw {
	struct tcpl_conn tcp;
	struct tcpl_chunk chunk[256];
	struct tcpl_txrec rec[256];
	struct tcpl_hold hold[64];
	uint8_t tx[RIG_RAW], rx[RIG_RAW];
	uint32_t tx_len, tx_queued, rx_len;
	uint32_t tx_base; /* sequence number of tx[0] */
	bool base_known, fin, reset, open;
};

struct rig_node {
	int id;
	struct rc_tcp_ctx ctx;
	struct dgram_ctx dgram;
	void *pool;
	struct qp_dev dev;
	struct qp_mr mr[256];
	uint8_t *region;
	uint8_t *mem;        /* the registered memory; the tagged offset of mem[0] is RIG_IOVA(id) */
	uint32_t lkey, rkey; /* keys of the region over all of mem, with all rights */
	struct qp_cq scq, rcq;
	struct spsc_cons scq_client, rcq_client;
	struct rig_qp q[RIG_QPS];
	struct rc_tcp conn[RIG_FLOWS];
	struct rig_raw *raw;
	struct tcpl_cfg tcp;
	struct qp_fx fx[RIG_FX];
	uint8_t priv[RIG_FX][64];
	uint32_t n_fx;
	uint32_t notifies;
	uint32_t held;
	bool paused; /* the node takes no turns */
};

struct rig_pkt;
struct rig {
	struct rig_cfg cfg;
	struct rn_rng rng;
	uint64_t now;
	struct rig_node n[2];
	struct rig_pkt *heap; /* list of packets under way, ordered by time */
	uint64_t pkts, dropped;
	uint32_t lose;   /* number of coming segments with payload that will be lost */
	uint32_t silent; /* bits of flows whose segments with payload are all lost */
	bool mirror;     /* segments come back to the node that has sent them */
	uint64_t serial;
	void (*tap)(struct rig *r, int from, const struct tcpl_out *o, const uint8_t *payload);
};

#define RIG_IOVA(id) (UINT64_C(0x7f0000000000) + (uint64_t)(id)*UINT64_C(0x100000000))

void rig_defaults(struct rig_cfg *cfg);
struct rig *rig_new(const struct rig_cfg *cfg);
void rig_free(struct rig *r); /* also checks that every packet and every pool entry has come back */

/* Connects node 0's QP of flow f to node 1's; runs until both are established. */
void rig_connect(struct rig *r, uint32_t f);
void rig_connect_start(struct rig *r, uint32_t f, const void *priv, uint32_t len);
/* Connects node 0's QP of flow f to itself. */
void rig_connect_self(struct rig *r, uint32_t f);
/* Opens TCP from the raw peer as initiator. */
void rig_raw_connect(struct rig *r, int raw_id);
void rig_raw_send(struct rig *r, int raw_id, const void *p, uint32_t len);

/* A segment of any sender arrives at once, without the link. */
void rig_inject(struct rig *r, int to, uint32_t flow, const struct tcpl_out *o, const uint8_t *data);

void rig_turn(struct rig *r, int id);
bool rig_step(struct rig *r); /* handles one event; false: there will never be another */
void rig_run(struct rig *r, uint64_t ns);
void rig_settle(struct rig *r); /* runs until nothing is due within a second */

const struct qp_fx *rig_fx(struct rig *r, int id, enum qp_fx_type type); /* the first effect of this type, or NULL */
uint32_t rig_fx_count(struct rig *r, int id, enum qp_fx_type type);

/* ---- the client's calls ---- */

struct rig_wr {
	uint64_t wr_id;
	uint8_t op, flags;
	const struct qp_sge *sge;
	uint32_t num_sge;
	const void *inl;
	uint32_t inl_len;
	uint64_t raddr;
	uint32_t rkey, aux;
	uint16_t srqn;          /* for an XRC initiator */
	uint64_t operand, swap; /* for Atomics */
	uint64_t bind_len;
	uint32_t access; /* for a bind */
};

/* Puts the work request into the queue without ringing the doorbell. */
bool rig_queue(struct rig_node *n, uint32_t q, const struct rig_wr *w);
bool rig_post(struct rig_node *n, uint32_t q, const struct rig_wr *w);
bool rig_post_recv(struct rig_node *n, uint32_t q, uint64_t wr_id, const struct qp_sge *sge, uint32_t num_sge);
bool rig_poll(struct spsc_cons *c, struct qp_cqe *out);
struct qp_sge rig_sge(const struct rig_node *n, uint32_t off, uint32_t len);
/* Runs until a completion comes; fails the test if none can come. */
struct qp_cqe rig_wait(struct rig *r, struct spsc_cons *c);
/* The 64-bit word at mem + off. */
uint64_t rig_word(const struct rig_node *n, uint32_t off);
void rig_word_set(struct rig_node *n, uint32_t off, uint64_t v);
/* The attributes with which the rig made queue pair i. A test changes what it needs, and calls qp_init(). */
struct qp_attr rig_attr(struct rig_node *n, uint32_t i);
/* Gives the QP a shared receive queue in place of its own; before the QP is connected. */
void rig_share(struct rig_node *n, uint32_t q, struct qp_srq *srq);
uint32_t rig_reg(struct rig_node *n, uint32_t off, uint32_t len, uint32_t rights, uint32_t pd);

#endif
