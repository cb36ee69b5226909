/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A second data path (plane) for the control side. In place of Ethernet ports and a TCP of its own, this plane uses the
 * host's network interfaces and the kernel's sockets, or rnicd's ports and streams (ks_net.h). It carries out the same
 * commands (cmd.h) and sends the same events (event.h), so clients, connection manager and groups are the same code as
 * in rnicd. It runs inside one client's process (embedded.c) and needs no privilege, no DPDK and no hugepages.
 *
 * There is one worker. Its turn is run by a thread of its own (the progress thread), which sleeps when there is nothing
 * to do, and by any thread of the program that polls a completion queue or posts work. So a program that polls waits
 * for no thread switch. The thread that runs the turn holds ks.lock.
 *
 * 	clock → commands → sockets with input → doorbells → timers → connections, datagrams with output → effects
 *
 * Everything here is for the thread that holds ks.lock, unless marked otherwise.
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
#define KS_BATCH       (256u << 10) /* bytes that one system call sends at most, about */
#define KS_BATCH_IOV   256u
#define KS_INDEX_SHIFT 16u          /* the bits of a QPN from this one on are the index of its process */
#define KS_BUF         (256u << 10) /* bytes that one system call receives at most */

/* A socket that epoll can watch. It is the first member of each object that has a socket. */
enum ks_kind {
	KS_CONN,
	KS_LISTENER,
	KS_GUEST,
	KS_PASSAGE,
	KS_RELAY,
	KS_UD,
	KS_UD_OWN,
	KS_GROUP,
	KS_SK_LISTENER,
	KS_GRAMS
};
struct ks_src {
	enum ks_kind kind;
	int fd;            /* -1: none */
	uint32_t events;   /* events that epoll watches; 0: the socket is not in the epoll set */
	struct sock *sock; /* designs host and assisted: rnicd's stream behind the descriptor */
};

/* A socket of the program (handed.h). */
struct handed {
	struct ks_src src;
};

/* Received bytes. A connection keeps the buffer while its QP has no receive for the bytes. */
struct ks_buf {
	uint32_t off, len; /* place and number of the bytes that are kept */
	uint8_t data[KS_BUF];
};

/* Bytes of a connection that the socket did not take at once. They are sent before all others. */
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
	uint32_t flags; /* RC_* of its connections */
	uint8_t tos;    /* TOS of its connections' packets */
	uint64_t owner;
	struct mpa_policy policy;
};

/* State of a connection's socket. Written by ks_conn.c and ks_stream.c. */
enum ks_state {
	KS_NEW,        /* active: its first turn begins the connect */
	KS_CONNECTING, /* active: connect is under way until the socket becomes writable */
	KS_REFUSED,    /* active, without a socket: the peer refused the connect; connects again at `again` */
	KS_OPEN,       /* the socket is connected */
	KS_BROKEN,     /* the socket has failed or was reset: no further system call on it */
};

/* A connection of lib/rc with its socket: ks_stream.c is the adapter between the two. */
struct ks_conn {
	struct ks_src src;
	struct rc rc;
	struct conn_addr addr;
	enum ks_state state;
	uint32_t pos;  /* position in the stream of the next byte for `rc`: the number of bytes that `rc` has taken */
	bool eof;      /* the peer's FIN has come */
	bool fin;      /* this side's FIN is to be sent after `rest` */
	bool fin_sent; /* this side's FIN was sent */
	bool spoke;    /* an FPDU was sent, so the last bytes before the FIN are no set-up frame of MPA */
	bool lost_due; /* BROKEN, but `rc` has not been told yet */
	bool silent;   /* BROKEN, because the peer did not answer */
	bool assisted; /* its queue pair has design assisted: rnicd computes the CRCs of its FPDUs */
	bool sums_out; /* design assisted: rnicd was told where FPDUs begin, and fills in their CRCs */
	bool sums_in;  /* rnicd checks the CRCs of received FPDUs */
	bool dead;     /* in ks.dead, since QP_FX_CLOSED has been reported: freed at the end of the turn */
	struct ks_rest *rest;
	struct ks_buf *kept; /* received bytes for which the QP has no receive; the socket is not read meanwhile */
	struct rn_timer timer;
	uint64_t again;      /* REFUSED: time of the next connect. A FIN that waits: time of the next look */
	uint64_t pause;      /* a FIN that waits: time between the last look and that at `again` */
	uint64_t look;       /* time of the next look whether the peer is silent; 0: nothing is awaited */
	uint32_t refused;    /* how often the peer has refused the connect so far */
	struct stream *sk;   /* the stream socket that has the connection; NULL: a queue pair */
	struct rn_link half; /* in ks.half_open */
	struct rn_link link;
	struct ks_conn *next; /* in ks.dead, or ks.idle */
};

