/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker: one thread with its own connections, timers, neighbours and transmit queues. One turn:
 *
 *	clock → commands → receive (ports, frames handed over, loopback) → completions of what came → doorbells →
 *	timers → ready connections → rc_flush → effects → transmit → sleep when there was nothing to do for cfg.spin_us
 *
 * Everything here is for the worker's own thread unless marked otherwise.
 */
#ifndef RNICD_WORKER_INT_H
#define RNICD_WORKER_INT_H

#include <rte_mbuf.h>
#include <rte_ring.h>

#include "base/rn_list.h"
#include "base/rn_wheel.h"
#include "border/bell.h"
#include "border/event.h"
#include "plane/arp.h"
#include "plane/conn.h"
#include "plane/flow.h"
#include "plane/frag.h"
#include "plane/gram.h"
#include "plane/port_tx.h"
#include "plane/rd.h"
#include "plane/stage.h"
#include "plane/stream.h"
#include "plane/ud.h"

#define WORKER_BURST     32u
#define WORKER_BURST_MIN 8u   /* some drivers read frames in multiples of eight only */
#define WORKER_LOOP      512u /* frames on their way to the same port */
#define WORKER_MAX_IOV   4u   /* slices of a received frame; more are copied into one */
#define WORKER_LISTENERS LOOK_LISTENERS
#define UD_GROUP_HASH    64u

/* In the private area of every mbuf that may be received or carry a client's bytes. */
struct mbuf_priv {
	union {
		struct rc_tcp_pkt pkt; /* its address is the packet's ref in tcp_lite and qp */
		struct rn_slink late;  /* of a datagram to a group: in ud_group.late */
	};
	struct rn_iov iov[WORKER_MAX_IOV];
	struct rte_mbuf_ext_shared_info shinfo;
};
#define MBUF_PRIV_SIZE ((uint16_t)((sizeof(struct mbuf_priv) + RTE_MBUF_PRIV_ALIGN - 1) & ~(RTE_MBUF_PRIV_ALIGN - 1u)))

static inline struct mbuf_priv *mbuf_priv(struct rte_mbuf *m) { return rte_mbuf_to_priv(m); }
static inline struct rte_mbuf *mbuf_of_ref(uint64_t ref)
{
	return (struct rte_mbuf *)(void *)((char *)(uintptr_t)ref - offsetof(struct mbuf_priv, pkt) -
					   sizeof(struct rte_mbuf));
}

struct listener {
	struct flow flow; /* key: port and lport, all else zero */
	struct conn_listen cfg;
	struct rn_list half; /* struct conn, by half: half-open connections, oldest first */
	uint32_t half_open;
	uint64_t cookies_until; /* until then an ACK may be the answer to a SYN cookie that this worker has sent */
	bool used;
};

/* A connection with all that its worker keeps of it. The fields that segments need come first. */
struct conn {
	struct rc_tcp qc RN_ALIGNED(RN_CACHE_LINE);
	struct conn *dead_next; /* in the worker's list `dead`, whose connections are freed at the end of the turn */
	struct flow flow;
	struct worker_client *client; /* NULL: frames of this connection never refer to a client's memory */
	struct rn_timer timer;
	struct way way;
	struct conn_addr addr;
	struct listener *listener; /* set while half open and on the listener's list */
	struct rn_link half;       /* in the listener's list of half-open connections */
	struct rn_link half_any;   /* in the worker's list of all half-open ones, or of those in TIME_WAIT */
	struct rn_link link;       /* in conn_free, or in conn_transmit's list of parked connections */
	bool dead;
	uint16_t path_mss; /* what the control thread was told; 0: the path takes segments as large as the port's */
};
_Static_assert(offsetof(struct conn, qc.rc.m) % RN_CACHE_LINE == 0 && offsetof(struct conn, flow) % RN_CACHE_LINE == 0,
	       "the groups of qp_msgs, rc and flow begin at cache lines");

static inline struct conn *conn_of(const struct rc *c) { return rn_container_of(c, struct conn, qc.rc); }

static inline void conn_prefetch(const struct flow *f)
{
	const uint8_t *c = (const uint8_t *)f - offsetof(struct conn, flow);

	if (rn_unlikely(f->kind != FLOW_CONN))
		return;
	for (uint32_t at = 0; at < sizeof(struct rc_tcp); at += RN_CACHE_LINE)
		__builtin_prefetch(c + at);
}

