/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/user.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/rn_list.h"
#include "border/look.h"
#include "border/rnicd.h"
#include "control/client.h"
#include "control/cm.h"
#include "qp/qp_xrc.h"

#define BELLS_FDS    2u                    /* descriptors that the doorbells of a user take */
#define BELLS_MAX    4096u                 /* users that may have doorbells */
#define BELLS_PART   8u                    /* ... as far as this part of the descriptors goes */
#define INDICES      RNICD_MAX_PORTS       /* a table has an index for each device, or for each worker */
#define OWN_FDS      256u                  /* descriptors of rnicd itself: ports, workers, files */
#define MAPS_DEFAULT 65530u                /* vm.max_map_count if it cannot be read */
#define OBJECTS_PART 16u                   /* object-memory = auto: this part of the host's memory */
#define MEMORY_LEAST (UINT64_C(256) << 20) /* bytes: host's memory if the system does not tell it */
#define ADDRESSES    (UINT64_C(7) << 44)   /* bytes: seven eighths of the 47 bits that a process of x86-64 has */
#define TELL_NS      (10 * RN_NS_PER_S)
_Static_assert(RNICD_MAX_WORKERS <= INDICES, "a worker has its place");

struct user {
	struct rn_link link;
	uid_t uid;
	uint8_t tenant; /* from 1 on */
	uint32_t refs;
	uint64_t used[USER_TABLES][INDICES];
};

static const char *const name[USER_TABLES] = {
	[USER_CLIENTS] = "client processes (clients)",
	[USER_FDS] = "descriptors (ulimit -n of rnicd)",
	[USER_MAPPINGS] = "memory mappings (vm.max_map_count)",
	[USER_LISTENERS] = "listeners (listeners)",
	[USER_STAGS] = "memory regions and windows of a device (regions)",
	[USER_GROUPS] = "multicast groups of a device (groups)",
	[USER_FLOWS] = "connections of a worker (flows)",
	[USER_OPENINGS] = "connections of a worker that are being opened",
	[USER_REQUESTS] = "requests for connections of a worker",
	[USER_XSRQS] = "XRC shared receive queues of a device",
	[USER_XRCDS] = "XRC domains (xrc-domains)",
	[USER_UDS] = "datagram queue pairs and sockets of a worker (flows)",
	[USER_UDP_PORTS] = "UDP ports of queue pairs of a device (udp-ports)",
	[USER_TCP_PORTS] = "TCP ports of a device",
	[USER_MEMORY] = "bytes of memory shared with rnicd (client-memory)",
	[USER_ADDRESSES] = "bytes of rnicd's address space",
	[USER_OBJECTS] = "bytes of rnicd's memory for objects (object-memory)",
};

static struct rn_list users;
static uint32_t tenants[QP_TENANTS]; /* how many users have this number */
/* total: entries of each table. used: entries in use by all users. */
static uint64_t total[USER_TABLES], used[USER_TABLES][INDICES];
static uint64_t told[USER_TABLES]; /* time of the last line of the log about the table */
static uint32_t bells_max;

static uint32_t max_mappings(void)
{
	FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned n = MAPS_DEFAULT;

	if (f == NULL)
		return n;
	if (fscanf(f, "%u", &n) != 1)
		n = MAPS_DEFAULT;
	fclose(f);
	return n;
}

static uint64_t host_memory(void)
{
	const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	return rn_max_u64(pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0, MEMORY_LEAST);
}

void user_start(void)
{
	uint32_t flows = rnicd.cfg.flows != 0 ? rnicd.cfg.flows : 4096;
	struct rlimit fds;

	if (getrlimit(RLIMIT_NOFILE, &fds) != 0)
		fds.rlim_cur = 1024;
	uint32_t n = (uint32_t)rn_min_u64(fds.rlim_cur, INT32_MAX);
	total[USER_CLIENTS] = rnicd.cfg.clients;
	total[USER_FDS] = n > 2 * OWN_FDS ? n - OWN_FDS : n / 2;
	bells_max = rn_max_u32(rn_min_u32((uint32_t)(total[USER_FDS] / BELLS_PART / BELLS_FDS), BELLS_MAX), 1);
	total[USER_FDS] -= bells_max * BELLS_FDS;
	/*
	 * The other half is for rnicd's own mappings, and for mappings that are split when clients punch holes
	 * (sigbus.h).
	 */
	total[USER_MAPPINGS] = max_mappings() / 2;
	/* the ports' own listeners are for qp-port */
	total[USER_LISTENERS] = rn_min_u32(rnicd.cfg.listeners, LOOK_LISTENERS - rnicd.n_ports);
	total[USER_STAGS] = rnicd.cfg.regions;
	total[USER_GROUPS] = rnicd.cfg.groups;
	total[USER_FLOWS] = flows;
	total[USER_UDS] = flows;
	total[USER_UDP_PORTS] = rnicd.cfg.udp_ports;
	total[USER_TCP_PORTS] = CM_PORT_LAST - CM_PORT_FIRST + 1; /* most connections leave from one of these */
	total[USER_XSRQS] = QP_XSRQ_NUMS - 1;
	total[USER_XRCDS] = rnicd.cfg.xrc_domains;
	total[USER_MEMORY] = rnicd.cfg.client_memory != 0 ? rnicd.cfg.client_memory : host_memory();
	total[USER_ADDRESSES] = ADDRESSES;
	total[USER_OBJECTS] = rnicd.cfg.object_memory != 0 ? rnicd.cfg.object_memory : host_memory() / OBJECTS_PART;
	/*
	 * Connections being opened and requests share the worker's memory for set-ups. A client that opens a connection
	 * can wait for memory, but a request is refused without it: so requests get the larger part.
	 */
	total[USER_OPENINGS] = rnicd.setups / 4;
	total[USER_REQUESTS] = rnicd.setups - rnicd.setups / 4;
}

