/* SPDX-License-Identifier: BSD-3-Clause */
/* HELLO: checks and maps the client's regions, and tells the workers of its doorbells. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "border/bell.h"
#include "control/client.h"
#include "ipc/ipc_region.h"
#include "control/numa_node.h"
#include "control/sigbus.h"

_Static_assert(SIGBUS_WATCHES >= CLIENTS_MAX * (IPC_REGIONS + 1),
	       "each region of a client is watched, and the room of its imports");

static const char *const region_name[IPC_REGIONS] = { "queue region", "arena", "hugepage arena" };

/* Of a refused HELLO, whose regions have not been used: no pages are freed, because a helper still has the files open.
 * Of a client that has ended, client_unmap() has unmapped them. */
void client_forget_regions(struct client *c)
{
	for (unsigned r = 0; r < IPC_REGIONS; r++) {
		if (c->region[r].base == NULL)
			continue;
		sigbus_forget(c->region[r].watch);
		munmap(c->region[r].base, c->region[r].size);
		client_addresses_give(c, c->region[r].size);
		c->region[r] = (struct client_region){ 0 };
	}
	if (c->wake_fd >= 0)
		close(c->wake_fd);
	c->wake_fd = -1;
}

void client_unmap(struct client *c)
{
	struct client_region *from[IPC_REGIONS + 1] = { &c->room };

	for (unsigned r = 0; r < IPC_REGIONS; r++)
		from[r + 1] = &c->region[r];
	for (unsigned i = 0; i < RN_ARRAY_LEN(from); i++) {
		if (from[i]->base == NULL)
			continue;
		sigbus_forget(from[i]->watch);
		c->unmap[i] = (struct unmap){ .base = from[i]->base, .size = from[i]->size };
		*from[i] = (struct client_region){ 0 };
		unmap_begin(&c->unmap[i]);
	}
}

bool client_is_unmapped(const struct client *c)
{
	for (unsigned i = 0; i < RN_ARRAY_LEN(c->unmap); i++)
		if (!unmap_is_done(&c->unmap[i]))
			return false;
	return true;
}

static const char *why_not(int rc)
{
	switch (rc) {
	case -EPERM: return "is not sealed against shrinking";
	case -EBADF: return "is not a memfd of its kind";
	case -ERANGE: return "has another size than HELLO says";
	case -EINVAL: return "has a size that is not allowed";
	case -ENOMEM: return "cannot be mapped: no memory";
	default: return "cannot be mapped";
	}
}

bool client_addresses_take(struct client *c, uint64_t n)
{
	if (!user_take(c->user, USER_ADDRESSES, 0, n))
		return false;
	c->addresses += n;
	return true;
}

void client_addresses_give(struct client *c, uint64_t n)
{
	user_give(c->user, USER_ADDRESSES, 0, n);
	c->addresses -= n;
}

/* False: the client was answered with the error. */
static bool take_region(struct client *c, unsigned r, const struct fds_given *g, uint64_t size)
{
	int rc = g->kind == FDS_MEMORY ? ipc_region_check((enum ipc_region)r, &g->memory, size) : -EBADF;

	if (rc == 0 && !client_addresses_take(c, size)) {
		client_forget_regions(c);
		client_error(c, ENOMEM, "this user has as much of rnicd's address space as a user may (user-share)");
		return false;
	}
	if (rc == 0) {
		rc = ipc_region_map(g->fd, size, &c->region[r].base);
		if (rc != 0)
			client_addresses_give(c, size);
	}
	if (rc != 0) {
		client_forget_regions(c);
		client_error(c, rc == -ENOMEM ? ENOMEM : EINVAL, "the %s %s", region_name[r], why_not(rc));
		return false;
	}
	c->region[r].size = size;
	c->region[r].watch = sigbus_watch(c->region[r].base, size);
	if (c->region[r].watch < 0) {
		client_forget_regions(c);
		client_error(c, ENOMEM, "rnicd has no memory for another client");
		return false;
	}
	numa_node_place(c->region[r].base, size);
	return true;
}

static bool take_regions(struct client *c, const struct fds_given *g, uint32_t n)
{
	const struct ipc_hello *h = &c->req.hello;
	uint32_t given = 1;

	for (unsigned r = 0; r < IPC_REGIONS; r++) {
		if (h->size[r] == 0)
			continue;
		if (given == n) {
			client_forget_regions(c);
			client_error(c, EINVAL, "HELLO names more regions than it has descriptors");
			return false;
		}
		if (!take_region(c, r, &g[given++], h->size[r]))
			return false;
	}
	if (given == n && c->region[IPC_REGION_QUEUES].size >= IPC_QUEUES_FREE_OFF)
		return true;
	client_forget_regions(c);
	client_error(c, EINVAL,
		     given != n ? "HELLO has more descriptors than it names regions"
				: "the queue region has no room for the control block");
	return false;
}

void client_check_memory(void)
{
	if (!sigbus_any())
		return;
	rn_list_each(struct client, c, &clients.all, link) {
		bool hit = c->room.base != NULL && sigbus_hit(c->room.watch);
		for (unsigned r = 0; r < IPC_REGIONS; r++)
			hit |= c->region[r].base != NULL && sigbus_hit(c->region[r].watch);
		if (hit)
			client_drop(c, "pages of its memory are gone");
	}
}

