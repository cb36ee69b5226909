/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peers of a device's worker (border/rd_view.h): finding, making and forgetting them, and the packets that lie in
 * their flows. Worker thread.
 */
#ifndef RNICD_RD_PEER_H
#define RNICD_RD_PEER_H

#include "border/rd_view.h"

/* How many elements of rd_port.peer were ever in use: the first ones. The others have never been touched. */
static inline uint32_t rd_peers_ever(const struct rd_port *r) { return RD_PEERS - r->free.n_unused; }

/*
 * The first peer of the hash chain that has all workers of the device at addr; rd_peer.next leads on. The chain may
 * have workers of other devices, too.
 */
struct rd_peer *rd_peer_first(struct rd_port *r, const struct pkt_addr *addr);
/* The peer for worker `number` of the device at addr; NULL: there is none, or it is folded (rd_fold.h). */
struct rd_peer *rd_peer_find(struct rd_port *r, const struct pkt_addr *addr, uint32_t number);
/* Whether a worker of the device at addr is a peer, or a folded one. */
bool rd_peer_known(struct rd_port *r, const struct pkt_addr *addr);
/* Makes this peer, which rd_peer_find() has not found; of a folded one if there is one. NULL: all places are in use. */
struct rd_peer *rd_peer_take(struct rd_port *r, const struct pkt_addr *addr, uint32_t number, uint64_t now);
/* Finds or makes this peer; NULL: all places are in use. */
struct rd_peer *rd_peer_get(struct rd_port *r, const struct pkt_addr *addr, uint32_t number, uint64_t now);
/* Forgets a peer, which has no packets on the way, and at which no pair waits. */
void rd_peer_drop(struct rd_port *r, struct rd_peer *p);
/*
 * Gives the flows to and from the peer memory for windows of more than RD_RING packets while they can use it, and takes
 * it back.
 */
void rd_peer_windows(struct rd_port *r, struct rd_peer *p);
/* Puts the peer into the list of peers that rd_port_turn() looks at. */
void rd_peer_touch(struct rd_port *r, struct rd_peer *p);

/* How many workers the device at addr has, as its last COOKIE said; 0: not known. */
uint32_t rd_peer_numbers(struct rd_port *r, const struct pkt_addr *addr);
/*
 * Notes how many workers the device at addr has; 0: forgets it. If the number changes, all pairs that wait at peers of
 * the device go on: each then finds the peer of its worker.
 */
void rd_peer_set_numbers(struct rd_port *r, const struct pkt_addr *addr, uint32_t numbers);

/* How many more packets of pairs the peer's flow takes. Few packets wait in a flow; one place is left for an answer. */
uint32_t rd_flow_room(const struct rd_peer *p);
/* Whether a pair of the tenant may give the peer's flow one more packet. Some packets and rings stay for answers. */
bool rd_packet_room(const struct rd_port *r, const struct rd_peer *p, uint8_t tenant);
/*
 * The same for an answer to a packet of the peer. All peers together have RD_ANSWERS of these at most, and a peer has
 * no more than the others leave. So strangers who never take their answers hold few packets.
 */
bool rd_answer_room(const struct rd_port *r, const struct rd_peer *p);
/* The same for a packet that comes from another flow: it may take the last packet and ring. */
bool rd_any_room(const struct rd_port *r, const struct rd_peer *p);
/*
 * Takes a packet out of the pool, for which there is room, as one of the functions above has said. tenant: RD_NOBODY
 * for an answer. The caller fills the packet, and gives it to the flow or to rd_packet_back().
 */
struct rd_packet *rd_packet_take(struct rd_port *r, struct rd_peer *p, uint8_t tenant);
/* Puts a packet into the pool. The next rd_packet_take() returns the packet that was put last, contents included. */
void rd_packet_back(struct rd_port *r, struct rd_peer *p, struct rd_packet *packet);
/* The packet that a flow's packet stands for: `user` of udpr_tx_send(). */
static inline struct rd_packet *rd_packet_of(uint64_t user) { return (struct rd_packet *)(uintptr_t)user; }

#endif
