/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Imports: files that a client has mapped as shared memory, and that the daemon maps too. All imports of a client lie
 * in one address range ("room"), which is reserved until the client's death: when an import is released, anonymous
 * pages replace it, so a packet that still refers to it reads zeros instead of causing a fault. An access to a file
 * that was truncated under its mapping causes SIGBUS; rnicd survives it (sigbus.h) and drops the client.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control/client.h"
#include "control/client_maps.h"
#include "ipc/ipc_region.h"
#include "control/sigbus.h"

#define ALIGN    (UINT64_C(2) << 20)
#define MAPPINGS 2u /* memory mappings that an import takes: its own, and another because it splits the room */
#define PAGE     4096u
#define PORTION  (UINT64_C(64) << 20) /* bytes cleared in one turn of the loop */

/*
 * Another mapping of the file of an import that is released. It keeps the file's pages, which may be tens of GiB, from
 * being freed by the control thread: the thread of unmap.h frees them, if the client has given them up.
 */
struct keeper {
	struct rn_link link;
	struct unmap unmap;
	struct user *user; /* one mapping is counted in the user's share */
};

static struct rn_list keepers; /* that the thread has not unmapped yet, in its order */

/* Reserves the room when it is first needed. False: no addresses are left. */
static bool room_make(struct client *c)
{
	if (c->room.base != NULL)
		return true;
	if (!client_addresses_take(c, IPC_IMPORT_ROOM))
		return false;
	void *p = mmap(NULL, IPC_IMPORT_ROOM, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		client_addresses_give(c, IPC_IMPORT_ROOM);
		return false;
	}
	c->room =
		(struct client_region){ .base = p, .size = IPC_IMPORT_ROOM, .watch = sigbus_watch(p, IPC_IMPORT_ROOM) };
	if (c->room.watch >= 0)
		return true;
	munmap(p, IPC_IMPORT_ROOM);
	client_addresses_give(c, IPC_IMPORT_ROOM);
	c->room = (struct client_region){ 0 };
	return false;
}

/* The lowest free address in the room for len bytes; NULL: none. */
static uint8_t *room_find(const struct client *c, uint64_t len, uint64_t align)
{
	uint8_t *at = (uint8_t *)(((uintptr_t)c->room.base + align - 1) & ~(uintptr_t)(align - 1));
	bool moved = true;

	while (moved) {
		struct client_import *i;
		moved = false;
		for (uint32_t h = 0; (i = table_next(&c->imports, &h)) != NULL;) {
			if (at >= i->base + i->len || at + len <= i->base)
				continue;
			at = (uint8_t *)(((uintptr_t)i->base + i->len + align - 1) & ~(uintptr_t)(align - 1));
			moved = true;
		}
	}
	return rn_in_range((uint64_t)(at - c->room.base), len, c->room.size) ? at : NULL;
}

/* Puts anonymous pages in place of an import. They are of the same kind as the rest of the room, so the kernel merges
 * the mappings. False: a page of the file is larger, or there are too many mappings. */
static bool room_clear(uint8_t *at, uint64_t len)
{
	const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

	return mmap(at, len, PROT_READ, how, -1, 0) != MAP_FAILED;
}

/* Maps the file into the room. page: bytes of a page of the file. Returns the import's handle; 0: the client was
 * answered with the error. */
static uint32_t import_place(struct client *c, const struct ipc_import *r, int fd, uint64_t page)
{
	uint64_t align = page > ALIGN ? page : ALIGN;
	uint8_t *at = room_make(c) ? room_find(c, r->len, align) : NULL;
	struct client_import *i = at != NULL ? calloc(1, sizeof(*i)) : NULL;

	if (i == NULL) {
		client_error(c, ENOMEM, "no addresses left to map more shared memory");
		return 0;
	}
	*i = (struct client_import){ .base = at, .len = r->len, .page = page, .writable = r->writable != 0 };
	if (mmap(at, r->len, PROT_READ | (i->writable ? PROT_WRITE : 0), MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd,
		 (off_t)r->off) == MAP_FAILED) {
		int err = errno;
		(void)room_clear(at, r->len);
		free(i);
		client_error(c, err == EPERM ? EACCES : err, "its file cannot be mapped by rnicd");
		return 0;
	}
	uint32_t handle = client_table_add(c, &c->imports, i);
	if (handle == 0) {
		(void)room_clear(at, r->len); /* no page of it has been touched, and a helper has the file open */
		free(i);
		client_error(c, ENOMEM, "no memory");
	}
	return handle;
}

static uint32_t import_map(struct client *c, const struct ipc_import *r, const struct fds_given *g)
{
	const uint64_t page = g->memory.page;

	if (!rn_in_range(r->off, r->len, (g->memory.size + page - 1) / page * page) || (r->off | r->len) % page != 0) {
		client_error(c, EINVAL, "the import does not lie inside its file, in whole pages");
		return 0;
	}
	if (!user_take(c->user, USER_MAPPINGS, 0, MAPPINGS)) {
		client_error(c, ENOMEM,
			     "this user has as many imports of shared memory as a user may: raise vm.max_map_count "
			     "or rnicd's user-share");
		return 0;
	}
	uint32_t handle = import_place(c, r, g->fd, page);
	if (handle == 0)
		user_give(c->user, USER_MAPPINGS, 0, MAPPINGS);
	return handle;
}

