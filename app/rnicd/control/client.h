/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Client processes: their sockets, regions and objects. Control thread only (telemetry's thread reads under loop_lock).
 *
 * A client has at most one request under way; until the answer, the client's socket is not read. A request that a
 * worker must carry out is answered when the worker has answered. A few requests that may take seconds are put off:
 * others are served before their answers (client_put_off). Each message of a client is copied and checked before it is
 * used.
 *
 * A client ends ("dies") when its socket is closed, when it sends a malformed message, or when it does not read an
 * answer. Its socket is then no longer read, and the request under way is completed. Its connection manager ids are
 * destroyed, then its QPs. The death waits until no other client uses PDs that it has lent (client_token.c). Then its
 * STags are closed, and the workers forget its doorbells. When no packet refers to its memory any more, its objects are
 * freed and its regions are unmapped. client_death.c has the steps.
 */
#ifndef CLIENT_H
#define CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/rn_list.h"
#include "control/client_ev.h"
#include "control/client_maps.h"
#include "control/fds.h"
#include "border/event.h"
#include "ipc/ipc.h"
#include "control/loop.h"
#include "control/owner.h"
#include "control/spans.h"
#include "rc/rc.h"
#include "control/table.h"
#include "control/unmap.h"
#include "control/user.h"

enum client_state {
	CLIENT_NEW = 0, /* accepted, waits for HELLO */
	CLIENT_JOINING, /* its regions are mapped; waits for the workers' answers to CMD_CLIENT_ADD */
	CLIENT_READY,   /* serves requests */
	CLIENT_SOCKETS, /* has sent SOCK_JOIN: only requests about sockets are served */
	CLIENT_DYING,   /* the steps of client_death.c, one after the other; each waits for the workers' answers */
};

struct keeper;
struct oob;
struct client_member;

struct client_region {
	uint8_t *base; /* NULL: absent */
	uint64_t size;
	int watch; /* number of the watch that sigbus_watch() returned */
};

/* Shared memory that the client has mapped from elsewhere (IPC_IMPORT). */
struct client_import {
	uint8_t *base; /* address in client.room */
	uint64_t len;
	uint64_t page;         /* bytes of a page of its file */
	uint32_t users;        /* number of MRs' pieces that lie in it */
	struct keeper *keeper; /* its release: another mapping of the file; NULL: none */
	uint64_t cleared;      /* its release: bytes that are no longer mapped */
	bool writable;
};

struct client_pd {
	struct client *c;
	uint32_t handle;
	uint32_t dev;
	uint32_t id; /* unique in the daemon; lib/qp compares it. An imported PD has the id of the PD it stands for */
	uint32_t users;           /* MRs, MWs, SRQs and QPs: client_pd_use() */
	bool borrowed;            /* imported: stands for another PD, most often of another client */
	bool left;                /* its client has ended; MRs in it may still be used by other clients */
	struct client_pd *lender; /* the PD that it stands for; NULL: that PD is gone, or this one is not imported */
	struct rn_list guests;    /* imported PDs that stand for this one */
	struct rn_link guest;     /* in lender->guests */
	uint32_t live, dead;      /* numbers of guests that have not left, and that have */
	uint32_t in_use;          /* number of guests that have not left and have users */
	struct rn_list mrs, mws;  /* struct client_mr and client_mw in it, by `in_pd` */
};

struct client_mr {
	struct owner owner; /* key: device and index in the device's STag table; importers name the MR by this index */
	struct client_pd *pd;
	struct rn_link in_pd;
	uint32_t handle;
	uint32_t stag;
	bool counted; /* its STag is counted in the user's share */
	uint64_t len;
	uint64_t shared; /* bytes counted in USER_MEMORY, without hugepages */
	uint32_t npieces;
	struct qp_piece *pieces;        /* NULL when it is one piece */
	struct qp_piece one;            /* the first piece */
	struct client_import **imports; /* an entry for each piece that lies in an import: that import */
	uint32_t nimports;
};

struct client_mw {
	struct client_pd *pd;
	struct rn_link in_pd;
	uint32_t handle;
	uint32_t stag; /* its key may be out of date: the client chooses a new key with each bind */
};

struct client_cq {
	struct owner owner;
	struct client *c;
	uint32_t handle;
	uint32_t dev;
	uint32_t cqe;
	uint64_t ring_off, ring_stride; /* place of its rings, as in ipc_create_cq */
	uint32_t users;                 /* QPs */
	uint64_t cookie;
	struct client_chan *chan;  /* NULL: none */
	struct client_chan *async; /* NULL: none */
	struct rn_list untold;     /* struct ev_node, by `of_object`: its asynchronous events that wait for room */
	struct ev_node ev;         /* its completion event, while that waits for room; there is at most one */
	struct ipc_comp_event event;
	bool told;                 /* its overrun has been reported */
	struct span shm, rings[2]; /* one of rings[] has a length, both while the CQ is being resized */
	struct qp_cq *cq;
};

/* An XRC domain that the client has open: client_xrc.c. */
struct xrcd;
struct client_xrcd {
	struct xrcd *d;
	uint32_t handle;
	uint32_t users; /* SRQs and target QPs that use it */
};

/* The client's handle of a target queue pair. The queue pair itself belongs to its XRC domain. */
struct client_target {
	struct client *c;
	uint32_t handle;
	struct client_qp *q; /* NULL: the queue pair is gone */
	struct client_xrcd *x;
	uint64_t cookie;
	struct client_chan *async; /* NULL: none */
	struct rn_list untold;     /* struct ev_node, by `of_object`: its asynchronous events that wait for room */
	struct rn_link link;       /* in q->opens */
};

struct client_srq {
	struct owner owner;
	struct cmd cmd;           /* XRC: CMD_SRQ_LEAVE, with which its destruction begins */
	struct client_xrcd *xrcd; /* NULL: none */
	struct client_cq *cq;     /* XRC */
	bool withdrawn;           /* XRC: its destruction has begun */
	struct client *c;
	uint32_t handle;
	uint32_t slots; /* counted against the quota */
	uint32_t users; /* QPs */
	uint64_t cookie;
	struct client_pd *pd;
	struct client_chan *async; /* NULL: none */
	struct rn_list untold;     /* struct ev_node, by `of_object`: its asynchronous events that wait for room */
	struct span ring;
	struct qp_srq *srq;
};

/* The operation under way on a QP. One writer: client_qp_run_set_state. */
enum client_qp_state {
	CLIENT_QP_FREE,     /* no operation: a request, a timer or a connection may start one (hold, command, lend,
			     * destroy) */
	CLIENT_QP_HELD,     /* a command about it is under way, or it is being connected; return makes it FREE, lend
			     * LEAVING */
	CLIENT_QP_LEAVING,  /* moves to another worker: the old worker is releasing it */
	CLIENT_QP_ARRIVING, /* moves to another worker: the new worker is being told; then HELD by the borrower */
	CLIENT_QP_ENDING    /* is being destroyed */
};

/* The attributes of a queue pair that a client may change; a request changes all of them or none. */
struct client_qp_attr {
	uint32_t access, ird, ord, qkey;
	uint64_t rnr_ns, rnr_unit_ns, silence_ns; /* of struct qp */
	uint8_t rnr_told;                         /* of struct qp */
};

struct client_qp {
	struct owner owner;
	struct cmd cmd; /* one at a time */
	struct client *c;
	uint32_t handle;
	uint32_t qpn;
	uint32_t worker;
	uint32_t db_bit;
	uint32_t slots;                /* counted against the quota */
	struct client_qp_attr at, was; /* was: `at` before the change under way, restored if that fails */
	uint64_t cookie;
	struct client_pd *pd;
	struct client_cq *scq, *rcq;
	struct client_srq *srq;    /* NULL: a receive queue of its own */
	struct client_chan *async; /* NULL: none */
	struct rn_list untold;     /* struct ev_node, by `of_object`: its asynchronous events that wait for room */
	struct qp *qp;
	uint32_t design;             /* enum ipc_design; the daemon has only one */
	uint32_t xrc;                /* enum ipc_xrc */
	struct xrcd *xrcd;           /* TARGET: its domain, whose `host` is c */
	struct qp_target *no_queues; /* TARGET: empty queues for the engine, as a target has none of its own */
	struct rn_list opens;        /* TARGET: struct client_target */
	uint32_t n_opens;            /* how many of those there are */
	struct client *asker;        /* TARGET: the client whose request about it is under way; held */
	struct client *parker;       /* the client whose request waits (see parked); held if it is not c */
	bool datagram;
	bool reliable;     /* a queue pair of reliable datagrams; datagram is set too */
	bool deaf;         /* does not receive its own messages to groups */
	bool coming;       /* its worker has not been told of it yet, and will put it in INIT */
	uint16_t udp_port; /* UDP port of its own; 0: it uses datagram-port */
	uint32_t n_groups;
	struct rn_slist groups; /* struct client_member: its memberships in groups (client_group.c) */
	enum client_qp_state state;
	uint32_t target; /* the worker to which it was lent last */
	struct span shm, sq, rq, held, maps;
	struct qp_hold *hold;              /* rnicrun --sanitize: delays the peer's Writes; NULL: does not */
	void (*then)(struct client_qp *q); /* called when LEAVING and ARRIVING, or ENDING, are done */
	void *borrower;                    /* the argument of client_qp_lend, for `then` */
	struct oob *oob;                   /* without connection manager: its connection, from RTR on; else NULL */
	uint32_t asked;                    /* enum qp_state: the latest that the client has asked for */
	void (*parked)(struct client *c);  /* continues the client's request that waits for the answer to the command
					    * under way */
	struct rn_link by_qpn;             /* in its bucket of client_qp.c: QPs with the same hash of the QPN */
};

struct client {
	struct loop_fd src;   /* the socket */
	struct rn_link link;  /* clients.all */
	struct rn_link dying; /* clients.dying */
	struct rn_slink dead; /* clients.dead */
	enum client_state state;
	uint32_t id; /* for messages and telemetry */
	pid_t pid;
	uid_t uid;
	struct user *user;
	bool counted; /* counted in its user's share */
	struct client_proc proc;
	struct client_region region[IPC_REGIONS];
	struct client_region room;           /* addresses of its imports; base NULL: none yet */
	struct unmap unmap[IPC_REGIONS + 1]; /* for the death: unmaps the regions and the room */
	uint64_t addresses;                  /* bytes of the regions and the room, counted in USER_ADDRESSES */
	int wake_fd;
	struct worker_client *wc[RNICD_MAX_WORKERS]; /* each worker's own record of this client */
	struct table pd, mr, mw, cq, srq, qp, chan, cm, imports, xrcd, target;
	struct rn_list conns;               /* its connections: struct cm_conn, by `mine` */
	struct xrcd *hosts;                 /* the XRC domain whose host this client is; NULL: an ordinary client with a
					     * process */
	uint64_t db_used[IPC_MAX_QPS / 64]; /* doorbell bits in use */
	uint64_t memory;                    /* registered memory, bytes */
	uint64_t slots;                     /* of all its queues, for the quota */
	struct spans spans;                 /* the ranges of its queue region that its queues use */
	uint64_t pieces;                    /* of all its memory regions */
	uint32_t *huge;                     /* pieces in each hugepage (client_mr.c); NULL: none has been counted */
	uint32_t waiting;                   /* copies of events that wait for room in its event queues */
	uint32_t under_way; /* operations whose end its death must wait for: client_hold, client_unhold */
	struct owner asked; /* key of its job at a helper: receiving a message with descriptors, or `opening` */
	void (*opening)(struct client *c, struct fds_result *r); /* continues the request with the opened file */
	struct fds_job *closing; /* job that closes its socket, allocated in advance; NULL: closed */
	int sock;                /* dying: its socket, until that is closed */
	bool passed;             /* was sent descriptors */
	struct ipc_msg req;      /* the request under way */
	uint64_t shown;          /* the kernel's number of the descriptor that came with IPC_SOCK_FIND */
	int shown_fd;            /* IPC_SOCK_TAKE: that descriptor, during the request; -1: rnicd has not received it */
	struct rn_list reaches;  /* struct reach of client_reach.c, by `mine`: its requests IPC_REACH that wait */
	uint32_t put_off;        /* how many of those do not hold up other requests */
	bool busy;               /* a request is under way */
	bool deaf;               /* busy, and another request lies in its socket: EPOLLIN is off until the answer */
	bool joined;             /* the workers know it */
	bool shared;             /* other clients' connections may have bytes of its memory to send (PD, XRC) */
	uint32_t step;           /* the step that its death has reached */
	struct loop_timer timer; /* continues a registration or a release of an import (in portions), or the death */
	struct client_mr_job *job; /* the registration under way */
};

/* Enters obj into one of the client's tables, whose memory counts in its user's share (USER_OBJECTS). Returns the
 * handle; 0: no memory. */
static inline uint32_t client_table_add(struct client *c, struct table *t, void *obj)
{
	const uint64_t more = table_grows_by(t);

	if (more > 0 && !user_take(c->user, USER_OBJECTS, 0, more))
		return 0;
	const uint32_t handle = table_add(t, obj);
	if (handle == 0)
		user_give(c->user, USER_OBJECTS, 0, more);
	return handle;
}

static inline void client_table_free(struct client *c, struct table *t)
{
	user_give(c->user, USER_OBJECTS, 0, table_size(t));
	table_free(t);
}

/* ---- clients come (client_accept.c) ---- */

/* Accepts clients from this listening socket; -1: there is none, and clients come by client_adopt() only. */
bool client_start(int listen_fd);
/* Takes over a client's socket, which is connected and O_NONBLOCK. */
void client_adopt(int fd);
/* Closes the sockets of all clients and releases the clients; done when clients.n is 0. */
void client_stop(void);
/* Called at the end of each turn of the loop: continues deaths whose current step is over, and frees clients whose
 * death is complete. */
void client_reap(void); /* client_death.c */

/* Written by client.c and client_accept.c only. */
struct clients {
	struct rn_list all;   /* newest first; includes dying clients until their death is complete */
	struct rn_list dying; /* their deaths are continued at the end of the loop's turn */
	struct rn_slist dead; /* freed at the end of the turn */
	uint32_t n;           /* of `all` */
	bool stopping;        /* rnicd ends, and waits for no client that does not read */
};
extern struct clients clients;

struct client_totals {
	uint64_t accepted, refused, died, dropped; /* dropped: disconnected by rnicd because it broke a rule */
	uint64_t requests, bad_requests;
	uint64_t cq_events; /* client_chan.c */
};
extern struct client_totals client_totals;

/* ---- answers (client.c) ---- */

/* Makes the host of an XRC domain: a client without process that owns the target QPs. NULL: no memory, or the user's
 * share is used up. */
struct client *client_host(struct user *u, uid_t uid); /* client_accept.c */
bool client_host_join(struct client *c);               /* client_hello.c */

/* Answers the request c->req with m of len bytes; fills in type and seq of m. */
void client_answer(struct client *c, struct ipc_msg *m, uint16_t len);
/* The same with n descriptors, which stay open in rnicd. */
void client_answer_fds(struct client *c, struct ipc_msg *m, uint16_t len, const int *fds, uint32_t n);
/*
 * The request under way will be answered by client_answer_late(), and does not hold up others until then. Its kind has
 * an answer without data and without descriptors, and its caller bounds their number.
 */
void client_put_off(struct client *c);
struct client_late {
	uint16_t type;
	uint32_t seq;
	bool put_off; /* false: it is the request under way */
};
/* err: 0 or a positive errno, with a sentence. */
void client_answer_late(struct client *c, const struct client_late *late, int err, const char *text);
void client_ok(struct client *c);
void client_ok_handle(struct client *c, uint32_t handle);
/* err: positive errno. The client's library may show the sentence to its user. */
void client_error(struct client *c, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same with ENOMEM, for a request that exceeds a quota; also logged. */
void client_over_quota(struct client *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* hold: an operation for the client has begun, and the client's death waits for its end. unhold: it has ended. */
void client_hold(struct client *c);
void client_unhold(struct client *c);
/* An operation of the workers for the client has ended. True: answer the client. False: the client is dying. */
bool client_back(struct client *c);
/* Disconnects the client because it broke a rule. */
void client_drop(struct client *c, const char *why);
/* Begins the client's death; further calls do nothing. Nothing is released before the end of the loop's turn. */
void client_die(struct client *c);
/* Closes the dying client's socket. False: descriptors that it was sent lie unread in it. They count against rnicd's
 * limit until the client reads them or closes its end, so its place in its user's share is kept as long. */
bool client_close(struct client *c);

/* Counts a client's place, descriptors and mappings in the user's share. False: the user's share is used up. */
bool client_count_in(struct user *u);
void client_count_out(struct client *c);
/* Ends `deaf`: the loop reads the client's socket again. */
void client_listen_again(struct client *c);

/* ---- reading a client's socket (client_serve.c) ---- */

/* Called before the first client comes: `serve` will carry out the requests IPC_SOCK_*. */
void client_serve_sockets(void (*serve)(struct client *c));
/* The same, for a process that refuses all other requests. */
void client_serve_only_sockets(void (*serve)(struct client *c));
void client_on_ready(struct loop_fd *f, uint32_t events);    /* the client's socket is readable */
void client_on_fds(uint64_t key, struct fds_result *result); /* a helper has ended a job for the client */

/* ---- requests: each answers the client, at once or when a worker has answered ---- */

/* Handlers of requests. A handler keeps a descriptor by setting fd to -1; the caller closes all others. */
void client_hello(struct client *c, struct fds_given *g, uint32_t n); /* client_hello.c */
void client_forget_regions(struct client *c);
/* Counts n bytes of rnicd's address space for the client. False: its user's share is used up. */
bool client_addresses_take(struct client *c, uint64_t n);
void client_addresses_give(struct client *c, uint64_t n);
/* Begins to unmap its regions and the address range of its imports, which nobody uses any more. */
void client_unmap(struct client *c);
/* Whether all of them are unmapped. */
bool client_is_unmapped(const struct client *c);
/* Drops clients whose memory has vanished under a worker (sigbus.h). */
void client_check_memory(void);
void client_forget_workers(struct client *c); /* frees c->wc */

void client_query_dev(struct client *c); /* client_obj.c */
void client_alloc_pd(struct client *c);
void client_dealloc_pd(struct client *c);
/* NULL: there is no such PD, or it is an import of a PD that is gone. */
struct client_pd *client_pd_get(const struct client *c, uint32_t handle);
void client_pds_free(struct client *c);
void client_create_cq(struct client *c);
void client_resize_cq(struct client *c);
void client_destroy_cq(struct client *c);
void client_cq_free(struct client_cq *q);

/*
 * Datagram queue pairs (client_gram.c). refusal: why the queue pair cannot be made, and the errno in *err; NULL: it
 * can. size: bytes of its structure. begin: takes what it needs beyond struct qp; false: not possible, and the caller
 * destroys the queue pair.
 */
const char *client_gram_refusal(const struct client *c, const struct ipc_create_qp *r, uint32_t dev, int *err);
size_t client_gram_size(const struct ipc_create_qp *r);
bool client_gram_begin(struct client_qp *q, const struct ipc_create_qp *r);
/* Why the worker did not take one, from the errno in cmd_qp.err. */
const char *client_gram_why(int err);
void client_gram_end(struct client_qp *q);

/*
 * Of three sentences the one for this program: over rnicd, embedded, or with the designs host and assisted. Only the
 * first may speak of rnicd's configuration.
 */
static inline const char *client_by_design(const char *over_rnicd, const char *embedded, const char *design)
{
	if (!rnicd.own)
		return over_rnicd;
	return (rnicd.designs & 1u << IPC_DESIGN_EMBEDDED) != 0 ? embedded : design;
}
/*
 * Delayed Writes (client_hold.c). refusal: why the queue pair cannot delay Writes as asked; NULL: it can. begin: false:
 * no memory, or hold_off is not a possible place; the caller destroys the queue pair.
 */
const char *client_hold_refusal(const struct ipc_create_qp *r);
bool client_hold_begin(struct client_qp *q, const struct ipc_create_qp *r);
void client_hold_end(struct client_qp *q);
void client_inject(struct client *c); /* client_inject.c */
/* The channel on which the client gets orders of rnicctl inject. NULL: it takes no orders. */
struct client_chan *client_orders(const struct client *c);
void client_reach(struct client *c); /* client_reach.c */
void client_reach_neigh(const struct event_neigh *ev);
/* The client is dying: forgets its requests that wait for a neighbour, as soon as no worker knows them. */
void client_reaches_leave(struct client *c);

void client_create_srq(struct client *c); /* client_srq.c */
void client_modify_srq(struct client *c);
void client_query_srq(struct client *c);
void client_destroy_srq(struct client *c);
void client_srq_free(struct client_srq *s);
/* The client is dying: makes target QPs release all its XRC shared receive queues. */
void client_srqs_withdraw(struct client *c);

void client_open_xrcd(struct client *c, struct fds_given *g, uint32_t n); /* client_xrc.c */
void client_close_xrcd(struct client *c);
void client_create_any_qp(struct client *c);
void client_destroy_any_qp(struct client *c);
void client_open_qp(struct client *c);
/* The workers' part of the domain that x has open, and the domain's device. */
struct qp_xrcd *client_xrcd_view(const struct client_xrcd *x);
uint32_t client_xrcd_dev(const struct client_xrcd *x);
/* The client is dying: gives up its handles of target QPs, and later, when its XRC shared receive queues are withdrawn,
 * its domains. */
void client_targets_leave(struct client *c);
void client_xrcds_leave(struct client *c);
/* The death of a domain's host is complete. */
void client_host_gone(struct client *host);

void client_create_channel(struct client *c, struct fds_given *g, uint32_t n); /* client_chan.c */
void client_destroy_channel(struct client *c);
void client_chan_free(struct client_chan *ch);
/*
 * A CQ, QP, SRQ or handle of a target ends: withdraws its waiting asynchronous events, which would name memory that the
 * client may have freed by then. ch: the object's channel for them, or NULL.
 */
void client_async_leave(struct client_chan *ch, struct rn_list *untold);
/* Sends IBV_EVENT_PORT_ACTIVE (up) or IBV_EVENT_PORT_ERR to every context that is open on the device. */
void client_port_event(uint32_t dev, bool up);
/* Finds the client's channel of this kind for objects of dev; handle 0: *ch is NULL. False: there is no such
 * channel. */
bool client_chan_find(const struct client *c, uint32_t handle, uint32_t kind, uint32_t dev, struct client_chan **ch);

void client_import(struct client *c, struct fds_given *g, uint32_t n); /* client_import.c */
/* Lets a helper open the file behind a mapping of the client; `then` continues the request. False: no memory. */
bool client_open(struct client *c, const struct fds_mapping *m, void (*then)(struct client *c, struct fds_result *r));
void client_forget(struct client *c);
struct client_import *client_import_get(const struct client *c, uint32_t region); /* NULL: no such import */
/* Called at the end of the loop's turn: files of released imports that are unmapped no longer count for their user. */
void client_keepers_reap(void);
/* Frees the records of the imports, whose address range is unmapped. */
void client_imports_free(struct client *c);

void client_reg_mr(struct client *c); /* client_mr.c */
void client_dereg_mr(struct client *c);
void client_mr_free(struct client *c, struct client_mr *mr);
/* Closes the region to new accesses. The caller frees it after every worker has answered CMD_NOTHING. */
void client_mr_void(struct client_mr *mr);
/* The region with this index in the device's STag table; NULL: none. */
struct client_mr *client_mr_of(uint32_t dev, uint32_t index);

void client_alloc_mw(struct client *c); /* client_mw.c */
void client_dealloc_mw(struct client *c);
/* Called when the window is closed and every worker has answered CMD_NOTHING since. */
void client_mw_free(struct client *c, struct client_mw *mw);

void client_token(struct client *c, struct fds_given *g, uint32_t n); /* client_token.c */
void client_token_dev(struct client *c, struct fds_given *g, uint32_t n);
void client_token_pd(struct client *c, struct fds_given *g, uint32_t n);
void client_token_mr(struct client *c, struct fds_given *g, uint32_t n);
/* An imported PD no longer stands for its lender's PD: closes the STags in it, and continues deaths that have waited
 * for this. Does nothing if p is not imported. */
void client_pd_return(struct client_pd *p);
/*
 * Called when the dying client's QPs are gone. False: other clients use PDs that it has lent, or its regions in their
 * PDs; its death continues when they no longer do. True: all imported PDs have been returned.
 */
bool client_pds_leave(struct client *c);
/* A region will be added to the imported PD p: the lender sends only by copy once every worker has answered
 * CMD_NOTHING. (The importer does so since the import.) */
void client_pd_shares(const struct client_pd *p);
void client_pd_use(struct client_pd *p); /* an object in the PD begins, or ends */
void client_pd_unuse(struct client_pd *p);

void client_create_qp(struct client *c); /* client_qp.c */
void client_modify_qp(struct client *c);
void client_query_qp(struct client *c);
void client_destroy_qp(struct client *c);
/* A random QPN that no QP has; 0: almost none is free. */
uint32_t client_qp_number(const struct rnicd_port *port, bool datagram);
/* Enters the QP into its client's tables, by handle and doorbell bit, and into the daemon's, by QPN. False: no
 * memory. */
bool client_qp_enter(struct client_qp *q, uint64_t owner);
/* NULL: the client has no such QP. */
struct client_qp *client_qp_get(const struct client *c, uint32_t handle);
/* The same, if no operation is under way on the QP. NULL: the client was answered with an error, or the request waits
 * and `again` will carry it out. */
struct client_qp *client_qp_find(struct client *c, uint32_t handle, void (*again)(struct client *c));
/* Destroys the QP, which is FREE; then answers the client, unless the client is dying. */
void client_qp_end(struct client_qp *q);
/* Sets how long the QP waits for a silent peer: timeout and retry_cnt of struct ipc_modify_qp. */
void client_qp_silence(struct client_qp *q, uint32_t timeout, uint32_t retry_cnt);
/* The attributes that the client may have changed, in the engine's form. tell_drained is false. */
struct qp_tune client_qp_tune(const struct client_qp *q);
/* Sets how long messages wait for a receive: rnr_retry 0..7 and the code of the RNR timer. Takes effect with the next
 * command about the QP. */
void client_qp_rnr(struct client_qp *q, uint32_t retry, uint32_t timer);
/* ---- the operation under way on a QP (client_qp_run.c) ---- */

static inline bool client_qp_is_free(const struct client_qp *q) { return q->state == CLIENT_QP_FREE; }
static inline bool client_qp_is_ending(const struct client_qp *q) { return q->state == CLIENT_QP_ENDING; }

/* Reserves the QP for the caller. The QP is FREE, or HELD by the caller. */
void client_qp_hold(struct client_qp *q);
/* The same, and sends q->cmd, whose arguments are set, to the QP's worker. `done` ends with client_qp_return. */
void client_qp_command(struct client_qp *q, enum cmd_type type, void (*done)(struct cmd *));
/* Reserves the QP, makes `worker` its owner, and then calls `then`; at once if the QP is at that worker already. A QP
 * with a connection stays where it is: `then` asks client_qp_is_there(). */
void client_qp_lend(struct client_qp *q, uint32_t worker, void *borrower, void (*then)(struct client_qp *q));
/* Whether the QP is at the worker to which it was lent. Only there may it be attached to a connection. */
static inline bool client_qp_is_there(const struct client_qp *q) { return q->worker == q->target; }
/* HELD to FREE: continues the request, or the step of the QP's connection, that waits for the QP. */
void client_qp_return(struct client_qp *q);
/* The two halves of client_qp_return, for callers that do something in between. give_back: false: the QP's client is
 * dying. */
bool client_qp_give_back(struct client_qp *q);
void client_qp_go_on(struct client_qp *q);
/* ask: a request of client c about the QP has begun. asked: the request has ended; returns c, which may be dying. */
void client_qp_ask(struct client_qp *q, struct client *c);
struct client *client_qp_asked(struct client_qp *q);
/*
 * A new connected QP, whose q->cmd.qp is set: calls `answer`, which answers the client, and then tells the worker. A
 * worker refuses no such QP, and commands reach a worker in order, so the QP is FREE from the start. False: no memory.
 */
bool client_qp_create(struct client_qp *q, void (*answer)(const struct client_qp *q));
/* FREE to ENDING: the worker destroys the QP; `then` frees the QP and calls client_back() or client_unhold(). */
void client_qp_destroy(struct client_qp *q, void (*then)(struct client_qp *q));

/* Chooses the worker of a new QP. */
uint32_t client_qp_home(const struct client_qp *q);
/* Gives a new QP, whose q->shm is set, to that worker; takes it from its worker at its end. */
void client_qp_place(struct client_qp *q);
void client_qp_unplace(struct client_qp *q);
/* The arguments common to all commands about the QP. */
struct cmd_qp client_qp_args(const struct client_qp *q);

/* The QP with this number; NULL: none. */
struct client_qp *client_qp_of(uint32_t qpn);

/* Reports an effect about a CQ, SRQ or QP to the client, as an event on a channel. */
void client_fx(const struct event_fx *fx);

/* ---- death (client.c; its steps: client_death.c) ---- */

/* If the client is dying and no operation is under way for it: continues its death at the end of the turn. */
void client_death_soon(struct client *c);
/* The death is complete; the client's memory is freed at the end of the turn. */
void client_gone(struct client *c);

#endif
