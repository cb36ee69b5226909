/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all rooms of librnic share: the session with its requests to the daemon, blocks of the queue region, event
 * queues, the functions of the libraries that librnic takes the place of. The rooms, each above the one before: mem
 * (registered memory), verbs (sessions, devices, objects), cm (connection manager), rsock (rsockets).
 *
 * A process has one session (the connection to the daemon, and the shared regions). A verbs object points to the
 * session that it was made in, and becomes useless when the session's daemon ends. Verbs are thread-safe: one spinlock
 * per SQ, RQ and CQ, a mutex for each event queue, one for the control socket, one for registered memory.
 *
 * Lock order: id_lock -> memory (mem/arena.h) -> session -> event queue -> ids_lock. Nothing is locked under the
 * session's sock_lock. Nothing is locked under a spinlock, except for --inject and --sanitize, which under a queue's
 * spinlock lock an event queue, the table of queue pairs, watch.c's lock or later.c's lock. No lock is held while
 * waiting for an event. No thread is cancelled while it holds a lock (cancel.h).
 */
#ifndef RNIC_COMMON_H
#define RNIC_COMMON_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>

#include "rnic/cancel.h"
#include "rnic/say.h"
#include "base/rn_base.h"
#include "base/rn_list.h"
#include "ipc/ipc.h"
#include "ipc/ipc_own.h"
#include "ipc/ipc_shm.h"
#include "ring/spsc.h"

/* ---- spinlock: held for nanoseconds, unless the thread that holds the lock loses its CPU ---- */

/*
 * 1, and one more in each child of fork(). A lock with another value was taken by a thread of the parent: the child does
 * not have this thread, so the lock is free.
 */
extern uint32_t rnic_forks __attribute__((visibility("hidden")));

struct rnic_spin {
	uint32_t taken; /* 0: free; else rnic_forks of the process whose thread has the lock */
};

/* The rest of rnic_spin_lock(). was: the value that rnic_spin_lock() has replaced. */
void rnic_spin_wait(struct rnic_spin *l, uint32_t was);

static inline void rnic_spin_lock(struct rnic_spin *l)
{
	const uint32_t was = __atomic_exchange_n(&l->taken, rnic_forks, __ATOMIC_ACQUIRE);

	if (rn_unlikely(was != 0))
		rnic_spin_wait(l, was);
}

static inline void rnic_spin_unlock(struct rnic_spin *l) { __atomic_store_n(&l->taken, 0, __ATOMIC_RELEASE); }

/* ---- the session: verbs/session.c makes and ends it, call.c sends its requests ---- */

struct rnic_evq;
struct rnic_mem;
struct rnic_cm_id;
struct rnic_cm_dev;
struct rnic_dev;

struct rnic_session {
	pthread_mutex_t lock; /* guards evqs; one request at a time, except for those of rnic_call_long() */
	int sock;
	int wake_fd; /* written when a worker asked to be woken (ipc_doorbell.need_wakeup) */
	/* call.c: requests and answers in the control socket */
	pthread_mutex_t sock_lock; /* guards the rest; not held while a thread waits for an answer */
	uint32_t seq;
	struct rn_list asked; /* struct asked: the threads that wait for an answer */
	bool reading;         /* one of them reads the socket, and gives each answer to the thread that has asked */
	bool broken;          /* nothing more comes from the socket */
	uint32_t dead;        /* atomic: 1 once the daemon is gone or this is a fork child; never goes back */
	bool forked;          /* inherited by fork(): the descriptors of its event queues are the parent's, too */
	uint32_t ndevs, workers;
	uint32_t can; /* IPC_CAN_*: the requests of newer daemons that this daemon has, too */
	bool yield;   /* yield the CPU while polling: there are fewer CPUs than a daemon and two pollers want */
	enum ipc_design design; /* of the session's queue pairs, unless a queue pair asks for another design */
	struct ipc_own own;     /* own.turn is NULL unless the daemon's part runs in this process */
	uint8_t *queues;        /* IPC_REGION_QUEUES */
	struct ipc_ctrl *ctrl;  /* at the start of queues */
	int fd[IPC_REGIONS];    /* -1: absent */
	struct rnic_shm *shm;
	struct rnic_mem *mem;
	struct rn_list evqs; /* struct rnic_evq: all event queues, which are told of the daemon's death */
	/* verbs */
	pthread_mutex_t dev_lock;   /* guards devs, which is made once */
	struct rnic_dev **devs;     /* [ndevs]; NULL until the first ibv_get_device_list() or the like */
	struct rnic_session *older; /* the session before, whose daemon is gone: its objects may still be in use */
	/* cm */
	pthread_mutex_t id_lock;  /* held while a CM id is made, destroyed or moved: a handle means one id at a time */
	pthread_mutex_t ids_lock; /* guards ids and nids */
	struct rnic_cm_id **ids;  /* by handle */
	uint32_t nids;
	pthread_mutex_t open_lock;   /* guards cm_devs, which are opened once */
	struct rnic_cm_dev *cm_devs; /* [ndevs]: contexts, and PDs for CM ids without a PD */
};

