/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Neighbours of one port as one worker knows them (RFC 826). Each worker learns for itself: ARP frames are shown to
 * all. An entry is made only for an address that we want to reach and for a host of the network that asks us; so a
 * flood of made-up senders can take but the unused entries. Worker thread only; memory is taken at creation.
 */
#ifndef RNICD_ARP_H
#define RNICD_ARP_H

#include <rte_mbuf.h>

#include "border/rnicd.h"

#define ARP_ENTRIES     512u
#define ARP_WAYS        8u
#define ARP_PENDING_MAX 8u
#define ARP_TRIES       4u
#define ARP_RETRY_NS    (250 * RN_NS_PER_MS) /* doubles with each try */
#define ARP_FRESH_NS    (60 * RN_NS_PER_S)   /* after that a used entry is asked for again, still in use */
#define ARP_FAILED_NS   (3 * RN_NS_PER_S)    /* a dead neighbour is not asked for again before */

/* One writer: set_state in arp.c. */
enum arp_state {
	ARP_S_FREE,  /* arp_get makes it WAIT */
	ARP_S_WAIT,  /* asked; a reply makes it READY, ARP_TRIES without one FAILED */
	ARP_S_READY, /* mac is good; ARP_FRESH_NS after the last news it goes to PROBE when used */
	ARP_S_PROBE, /* mac still in use, asked again: a reply makes it READY, none after ARP_TRIES FAILED */
	ARP_S_FAILED /* nobody answers; after ARP_FAILED_NS the next use asks again */
};

struct arp_entry {
	struct pkt_addr ip;
	enum arp_state state;
	uint32_t users; /* connections that hold a pointer: the entry stays */
	uint32_t gen;   /* changes with mac */
	uint32_t tries;
	uint64_t due; /* ns: next try, or end of freshness or failure */
	uint64_t last_use;
	bool notify; /* the control thread waits for EVENT_NEIGH */
	bool asking; /* on the list of entries with a due time: WAIT or PROBE */
	uint8_t mac[PKT_MAC_LEN];
	uint32_t n_pending;
	struct rte_mbuf *pending[ARP_PENDING_MAX]; /* whole frames but for the destination MAC */
};

struct arp_table;

/* What an arp call wants done; the worker does it. */
struct arp_todo {
	struct rte_mbuf *out[ARP_PENDING_MAX + 2]; /* frames to transmit */
	uint32_t n_out;
	struct arp_entry *told; /* its outcome is to be told to the control thread, or NULL */
};

struct arp_table *arp_create(struct rnicd_port *port, struct rnicd_port_stats *st, int socket);
void arp_destroy(struct arp_table *t);

/* The neighbour for an address, asked for when it is not known; NULL: all entries are in use. */
struct arp_entry *arp_get(struct arp_table *t, const struct pkt_addr *ip, uint64_t now, struct arp_todo *todo);

static inline bool arp_usable(const struct arp_entry *e) { return e->state == ARP_S_READY || e->state == ARP_S_PROBE; }

/*
 * Takes a frame whose destination MAC is not known yet; true: kept, or (when failed or full) freed and counted. False:
 * the MAC is known and has been written into the frame, transmit it. Called for each frame only while !arp_usable().
 */
bool arp_park(struct arp_table *t, struct arp_entry *e, struct rte_mbuf *m);

/* A received ARP frame. reply: this worker shall answer when it asks for us (one worker receives it from the wire). */
void arp_input(struct arp_table *t, const struct rte_mbuf *m, const struct pkt *p, bool reply, uint64_t now,
	       struct arp_todo *todo);

/* Retries; call when arp_next() is due, until it returns false. */
bool arp_timer(struct arp_table *t, uint64_t now, struct arp_todo *todo);
uint64_t arp_next(const struct arp_table *t);

/* "I am here": sent when the port comes up. */
struct rte_mbuf *arp_gratuitous(struct arp_table *t);

#endif
