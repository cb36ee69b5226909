/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Neighbours of one port as one worker knows them (RFC 826). Each worker learns for itself: every worker sees all ARP
 * frames. An entry is made only for an address that this host wants to reach, and for a host of the network that asks
 * for this one; so a flood of forged senders can take only unused entries. Entries whose neighbour is silent make room
 * for others, so programs that ask for absent hosts, or connect to them, cannot fill the table. Worker thread only;
 * memory is taken at creation.
 */
#ifndef RNICD_ARP_H
#define RNICD_ARP_H

#include <rte_mbuf.h>

#include "border/rnicd.h"

#define ARP_ENTRIES 512u
#define ARP_WAYS    8u
/* buffers of frames that wait for neighbours */
#define ARP_PENDING_MIN 8u   /* for each neighbour, whatever waits for others */
#define ARP_PENDING_MAX 128u /* for one neighbour at most: about as many as Linux keeps */
#define ARP_PENDING_ALL 512u /* for all neighbours, once one has more than ARP_PENDING_MIN */
#define ARP_TRIES       4u
#define ARP_RETRY_NS    (250 * RN_NS_PER_MS) /* pause before the first retry; doubles with each try */
#define ARP_FRESH_NS \
	(60 * RN_NS_PER_S)              /* age after which an entry in use is asked for again, while its MAC is
					      * still used */
#define ARP_FAILED_NS (3 * RN_NS_PER_S) /* pause before a neighbour that did not answer is asked for again */

/* Only set_state in arp.c writes it. */
enum arp_state {
	ARP_S_FREE,  /* arp_get makes it WAIT */
	ARP_S_WAIT,  /* asked; a reply makes it READY, ARP_TRIES without one FAILED */
	ARP_S_READY, /* mac is good; ARP_FRESH_NS after the last news it goes to PROBE when used */
	ARP_S_PROBE, /* mac still in use, asked again: a reply makes it READY, none after ARP_TRIES FAILED */
	ARP_S_FAILED /* no answer; after ARP_FAILED_NS, or arp_retry(), the next use asks again */
};

struct arp_entry {
	struct pkt_addr ip;
	enum arp_state state;
	uint32_t users; /* connections that hold a pointer, since the neighbour has answered: the entry stays */
	uint32_t gen;   /* changes with mac, and when the entry is taken for another neighbour */
	uint32_t tries;
	uint64_t due; /* ns: next try, or end of freshness or failure */
	uint64_t last_use;
	bool notify; /* the control thread waits for EVENT_NEIGH */
	bool asking; /* on the list of entries with a due time: WAIT or PROBE */
	uint8_t mac[PKT_MAC_LEN];
	/* frames that are complete except for the destination MAC */
	uint32_t n_pending;   /* their buffers */
	uint16_t first, last; /* their places in the table, counted from 1; 0: there is none */
};

struct arp_table;

/* What an arp call wants done; the worker does it. */
struct arp_todo {
	struct rte_mbuf *out[2]; /* frames to transmit */
	uint32_t n_out;
	struct arp_entry *ready; /* the entry whose frames are to be transmitted (arp_unpark), or NULL */
	struct arp_entry *told;  /* the entry whose result is to be reported to the control thread, or NULL */
	struct pkt_addr evicted; /* if `evicts`: the control thread is told that it waits for this neighbour in vain */
	bool evicts;
};

struct arp_table *arp_create(struct rnicd_port *port, struct rnicd_port_stats *st, int socket);
void arp_destroy(struct arp_table *t);

/* The neighbour for an address, asked for when it is not known; NULL: connections hold all entries. */
struct arp_entry *arp_get(struct arp_table *t, const struct pkt_addr *ip, uint64_t now, struct arp_todo *todo);

/* Whether the entry may be used without arp_get(), which asks for neighbours that were not heard of lately. */
static inline bool arp_fresh(const struct arp_entry *e, uint64_t now)
{
	return rn_likely(e->state == ARP_S_READY && now < e->due);
}

static inline bool arp_usable(const struct arp_entry *e) { return e->state == ARP_S_READY || e->state == ARP_S_PROBE; }

/* A program connects to the neighbour: if it has failed, the next arp_get() asks again at once, as in Linux. */
void arp_retry(struct arp_entry *e);

/*
 * Takes a frame whose destination MAC is not known yet; true: kept, or (when failed or full) freed and counted. False:
 * the MAC is known and has been written into the frame, transmit it. Called for each frame only while !arp_usable().
 */
bool arp_park(struct arp_table *t, struct arp_entry *e, struct rte_mbuf *m);
/* The first frame that has waited for the neighbour, with its MAC; NULL: no more. */
struct rte_mbuf *arp_unpark(struct arp_table *t, struct arp_entry *e);

/*
 * A received ARP frame. reply: this worker answers if the frame asks for our address (one worker gets it from the
 * wire).
 */
void arp_input(struct arp_table *t, const struct rte_mbuf *m, const struct pkt *p, bool reply, uint64_t now,
	       struct arp_todo *todo);

/* Sends requests again that are due; call when arp_next() is due, until it returns false. */
bool arp_timer(struct arp_table *t, uint64_t now, struct arp_todo *todo);
uint64_t arp_next(const struct arp_table *t);

/* Gratuitous ARP: sent when the port comes up. */
struct rte_mbuf *arp_gratuitous(struct arp_table *t);

#endif
