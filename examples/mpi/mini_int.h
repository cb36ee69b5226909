/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of minimpi share. mini_net.c has the device and its queue pairs, mini_stream.c makes of each partner
 * an ordered stream of packets, mini_msg.c makes messages of packets, minimpi.c has the calls of MPI.
 *
 * A packet has a number, counted for each partner, whichever queue pair carries it: a partner may change from UD to RC
 * in the middle. A short message is one packet. A long one is asked for (ASK), granted with an STag (GRANT), written by
 * one-sided operations, and ended (WRITTEN, DONE).
 */
#ifndef MINI_INT_H
#define MINI_INT_H

#include "minimpi.h"

#include <rnic/rnicdv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANKS     64u
#define PACKET    4096u      /* bytes of a packet at most, its header included */
#define WINDOW    64u        /* packets to one partner that are not acknowledged */
#define ACK_EVERY 50u        /* packets after which an acknowledgement is sent, if no other packet carries it */
#define ACK_DELAY 5000000ull /* ns that an acknowledgement waits for a packet to carry it */
#define PIECE     16384u     /* bytes of one Write-Record */

enum mini_channel { CHANNEL_RC, CHANNEL_UD, CHANNEL_HYBRID, CHANNEL_RD };
enum carrier { BY_RC, BY_UD, BY_RD, CARRIERS };

enum kind {
	KIND_ACK,     /* has no number */
	KIND_SHORT,   /* a whole message */
	KIND_ASK,     /* announces a long message: size, from_id */
	KIND_GRANT,   /* grants memory to write to: from_id, to_id, addr, rkey */
	KIND_WRITTEN, /* to_id; ordered: the bytes have been placed before this packet */
	KIND_MISSING, /* from_id; the payload is a map of the pieces that have not come, a bit each */
	KIND_DONE,    /* from_id: all bytes are there */
	KIND_CONNECT, /* from_id: number of the queue pair that this rank has made for a connection */
	KIND_ACCEPT,  /* as CONNECT, in answer to it */
	KIND_REFUSE   /* answers CONNECT: this rank has all the connections that it may have */
};

struct head { /* in the machine's own byte order: all ranks are on it */
	uint32_t job;
	uint16_t src;
	uint8_t kind;
	uint8_t ordered, please; /* please: the partner should acknowledge at once */
	int32_t tag;
	uint32_t seq, ack; /* ack: the first number that has not come */
	uint64_t sack;     /* bit i: number ack + 1 + i has come */
	uint32_t len;      /* bytes of payload */
	uint32_t from_id, to_id, rkey;
	uint64_t size, addr;
};

#define PAYLOAD (PACKET - (uint32_t)sizeof(struct head))

struct lane { /* a queue pair */
	struct ibv_qp *qp;
	enum carrier carrier;
	unsigned posted, depth; /* send work requests */
};

struct slot { /* a packet to be sent */
	struct slot *next;
	struct head *head;
	struct ibv_mr *mr;
	struct lane *lane; /* where the packet's last work request was posted */
	uint64_t sent_at;  /* ns */
	bool posted;       /* a work request refers to the slot */
	bool acked;
};

enum conn_state { CONN_NONE, CONN_ASKED, CONN_UP, CONN_NEVER };

struct peer {
	unsigned rank;
	struct ibv_ah *ah;
	uint32_t qpn; /* of its datagram queue pair */
	union ibv_gid gid;
	struct lane rc;
	enum conn_state conn;
	struct slot *first, *last, *unsent; /* not acknowledged; the first that has never been sent */
	unsigned queued, in_flight;
	uint32_t next_seq, rx_next;
	uint8_t *stash[WINDOW]; /* packets that came before their turn, by number */
	unsigned owed;          /* packets that have come since the last acknowledgement */
	uint64_t ack_due, rto;  /* ns; ack_due 0: none */
	uint64_t talk;          /* packets sent to this partner */
};

struct mini {
	unsigned rank, size, max_rc, n_rc;
	uint32_t job;
	enum mini_channel channel;
	int fd; /* to minirun */
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct lane gram; /* UD or RD; none with CHANNEL_RC */
	struct peer peer[RANKS];
	uint64_t bytes[CARRIERS]; /* payload and headers sent */
	uint64_t repeated;        /* packets and pieces sent again */
	uint64_t memory;          /* bytes of registered buffers */
};

extern struct mini mini;

/* ---- minimpi.c ---- */
/* Ends the rank with a sentence, unless ok. */
void mini_need(bool ok, const char *what);
uint64_t mini_now(void);

/* ---- mini_net.c ---- */
void net_open(const char *address);
void net_meet(uint32_t address); /* cards go to minirun and come back; address: of this rank, network byte order */
void *net_memory(size_t size, struct ibv_mr **mr);
void net_connect_begin(struct peer *p);
void net_connect_end(struct peer *p, uint32_t qpn);
void net_send(struct slot *s, struct lane *l, struct peer *p, uint32_t len);
/*
 * One RDMA Write, or with UD one Write-Record with immediate id. msg_write_done() gets req when the write is complete.
 */
struct net_write {
	void *req;
	struct ibv_mr *mr;
	const uint8_t *from;
	uint32_t len, id, rkey;
	uint64_t to;
};
void net_write(const struct net_write *w, struct lane *l, struct peer *p);
/* Handles the device's completions. Returns whether there were any. */
bool net_poll(void);

/* ---- mini_stream.c ---- */
struct slot *stream_slot(void);
/* Queues a packet. Its header has kind, the fields of that kind, and the length of the payload. */
void stream_put(struct peer *p, struct slot *s);
void stream_sent(struct slot *s);
void stream_in(const uint8_t *packet, uint32_t len);
struct lane *stream_lane(struct peer *p);
/* Sends packets as the window allows, and repeats packets that seem lost. */
void stream_run(uint64_t now);
bool stream_empty(void);

/* ---- mini_msg.c ---- */
void msg_in(struct peer *p, const struct head *h, const uint8_t *payload);
void msg_piece(uint32_t id, uint64_t addr);
void msg_write_done(void *req);
struct mini_req *msg_send(const void *buf, uint64_t len, unsigned to, int tag);
struct mini_req *msg_recv(void *buf, uint64_t len, unsigned from, int tag);
void msg_run(uint64_t now);
void msg_progress(void);
/* Waits until the request is done, and frees it. */
void msg_wait(struct mini_req *r);

#endif
