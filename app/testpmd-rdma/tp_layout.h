/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the buffers of a run lie in the region that holds them all. Client and server compute the same from the point
 * that the client asks for.
 */
#ifndef TP_LAYOUT_H
#define TP_LAYOUT_H

#include "tp_opts.h"

#define TP_PAGE UINT64_C(4096)
#define TP_GRH  40u /* bytes before each message that unreliable datagrams deliver */

/*
 * The region: per queue pair a credit word that the peer writes, and one from which this side writes its credit to the
 * peer; a source and a sink for fences; transmit slots, receive slots, and (soak) a constant area that the peer reads
 * from. Offsets in bytes. No sum wraps: slots that no memory can hold have a len that no memory can hold.
 */
struct tp_layout {
	uint64_t stride; /* distance of slots */
	uint64_t head;   /* before the bytes of a slot: room for a GRH, TP_GRH of it */
	uint64_t slots, fence, cards, tx, rx, constant, len;
};

void tp_layout_make(struct tp_layout *l, const struct tp_point *p);

static inline uint64_t tp_round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

static inline uint64_t tp_credit_in(uint32_t qp) { return (uint64_t)qp * 128; }
static inline uint64_t tp_credit_out(uint32_t qp) { return (uint64_t)qp * 128 + 64; }
/* Numbers of queue pairs, 4 bytes each: those of the peer, and this side's own. */
static inline uint64_t tp_cards_in(const struct tp_layout *l) { return l->cards; }
static inline uint64_t tp_cards_out(const struct tp_layout *l, uint32_t qps) { return l->cards + 4 * (uint64_t)qps; }
static inline uint64_t tp_tx_off(const struct tp_layout *l, uint32_t qp, uint64_t slot)
{
	return l->tx + (qp * l->slots + slot) * l->stride + l->head;
}
static inline uint64_t tp_rx_off(const struct tp_layout *l, uint32_t qp, uint64_t slot)
{
	return l->rx + (qp * l->slots + slot) * l->stride + l->head;
}

#endif
