/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of librnic. One session (daemon connection, shared regions) per process; verbs objects point to the
 * session they were made in and die with it. Verbs are thread-safe: one spinlock per SQ, RQ and CQ, a mutex for each
 * event queue, one for the control socket, one for registered memory.
 *
 * Lock order: id_lock -> memory (arena.h) -> session -> event queue -> ids_lock. Spinlocks are leaves. No lock is held
 * while waiting for an event.
 */
#ifndef RNIC_PRIV_H
#define RNIC_PRIV_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>

#include "base/rn_base.h"
#include "base/rn_list.h"
#include "ipc/ipc.h"
#include "ipc/ipc_shm.h"
#include "wqe/qp_wqe.h"
#include "ring/spsc.h"

/* ---- spinlock: held for nanoseconds, but its holder may lose its CPU ---- */

struct rnic_spin { uint32_t taken; };

void rnic_spin_wait(struct rnic_spin *l);

static inline void rnic_spin_lock(struct rnic_spin *l)
{
	if (rn_unlikely(__atomic_exchange_n(&l->taken, 1, __ATOMIC_ACQUIRE) != 0))
		rnic_spin_wait(l);
}

static inline void rnic_spin_unlock(struct rnic_spin *l) { __atomic_store_n(&l->taken, 0, __ATOMIC_RELEASE); }

/* ---- session.c ---- */

struct rnic_evq;
struct rnic_mem;
struct rnic_cm_id;
struct rnic_cm_dev;
struct rnic_dev;

struct rnic_session {
	pthread_mutex_t lock;      /* the control socket: one request and its answer at a time; evqs */
	int sock;
	int wake_fd;               /* written when a worker asked to be woken (ipc_doorbell.need_wakeup) */
	uint32_t seq;
	uint32_t dead;             /* atomic: 1 once the daemon is gone or this is a fork child; never goes back */
	uint32_t ndevs, workers;
	bool yield;                /* fewer CPUs than a daemon and two pollers want */
	uint8_t *queues;           /* IPC_REGION_QUEUES */
	struct ipc_ctrl *ctrl;     /* at its start */
	int fd[IPC_REGIONS];       /* -1: absent */
	struct rnic_shm *shm;
	struct rnic_mem *mem;
	struct rn_list evqs;       /* struct rnic_evq, all: told of the daemon's death */
	pthread_mutex_t id_lock;   /* making and destroying CM ids: a handle means one id at a time */
	pthread_mutex_t ids_lock;  /* the table */
	struct rnic_cm_id **ids;   /* by handle */
	uint32_t nids;
	pthread_mutex_t dev_lock;  /* devs and cm_devs: made once */
	struct rnic_dev **devs;    /* [ndevs]; NULL before anybody asked */
	struct rnic_cm_dev *cm_devs; /* [ndevs]: contexts and PDs that CM ids stand on */
	struct rnic_session *older; /* sessions whose daemon is gone: their objects may still be in use */
};

/* The process's session, made at the first call. NULL and errno (ENODEV: no daemon; EACCES, EPROTO). */
struct rnic_session *rnic_session_get(void);

/*
 * Sends m (type, len and the type's member filled in) and waits for the answer, which replaces it. 0 or a positive
 * errno; EIO when the daemon is gone. want: length that a good answer must have. fd: passed along, or -1.
 */
int rnic_call(struct rnic_session *s, struct ipc_msg *m, uint16_t want, int fd);

/* As rnic_call() for the types whose argument is a handle and whose answer is empty. */
int rnic_call_handle(struct rnic_session *s, enum ipc_type type, uint32_t handle);

static inline bool rnic_dead(const struct rnic_session *s)
{
	return rn_unlikely(__atomic_load_n(&s->dead, __ATOMIC_RELAXED) != 0);
}

/* Prints one line on stderr: each once, and at most a few in a process. */
void rnic_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* For what this device does not have. */
#define RNIC_GROUPS "groups are IPv4 addresses: ::ffff:224.0.0.0 to ::ffff:239.255.255.255"
#define rnic_unsupported(fn, why) rnic_complain("rnic: %s: %s", (fn), (why))

/* ---- shmem.c: blocks of the queue region ---- */

struct rnic_shm *rnic_shm_create(uint8_t *base, uint64_t first, uint64_t size);
/* A zeroed block, aligned to its size rounded up to a power of two (at most a page). 0: no room. */
uint64_t rnic_shm_alloc(struct rnic_shm *m, uint64_t size);
void rnic_shm_free(struct rnic_shm *m, uint64_t off, uint64_t size);

