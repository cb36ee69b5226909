/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram sockets of programs over the kernel's UDP sockets (border/grams.h): what plane/gram.h is for Ethernet ports.
 * Used by the process that serves sockets (embedded.c). The kernel's socket is the program's own, which the program has
 * handed over. Plain datagrams come and leave by it; those of the wire iwarp by the device's datagram-port (ks_ud.h).
 *
 *	doorbell → ks_gram_transmit → kernel's socket, or segments for ks_ud_put
 *	kernel's socket → ks_gram_hear → ring
 *	datagram-port → ks_ud_take → socks_take → ks_gram_hear: earlier plain datagrams come first → ring or slot
 *
 * Of the processes of one user that share datagram-port, the one with the UDP port's sockets gets its datagrams
 * (ks_pass.c). If several have sockets with the port, the first one has it, and the sockets of the others stay plain.
 *
 * For the thread that holds ks.lock.
 */
#ifndef KS_GRAM_H
#define KS_GRAM_H

#include "border/grams.h"
#include "sockets/ks_ud.h"

/* The kernel's socket of a datagram socket. */
struct ks_below {
	struct handed handed;
	struct gram *gram;
	bool v6;                /* the socket's family is AF_INET6; its address may be IPv4-mapped */
	bool named;             /* this process gets the port's datagrams: ks_pass_sock() */
	struct rn_link hearing; /* in the list of sockets that may have input */
	struct cmd *close; /* CMD_GRAM_CLOSE, which is answered when the datagrams have left; NULL: none has come */
	uint64_t give_up;  /* then: when those that have not left are discarded */
	struct rn_link closing;
};

static inline struct ks_below *ks_below_of(const struct gram *g)
{
	return rn_container_of(g->below, struct ks_below, handed);
}

/* Memory and epoll set, if the process serves sockets. False: there is none. */
bool ks_gram_start(void);
void ks_gram_stop(void);
void ks_gram_close_all(void); /* as ks_close_all() */
/* CMD_GRAM_*. False: it is answered later. */
bool ks_gram_command(struct cmd *c);
void ks_gram_ring(struct gram *g);
void ks_gram_hear_event(void); /* epoll reports input of the kernel's sockets */

/* ---- the steps of a turn; their results are as in ks_turn.c ---- */
uint32_t ks_gram_timers(void);
uint32_t ks_gram_transmit(void);
void ks_gram_events(void);
bool ks_gram_more(void);
uint64_t ks_gram_due(void);

/* ---- the kernel's sockets (ks_gram_io.c) ---- */

/* The epoll set of these sockets. False: no descriptor. */
bool ks_gram_io_start(void);
void ks_gram_io_close(void);
void ks_gram_io_open(struct ks_below *b);
/* Frees b. */
void ks_gram_io_end(struct ks_below *b);
/* Reads sockets that have input; returns how many. */
uint32_t ks_gram_hear(struct grams *c);
bool ks_gram_heard_all(void);
/* As in struct gram_plane. */
uint32_t ks_gram_plain(struct grams *c, struct gram *g, const struct ipc_gram_rec *rec);
uint32_t ks_gram_route(struct grams *c, const struct gram *g, const struct ipc_gram_rec *rec);
bool ks_gram_holds(const struct gram *g);

#endif