/* Written by other threads too; on lines of its own. */
struct worker_shared {
	uint32_t stop RN_ALIGNED(RN_CACHE_LINE); /* control thread: leave the loop */
	struct rte_ring *rx_moved; /* any worker → this: received frames of flows that this worker owns */
	struct rte_ring *tx_moved; /* any worker → this: frames for port queues that this worker owns */
};

struct rnicd_worker {
	struct worker_shared sh;
	uint32_t index RN_ALIGNED(RN_CACHE_LINE);
	uint32_t lcore; /* DPDK's number, not the CPU's */
	int socket;
	uint64_t now;
	uint64_t busy;          /* time of the last turn with work */
	uint64_t ran;           /* time until which the worker is known to have run, or to have slept voluntarily */
	bool woken;             /* woken by a descriptor since the last turn */
	bool late;              /* frames that are read now may have waited for this worker */
	bool more;              /* this turn has not read all received frames */
	uint32_t more_turns;    /* turns in a row with more to do */
	uint32_t group_load;    /* frames from lines to groups that this turn has handled, and members that got them */
	uint32_t alone;         /* idle turns before the worker next asks whether another thread wants its CPU */
	uint64_t shy_until;     /* until then the worker sleeps without spinning: another program uses the CPU */
	uint64_t nap;           /* ns: longest sleep while a port cannot signal packets */
	uint64_t coarse_at;     /* when the timers of fragments and neighbours are looked at again */
	uint64_t turns, sleeps; /* counters */
	uint64_t flushed;       /* work requests flushed before this turn */
	uint64_t flushed_most;  /* most work requests flushed in one turn */
	uint64_t locals;        /* work requests that sent nothing before this turn: qp_stats.locals */
	uint32_t locals_most;   /* most of them in one turn */
	uint32_t rung_most;     /* most doorbells of one client in one turn */
	struct stages stages;
	uint32_t blind_ports;              /* a bit for each port that cannot signal packets */
	uint16_t share[RNICD_MAX_LINES];   /* most frames that a port may bring in a turn: worker_read.c */
	uint64_t look_at[RNICD_MAX_LINES]; /* next time to read a port by a system call: worker_read.c */
	uint64_t answers_at;               /* rate limit of resets and cookies for strangers: conn.c */
	uint64_t strangers_at;             /* rate limit of connections without a Request */
	uint64_t hellos_at[2];             /* rate limits of COOKIEs (udpr.h): [0] to strangers, [1] to known peers */
	uint64_t stood;                    /* when a turn last began late, because another program had the CPU */
	uint64_t passive;                  /* connections numbered so far: effects.c */
	uint32_t fx_told;                  /* effects of qp.fx carried out before the control thread's queue was full */
	struct worker_client *clients;
	struct worker_client *ring_first; /* whose doorbells come first in the next turn; NULL: the first client's */
	struct rn_wheel wheel;
	struct flow_table flows;
	struct flow_table listens;
	struct stream_ctx streams;
	struct grams grams;
	struct ud_table uds; /* datagram QPs */
	struct ud_way ud_way[RNICD_MAX_PORTS][UD_WAYS];
	bool rd_any;
	struct rd_port *rd[RNICD_MAX_PORTS]; /* reliable datagrams of these devices are this worker's */
	struct ud_group *groups[UD_GROUP_HASH];
	struct rn_list late_groups; /* struct ud_group, by late_link: groups with frames that wait for a later turn */
	uint32_t late_free;         /* how many more frames may wait so */
	uint32_t ud_wanted;         /* datagrams for a QP or a socket of this worker */
	uint8_t *ud_whole;          /* UINT16_MAX octets: a datagram that came in fragments, copied into one piece */
	struct rn_list conn_free;   /* struct conn, by link */
	struct rn_list half_open;   /* struct conn, by half_any: of all listeners, oldest first */
	struct rn_list time_wait;   /* struct conn, by half_any: oldest first */
	uint32_t half_opens;        /* length of the list half_open */
	uint32_t time_waits;        /* length of the list time_wait */
	struct conn *dead;
	struct rte_mempool *small_pool; /* frames in pieces: headers, references, trailers */
	uint32_t loop_head, loop_tail;
	struct rte_mbuf *loop[WORKER_LOOP];
	struct arp_table *arp[RNICD_MAX_PORTS];
	struct pkt_frag_table *frag[RNICD_MAX_PORTS]; /* NULL: another worker reassembles the port's fragments */
	uint16_t frag_id[FRAG_IDS];                   /* frag.c: frag_next_id() */
	struct port_tx tx[RNICD_MAX_LINES];
	struct rc_tcp_ctx tcp;
	struct dgram_ctx dgram;
	struct listener listener[WORKER_LISTENERS];
	struct listener orphans; /* has the half-open connections of listeners that are gone */
	/* memory of the above */
	struct conn *conns;
	uint32_t n_conns;
	uint32_t conns_used; /* so many elements of `conns` have been in use; the pages after them are untouched */
	struct flow_slot *flow_slots;
	struct flow_slot *listen_slots;
	struct ud_qp **ud_slots;
	void *qp_mem;
};

