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

/* Users, besides the one that made a socket, whose programs may use it. A further user takes the place of the user that
 * came first; a program of that user is refused once, and shows the descriptor again (sock_daemon.c). */
#define SK_SHOWN_MAX 8u

/*
 * The doorbells of a user's sockets; exist from the user's first client for sockets to the end of rnicd. There are
 * user_bells_max() at most.
 */
struct sk_user {
	struct rn_link link;
	uid_t uid;
	struct user *user; /* with a reference, for good: its number stays the same */
	int bells_fd, wake_fd;
	struct ipc_sock_bell *bells; /* [worker] */
	struct stream_user *view[RNICD_MAX_WORKERS];
	uint64_t taken[IPC_MAX_SOCKS / 64]; /* doorbell bits in use */
	struct cmd cmd;
};

struct sk {
	struct owner owner;        /* OWNER_SOCK: the number by which clients and workers name it */
	struct owner file;         /* OWNER_SOCK_FD: the kernel's number of the program's end of the socket pair */
	uint32_t n_shown;          /* how often a program of a further user has shown the descriptor */
	uid_t shown[SK_SHOWN_MAX]; /* these users, who may use the socket, too */
	uint64_t ino;              /* inode number of the program's end; 0: there has never been one */
	uint32_t number;           /* its number among all sockets: sk_next() */
	struct loop_fd src;        /* rnicd's end of the socket pair */
	struct fds_job *closing;   /* closes that end if there are descriptors in it; NULL: it is not open */
	enum sk_state state;
	struct user *user;
	struct sk_user *su;
	uint32_t dev;     /* CM_NO_DEV: a listener on all devices */
	uint8_t families; /* CM_IP4, CM_IP6: families in which a stream's port is reserved */
	struct ipc_addr local, remote;
	bool has_port; /* local.port is reserved for it, and it is on a list by port */
	struct rn_link bound;
	bool counted;     /* rnicd's end of the socket pair is counted in the user's share of descriptors */
	uint8_t more_fds; /* descriptors of the kernel's that are counted there, too */
	bool gone;        /* no process has the descriptor open */
	bool busy;        /* cmd is under way */
	bool left;        /* CMD_STREAM_CLOSE was sent: no further command follows */
	struct cmd cmd;
	struct client *c; /* the client that is answered when cmd is; NULL: none */
	int fd;           /* the program's end of the socket pair, until it is passed to the program; then -1 */
	/* listener */
	struct rn_list pending; /* struct sk, by link; oldest first */
	uint32_t n_pending, backlog;
	/* Bytes in its descriptor: one for each pending connection, while there is room. SK_GRAM: CMD_GRAM_CLOSE so
	 * far. */
	uint32_t tokens;
	struct rn_link link;
	struct sk *listener; /* SK_PENDING: its listener */
	/* stream */
	uint32_t worker;
	struct stream *stream; /* NULL: not open yet, or closed */
	struct ipc_stream *mem;
	int mem_fd;    /* -1: it has never had memory */
	bool peer_fin; /* the peer's FIN has come */
	bool has_flow; /* is counted in the user's share of the worker's connections or datagram sockets */
	bool has_bit;
	uint32_t bit;        /* of its doorbell, if has_bit */
	bool reuse, balance; /* it may share its port with sockets of its user that have the same flag: IPC_SOCK_REUSE,
			      * IPC_GRAM_* */
	/* datagram socket; dev may be GRAM_ANY_DEV */
	struct gram *gram; /* the worker's part, while there is one */
};

/* Sockets that share a port of a device, at most: looking for a socket of the port takes that many steps. */
#define SK_SHARE_MAX 256u
#define SK_PORT_USED "port %u is in use"
#define SK_PORT_FULL "port %u: 256 sockets share it, as many as rnicd allows"
_Static_assert(SK_SHARE_MAX == 256, "SK_PORT_FULL and doc/security.md say so");

enum sk_port {
	SK_PORT_OK,
	SK_PORT_TAKEN,   /* a socket whose descriptor is open, or a queue pair, has the port */
	SK_PORT_CROWDED, /* SK_SHARE_MAX sockets share the port */
};

/* Handles a client's request IPC_SOCK_*; answers now or later (sk_request.c, sk_gram.c). */
void sk_request(struct client *c);

void sk_event(const struct event_stream *ev, uint32_t worker); /* sk_event.c */
void sk_reap(void);                                            /* end of the loop's turn */
bool sk_any(void);                                             /* whether there is any socket */

/* ---- between the sk_ files ---- */