struct join {
	struct cmd cmd;
	struct client *c;
};

static void join_done(struct cmd *cmd)
{
	struct join *j = rn_container_of(cmd, struct join, cmd);
	struct ipc_msg m = { .hello_ok = { .version = IPC_VERSION,
					   .devs = rnicd.n_ports,
					   .workers = rnicd.n_workers,
					   .can = IPC_CAN_OPEN | IPC_CAN_QUIET } };
	struct client *c = j->c;

	free(j);
	c->joined = true;
	if (!client_back(c))
		return;
	c->state = CLIENT_READY;
	client_answer(c, &m, IPC_MSG_LEN(hello_ok));
}

void client_forget_workers(struct client *c)
{
	for (uint32_t i = 0; i < RNICD_MAX_WORKERS; i++) {
		/* closing does not end the workers' watch, as the client has the eventfd open too */
		if (c->wc[i] != NULL && c->wake_fd >= 0)
			bell_unwatch(i, c->wake_fd);
		free(c->wc[i]);
		c->wc[i] = NULL;
	}
}

/* Makes each worker's record of the client. False: no memory, or a worker cannot wait for the wake descriptor. */
static bool make_workers(struct client *c, struct ipc_ctrl *ctrl)
{
	uint32_t i;

	for (i = 0; i < rnicd.n_workers; i++) {
		c->wc[i] = aligned_alloc(RN_CACHE_LINE,
					 (sizeof(*c->wc[i]) + RN_CACHE_LINE - 1) & ~(size_t)(RN_CACHE_LINE - 1));
		if (c->wc[i] == NULL)
			break;
		memset(c->wc[i], 0, sizeof(*c->wc[i]));
		c->wc[i]->doorbell = &ctrl->doorbell[i];
		if (c->wake_fd >= 0 && !bell_watch(i, c->wake_fd, EPOLLIN | EPOLLET))
			break;
	}
	if (i == rnicd.n_workers)
		return true;
	client_forget_workers(c);
	return false;
}

static void host_joined(struct cmd *cmd)
{
	struct join *j = rn_container_of(cmd, struct join, cmd);
	struct client *c = j->c;

	free(j);
	c->joined = true;
	client_unhold(c);
}

/* Tells the workers of an XRC domain's host, whose queue region is rnicd's own memory. Commands to a worker stay in
 * order, so the caller may send further commands at once. */
bool client_host_join(struct client *c)
{
	const int how = MAP_PRIVATE | MAP_ANONYMOUS;
	struct client_region *r = &c->region[IPC_REGION_QUEUES];
	void *base = mmap(NULL, IPC_QUEUES_FREE_OFF, PROT_READ | PROT_WRITE, how, -1, 0);
	struct join *j = calloc(1, sizeof(*j));

	if (base != MAP_FAILED)
		*r = (struct client_region){ .base = base,
					     .size = IPC_QUEUES_FREE_OFF,
					     .watch = sigbus_watch(base, IPC_QUEUES_FREE_OFF) };
	if (base == MAP_FAILED || j == NULL || r->watch < 0 || !make_workers(c, base)) {
		if (base != MAP_FAILED && r->watch >= 0)
			sigbus_forget(r->watch);
		if (base != MAP_FAILED)
			munmap(base, IPC_QUEUES_FREE_OFF);
		free(j);
		return false;
	}
	for (uint32_t i = 0; i < rnicd.n_workers; i++)
		c->wc[i]->shares = true; /* its queue pairs send memory of other clients */
	j->c = c;
	j->cmd = (struct cmd){ .type = CMD_CLIENT_ADD, .done = host_joined, .client.view = c->wc };
	c->state = CLIENT_READY;
	c->shared = true;
	client_hold(c);
	cmd_send_all(&j->cmd);
	return true;
}

void client_hello(struct client *c, struct fds_given *g, uint32_t n)
{
	if (g[0].kind != FDS_EVENTFD) {
		client_error(c, EINVAL, "the wake descriptor is not an eventfd");
		return;
	}
	if (!take_regions(c, g, n))
		return;
	c->wake_fd = g[0].fd;
	g[0].fd = -1;
	struct ipc_ctrl *ctrl = (struct ipc_ctrl *)(void *)c->region[IPC_REGION_QUEUES].base;
	__atomic_store_n(&ctrl->oversubscribed, (uint32_t)(sysconf(_SC_NPROCESSORS_ONLN) < (long)rnicd.n_workers + 2),
			 __ATOMIC_RELAXED);
	struct join *j = calloc(1, sizeof(*j));
	if (j == NULL || !make_workers(c, ctrl)) {
		free(j);
		client_forget_regions(c);
		client_error(c, ENOMEM, "rnicd has no memory for another client");
		return;
	}
	j->c = c;
	j->cmd = (struct cmd){ .type = CMD_CLIENT_ADD, .done = join_done, .client.view = c->wc };
	c->state = CLIENT_JOINING;
	client_hold(c);
	cmd_send_all(&j->cmd);
}
