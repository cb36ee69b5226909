/* SPDX-License-Identifier: BSD-3-Clause */
/* Registrations of memory in pieces (client_mr.c); the test plays the rest of the control thread. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "control/client.h"
#include "control/dev.h"
#include "ipc/ipc_region.h"

#define PIECES 5000u
#define PAGE   4096u
#define GIB    (UINT64_C(1) << 30)

/* ---- functions that the file under test calls ---- */

struct rnicd rnicd;
static struct client client;
static struct client_pd pd;
static struct client_import import[2]; /* of ordinary pages, and of pages of 1 GiB */
static struct qp_dev dev;
static struct qp_mr table[64];
static int status; /* of the last answer; -1: there is none yet */
static uint32_t stag;

void client_ok(struct client *c)
{
	(void)c;
	status = 0;
}
void client_answer(struct client *c, struct ipc_msg *m, uint16_t len)
{
	(void)len;
	stag = m->reg_mr_ok.stag;
	client_ok(c);
}
void client_error(struct client *c, int err, const char *fmt, ...)
{
	(void)c;
	(void)fmt;
	status = err;
}
void client_over_quota(struct client *c, const char *fmt, ...) { client_error(c, ENOMEM, "%s", fmt); }
void client_hold(struct client *c) { c->under_way++; }
void client_unhold(struct client *c) { c->under_way--; }
bool client_back(struct client *c)
{
	client_unhold(c);
	return true;
}
struct client_pd *client_pd_get(const struct client *c, uint32_t h)
{
	(void)c;
	return h == 1 ? &pd : NULL;
}
void client_pd_shares(const struct client_pd *p) { (void)p; }
void client_pd_use(struct client_pd *p) { p->users++; }
void client_pd_unuse(struct client_pd *p) { p->users--; }
struct client_import *client_import_get(const struct client *c, uint32_t region)
{
	(void)c;
	return region >= IPC_REGIONS && region < IPC_REGIONS + 2 ? &import[region - IPC_REGIONS] : NULL;
}

static uint64_t memory; /* counted in USER_MEMORY */
static uint64_t memory_most;
bool user_take(struct user *u, enum user_table t, uint32_t index, uint64_t n)
{
	(void)u;
	(void)index;
	if (t != USER_MEMORY)
		return true;
	if (memory + n > memory_most)
		return false;
	memory += n;
	return true;
}
void user_give(struct user *u, enum user_table t, uint32_t index, uint64_t n)
{
	(void)u;
	(void)index;
	memory -= t == USER_MEMORY ? n : 0;
}
static uint32_t allocs = UINT32_MAX; /* how many allocations succeed from now on */
void *user_alloc(struct user *u, size_t size)
{
	(void)u;
	return allocs-- > 0 ? calloc(1, size) : NULL;
}
void user_free(struct user *u, void *p)
{
	(void)u;
	free(p);
}

struct qp_dev *dev_get(uint32_t index)
{
	(void)index;
	return &dev;
}
struct qp_dev *dev_stirred(uint32_t index) { return dev_get(index); }

/* The workers answer at once. */
void cmd_send_all(struct cmd *c) { c->done(c); }

static struct loop_timer *armed;
void loop_timer_arm(struct loop_timer *t, uint64_t when)
{
	(void)when;
	armed = t;
}

static uint32_t touched;   /* pieces, in this turn */
static uint8_t *addresses; /* without memory: IPC_REGION_HUGE, then the imports */
static uint64_t cleared;   /* bytes of the hugepages that the system had to clear in this turn */
static bool present[4096]; /* each 2 MiB of these addresses */
int ipc_region_prefault(uint8_t *p, uint64_t len)
{
	assert_true(p != NULL && len > 0);
	touched++;
	if (p < addresses || p >= addresses + sizeof(present) * IPC_HUGE_PAGE)
		return 0;
	const uint64_t page = p >= import[1].base ? GIB : p >= import[0].base ? 0 : IPC_HUGE_PAGE;
	if (page == 0)
		return 0;
	for (uint64_t at = (uint64_t)(p - addresses) & ~(page - 1); at < (uint64_t)(p - addresses) + len; at += page) {
		cleared += present[at / IPC_HUGE_PAGE] ? 0 : page;
		present[at / IPC_HUGE_PAGE] = true;
	}
	return 0;
}

/* ---- tests ---- */

