/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command queue: commands of the control thread to the workers.
 *
 * A command lies in the caller's memory, most often embedded in a structure of the caller. From cmd_send() until `done`
 * is called, the command and all that it points to belong to the workers to which it was sent. A worker carries it out
 * between two steps of its turn and writes the result into it. If several workers get the same command, each writes its
 * own element. After the answers of all these workers, `done` is called once, in the control thread.
 *
 * Sending never fails: if there is no room for a command's answer, the command waits in order, and a later
 * event_collect() sends it. "Control thread" means any thread that holds loop_lock.
 *
 * The plane of Ethernet ports carries out commands in plane/commands.c and plane/commands_conn.c, the plane of sockets
 * in sockets/ks_cmd.c.
 */
#ifndef CMD_H
#define CMD_H

#include <stdbool.h>
#include <stdint.h>

#include "border/client_view.h"
#include "border/flow_owner.h"
#include "border/gram_view.h"
#include "border/look.h"
#include "border/rnicd.h"
#include "border/stream_view.h"
#include "border/ud_view.h"
#include "rc/rc.h"

struct handed;
struct impair;

/* The arguments and results of each type are in the member of struct cmd named after the colon. */
enum cmd_type {
	CMD_NOTHING, /* does nothing; the answer says that all earlier steps of the worker are over */

	CMD_CLIENT_ADD,    /* client: the worker looks at the client's doorbells from now on */
	CMD_CLIENT_DEL,    /* client: the worker forgets its doorbells. Its QPs must be destroyed before */
	CMD_CLIENT_REFERS, /* refers: asks whether a connection still has bytes to send that lie in this memory */

	CMD_QP_CREATE, /* qp: the QP belongs to this worker from now on; datagrams find it */
	CMD_QP_MODIFY, /* qp: new attributes, perhaps a new state */
	/*
	 * qp: this worker no longer looks at the QP's doorbell; CMD_QP_LATER must follow. QP_BAD_STATE: the QP has a
	 * connection, and nothing has changed
	 */
	CMD_QP_LEAVE,
	CMD_QP_LATER,   /* qp: asks whether the turn is over in which the QP left or was destroyed */
	CMD_QP_ARRIVE,  /* qp: this worker looks at the QP's doorbell from now on */
	CMD_QP_DESTROY, /* qp: ends the QP; CMD_QP_LATER must follow */
	CMD_QP_WAITS,   /* qp: asks whether the QP has sends that wait for a connection */
	CMD_QP_GIVE_UP, /* qp: the QP's sends that wait for a connection end with IBV_WC_RETRY_EXC_ERR */

	CMD_CQ_RESIZE, /* resize: all workers; completions go to the new rings */
	/* srq: all workers; XRC targets release the SRQ and its PD. Repeated until each worker has run another turn */
	CMD_SRQ_LEAVE,

	CMD_GROUP,         /* group: all workers; a QP enters or leaves a multicast group */
	CMD_GROUP_BIND,    /* group_bind: the memory into which a QP gets Write-Records to a group; at the QP's
			    * worker */
	CMD_SEND_FRAME,    /* send: transmits a whole frame */
	CMD_SEND_DATAGRAM, /* send: transmits a UDP payload */

	CMD_LISTEN,      /* listen: all workers */
	CMD_UNLISTEN,    /* listen: all workers; ends the listener on each worker whose verdict is CONN_OK */
	CMD_CONN_OPEN,   /* open: an active connection, at the worker that conn_owner() names */
	CMD_CONN_JOIN,   /* join: a connection gets its QP: accepted when it is passive, attached when it is active */
	CMD_CONN_REJECT, /* join: rejects a connection, with private data */
	CMD_CONN_DISCONNECT, /* conn: ends the connection in an orderly way */
	CMD_CONN_END,        /* conn: rejects a connection that waits for accept or reject, disconnects any other */
	CMD_CONN_LET_GO,     /* conn: the client is gone, and no byte of its memory may be sent any more */