/* ---- evq.c: a daemon-to-client event queue, an eventfd and a ring ---- */

struct rnic_evq {
	struct rnic_session *s;
	enum ipc_channel_kind kind;
	int fd;                    /* EFD_SEMAPHORE: one token per event */
	uint32_t handle;
	uint32_t slot_size;
	uint64_t ring_off, ring_size;
	pthread_mutex_t lock;      /* ring and kept */
	struct spsc_cons ring;
	struct rn_list kept;       /* struct rnic_ev: already taken out of the ring, older than those in it */
	struct rn_link link;       /* in the session's evqs */
};

struct rnic_ev {
	struct rn_link link;
	RN_ALIGNED(16) uint8_t slot[];
};

int rnic_evq_open(struct rnic_evq *q, struct rnic_session *s, enum ipc_channel_kind kind, uint32_t dev);
int rnic_evq_close(struct rnic_evq *q); /* 0 or a positive errno */
/*
 * Takes a token (blocks unless the descriptor is O_NONBLOCK) and then an event. 0, or -1 and errno. `seen` runs under the
 * queue's lock, so that an rnic_evq_drop() either removes the event or finds it seen. False: the event and its token stay
 * where they are for now, EAGAIN.
 */
int rnic_evq_get(struct rnic_evq *q, void *slot, bool (*seen)(const void *slot, void *arg), void *arg);
/* Removes the events that match, with their tokens; each is handed to `take` when given. */
void rnic_evq_drop(struct rnic_evq *q, bool (*match)(const void *slot, void *arg), void *arg,
		   void (*take)(const void *slot, void *to), void *to);
/* Adds an event of our own making, with its token. */
void rnic_evq_put(struct rnic_evq *q, const void *slot);
/* The daemon is gone: whoever waits, now or later, gets EIO once the events are used up. */
void rnic_evq_dead(struct rnic_evq *q);

/* Nanoseconds. */
static inline uint64_t rnic_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- devices and contexts ---- */

#define RNIC_DEV_PREFIX "uverbs-" /* of ibv_device.dev_name */

struct rnic_dev {
	struct ibv_device ibv;     /* first: applications read its fields */
	uint32_t index;
	struct ipc_dev_info info;
};

struct rnic_ctx {
	struct rnic_session *s;
	uint32_t index;
	struct ipc_dev_info info;
	struct rnic_evq async;
	struct rnic_dev *dev;
	struct verbs_context vctx; /* its last member is the ibv_context */
};

static inline struct rnic_ctx *rnic_ctx(struct ibv_context *c)
{
	return rn_container_of(c, struct rnic_ctx, vctx.context);
}

/* All devices of the session; *n. NULL and errno. The caller frees the array, not the devices, which stay. */
struct rnic_dev **rnic_devices(struct rnic_session *s, uint32_t *n);
/* token: an imported context's cmd_fd, which becomes its own; -1: a new one. */
struct ibv_context *rnic_open(struct rnic_session *s, struct rnic_dev *dev, int token);

int rnic_query_device(struct ibv_context *c, struct ibv_device_attr *a);
int rnic_query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in,
			 struct ibv_device_attr_ex *a, size_t size);
int rnic_query_rt_values(struct ibv_context *c, struct ibv_values_ex *v);
int rnic_query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *a, size_t size);

/* ---- objects ---- */

struct rnic_pd {
	struct ibv_pd ibv;         /* first */
	struct rnic_session *s;
	uint32_t number;           /* the daemon's handle of it: ibv.handle, but for an imported one */
	struct rnic_pd *parent;    /* a parent domain's PD; NULL: a PD of its own */
	uint32_t refs;             /* atomic: parent domains of this PD */
};

struct rnic_chan {
	struct ibv_comp_channel ibv; /* first */
	struct rnic_evq q;
};

struct rnic_cq {
	struct ibv_cq_ex ex;       /* first: an ibv_cq is its beginning */
	struct rnic_session *s;
	struct qp_cq_shm *shm;
	uint64_t shm_off;
	uint64_t rings_off, rings_size; /* in the queue region; ibv_resize_cq changes them */
	uint32_t comp_events;      /* handed out by ibv_get_cq_event; under the channel's lock */
	uint32_t async_events;     /* handed out by ibv_get_async_event; under the async queue's lock */
	uint32_t refs;             /* atomic: QPs */
	bool is_ex;                /* polled through ibv_start_poll */
	struct rnic_spin lock RN_ALIGNED(RN_CACHE_LINE); /* all below */
	uint32_t nrings;           /* one per worker */
	uint32_t turn;             /* ring to look at first */
	uint32_t empty;            /* polls in a row that found nothing */
	struct qp_cqe cur;         /* between ibv_start_poll and ibv_end_poll */
	struct spsc_cons ring[IPC_MAX_WORKERS];
};

