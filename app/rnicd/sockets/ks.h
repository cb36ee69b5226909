/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A second plane under the control side: in place of Ethernet ports and a TCP of its own it has the host's network
 * interfaces and the kernel's sockets, or rnicd's ports and streams (ks_net.h). It carries out the same commands
 * (cmd.h) and sends the same events (event.h), so clients, connection manager and groups are the same code as in rnicd.
 * It runs inside one client's process (embedded.c) and needs no privilege, no DPDK and no hugepages.
 *
 * There is one worker. Its turn is run by a thread of its own, which sleeps when there is nothing to do, and by any
 * thread of the program that polls a completion queue or posts work, so that a program that polls waits for no thread
 * switch. The thread that runs the turn holds ks.lock.
 *
 * 	clock → commands → sockets with input → doorbells → timers → connections, datagram QPs with output → effects
 *
 * Everything here is for the holder of ks.lock unless marked otherwise.
 */
#ifndef KS_H
#define KS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rn_list.h"
#include "base/rn_wheel.h"
#include "border/client_view.h"
#include "border/cmd.h"
#include "border/rnicd.h"
#include "dgram/dgram.h"
#include "rc/rc.h"
#include "sockets/ks_net.h"

#define KS_MTU_MAX     9000u /* bytes of an IP packet; interfaces that take more (lo) are used as if they took this */
#define KS_HOT         4u    /* connections whose sockets each turn reads without asking epoll */
#define KS_BATCH       (256u << 10) /* bytes that one system call sends, about */
#define KS_BATCH_IOV   256u
#define KS_INDEX_SHIFT 16u          /* the bits of a QPN from this one on are the index of its process */
#define KS_BUF         (256u << 10) /* bytes that one system call receives at most */

/* An object that epoll watches: the first member of each object with a socket. */
enum ks_kind { KS_CONN, KS_LISTENER, KS_GUEST, KS_PASSAGE, KS_UD, KS_GROUP };
struct ks_src {
	enum ks_kind kind;
	int fd;            /* -1: none */
	uint32_t events;   /* events that epoll watches; 0: the socket is not in the epoll set */
	struct sock *sock; /* designs host and assisted: the stream of rnicd's behind the descriptor */
};

/* A connected socket of the program (handed.h). */
struct handed {
	struct ks_src src;
};

/* Received bytes; a connection keeps them while its QP has no receive for them. */
struct ks_buf {
	uint32_t off, len; /* of the bytes that are kept */
	uint8_t data[KS_BUF];
};

/* Bytes that the kernel did not take at once; they are sent before all others. */
struct ks_rest {
	uint32_t len, sent;
	uint8_t data[];
};

struct ks_listener {
	struct ks_src src;
	struct rn_link link;
	uint32_t port;
	uint16_t lport;
	uint16_t backlog;
	uint32_t half_open; /* its connections without an MPA Request */
	uint32_t flags;     /* RC_* of its connections */
	uint8_t tos;        /* of their packets */
	uint64_t owner;
	struct mpa_policy policy;
};

/* State of a connection's socket. Written by ks_conn.c and ks_stream.c. */
enum ks_state {
	KS_NEW,        /* active: its first turn begins the connect */
	KS_CONNECTING, /* active: connect is under way until the socket becomes writable */
	KS_REFUSED,    /* active, without a socket: the connect was refused; connects again at `again` */
	KS_OPEN,       /* the socket is connected */
	KS_BROKEN,     /* the socket has failed or was reset: no further system call on it */
};

/* A connection of lib/rc with its socket: ks_stream.c is the adapter between the two. */
struct ks_conn {
	struct ks_src src;
	struct rc rc;
	struct conn_addr addr;
	enum ks_state state;
	uint32_t pos;  /* stream position of the next byte for the connection: the number of bytes received */
	bool eof;      /* the peer's FIN has come */
	bool fin;      /* this side's FIN is to be sent after `rest` */
	bool fin_sent; /* the FIN was sent */
	bool spoke;    /* an FPDU was sent: the bytes before the FIN are no set-up frame */
	bool lost_due; /* BROKEN, but the connection has not been told yet */
	bool assisted; /* design of its queue pair: rnicd computes the CRCs of its FPDUs */
	bool sums_out; /* design assisted: FPDUs are being sent, and rnicd fills in their CRCs */
	bool sums_in;  /* rnicd checks the CRCs of received FPDUs */
	bool dead;     /* QP_FX_CLOSED has been told: freed at the end of the turn */
	struct ks_rest *rest;
	struct ks_buf *kept; /* received bytes for which the QP has no receive; the socket is not read meanwhile */
	struct rn_timer timer;
	uint64_t again;           /* REFUSED: time of the next connect. A FIN that waits: time of the next look */
	uint32_t refused;         /* number of refusals so far */
	struct ks_listener *half; /* the listener that counts it as half open */
	struct rn_link link;
	struct ks_conn *next; /* in ks.dead, or ks.idle */
};

static inline struct ks_conn *ks_conn_of(const struct rc *c) { return rn_container_of(c, struct ks_conn, rc); }

