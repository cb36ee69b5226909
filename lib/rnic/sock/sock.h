/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librnicsock: intercepts libc's socket calls. A TCP or UDP socket that is bound to a port's address, connects to an
 * address in a port's subnet or sends a datagram there becomes one of rnicd's: its descriptor is replaced by one that
 * rnicd has made, whose readiness in poll, select and epoll is the socket's (ipc_stream.h, ipc_gram.h). All other
 * sockets stay the kernel's, unchanged. Below a UDP socket the kernel's socket is kept, for addresses that no port
 * reaches.
 *
 * Threads: any; a socket has one lock for each direction. After fork both processes have the sockets, and each has its
 * own session with rnicd. After exec the new program shows rnicd its descriptors, and learns which sockets they are
 * (sock_found.c). A process that inherits sockets without this library's knowledge, for example a child of
 * posix_spawn(), does the same.
 */
#ifndef RNIC_SOCK_H
#define RNIC_SOCK_H

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "ipc/ipc.h"

struct sock_opt {
	int level, name, value;
};

enum sock_kind { SOCK_BOUND, SOCK_LISTENS, SOCK_IS_STREAM, SOCK_IS_GRAM };

struct sock_bells { /* doorbells of a user */
	struct sock_bells *next;
	uint32_t socks; /* number of sockets that use them; with none, the next JOIN may free them */
	dev_t dev;
	ino_t ino;                  /* inode of the doorbells' memory file */
	struct ipc_sock_bell *bell; /* [worker] */
	int wake_fd;
};

/*
 * Memory of this kind is never given back to libc: a thread that looks up a descriptor may still read it while the
 * descriptor is closed.
 */
struct sock {
	uint32_t refs; /* number of the socket's descriptors plus calls under way; 0: the structure is free */
	enum sock_kind kind;
	uint64_t id; /* rnicd's number of the socket */
	int domain;  /* AF_INET or AF_INET6: the family in which addresses are returned */
	uint32_t worker, bit;
	struct sock_bells *bells; /* NULL: rnicd has not told about the socket yet */
	struct ipc_addr local, remote;
	struct ipc_addr bound;  /* of a TCP socket: what the program has bound it to; port 0: to nothing */
	struct ipc_stream *mem; /* shared memory of a stream */
	pthread_mutex_t rx, tx;
	bool numbered;         /* a descriptor has been the socket; false: the socket is not in this copy's sock_tab */
	bool in_epoll;         /* the descriptor is in an epoll set */
	bool watched;          /* the descriptor becomes unreadable as soon as all bytes are read */
	bool full;             /* a send has found no room; cleared by the next one that finds some */
	bool rx_shut, tx_shut; /* shutdown() came before the connection; of a connection, mem->fin says this */
	uint32_t told;         /* value of rx_head when the doorbell was last rung for bytes that were read */
	struct linger linger;
	struct sock_opt opt[16]; /* of a TCP socket: options with a value, the first `opts` entries */
	uint32_t opts;
	int rcv_ms, snd_ms; /* SO_RCVTIMEO, SO_SNDTIMEO; -1: no limit */
	/* for datagrams */
	struct ipc_gram *gram;
	int below;       /* descriptor of the kernel's socket below, also of a listener; -1: none */
	bool below_live; /* the kernel's socket below has a port, so it may have received something */
	bool below_own;  /* rnicrun --embedded: the kernel's socket below has the address and the peer of this socket */
	bool wild;       /* bound to all addresses, at rnicd */
	bool named;      /* the program has bound the socket to a port or address */
	bool has_peer;   /* `remote` is set; the kernel's socket is connected to it if peer_below */
	bool peer_below;
	bool pktinfo, recv_ttl, recv_tos; /* control messages that the program has asked for */
	uint8_t tos, ttl;                 /* ttl 0: the default */
	uint16_t segment;                 /* UDP_SEGMENT; 0: none */
	bool corked, gro;                 /* UDP_CORK; UDP_GRO, for rnicrun --embedded */
	struct sock_more *more;           /* pieces of a datagram that is not whole (MSG_MORE, UDP_CORK); NULL: none */
	uint8_t wire;        /* IPC_GRAM_*: the wire of sent datagrams, or the one that connect() asks for */
	bool whole;          /* IP_MTU_DISCOVER: datagrams longer than the MTU are not sent */
	uint32_t turns;      /* number of receives or accepts: alternates between rnicd and the kernel */
	uint8_t last_ip[16]; /* the last peer that a datagram went to or came from, */
	uint32_t last_dev;   /* and the port that reaches this peer; UINT32_MAX: none does */
	struct sock *next;   /* in the free list */
	struct sock *older;  /* in the list of all sockets that were ever made; last, as sock_new() keeps it */
};

