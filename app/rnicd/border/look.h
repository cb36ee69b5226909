/* SPDX-License-Identifier: BSD-3-Clause */
/* The answers of workers to telemetry's questions (CMD_LOOK_*). All answers are copies. */
#ifndef LOOK_H
#define LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "border/rd_view.h"
#include "dgram/rd.h"
#include "rc/rc.h"
#include "tcp_lite/tcpl.h"

/* The stages of a worker's turn, whose cycles it counts when the configuration says so. */
enum stage {
	STAGE_COMMANDS, /* clock and commands */
	STAGE_RECEIVE,  /* from the ports to placed bytes, acknowledged work requests included */
	STAGE_DOORBELLS,
	STAGE_TIMERS,  /* of connections and neighbours */
	STAGE_SEND,    /* from work requests to frames */
	STAGE_EFFECTS, /* completions and events published, packets freed */
	STAGE_PORTS,   /* shaper, impairment, drivers */
	STAGE_IDLE,    /* turns that found nothing to do, and the time between two turns */
	STAGES
};

/* What a worker has counted, and what its tables hold. */
struct look_worker {
	struct qp_stats qp;
	struct rd_stats rd;
	struct rd_drops rd_drops;
	uint64_t turns, sleeps;
	uint64_t flushed_most; /* most work requests flushed in one turn */
	uint32_t locals_most;  /* most work requests that sent nothing in one turn */
	uint32_t rung_most;    /* most doorbells of one client in one turn */
	uint64_t cycles[STAGES];
	bool has_cycles;      /* the worker counts cycles */
	uint32_t connections; /* connections in the worker's flow table */
	uint32_t half_open;   /* how many of them have got no MPA Request from the peer yet */
	uint32_t blocks_used; /* how many connections have working memory */
	uint32_t rd_peers;    /* workers of other devices that have a place in the tables of reliable datagrams */
	uint32_t rd_folds;    /* how many of them rest, so that little is kept of them */
	uint32_t rd_pairs;    /* pairs of queue pairs of reliable datagrams */
};

/*
 * A TCP port of a device that has a listener. All workers have the same listeners; worker 0 reports them.
 */
struct look_listener {
	uint32_t port;
	uint16_t lport;
};
#define LOOK_LISTENERS 512u /* the most that a worker has */

/* A connection. The control thread says which connection; its worker fills in the rest. */
struct look_conn {
	uint32_t worker;
	struct rc *conn; /* with key: which connection; the control thread does not look inside */
	uint64_t key;
	bool here; /* the connection still exists, and the members below were filled in */
	enum rc_state state;
	struct tcpl_info tcp;
	struct tcpl_stats stats;
	bool crc, rx_markers, tx_markers;
};

/* A worker of another device with which reliable datagrams are exchanged, over a flow in each direction. */
struct look_flow {
	struct pkt_addr peer;
	uint32_t worker, peer_worker;   /* the numbers of this worker and of the peer's, as packets tell them */
	enum udpr_state state;          /* state of the flow to the peer's worker */
	bool from;                      /* a flow from the peer's worker is open */
	uint32_t in_flight;             /* packets that wait for an ACK */
	uint32_t waiting;               /* packets that wait to be sent */
	uint32_t cwnd;                  /* packets */
	uint32_t srtt, min_rtt, rttvar; /* ns; 0: none measured */
	struct rd_flow_stats stats;
};
#define LOOK_FLOWS 1024u /* the most that a worker reports of a device */

/* A message of several datagrams of which not all have come. */
struct look_record {
	uint32_t port;         /* index of the device */
	uint32_t qpn;          /* the receiving QP */
	bool record;           /* an RDMA Write-Record; else a Send */
	struct dgram_key of;   /* identifies the message: its sender and number */
	uint32_t valid, total; /* octets that have arrived, and octets of the whole message */
	uint64_t waited;       /* ns since the last new segment arrived */
};
#define LOOK_RECORDS 512u /* the most that a worker reports: those that have waited longest */

#endif
