/* SPDX-License-Identifier: BSD-3-Clause */
/* The objects behind verbs' structures, and functions that files of this room share. */
#ifndef RNIC_OBJECTS_H
#define RNIC_OBJECTS_H

#include <infiniband/efadv.h>

#include "base/rn_rng.h"
#include "rnic/later.h"
#include "rnic/mem/mem.h"
#include "rnic/verbs/verbs.h"
#include "wqe/qp_hold.h"
#include "wqe/qp_wqe.h"

#define RNIC_GIDS 2u /* entries of a port's GID table */

/* ---- private to lib/rnic/verbs ---- */

struct rnic_pd {
	struct ibv_pd ibv; /* first */
	struct rnic_session *s;
	uint32_t number;        /* the daemon's handle of the PD: equal to ibv.handle, except for an imported PD */
	struct rnic_pd *parent; /* a parent domain's PD; NULL: a PD of its own */
	uint32_t refs; /* atomic: parent domains of this PD; of a parent domain: objects that were made in it */
};

struct rnic_chan {
	struct ibv_comp_channel ibv; /* first */
	struct rnic_evq q;
};

struct rnic_cq {
	struct ibv_cq_ex ex; /* first: an ibv_cq is the beginning of an ibv_cq_ex */
	struct rnic_session *s;
	struct qp_cq_shm *shm;
	uint64_t shm_off;
	uint64_t rings_off, rings_size; /* in the queue region; ibv_resize_cq changes them */
	uint32_t comp_events;           /* handed out by ibv_get_cq_event; under the channel's lock */
	uint32_t async_events;          /* handed out by ibv_get_async_event; under the async queue's lock */
	uint32_t refs;                  /* atomic: QPs */
	bool is_ex;                     /* polled through ibv_start_poll */
	uint32_t asked;                 /* number of completions that the program asked room for */
	bool wide;                      /* entries are struct qp_cqe_wide */
	struct efadv_cq efa;
	uint32_t due; /* of a watched program: completions yet to come; watch.c's lock guards this and overrun_told */
	bool overrun_told;
	struct rnic_spin lock RN_ALIGNED(RN_CACHE_LINE); /* guards all below */
	uint32_t nrings;                                 /* one per worker */
	uint32_t turn;                                   /* ring to look at first */
	bool watched;                                    /* rnicrun --sanitize */
	uint32_t late;                                   /* number of next polls that will find nothing (late.c) */
	struct rn_rng draw;                              /* random numbers for `late` */
	uint32_t empty;                                  /* polls in a row that found nothing */
	uint64_t held_until;          /* ns, for rnicrun --inject: polls find nothing before; 0: nothing is held back */
	uint32_t held_ring;           /* the ring whose first completion is held back */
	struct qp_cqe cur;            /* between ibv_start_poll and ibv_end_poll */
	uint8_t from[QP_UD_ADDR_LEN]; /* the sender of `cur`, of a wide queue */
	struct spsc_cons ring[IPC_MAX_WORKERS];
};

struct rnic_sq {
	struct rnic_spin lock RN_ALIGNED(RN_CACHE_LINE);
	uint8_t sig_all; /* QP_WF_SIGNALED or 0 */
	uint32_t max_sge, max_inline;
	uint32_t ud_mtu;          /* of unreliable datagrams: maximum bytes of a message; of other queue pairs: 0 */
	bool many;                /* of reliable datagrams: the last slot of a work request names its destination */
	bool xrc;                 /* each work request names a shared receive queue of the peer */
	struct rnic_watch *watch; /* rnicrun --sanitize; else NULL */
	struct spsc_prod ring;
	/*
	 * Work requests take as many slots as they need, so they are counted: no more than max_wr may be outstanding.
	 */
	uint32_t max_wr;
	uint32_t posted, retired; /* running counts; `retired` is updated when the queue seems full */
	uint32_t polled;          /* of a watched queue: work requests that the program knows to be done; atomic */
	uint32_t ends_mask;
	uint32_t *ends; /* for each work request by number: the ring's index behind its last slot */
	/* `many`: the slots of the largest work request so far, among those before number `sized`, which end at sized_end */
	uint32_t most, sized, sized_end;
	/* while ibv_wr_start() is open */
	uint32_t staged; /* slots written and not yet published */
	uint32_t staged_wrs;
	int err;
	uint8_t *aside; /* QP_WQE_MAX_SLOTS slots */
	/*
	 * The current work request. What must be known of it later is kept here: to read it in the ring again would
	 * wait until the ring's cache lines have come from the worker's core.
	 */
	struct {
		struct qp_wqe *w; /* in the ring, or in `aside`; NULL: there is none */
		uint8_t op, flags, num_sge;
		uint16_t inline_len;
		uint64_t sge_len;  /* bytes of all SGEs */
		struct ibv_ah *ah; /* the program's, of ibv_wr_set_ud_addr; NULL: that was not called */
		uint64_t to; /* of ibv_wr_set_ud_addr: QPN, and Q_Key << 32. One word, as gcc reads both in one load */
	} cur;
};

