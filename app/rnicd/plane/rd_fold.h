/* SPDX-License-Identifier: BSD-3-Clause */
/* The folded peers of a device's worker (struct rd_fold): a table by address and number. Worker thread. */
#ifndef RNICD_RD_FOLD_H
#define RNICD_RD_FOLD_H

#include "border/flow_owner.h"
#include "border/rd_view.h"

/* The chain of the hash tables of peers that has all workers of the device at addr. */
static inline uint32_t rd_chain_of(const struct pkt_addr *addr)
{
	return (uint32_t)(flow_endpoint(rnicd.secret, addr, 0) % RD_CHAINS);
}

/* The folded peer for worker `number` of the device at addr; NULL: there is none. */
struct rd_fold *rd_fold_find(struct rd_port *r, const struct pkt_addr *addr, uint32_t number);
/* Whether a worker of the device at addr is a folded peer. */
bool rd_fold_known(const struct rd_port *r, const struct pkt_addr *addr);
/* Makes the receiver's flow from a peer that is folded; a closed one if the peer is not known. */
void rd_fold_rx(struct rd_port *r, const struct pkt_addr *addr, uint32_t number, uint64_t now, struct udpr_rx *rx);
/* Writes a peer's state from the folded peer, and frees the folded one. The peer is zeroed except addr and number. */
void rd_fold_open(struct rd_port *r, struct rd_fold *f, uint64_t now, struct rd_peer *p);
/* Makes a folded peer of a peer. False: the peer is not at rest. */
RN_NODISCARD bool rd_fold_make(struct rd_port *r, const struct rd_peer *p, uint64_t now);

/* Forgets a folded peer, if a look at a few of them finds one with which no packet was exchanged for `idle` ns. */
void rd_fold_replace(struct rd_port *r, uint64_t idle, uint64_t now);
/* Forgets folded peers with which no packet was exchanged for rd-idle. Called when rd_port.sweep_at is due. */
void rd_fold_sweep(struct rd_port *r, uint64_t now);

/* As rd_peer_numbers() and rd_peer_set_numbers(), of folded peers. */
uint32_t rd_fold_numbers(const struct rd_port *r, const struct pkt_addr *addr);
void rd_fold_set_numbers(struct rd_port *r, const struct pkt_addr *addr, uint32_t numbers);

#endif