/* libc's own functions. */
struct sock_libc {
	ssize_t (*recv)(int, void *, size_t, int);
	ssize_t (*recvfrom)(int, void *, size_t, int, struct sockaddr *, socklen_t *);
	ssize_t (*recvmsg)(int, struct msghdr *, int);
	ssize_t (*read)(int, void *, size_t);
	ssize_t (*readv)(int, const struct iovec *, int);
	ssize_t (*send)(int, const void *, size_t, int);
	ssize_t (*sendto)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
	ssize_t (*sendmsg)(int, const struct msghdr *, int);
	int (*recvmmsg)(int, struct mmsghdr *, unsigned int, int, struct timespec *);
	int (*sendmmsg)(int, struct mmsghdr *, unsigned int, int);
	ssize_t (*write)(int, const void *, size_t);
	ssize_t (*writev)(int, const struct iovec *, int);
	ssize_t (*sendfile)(int, int, off_t *, size_t);
	ssize_t (*splice)(int, off64_t *, int, off64_t *, size_t, unsigned int);
	ssize_t (*preadv2)(int, const struct iovec *, int, off_t, int);
	ssize_t (*pwritev2)(int, const struct iovec *, int, off_t, int);
	int (*bind)(int, const struct sockaddr *, socklen_t);
	int (*connect)(int, const struct sockaddr *, socklen_t);
	int (*listen)(int, int);
	int (*accept4)(int, struct sockaddr *, socklen_t *, int);
	int (*shutdown)(int, int);
	int (*close)(int);
	int (*close_range)(unsigned int, unsigned int, int);
	int (*dup)(int);
	int (*dup2)(int, int);
	int (*dup3)(int, int, int);
	int (*fcntl)(int, int, ...);
	int (*ioctl)(int, unsigned long, ...);
	int (*getsockopt)(int, int, int, void *, socklen_t *);
	int (*setsockopt)(int, int, int, const void *, socklen_t);
	int (*getsockname)(int, struct sockaddr *, socklen_t *);
	int (*getpeername)(int, struct sockaddr *, socklen_t *);
	int (*poll)(struct pollfd *, nfds_t, int);
	int (*ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
	int (*select)(int, fd_set *, fd_set *, fd_set *, struct timeval *);
	int (*pselect)(int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *);
	int (*epoll_ctl)(int, int, int, struct epoll_event *);
	pid_t (*vfork)(void);
	int (*prctl)(int, ...);
	int (*sigaction)(int, const struct sigaction *, struct sigaction *);
	DIR *(*opendir)(const char *);
	struct dirent *(*readdir)(DIR *);
	int (*closedir)(DIR *);
	FILE *(*fdopen)(int, const char *);
	int (*fileno)(FILE *);
	int (*execve)(const char *, char *const[], char *const[]);
	int (*execvpe)(const char *, char *const[], char *const[]);
	int (*execveat)(int, const char *, char *const[], char *const[], int);
	int (*fexecve)(int, char *const[], char *const[]);
	int (*posix_spawn)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
			   char *const[], char *const[]);
	int (*posix_spawnp)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
			    char *const[], char *const[]);
};
extern struct sock_libc sock_libc; /* constant after sock_libc_find */
void sock_libc_find(void);

/*
 * Duplicates fd to a high number, which the program is unlikely to use: a descriptor aside. Returns -1 and errno on
 * failure. close(), close_range() and closefrom() of the program leave descriptors aside open; dup2() and dup3() do not
 * put another file there.
 */
int sock_libc_aside(int fd);
void sock_libc_close_aside(int fd); /* closes a descriptor aside, or any other */
bool sock_libc_is_aside(int fd);
/*
 * A process that confines itself by seccomp, as a sandbox for foreign data, has few system calls left: among them read,
 * write, poll and the clocks. Its streams go on with those calls.
 */