/*
 * The receive queue of a QP, or a shared one. Each receive takes wqe_slots slots, so the number of receives is fixed.
 */
struct rnic_rq {
	struct rnic_spin lock RN_ALIGNED(RN_CACHE_LINE);
	uint32_t sge_end; /* a receive must have fewer SGEs than this; 0: there is no such queue */
	uint32_t wqe_slots;
	bool asks;                /* messages may wait for receives, so the worker may ask to be told of posts */
	uint32_t holds;           /* atomic; rnicrun --inject: while this is above 0, posted receives are held back */
	uint32_t held;            /* slots of receives that are held back: written, not published */
	struct rnic_watch *watch; /* rnicrun --sanitize; else NULL */
	struct spsc_prod ring;
};

struct rnic_srq {
	struct ibv_srq ibv; /* first */
	struct rnic_session *s;
	uint64_t shm_off, shm_size;
	uint32_t max_wr, max_sge;
	uint32_t async_events;  /* under the async queue's lock */
	uint32_t refs;          /* atomic: QPs */
	uint32_t number;        /* XRC: the number by which peers name the queue; 0: a basic queue */
	struct rnic_xrcd *xrcd; /* XRC */
	struct ibv_cq *cq;      /* XRC */
	struct rnic_rq rq;
};

struct rnic_xrcd {
	struct ibv_xrcd ibv; /* first */
	struct rnic_session *s;
	uint32_t number; /* the daemon's handle of the domain */
	uint32_t refs;   /* atomic: SRQs and QPs */
};

struct rnic_qp {
	struct ibv_qp_ex ex; /* first: an ibv_qp is the beginning of an ibv_qp_ex */
	struct rnic_session *s;
	struct qp_shm *shm;
	uint64_t shm_off, shm_size;
	struct ipc_doorbell *doorbells; /* by worker */
	uint32_t db_word;
	uint64_t db_mask;
	struct rnic_sq sq;
	struct rnic_rq rq;
	struct ibv_qp_cap cap;
	struct ibv_qp_attr attr;      /* attributes that ibv_query_qp only returns as they were set */
	bool is_ex;                   /* created with send ops */
	enum inject_side side;        /* active or passive in its connection; INJECT_BOTH until that is known */
	struct rnic_xrcd *xrcd;       /* of an XRC target; else NULL */
	uint64_t maps_off, maps_size; /* of the ring of `maps`; 0: there is none */
	struct spsc_cons maps;        /* struct qp_record_map, of records that ended incomplete; under rq.lock */
	uint64_t hold_off;            /* of `hold`; 0: the peer's Writes are not held back */
	struct qp_hold_shm *hold;
	uint32_t hold_seen;    /* target.c: records below this number have been veiled */
	uint32_t hold_allowed; /* under watch.c's lock: a polled completion allows use of records below this number */
	uint32_t async_events; /* under the async queue's lock */
	struct rn_link link;   /* qps.c: all QPs of the process */
};

struct rnic_mr {
	struct ibv_mr ibv; /* first */
	struct rnic_session *s;
	bool imported;   /* another process's region: the members below are unknown */
	uint32_t number; /* the daemon's handle; ibv.handle is the STag's index, for all processes that share the PD */
	unsigned int access;
	uint64_t iova;
	struct rnic_backing back; /* zeroed: a null region */
	struct rn_link watch;     /* watch.c: all regions of a watched program */
};

struct rnic_ah {
	struct ibv_ah ibv; /* first */
	uint8_t addr[QP_UD_ADDR_LEN];
	uint8_t hop_limit;
	uint16_t number; /* ahn.c: its number in the context */
};

static inline struct rnic_ah *rnic_ah(struct ibv_ah *a) { return (struct rnic_ah *)a; }

static inline void rnic_dest_fill(struct qp_wqe_dest *d, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	*d = (struct qp_wqe_dest){ .qpn = qpn, .qkey = qkey };
	memcpy(d->addr, rnic_ah(ah)->addr, sizeof(d->addr));
}

static inline struct rnic_pd *rnic_pd(struct ibv_pd *p) { return (struct rnic_pd *)p; }
/* An object is made in the PD. The daemon counts the objects of a PD; those of a parent domain are counted here. */
static inline void rnic_pd_use(struct ibv_pd *p)
{
	if (p != NULL && rnic_pd(p)->parent != NULL)
		__atomic_fetch_add(&rnic_pd(p)->refs, 1, __ATOMIC_RELAXED);
}

