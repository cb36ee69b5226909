/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection manager: ids as rdma_cm knows them, and the connections under them. Control thread.
 *
 * An id is the client's; it goes with IPC_CM_DESTROY_ID or with the client. A connection (struct cm_conn) is from its
 * opening to QP_FX_CLOSED, with or without an id, with or without its client: workers still have it.
 */
#ifndef CM_H
#define CM_H

#include <stdbool.h>
#include <stdint.h>

#include "control/client.h"

/* Numbers of rdma_cm_event_type. */
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

/* One writer: cm_set_state. */
enum cm_state {
	CM_IDLE,        /* created; bind, resolve_addr or listen moves it on */
	CM_BOUND,       /* has a local address; resolve_addr or listen */
	CM_ADDR_KNOWN,  /* has a device and both addresses; resolve_route */
	CM_ROUTE_WAIT,  /* the neighbour is being asked; its answer or the time-out moves it on */
	CM_ROUTE_KNOWN, /* connect */
	CM_LISTENING,   /* until destroyed */
	CM_AWAITING,    /* passive on a socket that was handed over: the peer's Request or a time-out */
	CM_CONNECTING,  /* the SYN is out; the peer or a time-out */
	CM_RESPONDED,   /* active without QP: the peer's Reply is here; accept (with the QP) or destroy */
	CM_REQUESTED,   /* passive: made by a request; accept or reject */
	CM_ACCEPTING,   /* the Reply is out; ESTABLISHED follows */
	CM_CONNECTED,   /* disconnect or the peer */
	CM_OVER,        /* rejected, failed or disconnected; only destroy */
};

#define CM_NO_DEV UINT32_MAX

struct cm_id;

/* A connection as the control thread knows it. */
struct cm_conn {
	struct owner owner;
	struct client *c;      /* NULL: the client is gone */
	struct cm_id *id;      /* NULL: destroyed, or without connection manager */
	struct oob *oob;       /* without connection manager: its QP's side; NULL: gone */
	struct oob_held *held; /* without, and waits for its QP */
	struct rn_link link;   /* cm_conns() */
	struct rc *conn;       /* the worker's; NULL while it is being opened */
	uint32_t worker;
	struct user *user;         /* among whose connections of the worker it counts; NULL: not yet */
	enum user_table set_up_as; /* USER_OPENINGS or USER_REQUESTS, until it is established; then USER_TABLES */
	uint32_t dev;
	uint16_t lport;
	uint64_t qp; /* owner of the QP it was given, 0: none yet */
	struct ipc_addr local, remote;
};

/* DISCONNECTED, while the client has not polled what was completed before (cm_hold.c). */
struct cm_hold {
	struct loop_timer timer;
	bool on;              /* the timer runs */
	bool timewait;        /* TIMEWAIT_EXIT follows at once */
	uint64_t qp;          /* owner of the queue pair; 0: none */
	uint32_t worker;      /* whose rings the completions lie in */
	uint32_t left;        /* how many were left at the last look */
	uint32_t upto[2];     /* of the send and the receive queue: the ring's index at the end of the connection */
	uint64_t until, last; /* ns: it waits no longer when nothing is polled; in any case */
};

struct cm_id {
	struct client *c;
	uint32_t handle;
	enum cm_state state;
	struct client_chan *chan;
	uint32_t dev; /* CM_NO_DEV: none yet, or listening on all */
	struct ipc_addr local, remote;
	bool has_port;        /* local.port is taken by this id (cm_port.c) */
	uint8_t families;     /* CM_IP4, CM_IP6: of the addresses it stands for, and of its port */
	uint8_t tos;          /* LISTENING: of its connections */
	bool disconnected;    /* has been told so */
	bool udp;             /* RDMA_PS_UDP: cm_sidr.c */
	struct rn_list joins; /* of an id for datagrams: struct cm_join, its groups (cm_join.c) */
	uint32_t n_joins;
	struct handed
		*handed;      /* the socket that carries its connection (cm_socket.c); NULL: none, or a worker has it */
	struct cm_sidr *sidr; /* of such a one: what it says to its peer; NULL: nothing yet */
	struct cm_conn *conn;
	struct cm_id *listener; /* REQUESTED: where it came in */
	uint32_t listener_handle;
	/* listening */
	struct owner owner;
	uint32_t backlog, requests;
	struct cm_hold hold;
	uint32_t cmds; /* listen commands under way */
	bool broken;   /* a worker could not */
	bool gone;     /* destroyed while commands were under way */
	bool answer;   /* destroy: the client waits */
	/* route */
	struct loop_timer timer;
	struct rn_link wait; /* in CM_ROUTE_WAIT: cm_route.c; of a listener for datagrams: cm_sidr.c */
};

/* Requests of the control protocol: each answers, now or later. */
void cm_create_id(struct client *c); /* cm_id.c */
void cm_bind(struct client *c);
void cm_migrate(struct client *c);
void cm_destroy_id(struct client *c);   /* cm_end.c */
void cm_resolve_addr(struct client *c); /* cm_route.c */
void cm_resolve_route(struct client *c);
void cm_listen(struct client *c);  /* cm_listen.c */
void cm_connect(struct client *c); /* cm_conn.c */
void cm_accept(struct client *c);
void cm_reject(struct client *c);
void cm_disconnect(struct client *c);
void cm_socket(struct client *c); /* cm_socket.c */

