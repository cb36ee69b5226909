/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librnicsock: stands in front of libc's socket calls. A TCP or UDP socket that is bound to a port's address, connects
 * to an address in a port's subnet or sends a datagram there becomes one of rnicd's: its descriptor is replaced by the
 * one that rnicd made, whose readiness in poll, select and epoll is the socket's (ipc_stream.h, ipc_gram.h). All others
 * stay the kernel's, untouched. Below a UDP socket the kernel's is kept, for addresses that no port reaches.
 *
 * Threads: any; one lock a direction of a socket. After fork both processes have the sockets; each talks to rnicd for
 * itself. After exec the new program shows rnicd the descriptors that it has, and is told which sockets they are
 * (sock_found.c); so has one that gets them in another way than by this library, as a child of posix_spawn().
 */
#ifndef RNIC_SOCK_H
#define RNIC_SOCK_H

#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "ipc/ipc.h"

enum sock_kind { SOCK_BOUND, SOCK_LISTENS, SOCK_IS_STREAM, SOCK_IS_GRAM };

struct sock_bells { /* of a user; never freed */
	dev_t dev;
	ino_t ino; /* of the memory's file */
	struct ipc_doorbell *bell;
	int wake_fd;
};

/*
 * Memory of this kind is never given back to libc: a thread that looks up a descriptor that is just being closed may
 * read it.
 */
struct sock {
	uint32_t refs; /* descriptors, and calls under way; 0: free */
	enum sock_kind kind;
	uint64_t id; /* rnicd's */
	int domain;  /* AF_INET or AF_INET6: how addresses are shown */
	uint32_t worker, bit;
	const struct sock_bells *bells; /* NULL: those of this process's user */
	struct ipc_addr local, remote;
	struct ipc_stream *mem; /* of a stream */
	pthread_mutex_t rx, tx;
	bool in_epoll;         /* it is in a set of epoll's */
	bool watched;          /* its descriptor has been polled: it is kept true from then on */
	bool rx_shut, tx_shut; /* before it has a connection; then in the memory */
	uint32_t told;         /* rx_head when the bell was last rung for it */
	struct linger linger;
	int rcv_ms, snd_ms; /* SO_RCVTIMEO, SO_SNDTIMEO; -1: for ever */
	/* datagrams */
	struct ipc_gram *gram;
	int below;       /* the kernel's socket, of a listener too; -1: none */
	bool below_live; /* it has a port: it may have received something */
	bool wild;       /* bound to all addresses */
	bool named;      /* the program has named a port, or an address, for it */
	bool has_peer;   /* remote; the kernel's socket is connected to it with peer_below */
	bool peer_below;
	bool pktinfo, recv_ttl, recv_tos; /* control messages that are asked for */
	uint8_t tos, ttl;                 /* ttl 0: the usual one */
	uint16_t segment;                 /* UDP_SEGMENT; 0: none */
	uint8_t wire;                     /* of what is sent: IPC_GRAM_* */
	bool whole;                       /* IP_MTU_DISCOVER: what is longer than the MTU is not sent */
	uint32_t turns;                   /* receives */
	uint8_t last_ip[16];              /* of the last datagram's destination, and the port that reaches it */
	uint32_t last_dev;
	struct sock *next; /* free list */
};

/* libc's own. */
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
 * A second number for fd, which programs do not meet: small numbers are theirs to choose. -1 and errno. What a program
 * closes by number, or by all numbers, is never such a one.
 */
int sock_libc_aside(int fd);
void sock_libc_close_aside(int fd); /* one of them, or another one */
bool sock_libc_is_aside(int fd);
/*
 * A process that confines itself by seccomp, as a sandbox for what strangers send, has few system calls from then on:
 * read, write, poll and clocks belong to them. A stream that it has goes on with those.
 */
void sock_libc_confine(void);                       /* before it does */
bool sock_libc_blocks_not(int fd);                  /* O_NONBLOCK */
ssize_t sock_libc_take(int fd, void *to, size_t n); /* as recv and send with MSG_DONTWAIT */
ssize_t sock_libc_put(int fd, const void *from, size_t n);
void sock_libc_yield(void);
int sock_libc_take_aside(int fd); /* a number that is one from now on; returns it */

/* ---- sock_ready.c ---- */
/* Before anything else in a call: libc's functions are known from now on. */
void sock_ready(void);
pid_t sock_pid(void); /* of this process */
/*
 * This is a child of vfork(), in its parent's memory, with descriptors of its own: what it does to them does not show
 * in the table.
 */
bool sock_in_vfork(void);
void *sock_vfork_begins(void); /* libc's vfork(), which is called next */