/* The object is gone. */
static inline void rnic_pd_leave(struct ibv_pd *p)
{
	if (p != NULL && rnic_pd(p)->parent != NULL)
		__atomic_fetch_sub(&rnic_pd(p)->refs, 1, __ATOMIC_RELEASE);
}

static inline struct rnic_cq *rnic_cq(struct ibv_cq *c) { return (struct rnic_cq *)c; }
static inline struct rnic_qp *rnic_qp(struct ibv_qp *q) { return (struct rnic_qp *)q; }
static inline struct rnic_srq *rnic_srq(struct ibv_srq *q) { return (struct rnic_srq *)q; }
static inline struct rnic_xrcd *rnic_xrcd(struct ibv_xrcd *x) { return (struct rnic_xrcd *)x; }
static inline struct rnic_mr *rnic_mr(struct ibv_mr *m) { return (struct rnic_mr *)m; }

/* query.c */
int rnic_query_device(struct ibv_context *c, struct ibv_device_attr *a);
int rnic_query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in,
			 struct ibv_device_attr_ex *a, size_t size);
int rnic_query_rt_values(struct ibv_context *c, struct ibv_values_ex *v);
int rnic_query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *a, size_t size);

/* cq.c, poll.c, poll_ex.c */
struct ibv_cq_ex *rnic_create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *a);
int rnic_req_notify_cq(struct ibv_cq *cq, int solicited_only);
void rnic_poll_ex_init(struct ibv_cq_ex *ex, uint64_t wc_flags);
void rnic_cq_clean(struct rnic_cq *cq, uint32_t qpn);
/*
 * A completion has failed: RNIC_VERBOSE prints it. Flushed ones are not printed, since they follow from another
 * failure.
 */
RN_COLD void rnic_cqe_failed(const struct qp_cqe *e);
bool rnic_cq_late(struct rnic_cq *cq); /* under the CQ's lock: --sanitize or --inject lets this poll find nothing */
bool rnic_cq_next(struct rnic_cq *cq, struct qp_cqe *out); /* under the CQ's lock */
void rnic_cq_idle(struct rnic_cq *cq);                     /* after a poll that found nothing, without the lock */

/* qps.c, qp.c, post.c, wr.c */
/* Add a queue pair to the process's list, and remove it. */
void rnic_qp_list(struct rnic_qp *qp);
void rnic_qp_unlist(struct rnic_qp *qp);
/* Before fork() the forking thread takes the list's lock; after fork() parent and child have a list that is free. */
void rnic_qps_fork_prepare(void);
void rnic_qps_fork_parent(void);
void rnic_qps_fork_child(void);
void rnic_qp_each(void (*fn)(struct rnic_qp *qp, void *arg), void *arg); /* under the list's lock */
/* Attributes of a queue pair that standard verbs have no field for. All zero: a standard queue pair. */
struct rnic_qp_kind {
	enum ipc_ud datagram;
	uint32_t rd_flags; /* IPC_RD_* */
	enum ipc_design design;
	uint16_t udp_port; /* the queue pair's own UDP port; 0: none */
	uint32_t maps;     /* maximum number of maps that wait to be read; 0: each valid range has a completion */
};
/* As ibv_create_qp_ex(), with the attributes in *k. */
struct ibv_qp *rnic_create_qp_as(struct ibv_context *c, struct ibv_qp_init_attr_ex *a, const struct rnic_qp_kind *k);
/* The next map of the queue pair. False: no map waits. */
bool rnic_qp_map(struct rnic_qp *qp, struct qp_record_map *map);
int rnic_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int rnic_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int rnic_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void rnic_doorbell(struct rnic_qp *qp);
/* Subtracts one from the queue's `holds`. At 0 the receives that were held back are published to the device. */
void rnic_recv_release(struct rnic_qp *qp);
void rnic_srq_release(struct rnic_srq *srq);
int rnic_bind_fill(struct qp_wqe *w, uint32_t rkey, const struct ibv_mw_bind_info *info); /* 0 or EINVAL */
void rnic_wr_init(struct ibv_qp_ex *ex);
#define RNIC_SEND_OPS \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND_WITH_INV | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
	 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)
#define RNIC_SEND_OPS_XRC \
	(RNIC_SEND_OPS & ~(uint64_t)(IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV))
#define RNIC_SEND_OPS_UD (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)

#define RNIC_SEND_OPS_UD_LONG \
	(RNIC_SEND_OPS_UD | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ)

