/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets as the control thread has them (ipc_stream.h, ipc_gram.h). A socket belongs to a user, not to a client: it
 * lives as long as any process has its descriptor, whichever process asked for it. What it has of rnicd goes when the
 * descriptor is closed everywhere and the worker has done with the connection. Control thread.
 */
#ifndef SK_H
#define SK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_list.h"
#include "border/event.h"
#include "control/client.h"

/* One writer: sk_set_state. */
enum sk_state {
	SK_BOUND,     /* has a descriptor and a port; listen or connect */
	SK_LISTENING, /* until its descriptor is closed */
	SK_PENDING,   /* a listener's connection that nobody has accepted; it has no descriptor */
	SK_STREAM,    /* a connection, begun, open or ended, with a descriptor */
	SK_GRAM,      /* a datagram socket, from its beginning to its end */
};

/* The doorbells of a user's sockets; from the first client for sockets to the end of rnicd. */
struct sk_user {
	struct rn_link link;
	uid_t uid;
	int bells_fd, wake_fd;
	struct ipc_doorbell *bells; /* [worker] */
	struct stream_user *view[RNICD_MAX_WORKERS];
	uint64_t taken[IPC_MAX_QPS / 64]; /* doorbell bits in use */
	struct cmd cmd;
};

struct sk {
	struct owner owner; /* OWNER_SOCK: as clients and workers name it */
	struct owner file;  /* OWNER_SOCK_FD: the kernel's number of the program's end of its descriptor */
	bool is_shown;      /* a program of another user, shown, has the descriptor, too */
	uid_t shown;
	struct loop_fd src; /* rnicd's end of the descriptor */
	enum sk_state state;
	struct user *user;
	struct sk_user *su;
	uint32_t dev;     /* CM_NO_DEV: a listener at all ports */
	uint8_t families; /* CM_IP4, CM_IP6: in which a stream's port is taken */
	struct ipc_addr local, remote;
	bool has_port; /* local.port is taken by it, and it is on the list of those */
	struct rn_link bound;
	bool counted; /* its end of the descriptor, among the user's */
	bool gone;    /* the descriptor is closed everywhere */
	bool busy;    /* cmd is under way */
	bool last;    /* CMD_STREAM_CLOSE with a reset has been sent */
	struct cmd cmd;
	struct client *c; /* whose request cmd answers; NULL: nobody's */
	int fd;           /* the program's end, until it has been passed; -1 */
	struct loop_timer timer;
	/* listener */
	struct rn_list pending; /* struct sk, by link; oldest first */
	uint32_t n_pending, backlog;
	uint32_t tokens; /* bytes in its descriptor: as many as are pending, while there is room for them */
	struct rn_link link;
	struct sk *listener; /* of a pending one */
	/* stream */
	uint32_t worker;
	struct stream *stream; /* NULL: not yet, or no more */
	struct ipc_stream *mem;
	int mem_fd;    /* -1: it has had none */
	bool peer_fin; /* the peer will send no more */
	bool has_flow; /* counts among the connections, or the datagram sockets, of worker */
	bool has_bit;
	uint32_t bit;
	bool reuse, balance; /* others of the user with this word set may have its port too: IPC_SOCK_*, IPC_GRAM_* */
	/* datagram socket; dev may be GRAM_ANY_DEV */
	struct gram *gram; /* the worker's, while there is one */
};

/* A client's request of IPC_SOCK_*; answers, now or later (sk_request.c, sk_gram.c). */
void sk_request(struct client *c);

void sk_event(const struct event_stream *ev, uint32_t worker); /* sk_event.c */
void sk_reap(void);                                            /* end of the loop's turn */

/* ---- between the sk_ files ---- */

void sk_set_state(struct sk *s, enum sk_state to);
/* The doorbells of this user; NULL: no memory. */
struct sk_user *sk_user_get(struct client *c);
/* Without a descriptor; key 0: a new number. NULL: no memory. */
struct sk *sk_new(struct user *u, struct sk_user *su, uint64_t key);
/* local.port of dev is its own from now on; 0: any. False: in use, by a socket whose descriptor somebody has. */
bool sk_take_port(struct sk *s);
/* Makes its descriptor, which is not writable yet. False: no more descriptors, or the user has too many. */
bool sk_open(struct sk *s);
/* Makes its memory, and takes a doorbell bit and a place among the worker's connections. False with a sentence. */
bool sk_arm(struct sk *s, const char **why);
void sk_disarm(struct sk *s);
/* Frees what rnicd has of it as far as nothing is under way; called when anything about it has changed. */
void sk_settle(struct sk *s);
struct sk *sk_of(uint64_t key);
/* A connection that nobody wants is reset. */
void sk_refuse(uint32_t worker, struct stream *stream, uint64_t key);
void sk_writable(const struct sk *s);
bool sk_readable(const struct sk *s); /* false: the descriptor is full of such bytes, and readable */
void sk_listener_readable(struct sk *l);
void sk_send(struct sk *s, enum cmd_type type, void (*done)(struct cmd *));
/* The client's socket in this state; NULL: the client was answered. */
struct sk *sk_find(struct client *c, uint64_t key, enum sk_state state);
/* The socket, as programs are told of it. */
struct ipc_sock_ok sk_answer(const struct sk *s);
/* The descriptors that are the program's from now on. */
void sk_hand_over(struct client *c, struct sk *s, bool with_memory);

/* What socket the descriptor is that the client has shown (sk_find.c). */
void sk_show(struct client *c);

/* ---- sk_gram.c ---- */
void sk_gram_request(struct client *c);
/* Why the port is not this client's (NULL: any) to take; NULL: it may. */
const char *sk_gram_refusal(const struct client *c, uint32_t dev, uint16_t port);
/* Whether a socket has the UDP port of the device. */
bool sk_gram_has_port(uint32_t dev, uint16_t port);
void sk_gram_give_port(struct sk *s);
/* Its descriptor is closed. False: nothing is under way any more. */
bool sk_gram_end(struct sk *s);

#endif
