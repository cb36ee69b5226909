/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all clients take from, and how much of that one user (uid) may have: so that one user, with however many
 * processes, leaves room for the others. The share of a user is a part of the whole (user-share); what a single client
 * may have is said by the quotas. Control thread.
 */
#ifndef USER_H
#define USER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Tables, and what each index of them is: 0 where there is one table. */
enum user_table {
	USER_CLIENTS,   /* connected processes */
	USER_FDS,       /* descriptors of rnicd */
	USER_MAPPINGS,  /* of memory: the kernel has a limit for each process (vm.max_map_count) */
	USER_LISTENERS, /* on all workers; as many for a listener as it has devices */
	USER_STAGS,     /* of a device */
	USER_GROUPS,    /* of a device */
	USER_FLOWS,     /* connections of a worker */
	USER_OPENINGS,  /* of them, those that the user opens and that are not established yet */
	USER_REQUESTS,  /* of them, those that a peer asks for and that are not established yet */
	USER_XSRQS,     /* XRC shared receive queues of a device */
	USER_XRCDS,     /* XRC domains: how often they are open */
	USER_UDS,       /* datagram queue pairs and datagram sockets of a worker */
	USER_UDP_PORTS, /* of a device, that queue pairs have for themselves */
	USER_TABLES
};

struct user;

/* Reads the system's limits. After the ports and workers are known. */
void user_start(void);

/* The user, counted; NULL: no memory. user_put() for each. */
struct user *user_get(uid_t uid);
struct user *user_hold(struct user *u);
void user_put(struct user *u);

/* n of table[index] are free for this user. Nothing is taken, and nothing is logged. */
bool user_has_room(const struct user *u, enum user_table table, uint32_t index, uint32_t n);

/*
 * n of table[index] for this user. False: the user's share is used up, or the table is. The log says so, once in a
 * while. What was taken keeps nothing of the user alive: hold it.
 */
bool user_take(struct user *u, enum user_table table, uint32_t index, uint32_t n);
void user_give(struct user *u, enum user_table table, uint32_t index, uint32_t n);

/* What a user may have of a table. */
uint32_t user_share(enum user_table table);

#endif
