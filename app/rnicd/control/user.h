/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Resources that all clients share ("tables"), and the share of each table that one user (uid) may have. So a user with
 * any number of processes leaves room for the others. The key user-share sets the share in percent. Quotas, on the
 * other hand, bound a single client. Control thread.
 *
 * Memory is a table too, and its entries are bytes. What rnicd allocates for an object of a client comes from
 * user_alloc(), unless another table bounds the number of such objects.
 */
#ifndef USER_H
#define USER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "border/rnicd.h"

#define CLIENTS_MAX 2048u /* the most that the key clients allows: client places are watched for SIGBUS */

/* The tables. Where each device or worker has a table of its own, its number is the index; else the index is 0. */
enum user_table {
	USER_CLIENTS,   /* connected processes, including those that have not sent HELLO */
	USER_FDS,       /* descriptors of rnicd */
	USER_MAPPINGS,  /* memory mappings: the kernel limits them for each process (vm.max_map_count) */
	USER_LISTENERS, /* listeners; one of rdma_cm, also of RDMA_PS_UDP, counts once for each of its devices */
	USER_STAGS,     /* memory regions and windows of a device */
	USER_GROUPS,    /* multicast groups of a device */
	USER_FLOWS,     /* connections of a worker */
	USER_OPENINGS,  /* connections of a worker that the user opens and that are not established yet */
	USER_REQUESTS,  /* connections of a worker that peers request and that are not established yet */
	USER_XSRQS,     /* XRC shared receive queues of a device */
	USER_XRCDS,     /* XRC domains, counted once for each open */
	USER_UDS,       /* datagram queue pairs and datagram sockets of a worker */
	USER_UDP_PORTS, /* UDP ports of a device that belong to one queue pair each */
	USER_TCP_PORTS, /* ports of a device that ids and TCP sockets have reserved (cm.h: cm_port_take) */
	USER_MEMORY,    /* bytes that clients share with rnicd: registered memory, queues, the rings of sockets */
	USER_ADDRESSES, /* bytes of rnicd's address space that regions and imports of clients take */
	USER_OBJECTS,   /* bytes that rnicd has allocated for objects of clients: user_alloc() */
	USER_TABLES
};

struct user;

/* Reads the system's limits. Called when the ports and workers are known. */
void user_start(void);

/* The user, with a reference that user_put() returns; NULL: no memory. */
struct user *user_get(uid_t uid);
struct user *user_hold(struct user *u);
void user_put(struct user *u);

/*
 * The user's number in the workers (qp_attr.tenant), constant while the user lives. Up to QP_TENANTS - 1 users have a
 * number each; with more, some share one, and nobody chooses with whom.
 */
uint8_t user_tenant(const struct user *u);

/* Whether this user may take n entries of table[index] now. Takes and logs nothing. */
bool user_has_room(const struct user *u, enum user_table table, uint32_t index, uint64_t n);

/*
 * Takes n entries of table[index] for this user. False: the user's share or the table is used up, which is logged at
 * most every 10 s. Entries hold no reference to the user: the caller needs one.
 */
bool user_take(struct user *u, enum user_table table, uint32_t index, uint64_t n);
void user_give(struct user *u, enum user_table table, uint32_t index, uint64_t n);
/* An entry now counts for `to`, even beyond its share: it is the user that goes on to use the entry. */
void user_move(struct user *from, struct user *to, enum user_table table, uint32_t index);

/*
 * How many users may have doorbells for sockets (sk.h). Their descriptors are set aside, as the doorbells of a user are
 * never freed: a host may give each user tens of thousands of further uids (subuid(5)).
 */
uint32_t user_bells_max(void);

/* The number of entries of a table that a user may have. */
uint64_t user_share(enum user_table table);
/* What one user may have of n places that no table counts: user-share percent, one at least. */
static inline uint32_t user_part(uint32_t n) { return rn_max_u32(n * rnicd.cfg.user_share / 100, 1); }

/*
 * Zeroed memory for an object of this user; counts in USER_OBJECTS with what the C library takes for it. lines: begins
 * at a cache line. NULL: rnicd has no memory, or the user has used up the share of it, which is logged.
 */
void *user_alloc(struct user *u, size_t size);
void *user_alloc_lines(struct user *u, size_t size);
/* Frees memory that is NULL or was allocated for the same user. */
void user_free(struct user *u, void *p);

#endif