/* Sets the connection's timer. */
static inline void conn_arm(struct rnicd_worker *w, struct conn *c)
{
	rn_wheel_arm(&w->wheel, &c->timer, rc_tcp_next_wake(&c->qc));
}

extern struct rnicd_worker *worker_at[RNICD_MAX_WORKERS]; /* from start to stop; dataplane.c */

/* ---- worker.c ---- */
int worker_main(void *arg);
/* Handles the doorbells of clients; returns how many were rung. A client has a bounded part of a turn, so have all. */
uint32_t worker_doorbells(struct rnicd_worker *w);
/* Timers of connections, and those of streams, that a turn handles: any number may be due at once. */
#define WORKER_TIMERS 128u
/*
 * If up to this many turns in a row read full bursts, there is a backlog, and TCP's timers wait until it is read. If
 * more turns do, there is a flood, and timers run.
 */
#define WORKER_BACKLOG_TURNS 32u
/*
 * Tell TCP's timers (struct tcpl_turns), at the beginning of a turn: how long the worker did not run; after receiving:
 * whether received frames are still unread.
 */
void worker_tell_lost(struct rnicd_worker *w);
void worker_tell_behind(struct rnicd_worker *w);

/* ---- effects.c ---- */
/*
 * Carries out the effects that calls into qp have left. Whether there is room for the effects of one more call; false:
 * the control thread is behind, and the caller must do nothing that makes effects.
 */
bool worker_effects(struct rnicd_worker *w);

/* Call rc_modify, rc_destroy and rc_doorbell, or what the QP's carrier has in their place. */
enum qp_verdict worker_qp_modify(struct rnicd_worker *w, struct qp *qp, enum qp_state to);
void worker_qp_destroy(struct rnicd_worker *w, struct qp *qp);
void worker_qp_doorbell(struct rnicd_worker *w, struct qp *qp);

/* The number of connections that may be in TIME_WAIT. */
static inline uint32_t worker_time_waits(uint32_t places) { return places / 8; }

/* Whether there is room for the effects of one more call into qp, as worker_effects() says. */
static inline bool worker_space(struct rnicd_worker *w)
{
	return rn_likely(!rc_tcp_full(&w->tcp)) || worker_effects(w);
}

/* ---- neigh.c ---- */
/* Carries out what an arp_ call asks for. */
void worker_arp_todo(struct rnicd_worker *w, struct rnicd_port *port, const struct arp_todo *todo);
/* The next hop of an address: the address itself, the gateway, or NULL. */
const struct pkt_addr *conn_next_hop(const struct rnicd_port *port, const struct pkt_addr *ip);
/* The ARP entry of a next hop, asked for when it is not known or not fresh; NULL: connections hold all entries. */
struct arp_entry *neigh_get(struct rnicd_worker *w, struct rnicd_port *port, const struct pkt_addr *hop);
void neigh_timers(struct rnicd_worker *w);

/* ---- worker_read.c ---- */
/* Reads at most WORKER_BURST frames of a port into m; returns how many. 0: none, or the port must not be read now. */
uint32_t worker_read(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf **m);
/* Call after the n frames that worker_read has read: how many of them were wanted decides how many are read next. */
void worker_share(struct rnicd_worker *w, const struct rnicd_port *port, uint32_t n, uint32_t wanted);
/* The next worker_rx reads every port, even if that takes a system call. */
void worker_read_all(struct rnicd_worker *w);

/* ---- worker_rx.c ---- */
uint32_t worker_rx(struct rnicd_worker *w);
/* Whether a parsed frame's TCP or UDP checksum may be relied on. */
bool worker_csum_good(const struct rnicd_port *port, const struct rte_mbuf *m, const struct pkt *p);
/* Hands a frame to the worker that owns its flow. Takes m. */
void worker_move(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, uint32_t owner);

/* ---- worker_sleep.c ---- */
/* Called after a turn without work: spins, or sleeps until something happens or is due. */
void worker_idle(struct rnicd_worker *w);

/* ---- socket_bells.c ---- */
/* Handles the doorbells of sockets; returns how many were rung. A user has a bounded part of a turn. */
uint32_t worker_socket_bells(struct rnicd_worker *w);