void sock_libc_confine(void); /* call before the process confines itself */
bool sock_libc_is_confined(void);
bool sock_libc_blocks_not(int fd);                  /* whether O_NONBLOCK is set */
ssize_t sock_libc_take(int fd, void *to, size_t n); /* as recv and send with MSG_DONTWAIT */
ssize_t sock_libc_put(int fd, const void *from, size_t n);
void sock_libc_yield(void);
int sock_libc_take_aside(int fd); /* makes fd itself a descriptor aside; returns fd */

/* ---- sock_ready.c ---- */
/* Called first in each function: finds libc's functions. */
void sock_ready(void);
/*
 * Whether the caller is a child of vfork(). Such a child runs in its parent's memory, but has descriptors of its own:
 * when it changes its descriptors, the parent's sock_tab must not change.
 */
bool sock_in_vfork(void);
void *sock_vfork_begins(void); /* returns libc's vfork(), which is called next */

/* ---- sock_tab.c ---- */
#define SOCK_FDS 65536
extern struct sock *sock_tab[SOCK_FDS];
struct sock *sock_hold(int fd); /* the slow part of sock_get() */
/* The socket of a descriptor, held; NULL: the descriptor is not ours. Each result needs a sock_put(). */
static inline struct sock *sock_get(int fd)
{
	if (__builtin_expect((uint32_t)fd >= SOCK_FDS || __atomic_load_n(&sock_tab[fd], __ATOMIC_ACQUIRE) == NULL, 1))
		return NULL;
	return sock_hold(fd);
}
void sock_put(struct sock *s);
void sock_put_held(void *s); /* the same, for pthread_cleanup_push() */
/*
 * rc = call, and then sock_put(s), also if pthread_cancel() ends the thread in the call. This room is built with
 * -fexceptions: the macros then write nothing but the stack, and a signal handler may leave the call by longjmp().
 */
#define SOCK_PUT_AFTER(s, rc, call) \
	do { \
		pthread_cleanup_push(sock_put_held, s); \
		(rc) = (call); \
		pthread_cleanup_pop(1); \
	} while (0)
struct sock *sock_new(int domain); /* held; NULL: no memory */
/* From now on the descriptor is the socket s; NULL: none of ours. */
void sock_set(int fd, struct sock *s);
/* A descriptor of this process that is the socket; -1: there is none any more. */
int sock_number(const struct sock *s);
/*
 * fd, if it is still the socket; else as sock_number(). A thread that has s->rx or s->tx may use the result until it
 * gives the lock back; to another thread it may be another file at any time.
 */
int sock_still(const struct sock *s, int fd);
/*
 * The number fd ceases to be its socket, by sock_set() between the two calls: no other thread has a lock of the socket
 * then. Returns the socket, held, for sock_leave_end(); NULL: the number is none of ours, or this thread has a lock.
 */
struct sock *sock_leave_begin(int fd);
void sock_leave_end(struct sock *s); /* s may be NULL */

/* Called before fork and, in both processes, after it: no thread is in the middle of a change. */
void sock_tab_fork(bool over);
/* Called last in the child: no other thread's lock of a socket, or hold of one, is left. */
void sock_tab_child(void);

/* ---- sock_turn.c ---- */
pid_t sock_pid(void);     /* this process's number */
void sock_pid_fork(void); /* called after fork: the number may be another one */
/* For a mutex under which calls of libc are made: the thread that holds the mutex is not cancelled. */
void sock_lock(pthread_mutex_t *m);
bool sock_holds_lock(void); /* whether this thread holds any such lock */
void sock_unlock(pthread_mutex_t *m);
/*
 * One thread of one process is between the two calls: m orders the threads of this process, and word, which lies in the
 * socket's memory, the processes. word is the number of the process whose turn is, or 0. Between the calls the thread
 * is not cancelled, so a turn must not wait for a peer.
 */
void sock_turn_begin(pthread_mutex_t *m, uint32_t *word);
void sock_turn_end(pthread_mutex_t *m, uint32_t *word);

