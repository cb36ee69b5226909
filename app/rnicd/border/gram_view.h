/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A datagram socket as its worker has it. The control thread makes and frees the memory; the worker alone writes it
 * from CMD_GRAM_OPEN until CMD_GRAM_CLOSE is answered.
 */
#ifndef GRAM_VIEW_H
#define GRAM_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_list.h"
#include "border/stream_view.h"
#include "ipc/ipc_gram.h"
#include "pkt/pkt.h"

#define GRAM_ANY_DEV UINT32_MAX
#define GRAM_NO_DEV  (UINT32_MAX - 1)

struct handed;

struct gram_peer {
	struct pkt_addr ip;
	uint16_t port; /* 0: anybody */
};

/* A slot of the socket's memory, and the Write-Record that is in it or comes into it. */
struct gram_slot {
	bool known;   /* `id` is valid: the newest Write-Record that has begun in this slot */
	bool open;    /* this Write-Record is not complete yet */
	uint32_t end; /* of an unread slot: index at which its record in the ring ends */
	uint32_t id, unit, total, valid;
	uint64_t map[2]; /* a bit for each segment that has come */
	uint64_t at;     /* when the Write-Record began */
};

struct gram {
	uint64_t key;   /* the control thread's number of the socket */
	uint32_t dev;   /* index of the port whose address the socket has; GRAM_ANY_DEV: all ports, GRAM_NO_DEV: none */
	uint16_t lport; /* UDP port, host order */
	bool balance;   /* SO_REUSEPORT: sockets with the same UDP port and address share the received datagrams */
	bool broken;    /* the program has broken the rules of the shared memory: the socket is ignored */
	bool stuck;     /* it has something to send, and waits until gram_ring() says that there is room again */
	uint32_t bit;   /* the socket's bit in its user's doorbell */
	uint32_t tell;  /* STREAM_IN, STREAM_OUT: events that the control thread has not been told of yet */
	struct gram_peer peer;
	struct ipc_gram *mem; /* not trusted */
	struct stream_user *user;
	struct handed *below;          /* plane of sockets: the kernel's socket; else NULL */
	uint32_t rx_tail, rx_head;     /* rx_head: a checked copy of the program's index */
	uint32_t unread;               /* a bit for each slot that is complete, but not read by the program yet */
	uint32_t tx_head;              /* index of the end of the last datagram that was sent */
	struct rn_link ready, telling; /* lists of gram_ctx; the socket is on a list while its link is linked */
	struct gram *next;             /* in the same bucket */
	struct gram_peer lent;         /* the peer's socket to which the slots are lent, until lent_until */
	uint64_t lent_until;
	struct gram_slot slot[IPC_GRAM_SLOTS];
};

#endif