struct rnic_sq {
	struct rnic_spin lock RN_ALIGNED(RN_CACHE_LINE);
	uint8_t sig_all;           /* QP_WF_SIGNALED or 0 */
	uint32_t max_sge, max_inline;
	uint32_t ud_mtu;           /* of a datagram queue pair: bytes of a message at most; 0: it is none */
	struct spsc_prod ring;
	/* Work requests take as many slots as they need, so they are counted: no more than max_wr may be outstanding. */
	uint32_t max_wr;
	uint32_t posted, retired;  /* since ever; `retired` is looked for when the queue seems full */
	uint32_t ends_mask;
	uint32_t *ends;            /* by number of the work request: the ring's index behind its last slot */
	/* an open ibv_wr_start() */
	uint32_t staged;           /* slots written and not yet published */
	uint32_t staged_wrs;
	int err;
	struct qp_wqe *cur;
	bool addressed;            /* ibv_wr_set_ud_addr has been called for it */
	uint8_t *wqe;              /* buffer of the work request under construction */
};

/* The receive queue of a QP, or a shared one. Every receive takes wqe_slots slots, so it holds a known number of them. */
struct rnic_rq {
	struct rnic_spin lock RN_ALIGNED(RN_CACHE_LINE);
	uint32_t sge_end;          /* as many SGEs are too many; 0: there is no such queue */
	uint32_t wqe_slots;
	bool asks;                 /* roce: the worker may want to be told of what is posted */
	struct spsc_prod ring;
};

struct rnic_srq {
	struct ibv_srq ibv;        /* first */
	struct rnic_session *s;
	uint64_t shm_off, shm_size;
	uint32_t max_wr, max_sge;
	uint32_t async_events;     /* under the async queue's lock */
	uint32_t refs;             /* atomic: QPs */
	struct rnic_rq rq;
};

struct rnic_qp {
	struct ibv_qp_ex ex;       /* first: an ibv_qp is its beginning */
	struct rnic_session *s;
	struct qp_shm *shm;
	uint64_t shm_off, shm_size;
	struct ipc_doorbell *doorbells; /* by worker */
	uint32_t db_word;
	uint64_t db_mask;
	struct rnic_sq sq;
	struct rnic_rq rq;
	struct ibv_qp_cap cap;
	struct ibv_qp_attr attr;   /* what was set and only needs to be told again */
	bool is_ex;                /* created with send ops */
	uint32_t async_events;     /* under the async queue's lock */
	struct rn_link link;       /* qp.c: all QPs of the process */
};

struct rnic_mr {
	struct ibv_mr ibv;         /* first */
	struct rnic_session *s;
	bool imported;             /* another process's: all below is not known */
	uint32_t number;           /* the daemon's handle of it; ibv.handle is the STag's index, for all who share the PD */
	unsigned int access;
	uint64_t iova;
	uint32_t npieces;
	struct ipc_piece *pieces;
	struct rn_link link;       /* in rnic_mem.mrs; in no list: a null region */
};

struct rnic_ah {
	struct ibv_ah ibv;         /* first */
	uint8_t addr[QP_UD_ADDR_LEN];
	uint8_t hop_limit;
};

/* IPv4's, and any other that is no single address. */
static inline bool rnic_gid_is_group4(const union ibv_gid *g)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(g->raw, mapped, sizeof(mapped)) == 0 && g->raw[12] >> 4 == 14;
}
static inline bool rnic_gid_is_group6(const union ibv_gid *g) { return g->raw[0] == 0xff; }

static inline struct rnic_ah *rnic_ah(struct ibv_ah *a) { return (struct rnic_ah *)a; }
static inline struct rnic_pd *rnic_pd(struct ibv_pd *p) { return (struct rnic_pd *)p; }
static inline struct rnic_cq *rnic_cq(struct ibv_cq *c) { return (struct rnic_cq *)c; }
static inline struct rnic_qp *rnic_qp(struct ibv_qp *q) { return (struct rnic_qp *)q; }
static inline struct rnic_srq *rnic_srq(struct ibv_srq *q) { return (struct rnic_srq *)q; }
static inline struct rnic_mr *rnic_mr(struct ibv_mr *m) { return (struct rnic_mr *)m; }

