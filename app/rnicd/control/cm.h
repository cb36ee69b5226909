/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection manager: the ids of rdma_cm (struct cm_id), and their connections (struct cm_conn). Control thread.
 *
 * An id belongs to a client, and is freed by IPC_CM_DESTROY_ID or with the client. A struct cm_conn exists from the
 * opening of the connection, or the peer's Request, to QP_FX_CLOSED: until then workers report about the connection,
 * even if its id or its client is gone.
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

/* Only cm_set_state writes it. Each comment says what the id has or waits for, and then what moves the state on. */
enum cm_state {
	CM_IDLE,        /* created; bind, resolve_addr or listen */
	CM_BOUND,       /* has a local address; resolve_addr or listen */
	CM_ADDR_KNOWN,  /* has a device and both addresses; resolve_route */
	CM_ROUTE_WAIT,  /* the neighbour is being asked by ARP; its answer or the time-out */
	CM_ROUTE_KNOWN, /* the neighbour is known; connect */
	CM_LISTENING,   /* listens until destroyed */
	CM_AWAITING,    /* passive on a socket of the program (cm_socket.c); the peer's MPA Request or a time-out */
	CM_CONNECTING,  /* the SYN was sent; the peer's answer or a time-out */
	CM_RESPONDED,   /* active without QP: the peer's Reply has come; accept (with the QP) or destroy */
	CM_REQUESTED,   /* passive: the peer's Request has come; accept or reject */
	CM_ACCEPTING,   /* the Reply was sent; ESTABLISHED */
	CM_CONNECTED,   /* established; disconnect, or the end by the peer */
	CM_OVER,        /* rejected, failed or disconnected; destroy */
};

#define CM_NO_DEV UINT32_MAX

struct cm_id;

/* A connection as the control thread knows it. */
struct cm_conn {
	struct owner owner;
	struct client *c;        /* NULL: the client is gone. Written by cm_conn_give() */
	struct cm_id *id;        /* NULL: the id was destroyed, or there is no connection manager */
	struct oob *oob;         /* without connection manager: the QP's side of it (oob.h); NULL: the QP is gone */
	struct oob_held *held;   /* the same: a Request that waits until its QP is in RTR; NULL: it does not wait */
	struct oob_share *share; /* the same: what its user has opened to this peer (oob_share.c); NULL: not counted */
	struct rn_link link;     /* cm_conns() */
	struct rn_link mine;     /* `conns` of c */
	uint32_t number;         /* in telemetry's list; counted from 1, and no other connection has it */
	struct rc *conn;         /* the worker's connection; NULL while it is being opened */
	uint32_t worker;
	struct user *user;         /* the user in whose share of the worker's connections it is counted; NULL: not
				    * counted yet */
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
	uint32_t worker;      /* the QP's worker: the completions lie in its rings of the CQs */
	uint32_t left;        /* completions left at the last check */
	uint32_t upto[2];     /* of the send CQ and the receive CQ: the ring's index at the end of the connection */
	uint64_t until, last; /* ns. until: the event is sent if nothing is polled by then. last: it is sent in any
			       * case */
};

