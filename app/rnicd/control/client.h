/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Client processes: their sockets, regions and objects. Control thread only (telemetry's thread reads under loop_lock).
 *
 * A client has at most one request under way: while it is, its socket is not read. A request that a worker must carry
 * out is answered when the worker has answered. What a client says is copied and checked before it is used.
 *
 * A client ends ("dies") when its socket is closed, when it sends a malformed message, or when it does not read an
 * answer. Its requests are then no longer read, and the one under way is completed. Its connection manager ids are
 * destroyed, then its QPs. PDs that it has lent to others (client_token.c) are waited for. Then its memory regions, CQs
 * and channels are freed, and workers forget its doorbells. When no packet refers to its memory any more, the regions
 * are unmapped.
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

#define CLIENTS_MAX 512u /* connected clients, including those that have not sent HELLO */

enum client_state {
	CLIENT_NEW = 0, /* accepted, waits for HELLO */
	CLIENT_JOINING, /* its regions are mapped; the workers' answers to CMD_CLIENT_ADD are awaited */
	CLIENT_READY,   /* serves requests */
	CLIENT_SOCKETS, /* has sent SOCK_JOIN: only requests about sockets are served */
	CLIENT_DYING,   /* the steps of client_death.c, one after the other; each waits for the workers' answers */
};

struct oob;
struct client_member;

struct client_region {
	uint8_t *base; /* NULL: absent */
	uint64_t size;
	int watch; /* number of its watch in sigbus.h */
};

/* Shared memory that the client has mapped from elsewhere (IPC_IMPORT). */
struct client_import {
	uint8_t *base; /* address in client.room */
	uint64_t len;
	uint32_t users; /* pieces of MRs */
	bool writable;
};

struct client_pd {
	struct client *c;
	uint32_t handle;
	uint32_t dev;
	uint32_t id;    /* unique in the daemon; lib/qp compares it. An imported PD has the id of its lender's */
	uint32_t users; /* MRs, MWs, SRQs and QPs */
	bool borrowed;  /* imported: stands for another PD, most often of another client */
	bool left;      /* its client has ended: its regions may still serve importers */
	struct client_pd *lender; /* the PD that it stands for; NULL when that is gone */
	struct rn_list guests;    /* imported PDs that stand for this one */
	struct rn_link guest;     /* in lender->guests */
};

struct client_mr {
	struct owner owner; /* key: device and index in its STag table, by which importers name it */
	struct client_pd *pd;
	uint32_t handle;
	uint32_t stag;
	bool counted; /* its STag is counted in its user's share */
	uint64_t len;
	uint32_t npieces;
	struct qp_piece *pieces;        /* NULL when it is one piece */
	struct client_import **imports; /* the import of each piece, if any; NULL: no piece lies in one */
	uint32_t nimports;
};

struct client_mw {
	struct client_pd *pd;
	uint32_t handle;
	uint32_t stag; /* with any key: the client changes the key */
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
	struct ev_node ev;         /* its completion event that is not delivered yet; there is at most one */
	struct ipc_comp_event event;
	bool told;                 /* its overrun has been reported */
	struct span shm, rings[2]; /* only one of the two has a length, both while the CQ is being resized */
	struct qp_cq *cq;
};

/* An XRC domain that the client has open: client_xrc.c. */
struct xrcd;
struct client_xrcd {
	struct xrcd *d;
	uint32_t handle;
	uint32_t users; /* SRQs and target QPs that use it */
};

/* A target queue pair that the client has open. The queue pair is its domain's. */
struct client_target {
	struct client *c;
	uint32_t handle;
	struct client_qp *q; /* NULL: it is gone */
	struct client_xrcd *x;
	uint64_t cookie;
	struct client_chan *async; /* NULL: none */
	struct rn_link link;       /* in q->opens */
};

struct client_srq {
	struct owner owner;
	struct cmd cmd;           /* XRC: of its destruction */
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
	struct span ring;
	struct qp_srq *srq;
};

/* What is under way with a QP. One writer: set_state in client_qp_run.c. */
enum client_qp_state {
	CLIENT_QP_FREE,     /* no operation: a request, a timer or a connection may start one (hold, command, lend,
			     * destroy) */
	CLIENT_QP_HELD,     /* a command is under way, or a connection is set up with it; return makes it FREE, lend
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
	struct client_qp_attr at, was; /* was: while a change is under way, the attributes to restore if it fails */
	uint64_t cookie;
	struct client_pd *pd;
	struct client_cq *scq, *rcq;
	struct client_srq *srq;    /* NULL: a receive queue of its own */
	struct client_chan *async; /* NULL: none */
	struct qp *qp;
	uint32_t design;             /* enum ipc_design; rnicd's own queue pairs have one design */
	uint32_t xrc;                /* enum ipc_xrc */
	struct xrcd *xrcd;           /* TARGET: its domain, whose `host` is c */
	struct qp_target *no_queues; /* TARGET: stands in for the queues that a target does not have */
	struct rn_list opens;        /* TARGET: struct client_target */
	struct client *asker;        /* TARGET: the client whose request about it is under way; held */
	struct client *parker;       /* the client whose request waits (parked); held if it is not c */
	bool datagram;
	bool reliable;     /* a queue pair of reliable datagrams; datagram is set too */
	bool deaf;         /* does not receive its own messages to groups */
	bool coming;       /* its worker has not been told of it yet, and will put it in INIT */
	uint16_t udp_port; /* its own; 0: it has none */
	uint32_t n_groups;
	struct rn_slist groups; /* struct client_member: its memberships in groups (client_group.c) */
	enum client_qp_state state;
	uint32_t target; /* the worker to which it moves */
	struct span shm, sq, rq, held, maps;
	struct qp_hold *hold;              /* NULL: the peer's Writes are not held back */
	void (*then)(struct client_qp *q); /* called when LEAVING and ARRIVING, or ENDING, are done */
	void *borrower;                    /* argument of client_qp_lend */
	struct oob *oob;                   /* from RTR on without a connection manager; else NULL */
	uint32_t asked;                    /* enum qp_state: the latest that the client has asked for */
	void (*parked)(struct client *c);  /* continues the client's request that waits for the answer to the command
					    * under way */
	struct rn_link by_qpn;             /* client_qp.c: same hash of the QPN */
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
	struct unmap unmap[IPC_REGIONS + 1]; /* of the regions and the room, at its end */
	int wake_fd;
	struct worker_client *wc[RNICD_MAX_WORKERS]; /* the view of each worker */
	struct table pd, mr, mw, cq, srq, qp, chan, cm, imports, xrcd, target;
	struct xrcd *hosts;                 /* the XRC domain whose host this client is; NULL: an ordinary client with a
					     * process */
	uint64_t db_used[IPC_MAX_QPS / 64]; /* doorbell bits in use */
	uint64_t memory;                    /* registered, bytes */
	uint64_t slots;                     /* of all queues */
	struct spans spans;                 /* the ranges of its queue region that its queues use */
	uint64_t pieces;                    /* of all memory regions */
	uint32_t waiting;                   /* copies of events that wait for room in its event queues */
	uint32_t under_way; /* operations whose end its death must wait for: client_hold, client_unhold */
	struct owner asked; /* key of its job at a helper: receiving a message with descriptors, or `opening` */
	void (*opening)(struct client *c, struct fds_result *r); /* goes on with the request when its mapping is open */
	struct fds_job *closing;                                 /* the prepared closing of its
								  * socket; NULL: dying */
	struct ipc_msg req;                                      /* the request under way */
	uint64_t shown; /* the kernel's number of the descriptor that came with IPC_SOCK_FIND */
	bool busy;
	bool deaf;                 /* it has sent another request meanwhile: its socket is not read until the answer */
	bool joined;               /* the workers know it */
	bool shared;               /* it shares or shared PDs with others, whose connections may hold its bytes */
	uint32_t step;             /* the step that its death has reached */
	struct loop_timer timer;   /* continues work that is done in portions: a registration, the death */
	struct client_mr_job *job; /* the registration under way */
};

/* ---- clients come (client_accept.c) ---- */

/* Serves the listening socket from now on; -1: there is none, clients come by client_adopt(). */
bool client_start(int listen_fd);
/* Takes over a client's socket, which is connected and O_NONBLOCK. */
void client_adopt(int fd);
/* Closes the sockets of all clients and releases the clients; done when clients.n is 0. */
void client_stop(void);
/* The end of a turn of the loop: continues deaths that need not wait any more, and frees clients whose death is
 * complete. */
void client_reap(void); /* client_death.c */

/* Written by client.c and client_accept.c only. */
struct clients {
	struct rn_list all;   /* newest first; includes dying clients until their death is complete */
	struct rn_list dying; /* their deaths are continued at the end of the loop's turn */
	struct rn_slist dead; /* freed at the end of the turn */
	uint32_t n;           /* of `all` */
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

/* Answers c->req with m; type and seq are filled in here. */
void client_answer(struct client *c, struct ipc_msg *m, uint16_t len);
/* The same, with descriptors of rnicd, which rnicd keeps open. */
void client_answer_fds(struct client *c, struct ipc_msg *m, uint16_t len, const int *fds, uint32_t n);
void client_ok(struct client *c);
void client_ok_handle(struct client *c, uint32_t handle);
/* err: positive errno. The client's library may show the sentence to its user. */
void client_error(struct client *c, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same with ENOMEM, for a request over a quota, which is also logged. */
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

/* Counts a client's place, descriptors and mappings among its user's. in: false when the user has no more room. */
bool client_count_in(struct user *u);
void client_count_out(struct client *c);
/* Reads the client's socket again, after it was not read because a request was under way. */
void client_listen_again(struct client *c);

/* ---- what its socket brings (client_serve.c) ---- */

/* Before the first client: `serve` carries out IPC_SOCK_*. */
void client_serve_sockets(void (*serve)(struct client *c));
void client_on_ready(struct loop_fd *f, uint32_t events);    /* of the socket */
void client_on_fds(uint64_t key, struct fds_result *result); /* of the helper that took a message with descriptors */

/* ---- requests: each answers, now or when a worker has ---- */

/* Handlers of requests. A handler keeps a descriptor by setting fd to -1; the caller closes all others. */
void client_hello(struct client *c, struct fds_given *g, uint32_t n); /* client_hello.c */
void client_forget_regions(struct client *c);
/* Frees its regions and the address range of its imports, which nobody uses any more. True: they are freed. */
void client_unmap(struct client *c);
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

/* client_gram.c: NULL, or why there is no such queue pair and its errno; bytes of one; false: it cannot be there. */
const char *client_gram_refusal(const struct client *c, const struct ipc_create_qp *r, uint32_t dev, int *err);
size_t client_gram_size(const struct ipc_create_qp *r);
bool client_gram_begin(struct client_qp *q, const struct ipc_create_qp *r);
void client_gram_end(struct client_qp *q);
/* client_hold.c: NULL, or why not. False: no memory, or not possible at that place; the queue pair is then
 * destroyed. */
const char *client_hold_refusal(const struct ipc_create_qp *r);
bool client_hold_begin(struct client_qp *q, const struct ipc_create_qp *r);
void client_hold_end(struct client_qp *q);
void client_inject(struct client *c); /* client_inject.c */
/* The client's channel for rnicctl's orders. NULL: it takes no orders. */
struct client_chan *client_orders(const struct client *c);
void client_reach(struct client *c); /* client_reach.c */
void client_reach_neigh(const struct event_neigh *ev);

void client_create_srq(struct client *c); /* client_srq.c */
void client_modify_srq(struct client *c);
void client_query_srq(struct client *c);
void client_destroy_srq(struct client *c);
void client_srq_free(struct client_srq *s);
/* The client is dying: target QPs release all its XRC shared receive queues. */
void client_srqs_withdraw(struct client *c);

void client_open_xrcd(struct client *c, struct fds_given *g, uint32_t n); /* client_xrc.c */
void client_close_xrcd(struct client *c);
void client_create_any_qp(struct client *c);
void client_destroy_any_qp(struct client *c);
void client_open_qp(struct client *c);
/* The domain of an open one, as workers see it, and its device. */
struct qp_xrcd *client_xrcd_view(const struct client_xrcd *x);
uint32_t client_xrcd_dev(const struct client_xrcd *x);
/* The client is dying. First its target QPs are left to the others; then, when its queues are withdrawn, it releases
 * its domains. */
void client_targets_leave(struct client *c);
void client_xrcds_leave(struct client *c);
/* The death of a domain's host is complete. */
void client_host_gone(struct client *host);

void client_create_channel(struct client *c, struct fds_given *g, uint32_t n); /* client_chan.c */
void client_destroy_channel(struct client *c);
void client_chan_free(struct client_chan *ch);
/* Sends an event to every context that is open on the device: the port's link is up or down. */
void client_port_event(uint32_t dev, bool up);
/* The channel of this kind for objects of dev; *ch is NULL for handle 0. False: there is no such one. */
bool client_chan_find(const struct client *c, uint32_t handle, uint32_t kind, uint32_t dev, struct client_chan **ch);

void client_import(struct client *c, struct fds_given *g, uint32_t n); /* client_import.c */
/* A helper opens the file of a mapping of the client; `then` continues the request. False: no memory. */
bool client_open(struct client *c, const struct fds_mapping *m, void (*then)(struct client *c, struct fds_result *r));
void client_forget(struct client *c);
struct client_import *client_import_get(const struct client *c, uint32_t region); /* NULL: no such import */
void client_imports_free(struct client *c); /* and their address range; nothing may refer to them any more */

void client_reg_mr(struct client *c); /* client_mr.c */
void client_dereg_mr(struct client *c);
void client_mr_free(struct client *c, struct client_mr *mr);
/* Closes the region to new accesses; it may be freed when every worker has answered CMD_NOTHING. */
void client_mr_void(struct client_mr *mr);
/* The region of this number in the device's STag table; NULL: none. */
struct client_mr *client_mr_of(uint32_t dev, uint32_t index);

void client_alloc_mw(struct client *c); /* client_mw.c */
void client_dealloc_mw(struct client *c);
/* After the window was closed and every worker has answered CMD_NOTHING. */
void client_mw_free(struct client *c, struct client_mw *mw);

void client_token(struct client *c, struct fds_given *g, uint32_t n); /* client_token.c */
void client_token_dev(struct client *c, struct fds_given *g, uint32_t n);
void client_token_pd(struct client *c, struct fds_given *g, uint32_t n);
void client_token_mr(struct client *c, struct fds_given *g, uint32_t n);
/* Returns a borrowed PD, without the regions that its dying client leaves in it; continues deaths that have waited for
 * this. */
void client_pd_return(struct client_pd *p);
/*
 * Called when its QPs are gone. False: others use PDs that it has lent, or its regions in their PDs; its death
 * continues when they no longer do. True: all that it had borrowed has been returned.
 */
bool client_pds_leave(struct client *c);
/* A region is added to a shared PD: the sharers send only by copy once every worker has answered CMD_NOTHING. */
void client_pd_shares(const struct client_pd *p);

void client_create_qp(struct client *c); /* client_qp.c */
void client_modify_qp(struct client *c);
void client_query_qp(struct client *c);
void client_destroy_qp(struct client *c);
/* A QPN that no QP has; 0: almost none is free. */
uint32_t client_qp_number(const struct rnicd_port *port, bool datagram);
/* Enters the QP into its client's tables, by handle and doorbell bit, and into the daemon's, by QPN. False: no
 * memory. */
bool client_qp_enter(struct client_qp *q, uint64_t owner);
/* NULL: the client has no such QP. */
struct client_qp *client_qp_get(const struct client *c, uint32_t handle);
/* The same, if no operation is under way on it. NULL: the client was answered, or the request waits and `again` will be
 * called. */
struct client_qp *client_qp_find(struct client *c, uint32_t handle, void (*again)(struct client *c));
/* Destroys it; answers the client when the client is not dying. The QP is FREE. */
void client_qp_end(struct client_qp *q);
/* The attributes that the client may have changed, in the engine's form. tell_drained is false. */
void client_qp_silence(struct client_qp *q, uint32_t timeout, uint32_t retry_cnt); /* as in ipc_modify_qp */
struct qp_tune client_qp_tune(const struct client_qp *q);
/* rnr_retry 0..7 and the code of the RNR timer; takes effect with the next command about the QP. */
void client_qp_rnr(struct client_qp *q, uint32_t retry, uint32_t timer);
/* ---- what is under way with a QP (client_qp_run.c) ---- */

static inline bool client_qp_is_free(const struct client_qp *q) { return q->state == CLIENT_QP_FREE; }
static inline bool client_qp_is_ending(const struct client_qp *q) { return q->state == CLIENT_QP_ENDING; }

/* Reserves the QP for the caller. The QP is FREE, or HELD by the caller. */
void client_qp_hold(struct client_qp *q);
/* The same, and sends q->cmd, whose arguments are set, to the QP's worker. `done` ends with client_qp_return. */
void client_qp_command(struct client_qp *q, enum cmd_type type, void (*done)(struct cmd *));
/* The same, and makes `worker` the QP's owner, then calls `then`; at once when it is already. */
void client_qp_lend(struct client_qp *q, uint32_t worker, void *borrower, void (*then)(struct client_qp *q));
/* HELD to FREE: continues the request, or the step of the QP's connection, that waits for the QP. */
void client_qp_return(struct client_qp *q);
/* The two halves of client_qp_return, for callers that do something in between. give_back returns false: the client is
 * dying. */
bool client_qp_give_back(struct client_qp *q);
void client_qp_go_on(struct client_qp *q);
/* asking: the client's request about the QP has begun. asked: it has ended; returns the client, which may be dying. */
void client_qp_ask(struct client_qp *q, struct client *c);
struct client *client_qp_asked(struct client_qp *q);
/*
 * A new connected QP, whose q->cmd.qp is set: calls `answer`, which answers the client, and then tells the worker. A
 * worker refuses no such QP, and commands reach a worker in order, so the QP is FREE from the start. False: no memory.
 */
bool client_qp_create(struct client_qp *q, void (*answer)(const struct client_qp *q));
/* FREE to ENDING: the worker destroys the QP; `then` frees it and ends its hold of the client. */
void client_qp_destroy(struct client_qp *q, void (*then)(struct client_qp *q));

/* Chooses the worker of a new QP, whose shm_off is set; forgets it again. */
/* Chooses the worker of a new QP. */
uint32_t client_qp_home(const struct client_qp *q);
void client_qp_place(struct client_qp *q);
void client_qp_unplace(struct client_qp *q);
/* The arguments common to all commands about the QP. */
struct cmd_qp client_qp_args(const struct client_qp *q);

/* The QP with this number; NULL: none. */
struct client_qp *client_qp_of(uint32_t qpn);

/* Effects that are about a CQ, SRQ or QP. */
void client_fx(const struct event_fx *fx);

/* ---- death (client.c; its steps: client_death.c) ---- */

/* Continues the death at the end of the turn, if nothing is under way for the client any more. */
void client_death_soon(struct client *c);
/* The death is complete; the client's memory is freed at the end of the turn. */
void client_gone(struct client *c);

#endif
