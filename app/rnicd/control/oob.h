/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections without a connection manager: two programs have told each other their GIDs and QP numbers by other means
 * ("out of band") and bring their QPs up with ibv_modify_qp(). Control thread.
 *
 * Each device listens on one TCP port (qp-port). When a QP has come to RTR, its side knows both ends: the side with the
 * larger (address, QPN) connects, in MPA's peer-to-peer mode, and sends in the private data its own QPN and the QPN of
 * its peer. The peer's QP may not be in RTR yet: its daemon holds the request until the QP comes to RTR, for a limited
 * time and up to a number of requests; and the connecting side tries again. The connecting side attaches its QP when
 * the peer's Reply has come, the other side when the Request has come, so an attempt that nobody answers does not
 * change a QP. A send that waits for a connection longer than timeout and retry_cnt allow ends with
 * IBV_WC_RETRY_EXC_ERR. A send that the peer had not acknowledged when the peer's QP ended fails in the same way after
 * a second. Receives wait without limit, as on InfiniBand. A QP whose peer is itself needs no listener: RC_SELF.
 *
 * Only daemons may announce QPNs. A client cannot connect to qp-port or listen on it. A daemon's own connections have
 * source ports below 1024, which neither rnicd nor the kernels of other hosts give to unprivileged programs. With
 * qp-peers = daemons a request from another port is refused. So a peer has at most 1,023 such connections with this
 * device at a time; qp-peers = any is for more, and for peers that are no rnicd.
 *
 * Private data of Request and Reply, big endian: "RNQP", version, kind (1 Request, 2 Reply), role of the sender in an
 * extended reliable connection (0 none, 1 initiator, 2 target), 1 octet 0, QPN of the sender, QPN of its peer, 8 octets
 * that a Request chooses and its Reply repeats. The version is 1 if the role is 0, and 2 otherwise, so that a peer that
 * does not know roles refuses. An initiator connects only to a target.
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

/* Only oob_set_state writes it. Each comment says what the QP has or waits for, and then what moves the state on. */
enum oob_state {
	OOB_SEEKING, /* no connection; the timer or the peer's request moves it on */
	OOB_OPENING, /* this side's Request was sent; the peer's Reply, refusal or end */
	OOB_JOINING, /* the QP moves to the connection's worker and is attached; the worker's answer */
	OOB_JOINED,  /* attached; ESTABLISHED or the end of the set-up */
	OOB_UP,      /* established; the end of the connection */
	OOB_OVER     /* the connection has ended, or sends have waited too long; RESET */
};

/* The state of a QP's connection; exists from RTR to RESET or the QP's end. */
struct oob {
	struct client_qp *q;
	enum oob_state state;
	bool active;      /* this side connects, else the peer does */
	bool self;        /* the peer is this QP; active */
	bool due;         /* JOINING: begins when the command about the QP that is under way was answered */
	uint8_t peer[16]; /* IP address */
	uint32_t peer_qpn;
	uint8_t tos;                /* TOS of the connection's packets */
	uint64_t cookie;            /* active: the 8 octets of the attempt under way */
	struct cm_conn *k;          /* OPENING to UP */
	struct cmd_conn which;      /* JOINING: names k, which may end meanwhile */
	uint8_t priv[OOB_PRIV_LEN]; /* JOINING: private data of the Reply */
	struct loop_timer timer;    /* SEEKING, OVER */
	uint64_t pause_ns;          /* pause until the next attempt or check */
	uint64_t patience_ns;       /* how long sends wait for a connection; RN_NEVER: without limit */
	uint32_t tries;             /* OPENING: ports that had a connection to the peer already */
	uint64_t since;             /* time since which a send waits; 0: none does */
};

/* The fields of the private data. */
struct oob_hello {
	uint32_t src_qpn, dst_qpn;
	uint64_t cookie;
	uint8_t xrc; /* enum ipc_xrc: of the sender */
};

enum oob_kind { OOB_REQUEST = 1, OOB_REPLY = 2 };
void oob_hello_build(uint8_t priv[OOB_PRIV_LEN], enum oob_kind kind, const struct oob_hello *h);
/* The role of the peer in an extended reliable connection. */
static inline uint8_t oob_counterpart(uint32_t xrc)
{
	return xrc == IPC_XRC_INITIATOR ? IPC_XRC_TARGET : xrc == IPC_XRC_TARGET ? IPC_XRC_INITIATOR : IPC_XRC_NONE;
}
/* False: other private data than expected. Octets beyond those of the version are ignored. */
bool oob_hello_parse(const uint8_t *priv, uint32_t len, enum oob_kind kind, struct oob_hello *h);

struct oob_totals {
	uint64_t up;        /* connections made */
	uint64_t held;      /* requests that waited for their QP */
	uint64_t displaced; /* held requests that were dropped to make room for newer ones */
	uint64_t expired;   /* held requests whose QP did not come to RTR in time */
	uint64_t bad;       /* requests and replies with other private data than expected */
	uint64_t unwanted;  /* requests for a QP that does not exist, or that expects another peer */
	uint64_t strangers; /* requests that are refused for their source port: qp-peers = daemons */
	uint64_t gave_up;   /* QPs whose sends waited too long */
};
extern struct oob_totals oob_totals;

/* Listens on all devices. Called before clients connect. */
void oob_start(void);

/* The QP has come to RTR and knows its peer (dest_ip and dest_qpn of r). False: no memory. */
bool oob_begin(struct client_qp *q, const struct ipc_modify_qp *r);
/* Sets how long the QP's sends wait for a connection. */
void oob_patience(struct client_qp *q, uint8_t timeout, uint8_t retry_cnt);
/* RESET, ERR or the end of the QP: ends the attempts to connect. A connection that is not attached yet ends, too. */
void oob_leave(struct client_qp *q);
/* Called when a command about the QP was answered and no request waits for the QP. */
void oob_settled(struct client_qp *q);

/* An effect of a connection without connection manager, from cm_event.c. */
void oob_fx(struct cm_conn *k, const struct event_fx *fx);
/* Handles a Request of a peer. False: it has not come to qp-port. */
bool oob_request(const struct event_fx *fx);
void oob_conn_gone(struct cm_conn *k); /* k is about to be freed */

/* ---- between the oob_ files ---- */

/*
 * Counts a connection that the user opens from a port below CM_PORT_FREE, of which a device has OOB_PORTS for each peer
 * (oob_share.c). NULL: the user has its share of them, or no memory.
 */
#define OOB_PORTS (CM_PORT_FREE - 1)
struct oob_share *oob_share_take(struct user *u, uint32_t dev, const uint8_t peer[16]);
void oob_share_give(struct oob_share *s);

/* Attaches o's QP to the connection k, which waits for a QP. */
void oob_join(struct oob *o, struct cm_conn *k);
/* Takes the held request of o's peer for o's QP; NULL: there is none. */
struct cm_conn *oob_held_take(struct oob *o);

#endif