/* ---- sock_daemon.c: requests to rnicd. 0 or a positive errno ---- */
/* The ports and workers of rnicd. NULL: rnicd does not answer; nothing is printed. */
const struct ipc_sock_join_ok *sock_world(void);
const char *sock_rnicd(void); /* the path of rnicd's socket */
/* Begins a session, or another one after rnicd's end. False: no rnicd has ever answered this process. */
bool sock_begin(void);
/* What the last rnicd told of its ports; all zero: nothing yet. Valid for good. */
const struct ipc_sock_join_ok *sock_known(void);
int sock_bind_new(struct sock *s, const struct ipc_addr *a, uint32_t flags, int *fd); /* flags: IPC_SOCK_* */
/*
 * Makes s of the kernel's socket `kernels`, which connects to `to`, or listens (to is NULL). *fd: the descriptor of s.
 */
int sock_take_new(struct sock *s, int kernels, const struct ipc_addr *to, uint32_t backlog, int *fd);
int sock_take_gram(struct sock *s, int kernels, int *fd); /* the same of a UDP socket, which is bound */
void sock_await_closed(uint16_t port);                    /* IPC_SOCK_CLOSED */
void sock_pass_option(const struct sock *s, int level, int name, int value); /* IPC_SOCK_OPTION */
int sock_listen(struct sock *s, uint32_t backlog);
int sock_connect(struct sock *s, const struct ipc_addr *to);
/*
 * Takes the byte of a connection from the descriptor `listener` of l, and that connection as s. EAGAIN: there is no
 * byte; ECONNABORTED: the connection has gone, another one may wait; EMFILE: the connection stays in the queue; EINVAL:
 * the listener is closed.
 */
int sock_accept(struct sock *l, int listener, struct sock *s, int *fd);
int sock_token(struct sock *l, int fd); /* takes the byte of a connection; EBADF: l has no descriptor any more */
void sock_bell(const struct sock *s);
/*
 * Shows the descriptor to rnicd, and asks which socket it is. *memory: a descriptor of the socket's memory, for the
 * caller to close; -1: none. *u: the doorbells, for sock_take_bells() or sock_give_bells().
 */
int sock_show(int fd, struct ipc_sock_found *f, int *memory, struct sock_bells **u);
/* The socket uses these doorbells, in place of others. */
void sock_take_bells(struct sock *s, struct sock_bells *u);
void sock_give_bells(struct sock_bells *u);
void sock_learn(struct sock *s, const struct ipc_sock_ok *ok);
/* Makes a datagram socket, with descriptor and memory; local.ip zero: at all ports. */
int sock_gram_new(struct sock *s, const struct ipc_addr *local, uint32_t flags, int *fd); /* IPC_GRAM_* */
/* The socket receives datagrams from `peer` only; NULL: from any address. */
int sock_gram_peer(struct sock *s, const struct ipc_addr *peer);
void sock_daemon_fork(bool over); /* as sock_tab_fork */

/* ---- sock_kernels.c: rnicrun --embedded: the wire iwarp over the kernel's TCP (UDP: sock_kernels_udp.c) ---- */
/* Whether rnicrun has started the program so: then no address is a port's. Cheap. */
bool sock_kernels(void);
/* bind() on the kernel's socket fd. */
int sock_kernels_bind(int fd, const struct sockaddr *sa, socklen_t len);
/* The last descriptor that this process has of a listener or a UDP socket of ours with this port has been closed. */
void sock_kernels_closed(uint16_t port);
/* listen() and connect() on the kernel's TCP socket fd, which becomes ours if its wire is iwarp. */
int sock_kernels_listen(int fd, int backlog);
int sock_kernels_connect(int fd, const struct sockaddr *sa, socklen_t len, const struct ipc_addr *to);

/* ---- sock_reach.c ---- */
/* Whether a port reaches the address; *from: that port's address. */
bool sock_reaches(const struct ipc_addr *to, struct ipc_addr *from);
bool sock_is_port(const struct ipc_addr *a);
/* The port with this address or number; UINT32_MAX or NULL: there is none. */
uint32_t sock_port_of(const struct ipc_addr *a);
const struct ipc_sock_port *sock_port(uint32_t dev);
/* False: certainly no port reaches the address. Cheap. */
bool sock_may_reach(const struct sockaddr *sa, socklen_t len);

