/* SPDX-License-Identifier: BSD-3-Clause */
/* UDP sockets of programs: their rings (sock_gram.c) and their life (sock_udp.c). */
#ifndef RNIC_SOCK_GRAM_H
#define RNIC_SOCK_GRAM_H

#include "rnic/sock/sock.h"

/* ---- sock_gram.c ---- */
/* As recvmsg and sendmsg. */
ssize_t sock_gram_recv(struct sock *s, int fd, struct msghdr *m, int flags);
ssize_t sock_gram_send(struct sock *s, int fd, const struct msghdr *m, int flags);
void sock_gram_watch(struct sock *s, int fd);
void sock_gram_settle(struct sock *s, int fd);            /* as sock_settle */
short sock_gram_events(const struct sock *s, short told); /* as sock_stream_events */
/* The error that waits to be told, once. */
int sock_gram_error(struct sock *s);
/* One that could not be told now. */
void sock_gram_error_back(struct sock *s, int error);
uint32_t sock_gram_next(const struct sock *s); /* bytes of the next datagram */
/* The kernel's socket, where it may have something for the program; -1: it has not. */
int sock_gram_below_fd(const struct sock *s);

/* ---- sock_udp.c ---- */
/* True: fd is UDP and its bind() is done, with this result. */
bool sock_udp_bind(int fd, const struct ipc_addr *a, const struct sockaddr *sa, socklen_t len, int *rc);
/*
 * fd, not ours, is about to connect or send to an address. When it is UDP and a port reaches that, it becomes ours.
 * Held; NULL: it is the kernel's.
 */
struct sock *sock_udp_sends(int fd, const struct sockaddr *sa, socklen_t len);
/* As connect; puts s. */
int sock_udp_connect(struct sock *s, const struct sockaddr *sa, socklen_t len);
int sock_udp_shutdown(struct sock *s, int fd, int how); /* 0 or an errno */
/* What the kernel's socket below has been asked for. */
void sock_udp_learn_options(struct sock *s);
int sock_udp_getopt(struct sock *s, int level, int name, void *to, socklen_t *len);
int sock_udp_setopt(struct sock *s, int level, int name, const void *from, socklen_t len);
/* ---- sock_wire.c ---- */
/* The option SOL_RNIC (rnic/sock.h) of a descriptor, ours or not, as setsockopt and getsockopt. */
int sock_wire_set(int fd, int name, const void *from, socklen_t len);
int sock_wire_get(int fd, int name, void *to, socklen_t *len);
/* By which wire a socket is to send whose kernel's socket this is: IPC_GRAM_*. */
uint8_t sock_wire_of(int below);

/* The kernel's socket below gets the port, as far as it is free there: something is sent through it. */
void sock_gram_below(struct sock *s);

#endif