/* ---- sock_tab.c ---- */
#define SOCK_FDS 65536
extern struct sock *sock_tab[SOCK_FDS];
struct sock *sock_hold(int fd); /* sock_get() of one that may be ours */
/* The socket of a descriptor, held; NULL: it is not ours. sock_put() for each. */
static inline struct sock *sock_get(int fd)
{
	if (__builtin_expect((uint32_t)fd >= SOCK_FDS || __atomic_load_n(&sock_tab[fd], __ATOMIC_ACQUIRE) == NULL, 1))
		return NULL;
	return sock_hold(fd);
}
void sock_put(struct sock *s);
struct sock *sock_new(int domain); /* held; NULL: no memory */
/* The descriptor is the socket's from now on, or (NULL) nobody's. */
void sock_set(int fd, struct sock *s);
/* A descriptor of this process that is the socket's; -1: there is none any more. */
int sock_number(const struct sock *s);

/* Before and after fork, in both processes: nobody is in the middle of it. */
void sock_tab_fork(bool over);

/* ---- sock_daemon.c: requests to rnicd. 0 or a positive errno ---- */
/* The ports and workers of rnicd; NULL: it does not answer, and nothing is said about it. */
const struct ipc_sock_join_ok *sock_world(void);
const char *sock_rnicd(void); /* the path at which it is asked */
bool sock_reaches(const struct ipc_addr *to, struct ipc_addr *from);
bool sock_is_port(const struct ipc_addr *a);
int sock_bind_new(struct sock *s, const struct ipc_addr *a, uint32_t flags, int *fd); /* flags: IPC_SOCK_* */
int sock_listen(struct sock *s, uint32_t backlog);
int sock_connect(struct sock *s, const struct ipc_addr *to);
int sock_accept(const struct sock *l, struct sock *s, int *fd);
void sock_bell(const struct sock *s);
/* What socket the descriptor is. memory: its memory's, the caller's to close; -1. */
int sock_show(int fd, struct ipc_sock_found *f, int *memory, const struct sock_bells **u);
void sock_learn(struct sock *s, const struct ipc_sock_ok *ok);
/* The port with this address or number; UINT32_MAX, NULL: there is none. */
uint32_t sock_port_of(const struct ipc_addr *a);
const struct ipc_sock_port *sock_port(uint32_t dev);
/* False: no port reaches it for sure. Costs little. */
bool sock_may_reach(const struct sockaddr *sa, socklen_t len);
/* A datagram socket, its descriptor and memory; local.ip zero: all ports. */
int sock_gram_new(struct sock *s, const struct ipc_addr *local, uint32_t flags, int *fd); /* IPC_GRAM_* */
/* What comes from others than `peer` is dropped; NULL: from nobody. */
int sock_gram_peer(struct sock *s, const struct ipc_addr *peer);
void sock_daemon_fork(bool over); /* as sock_tab_fork */

/* ---- sock_hand.c: the stream of a descriptor, for another copy of this code in the same process ---- */
#define SOCK_SEE "rnicsock_see"
struct sock_seen {
	uint64_t id;
	uint32_t worker, bit, told;
	bool watched;
	struct ipc_addr local, remote;
	struct ipc_stream *mem;
};
/* Of the copy that has the descriptor. 0, or an errno: it is no connected stream, or the versions differ. */
int rnicsock_see(uint32_t version, int fd, struct sock_seen *seen);
/* Of the other one: s, a new socket, is that stream too, with a mapping of its own. False: no memory. */
bool sock_take(struct sock *s, const struct sock_seen *seen);

/* ---- sock_io.c ---- */
size_t sock_bytes(const struct iovec *iov, size_t n);
/* As recv and send, of which flags are taken; -1 and errno. */
ssize_t sock_recv(struct sock *s, int fd, const struct iovec *iov, int n, int flags);
ssize_t sock_send(struct sock *s, int fd, const struct iovec *iov, int n, int flags);
/*
 * For one thread that reads without a copy: the received bytes where they lie, in the order of the stream, in up to two
 * pieces; returns how many bytes there are. sock_took() gives the first n of them back.
 */
uint32_t sock_look(const struct sock *s, struct iovec iov[2]);
void sock_took(struct sock *s, int fd, uint32_t n);
/*
 * Design assisted (ipc_stream.h): rnicd sums the CRCs of FPDUs. out: FPDUs begin `ahead` bytes behind what has been
 * sent. in: the next unread byte begins an FPDU and has this offset in Full Operation; true: rnicd sums already, and
 * nothing was said. sock_summed(): how many of the unread bytes are whole FPDUs with good CRCs.
 */
