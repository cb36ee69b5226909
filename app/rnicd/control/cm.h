/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection manager: ids as rdma_cm knows them, and the connections under them. Control thread.
 *
 * An id belongs to a client, and is freed by IPC_CM_DESTROY_ID or with the client. A connection (struct cm_conn) exists
 * from its opening to QP_FX_CLOSED, because workers use it until then, even if its id or its client is gone.
 */
#ifndef CM_H
#define CM_H

#include <stdbool.h>
#include <stdint.h>

#include "control/client.h"

/* The values of rdma_cm_event_type. */
enum cm_event_type {
	CM_EV_ADDR_RESOLVED = 0,
	CM_EV_ADDR_ERROR,
	CM_EV_ROUTE_RESOLVED,
	CM_EV_ROUTE_ERROR,
	CM_EV_CONNECT_REQUEST,
	CM_EV_CONNECT_RESPONSE,
	CM_EV_CONNECT_ERROR,
	CM_EV_UNREACHABLE,
	CM_EV_REJECTED,
	CM_EV_ESTABLISHED,
	CM_EV_DISCONNECTED,
	CM_EV_MULTICAST_JOIN = 12,
	CM_EV_TIMEWAIT_EXIT = 15,
};

/* Only cm_set_state writes it. Each comment says what moves the state on. */
enum cm_state {
	CM_IDLE,        /* created; bind, resolve_addr or listen moves it on */
	CM_BOUND,       /* has a local address; resolve_addr or listen */
	CM_ADDR_KNOWN,  /* has a device and both addresses; resolve_route */
	CM_ROUTE_WAIT,  /* the neighbour is being asked; its answer or the time-out moves it on */
	CM_ROUTE_KNOWN, /* connect */
	CM_LISTENING,   /* until destroyed */
	CM_AWAITING,    /* passive on a socket that was handed over; the peer's MPA Request or a time-out */
	CM_CONNECTING,  /* the SYN was sent; the peer's answer or a time-out */
	CM_RESPONDED,   /* active without QP, the peer's Reply has come; accept (with the QP) or destroy */
	CM_REQUESTED,   /* passive: made by the peer's Request; accept or reject */
	CM_ACCEPTING,   /* the Reply was sent; ESTABLISHED */
	CM_CONNECTED,   /* established; disconnect, or the peer ends it */
	CM_OVER,        /* rejected, failed or disconnected; destroy */
};

#define CM_NO_DEV UINT32_MAX

struct cm_id;

/* A connection as the control thread knows it. */
struct cm_conn {
	struct owner owner;
	struct client *c;      /* NULL: the client is gone */
	struct cm_id *id;      /* NULL: the id was destroyed, or there is no connection manager */
	struct oob *oob;       /* connection without connection manager: the state of its QP; NULL: the QP is gone */
	struct oob_held *held; /* the same: the Request that waits for its QP */
	struct rn_link link;   /* cm_conns() */
	struct rc *conn;       /* the worker's; NULL while it is being opened */
	uint32_t worker;
	struct user *user;         /* the user in whose share of the worker's connections it counts; NULL: not counted
				    * yet */
	enum user_table set_up_as; /* USER_OPENINGS or USER_REQUESTS until it is established, then USER_TABLES */
	uint32_t dev;
	uint16_t lport;
	uint64_t qp; /* owner number of its QP, 0: none yet */
	struct ipc_addr local, remote;
};

/* A DISCONNECTED event that waits until the client has polled the completions before it (cm_hold.c). */
struct cm_hold {
	struct loop_timer timer;
	bool on;              /* the timer runs */
	bool timewait;        /* TIMEWAIT_EXIT follows at once */
	uint64_t qp;          /* owner number of the queue pair; 0: none */
	uint32_t worker;      /* whose rings the completions lie in */
	uint32_t left;        /* completions left at the last check */
	uint32_t upto[2];     /* of the send and the receive queue: the ring's index at the end of the connection */
	uint64_t until, last; /* ns: until: the event is told if nothing is polled by then; last: it is told in any
			       * case */
};

