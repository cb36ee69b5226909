/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The event queue: reports of the workers to the control thread, in the order in which each worker makes them.
 *
 * An event has a class. An answer to a command always has room: room for all commands under way is kept free. If there
 * is no room for a lossless event, the worker tries again in its next turn, and until then does nothing that makes more
 * such events. A droppable event is lost if there is no room, or only the room that is kept for lossless events; its
 * content is reported again later, or the loss is the same as the loss of a packet on the network. Notifications of
 * CQs, which a client can cause as often as it likes, leave room for all of these, and wait where there is none.
 *
 * The control thread is woken once per turn of a worker at most, by event_flush(), and only when it sleeps.
 */
#ifndef EVENT_H
#define EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "border/cmd.h"
#include "border/rnicd.h"
#include "ipc/ipc_shm.h"

enum event_type {
	EVENT_ANSWER, /* cmd: a command has been carried out. The queue itself handles this event */
	EVENT_FX,     /* fx: lossless. An effect on a connection, QP, CQ or SRQ */
	EVENT_SIDR,   /* sidr: droppable. A message for the datagrams' connection manager */
	EVENT_NEIGH,  /* neigh: droppable. The neighbour that CMD_NEIGH has asked for is known, or does not answer */
	EVENT_QUERY,  /* query: droppable. A router asks which groups are wanted */
	EVENT_STREAM, /* stream: lossless. Something has happened to a stream socket */
	EVENT_PATH    /* path: droppable. A connection's path takes only packets below the port's MTU */
};

enum event_class { EVENT_LOSSLESS, EVENT_DROPPABLE };

/* The contents of a struct qp_fx. */
struct event_fx {
	uint8_t type; /* enum qp_fx_type */
	uint8_t code;
	uint16_t priv_len;
	uint16_t ird, ord;
	uint32_t vendor_err;
	uint8_t spacings;
	uint32_t worker;
	uint32_t port;                 /* connection: index of the device */
	uint64_t owner;                /* number of the connection, QP, CQ or SRQ */
	uint64_t listener;             /* first effect of a passive connection: number of its listener */
	struct rc *conn;               /* connection: later commands name it by this address and owner */
	struct ipc_addr local, remote; /* connection: its two ends */
	uint8_t priv[IPC_PRIV_MAX];
};

/*
 * The control thread numbers the objects that it makes, from 1. A worker numbers passive connections when they have
 * their first effect; these numbers have this bit set.
 */
#define EVENT_OWNER_PASSIVE (UINT64_C(1) << 63)

struct event_sidr {
	uint32_t port;        /* index of the device */
	uint8_t kind;         /* enum udpl_kind */
	struct ipc_addr from; /* IP address of the sender */
	uint32_t len;
	uint8_t body[IPC_PRIV_MAX];
};

struct event_neigh {
	uint32_t port;
	int32_t status; /* 0 or -EHOSTUNREACH */
	struct pkt_addr addr;
};

struct event_query {
	uint32_t port;
	uint8_t version; /* of IGMP */
	bool all;        /* the router asks about all groups; else about `group` */
	uint32_t within_ms;
	struct pkt_addr group;
};

struct event_stream {
	uint32_t bits; /* STREAM_* of stream_view.h */
	uint32_t port; /* index of the device */
	uint64_t key;
	uint64_t listener;     /* STREAM_ARRIVED: key of the listener; 0: the listener has ended */
	struct stream *stream; /* by which later commands name the stream, together with key */
	struct ipc_addr local, remote;
};

struct event_path {
	uint32_t port;
	uint32_t mtu; /* largest IP packet that passes, bytes */
	struct pkt_addr remote;
};

struct event {
	enum event_type type;
	uint32_t worker;
	union {
		struct cmd *cmd;
		struct event_fx fx;
		struct event_sidr sidr;
		struct event_neigh neigh;
		struct event_query query;
		struct event_stream stream;
		struct event_path path;
	};
};

/* ---- called by a worker, with its own number ---- */

/* Where to write the type and body of the next event, which event_put() then sends; NULL: no room. */
struct event *event_room(uint32_t worker, enum event_class class);
/* For how many notifications of CQs (EVENT_FX without private data) there is room. */
uint32_t event_notify_room(uint32_t worker);
void event_put(uint32_t worker);
/* Sends the answer to a command that has been carried out. */
void event_answer(uint32_t worker, struct cmd *c);
/* Called at the end of a turn: wakes a sleeping control thread if events were sent in this turn. */
void event_flush(uint32_t worker);

/* ---- called by the control thread ---- */

/*
 * Sends commands that wait; takes up to n events, runs `done` of answered commands and passes all other events to
 * `take`. Returns the number of events.
 */
uint32_t event_collect(uint32_t n, void (*take)(const struct event *ev));

/*
 * Called around the control thread's poll(). event_prepare_sleep() true: the control thread may sleep until
 * rnicd.control_fd becomes readable; false: there are events to collect already. event_awake() is called after the
 * sleep, and clears the descriptor.
 */
bool event_prepare_sleep(void);
void event_awake(void);

/*
 * Make and free both queues and rnicd.control_fd. Called before the workers start, and after they have stopped. False
 * with a sentence in err.
 */
bool event_start(uint32_t workers, char *err, uint32_t err_len);
void event_stop(void);

#endif
