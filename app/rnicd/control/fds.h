/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper processes that handle the descriptors which clients pass, so that rnicd itself never blocks on one. Receiving
 * a descriptor, querying its kind, opening a file that a client has mapped, closing the last descriptor of a file: each
 * of these calls may block as long as the client likes (a TCP connection that lingers, a file whose server is the
 * client itself, a process whose memory map is locked). The kernel also closes descriptors implicitly: those that lie
 * unread in a socket which is closed, and those for which a receiver has no room.
 *
 * So rnicd itself does none of this. Helper processes, made before rnicd has threads or memory (fds_helper.c), receive
 * the messages that carry descriptors, examine the descriptors, close useless ones, and pass only eventfds and memory
 * files on to rnicd. The helper keeps its own descriptors of these files until rnicd has closed those that it got: so
 * the pages of a large file that the client has given up are freed in the helper and not in rnicd. A helper also closes
 * the last descriptor of each client's socket.
 *
 * A helper that a client blocks is lost until the client stops blocking it. A user can block FDS_PER_USER helpers; then
 * that user's other jobs wait, and no other user's. The fewer helpers are left, the fewer a user may have, so several
 * users together do not hold all of them. Sockets that wait to be closed take descriptors of rnicd, and their user can
 * make more of them: FDS_TOGETHER of them go to a helper that closes them by ending, and is replaced at once.
 *
 * Control thread, but for fds_start().
 */
#ifndef FDS_H
#define FDS_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/rn_base.h"
#include "ipc/ipc.h"
#include "ipc/ipc_region.h"

#define FDS_HELPERS_MAX 64u
#define FDS_PER_USER    8u
#define FDS_TOGETHER    32u /* sockets that wait to be closed for one user, at most */

enum fds_kind {
	FDS_OTHER, /* useless: the helper has closed it */
	FDS_EVENTFD,
	FDS_MEMORY, /* a file of tmpfs or hugetlbfs */
	FDS_SOCKET, /* a socket: the helper has closed it, and cookie is the kernel's number of it */
	FDS_KERNELS /* as SOCKET, of IPC_SOCK_TAKE (fds_pass_kernels()): TCP or UDP; the helper has passed it on */
};

struct fds_given {
	enum fds_kind kind;
	int fd;                 /* of EVENTFD, MEMORY and KERNELS; the receiver closes it. Else -1, but see fds_own.c */
	struct ipc_file memory; /* of MEMORY: what the helper has found, since rnicd itself does not ask such files */
	uint64_t cookie;        /* of SOCKET and KERNELS */
	bool file;              /* a file or folder, identified by fdev, fino and fborn */
	uint64_t fdev, fino;
	uint64_t fborn; /* fds_born() */
};

/*
 * The time when the file was made, ns; 0: its file system does not know it. A file system gives the inode number of a
 * removed file to a new one, so the number alone does not identify a file that nobody has open any more.
 */
static inline uint64_t fds_born(int fd)
{
	struct statx sx;

	/* what the kernel knows: the server of a client's file system is not asked */
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BTIME, &sx) != 0 ||
	    (sx.stx_mask & STATX_BTIME) == 0)
		return 0;
	return (uint64_t)sx.stx_btime.tv_sec * RN_NS_PER_S + sx.stx_btime.tv_nsec;
}

/* The result of a job. */
struct fds_result {
	/*
	 * 0 or a negative errno. -EIO: the client has blocked the helper for too long. Of fds_receive(): -EAGAIN: there
	 * is no message, -EPIPE: the client has gone, -EPROTO: a malformed message, -ENFILE: the message has come
	 * without its descriptors, because the system or rnicd has no free descriptors. Of fds_open(): see
	 * client_maps_open().
	 */
	int status;
	struct ipc_msg m;
	uint32_t n;
	struct fds_given given[IPC_MAX_FDS];
};

/* A mapping [start, end) of a client whose file is to be opened (client_maps.h). */
struct fds_mapping {
	uint64_t start, end;
	uint32_t writable;
	uid_t uid;
	gid_t gid;
};

struct fds_job;

/* Makes the helpers. Called before rnicd makes threads, sockets and memory, so that helpers do not inherit them. False:
 * errno says why. */