/* ---- sock_hand.c: hands a descriptor's stream to another copy of this code in the same process ---- */
#define SOCK_SEE "rnicsock_see"
struct sock_seen {
	uint32_t told;
	bool watched;
	struct ipc_stream *mem;
};
/* Called in the copy that has the descriptor. 0, or an errno: it is no connected stream, or the versions differ. */
int rnicsock_see(uint32_t version, int fd, struct sock_seen *seen);
/*
 * Called in the other copy: s, a new socket, becomes that stream too, with a mapping of its own. rnicd tells the
 * stream's addresses and doorbells when it is shown the descriptor fd. False: no memory, or rnicd does not answer.
 */
bool sock_take(struct sock *s, int fd, const struct sock_seen *seen);

/* ---- sock_io.c ---- */
size_t sock_bytes(const struct iovec *iov, size_t n);
uint32_t sock_untold(const struct sock *s); /* bytes of a stream that the peer has not acknowledged */
/*
 * As recv and send with an iovec. Of the flags, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, MSG_TRUNC and MSG_WAITALL have an
 * effect; MSG_OOB fails.
 */
ssize_t sock_recv(struct sock *s, int fd, const struct iovec *iov, int n, int flags);
ssize_t sock_send(struct sock *s, int fd, const struct iovec *iov, int n, int flags);
/*
 * For a thread that reads alone, without a copy: the received bytes in the ring, in the order of the stream, in up to
 * two pieces. Returns how many bytes there are. sock_took() frees the first n of them.
 */
uint32_t sock_look(const struct sock *s, struct iovec iov[2]);
void sock_took(struct sock *s, int fd, uint32_t n);
void sock_took_in_turn(struct sock *s, int fd, uint32_t n); /* the caller has the turn at the receive ring */
/*
 * Design assisted (ipc_stream.h): rnicd sums the CRCs of FPDUs. sock_fpdus_out(): the first FPDU to send begins `ahead`
 * bytes behind the bytes sent so far. sock_fpdus_in(): the next unread byte begins an FPDU, and has this offset in Full
 * Operation; true: rnicd sums already, so the call had no effect. step: bytes from one marker to the next; 0: no
 * markers. sock_summed(): the number of unread bytes that are whole FPDUs with good CRCs.
 */
void sock_fpdus_out(const struct sock *s, uint32_t ahead, uint32_t step);
bool sock_fpdus_in(const struct sock *s, uint32_t offset, uint32_t step);
uint32_t sock_summed(const struct sock *s);
/*
 * The result of connect(); for a blocking descriptor waits for it. first: connect() has just begun. 0, or -1 and errno.
 */
int sock_connected(struct sock *s, int fd, bool first);
/* Whether connect() has failed, and the program knows it: the socket may be used as a new one, as in Linux. */
bool sock_has_failed(const struct sock *s);
/* Notes that connect() has reported its result. True: that was noted before. */
bool sock_tell_connect(struct sock *s);
int sock_shut(struct sock *s, int fd, int how); /* as shutdown: 0 or an errno */
void sock_finish(struct sock *s);               /* no more bytes will be sent */
void sock_reset(struct sock *s);                /* the connection ends at once */
/* SO_LINGER: with time 0 the last close() resets the connection; with another time sock_linger() waits. */
void sock_set_linger(struct sock *s, struct linger l);
/*
 * The last descriptor of this process has been closed: waits until the peer has all bytes, or the SO_LINGER time is
 * over.
 */
void sock_linger(struct sock *s);
/* The poll() events of a stream; told: the poll() events of its descriptor. */
short sock_stream_events(const struct sock *s, short told);
/*
 * The descriptor shows events (POLLIN, POLLOUT) that the socket does not have, or may: makes it show them only when
 * something has come, or when there is room. False: the socket has such an event by now, so the descriptor stays as it
 * is, and rnicd will not wake a thread that sleeps at it.
 */
bool sock_settle(struct sock *s, int fd, short events);
/*
 * The caller will sleep at the descriptor until one of the events: settles the descriptor, if need be. False: an event
 * has come since the caller looked, and the caller must not sleep.
 */
RN_NODISCARD bool sock_sleeps(struct sock *s, int fd, short events);
/* From now on the descriptor's readiness is kept up to date, for the epoll set that it is in. */
void sock_watch(struct sock *s, int fd);
/*
 * The descriptor's readiness is no longer kept, which costs rnicd nothing: the caller looks at the rings until
 * sock_watch().
 */
