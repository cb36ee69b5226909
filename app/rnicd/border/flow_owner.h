/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which worker owns a connection, a datagram socket or a datagram QP. Both sides compute this: the control thread to
 * send a command to the owner, a worker to hand a frame to the owner. Any thread: the functions read only data that is
 * constant after the start.
 */
#ifndef FLOW_OWNER_H
#define FLOW_OWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/rn_base.h"
#include "border/rnicd.h"
#include "pkt/pkt.h"

/* Both ends of a connection. */
struct conn_addr {
	uint32_t port; /* index of the device */
	struct pkt_addr local, remote;
	uint16_t lport, rport; /* host order */
	uint8_t tos;           /* TOS of the connection's packets; not a part of the flow's key */
};

/* The key of a worker's flow table. */
struct flow_key {
	struct pkt_addr local, remote;
	uint16_t lport;
	/*
	 * index of the device; lies between the TCP ports so that comparing keys does not wait for the stores
	 */
	uint32_t port;
	uint16_t rport;
};

static inline uint64_t flow_mix(uint64_t x)
{
	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	return x ^ x >> 32;
}

static inline uint64_t flow_endpoint(const uint64_t secret[2], const struct pkt_addr *a, uint16_t port)
{
	uint64_t hi, lo;

	memcpy(&hi, a->b, sizeof(hi));
	memcpy(&lo, a->b + 8, sizeof(lo));
	return flow_mix(flow_mix(flow_mix(hi ^ secret[0]) + lo) ^ port ^ secret[1]);
}

/*
 * The hash of the flow table. It is keyed with secret random bits, so no peer can choose addresses that collide. It is
 * made from the sum of the hashes of both ends: so both directions of a flow have the same hash, and if both ends are
 * in one daemon, both ends have the same hash.
 */
static inline uint32_t flow_hash(const uint64_t secret[2], const struct flow_key *k)
{
	uint64_t sum = flow_endpoint(secret, &k->local, k->lport) + flow_endpoint(secret, &k->remote, k->rport);
	return (uint32_t)(flow_mix(sum) >> 32);
}

/* Maps a hash to one of n workers by its upper bits; tables use the lower bits. */
static inline uint32_t flow_owner(uint32_t hash, uint32_t workers)
{
	return (uint32_t)(((uint64_t)hash * workers) >> 32);
}

/* The hash of a datagram QP: its device and QPN, keyed like flow_hash. */
static inline uint32_t ud_hash(const uint64_t secret[2], uint32_t port, uint32_t qpn)
{
	return (uint32_t)(flow_mix(flow_mix(((uint64_t)port << 32 | qpn) ^ secret[0]) ^ secret[1]) >> 32);
}

static inline struct flow_key flow_key_of(const struct conn_addr *a)
{
	return (struct flow_key){
		.local = a->local, .remote = a->remote, .lport = a->lport, .rport = a->rport, .port = a->port
	};
}

/* The Toeplitz hash that a device with RSS computes for received frames of the connection. */
uint32_t flow_rss_hash(const struct rnicd_rss *rss, const struct flow_key *k);

/* The worker that owns a connection of the port. hash: its flow_hash. */
static inline uint32_t flow_owner_of(const struct rnicd_port *port, const struct flow_key *k, uint32_t hash)
{
	switch (port->owners) {
	case RNICD_OWNERS_RSS: return port->rss.table[flow_rss_hash(&port->rss, k) & (port->rss.size - 1)];
	case RNICD_OWNERS_HASH: break;
	}
	return flow_owner(hash, rnicd.n_workers);
}

/* The same as flow_owner_of(), for callers that have no key and no hash. */
uint32_t conn_owner(const struct conn_addr *a);
/*
 * How many workers share the reliable-datagram QPs of a device. In packets (udpr.h) these workers are numbered from 0.
 * Other devices compute the number of a QP's worker from the QPN and from this count.
 */
static inline uint32_t rd_numbers(void)
{
	const uint32_t n = rnicd.cfg.n_workers;

	return rnicd.cfg.rd_workers == 0 ? n : rn_min_u32(rnicd.cfg.rd_workers, n);
}
/* The number of the worker that has the QP, out of this many. */
static inline uint32_t rd_number(uint32_t qpn, uint32_t numbers) { return qpn % numbers; }
/* The worker with this number at a device. Number 0, perhaps the only one, is another worker at each device. */
static inline uint32_t rd_owner(uint32_t port, uint32_t number) { return (port + number) % rnicd.cfg.n_workers; }
/*
 * The worker that owns all datagram sockets with a UDP port. The address has no part, as a socket may have all
 * addresses.
 */
static inline uint32_t gram_owner(uint16_t lport)
{
	return flow_owner((uint32_t)(flow_mix(lport ^ rnicd.secret[0]) >> 32), rnicd.cfg.n_workers);
}
/* The worker that owns a datagram QP of a device. */
uint32_t ud_owner(uint32_t port, uint32_t qpn);

#endif
