/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors that clients pass, taken where nobody waits. Receiving a descriptor, asking what it is of, opening a file
 * that a client has mapped, closing the last descriptor of a file: each may take as long as the client likes (a TCP
 * connection that lingers, a file whose server is the client itself, a process whose memory map is locked). The kernel
 * closes descriptors also by the way: those that lie unread in a socket which is closed, and those which a receiver has
 * no room for.
 *
 * So rnicd itself does none of this. Helper processes, made before rnicd has threads or memory (fds_helper.c), receive
 * the messages that carry descriptors, look at the descriptors, close what is of no use, and hand on eventfds and files
 * of memory only, which the kernel closes at once. Helpers also have the last descriptor of each client's socket. A
 * helper that a client holds up is lost until the client lets go. A user can hold up FDS_PER_USER of them; the user's
 * other jobs wait then, and nobody else's.
 *
 * Control thread, but for fds_start().
 */
#ifndef FDS_H
#define FDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ipc/ipc.h"

#define FDS_HELPERS_MAX 64u
#define FDS_PER_USER    8u

enum fds_kind {
	FDS_OTHER, /* of no use, closed */
	FDS_EVENTFD,
	FDS_MEMORY, /* a file of tmpfs or hugetlbfs */
	FDS_SOCKET  /* closed; its cookie is the kernel's number of it */
};

struct fds_given {
	enum fds_kind kind;
	int fd;          /* of EVENTFD and MEMORY: the receiver's to close; else -1 */
	uint64_t cookie; /* of SOCKET */
	bool file;       /* it is a file or a folder, which fdev and fino name */
	uint64_t fdev, fino;
};

/* What a job has brought. */
struct fds_result {
	/*
	 * 0 or a negative errno. A message: -EAGAIN none is there, -EPIPE the client has gone, -EPROTO malformed,
	 * -ENFILE the message is here but not its descriptors, which the system or rnicd had no room for. A mapping: as
	 * client_maps_open(). -EIO: the client held the helper up for too long.
	 */
	int status;
	struct ipc_msg m;
	uint32_t n;
	struct fds_given given[IPC_MAX_FDS];
};

/* What a client has mapped at [start, end), to be opened (client_maps.h). */
struct fds_mapping {
	uint64_t start, end;
	uint32_t writable;
	uid_t uid;
	gid_t gid;
};

struct fds_job;

/* Makes the helpers. Before threads, sockets and memory of rnicd: a helper has none of them. False: errno says why. */
bool fds_start(void);
/* The loop is there. done is called with each result, in the loop; the descriptors in it are done's to close. */
bool fds_serve(void (*done)(uint64_t key, struct fds_result *r));
void fds_stop(void);

/* A closing that will be needed, made in advance so that it cannot fail then; NULL: no memory. free() undoes it. */
struct fds_job *fds_closing(void);
/* The last descriptor of a client's socket goes. Takes both. */
void fds_close(struct fds_job *closing, uid_t uid, int sock);

/* Receives the next message of sock, with its descriptors. key: the caller's, for done. False: no memory. */
bool fds_receive(uint64_t key, uid_t uid, int sock);
/* Opens a mapping of the client at sock, whose /proc/PID is dir: with its groups. False: no memory. */
bool fds_open(uint64_t key, int sock, int dir, const struct fds_mapping *m);
/* sock and dir are going to be closed: a job of this key that has not begun does not begin. */
void fds_cancel(uint64_t key);

/* Jobs under way, and those that wait for a helper. */
struct fds_totals {
	uint64_t jobs, lost;
	uint32_t running, waiting;
};
extern struct fds_totals fds_totals;

/* ---- between rnicd and its helpers ---- */

enum fds_what { FDS_RECEIVE, FDS_OPEN, FDS_CLOSE };

/* With one descriptor, or two: socket, /proc/PID. */
struct fds_ask {
	uint64_t number; /* of the job */
	enum fds_what what;
	uint64_t closing; /* CLOSE: how many there were with this one */
	struct fds_mapping map;
};

/*
 * In memory that rnicd and its helpers share. The last descriptor of a socket must be a helper's, so a helper closes
 * its own only when rnicd has closed the other: when `closed`, which rnicd counts up, has come to the job's `closing`.
 */
struct fds_shared {
	uint64_t closed; /* atomic */
};

/* With the descriptors of EVENTFD and MEMORY, in order. */
struct fds_reply {
	uint64_t number;
	struct fds_result r;
};

/* Becomes the process that makes helpers and sees to it that some are idle. */
void fds_helper_main(int jobs, int answers, const struct fds_shared *shared) __attribute__((noreturn));
/* sendmsg() and recvmsg() of one message with up to IPC_MAX_FDS descriptors. 0 or a negative errno; as ipc_recv(). */
int fds_send(int sock, const void *p, size_t len, const int *fds, uint32_t n);
int fds_recv(int sock, void *p, size_t len, int fds[IPC_MAX_FDS], uint32_t *n);

#endif