void sock_unwatch(struct sock *s, int fd);
/* Whether a read would not wait: there are bytes, the end of the stream, or an error. */
bool sock_readable(const struct sock *s);
bool sock_is_connected(const struct sock *s);
/* Bits IPC_STREAM_* of a connection. acquire: pairs with rnicd's release; the bytes that they tell of are there. */
static inline uint32_t sock_state(const struct sock *s) { return __atomic_load_n(&s->mem->state, __ATOMIC_ACQUIRE); }
uint32_t sock_unread(const struct sock *s);
int sock_pending_error(struct sock *s);

/* Takes the bytes of readiness from a descriptor. False: rnicd has closed its end. */
bool sock_empty(int fd);
bool sock_does_not_block(int fd, int flags);
/* The waits of one call. */
struct sock_waits {
	uint64_t end;   /* when the call's time is over; 0 before the first wait */
	bool has_bytes; /* the call has moved bytes already: a signal ends the call, and it returns their number */
};
/*
 * Sleeps at a stream's descriptor until one of the events, or for ms at most in all waits of the call. False and errno:
 * the time is over, or a signal has come.
 */
bool sock_sleeps_at(const struct sock *s, int fd, short events, int ms, struct sock_waits *w);

/*
 * Waits for room as send() does. True: the caller has the turn at the send ring, and *v are up to n bytes of free room
 * in it. sock_fill_end() sends the first of them, and ends the turn. False and errno: no turn has begun.
 */
RN_NODISCARD bool sock_fill_begin(struct sock *s, int *fd, struct sock_waits *w, size_t n, struct iovec v[2]);
void sock_fill_end(struct sock *s, uint32_t n);

/* ---- sock_look.c ---- */
uint64_t sock_now(void); /* ns */
/* The end of a time that begins now, a valid one; UINT64_MAX: never. */
uint64_t sock_end_of(const struct timespec *ts);
/* How long a thread has looked at the memory for what it waits for; all zero at the start. */
struct sock_looks {
	uint64_t begin, now; /* ns */
	uint64_t looked;     /* ns, without the time in which others had the CPU */
};
/*
 * Leaves the CPU to others for a while; the caller looks once more when it returns true. False: the thread has looked
 * for about 50 us, and sleeping costs less.
 */
bool sock_look_on(struct sock_looks *t);

/* ---- sock_sleep.c ---- */
uint64_t sock_end_in(int ms); /* the end of a time that begins now; ms -1: UINT64_MAX, never */
/*
 * As poll(), until a point in time, for a call that waits at a socket. 0: the time is over, and errno is EAGAIN. -1 and
 * errno. After a signal handler with SA_RESTART the thread sleeps on, if there is no time limit and `restarts` is set.
 */
int sock_sleep(struct pollfd *p, nfds_t n, uint64_t end, bool restarts);

/* ---- sock_rw.c: as recvmsg and sendmsg; streams use no address and no control messages ---- */
ssize_t sock_recv_msg(struct sock *s, int fd, struct msghdr *m, int flags);
ssize_t sock_send_msg(struct sock *s, int fd, const struct msghdr *m, int flags);
#define SOCK_PIECE 65536u  /* bytes that are copied at a time between a socket and a file */
uint8_t *sock_piece(void); /* this thread's buffer of SOCK_PIECE bytes for that; no other call of this room keeps it */

/* ---- sock_place.c ---- */
/*
 * Puts the descriptor `made` of s in the place of the kernel's socket fd, whose settings s takes over. Closes `made`; 0
 * or an errno.
 */
int sock_replace(int fd, int made, struct sock *s);
/* Takes over the kernel's socket's settings only. */
void sock_settings(struct sock *s, int fd);
/* Makes a socket of the kernel's with the settings of the stream s. Returns its descriptor; -1 and errno. */
int sock_anew(struct sock *s);
/* The name of the kernel's TCP socket fd. Port 0: it has none yet. */
struct ipc_addr sock_bound(int fd);
/*
 * Makes the number fd a duplicate of `file`. From then on fd is the socket s; s NULL: a socket of the kernel's. If fd
 * is in an epoll set, it stays in the set. keep: the flags of F_GETFL that fd keeps. 0 or an errno.
 */