static inline struct ks_conn *ks_conn_of(const struct rc *c) { return rn_container_of(c, struct ks_conn, rc); }

/* What connections tell the stream sockets that have them (ks_sk.c). */
struct ks_streams {
	void (*connected)(struct stream *s);
	void (*not_connected)(struct stream *s, int err); /* the errno of the connect */
	void (*silent)(struct stream *s, int err);        /* the peer does not answer: the errno of the socket's call */
	void (*effect)(struct stream *s, const struct qp_fx *fx);
	void (*touch)(struct stream *s); /* there is work for the stream */
};

struct ks_gram;
struct udpl_hdr;

/* What datagram-port has for datagram sockets (ks_gram.c). */
struct ks_socks {
	/* A datagram, parsed as *h, whose destination is a socket's number. */
	void (*take)(const struct ks_gram *in, const struct udpl_hdr *h);
	/* Datagrams have been read: those for sockets come behind what the kernel's sockets have. */
	void (*burst)(void);
};

struct ks {
	pthread_mutex_t lock;
	const struct ks_net *net;
	bool serves; /* constant after start: the process serves the sockets of other processes: ks_sk.h, ks_gram.h */
	const struct ks_streams *streams; /* if it does */
	const struct ks_socks *socks;
	bool assisted; /* constant after start: the design of connections whose queue pair names none is assisted */
	int ep;        /* epoll set of all sockets; is itself in the bell's epoll set */
	uint64_t now;
	uint32_t looks;       /* turns since epoll was last asked */
	uint64_t polled;      /* atomic: number of turns run by threads of the program */
	uint64_t sleeps_till; /* atomic: the progress thread sleeps until then; 0: it is awake */
	uint32_t stop;        /* atomic: the progress thread ends */
	uint64_t passive;     /* connections numbered so far */
	uint32_t fx_told;     /* effects of rc.qp.fx that were reported before the control thread's queue was full */
	struct worker_client *clients;
	struct rn_wheel wheel;
	struct rn_list conns, listeners;
	uint32_t n_conns;
	struct rn_list half_open; /* connections of listeners without an MPA Request, the oldest first */
	uint32_t n_half_open;
	uint32_t n_uds; /* datagram QPs and datagram sockets */
	struct ks_conn *dead;
	struct ks_conn *idle;        /* closed connections, kept because a command may still name one */
	struct ks_conn *hot[KS_HOT]; /* connections that had input last, the most recent first */
	struct ks_buf *in;           /* buffer for the next recv(); NULL: none */
	uint8_t *out;                /* where records of a batch are copied */
	struct dgram_ctx dgram;
	struct rc_ctx rc;
	void *rc_mem;
	uint64_t rc_size;
};
extern struct ks ks;

/* ---- ks_start.c: control thread, before the others ---- */

/* Makes ports (rnicd.port) of the host's interfaces, configured as in `like`. False with a sentence in err. */
bool ks_ports(const struct rnicd_port_cfg *like, char *err, uint32_t err_len);
/* Makes a port of the configuration rnicd.cfg.port[rnicd.n_ports], with this Ethernet address. False: no memory. */
bool ks_port_add(const uint8_t mac[PKT_MAC_LEN]);
/* Makes the worker's memory, epoll set and bell. False with a sentence in err. */
bool ks_start(char *err, uint32_t err_len);
/* Closes and frees what ks_ports() and ks_start() have made, also where one of them has failed. */
void ks_stop(void);