void sock_fpdus_out(const struct sock *s, uint32_t ahead, uint32_t step);
bool sock_fpdus_in(const struct sock *s, uint32_t offset, uint32_t step);
uint32_t sock_summed(const struct sock *s);
/* What became of connect; a blocking descriptor waits for it. first: it has just begun. 0 or -1 and errno. */
int sock_connected(struct sock *s, int fd, bool first);
/* connect() has told what became of it. True: it had before. */
bool sock_tell_connect(struct sock *s);
int sock_shut(struct sock *s, int fd, int how); /* as shutdown: 0 or an errno */
void sock_finish(struct sock *s);               /* nothing more will be sent */
void sock_reset(struct sock *s);                /* the connection ends at once */
/* SO_LINGER: with no time the last close() resets the connection; with one, sock_linger() waits. */
void sock_set_linger(struct sock *s, struct linger l);
/* The last descriptor of this process has been closed: waits until the peer has all bytes, or that time is over. */
void sock_linger(struct sock *s);
/* As poll tells it of a stream, and of a socket that is no more than bound; told: what poll says of its descriptor. */
short sock_stream_events(const struct sock *s, short told);
short sock_bound_events(const struct sock *s);
/* Its descriptor said that there is something, and there is nothing: it says so again when there is. */
void sock_settle(struct sock *s, int fd);
/* Its descriptor's readiness is looked at from now on. */
void sock_watch(struct sock *s, int fd);
/* The descriptor says nothing and costs rnicd nothing: the caller looks at the rings until sock_watch(). */
void sock_unwatch(struct sock *s, int fd);
/* A read would not wait: there are bytes, the end of the stream, or an error. */
bool sock_readable(const struct sock *s);
bool sock_is_connected(const struct sock *s);
uint32_t sock_unread(const struct sock *s);
int sock_pending_error(struct sock *s);

/* Takes the bytes of readiness from a descriptor. False: rnicd has closed its end. */
bool sock_empty(int fd);
bool sock_does_not_block(int fd, int flags);
uint64_t sock_now(void); /* ns */

/* ---- sock_rw.c: as recvmsg and sendmsg. Of a stream: no address, no control messages ---- */
ssize_t sock_recv_msg(struct sock *s, int fd, struct msghdr *m, int flags);
ssize_t sock_send_msg(struct sock *s, int fd, const struct msghdr *m, int flags);

/* ---- sock_place.c ---- */
/* `made` takes the number fd, with what the program has set of the old one. 0 or an errno. */
int sock_replace(int fd, int made, struct sock *s);
/*
 * The number fd is `file` too from now on, in its set of epoll's as before, and the socket's, or (NULL) the kernel's.
 * keep: the flags of F_GETFL that go over. 0 or an errno.
 */
int sock_become(int fd, int file, int keep, struct sock *s);
int sock_option(int fd, int which); /* of SOL_SOCKET; -1: it has none */
/* A struct timeval of the program's, as ms; -1: no limit. -1 and errno: it is none. */
int sock_set_time(int *ms, const void *from, socklen_t len);

/* ---- sock_fds.c ---- */
void sock_flagged(int fd); /* FD_CLOEXEC of the descriptor may have changed */

/* ---- sock_kept.c ---- */
struct ipc_sock_kept *sock_kept_of(const struct sock *s); /* NULL: it has no memory */
uint64_t sock_file_number(int fd);                        /* the kernel's number of a socket; 0: it is none */
/* For the program that comes next: what this one has set of the socket. */
void sock_keep(const struct sock *s);
void sock_learn_kept(struct sock *s);
/* The kernel's socket below goes to the next program when a descriptor of the socket does. */
void sock_below_follows(const struct sock *s);

/* ---- sock_found.c: sockets that the program before this one has left it ---- */
bool sock_looks_ours(int fd); /* the descriptor may be one that rnicd has made */

/* ---- sock_stdio.c ---- */
/* The descriptor is the socket's now: the standard stream with this number, if there is one, goes over to it. */
void sock_stdio_follows(int fd);

/* ---- sock_any.c: a listener at all addresses, the kernel's and those of all ports ---- */
/* As listen() of fd, not ours, which becomes such a listener where rnicd has the port free. */
int sock_listen_any(int fd, int backlog);
/* A connection of the kernel's, with the flags of accept4. -1 and errno; EAGAIN: there is none now. */
int sock_accept_below(const struct sock *l, struct sockaddr *sa, socklen_t *len, int flags);
/* Where the kernel may have something for the socket; -1: nowhere. */
int sock_below_fd(const struct sock *s);

/* ---- sock_epoll.c ---- */
/* The descriptor of the socket tells its readiness from now on, to poll and to sets of epoll's. */
void sock_keep_true(struct sock *s, int fd);
/* A descriptor that becomes another file leaves its set before. False: it is in none. */
bool sock_epoll_out(int fd);
/* It is in that set again, with the same events, as the file that it is now. */
void sock_epoll_in(int fd);

/* ---- sock_addr.c ---- */
bool sock_addr_is_any(const struct ipc_addr *a);
/* False: no TCP address. */
bool sock_addr_in(const struct sockaddr *sa, socklen_t len, struct ipc_addr *a);
void sock_addr_out(const struct sock *s, const struct ipc_addr *a, struct sockaddr *sa, socklen_t *len);

#endif