int sock_become(int fd, int file, int keep, struct sock *s);
int sock_option(int fd, int which); /* the value of a SOL_SOCKET option; -1: there is none */
/* Sets *ms from a struct timeval of the program's; *ms -1: no limit. 0, or -1 and errno: the value is invalid. */
int sock_set_time(int *ms, const void *from, socklen_t len);

/* ---- sock_opts.c ---- */
/* Returns an option's value, cut to *len bytes: as getsockopt. */
int sock_opt_give(void *to, socklen_t *len, const void *from, size_t size);
/* Options that rnicd's TCP does not have, as setsockopt and getsockopt. */
int sock_opts_set(struct sock *s, int level, int name, const void *from, socklen_t len);
int sock_opts_get(struct sock *s, int level, int name, void *to, socklen_t *len);
void sock_opts_learn(struct sock *s, int fd); /* takes over the usual options of the kernel's socket fd */
void sock_opts_teach(struct sock *s, int fd); /* gives the options of s to the kernel's socket fd */
int sock_other(int domain);                   /* a new socket of the kernel's, for questions; -1: there is none */
void sock_other_close(int fd);                /* closes that; fd may be -1. errno stays */

/* ---- sock_fds.c ---- */
void sock_flagged(int fd); /* call when FD_CLOEXEC of the descriptor may have changed */

/* ---- sock_kept.c ---- */
struct ipc_sock_kept *sock_kept_of(const struct sock *s); /* NULL: the socket has no memory */
uint64_t sock_file_number(int fd);                        /* inode number of a socket; 0: fd is no socket */
/* Writes the program's settings of the socket into its memory, for the program that exec starts. */
void sock_keep(const struct sock *s);
void sock_learn_kept(struct sock *s); /* reads these settings, in the program that exec has started */
/* Sets FD_CLOEXEC of the kernel's socket below, so that it passes to the next program if a descriptor of s does. */
void sock_below_follows(const struct sock *s);

/* ---- sock_found.c: sockets inherited from the program before exec ---- */
bool sock_looks_ours(int fd); /* whether rnicd may have made the descriptor */
/* A message of a UNIX socket has come: sockets of rnicd's among its descriptors become ours. */
void sock_found_in(const struct msghdr *m);

/* ---- sock_stdio.c ---- */
/* The descriptor has become a socket of ours: if it belongs to stdin, stdout or stderr, the stream uses the socket. */
void sock_stdio_follows(int fd);

/* ---- sock_any.c: a listener at all addresses: the kernel's, and rnicd's at all ports ---- */
/* Whether the kernel's socket fd has no address, or the address of all; *a then has its port, or 0. */
bool sock_is_at_any(int fd, struct ipc_addr *a);
/* listen() on the kernel's socket fd. If fd is bound to all addresses and rnicd takes the port, fd becomes ours. */
int sock_listen_any(int fd, int backlog);
/* Accepts a connection of the kernel's, with the flags of accept4. -1 and errno; EAGAIN: there is none now. */
int sock_accept_below(const struct sock *l, struct sockaddr *sa, socklen_t *len, int flags);
/* The kernel's socket below, if it may have a datagram or connection for the socket; else -1. */
int sock_below_fd(const struct sock *s);

/* ---- sock_epoll.c ---- */
/* The descriptor of the socket shows its readiness from now on, to epoll sets. */
void sock_keep_true(struct sock *s, int fd);
/*
 * Takes the descriptor, and the kernel's socket below it, out of its epoll set, before the descriptor becomes another
 * file. False: it is in none.
 */
bool sock_epoll_out(int fd);
/* Puts the descriptor, as the file that it is now, back into that set with the same events. */
void sock_epoll_in(int fd);
/* The descriptor is an epoll set of the program before exec: learns its members. */
void sock_epoll_found(int ep);

/* ---- sock_addr.c ---- */
bool sock_addr_is_any(const struct ipc_addr *a);
/* False: the address is neither IPv4 nor IPv6. */
bool sock_addr_in(const struct sockaddr *sa, socklen_t len, struct ipc_addr *a);
void sock_addr_out(const struct sock *s, const struct ipc_addr *a, struct sockaddr *sa, socklen_t *len);

#endif