void sk_set_state(struct sk *s, enum sk_state to);
/* The doorbells of this user; NULL: no memory, or too many users have some. */
struct sk_user *sk_user_get(struct client *c);
/* Makes a socket without a descriptor. key: its owner number; 0: a new one. NULL: no memory. */
struct sk *sk_new(struct user *u, struct sk_user *su, uint64_t key);
/* Reserves local.port of dev for the socket; port 0: any free one. SK_PORT_TAKEN: errno as of cm_port_take(). */
enum sk_port sk_take_port(struct sk *s);
/* Makes the socket's descriptor, which is not writable yet. False: no free descriptor, or the user has too many. */
bool sk_open(struct sk *s);
/* Makes the socket's memory, and takes a doorbell bit and a place in the worker's table of connections. False with a
 * sentence in *why; the caller then calls sk_disarm() or lets the socket end. */
bool sk_arm(struct sk *s, const char **why);
/* Undoes sk_arm(). */
void sk_disarm(struct sk *s);
/* If the socket is gone: continues its end, and frees it when nothing is under way any more. Called whenever something
 * about the socket has changed. */
void sk_settle(struct sk *s);
struct sk *sk_of(uint64_t key);
/* The first socket whose number is larger than *number; sets *number to it. NULL: there is none. */
const struct sk *sk_next(uint32_t *number);
/* `done` of an allocated command whose answer nobody waits for: frees the command. */
void sk_forget_cmd(struct cmd *cmd);
/* Resets a new connection that cannot wait for accept. */
void sk_refuse(uint32_t worker, struct stream *stream, uint64_t key);
/* Makes the program's descriptor writable: reads the bytes that fill its buffer. */
void sk_writable(const struct sk *s);
/* Makes the program's descriptor readable: writes a byte into it. False: it is full of such bytes, and so readable. */
bool sk_readable(const struct sk *s);
/* The same for a listener: a byte for each pending connection. */
void sk_listener_readable(struct sk *l);
/* Sends s->cmd, whose arguments are set, to the socket's worker; commands about listeners to all workers. */
void sk_send(struct sk *s, enum cmd_type type, void (*done)(struct cmd *));
/* Finds the client's socket in this state; NULL: the client was answered with an error. */
struct sk *sk_find(struct client *c, uint64_t key, enum sk_state state);
/* Makes the socket that a request asks for. The socket is `gone`, so sk_settle() frees it, until it has a descriptor.
 * NULL: the client was answered with an error. */
struct sk *sk_make(struct client *c);
/* The socket's description in an answer to a program. */
struct ipc_sock_ok sk_answer(const struct sk *s);
/* Answers the request with the socket's description, its descriptor if that was not passed before, and its memory if
 * asked. */
void sk_hand_over(struct client *c, struct sk *s, bool with_memory);

/* Whether the client's user has made the socket, or has shown its descriptor (sk_find.c). */
bool sk_may_use(const struct client *c, const struct sk *s);
/* Finds the socket of a descriptor that the client has shown (sk_find.c). */
void sk_show(struct client *c);
/* Answers with a part of the list of sockets that the client may see (sk_list.c). */
void sk_tell(struct client *c);

/* Makes a socket of the kernel's socket that the client has passed (sk_take.c). */
void sk_take(struct client *c);
/* Answers when closed sockets with a port of the kernel's have ended (sk_take.c). */
void sk_await_closed(struct client *c);
void sk_tell_closed(void);        /* end of the loop's turn: gives answers of sk_await_closed() */
void sk_option(struct client *c); /* IPC_SOCK_OPTION, of such sockets */
/* Begins the end of those sockets with this port whose descriptor is closed, if the loop has not handled this yet. */
void sk_see_closed(uint16_t port);

/* ---- sk_gram.c ---- */
void sk_gram_request(struct client *c);
/*
 * Gives the socket, whose address and worker are known, its memory, descriptor and the worker's part. False: the client
 * was answered with an error, and the socket ends.
 */
bool sk_gram_make(struct client *c, struct sk *s);
/* Hands the socket to its worker, and then to the client. */
void sk_gram_begin(struct client *c, struct sk *s);
/* Why this client (NULL: any client) may not use the port; NULL: it may. */
const char *sk_gram_refusal(const struct client *c, uint32_t dev, uint16_t port);
/* Whether a socket has the UDP port of the device. */
bool sk_gram_has_port(uint32_t dev, uint16_t port);
/*
 * Enters a socket whose port the kernel has given. False: SK_SHARE_MAX sockets have the port; a worker looks at all of
 * them for each datagram.
 */
bool sk_gram_joins(struct sk *s);
/* Whether a datagram socket with this port, whose descriptor is closed, has not ended yet. */
bool sk_gram_ends(uint16_t port);
void sk_gram_give_port(struct sk *s);
/* Continues the end of a closed datagram socket. True: a command is under way. False: the worker has released it. */
bool sk_gram_end(struct sk *s);

#endif