/* ---- commands.c, commands_conn.c ---- */
/* Carries out the control thread's commands that have come; returns their number. */
uint32_t worker_commands(struct rnicd_worker *w);
/* Carries out a command about connections or listeners, for commands.c. */
void command_conn(struct rnicd_worker *w, struct cmd *c);

/* ---- conn.c, conn_tcp.c, conn_tx.c ---- */
void conn_tcp_init(const struct rnicd_port *port);
/* The TCP configuration of a port's connections. flags: of the connection, RC_* */
const struct tcpl_cfg *conn_tcp_cfg(uint32_t port, uint32_t flags);
/*
 * Handles a TCP segment for the port's own address, whose checksum is good. Returns the frame that the caller must
 * free; NULL: the frame is kept.
 */
struct rte_mbuf *conn_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p,
			    const struct flow *f);
/*
 * conn_died is called when the connection has reported QP_FX_CLOSED. conn_bury frees the connection at the end of the
 * turn, when no function uses it any more.
 */
void conn_died(struct rnicd_worker *w, struct rc *qc);
void conn_bury(struct rnicd_worker *w);
/* The connection's peer has sent its MPA Request: the connection does not count as half open any more. */
void conn_requested(struct rnicd_worker *w, struct rc *qc);
/*
 * Whether one more stranger (a packet that belongs to no connection or flow) may be answered now. The rate of resets,
 * cookies and events to the control thread that strangers cause is limited.
 */
bool conn_answer_allowed(struct rnicd_worker *w, struct rnicd_port *port);
/*
 * Whether one more stranger may have a connection now. *at: the time up to which the allowance is used up. conn_proved
 * gives back what such a connection has used, when the peer has proved that it is no flood.
 */
bool conn_allowed(const struct rnicd_worker *w, struct rnicd_port *port, uint64_t *at);
void conn_proved(uint64_t *at);
/*
 * Whether one more HELLO of reliable datagrams may be answered now. known: it comes from the address of a known peer.
 * Known peers and others have an allowance each, which no other answers use: a flood must not keep flows from opening.
 */
bool conn_hello_allowed(struct rnicd_worker *w, struct rnicd_port *port, bool known);
/* Lets the worker receive the frame once more, in its next turn. Takes m. */
void conn_again(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m);
/* Lets the worker receive a frame from the port to the port's own address, in place of sending it. Takes m. */
void conn_loop(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m);
/* Transmits for connections that are ready; returns the number of segments. */
uint32_t conn_transmit(struct rnicd_worker *w);
uint32_t conn_timers(struct rnicd_worker *w);
/* Handles the message of a router that a segment of this flow was too large for a link. */
void conn_too_big(struct rnicd_worker *w, struct flow *f, const struct pkt_too_big *b);

/* ---- txseg.c ---- */
#define TXSEG_AHEAD 8u
/*
 * Packet buffers for the segments that one connection sends in one go. The first is taken alone, since many connections
 * send no more; from the second on TXSEG_AHEAD are taken at a time, so that the cache misses of their headers overlap.
 * {0}: none yet.
 */
struct txseg_buffers {
	struct rte_mbuf *m[TXSEG_AHEAD];
	uint32_t n;
	bool more; /* the first one has been taken */
};
/* Makes one segment into a frame, without the neighbour's MAC if it is not known; NULL: no buffer. */
struct rte_mbuf *txseg_build(struct rnicd_worker *w, struct conn *c, const struct tcpl_out *o, struct txseg_buffers *b);
/* Whether a frame of a wire inside this process refers to a client's memory. */
bool txseg_is_reference(const struct rte_mbuf *m);
/* Gives back what is left. Call after the last segment. */
static inline void txseg_end(struct txseg_buffers *b)
{
	if (b->n != 0)
		rte_pktmbuf_free_bulk(b->m, b->n);
}

/* ---- worker_create.c ---- */
/*
 * From now on the port's packets wake the sleeping worker. If the port cannot signal packets, the worker looks at the
 * port often instead.
 */
void worker_port_fd(struct rnicd_worker *w, const struct rnicd_port *port);
/* Called by the control thread when the ports are up. On failure NULL, and a sentence in err. */
struct rnicd_worker *worker_create(uint32_t index, char *err, uint32_t err_len);
/* Called when all workers have stopped: frees the frames that the worker holds. */
void worker_drain(struct rnicd_worker *w);
/* Called when all workers are drained and the ports are closed, so that no frame of the worker's pools is in use. */
void worker_destroy(struct rnicd_worker *w);

#endif