struct cm_id {
	struct client *c;
	uint32_t handle;
	enum cm_state state;
	struct client_chan *chan;
	uint32_t dev; /* CM_NO_DEV: no device yet, or listening on all */
	struct ipc_addr local, remote;
	bool has_port;        /* local.port is reserved for this id (cm_port.c) */
	uint8_t families;     /* CM_IP4, CM_IP6: the families in which its address and port are valid */
	uint8_t tos;          /* TOS; LISTENING: of its connections */
	bool routed;          /* ADDR_KNOWN: connect may follow, too: the route is known */
	bool disconnected;    /* DISCONNECTED has been sent to the client */
	bool udp;             /* RDMA_PS_UDP: cm_sidr.c */
	struct rn_list joins; /* of an id for datagrams: struct cm_join, its groups (cm_join.c) */
	uint32_t n_joins;
	struct handed
		*handed;      /* the socket that carries its connection (cm_socket.c); NULL: none, or a worker has it */
	struct cm_sidr *sidr; /* of an id for datagrams: the message that it repeats to its peer; NULL: none yet */
	struct cm_conn *conn;
	struct cm_id *listener; /* REQUESTED: the listener that the Request came to */
	uint32_t listener_handle;
	/* listening */
	struct owner owner;
	uint32_t backlog, requests;
	struct cm_hold hold;
	uint32_t cmds; /* listen commands under way */
	bool broken;   /* a worker could not listen */
	bool gone;     /* the id was destroyed while commands were under way */
	bool answer;   /* the client waits for the answer to destroy */
	/* route */
	struct loop_timer timer;
	struct rn_link wait; /* in CM_ROUTE_WAIT: cm_route.c; of a listener for datagrams: cm_sidr.c */
};

/* Requests of the control protocol: each answers, now or later. */
void cm_create_id(struct client *c); /* cm_id.c */
void cm_bind(struct client *c);
void cm_migrate(struct client *c);
void cm_destroy_id(struct client *c); /* cm_end.c */
void cm_open(struct client *c);       /* cm_route.c */
void cm_resolve_addr(struct client *c);
void cm_resolve_route(struct client *c);
void cm_listen(struct client *c);  /* cm_listen.c */
void cm_connect(struct client *c); /* cm_conn.c */
void cm_accept(struct client *c);
void cm_reject(struct client *c);
void cm_disconnect(struct client *c);
void cm_socket(struct client *c); /* cm_socket.c */

/*
 * The death of a client: destroys its ids and ends their connections. c->under_way counts the operations that take
 * time.
 */
void cm_client_dies(struct client *c);
/* After its QPs are gone: makes connections that have not closed yet forget the client. */
void cm_client_conns(struct client *c);

/* Events of the workers. */
void cm_fx(const struct event_fx *fx);             /* cm_event.c */
void cm_neigh(const struct event_neigh *ev);       /* cm_route.c */
void cm_sidr_message(const struct event_sidr *ev); /* cm_sidr.c */

/* ---- between the cm_ files ---- */

void cm_set_state(struct cm_id *id, enum cm_state to);
const char *cm_state_name(enum cm_state s);
struct cm_id *cm_id_new(struct client *c, struct client_chan *chan); /* NULL: no memory */
void cm_id_free(struct cm_id *id);
struct cm_id *cm_find(struct client *c, uint32_t handle); /* NULL: the client was answered */
/* Whether connect may follow. */
static inline bool cm_has_route(const struct cm_id *id)
{
	return id->state == CM_ROUTE_KNOWN || (id->state == CM_ADDR_KNOWN && id->routed);
}
/* The client's channel for events of ids, and a new id for it. NULL: the client was answered with an error. */
struct cm_id *cm_id_for(struct client *c, uint32_t channel, uint32_t datagram);
/* Answers EINVAL: the id is in the wrong state. */
void cm_wrong_state(struct client *c, const struct cm_id *id, const char *what);
/* Sends an event to the client. False: the event is lost (ev_push_copy). */
bool cm_event(struct cm_id *id, enum cm_event_type type, int status, const struct event_fx *fx);
void cm_route_forget(struct cm_id *id);
/*
 * The end of an established connection, with or without a queue pair: sends DISCONNECTED now, or when the client has
 * polled its completions (cm_hold.c).
 */
void cm_disconnected(struct cm_id *id, uint64_t qp, uint32_t worker);
void cm_timewait_over(struct cm_id *id); /* sends TIMEWAIT_EXIT after DISCONNECTED */
/*
 * For each id that stops listening: of the requests that came to the id, those that the client knows become independent
 * of the id, and the others are rejected.
 */
