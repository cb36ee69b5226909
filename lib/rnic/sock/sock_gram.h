/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP sockets of programs: their rings (sock_gram.c) and their life (sock_udp.c). */
#ifndef RNIC_SOCK_GRAM_H
#define RNIC_SOCK_GRAM_H

#include "rnic/sock/sock.h"

/* How a datagram is sent, and to which address. */
struct sock_way {
	struct ipc_addr to;
	uint32_t dev;     /* the port that the datagram leaves by */
	uint32_t segment; /* bytes of each datagram; 0: all bytes of the send are one datagram */
	uint8_t tos, ttl;
	bool below;       /* the datagram is sent by the kernel's socket below */
	bool first;       /* so is this one, if it is whole: none has gone to this address yet (rnicrun --embedded) */
	bool whole;       /* rnicd must not fragment the datagram */
	uint8_t local[4]; /* the source address; 0: any. For rnicrun --embedded */
};

/* ---- sock_gram.c ---- */
/* As recvmsg and sendmsg. */
ssize_t sock_gram_recv(struct sock *s, int fd, struct msghdr *m, int flags);
ssize_t sock_gram_send(struct sock *s, int fd, const struct msghdr *m, int flags);
/* UDP_CORK is off: sends the pieces of a datagram that have been kept. */
void sock_gram_uncork(struct sock *s);
void sock_gram_watch(struct sock *s, int fd);
void sock_gram_settle(struct sock *s, int fd);            /* as sock_settle */
short sock_gram_events(const struct sock *s, short told); /* as sock_stream_events */
uint32_t sock_gram_next(const struct sock *s);            /* bytes of the next datagram */
bool sock_gram_is_empty(const struct sock *s);            /* whether no datagram waits to be sent */
/* The kernel's socket below, if it may have a datagram for the program; else -1. */
int sock_gram_below_fd(const struct sock *s);

/* ---- sock_more.c: as in Linux, the first piece has the datagram's address and control messages ---- */
struct sock_more {
	struct sock_way w;
	uint32_t len;
	uint8_t bytes[UINT16_MAX - IPC_GRAM_HDRS];
};
static inline bool sock_more_has(const struct sock *s) { return __atomic_load_n(&s->more, __ATOMIC_RELAXED) != NULL; }
/* Puts a piece behind the others. w: of a first piece. A datagram that becomes too long is dropped. 0 or an errno. */
int sock_more_keep(struct sock *s, const struct msghdr *m, const struct sock_way *w);
struct sock_more *sock_more_take(struct sock *s); /* for sock_more_back(); NULL: there are no pieces */
/* Frees the pieces. Or puts them back without their last n bytes, unless there are newer ones; n UINT32_MAX: never. */
void sock_more_back(struct sock *s, struct sock_more *p, uint32_t n);

/* ---- sock_udp.c ---- */
bool sock_is_udp(int fd);
int sock_udp_number(int fd, int level, int name); /* the value of an option of the kernel's socket fd; 0: none */
/* Puts s in fd's place, above the kernel's socket that fd was. On failure false and errno, and s is given back. */
bool sock_udp_take_place(int fd, int made, struct sock *s);
/* All descriptors of s in this process become the kernel's socket below again. 0 or an errno. */
int sock_udp_as_it_was(struct sock *s);
/* True: fd is a UDP socket and its bind() has been done, with *rc as result. */
bool sock_udp_bind(int fd, const struct ipc_addr *a, const struct sockaddr *sa, socklen_t len, int *rc);
/*
 * The kernel's socket fd is about to connect or send to an address. If fd is UDP and a port reaches the address, fd
 * becomes ours: returns the socket, held. NULL: fd stays the kernel's.
 */
struct sock *sock_udp_sends(int fd, const struct sockaddr *sa, socklen_t len);
/* As connect; then gives s back by sock_put(). */
int sock_udp_connect(struct sock *s, const struct sockaddr *sa, socklen_t len);
int sock_udp_shutdown(struct sock *s, int fd, int how); /* 0 or an errno */
/* Returns and clears the pending error. */
int sock_gram_error(struct sock *s);
/* Puts back an error that could not be returned. */
void sock_gram_error_back(struct sock *s, int error);
/* Reads the options of the kernel's socket below; called after one has been set there. */
void sock_udp_learn_options(struct sock *s);
int sock_udp_getopt(struct sock *s, int level, int name, void *to, socklen_t *len);
int sock_udp_setopt(struct sock *s, int level, int name, const void *from, socklen_t len);

/* Options that the process which serves sets at the kernel's socket as it likes; s keeps what the program has set. */
void sock_udp_learn_kept(struct sock *s, int fd);
void sock_udp_give_kept(struct sock *s); /* the kernel's socket is the program's own again: gives it the options back */
/* The kernel joins neither what the socket sends nor what it receives. */
void sock_udp_join_not(const struct sock *s);

/* ---- sock_kernels_udp.c: rnicrun --embedded: below a socket of ours is the kernel's, with the same address ---- */
/* The kernel's socket fd may have got a port, or the wire iwarp: becomes ours if it is a UDP socket and has both. */
void sock_kernels_udp_wire(int fd);
int sock_kernels_udp_connect(int fd, const struct sockaddr *sa, socklen_t len); /* as connect(), for the same */
/* As sock_udp_sends() and sock_udp_connect(), also without rnicd. */
struct sock *sock_gram_sends(int fd, const struct sockaddr *sa, socklen_t len);
int sock_gram_connect(struct sock *s, const struct sockaddr *sa, socklen_t len);

/* ---- sock_way.c: rnicrun --embedded ---- */
/* Whether iWARP may carry datagrams to the address: IPv4, and neither a group nor one of those that are no host's. */
bool sock_way_is_host(const struct ipc_addr *a);
/*
 * Whether the socket has sent nothing to the address yet, as far as is known. The first datagram is sent to the
 * kernel's socket by the program itself, so that the kernel can refuse it: there is no route, or the address is a
 * network's broadcast address.
 */
bool sock_way_is_new(const struct sock *s, const struct ipc_addr *to);
/* Whereto a message goes, and whether by the kernel's socket: because of its address, or as the first one. */
void sock_way_find(const struct sock *s, const struct msghdr *m, struct sock_way *w);

/* ---- sock_wire.c ---- */
/* The option SOL_RNIC (rnic/sock.h) of any descriptor, as setsockopt and getsockopt. */
int sock_wire_set(int fd, int name, const void *from, socklen_t len);
int sock_wire_get(int fd, int name, void *to, socklen_t *len);
/* The wire that the program has chosen for a socket, whose kernel's socket is `below`: IPC_GRAM_*. */
uint8_t sock_wire_of(int below);
void sock_wire_note(int below, int wire);
uint8_t sock_wire_usual(void); /* the wire that the environment sets for all sockets */
/*
 * Sockets without shared memory pass their wires to the program that exec starts in a variable of its environment.
 * Writes the variable, cut to `room` bytes, and returns its full length; 0: there is nothing to pass.
 */
size_t sock_wires_say(char *to, size_t room);
bool sock_wires_is(const char *variable); /* whether it is the variable of sock_wires_say() */
void sock_wires_learn(void);              /* in the next program: reads the variable, and removes it */

/* sock_udp.c: a datagram is about to leave through the kernel's socket below: binds it to our port if that is free. */
void sock_gram_below(struct sock *s);

#endif