uint32_t user_bells_max(void) { return bells_max; }

uint64_t user_share(enum user_table table)
{
	const uint64_t n = total[table] / 100 * rnicd.cfg.user_share + total[table] % 100 * rnicd.cfg.user_share / 100;

	return n > 0 ? n : 1;
}

/* The number that the fewest users have. Connections without a queue pair count for number 0. */
static uint8_t free_tenant(void)
{
	uint8_t best = 1;

	for (uint8_t t = 2; t < QP_TENANTS; t++)
		if (tenants[t] < tenants[best])
			best = t;
	return best;
}

struct user *user_get(uid_t uid)
{
	rn_list_each(struct user, u, &users, link)
		if (u->uid == uid)
			return user_hold(u);
	struct user *u = calloc(1, sizeof(*u));
	if (u == NULL)
		return NULL;
	u->uid = uid;
	u->tenant = free_tenant();
	tenants[u->tenant]++;
	u->refs = 1;
	rn_list_push_front(&users, &u->link);
	return u;
}

struct user *user_hold(struct user *u)
{
	u->refs++;
	return u;
}

void user_put(struct user *u)
{
	if (--u->refs > 0)
		return;
	rn_list_remove(&users, &u->link);
	tenants[u->tenant]--;
	free(u);
}

uint8_t user_tenant(const struct user *u) { return u->tenant; }

static bool user_refuse(const struct user *u, enum user_table table, bool whole)
{
	uint64_t now = rnicd_now();

	if (told[table] == 0 || now - told[table] > TELL_NS) {
		told[table] = now;
		if (whole)
			rnicd_log(RNICD_LOG_WARNING, "uid %u gets no more %s: all %llu are in use", (unsigned)u->uid,
				  name[table], (unsigned long long)total[table]);
		else
			rnicd_log(RNICD_LOG_WARNING,
				  "uid %u gets no more %s: a user may have %llu of %llu (user-share = %u%%)",
				  (unsigned)u->uid, name[table], (unsigned long long)user_share(table),
				  (unsigned long long)total[table], rnicd.cfg.user_share);
	}
	return false;
}

bool user_has_room(const struct user *u, enum user_table table, uint32_t index, uint64_t n)
{
	return u->used[table][index] + n <= user_share(table) && used[table][index] + n <= total[table];
}

bool user_take(struct user *u, enum user_table table, uint32_t index, uint64_t n)
{
	const uint64_t share = user_share(table);

	if (u->used[table][index] > share || n > share - u->used[table][index])
		return user_refuse(u, table, false);
	if (n > total[table] - used[table][index])
		return user_refuse(u, table, true);
	u->used[table][index] += n;
	used[table][index] += n;
	return true;
}

void user_give(struct user *u, enum user_table table, uint32_t index, uint64_t n)
{
	u->used[table][index] -= n;
	used[table][index] -= n;
}

void user_move(struct user *from, struct user *to, enum user_table table, uint32_t index)
{
	from->used[table][index]--;
	to->used[table][index]++;
}

/* ---- memory for objects ---- */

static void *user_count(struct user *u, void *p)
{
	if (p == NULL || user_take(u, USER_OBJECTS, 0, malloc_usable_size(p)))
		return p;
	free(p);
	return NULL;
}

void *user_alloc(struct user *u, size_t size) { return user_count(u, calloc(1, size)); }

void *user_alloc_lines(struct user *u, size_t size)
{
	const size_t whole = (size + RN_CACHE_LINE - 1) & ~(size_t)(RN_CACHE_LINE - 1);
	void *p = aligned_alloc(RN_CACHE_LINE, whole);

	if (p != NULL)
		memset(p, 0, whole);
	return user_count(u, p);
}

void user_free(struct user *u, void *p)
{
	if (p != NULL)
		user_give(u, USER_OBJECTS, 0, malloc_usable_size(p));
	free(p);
}
