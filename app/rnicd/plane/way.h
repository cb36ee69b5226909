/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The route from a port to a peer: the next hop's ARP entry, and the headers in front of each segment. Worker thread.
 */
#ifndef RNICD_WAY_H
#define RNICD_WAY_H

#include <stdbool.h>
#include <stdint.h>

#include "border/cmd.h"
#include "conn/rc_tcp.h"
#include "plane/arp.h"
#include "plane/port_tx.h"
#include "tcp_lite/tcpl_track.h"

struct rnicd_worker;

#define WAY_DSCP 0xfcu

struct way {
	struct rnicd_port *port;
	struct port_tx *tx;
	/*
	 * The next hop's entry; without `holds` only as long as its gen is neigh_gen, since other neighbours may get
	 * it. NULL: the peer is the port's own address. Until way_proved(): of no neighbour
	 */
	struct arp_entry *neigh;
	uint32_t neigh_gen; /* generation of the neighbour's MAC address that is in tmpl */
	bool holds;         /* counted in the entry's users: the neighbour has answered ARP */
	uint8_t path, next; /* of a port with several paths: the last segment's path, the next segment's path */
	uint8_t came;       /* the path of the peer's last segment */
	struct pkt_tcp_template tmpl;
};

/*
 * Finds the route: CONN_OK, NO_ROUTE or FULL. An unknown neighbour is asked for by ARP. Each CONN_OK needs a
 * way_leave(). syn: the frame with the peer's SYN. Its sender may be forged, so the answer goes to the MAC that the
 * frame came from, and takes no ARP entry until way_proved(). NULL: this end connects.
 */
RN_NODISCARD enum conn_verdict way_find(struct rnicd_worker *w, const struct conn_addr *a, const struct rte_mbuf *syn,
					struct way *way);
void way_leave(struct way *way);
/* The peer at `remote` has answered, so its address is not forged: takes the ARP entry of the next hop. */
void way_proved(struct rnicd_worker *w, struct way *way, const struct pkt_addr *remote);

/*
 * Keeps the neighbour's entry in use and its MAC address in the headers up to date; called before frames are made to
 * the peer at `remote`.
 */
void way_refresh(struct rnicd_worker *w, struct way *way, const struct pkt_addr *remote);
/* Whether the next hop has been asked for in vain. */
static inline bool way_failed(const struct way *way)
{
	const struct arp_entry *e = way->neigh;

	return e != NULL && e->state == ARP_S_FAILED && e->gen == way->neigh_gen;
}
/* How many frames may be sent now. */
uint32_t way_room(const struct rnicd_worker *w, const struct way *way);
/* True: the checksum is left open, since the port computes it or the frame does not leave the process. */
static inline bool way_defers(const struct way *way) { return way->port->caps.tx_csum || way->neigh == NULL; }
/* What may be done with the CRCs of FPDUs: they may be left open where the frame's receiver is in this process. */
static inline enum rc_tcp_crc way_crc(const struct way *way)
{
	if (!way->port->caps.wire_mem && way->neigh != NULL)
		return RC_TCP_CRC_KEPT;
	if (!way->port->crc_always)
		return RC_TCP_CRC_OPEN;
	return way->port->cfg->impair.resegment == RNICD_RESEGMENT_OFF ? RC_TCP_CRC_SUM : RC_TCP_CRC_KEPT;
}
static inline bool way_inside(const struct way *way) { return way_crc(way) == RC_TCP_CRC_OPEN; }
/*
 * Writes the headers of segment o to m and marks what of the checksum is still to be computed; returns the length of
 * the headers. payload_sum: pkt_sum() of the payload; not looked at where way_defers().
 */
uint32_t way_header(struct way *way, const struct tcpl_out *o, uint64_t payload_sum, struct rte_mbuf *m);
/* The TCP segment in a parsed frame; ref is not set. */
static inline struct tcpl_seg way_segment(const struct pkt *p)
{
	return (struct tcpl_seg){ .seq = p->tcp_seq,
				  .ack = p->tcp_ack,
				  .len = p->payload_len,
				  .wnd = p->tcp_wnd,
				  .flags = p->tcp_flags,
				  .optlen = p->tcp_opt_len,
				  .opt = p->tcp_opt };
}
/* Called before a segment is made: chooses the segment's path and tells TCP. */
void way_choose(struct way *way, struct tcpl_conn *tcp, uint64_t now);
static inline void way_aim(struct way *way, struct tcpl_conn *tcp, uint64_t now)
{
	if (rn_unlikely(way->tx->n_paths != 0))
		way_choose(way, tcp, now);
}
/*
 * Marks in the frame by which path it leaves; returns m. A pure ACK goes back by the path of the segment that it
 * acknowledges: that path is alive, and an end that sends no data of its own would never find out that another path is
 * dead.
 */
static inline struct rte_mbuf *way_mark(struct way *way, struct rte_mbuf *m, const struct tcpl_out *o)
{
	const uint8_t ends = TCPL_SYN | TCPL_FIN | TCPL_RST;

	if (rn_likely(way->tx->n_paths == 0))
		return m;
	if (o->len == 0 && (o->flags & ends) == 0) {
		m->port = way->tx->path[way->came]->port->index;
		return m;
	}
	way->path = way->next;
	m->port = way->tx->path[way->path]->port->index;
	return m;
}
/* A frame of the connection has been received: notes its path. */
void way_note(struct way *way, const struct rte_mbuf *m);
static inline void way_came(struct way *way, const struct rte_mbuf *m)
{
	if (rn_unlikely(way->tx->n_paths != 0))
		way_note(way, m);
}
/* Sends m, which belongs to the port from then on. */
void way_send(struct rnicd_worker *w, struct way *way, struct rte_mbuf *m);

#endif