void cm_requests_end(struct cm_id *l);
void cm_listen_end(struct cm_id *id); /* takes the listener from the workers; then frees the id */
/*
 * Embedded: before an id of RDMA_PS_UDP listens, its port is reserved among all processes of the user, and released
 * after. ip NULL: on all addresses. take returns false: another process has the port.
 */
void cm_sidr_share(bool (*take)(const struct pkt_addr *ip, uint16_t port),
		   void (*give)(const struct pkt_addr *ip, uint16_t port));

/* Requests about an id of the udp port space; each answers (cm_sidr.c). */
void cm_sidr_connect(struct client *c, struct cm_id *id);
void cm_sidr_listen(struct client *c, struct cm_id *id);
void cm_sidr_accept(struct client *c, struct cm_id *id);
void cm_sidr_reject(struct client *c, struct cm_id *id);
void cm_sidr_listen_end(struct cm_id *id);
void cm_sidr_forget(struct cm_id *id);
void cm_joins_end(struct cm_id *id); /* cm_join.c */
/* Ends the id's connection, if there is one, and separates the connection from the id. */
void cm_conn_leave(struct cm_id *id);
/* Tells a worker to end a connection: a connection that waits for accept or reject is rejected, any other is
 * disconnected. */
void cm_conn_end(uint32_t worker, struct rc *conn, uint64_t key);
void cm_conn_free(struct cm_conn *k);
/*
 * Counts the connection in the user's share of this worker's connections; until cm_conn_established() also in its share
 * of connections that are set up, USER_OPENINGS or USER_REQUESTS. False: the user has too many of either.
 */
bool cm_conn_on(struct cm_conn *k, struct user *u, uint32_t worker, enum user_table as);
void cm_conn_established(struct cm_conn *k);
struct cm_conn *cm_conn_new(struct client *c, struct cm_id *id, uint64_t key);
struct cm_conn *cm_conn_make(struct client *c,
			     uint64_t key); /* a connection without id; the caller sets dev and addresses */
const struct rn_list *cm_conns(void);       /* struct cm_conn, by `link`; the newest first */
struct cm_conn *cm_conn_of(uint64_t key);

/* TCP ports below this one are reserved for root, as in the kernel: a peer that connects from one is not an
 * unprivileged program. */
#define CM_PORT_FREE 1024u
/* Why the client may not use the port on dev, as local or as remote port; NULL: it may. */
const char *cm_port_refusal(const struct client *c, uint32_t dev, uint16_t port);
/* A port below CM_PORT_FREE as the source of a connection of rnicd itself (oob.h); 0: all are in use. */
uint16_t cm_port_own(uint32_t dev);
/*
 * TCP port numbers of the devices (cm_port.c). dev CM_NO_DEV: on all devices. families: CM_IP4 and CM_IP6 are separate
 * port spaces, so the wildcards of both may be bound to one port (RFC 3493, 5.3). False: in use.
 */
enum { CM_IP4 = 1 << 0, CM_IP6 = 1 << 1 };
uint8_t cm_family_of(uint32_t dev); /* of the device's address */
bool cm_port_take(uint32_t dev, uint32_t families, uint16_t port);
void cm_port_give(uint32_t dev, uint32_t families, uint16_t port);
/* Releases a port that was reserved on all devices, except on dev and in the family of its address. */
void cm_port_narrow(uint32_t dev, uint32_t families, uint16_t port);
/* Reserves a free port; 0: all are in use. */
uint16_t cm_port_any(uint32_t dev, uint32_t families);
/* The next ephemeral port to try for a connection. Does not reserve it: connections to different peers may share a
 * port. */
uint16_t cm_port_next(uint32_t dev);

static inline bool cm_addr_is_any(const struct ipc_addr *a)
{
	static const uint8_t zero[12], v4[12] = { [10] = 0xff, [11] = 0xff };

	return (memcmp(a->ip, zero, 12) == 0 || memcmp(a->ip, v4, 12) == 0) && memcmp(a->ip + 12, zero, 4) == 0;
}

/* Replaces the host's loopback address by the address of the first device, unless a device has the loopback address. */
void cm_addr_own(struct ipc_addr *a);
/* The device that has the address; UINT32_MAX: none has it. */
uint32_t cm_addr_dev(const struct ipc_addr *a);
/* Adds the interface to a link-local address of the device or of a peer, because programs need the complete address. */
void cm_addr_scope(struct ipc_addr *a, uint32_t dev);

#endif
