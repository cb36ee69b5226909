/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peers of a device's worker (border/rd_view.h): finding, making and forgetting them, and the packets that lie in
 * their flows. Worker thread.
 */
#ifndef RNICD_RD_PEER_H
#define RNICD_RD_PEER_H

#include "border/rd_view.h"

/* The first of the peers that lie in one chain with the workers of this device; rd_peer.next leads on. */
struct rd_peer *rd_peer_first(struct rd_port *r, const struct pkt_addr *addr);
/* The worker `number` of the device at addr; NULL: not known. */
struct rd_peer *rd_peer_find(struct rd_port *r, const struct pkt_addr *addr, uint32_t number);
/* Makes it; NULL: all places are in use. */
struct rd_peer *rd_peer_take(struct rd_port *r, const struct pkt_addr *addr, uint32_t number, uint64_t now);
/* Finds or makes it. */
struct rd_peer *rd_peer_get(struct rd_port *r, const struct pkt_addr *addr, uint32_t number, uint64_t now);
/* Forgets a peer without packets. */
void rd_peer_drop(struct rd_port *r, struct rd_peer *p);
/*
 * Gives the flows to and from the peer memory for windows of more than RD_RING packets while they can use it, and takes
 * it back.
 */
void rd_peer_windows(struct rd_port *r, struct rd_peer *p);
/* The peer is looked at in this turn. */
void rd_peer_touch(struct rd_port *r, struct rd_peer *p);

/* How many workers the device has, as far as it has told; 0: it has not. */
uint32_t rd_peer_numbers(struct rd_port *r, const struct pkt_addr *addr);
void rd_peer_set_numbers(struct rd_port *r, const struct pkt_addr *addr, uint32_t numbers);

/* How many packets of pairs the peer's flow takes: few wait, and one place is left for an answer. */
uint32_t rd_flow_room(const struct rd_peer *p);
/*
 * Whether the peer's flow may have one more packet, and the device's pools keep `leave` for answers. 0: the packet is
 * an answer, which may have what is left for it.
 */
bool rd_packet_room(const struct rd_port *r, const struct rd_peer *p, uint32_t leave);
/* After rd_packet_room(): a packet that the caller fills, and gives to the flow or to rd_packet_back(). */
struct rd_packet *rd_packet_take(struct rd_port *r, struct rd_peer *p);
/* The packet given back last is the one that rd_packet_take() returns next, with what it contains. */
void rd_packet_back(struct rd_port *r, struct rd_peer *p, struct rd_packet *packet);
/* The packet of udpr.h's `user`. */
static inline struct rd_packet *rd_packet_of(uint64_t user) { return (struct rd_packet *)(uintptr_t)user; }

#endif