	CMD_STREAM_JOIN,     /* stream_join: all workers look at the doorbells of a user's sockets from now on */
	CMD_STREAM_LISTEN,   /* stream_listen: all workers */
	CMD_STREAM_UNLISTEN, /* stream_listen: all workers */
	CMD_STREAM_OPEN,     /* stream: an active connection, at the worker that conn_owner() names */
	CMD_STREAM_ADOPT,    /* stream: a program has accepted a connection of its listener */
	CMD_STREAM_CLOSE,    /* stream: no program has the socket open any more */
	CMD_STREAM_OPTION,   /* stream_option: an option of the kernel's socket; plane of sockets only */

	CMD_GRAM_OPEN,  /* gram: at the worker that gram_owner() names; datagrams find the socket from now on */
	CMD_GRAM_PEER,  /* gram: connects the socket to another peer, or to none */
	CMD_GRAM_CLOSE, /* gram: no program has the socket open any more; queued datagrams are sent before it closes */

	CMD_NEIGH, /* neigh: asks for the neighbour behind an address */

	/* port: all workers; the port's link is GONE, and each worker forgets the device's descriptors and frames */
	CMD_PORT_LEAVE,
	CMD_PORT_JOIN, /* port: all workers; the device is open again */
	/* change: all workers; from now on the port has the rate of its configuration, and a new impairment */
	CMD_PORT_CHANGE,
	CMD_PORT_UP, /* port: all workers; the line carries frames again, and the neighbours are told our address */

	CMD_LOOK_WORKER,    /* look_worker */
	CMD_LOOK_LISTENERS, /* look_listeners */
	CMD_LOOK_CONNS,     /* look_conns */
	CMD_LOOK_FLOWS,     /* look_flows */
	CMD_LOOK_RECORDS,   /* look_records */
	CMD_TYPES
};

enum conn_verdict {
	CONN_OK,
	CONN_IN_USE,   /* the same addresses and ports have a connection, perhaps in TIME_WAIT */
	CONN_DENIED,   /* the client's user may not have the local port */
	CONN_NO_ROUTE, /* the remote address is not on the port's network and there is no gateway */
	CONN_FULL,     /* cfg.flows connections exist */
	CONN_QP        /* the message engine refused: see qv */
};

enum neigh_verdict {
	NEIGH_READY,    /* the MAC is known */
	NEIGH_WAIT,     /* asked; EVENT_NEIGH follows */
	NEIGH_NO_ROUTE, /* the address is not on the port's network and there is no gateway */
	NEIGH_FULL      /* too many neighbours are being asked */
};

struct cmd_client {
	struct worker_client *const *view; /* [worker] */
};

#define CMD_REGIONS 4u
struct cmd_refers {
	struct {
		const uint8_t *base;
		uint64_t len;
	} region[CMD_REGIONS];
	uint32_t n;
	uint8_t tenant; /* of the queue pairs that can reach the memory: those of the client's user */
	bool found;     /* result, atomic: set by any worker that has such a connection */
};

struct cmd_qp {
	struct qp *qp;
	struct worker_client *client; /* the QP's client, as this worker has it */
	uint32_t bit;                 /* the QP's bit in the client's doorbell */
	bool datagram;                /* the QP lies in a struct ud_qp */
	bool orphan; /* DESTROY: the client has ended: posted work is not sent, a connection goes on without the QP */
	bool has_state; /* CREATE, MODIFY: the QP enters `state` */
	enum qp_state state;
	uint32_t port;            /* CREATE: index of the device */
	struct qp_tune tune, was; /* MODIFY: the new attributes; those that stay if the state cannot be entered */
	/* results */
	enum qp_verdict verdict;
	int err;       /* CREATE, not QP_OK: errno of the socket of the QP's own UDP port; 0: the worker has no room */
	uint64_t seen; /* LEAVE, DESTROY: time of the turn, with which LATER compares */
	bool later;    /* LATER: another turn has begun since */
	bool waits;    /* WAITS */
	bool works;    /* WAITS: the QP is not in ERR */
};

struct cmd_resize {
	struct qp_cq *cq;
	const struct spsc_prod *ring; /* [worker], of qp_cq_rings() */
};

struct cmd_srq {
	struct qp_srq *srq;
	uint64_t seen[RNICD_MAX_WORKERS]; /* results: time of the turn in which the worker released the SRQ */
	/* result, atomic: on some worker the SRQ is still used, or the turn in which the SRQ was released goes on */
	bool again;
};