struct cm_id {
	struct client *c;
	uint32_t handle;
	enum cm_state state;
	struct client_chan *chan;
	struct rn_list untold; /* struct ev_node, by `of_object`: its events that wait for room in `chan` */
	uint32_t dev;          /* CM_NO_DEV: no device yet, or listening on all */
	struct ipc_addr local, remote;
	bool has_port;        /* local.port is reserved for this id (cm_port.c), in its port space: cm_port_space() */
	uint8_t families;     /* CM_IP4, CM_IP6: the families in which its address and port are valid */
	uint8_t tos;          /* LISTENING: TOS of its connections' packets */
	bool routed;          /* ADDR_KNOWN: connect needs no resolve_route: the neighbour was known lately */
	bool answered;        /* ROUTE_WAIT: the result is known, and soon told */
	int route_err;        /* the same: 0 or a negative errno */
	bool disconnected;    /* DISCONNECTED has been sent to the client, or waits in `hold` */
	bool quiet;           /* ACCEPTING: the client gets no ESTABLISHED */
	bool udp;             /* RDMA_PS_UDP: cm_sidr.c */
	struct rn_list joins; /* RDMA_PS_UDP: struct cm_join, its groups (cm_join.c) */
	uint32_t n_joins;
	struct handed
		*handed;      /* the socket that carries its connection (cm_socket.c); NULL: none, or a worker has it */
	struct cm_sidr *sidr; /* RDMA_PS_UDP: the message that it repeats to its peer; NULL: none yet */
	struct cm_conn *conn;
	/* the listener that the Request came to; NULL: none, or the client has answered, or knows the id to be OVER */
	struct cm_id *listener;
	struct rn_link sibling; /* in the listener's `came` */
	bool pending;           /* counted in the listener's `requests` */
	uint32_t listener_handle;
	/* listening; owner also of an id of RDMA_PS_UDP that has sent or got a request */
	struct owner owner;
	uint32_t backlog, requests; /* requests: ids in REQUESTED whose listener is this id */
	struct rn_list came; /* struct cm_id, by `sibling`: all ids whose listener is this id, the oldest first */
	struct cm_hold hold;
	bool gone;   /* being destroyed */
	bool answer; /* the client waits for the answer to destroy */
	/* ROUTE_WAIT, or RDMA_PS_UDP: until the next repetition */
	struct loop_timer timer;
	/* ROUTE_WAIT: in a list of cm_route.c; a listener of RDMA_PS_UDP: in its list of cm_sidr.c */
	struct rn_link wait;
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
 * The death of a client: destroys some of its ids and ends their connections. Operations that take time are counted in
 * c->under_way. False: there are more ids.
 */
bool cm_client_dies(struct client *c);
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
/* Whether connect is possible now. */
static inline bool cm_has_route(const struct cm_id *id)
{
	return id->state == CM_ROUTE_KNOWN || (id->state == CM_ADDR_KNOWN && id->routed);
}
/* Makes an id that reports on this channel of the client. NULL: the client was answered with an error. */
struct cm_id *cm_id_for(struct client *c, uint32_t channel, uint32_t datagram);
/* Answers EINVAL: `what` is not possible in the id's state. */
void cm_wrong_state(struct client *c, const struct cm_id *id, const char *what);
/* Sends an event to the client. False: the event is lost (ev_push_copy). */
bool cm_event(struct cm_id *id, enum cm_event_type type, int status, const struct event_fx *fx);
void cm_route_forget(struct cm_id *id);
/*
 * An established connection, with or without a queue pair, has ended: sends DISCONNECTED now, or when the client has
 * polled the completions before it (cm_hold.c). qp: the owner number of the queue pair, 0: none.
 */
void cm_disconnected(struct cm_id *id, uint64_t qp, uint32_t worker);
void cm_timewait_over(struct cm_id *id); /* sends TIMEWAIT_EXIT after DISCONNECTED */
/* The Request for which the id was made has come to listener l. */
void cm_request_come(struct cm_id *id, struct cm_id *l); /* cm_request.c */
/* The request is no longer one of its listener's, if it was. */
void cm_request_leave(struct cm_id *id);
/* The peer has given up: the same if the client knows the id; else it only counts no longer in the backlog. */
void cm_request_over(struct cm_id *id);
/* Whether the client has got the event CONNECT_REQUEST about the id, or none was sent. */
bool cm_request_told(const struct cm_id *id);
/*
 * Called when the id stops listening. A request whose event the client has got becomes independent of the id; all other
 * requests to the id are rejected.
 */
void cm_requests_end(struct cm_id *l);
void cm_listen_end(struct cm_id *id); /* ends the listener on all workers; then frees the id */

/* Requests about an id of RDMA_PS_UDP; each answers the client (cm_sidr.c). */
void cm_sidr_connect(struct client *c, struct cm_id *id);
void cm_sidr_listen(struct client *c, struct cm_id *id);
void cm_sidr_accept(struct client *c, struct cm_id *id);
void cm_sidr_reject(struct client *c, struct cm_id *id);
void cm_sidr_listen_end(struct cm_id *id);
void cm_sidr_forget(struct cm_id *id);
void cm_joins_end(struct cm_id *id); /* cm_join.c */
/* The waiting events of its joins move to its channel, which has changed. */
void cm_joins_move(struct cm_id *id);
/* Ends the id's connection, if there is one, and separates the connection from the id. */
void cm_conn_leave(struct cm_id *id);
/* Tells a worker to end a connection: to reject it if it waits for accept or reject, else to disconnect it. key: its
 * owner number. */
void cm_conn_end(uint32_t worker, struct rc *conn, uint64_t key);
void cm_conn_free(struct cm_conn *k);
/*
 * Counts the connection in the user's share of this worker's connections, and until cm_conn_established() also in the
 * share of connections that are being set up (as: USER_OPENINGS or USER_REQUESTS). False: the user has too many of
 * either.
 */
bool cm_conn_on(struct cm_conn *k, struct user *u, uint32_t worker, enum user_table as);
void cm_conn_established(struct cm_conn *k);
/* The connection is this client's from now on; NULL: no client's. */
static inline void cm_conn_give(struct cm_conn *k, struct client *c)
{
	if (k->c != NULL)
		rn_list_remove(&k->c->conns, &k->mine);
	k->c = c;
	if (c != NULL)
		rn_list_push_back(&c->conns, &k->mine);
}
struct cm_conn *cm_conn_new(struct client *c, struct cm_id *id, uint64_t key);
struct cm_conn *cm_conn_make(struct client *c,
			     uint64_t key); /* a connection without id; the caller sets dev and addresses */
const struct rn_list *cm_conns(void);       /* all connections: struct cm_conn, by `link`; the newest first */
struct cm_conn *cm_conn_of(uint64_t key);

/* TCP ports below this one are reserved for root, as in the kernel. So a peer that connects from such a port is no
 * unprivileged program. */
#define CM_PORT_FREE 1024u
/* The ephemeral ports, in the range of Linux; RFC 6335, section 6, has 49152 to 65535. */
#define CM_PORT_FIRST 32768u
#define CM_PORT_LAST  60999u
/* Why the client may not use the port on dev, as local or as remote port; NULL: it may. */
const char *cm_port_refusal(const struct client *c, uint32_t dev, uint16_t port);
/*
 * A port below CM_PORT_FREE as the source of a connection of rnicd itself (oob.h): the next one, or (elsewhere) a
 * random one, as the ports that follow one in use are often in use, too. 0: all are in use.
 */
uint16_t cm_port_own(uint32_t dev, bool elsewhere);
/*
 * Reserves and releases port numbers of the devices (cm_port.c). dev CM_NO_DEV: on all devices. families: CM_IP4 and
 * CM_IP6 for TCP ports, CM_UDP4 and CM_UDP6 for ids of RDMA_PS_UDP. These are four separate port spaces: the wildcard
 * addresses of both versions of IP may be bound to one port (RFC 3493, 5.3), and so may ids of RDMA_PS_TCP and of
 * RDMA_PS_UDP. The port counts in the user's share (USER_TCP_PORTS); a port of rnicd itself has the user NULL. False:
 * errno is EADDRINUSE, EDQUOT when the share is used up, or that of take() of cm_port_share_udp().
 */
enum { CM_IP4 = 1 << 0, CM_IP6 = 1 << 1, CM_UDP4 = 1 << 2, CM_UDP6 = 1 << 3 };
/* The port spaces of the id in these families, CM_IP4 and CM_IP6. */
static inline uint32_t cm_port_space(const struct cm_id *id, uint32_t families)
{
	return id->udp ? families << 2 : families;
}
uint8_t cm_family_of(uint32_t dev); /* of the device's address */
bool cm_port_take(struct user *u, uint32_t dev, uint32_t families, uint16_t port);
void cm_port_give(struct user *u, uint32_t dev, uint32_t families, uint16_t port);
/* Answers that the port (0: any) was not reserved, with errno as of cm_port_take(). */
void cm_port_error(struct client *c, uint16_t port);
/* A port that was reserved on all devices stays reserved only on dev, in the family of its address. */
void cm_port_narrow(struct user *u, uint32_t dev, uint32_t families, uint16_t port);
/* Reserves a free port; 0: errno is EADDRINUSE, as all are in use, or another one of cm_port_take(). */
uint16_t cm_port_any(struct user *u, uint32_t dev, uint32_t families);
/*
 * For devices in a client's process, which share the ports of their addresses with other programs: hold() chooses the
 * TCP port of cm_port_any(), and keeps other programs from it on these devices (bit mask, not 0). It returns 0 with
 * errno EADDRINUSE if no port is free. After another errno the port is chosen as in rnicd, and may be in use. release()
 * is called for each TCP port that is given back, held or not.
 */
void cm_port_share(uint16_t (*hold)(uint32_t devs), void (*release)(uint32_t devs, uint16_t port));
/*
 * For embedded devices: take() reserves a port of RDMA_PS_UDP among all processes of the user, and give() releases the
 * port if this process has it. ip: a device's address, or the unspecified address of a family for all addresses of the
 * family. take() returns false: errno is EADDRINUSE if another process has the port.
 */
void cm_port_share_udp(bool (*take)(const struct pkt_addr *ip, uint16_t port),
		       void (*give)(const struct pkt_addr *ip, uint16_t port));
/* The next ephemeral port to try for a connection; 0: all are in use. The port is not reserved, since connections to
 * different peers may share a port. */
uint16_t cm_port_next(uint32_t dev, uint32_t families);
#define CM_NO_PORT "no local port is free: programs of this host have all of them"
/* For CONN_DENIED. A host's kernel has the rule of CM_PORT_FREE, perhaps with another limit. */
#define CM_DENIED "the host does not let this user have the port: choose one above 1023, or run the program as root"

static inline bool cm_addr_is_any(const struct ipc_addr *a)
{
	static const uint8_t zero[12], v4[12] = { [10] = 0xff, [11] = 0xff };

	return (memcmp(a->ip, zero, 12) == 0 || memcmp(a->ip, v4, 12) == 0) && memcmp(a->ip + 12, zero, 4) == 0;
}

/* Replaces a loopback address by the address of the first device, unless a device has this loopback address. */
void cm_addr_own(struct ipc_addr *a);
/* The device that has the address; UINT32_MAX: none has it. */
uint32_t cm_addr_dev(const struct ipc_addr *a);
/* Sets the scope (number of the interface) of a link-local address, because programs need the complete address. */
void cm_addr_scope(struct ipc_addr *a, uint32_t dev);

/* ---- cm_count.c ---- */

/*
 * Counts the id, which begins to listen, in its user's share of listeners. False: the client was answered with the
 * error.
 */
bool cm_listen_count(struct client *c, const struct cm_id *id);
void cm_listen_uncount(const struct cm_id *id);

#endif