#define RNIC_SEND_OPS_RD \
	(RNIC_SEND_OPS_UD_LONG | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

/* Bytes of a send WQE between the fixed part and the SGEs or inline data. */
static inline uint32_t rnic_sq_head(const struct rnic_sq *sq, uint8_t op)
{
	if (rn_likely(sq->ud_mtu == 0))
		return 0;
	return op == QP_WR_WRITE || op == QP_WR_WRITE_IMM || op == QP_WR_READ ? QP_UD_WRITE_LEN : QP_UD_ADDR_LEN;
}

/* Whether each work request names its destination: the queue pair is for datagrams, unreliable or reliable. */
static inline bool rnic_sq_addresses(const struct rnic_sq *sq) { return (sq->ud_mtu | sq->many) != 0; }

/* The smallest power of two of slots that holds `wrs` work requests of `each` slots. */
static inline uint32_t rnic_slots_for(uint32_t wrs, uint32_t each)
{
	uint32_t p = 1;

	while (p < (uint64_t)wrs * each)
		p *= 2;
	return p;
}

/* ahn.c; an address has QP_UD_ADDR_LEN bytes */
#define RNIC_AHN_MAX  65535u
#define RNIC_AHN_NONE UINT16_MAX
struct rnic_ahns *rnic_ahns_new(void);
void rnic_ahns_free(struct rnic_ahns *a);
uint16_t rnic_ahn_take(struct rnic_ahns *a, const uint8_t *addr); /* RNIC_AHN_NONE: no number is free, or no memory */
void rnic_ahn_give(struct rnic_ahns *a, uint16_t n);
uint16_t rnic_ahn_find(struct rnic_ahns *a, const uint8_t *addr); /* RNIC_AHN_NONE: no handle for the address */

/* Limits of a device with `personality = efa`, as it reports them: efa.c, query.c. Its queues accept more. */
#define RNIC_EFA_MSG    8192u      /* bytes of a message, the size of libfabric's buffers */
#define RNIC_EFA_WR     4096u      /* work requests of a queue */
#define RNIC_EFA_SQ_SGE 2u         /* libfabric's arrays have room for no more */
#define RNIC_EFA_RDMA   (1u << 30) /* bytes of a Read or Write */

/* Elastic Fabric Adapters report a Read as a Send: libfabric's send queue knows no other completion. */
static inline enum ibv_wc_opcode rnic_cq_opcode(const struct rnic_cq *of, const struct qp_cqe *e)
{
	return rn_unlikely(of->wide) && e->op == QP_WC_RDMA_READ ? IBV_WC_SEND : (enum ibv_wc_opcode)e->op;
}

/* The sender's LID in a completion: the number of an address handle, on devices that have such numbers. */
uint16_t rnic_cq_slid(const struct rnic_cq *cq, const struct qp_cqe *e, const uint8_t *from);

/* mr.c */
struct ibv_mr *rnic_alloc_null_mr(struct ibv_pd *pd);

/* Updates sq->retired. Returns whether one more than `wrs` unpublished work requests may be outstanding. */
bool rnic_sq_retire(struct rnic_sq *sq, uint32_t wrs);
/*
 * Whether a work request of `slots` slots fits behind `wrs` unpublished ones that take `used` slots. If so, notes in
 * sq->ends where the work request ends. Under the SQ's lock.
 */
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

/* xrc.c */
struct ibv_xrcd *rnic_open_xrcd(struct ibv_context *c, struct ibv_xrcd_init_attr *a);
int rnic_close_xrcd(struct ibv_xrcd *xrcd);
int rnic_get_srq_num(struct ibv_srq *srq, uint32_t *num);
struct ibv_qp *rnic_open_qp(struct ibv_context *c, struct ibv_qp_open_attr *a);
/* Makes an XRC target queue pair (IBV_QPT_XRC_RECV) of the domain in *a. */
struct ibv_qp *rnic_target_create(struct ibv_context *c, struct ibv_qp_init_attr_ex *a);

/* mw.c */
struct ibv_mw *rnic_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int rnic_dealloc_mw(struct ibv_mw *mw);
int rnic_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

/* Maximum number of SGEs of an operation in a send queue whose max_sge is `max`. */
static inline uint32_t rnic_op_sges(uint8_t op, uint32_t max)
{
	if (rn_likely(op <= QP_WR_READ || op == QP_WR_SEND_IMM || op == QP_WR_WRITE_IMM))
		return max;
	return op == QP_WR_LOCAL_INV || op == QP_WR_BIND_MW ? 0 : 1; /* an Atomic has one, for its result */
}

/* pd.c */
struct ibv_pd *rnic_alloc_parent_domain(struct ibv_context *c, struct ibv_parent_domain_init_attr *a);
struct ibv_td *rnic_alloc_td(struct ibv_context *c, struct ibv_td_init_attr *a);
int rnic_dealloc_td(struct ibv_td *td);

/* own.c: starts the daemon's part in this process. 0 or an errno, after a line on stderr. */
int rnic_own_start(struct ipc_own *own, enum ipc_own_design design);

/* share.c: makes a context's cmd_fd. -1: none, and other processes cannot import the context. */
int rnic_token_make(struct rnic_session *s, uint32_t async);

#endif
