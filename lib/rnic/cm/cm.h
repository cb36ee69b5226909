/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Private parts of the connection manager. The daemon runs the protocol; an id here changes with the daemon's events.
 *
 * An id made without a channel is synchronous: it has a channel of its own, and each call waits for the event that
 * answers it and keeps that event in id->event until the next call.
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
	pthread_mutex_t removal_lock; /* guards removal_told; taken before the event queue's lock */
	bool removal_told;            /* DEVICE_REMOVAL has been put into the queue for each id of the channel */
	uint32_t unmade; /* ids of the channel that the daemon does not know yet; under the session's id_lock */
};

/*
 * Maximum sizes of private data in a channel adapter's connections: the room in InfiniBand's messages beside rdma_cm's
 * own header. These messages carry no length: the receiver gets all of the room, filled up with zeros.
 */
#define CM_PRIV_CONNECT 56u
#define CM_PRIV_ACCEPT  196u
#define CM_PRIV_REJECT  148u

#define RETRIES_MOST 7 /* retry_count has three bits */
#define RNR_FOR_GOOD 7 /* rnr_retry_count: messages wait for receives without end */

struct rnic_cm_id {
	struct rdma_cm_id id; /* first: programs and inline functions read it */
	struct rnic_session *s;
	uint32_t handle;      /* 0: the daemon does not know the id yet (cm_made) */
	uint64_t route_until; /* ns, CLOCK_MONOTONIC: until then rdma_resolve_route() asks no daemon; 0: it does */
	bool sync;
	bool bound; /* the id has a local address */
	bool listening;
	bool active; /* rdma_connect() has been called */
	bool over;   /* the program has been told the connection's end, or that there is none: no other event says so */
	bool own_send_cq, own_recv_cq;
	uint8_t peer_ird, peer_ord; /* the requester's depths, for an rdma_accept() without parameters */
	/* from rdma_set_option(); a listener's options also count for its requests */
	struct {
		uint8_t tos, ack_timeout; /* ack_timeout 0: not set */
		bool own_family;
	} opt;
	uint8_t rnr_retry, retry_cnt; /* the values given to rdma_connect(), for rdma_establish() */
	uint32_t own_qpn;             /* of a channel adapter: number of the QP that the program brings up; 0: none */
	uint32_t made_qpn; /* of the QP that rdma_create_qp() made last, which may be destroyed by now; 0: none */
	bool quiet;        /* an older daemon: the next ESTABLISHED answers rdma_establish(), and is not reported */
	bool has_ep;       /* rdma_create_ep: attributes for the QPs of requests */
	struct ibv_qp_init_attr ep_attr;
	uint8_t *connect_data; /* rdma_addrinfo's ai_connect, sent along by rdma_connect(); malloc'ed */
	size_t connect_len;
	struct rn_list joins; /* struct rnic_cm_join */
	uint32_t last_join;
	pthread_mutex_t join_lock; /* guards the joins, and the groups that the queue pair is attached to by them */
	pthread_mutex_t lock;      /* guards the two counts */
	pthread_cond_t cond;
	struct rdma_event_channel *from; /* the channel that the id is leaving; NULL: none; under the table's lock */
	uint32_t events_seen;            /* taken from the queue; under the table's lock */
	uint32_t events_done;            /* acknowledged by the program */
};

/* A group that an id has joined, or will have joined when the event comes. */
struct rnic_cm_join {
	struct rn_link link;
	uint32_t number; /* unique among the id's joins */
	bool send_only;
	union ibv_gid group;
	void *context; /* the program's, returned in the event */
};

struct rnic_cm_event {
	struct rdma_cm_event ev;  /* first */
	struct rnic_cm_id *about; /* the id whose acknowledgements are counted: the listener for a request */
	uint8_t priv[IPC_PRIV_MAX];
};

static inline struct rnic_cm_id *cm_id(struct rdma_cm_id *id) { return (struct rnic_cm_id *)id; }
static inline struct rnic_cm_channel *cm_channel(struct rdma_event_channel *c) { return (struct rnic_cm_channel *)c; }

/* Whether the id belongs to a device of the roce personality. */
static inline bool cm_adapter(const struct rnic_cm_id *id)
{
	return id->id.verbs != NULL && rnic_ctx(id->id.verbs)->info.roce;
}

/*
 * -1 with errno when rc is an errno, else 0. EIO, by which verbs report the daemon's end, becomes ENODEV here: the
 * device is gone.
 */
static inline int cm_ret(int rc)
{
	if (rc == 0)
		return 0;
	errno = rc == EIO ? ENODEV : rc;
	return -1;
}

/*
 * After a request that an event answers: for a synchronous id, waits for the event. -1 and errno when the event reports
 * a failure.
 */
int cm_complete(struct rnic_cm_id *id);

/* Acknowledges the event that a synchronous id has kept, if there is one. */
void cm_last_done(struct rnic_cm_id *id);

/* Whether rnicrun --inject makes this call fail, or an event report a failure; *ret is then the call's result. */
bool cm_injected(struct rnic_cm_id *id, enum inject_at at, int *ret);

/* Gives the id its device: context, port, default PD. 0 or an errno. */
int cm_device(struct rnic_cm_id *id, uint32_t dev);

/*
 * Tells the daemon of an id that it does not know yet. Most ids become known by rdma_resolve_addr(), in the same
 * request; every other call on an id begins with this function. 0 or an errno.
 */
int cm_made(struct rnic_cm_id *id);

/* Puts an event that librnic has made into the event queue of the id's channel, then does what cm_complete() does. */
int cm_tell(struct rnic_cm_id *id, const struct ipc_cm_event *ev);

/* Makes the id for a handle that the daemon has made; handle 0: cm_made() asks for one later. NULL: no memory. */
struct rnic_cm_id *cm_id_adopt(struct rnic_session *s, uint32_t handle, struct rdma_event_channel *ch, bool sync);
/* Destroys the id of a request that the program will not see. ch: where the request came. */
void cm_request_end(struct rnic_cm_channel *ch, uint32_t handle);
struct rnic_cm_id *cm_id_find(struct rnic_session *s, uint32_t handle);
/*
 * The id that an event of this channel is about: the daemon may have given the handle of a dead id to one on another
 * channel. NULL: there is none any more. The caller holds the table's lock.
 */
struct rnic_cm_id *cm_id_on(const struct rnic_cm_channel *ch, uint32_t handle);

/* The event of a join has come: attaches the queue pair. 0 or an errno. *context: as given to rdma_join_multicast(). */
int cm_joined(struct rnic_cm_id *id, const struct ipc_cm_event *ev, void **context);
void cm_joins_free(struct rnic_cm_id *id);

int cm_addr_from(struct ipc_addr *a, const struct sockaddr *sa); /* 0 or EAFNOSUPPORT */
void cm_addr_to(struct sockaddr_storage *ss, const struct ipc_addr *a);

#endif