/*
 * The death of a client, c->under_way counts what takes time: its ids are destroyed and their connections told to
 * end.
 */
void cm_client_dies(struct client *c);
/* After its QPs: connections that have not closed yet are made to forget it. */
void cm_client_conns(struct client *c);

/* What workers say. */
void cm_fx(const struct event_fx *fx);             /* cm_event.c */
void cm_neigh(const struct event_neigh *ev);       /* cm_route.c */
void cm_sidr_message(const struct event_sidr *ev); /* cm_sidr.c */

/* ---- between the cm_ files ---- */

void cm_set_state(struct cm_id *id, enum cm_state to);
const char *cm_state_name(enum cm_state s);
struct cm_id *cm_id_new(struct client *c, struct client_chan *chan); /* NULL: no memory */
void cm_id_free(struct cm_id *id);
struct cm_id *cm_find(struct client *c, uint32_t handle); /* NULL: the client was answered */
/* Answers EINVAL that the id is in the wrong state. */
void cm_wrong_state(struct client *c, const struct cm_id *id, const char *what);
/* False: the client will not hear of it (ev_push_copy). */
bool cm_event(struct cm_id *id, enum cm_event_type type, int status, const struct event_fx *fx);
void cm_route_forget(struct cm_id *id);
/*
 * The end of a connection that was up, with or without a queue pair: told now, or when the client has polled
 * (cm_hold.c).
 */
void cm_disconnected(struct cm_id *id, uint64_t qp, uint32_t worker);
void cm_timewait_over(struct cm_id *id); /* behind DISCONNECTED */
/*
 * Requests came in at the id and cannot any more: the client has heard of some, the others are rejected. None of them
 * names the id afterwards. Call this wherever an id stops listening.
 */
void cm_requests_end(struct cm_id *l);
void cm_listen_end(struct cm_id *id); /* takes the listener from the workers; then frees the id */
/*
 * Embedded: ports of the udp port space are taken from other processes of the user before an id listens, and given
 * back after. ip NULL: at all addresses. take says false: another process has it.
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
/* The id's connection, if any, is told to end, now without the id. */
void cm_conn_leave(struct cm_id *id);
/* Tells a worker to end a connection: rejected when it waits for an answer, else disconnected. */
void cm_conn_end(uint32_t worker, struct rc *conn, uint64_t key);
void cm_conn_free(struct cm_conn *k);
/*
 * The connection is on this worker, and counts among the user's there; until cm_conn_established() also among those
 * that are set up, as USER_OPENINGS or USER_REQUESTS. False: the user has too many of either.
 */
bool cm_conn_on(struct cm_conn *k, struct user *u, uint32_t worker, enum user_table as);
void cm_conn_established(struct cm_conn *k);
struct cm_conn *cm_conn_new(struct client *c, struct cm_id *id, uint64_t key);
struct cm_conn *cm_conn_make(struct client *c,
			     uint64_t key); /* without id; dev and addresses are the caller's to set */
const struct rn_list *cm_conns(void);       /* struct cm_conn, by `link`; the newest first */
struct cm_conn *cm_conn_of(uint64_t key);

/* TCP ports below this one are for root, as the kernel's: a peer that connects from one is no user's program. */
#define CM_PORT_FREE 1024u
/* Why the client may not use the port on dev, at its own end or at the peer's; NULL: it may. */
const char *cm_port_refusal(const struct client *c, uint32_t dev, uint16_t port);
/* A port below CM_PORT_FREE, which rnicd's own connections leave from (oob.h); 0: all are taken. */
uint16_t cm_port_own(uint32_t dev);
/*
 * TCP port numbers of the devices (cm_port.c). dev CM_NO_DEV: on all devices. families: CM_IP4 and CM_IP6 are apart, so
 * each wildcard may be bound to a port (RFC 3493, 5.3). False: in use.
 */
enum { CM_IP4 = 1 << 0, CM_IP6 = 1 << 1 };
uint8_t cm_family_of(uint32_t dev); /* of the device's address */
bool cm_port_take(uint32_t dev, uint32_t families, uint16_t port);
void cm_port_give(uint32_t dev, uint32_t families, uint16_t port);
/* A port that was taken on all devices is from now on taken on dev alone, in the family of its address. */
void cm_port_narrow(uint32_t dev, uint32_t families, uint16_t port);
/* Takes a free one; 0: all are in use. */
uint16_t cm_port_any(uint32_t dev, uint32_t families);
/* The next ephemeral port to try for a connection; does not take it: connections of different peers may share one. */
uint16_t cm_port_next(uint32_t dev);

static inline bool cm_addr_is_any(const struct ipc_addr *a)
{
	static const uint8_t zero[12], v4[12] = { [10] = 0xff, [11] = 0xff };

	return (memcmp(a->ip, zero, 12) == 0 || memcmp(a->ip, v4, 12) == 0) && memcmp(a->ip + 12, zero, 4) == 0;
}

/* The host's loopback, unless a device has it, becomes the address of the first device. */
void cm_addr_own(struct ipc_addr *a);
/* The device that has the address; UINT32_MAX: none has it. */
uint32_t cm_addr_dev(const struct ipc_addr *a);
/* A link-local address of the device or of a peer's gets its interface, a program's address is to be complete. */
void cm_addr_scope(struct ipc_addr *a, uint32_t dev);

#endif