struct cmd_group {
	struct ud_group *at; /* [worker] */
	struct ud_member *m;
	uint32_t worker;  /* the worker that owns the QP */
	uint32_t workers; /* bit mask of the workers with members after this command */
	uint32_t qps;     /* members after this command */
	bool leaves;
	int err; /* result: 0, or the errno with which the kernel refused the group: the QP is no member */
};

struct cmd_group_bind {
	struct qp *qp;
	struct dgram_bind b;
	bool ok; /* result: of dgram_bind() */
};

struct cmd_send_out {
	uint32_t port;      /* index of the device */
	struct pkt_addr to; /* destination of a datagram */
	const uint8_t *p;
	uint32_t len;
};

struct cmd_listen {
	uint32_t first, last; /* devices [first, last) */
	uint32_t without;     /* bit mask of devices that do not listen: their addresses are of another family */
	uint16_t lport;
	uint16_t backlog; /* connections without an MPA Request at once, on each worker; 0: 64 */
	uint32_t flags;   /* RC_* of the listener's connections */
	uint8_t rev;      /* MPA revision; 0: as configured */
	uint8_t tos;      /* TOS of the packets of the listener's connections */
	uint64_t owner;   /* number of the listener, which the first effect of each of its connections carries */
	enum conn_verdict verdict[RNICD_MAX_WORKERS]; /* result. If not OK, no device listens on the worker */
};

struct cmd_conn_open {
	struct conn_addr addr;
	uint64_t owner; /* the connection's number */
	struct qp_dev *dev;
	struct mpa_policy policy;
	uint32_t flags;               /* RC_* */
	struct handed *handed;        /* a connected socket to use, the connection's after CONN_OK; NULL: a new socket
				       * is opened */
	bool passive;                 /* with handed: the peer sends the MPA Request */
	struct qp *qp;                /* NULL: attached later, by CMD_CONN_JOIN */
	struct worker_client *client; /* the QP's client, as this worker has it */
	struct qp_tune tune;          /* new attributes of the QP */
	uint32_t design;              /* enum ipc_design: the QP's design */
	const uint8_t *priv;
	uint32_t priv_len;
	/* results */
	enum conn_verdict cv;
	enum qp_verdict qv; /* when cv is CONN_QP */
	struct rc *conn;    /* valid until QP_FX_CLOSED */
};

/* How commands name a connection: by its address, and by its number, since another connection may have the address. */
struct cmd_conn {
	struct rc *conn;
	uint64_t key;
};

struct cmd_conn_join {
	struct cmd_conn which;
	struct qp *qp;
	struct worker_client *client;
	const struct qp_tune *tune; /* new attributes of the QP; NULL: they stay as they are */
	uint16_t ird, ord;
	const uint8_t *priv;
	uint16_t priv_len;
	uint8_t tos;    /* JOIN: TOS of the connection's packets from now on */
	uint8_t design; /* enum ipc_design: the QP's design */
	/*
	 * result. JOIN: QP_BAD_STATE if the connection has closed, or the QP's state does not allow the command.
	 * REJECT: QP_OK even if the connection has closed.
	 */
	enum qp_verdict qv;
};

struct cmd_stream_listen {
	uint32_t port; /* index of the device; STREAM_ANY_PORT: all devices whose address is of these families */
	uint16_t lport;
	uint16_t backlog;
	uint8_t families;      /* STREAM_IP4, STREAM_IP6 */
	bool again;            /* changes the backlog of an existing listener; does nothing if the listener has ended */
	struct handed *handed; /* the kernel's listening socket, which the worker takes; plane of sockets only */
	uint64_t key;          /* number of the listener, not 0: STREAM_ARRIVED of its connections carries it */
	enum conn_verdict verdict[RNICD_MAX_WORKERS]; /* result: OK, FULL. If not OK, the worker does not listen */
};

struct cmd_stream_option {
	struct stream *stream; /* NULL: a listener's */
	uint64_t key;          /* the stream's or listener's number */
	int level, name, value;
};