/* The file is open (err 0, as g), or err says why not: imports it and answers the client. */
static void import_file(struct client *c, int err, const struct fds_given *g)
{
	if (err != 0) {
		client_error(c, err, "shared memory: rnicd cannot open its file");
	} else if (g->kind != FDS_MEMORY) {
		client_error(c, EOPNOTSUPP, "its file is not in a memory file system: map it from tmpfs or hugetlbfs");
	} else {
		uint32_t handle = import_map(c, &c->req.import, g);
		if (handle != 0)
			client_ok_handle(c, IPC_REGIONS - 1 + handle);
	}
}

static void client_import_opened(struct client *c, struct fds_result *r)
{
	import_file(c, r->status == 0 && r->n != 1 ? EIO : -r->status, &r->given[0]);
}

void client_import(struct client *c, struct fds_given *g, uint32_t n)
{
	const struct ipc_import *r = &c->req.import;
	const struct fds_mapping m = {
		.start = r->start, .end = r->end, .writable = r->writable, .uid = c->proc.uid, .gid = c->proc.gid
	};

	if (c->imports.live >= IPC_IMPORTS_MAX)
		client_error(c, ENOMEM, "a client may have %u imports of shared memory", IPC_IMPORTS_MAX);
	else if (r->len == 0 || r->len > IPC_IMPORT_ROOM || r->off > INT64_MAX - r->len)
		client_error(c, EINVAL, "shared memory: the length is not possible");
	else if (n > 0)
		import_file(c, 0, &g[0]);
	else if (c->proc.dir < 0)
		import_file(c, ENXIO, NULL);
	else if (!client_open(c, &m, client_import_opened))
		client_error(c, ENOMEM, "no memory");
}

struct client_import *client_import_get(const struct client *c, uint32_t region)
{
	return region >= IPC_REGIONS ? table_get(&c->imports, region - (IPC_REGIONS - 1)) : NULL;
}

/* ---- release ---- */

/* NULL: no memory, a device of a program's own, or a file of hugetlbfs, of which the kernel makes no second mapping.
 * Such a file has few pages, and freeing them is soon done. */
static struct keeper *keeper_make(const struct client *c, const struct client_import *i)
{
	struct keeper *k = rnicd.own ? NULL : calloc(1, sizeof(*k));
	void *p = k != NULL ? mremap(i->base, 0, PAGE, MREMAP_MAYMOVE) : MAP_FAILED;

	if (p == MAP_FAILED) {
		free(k);
		return NULL;
	}
	k->unmap = (struct unmap){ .base = p, .size = PAGE };
	k->user = user_hold(c->user);
	return k;
}

void client_keepers_reap(void)
{
	struct keeper *k;

	while ((k = rn_list_first(&keepers, struct keeper, link)) != NULL && unmap_is_done(&k->unmap)) {
		rn_list_remove(&keepers, &k->link);
		user_give(k->user, USER_MAPPINGS, 0, 1);
		user_put(k->user);
		free(k);
	}
}

static void forgotten(struct client *c, struct client_import *i)
{
	struct keeper *k = i->keeper;

	user_give(c->user, USER_MAPPINGS, 0, MAPPINGS - (k != NULL));
	table_del(&c->imports, c->req.handle.handle - (IPC_REGIONS - 1));
	free(i);
	if (k != NULL) {
		rn_list_push_back(&keepers, &k->link);
		unmap_begin(&k->unmap);
	}
	if (client_back(c))
		client_ok(c);
}

static void client_forget_on(struct loop_timer *t)
{
	struct client *c = rn_container_of(t, struct client, timer);
	struct client_import *i = client_import_get(c, c->req.handle.handle);
	uint64_t n = rn_min_u64(PORTION, i->len - i->cleared);

	if (!room_clear(i->base + i->cleared, n)) {
		n = i->len - i->cleared;
		(void)room_clear(i->base + i->cleared, n);
	}
	i->cleared += n;
	if (i->cleared < i->len)
		loop_timer_arm(t, 0); /* continue in the next turn, after other work of the loop */
	else
		forgotten(c, i);
}

void client_forget(struct client *c)
{
	uint32_t region = c->req.handle.handle;
	struct client_import *i = client_import_get(c, region);

	if (i == NULL || i->users > 0) {
		client_error(c, i == NULL ? EINVAL : EBUSY,
			     i == NULL ? "there is no import %u" : "import %u is in use by memory regions", region);
		return;
	}
	i->keeper = keeper_make(c, i);
	client_hold(c);
	c->timer.due = client_forget_on;
	client_forget_on(&c->timer);
}

void client_imports_free(struct client *c)
{
	struct client_import *i;

	for (uint32_t h = 0; (i = table_next(&c->imports, &h)) != NULL;) {
		user_give(c->user, USER_MAPPINGS, 0, MAPPINGS);
		free(i);
	}
	client_table_free(c, &c->imports);
	if (c->proc.dir >= 0)
		close(c->proc.dir);
	c->proc.dir = -1;
}