/*
 * Sends m (type, len and the type's member filled in) and waits for the answer, which replaces it. 0 or a positive
 * errno; EIO when the daemon is gone. want: the length that the answer of a successful request must have. fd: a
 * descriptor to pass along, or -1.
 */
int rnic_call(struct rnic_session *s, struct ipc_msg *m, uint16_t want, int fd);

/* As rnic_call() without descriptor, for a request whose answer may take seconds: those of other threads go on. */
int rnic_call_long(struct rnic_session *s, struct ipc_msg *m, uint16_t want);

/* As rnic_call() for the types whose argument is a handle and whose answer is empty. */
int rnic_call_handle(struct rnic_session *s, enum ipc_type type, uint32_t handle);

/* Runs a turn of the worker in this process (ipc_own.turn, which is not NULL). */
static inline bool rnic_own_turn(const struct rnic_session *s)
{
	const int cancel = rnic_cancel_off();
	const bool all_seen = s->own.turn();

	rnic_cancel_back(cancel);
	return all_seen;
}

/* Starts a thread of the library's own, which blocks all signals. 0 or an errno. */
int rnic_thread(void *(*run)(void *), void *arg);
/* Starts the thread that sees the daemon's death; the last step of making a session. 0 or an errno. */
int rnic_watch_start(struct rnic_session *s);
/* Looks for the daemon's death now: the thread of rnic_watch_start() may not have noticed it yet. */
void rnic_watch_look(struct rnic_session *s);

static inline bool rnic_dead(const struct rnic_session *s)
{
	return rn_unlikely(__atomic_load_n(&s->dead, __ATOMIC_RELAXED) != 0);
}

/* Prints that function fn refuses the call, and why: this device does not have what was asked for. */
#define RNIC_GROUPS \
	"a group is an IPv4 address, ::ffff:224.0.0.0 to ::ffff:239.255.255.255, or an IPv6 address that begins with ff"
#define rnic_unsupported(fn, why) rnic_complain("rnic: %s: %s", (fn), (why))

/* ---- shmem.c: blocks of the queue region ---- */

struct rnic_shm *rnic_shm_create(uint8_t *base, uint64_t first, uint64_t size);
/*
 * Allocates a zeroed block, aligned to its size rounded up to a power of two (at most a page). Returns its offset; 0:
 * no room.
 */
uint64_t rnic_shm_alloc(struct rnic_shm *m, uint64_t size);
void rnic_shm_free(struct rnic_shm *m, uint64_t off, uint64_t size);

/* ---- evq.c: an event queue from daemon to client: an eventfd and a ring ---- */

struct rnic_evq {
	struct rnic_session *s;
	enum ipc_channel_kind kind;
	int fd; /* EFD_SEMAPHORE: one token per event */
	uint32_t handle;
	uint32_t slot_size;
	uint64_t ring_off, ring_size;
	pthread_mutex_t lock; /* guards ring and kept */
	struct spsc_cons ring;
	struct rn_list kept; /* struct rnic_ev: entries already taken out of the ring, older than those in the ring */
	struct rn_link link; /* in session.evqs */
};

struct rnic_ev {
	struct rn_link link;
	RN_ALIGNED(16) uint8_t slot[];
};

int rnic_evq_open(struct rnic_evq *q, struct rnic_session *s, enum ipc_channel_kind kind, uint32_t dev);
int rnic_evq_close(struct rnic_evq *q); /* 0 or a positive errno */
/*
 * Takes a token (blocks unless the descriptor is O_NONBLOCK) and then an event. 0, or -1 and errno. `seen` runs under
 * the queue's lock, so that an rnic_evq_drop() either removes the event or finds it seen.
 */
int rnic_evq_get(struct rnic_evq *q, void *slot, void (*seen)(const void *slot, void *arg), void *arg);
/*
 * Removes the events that match, with their tokens. `take`, if not NULL, is called with each; once `take` returns
 * false, that event and those behind it stay, and the call returns false.
 */
bool rnic_evq_drop(struct rnic_evq *q, bool (*match)(const void *slot, void *arg), void *arg,
		   bool (*take)(const void *slot, void *to), void *to);
/* Adds an event that the library itself has made, with its token. False: no memory. */
bool rnic_evq_put(struct rnic_evq *q, const void *slot);
/* The daemon is gone: a wait, now or later, ends with EIO once the events are used up. */
void rnic_evq_dead(struct rnic_evq *q);

/* The time of a clock, ns. */
static inline uint64_t rnic_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- stock.c: the libraries that this one is loaded ahead of ---- */

/* The function `name` of the next library in the search order; NULL: there is none. */
typedef void (*rnic_fn)(void);
rnic_fn rnic_stock(const char *name);

#define RNIC_DEV_PREFIX "uverbs-" /* prefix of ibv_device.dev_name */

#endif