/* ---- ks_turn.c ---- */

/*
 * Any thread: runs one turn, unless another thread is running one. True: the turn was run, and has seen all requests
 * that were posted before the call.
 */
bool ks_poll(void);
/* The body of the progress thread. */
void *ks_main(void *arg);
/* Closes all sockets: in a child of fork() its copies of the parent's, and after a start that has failed. */
void ks_close_all(void);

/* ---- ks_fx.c ---- */

/*
 * Reports the effects that calls into lib/rc and lib/dgram have left. Whether there is room for the effects of one more
 * call; false: the control thread is behind.
 */
bool ks_effects(void);
/* Whether there is room for the effects of one more call, as ks_effects() says. */
static inline bool ks_space(void) { return rn_likely(!qp_ctx_full(&ks.rc.qp)) || ks_effects(); }
/*
 * The connection does not count as half open any more: the peer has sent its MPA Request, or the connection has ended.
 */
void ks_conn_requested(struct ks_conn *c);
/* Puts a connection that has reported QP_FX_CLOSED into ks.dead: ks_bury() frees it at the end of the turn. */
void ks_conn_died(struct ks_conn *c);
/* Makes epoll watch the socket for these events; 0: not at all. */
void ks_watch(struct ks_src *s, uint32_t events);

/* ---- ks_cmd.c ---- */
/* Carries out the control thread's commands that have come; returns their number. */
uint32_t ks_commands(void);

/* ---- ks_conn.c ---- */
/*
 * Makes a connection that has a socket, and nothing else yet. If too many are half open, the oldest of those is
 * aborted. NULL: no memory; the socket stays the caller's.
 */
struct ks_conn *ks_conn_new(const struct conn_addr *a, struct ks_src src);
/* The listener's connection is half open: it waits for the peer's MPA Request. */
void ks_conn_half_open(struct ks_conn *c);
/* Frees a connection, and closes its socket. */
void ks_conn_free(struct ks_conn *c);
/* Makes an active connection: p->qp may be attached later. *qp: the engine's verdict if the result is CONN_QP. */
enum conn_verdict ks_conn_open(const struct conn_addr *a, struct rc_params *p, struct rc **out, enum qp_verdict *qp);
/*
 * Makes a connection over an existing socket h, which belongs to the connection after CONN_OK. passive: the peer sends
 * the MPA Request.
 */
enum conn_verdict ks_conn_take(struct handed *h, const struct conn_addr *a, struct rc_params *p, bool passive,
			       struct rc **out, enum qp_verdict *qp);
enum conn_verdict ks_listen(const struct ks_listener *l);
void ks_unlisten(uint32_t port, uint16_t lport);
/* Accepts connections, of which the listener's socket has some. */
void ks_accept(struct ks_listener *l);
/* Makes a connection of listener l over the connected TCP socket src, or closes the socket. */
void ks_passive(struct ks_src src, struct ks_listener *l);
/* Sets the TOS or traffic class of the connection's packets. */
void ks_conn_tos(const struct ks_conn *c, uint8_t tos);
/* Frees the connections in ks.dead. */
void ks_bury(void);
/* Checks whether the connect has succeeded, has failed, or is still under way. */
void ks_connected(struct ks_conn *c);
/* Begins to connect, for the first time or after a refusal. */
void ks_connect(struct ks_conn *c);
/* When the connection's timer is due. */
static inline uint64_t ks_conn_due(const struct ks_conn *c)
{
	const bool waits = c->fin && !c->fin_sent && c->state == KS_OPEN && c->rest == NULL;
	const uint64_t due = c->look != 0 ? rn_min_u64(c->look, rc_next_wake(&c->rc)) : rc_next_wake(&c->rc);

	return c->state == KS_REFUSED || waits ? rn_min_u64(c->again, due) : due;
}