bool fds_start(void);
/*
 * In place of fds_start(), in a process whose clients can block only their own user: there are no helpers, and the
 * control thread receives messages (fds_own.c), and closes sockets.
 */
void fds_own_start(void);
void fds_start_without(void (*receive)(int sock, struct fds_result *r));
/* Called when the loop exists. The loop calls `done` with each result; `done` closes the descriptors in it before it
 * returns, or keeps eventfds. */
bool fds_serve(void (*done)(uint64_t key, struct fds_result *r));
/* Before fds_start(): the helpers pass on the sockets of IPC_SOCK_TAKE. */
void fds_pass_kernels(void);
void fds_stop(void);
/* Closes the descriptors of a result. */
void fds_close_given(struct fds_result *r);

/* Allocates the job of fds_close() in advance, so that closing cannot fail later. NULL: no memory. free() undoes it. */
struct fds_job *fds_closing(void);
/* Lets a helper close the last descriptor of a client's socket. Takes over closing and sock. */
void fds_close(struct fds_job *closing, uid_t uid, int sock);

/* Receives the next message of sock, with its descriptors. key: given back to `done`. False: no memory. */
bool fds_receive(uint64_t key, uid_t uid, int sock);
/* Opens the file behind a mapping of a client. dir: the client's /proc/PID; sock: its socket, which tells its groups.
 * False: no memory. */
bool fds_open(uint64_t key, int sock, int dir, const struct fds_mapping *m);
/* Called before sock and dir are closed: cancels jobs of this key that have not begun. */
void fds_cancel(uint64_t key);

struct fds_totals {
	uint64_t jobs, lost;       /* all jobs so far; those whose helper was terminated */
	uint32_t running, waiting; /* jobs at helpers now; jobs that wait for a helper */
};
extern struct fds_totals fds_totals;

/* ---- between rnicd and its helpers ---- */

enum fds_what { FDS_RECEIVE, FDS_OPEN, FDS_CLOSE, FDS_CLOSE_ALL };

/* A job, as rnicd sends it to the helpers: with the client's socket (CLOSE_ALL: FDS_TOGETHER sockets), and for OPEN
 * also with the client's /proc/PID. */
struct fds_ask {
	uint64_t number; /* of the job */
	enum fds_what what;
	uint64_t closing; /* CLOSE, CLOSE_ALL: number of these jobs so far, this one included */
	struct fds_mapping map;
};

/*
 * In memory that rnicd and its helpers share. A helper must close the last descriptor of a socket and of a memory file.
 * So it closes its descriptor only after rnicd has closed its own. CLOSE, CLOSE_ALL: when `closed`, which rnicd
 * increments, has reached the job's `closing`. A job that has passed memory files on to rnicd: when rnicd has written
 * the job's number into the helper's `taken`. A socket of the kernel's is not kept.
 */
struct fds_shared {
	bool kernels;                    /* written before there are helpers */
	uint64_t closed;                 /* atomic */
	uint64_t taken[FDS_HELPERS_MAX]; /* atomic */
};

/*
 * What a helper sends about a job: the result, with the descriptors of kind EVENTFD, MEMORY and KERNELS, in order. If
 * `ended` is false, the helper keeps memory files until rnicd has closed them, and then sends a second message without
 * a result. It closes a socket of the kernel's before the second message, and rnicd uses it only after that: the port
 * is free as soon as rnicd closes the socket.
 */
struct fds_reply {
	uint64_t number;
	uint32_t helper; /* index in fds_shared.taken */
	bool ended;
	struct fds_result r;
};

/* Whether rnicd gets this descriptor. */
static inline bool fds_is_passed(const struct fds_given *g)
{
	return g->kind == FDS_EVENTFD || g->kind == FDS_MEMORY || g->kind == FDS_KERNELS;
}

/* Turns this process into the broker, which makes helpers so that some are always idle. */
void fds_helper_main(int jobs, int answers, const struct fds_shared *shared) __attribute__((noreturn));
/* sendmsg() and recvmsg() of one message with up to FDS_TOGETHER descriptors. 0 or a negative errno; as ipc_recv(). */
int fds_send(int sock, const void *p, size_t len, const int *fds, uint32_t n);
int fds_recv(int sock, void *p, size_t len, int fds[FDS_TOGETHER], uint32_t *n);

#endif