struct ks {
	pthread_mutex_t lock;
	const struct ks_net *net;
	bool assisted; /* constant after start: design of connections whose queue pair asks for none */
	int ep;        /* epoll set of all sockets; is itself in the bell's epoll set */
	uint64_t now;
	uint32_t looks;       /* turns since epoll was last asked */
	uint64_t polled;      /* atomic: number of turns run by threads of the program */
	uint64_t sleeps_till; /* atomic: the progress thread sleeps until then; 0: it is awake */
	uint32_t stop;        /* atomic: the progress thread ends */
	uint64_t passive;     /* connections numbered so far */
	uint32_t fx_told;     /* of rc.qp.fx, when the queue to the control thread was full in between */
	struct worker_client *clients;
	struct rn_wheel wheel;
	struct rn_list conns, listeners;
	uint32_t n_conns;
	uint32_t n_uds; /* datagram QPs */
	struct ks_conn *dead;
	struct ks_conn *idle;        /* closed connections, kept because a command may still name one */
	struct ks_conn *hot[KS_HOT]; /* the most recent first */
	struct ks_buf *in;           /* for the next recv(); NULL: none */
	uint8_t *out;                /* copies of a batch */
	struct dgram_ctx dgram;
	struct rc_ctx rc;
	void *rc_mem;
	uint64_t rc_size;
};
extern struct ks ks;

/* ---- ks_start.c: control thread, before the others ---- */

/* Makes ports (rnicd.port) of the interfaces, configured as in `like`; false with a sentence in err. */
bool ks_ports(const struct rnicd_port_cfg *like, char *err, uint32_t err_len);
/* rnicd.cfg.port[rnicd.n_ports] becomes a port with this Ethernet address. False: no memory. */
bool ks_port_add(const uint8_t mac[PKT_MAC_LEN]);
/* The worker's memory, sockets' epoll and bell. False with a sentence in err. */
bool ks_start(char *err, uint32_t err_len);

/* ---- ks_turn.c ---- */

/*
 * Any thread: runs one turn, unless another thread runs one. True: the turn was run, and has seen all requests posted
 * before the call.
 */
bool ks_poll(void);
/* The body of the progress thread. */
void *ks_main(void *arg);
/* In a child of fork(): closes its copies of the parent's sockets. */
void ks_close_all(void);

/* ---- ks_fx.c ---- */

/* Room for the effects of one more call into lib/conn; false: the control thread is behind. */
bool ks_effects(void);
static inline bool ks_space(void) { return rn_likely(!qp_ctx_full(&ks.rc.qp)) || ks_effects(); }
/* The peer has sent its Request, or the connection has ended. */
void ks_conn_requested(struct ks_conn *c);
void ks_conn_died(struct ks_conn *c);
/* epoll watches the socket for this; 0: not at all. */
void ks_watch(struct ks_src *s, uint32_t events);

/* ---- ks_cmd.c ---- */
uint32_t ks_commands(void);

/* ---- ks_conn.c ---- */
enum conn_verdict ks_conn_open(const struct conn_addr *a, struct rc_params *p, struct rc **out, enum qp_verdict *qp);
/* The same over an existing socket, which belongs to the connection after CONN_OK. passive: the peer sends the
 * Request. */
enum conn_verdict ks_conn_take(struct handed *h, const struct conn_addr *a, struct rc_params *p, bool passive,
			       struct rc **out, enum qp_verdict *qp);
enum conn_verdict ks_listen(const struct ks_listener *l);
void ks_unlisten(uint32_t port, uint16_t lport);
/* The listener's socket has connections. */
void ks_accept(struct ks_listener *l);
/* Uses a connected TCP socket for this device and the listener on its port, or closes it. */
void ks_passive(struct ks_src src, struct ks_listener *l);
/* The TOS or traffic class of the connection's packets. */
void ks_conn_tos(const struct ks_conn *c, uint8_t tos);
void ks_bury(void);
/* Checks whether the connect has succeeded, has failed, or is still under way. */
void ks_connected(struct ks_conn *c);
/* Begins the connect, the first one or one after a refusal. */
void ks_connect(struct ks_conn *c);
/* When the connection's timer is due. */
static inline uint64_t ks_conn_due(const struct ks_conn *c)
{
	const bool waits = c->fin && !c->fin_sent && c->state == KS_OPEN && c->rest == NULL;

	return c->state == KS_REFUSED || waits ? rn_min_u64(c->again, rc_next_wake(&c->rc)) : rc_next_wake(&c->rc);
}

/* NULL: nobody listens there. */
struct ks_listener *ks_listener(uint32_t port, uint16_t lport);

/* ---- ks_handed.c ---- */
extern const struct handed_taker ks_taker;

/* ---- ks_pass.c: processes of one user that share an address ---- */
/* This process gets its index and the numbers of its queue pairs (rnicd.qpn_first). False with a sentence in err. */
bool ks_pass_start(char *err, uint32_t err_len);
/*
 * Control thread: requests for a port of RDMA_PS_UDP are passed to this process from now on, or no longer. ip: the
 * device's address; NULL: all of them. False: another process of the user has it.
 */
bool ks_pass_serve(const struct pkt_addr *ip, uint16_t service);
void ks_pass_serve_end(const struct pkt_addr *ip, uint16_t service);
/* A connection on qp-port: it stays in this process or is passed to the process that its Request names; else it is
 * closed. */
void ks_guest(int fd, const struct ks_listener *l);
void ks_guest_in(struct ks_src *s);
/* Handles connections and datagrams that other processes have passed to this one. */
void ks_passed_in(const struct ks_src *s);
void ks_pass_close(void);

/* ---- ks_stream.c ---- */
/* The socket is connected: rc_opened or rc_in may follow. */
void ks_opened(struct ks_conn *c);
/* Gives up a broken socket. lost: the connection is to be told in its next turn. */
void ks_broken(struct ks_conn *c, bool lost);
/* Reads the socket; true: there was input. */
bool ks_in(struct ks_conn *c);
/* The socket takes bytes again. */
void ks_writable(struct ks_conn *c);
/* The connection's turn: sends a batch of its output; true: there was output. */
bool ks_out(struct ks_conn *c);
/* Sets the events that epoll watches, which follow from the socket's state. */
void ks_interest(struct ks_conn *c);

#endif
