/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections without a connection manager: two programs have told each other their GIDs and QP numbers by other means
 * ("out of band") and bring their QPs up with ibv_modify_qp(). Control thread.
 *
 * Each device listens on one TCP port (qp-port). From RTR on both sides know both ends: the one with the larger
 * (address, QPN) connects, in MPA's peer-to-peer mode, and says in the private data which queue pair it is and which
 * one it wants. The other side may not be there yet: its daemon holds the request until its QP comes to RTR, for a time
 * and up to a number; and the connecting side tries again. The QP is attached only when a connection is through, so an
 * attempt that fails leaves no trace in it. A send that waits longer than timeout and retry_cnt allow ends with
 * IBV_WC_RETRY_EXC_ERR, and so does, after a second, one that the peer had not acknowledged when its QP ended; receives
 * wait for good, as on InfiniBand. A QP whose peer is itself needs no listener: RC_SELF.
 *
 * Only daemons say which queue pair they speak for. A client cannot connect to qp-port or listen there, and a daemon's
 * own connections leave from TCP ports below 1024, which rnicd gives to no user's program, as the kernels of other
 * hosts do not. With qp-peers = daemons a request from another port is refused. So a peer has at most 1,023 such
 * connections with this device at a time; qp-peers = any is for more, and for peers that are no rnicd.
 *
 * Private data of Request and Reply, big endian: "RNQP", version, kind (1 Request, 2 Reply), what the sender is of an
 * extended reliable connection (0 nothing, 1 initiator, 2 target), 1 octet 0, QPN of the sender, QPN it wants, 8 octets
 * that a Request chooses and its Reply repeats. The version is 1 where the third is 0, and 2 otherwise: a peer that
 * does not know it refuses. An initiator connects with a target and nothing else.
 */
#ifndef OOB_H
#define OOB_H

#include <stdbool.h>
#include <stdint.h>

#include "control/client.h"
#include "control/cm.h"
#include "ipc/ipc.h"
#include "control/loop.h"

#define OOB_PRIV_LEN 24u

/* One writer: set_state in oob.c. */
enum oob_state {
	OOB_SEEKING, /* no connection; the timer or the peer's request moves it on */
	OOB_OPENING, /* ours is out; the peer's Reply, refusal or end */
	OOB_JOINING, /* a connection is here; the QP goes to its worker and is attached */
	OOB_JOINED,  /* attached; ESTABLISHED or the end of the set-up */
	OOB_UP,      /* until its end */
	OOB_OVER     /* it has been, or sends have waited too long; RESET makes it new */
};

/* The side of a QP; from RTR to RESET or the QP's end. */
struct oob {
	struct client_qp *q;
	enum oob_state state;
	bool active;      /* we connect, else the peer does */
	bool self;        /* the peer is this QP; active */
	bool due;         /* JOINING: waits until the command on the QP is back */
	uint8_t peer[16]; /* IP address */
	uint32_t peer_qpn;
	uint8_t tos;                /* of the connection's packets */
	uint64_t cookie;            /* active: of the attempt under way */
	struct cm_conn *k;          /* OPENING to UP */
	struct cmd_conn which;      /* JOINING: k's, which may go meanwhile */
	uint8_t priv[OOB_PRIV_LEN]; /* JOINING: the Reply's */
	struct loop_timer timer;    /* SEEKING, OVER */
	uint64_t pause_ns;          /* until the next look */
	uint64_t patience_ns;       /* of sends, RN_NEVER: without end */
	uint64_t since;             /* a send has been seen waiting since; 0: none */
};

/* What the private data says. */
struct oob_hello {
	uint32_t src_qpn, dst_qpn;
	uint64_t cookie;
	uint8_t xrc; /* enum ipc_xrc: of the sender */
};

enum oob_kind { OOB_REQUEST = 1, OOB_REPLY = 2 };
void oob_hello_build(uint8_t priv[OOB_PRIV_LEN], enum oob_kind kind, const struct oob_hello *h);
/* What the peer of a queue pair is, of an extended reliable connection. */
static inline uint8_t oob_counterpart(uint32_t xrc)
{
	return xrc == IPC_XRC_INITIATOR ? IPC_XRC_TARGET : xrc == IPC_XRC_TARGET ? IPC_XRC_INITIATOR : IPC_XRC_NONE;
}
/* False: not ours. More octets than the version's are ignored. */
bool oob_hello_parse(const uint8_t *priv, uint32_t len, enum oob_kind kind, struct oob_hello *h);

struct oob_totals {
	uint64_t up;        /* connections made */
	uint64_t held;      /* requests that waited for their QP */
	uint64_t displaced; /* held ones that made room for newer ones */
	uint64_t expired;   /* held ones whose QP did not come */
	uint64_t bad;       /* private data that is not ours */
	uint64_t unwanted;  /* for a QP that is not there, or that wants another */
	uint64_t strangers; /* requests of peers that are no daemon */
	uint64_t gave_up;   /* QPs whose sends waited too long */
};
extern struct oob_totals oob_totals;

/* Listens on all devices. Before clients come. */
void oob_start(void);

/* The QP has come to RTR and knows its peer (r's dest_). False: no memory. */
bool oob_begin(struct client_qp *q, const struct ipc_modify_qp *r);
/* How long its sends wait. */
void oob_patience(struct client_qp *q, uint8_t timeout, uint8_t retry_cnt);
/* RESET, ERR or the end of the QP: no further attempt. A connection that the QP has not got yet ends. */
void oob_leave(struct client_qp *q);
/* A command on the QP is back and no request waits for the QP. */
void oob_settled(struct client_qp *q);

/* What workers say: cm_event.c. */
void oob_fx(struct cm_conn *k, const struct event_fx *fx);
/* A request; false: it did not come in here. */
bool oob_request(const struct event_fx *fx);
void oob_conn_gone(struct cm_conn *k); /* k is about to be freed */

/* ---- between the oob_ files ---- */

/* Attaches the QP to a connection that waits for it. */
void oob_join(struct oob *o, struct cm_conn *k);
/* A held request of the peer that o waits for, now no longer held; NULL: none. */
struct cm_conn *oob_held_take(struct oob *o);

#endif
