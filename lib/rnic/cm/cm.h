/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection manager's inside. The daemon does the work; an id here mirrors what its events tell.
 *
 * An id made without a channel is synchronous: it has a channel of its own, and each call waits for the event that
 * answers it and keeps that in id->event until the next call.
 */
#ifndef RNIC_CM_H
#define RNIC_CM_H

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "rnic/later.h"
#include "rnic/verbs/verbs.h"

/* ---- private to lib/rnic/cm ---- */

struct rnic_cm_channel {
	struct rdma_event_channel ch; /* first */
	struct rnic_evq q;
	pthread_mutex_t removal_lock; /* removal_told; taken before the event queue's */
	bool removal_told;            /* DEVICE_REMOVAL has been put into the queue for each of its ids */
};

/*
 * Private data of a channel adapter's connections: what InfiniBand's messages have room for beside rdma_cm's own
 * header. They have no length: the receiver gets all of it, with zeros behind.
 */
#define CM_PRIV_CONNECT 56u
#define CM_PRIV_ACCEPT  196u
#define CM_PRIV_REJECT  148u

#define RETRIES_MOST 7 /* retry_count has three bits */
#define RNR_FOR_GOOD 7 /* rnr_retry_count: messages wait for receives without end */

struct rnic_cm_id {
	struct rdma_cm_id id; /* first: programs and inline functions read it */
	struct rnic_session *s;
	uint32_t handle;
	bool sync;
	bool bound; /* has a local address */
	bool listening;
	bool active; /* rdma_connect() has been called */
	bool own_send_cq, own_recv_cq;
	uint8_t peer_ird, peer_ord; /* of the connection request, for an rdma_accept() without parameters */
	/* rdma_set_option(); those of a listener are its requests' too */
	struct {
		uint8_t tos, ack_timeout; /* ack_timeout 0: none is set */
		bool own_family;
	} opt;
	uint8_t rnr_retry, retry_cnt; /* as rdma_connect() had them, for rdma_establish() */
	uint32_t own_qpn;             /* of a channel adapter: the program brings up this QP itself; 0: none */
	bool quiet;                   /* ESTABLISHED follows the program's own rdma_establish() and is not told */
	bool has_ep;                  /* rdma_create_ep: attributes for the QPs of requests */
	struct ibv_qp_init_attr ep_attr;
	uint8_t *connect_data; /* rdma_addrinfo's ai_connect, sent along by rdma_connect(); malloc'ed */
	size_t connect_len;
	struct rn_list joins; /* struct rnic_cm_join */
	uint32_t last_join;
	pthread_mutex_t join_lock; /* the joins, and what the queue pair is attached to because of them */
	pthread_mutex_t lock;      /* the two counts */
	pthread_cond_t cond;
	uint32_t events_seen; /* taken from the queue; under the table's lock */
	uint32_t events_done; /* acknowledged */
};

/* A group that an id is in, or will be when the event is here. */
struct rnic_cm_join {
	struct rn_link link;
	uint32_t number; /* of the id's joins */
	bool send_only;
	union ibv_gid group;
	void *context; /* the program's, returned in the event */
};

struct rnic_cm_event {
	struct rdma_cm_event ev;  /* first */
	struct rnic_cm_id *about; /* whose acknowledgement is counted: the listener for a request */
	uint8_t priv[IPC_PRIV_MAX];
};

static inline struct rnic_cm_id *cm_id(struct rdma_cm_id *id) { return (struct rnic_cm_id *)id; }
static inline struct rnic_cm_channel *cm_channel(struct rdma_event_channel *c) { return (struct rnic_cm_channel *)c; }

/* Whether it belongs to a device of the roce personality. */
static inline bool cm_adapter(const struct rnic_cm_id *id)
{
	return id->id.verbs != NULL && rnic_ctx(id->id.verbs)->info.roce;
}

/*
 * -1 with errno when rc is an errno, else 0. EIO is what the daemon's end is to verbs; to those who look after
 * connections there is no device any more.
 */
static inline int cm_ret(int rc)
{
	if (rc == 0)
		return 0;
	errno = rc == EIO ? ENODEV : rc;
	return -1;
}

/* After a request that an event answers: for a synchronous id, waits for it. -1 and errno when it tells a failure. */
int cm_complete(struct rnic_cm_id *id);

/* rnicrun --inject has this call fail, or an event tell a failure; *ret is then what the call returns. */
bool cm_injected(struct rnic_cm_id *id, enum inject_at at, int *ret);

/* Gives the id its device: context, port, default PD. 0 or an errno. */
int cm_device(struct rnic_cm_id *id, uint32_t dev);

/* An id for a handle that the daemon has made. NULL: no memory. */
struct rnic_cm_id *cm_id_adopt(struct rnic_session *s, uint32_t handle, struct rdma_event_channel *ch, bool sync);
struct rnic_cm_id *cm_id_find(struct rnic_session *s, uint32_t handle);

/* The event of a join: attaches the queue pair. 0 or an errno. *context is the program's. */
int cm_joined(struct rnic_cm_id *id, const struct ipc_cm_event *ev, void **context);
void cm_joins_free(struct rnic_cm_id *id);

int cm_addr_from(struct ipc_addr *a, const struct sockaddr *sa); /* 0 or EAFNOSUPPORT */
void cm_addr_to(struct sockaddr_storage *ss, const struct ipc_addr *a);

#endif