static int setup(void **state)
{
	(void)state;
	memset(&client, 0, sizeof(client));
	memset(table, 0, sizeof(table));
	qp_dev_init(&dev, table, RN_ARRAY_LEN(table), 1);
	pd = (struct client_pd){ .c = &client, .handle = 1, .id = 7 };
	rnicd.cfg.quota_mrs = 100;
	rnicd.cfg.quota_memory = UINT64_C(1) << 30;
	client.region[IPC_REGION_QUEUES].size = PIECES * sizeof(struct ipc_piece);
	client.region[IPC_REGION_ARENA].size = UINT64_C(2) * PIECES * PAGE;
	client.region[IPC_REGION_QUEUES].base = calloc(1, client.region[IPC_REGION_QUEUES].size);
	client.region[IPC_REGION_ARENA].base = calloc(1, client.region[IPC_REGION_ARENA].size);
	memory = 0;
	memory_most = UINT64_MAX;
	memset(present, 0, sizeof(present));
	/* 2 GiB of IPC_REGION_HUGE, then the room: 1 GiB of ordinary pages and 4 of pages of 1 GiB */
	addresses = mmap(NULL, 8 * GIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (addresses == MAP_FAILED)
		return -1;
	addresses = (uint8_t *)(((uintptr_t)addresses + GIB - 1) & ~(uintptr_t)(GIB - 1));
	client.region[IPC_REGION_HUGE] = (struct client_region){ .base = addresses, .size = 2 * GIB };
	client.room = (struct client_region){ .base = addresses + 2 * GIB, .size = 5 * GIB };
	import[0] = (struct client_import){ .base = client.room.base, .len = GIB, .page = PAGE, .writable = true };
	import[1] =
		(struct client_import){ .base = client.room.base + GIB, .len = 4 * GIB, .page = GIB, .writable = true };
	return client.region[IPC_REGION_QUEUES].base != NULL && client.region[IPC_REGION_ARENA].base != NULL ? 0 : -1;
}

static int teardown(void **state)
{
	uint32_t h = 0;
	struct client_mr *mr;

	(void)state;
	while ((mr = table_next(&client.mr, &h)) != NULL) {
		client_mr_void(mr);
		client_mr_free(&client, mr);
	}
	assert_int_equal(client.under_way, 0);
	assert_int_equal(memory, 0);
	assert_int_equal(import[0].users + import[1].users, 0);
	free(client.huge);
	munmap(addresses, 7 * GIB);
	table_free(&client.mr);
	free(client.region[IPC_REGION_QUEUES].base);
	free(client.region[IPC_REGION_ARENA].base);
	return 0;
}

/* Asks for a region of these pieces. Returns the number of turns; *most: bytes of hugepages cleared in one of them. */
static uint32_t ask_for(const struct ipc_piece *p, uint32_t n, uint32_t most_in_turn, uint64_t *most)
{
	uint32_t turns = 1;
	uint64_t len = 0;

	memcpy(client.region[IPC_REGION_QUEUES].base, p, n * sizeof(*p));
	for (uint32_t i = 0; i < n; i++)
		len += p[i].len;
	client.req.reg_mr = (struct ipc_reg_mr){ .pd = 1, .access = QP_ACC_LOCAL_WRITE, .len = len, .npieces = n };
	status = -1;
	touched = 0;
	cleared = *most = 0;
	armed = NULL;
	client_reg_mr(&client);
	for (; armed != NULL; turns++) {
		struct loop_timer *t = armed;
		assert_in_range(touched, 1, most_in_turn);
		*most = rn_max_u64(*most, cleared);
		armed = NULL;
		touched = 0;
		cleared = 0;
		t->due(t);
	}
	*most = rn_max_u64(*most, cleared);
	return turns;
}

/* n pieces of a page in this region, the first at `off` and each other one `step` bytes behind the one before. */
static uint32_t ask(uint32_t region, uint64_t off, uint32_t n, uint64_t step, uint64_t *most)
{
	struct ipc_piece *p = calloc(n, sizeof(*p));

	assert_non_null(p);
	for (uint32_t i = 0; i < n; i++)
		p[i] = (struct ipc_piece){ .region = region, .off = off + i * step, .len = PAGE };
	const uint32_t turns = ask_for(p, n, 256, most);
	free(p);
	return turns;
}

static void region_of_many_pieces_does_not_hold_the_control_thread(void **state)
{
	const struct qp_access last = { .pd = 7, .to = (uint64_t)PIECES * PAGE - 3, .len = 3 };
	struct rn_iov out[1];
	uint64_t most;
	uint32_t n;

	(void)state;
	assert_true(ask(IPC_REGION_ARENA, 0, PIECES, UINT64_C(2) * PAGE, &most) > PIECES / 257);
	assert_int_equal(status, 0);
	struct qp_access a = last;
	a.stag = stag;
	assert_int_equal(qp_mr_slices(&dev, &a, out, 1, &n), QP_MR_OK);
	assert_ptr_equal(out[0].base, client.region[IPC_REGION_ARENA].base + (2 * PIECES - 1) * UINT64_C(4096) - 3);
}

/* Removes the newest region. */
static void forget(void)
{
	uint32_t h = 0;
	struct client_mr *mr, *last = NULL;

	while ((mr = table_next(&client.mr, &h)) != NULL)
		last = mr;
	assert_non_null(last);
	client_mr_void(last);
	client_mr_free(&client, last);
}

static void small_pieces_in_hugepages_do_not_hold_the_control_thread(void **state)
{
	uint64_t most;

	(void)state;
	ask(IPC_REGION_HUGE, 3 * PAGE, 1000, IPC_HUGE_PAGE, &most);
	assert_int_equal(status, 0);
	assert_in_range(most, 1, 4 * IPC_HUGE_PAGE);
	ask(IPC_REGIONS + 1, 3 * PAGE, 4, GIB, &most);
	assert_int_equal(status, 0);
	assert_int_equal(most, GIB);
}

static void hugepage_counts_whole_and_once(void **state)
{
	const struct ipc_piece mixed[] = { { .region = IPC_REGIONS, .off = 0, .len = 2 * PAGE },
					   { .region = IPC_REGIONS + 1, .off = GIB - PAGE, .len = 2 * PAGE },
					   { .region = IPC_REGION_ARENA, .off = PAGE, .len = 1 },
					   { .region = IPC_REGION_HUGE, .off = 5 * IPC_HUGE_PAGE + 1, .len = PAGE },
					   { .region = IPC_REGIONS + 1, .off = 5 * PAGE, .len = 1 } };
	uint64_t most;

	(void)state;
	ask(IPC_REGION_HUGE, 0, 10, IPC_HUGE_PAGE, &most);
	assert_int_equal(memory, 10 * IPC_HUGE_PAGE);
	ask(IPC_REGION_HUGE, PAGE, 1, PAGE, &most); /* a region in the first of these pages */
	assert_int_equal(memory, 10 * IPC_HUGE_PAGE);
	ask_for(mixed, RN_ARRAY_LEN(mixed), 256, &most);
	assert_int_equal(status, 0);
	assert_int_equal(memory, 10 * IPC_HUGE_PAGE + 2 * GIB + UINT64_C(3) * PAGE);
	forget();
	assert_int_equal(memory, 10 * IPC_HUGE_PAGE);
	assert_int_equal(import[1].users, 0);
	memory_most = 12 * IPC_HUGE_PAGE;
	ask(IPC_REGION_HUGE, 9 * IPC_HUGE_PAGE, 4, IPC_HUGE_PAGE, &most); /* three pages more */
	assert_int_equal(status, ENOMEM);
	assert_int_equal(memory, 10 * IPC_HUGE_PAGE);
	ask(IPC_REGION_HUGE, 9 * IPC_HUGE_PAGE, 3, IPC_HUGE_PAGE, &most);
	assert_int_equal(status, 0);
	assert_int_equal(memory, 12 * IPC_HUGE_PAGE);
}

static void missing_memory_is_told_as_enomem(void **state)
{
	uint64_t most;

	(void)state;
	for (uint32_t n = 0; n < 3;
	     n++) { /* the registration's own memory, the list of its imports, the counts of hugepages */
		allocs = n;
		ask(IPC_REGIONS + 1, 0, 1, GIB, &most);
		assert_int_equal(status, ENOMEM);
	}
	allocs = UINT32_MAX;
	ask(IPC_REGIONS + 1, 0, 1, GIB, &most);
	assert_int_equal(status, 0);
	ask(IPC_REGIONS + 2, 0, 1, GIB, &most); /* there is no such region */
	assert_int_equal(status, EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(region_of_many_pieces_does_not_hold_the_control_thread, setup,
						teardown),
		cmocka_unit_test_setup_teardown(small_pieces_in_hugepages_do_not_hold_the_control_thread, setup,
						teardown),
		cmocka_unit_test_setup_teardown(hugepage_counts_whole_and_once, setup, teardown),
		cmocka_unit_test_setup_teardown(missing_memory_is_told_as_enomem, setup, teardown),
	};

	return cmocka_run_group_tests_name("mr", tests, NULL, NULL);
}
