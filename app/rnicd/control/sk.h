/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control thread's part of sockets (ipc_stream.h, ipc_gram.h). A socket belongs to a user, not to a client: it
 * lives as long as any process has its descriptor open, whichever process made it. rnicd frees its resources when the
 * descriptor is closed everywhere and the worker has finished the connection. Control thread.
 */
#ifndef SK_H
#define SK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_list.h"
#include "border/event.h"
#include "control/client.h"

/* Only sk_set_state writes it. */
enum sk_state {
	SK_BOUND,     /* has a descriptor and a port; listen or connect moves it on */
	SK_LISTENING, /* listens until its descriptor is closed */
	SK_PENDING,   /* a listener's connection that nobody has accepted; it has no descriptor */
	SK_STREAM,    /* a connection with a descriptor: being opened, open or ended */
	SK_GRAM,      /* a datagram socket, from its creation to its end */
};

/* The doorbells of a user's sockets; exist from the user's first client for sockets to the end of rnicd. */
struct sk_user {
	struct rn_link link;
	uid_t uid;
	int bells_fd, wake_fd;
	struct ipc_sock_bell *bells; /* [worker] */
	struct stream_user *view[RNICD_MAX_WORKERS];
	uint64_t taken[IPC_MAX_SOCKS / 64]; /* doorbell bits in use */
	struct cmd cmd;
};

struct sk {
	struct owner owner; /* OWNER_SOCK: the number by which clients and workers name it */
	struct owner file;  /* OWNER_SOCK_FD: the kernel's number of the program's end of the socket pair */
	bool is_shown;      /* a program of another user, which has shown the descriptor, has it too */
	uid_t shown;
	uint64_t ino;       /* inode number of the program's end; 0: it has never had one */
	uint32_t number;    /* among all sockets */
	struct loop_fd src; /* rnicd's end of the socket pair */
	enum sk_state state;
	struct user *user;
	struct sk_user *su;
	uint32_t dev;     /* CM_NO_DEV: a listener on all devices */
	uint8_t families; /* CM_IP4, CM_IP6: families in which a stream's port is reserved */
	struct ipc_addr local, remote;
	bool has_port; /* local.port is reserved for it, and it is on the list `bound` */
	struct rn_link bound;
	bool counted; /* rnicd's descriptor of it is counted in the user's share */
	bool gone;    /* the descriptor is closed everywhere */
	bool busy;    /* cmd is under way */
	bool last;    /* CMD_STREAM_CLOSE has been sent with a reset, and is the last command */
	struct cmd cmd;
	struct client *c; /* the client that is answered when cmd is; NULL: none */
	int fd;           /* the program's end, until it has been passed to the program; then -1 */
	struct loop_timer timer;
	/* listener */
	struct rn_list pending; /* struct sk, by link; oldest first */
	uint32_t n_pending, backlog;
	uint32_t tokens; /* bytes in its descriptor, one for each pending connection while there is room */
	struct rn_link link;
	struct sk *listener; /* of a pending one */
	/* stream */
	uint32_t worker;
	struct stream *stream; /* NULL: not open yet, or closed */
	struct ipc_stream *mem;
	int mem_fd;    /* -1: it has never had memory */
	bool peer_fin; /* the peer's FIN has come */
	bool has_flow; /* is counted in the user's share of the worker's connections or datagram sockets */
	bool has_bit;
	uint32_t bit;
	bool reuse, balance; /* sockets of the user that also have this flag may share its port: IPC_SOCK_*,
			      * IPC_GRAM_* */
	/* datagram socket; dev may be GRAM_ANY_DEV */
	struct gram *gram; /* the worker's part, while there is one */
};

/* Handles a client's request IPC_SOCK_*; answers now or later (sk_request.c, sk_gram.c). */
void sk_request(struct client *c);

void sk_event(const struct event_stream *ev, uint32_t worker); /* sk_event.c */
void sk_reap(void);                                            /* end of the loop's turn */

/* ---- between the sk_ files ---- */

void sk_set_state(struct sk *s, enum sk_state to);
/* The doorbells of this user; NULL: no memory. */
struct sk_user *sk_user_get(struct client *c);
/* Makes a socket without a descriptor; key 0: with a new number. NULL: no memory. */
struct sk *sk_new(struct user *u, struct sk_user *su, uint64_t key);
/* Reserves local.port of dev for it; 0: any free port. False: in use by a socket whose descriptor is open. */
bool sk_take_port(struct sk *s);
/* Makes its descriptor, which is not writable yet. False: no free descriptor, or the user has too many. */
bool sk_open(struct sk *s);
/* Makes its memory, and takes a doorbell bit and a place in the worker's table of connections. False with a
 * sentence. */
bool sk_arm(struct sk *s, const char **why);
void sk_disarm(struct sk *s);
/* Continues its end, and frees it when nothing is under way any more; called whenever something about it has
 * changed. */
void sk_settle(struct sk *s);
struct sk *sk_of(uint64_t key);
/* The socket behind `number`, which becomes the number of that socket; 0: the first one. NULL: there is none. */
const struct sk *sk_next(uint32_t *number);
/* `done` of an allocated command whose answer nobody waits for: frees the command. */
void sk_forget_cmd(struct cmd *cmd);
/* Resets a connection for which there is no listener any more. */
void sk_refuse(uint32_t worker, struct stream *stream, uint64_t key);
void sk_writable(const struct sk *s);
bool sk_readable(const struct sk *s); /* false: the descriptor is full of such bytes, and readable */
void sk_listener_readable(struct sk *l);
void sk_send(struct sk *s, enum cmd_type type, void (*done)(struct cmd *));
/* Finds the client's socket in this state; NULL: the client was answered with an error. */
struct sk *sk_find(struct client *c, uint64_t key, enum sk_state state);
/* The socket's description in an answer to a program. */
struct ipc_sock_ok sk_answer(const struct sk *s);
/* Passes the descriptors to the program. */
void sk_hand_over(struct client *c, struct sk *s, bool with_memory);

/* Finds the socket of a descriptor that the client has shown (sk_find.c). */
void sk_show(struct client *c);
/* Answers with a part of the list of sockets that the client may see (sk_list.c). */
void sk_tell(struct client *c);

/* ---- sk_gram.c ---- */
void sk_gram_request(struct client *c);
/* Why this client (NULL: any client) may not use the port; NULL: it may. */
const char *sk_gram_refusal(const struct client *c, uint32_t dev, uint16_t port);
/* Whether a socket has the UDP port of the device. */
bool sk_gram_has_port(uint32_t dev, uint16_t port);
void sk_gram_give_port(struct sk *s);
/* Called when its descriptor is closed. False: nothing is under way any more. */
bool sk_gram_end(struct sk *s);

#endif