/* cq.c, poll.c, poll_ex.c */
struct ibv_cq_ex *rnic_create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *a);
int rnic_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int rnic_req_notify_cq(struct ibv_cq *cq, int solicited_only);
void rnic_poll_ex_init(struct ibv_cq_ex *ex, uint64_t wc_flags);
void rnic_cq_clean(struct rnic_cq *cq, uint32_t qpn);
/* Completions without error of a queue pair that the program has not polled; of one that it has destroyed 0. */
uint32_t rnic_cq_unread(struct rnic_cq *cq, uint32_t qpn);
uint32_t rnic_qp_unread(const struct ibv_qp *ibqp);
bool rnic_cq_next(struct rnic_cq *cq, struct qp_cqe *out); /* under the CQ's lock */
void rnic_cq_idle(struct rnic_cq *cq);                     /* after a poll that found nothing, without the lock */

/* qp.c, post.c, wr.c */
struct ibv_qp *rnic_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *a);
struct rnic_qp *rnic_qp_find(uint32_t qpn);
int rnic_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int rnic_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int rnic_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void rnic_doorbell(struct rnic_qp *qp);
void rnic_wr_init(struct ibv_qp_ex *ex, enum ibv_qp_type type);
#define RNIC_SEND_OPS (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ | \
		       IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_SEND_WITH_IMM | \
		       IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
		       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)
#define RNIC_SEND_OPS_UD (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)

/* Bytes of a send WQE between its fixed part and its SGEs or inline data. */
static inline uint32_t rnic_sq_head(const struct rnic_sq *sq) { return sq->ud_mtu != 0 ? QP_UD_ADDR_LEN : 0; }

/* The smallest power of two of slots that holds so many work requests of `each` slots. */
static inline uint32_t rnic_slots_for(uint32_t wrs, uint32_t each)
{
	uint32_t p = 1;

	while (p < (uint64_t)wrs * each)
		p *= 2;
	return p;
}

/* mr.c */
struct ibv_mr *rnic_alloc_null_mr(struct ibv_pd *pd);

/*
 * Whether a work request of so many slots may follow `wrs` work requests of `used` slots that are written and not yet
 * published; then it is noted. Under the SQ's lock.
 */
bool rnic_sq_retire(struct rnic_sq *sq, uint32_t wrs);
static inline bool rnic_sq_room(struct rnic_sq *sq, uint32_t wrs, uint32_t used, uint32_t slots)
{
	uint32_t next = sq->posted + wrs;

	if (rn_unlikely(next - sq->retired >= sq->max_wr) && !rnic_sq_retire(sq, wrs))
		return false;
	if (rn_unlikely(spsc_prod_free(&sq->ring, used + slots) < used + slots))
		return false;
	sq->ends[next & sq->ends_mask] = sq->ring.own + used + slots;
	return true;
}

/* srq.c */
struct ibv_srq *rnic_create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *a);
struct ibv_xrcd *rnic_open_xrcd(struct ibv_context *c, struct ibv_xrcd_init_attr *a); /* there are none: unsupported.c */

/* mw.c */
struct ibv_mw *rnic_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int rnic_dealloc_mw(struct ibv_mw *mw);
int rnic_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int rnic_bind_fill(struct qp_wqe *w, uint32_t rkey, const struct ibv_mw_bind_info *info); /* 0 or EINVAL */

/* SGEs that an operation may have, of max that others have. */
static inline uint32_t rnic_op_sges(uint8_t op, uint32_t max)
{
	if (rn_likely(op < QP_WR_READ || op == QP_WR_SEND_IMM || op == QP_WR_WRITE_IMM))
		return max;
	return op == QP_WR_LOCAL_INV || op == QP_WR_BIND_MW ? 0 : QP_MAX_SGE_RD; /* a Read's or an Atomic's one sink */
}

/* pd.c */
struct ibv_pd *rnic_alloc_parent_domain(struct ibv_context *c, struct ibv_parent_domain_init_attr *a);
struct ibv_td *rnic_alloc_td(struct ibv_context *c, struct ibv_td_init_attr *a);
int rnic_dealloc_td(struct ibv_td *td);

/* share.c: a context's cmd_fd. -1: there is none, and the context cannot be imported. */
int rnic_token_make(struct rnic_session *s, uint32_t async);

/* cm_event.c: the daemon is gone, tells every id of its device's removal */
void rnic_cm_dead(struct rnic_session *s);

#endif