/* The listener of this device and TCP port; NULL: there is none. */
struct ks_listener *ks_listener(uint32_t port, uint16_t lport);

/* ---- ks_held.c ---- */

/* After a bind() that failed: the host no longer has the device's address, or its interface. */
bool ks_addr_has_gone(void);
/* Of the devices (bit mask) with one address, which several interfaces may have, the first stands for all. */
uint32_t ks_distinct(uint32_t devs);
/*
 * Control thread: chooses a port that is free on each of the devices (bit mask, not 0), and holds the port there.
 * Returns the port. 0 and errno: EADDRINUSE if no port is free.
 */
uint16_t ks_hold(uint32_t devs);
/* Control thread: frees the port on these devices where it is held still. */
void ks_hold_end(uint32_t devs, uint16_t port);
/* Moves the socket that holds the port on the device into *to. False: none does. Called with ks.lock held. */
bool ks_held(struct ks_src *to, uint32_t dev, uint16_t port);
/* Called in a child of fork(): closes the child's copies of these sockets. */
void ks_held_close(void);

/* ---- ks_handed.c ---- */
/* Moves the socket into *to, whose kind stays, and frees h. */
void ks_handed_use(struct handed *h, struct ks_src *to);
extern const struct handed_taker ks_taker;

/* ---- ks_pass.c: processes of one user that share an address ---- */
/*
 * This process gets its index and the numbers of its queue pairs (rnicd.qpn_first). If no index is free, the devices
 * lose qp-port and datagram-port. False with a sentence in err.
 */
bool ks_pass_start(char *err, uint32_t err_len);
/*
 * Control thread: from now on (ks_pass_serve) or no longer (ks_pass_serve_end) requests for a port of RDMA_PS_UDP are
 * passed to this process. ip: the device's address, or the unspecified address of a family for all addresses of the
 * family. False: another process of the user serves the port, or there is no memory or descriptor.
 */
bool ks_pass_serve(const struct pkt_addr *ip, uint16_t service);
void ks_pass_serve_end(const struct pkt_addr *ip, uint16_t service);
/*
 * The same with ks.lock held, for datagrams to the number of a UDP socket with this port. Each call that has returned
 * true is ended once.
 */
bool ks_pass_sock(const struct pkt_addr *ip, uint16_t port);
void ks_pass_sock_end(const struct pkt_addr *ip, uint16_t port);
/*
 * Takes a connection that has arrived at qp-port. When its MPA Request has come, the connection stays in this process,
 * or is passed to the process of the queue pair that the Request names, or is closed.
 */
void ks_guest(int fd, const struct ks_listener *l);
/* The socket of such a connection has input. */
void ks_guest_in(struct ks_src *s);
/* End of the turn: frees the guests that have ended in it. */
void ks_guests_free(void);
/* Handles connections and datagrams that other processes have passed to this one. */
void ks_passed_in(const struct ks_src *s);
void ks_pass_close(void);

/* ---- ks_stream.c ---- */
/* Notes that the socket is connected: the caller may call rc_opened or rc_in then. */
void ks_opened(struct ks_conn *c);
/* Gives up a broken socket. lost: c->rc is told in its next turn. ks_failed: a call has failed with this errno. */
void ks_broken(struct ks_conn *c, bool lost);
void ks_failed(struct ks_conn *c, int err);
/* Gives up the socket if a look is due, and the peer has been silent for longer than the queue pair waits. */
void ks_look_silent(struct ks_conn *c);
/* Reads the socket. True: there was input. */
bool ks_in(struct ks_conn *c);
/* Sends c->rest, since the socket takes bytes again. */
void ks_writable(struct ks_conn *c);
/* Runs the connection's turn, which sends a batch of its output. True: there was output. */
bool ks_out(struct ks_conn *c);
/* Sets the events that epoll watches, which follow from the socket's state. */
void ks_interest(struct ks_conn *c);

#endif