struct cmd_stream {
	struct stream *stream;     /* ADOPT, CLOSE; result of OPEN. Valid until STREAM_CLOSED */
	uint64_t key;              /* the stream's number; OPEN: the number that the stream gets */
	struct conn_addr addr;     /* OPEN */
	struct ipc_stream *mem;    /* OPEN, ADOPT: the program's memory, which stays until STREAM_CLOSED */
	struct stream_user *user;  /* OPEN, ADOPT: the socket's user, as this worker has it */
	uint32_t bit;              /* OPEN, ADOPT: the socket's bit in the user's doorbell */
	bool abort;                /* CLOSE: with a reset */
	bool iwarp;                /* OPEN: the wire is iwarp if the peer can have it */
	struct handed *handed;     /* OPEN: the kernel's socket that connects; the same */
	enum conn_verdict verdict; /* result of OPEN and ADOPT; for ADOPT, CONN_FULL: the connection has ended */
};

struct cmd_gram {
	struct gram *gram;
	struct gram_peer peer; /* PEER */
	/* result of CLOSE: some datagrams could not be sent yet, so the socket is still open; in plane/ only */
	bool waits;
	bool give_up; /* CLOSE: datagrams that wait are discarded */
};

struct cmd_neigh {
	uint32_t port;
	struct pkt_addr dst;
	enum neigh_verdict verdict; /* result */
};

struct cmd_port_change {
	struct rnicd_port *port;
	struct impair **im; /* [worker]: the new impairment; result: the old one, with the frames in it. NULL: none */
};

struct cmd_look_listeners {
	struct look_listener *l; /* [LOOK_LISTENERS] */
	uint32_t n;              /* result */
};

struct cmd_look_conns {
	struct look_conn *c;
	uint32_t n;
};

/* Each worker writes the flows of its own devices. */
struct cmd_look_flows {
	struct look_flow *f; /* [worker][device][LOOK_FLOWS] */
	uint32_t *n;         /* [worker][device]: results */
};

struct cmd_look_records {
	struct look_record *r; /* [worker][LOOK_RECORDS] */
	uint32_t *n;           /* [worker]: results */
};

struct cmd {
	enum cmd_type type;
	void (*done)(struct cmd *c); /* control thread */
	/* the rest belongs to the queue */
	struct cmd *next; /* in the list of commands that wait to be sent */
	uint32_t unsent;  /* bit mask of the workers to which the command must still be sent */
	uint32_t left;    /* how many workers have not answered */
	union {
		struct cmd_client client;
		struct cmd_refers refers;
		struct cmd_qp qp;
		struct cmd_resize resize;
		struct cmd_srq srq;
		struct cmd_group group;
		struct cmd_group_bind group_bind;
		struct cmd_send_out send;
		struct cmd_listen listen;
		struct cmd_conn_open open;
		struct cmd_conn conn;
		struct cmd_conn_join join;
		struct stream_user *const *stream_join; /* [worker] */
		struct cmd_stream_listen stream_listen;
		struct cmd_stream stream;
		struct cmd_stream_option stream_option;
		struct cmd_gram gram;
		struct cmd_neigh neigh;
		struct rnicd_port *port;
		struct cmd_port_change change;
		struct look_worker *look_worker; /* [worker] */
		struct cmd_look_listeners look_listeners;
		struct cmd_look_conns look_conns;
		struct cmd_look_flows look_flows;
		struct cmd_look_records look_records;
	};
};

/* ---- called by the control thread ---- */

/* Send a command to one worker, or to all workers. */

void cmd_send(struct cmd *c, uint32_t worker);
void cmd_send_all(struct cmd *c);
/* Whether the workers have answered every command, and event_collect() has taken all these answers. */
bool cmd_all_answered(void);

/* ---- called by a worker, with its own number ---- */

/* The next command; NULL: none. When the command is carried out, event_answer() gives it back. */
struct cmd *cmd_take(uint32_t worker);
/* Whether cmd_take() would return a command. */
bool cmd_waits(uint32_t worker);

/* ---- between the files of the border ---- */

#define CMD_SLOTS 512u /* commands that one worker has not answered, at most */

/* Called before the workers start, and after they have stopped. False: no memory. */
bool cmd_start(uint32_t workers);
void cmd_stop(void);
/* Sends commands that wait to be sent, as far as there is room. */
void cmd_go_on(void);
/* Called when a worker's answer has come: runs `done` after the last answer. */
void cmd_answered(struct cmd *c, uint32_t worker);

#endif
