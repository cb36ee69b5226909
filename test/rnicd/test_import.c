/* SPDX-License-Identifier: BSD-3-Clause */
/* Imports of a client's shared memory; the test plays the rest of the control thread. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/client.h"
#include "control/sigbus.h"

#define PATIENCE_MS 30000
#define SIZE        (UINT64_C(300) << 20)

/* ---- functions that the file under test calls ---- */

struct rnicd rnicd;
static int status = -1; /* of the last answer */
static uint32_t handle;

void client_ok(struct client *c)
{
	(void)c;
	status = 0;
}
void client_ok_handle(struct client *c, uint32_t h)
{
	client_ok(c);
	handle = h;
}
void client_error(struct client *c, int err, const char *fmt, ...)
{
	(void)c;
	(void)fmt;
	status = err;
}
bool client_open(struct client *c, const struct fds_mapping *m, void (*then)(struct client *c, struct fds_result *r))
{
	(void)c;
	(void)m;
	(void)then;
	return false;
}
void client_hold(struct client *c) { c->under_way++; }
bool client_back(struct client *c)
{
	c->under_way--;
	return c->state != CLIENT_DYING;
}

static uint64_t mappings, objects; /* of the user */
static uint32_t references;
bool user_take(struct user *u, enum user_table table, uint32_t index, uint64_t n)
{
	(void)u;
	(void)index;
	*(table == USER_MAPPINGS ? &mappings : &objects) += n;
	return true;
}
void user_give(struct user *u, enum user_table table, uint32_t index, uint64_t n)
{
	(void)u;
	(void)index;
	*(table == USER_MAPPINGS ? &mappings : &objects) -= n;
}
struct user *user_hold(struct user *u)
{
	references++;
	return u;
}
void user_put(struct user *u)
{
	(void)u;
	references--;
}

static uint64_t addresses_left = UINT64_MAX;
bool client_addresses_take(struct client *c, uint64_t n)
{
	if (n > addresses_left)
		return false;
	c->addresses += n;
	return true;
}
void client_addresses_give(struct client *c, uint64_t n) { c->addresses -= n; }

int sigbus_watch(const void *base, uint64_t size)
{
	(void)base;
	(void)size;
	return 0;
}
void sigbus_forget(int watch) { (void)watch; }

static struct loop_timer *armed;
void loop_timer_arm(struct loop_timer *t, uint64_t when)
{
	(void)when;
	armed = t;
}

/* ---- tests ---- */

static int closed_fd = -1; /* of inotify: an event says that the file is neither open nor mapped any more */

static bool is_closed(int ms)
{
	struct pollfd p = { .fd = closed_fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

/* The client has passed a file and closed it; rnicd has closed its descriptor, too. */
static void import(struct client *c)
{
	struct fds_given g = { .kind = FDS_MEMORY,
			       .fd = memfd_create("import", MFD_CLOEXEC),
			       .memory = { .size = SIZE, .page = 4096 } };
	char path[32];

	assert_int_equal(ftruncate(g.fd, (off_t)SIZE), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", g.fd);
	closed_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	assert_true(closed_fd >= 0 && inotify_add_watch(closed_fd, path, IN_CLOSE) >= 0);
	c->req.import = (struct ipc_import){ .len = SIZE, .writable = 1 };
	client_import(c, &g, 1);
	assert_int_equal(status, 0);
	close(g.fd);
	uint8_t *at = client_import_get(c, handle)->base;
	for (uint64_t off = 0; off < SIZE; off += SIZE / 10)
		at[off] = 1;
	c->req.handle.handle = handle;
	status = -1;
}

static void go_on(void)
{
	struct loop_timer *t = armed;

	assert_non_null(t);
	armed = NULL;
	t->due(t);
}

static void end(struct client *c)
{
	client_imports_free(c);
	munmap(c->room.base, c->room.size);
	close(closed_fd);
}

static void the_pages_of_a_released_import_are_freed_by_another_thread(void **state)
{
	struct client c = { .state = CLIENT_READY, .proc.dir = -1 };
	uint32_t turns = 1;

	(void)state;
	import(&c);
	assert_int_equal(mappings, 2);
	uint8_t *at = client_import_get(&c, handle)->base;
	for (client_forget(&c); status < 0; turns++)
		go_on();
	assert_in_range(turns, SIZE >> 27, SIZE >> 20); /* others are served between the portions */
	for (uint64_t off = 0; off < SIZE; off += SIZE / 10)
		assert_int_equal(at[off], 0);
	assert_null(client_import_get(&c, handle));
	client_keepers_reap();
	assert_int_equal(mappings, 1);
	assert_int_equal(references, 1);
	assert_false(is_closed(0)); /* the thread has not run yet */
	assert_true(unmap_start());
	assert_true(is_closed(PATIENCE_MS));
	for (client_keepers_reap(); references > 0; client_keepers_reap())
		sched_yield();
	assert_int_equal(mappings, 0);
	unmap_stop();
	end(&c);
}

static void a_client_that_dies_meanwhile_is_not_answered(void **state)
{
	struct client c = { .state = CLIENT_READY, .proc.dir = -1 };

	(void)state;
	import(&c);
	client_forget(&c);
	assert_int_equal(c.under_way, 1); /* its death waits */
	c.state = CLIENT_DYING;
	while (c.under_way > 0)
		go_on();
	assert_int_equal(status, -1);
	assert_true(unmap_start());
	unmap_stop();
	client_keepers_reap();
	assert_int_equal(mappings + references, 0);
	end(&c);
}

static void the_import_that_is_released_is_the_clients(void **state)
{
	struct client c = { .state = CLIENT_READY, .proc.dir = -1 };

	(void)state;
	import(&c);
	client_import_get(&c, handle)->users = 1;
	client_forget(&c);
	assert_int_equal(status, EBUSY);
	c.req.handle.handle = handle + 1;
	client_forget(&c);
	assert_int_equal(status, EINVAL);
	assert_null(armed);
	end(&c);
	assert_int_equal(mappings, 0);
}

/* The room is counted for the user before it is reserved. */
static void client_without_addresses_gets_no_import(void **state)
{
	struct client c = { .proc.dir = -1 };
	struct fds_given g = { .kind = FDS_MEMORY,
			       .fd = memfd_create("import", MFD_CLOEXEC),
			       .memory = { .size = 4096, .page = 4096 } };

	(void)state;
	assert_int_equal(ftruncate(g.fd, 4096), 0);
	c.req.import = (struct ipc_import){ .len = 4096 };
	addresses_left = IPC_IMPORT_ROOM - 1;
	client_import(&c, &g, 1);
	assert_int_equal(status, ENOMEM);
	assert_null(c.room.base);
	addresses_left = UINT64_MAX;
	client_import(&c, &g, 1);
	assert_int_equal(status, 0);
	assert_true(c.addresses == IPC_IMPORT_ROOM);
	close(g.fd);
	client_imports_free(&c);
	munmap(c.room.base, c.room.size);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_pages_of_a_released_import_are_freed_by_another_thread),
		cmocka_unit_test(a_client_that_dies_meanwhile_is_not_answered),
		cmocka_unit_test(the_import_that_is_released_is_the_clients),
		cmocka_unit_test(client_without_addresses_gets_no_import),
	};

	return cmocka_run_group_tests_name("import", tests, NULL, NULL);
}
