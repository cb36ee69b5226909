/* SPDX-License-Identifier: BSD-3-Clause */
/* What the processes of one user may have together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "border/news.h"
#include "border/rnicd.h"
#include "control/client.h"
#include "control/user.h"
#include "ipc/ipc_shm.h"

#define MIB (UINT64_C(1) << 20)

struct rnicd rnicd;

static uint64_t now = RN_NS_PER_S;
static uint32_t lines; /* of the log */
static char line[512]; /* the last one */

uint64_t rnicd_now(void) { return now; }

void rnicd_log(enum rnicd_log_level level, const char *fmt, ...)
{
	va_list ap;

	(void)level;
	lines++;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
}

/* ---- functions that client_accept.c calls ---- */

struct clients clients;
struct client_totals client_totals;
static const struct client *dropped;

bool loop_add(struct loop_fd *f, int fd, uint32_t events)
{
	(void)events;
	f->fd = fd;
	return true;
}
void loop_del(struct loop_fd *f) { f->fd = -1; }
void loop_events(struct loop_fd *f, uint32_t events) { (void)f, (void)events; }
void loop_timer_arm(struct loop_timer *t, uint64_t when) { (void)t, (void)when; }
void loop_timer_disarm(struct loop_timer *t) { (void)t; }
struct fds_job *fds_closing(void) { return calloc(1, 1); }
void fds_close(struct fds_job *closing, uid_t uid, int sock)
{
	(void)uid;
	free(closing);
	close(sock);
}
bool fds_serve(void (*done)(uint64_t key, struct fds_result *r)) { return done != NULL; }
void client_on_ready(struct loop_fd *f, uint32_t events) { (void)f, (void)events; }
void client_on_fds(uint64_t key, struct fds_result *r) { (void)key, (void)r; }
struct client_proc client_proc_open(pid_t pid, uid_t uid, gid_t gid)
{
	return (struct client_proc){ .dir = -1, .uid = uid, .gid = pid > 0 ? gid : 0 };
}
bool client_host_join(struct client *c) { return c != NULL; }
void client_imports_free(struct client *c) { (void)c; }
void client_die(struct client *c) { c->state = CLIENT_DYING; }
void client_drop(struct client *c, const char *why)
{
	assert_non_null(why);
	dropped = c;
	client_die(c);
}
bool client_count_in(struct user *u) { return user_take(u, USER_CLIENTS, 0, 1); }
void client_count_out(struct client *c)
{
	if (c->counted)
		user_give(c->user, USER_CLIENTS, 0, 1);
	c->counted = false;
}
void news_add(enum news_kind kind, const char *fmt, ...) { (void)kind, (void)fmt; }

/* ---- tests ---- */

static struct user *alice, *bob;

static int begin(void **state)
{
	(void)state;
	rnicd.cfg = (struct rnicd_cfg){ .user_share = 75, .client_memory = 8 * MIB, .object_memory = 4 * MIB };
	user_start();
	alice = user_get(1);
	bob = user_get(2);
	now += 60 * RN_NS_PER_S; /* the log may speak again */
	lines = 0;
	client_totals = (struct client_totals){ 0 };
	dropped = NULL;
	return 0;
}

static int end(void **state)
{
	(void)state;
	user_put(alice);
	user_put(bob);
	return 0;
}

/* Allocates objects of 1 KiB for the user until that is refused; returns their number. */
static uint32_t all_objects(struct user *u, void *got[8192], bool lined)
{
	uint32_t n = 0;

	while (n < 8192 && (got[n] = lined ? user_alloc_lines(u, 1000) : user_alloc(u, 1000)) != NULL) {
		assert_int_equal((uintptr_t)got[n] % (lined ? RN_CACHE_LINE : 8), 0);
		for (size_t b = 0; b < 1000; b++)
			assert_int_equal(((uint8_t *)got[n])[b], 0);
		memset(got[n++], 0xff, 1000);
	}
	return n;
}

/* A uid chooses nothing: the users of uids 1000 and 1000 + QP_TENANTS are not in the workers' pools together. */
static void each_of_many_users_has_a_number_of_its_own(void **state)
{
	struct user *u[QP_TENANTS - 3], *again, *late;
	uint64_t seen = UINT64_C(1) << user_tenant(alice) | UINT64_C(1) << user_tenant(bob);

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(u); i++) {
		u[i] = user_get(1000 + i * QP_TENANTS);
		assert_false(seen >> user_tenant(u[i]) & 1);
		seen |= UINT64_C(1) << user_tenant(u[i]);
	}
	assert_int_equal(seen, UINT64_MAX - 1); /* number 0 is nobody's */
	again = user_get(1000);
	assert_int_equal(user_tenant(again), user_tenant(u[0]));
	user_put(again);
	const uint8_t left = user_tenant(u[5]);
	user_put(u[5]);
	late = user_get(5000);
	assert_int_equal(user_tenant(late), left);
	u[5] = late;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(u); i++)
		user_put(u[i]);
}

static void objects_of_one_user_take_no_more_memory_than_the_share(void **state)
{
	static void *of_alice[8192], *of_bob[8192];

	(void)state;
	for (int i = 0; i < 4; i++) {
		const uint32_t a = all_objects(alice, of_alice, i % 2 == 1);
		assert_in_range(a, 2800, 3145); /* three quarters of 4 MiB */
		const uint32_t b = all_objects(bob, of_bob, false);
		assert_in_range(b, 900, 1049); /* the last quarter */
		for (uint32_t k = 0; k < a; k++)
			user_free(alice, of_alice[k]);
		for (uint32_t k = 0; k < b; k++)
			user_free(bob, of_bob[k]);
	}
	user_free(alice, NULL);
}

static void memory_is_shared_up_to_the_share_and_comes_back(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_true(user_take(alice, USER_MEMORY, 0, 5 * MIB));
		assert_false(user_take(alice, USER_MEMORY, 0, MIB + 1));
		assert_true(user_take(alice, USER_MEMORY, 0, MIB));
		assert_true(user_take(bob, USER_MEMORY, 0, 2 * MIB));
		assert_false(user_take(bob, USER_MEMORY, 0, 1));
		user_give(alice, USER_MEMORY, 0, 6 * MIB);
		user_give(bob, USER_MEMORY, 0, 2 * MIB);
	}
	assert_false(user_take(alice, USER_MEMORY, 0, UINT64_MAX));
	assert_false(user_take(alice, USER_MEMORY, 0, UINT64_C(1) << 32));
}

static void a_limit_that_bites_is_told_once_with_its_key(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++)
		assert_false(user_take(alice, USER_MEMORY, 0, 7 * MIB));
	assert_int_equal(lines, 1);
	assert_non_null(strstr(line, "(client-memory): a user may have 6291456 of 8388608 (user-share = 75%)"));
	assert_true(user_take(bob, USER_OBJECTS, 0, 3 * MIB));
	for (int i = 0; i < 100; i++)
		assert_false(user_take(alice, USER_OBJECTS, 0, 2 * MIB));
	assert_int_equal(lines, 2);
	assert_non_null(strstr(line, "(object-memory): all 4194304 are in use"));
	user_give(bob, USER_OBJECTS, 0, 3 * MIB);
	now += 11 * RN_NS_PER_S;
	assert_false(user_take(alice, USER_MEMORY, 0, 7 * MIB));
	assert_int_equal(lines, 3);
}

static void the_sizes_of_tables_are_keys(void **state)
{
	static const struct {
		enum user_table table;
		const char *says;
		uint64_t n;
	} of[] = { { USER_CLIENTS, "(clients): a user may have 6 of 8", 6 },
		   { USER_LISTENERS, "(listeners): a user may have 9 of 12", 9 },
		   { USER_STAGS, "(regions): a user may have 12 of 16", 12 },
		   { USER_GROUPS, "(groups): a user may have 15 of 20", 15 },
		   { USER_UDP_PORTS, "(udp-ports): a user may have 18 of 24", 18 },
		   { USER_XRCDS, "(xrc-domains): a user may have 21 of 28", 21 } };

	(void)state;
	rnicd.cfg.clients = 8;
	rnicd.cfg.listeners = 12;
	rnicd.cfg.regions = 16;
	rnicd.cfg.groups = 20;
	rnicd.cfg.udp_ports = 24;
	rnicd.cfg.xrc_domains = 28;
	user_start();
	for (size_t i = 0; i < RN_ARRAY_LEN(of); i++) {
		assert_true(user_take(alice, of[i].table, 0, of[i].n));
		assert_false(user_take(alice, of[i].table, 0, 1));
		assert_non_null(strstr(line, of[i].says));
		user_give(alice, of[i].table, 0, of[i].n);
	}
	assert_int_equal(lines, RN_ARRAY_LEN(of));
}

static void memory_without_a_key_is_by_the_host(void **state)
{
	(void)state;
	rnicd.cfg.client_memory = rnicd.cfg.object_memory = 0;
	user_start();
	assert_true(user_share(USER_MEMORY) >= 192 * MIB);
	assert_true(user_share(USER_OBJECTS) >= 12 * MIB);
	assert_true(user_share(USER_OBJECTS) < user_share(USER_MEMORY));
}

/* Each client takes as many addresses as it can. All addresses of a process are 47 bits. */
static void one_user_leaves_addresses_for_others_and_all_clients_leave_some_for_rnicd(void **state)
{
	const uint64_t each = IPC_QUEUES_SIZE + IPC_ARENA_SIZE + IPC_HUGE_SIZE + IPC_IMPORT_ROOM;
	uint32_t of_alice = 0, of_bob = 0;

	(void)state;
	while (of_alice < CLIENTS_MAX && user_take(alice, USER_ADDRESSES, 0, each))
		of_alice++;
	while (of_bob < CLIENTS_MAX && user_take(bob, USER_ADDRESSES, 0, each))
		of_bob++;
	assert_true(of_alice >= 384); /* the share of the default of clients */
	assert_true(of_bob >= 128);
	assert_true((of_alice + of_bob) * each < (UINT64_C(1) << 47) / 10 * 9);
	assert_true((of_alice + of_bob + 1) * each > (UINT64_C(1) << 47) / 10 * 8);
	user_give(alice, USER_ADDRESSES, 0, of_alice * each);
	user_give(bob, USER_ADDRESSES, 0, of_bob * each);
}

static void descriptors_of_doorbells_are_set_aside(void **state)
{
	struct rlimit was, few;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	few = (struct rlimit){ .rlim_cur = 1024, .rlim_max = was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	rnicd.cfg.user_share = 100;
	user_start();
	assert_int_equal(user_bells_max(), (1024 - 256) / 8 / 2);
	/* 256 are rnicd's own */
	assert_int_equal(user_share(USER_FDS), 1024 - 256 - 2 * user_bells_max());
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

/* All places are taken, and a client of bob has not sent HELLO yet. */
static void a_user_at_its_limit_takes_no_place_of_another(void **state)
{
	struct client silent = { .state = CLIENT_NEW, .user = bob, .counted = true };
	struct user *me = user_get(getuid());
	int pair[2];

	(void)state;
	rnicd.cfg.clients = clients.n = 4;
	user_start();
	assert_true(user_take(me, USER_CLIENTS, 0, 3) && user_take(bob, USER_CLIENTS, 0, 1));
	rn_list_push_front(&clients.all, &silent.link);
	for (uint32_t has = 3; has >= 2; has--) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
		client_adopt(pair[0]);
		assert_int_equal(client_totals.refused, 1);
		assert_int_equal(client_totals.accepted, has == 3 ? 0 : 1);
		assert_ptr_equal(dropped, has == 3 ? NULL : &silent);
		assert_int_equal(silent.counted, has == 3);
		close(pair[1]);
		if (has == 3)
			user_give(me, USER_CLIENTS, 0, 1);
	}
	struct client *c = rn_list_first(&clients.all, struct client, link);
	rn_list_remove(&clients.all, &silent.link);
	rn_list_remove(&clients.all, &c->link);
	close(pair[0]);
	free(c->closing);
	free(c);
	user_give(me, USER_CLIENTS, 0, 3);
	user_put(me);
	user_put(me);
}

/* All places are taken. A helper receives the descriptors of the oldest client's HELLO. */
static void a_client_whose_hello_is_under_way_keeps_its_place(void **state)
{
	struct client busy = { .state = CLIENT_NEW, .user = bob, .counted = true, .busy = true };
	int pair[2];

	(void)state;
	rnicd.cfg.clients = clients.n = 1;
	user_start();
	assert_true(user_take(bob, USER_CLIENTS, 0, 1));
	rn_list_push_front(&clients.all, &busy.link);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	client_adopt(pair[0]);
	assert_null(dropped);
	assert_int_equal(client_totals.refused, 1);
	rn_list_remove(&clients.all, &busy.link);
	user_give(bob, USER_CLIENTS, 0, 1);
	close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_of_many_users_has_a_number_of_its_own, begin, end),
		cmocka_unit_test_setup_teardown(objects_of_one_user_take_no_more_memory_than_the_share, begin, end),
		cmocka_unit_test_setup_teardown(memory_is_shared_up_to_the_share_and_comes_back, begin, end),
		cmocka_unit_test_setup_teardown(a_limit_that_bites_is_told_once_with_its_key, begin, end),
		cmocka_unit_test_setup_teardown(the_sizes_of_tables_are_keys, begin, end),
		cmocka_unit_test_setup_teardown(memory_without_a_key_is_by_the_host, begin, end),
		cmocka_unit_test_setup_teardown(a_user_at_its_limit_takes_no_place_of_another, begin, end),
		cmocka_unit_test_setup_teardown(a_client_whose_hello_is_under_way_keeps_its_place, begin, end),
		cmocka_unit_test_setup_teardown(
			one_user_leaves_addresses_for_others_and_all_clients_leave_some_for_rnicd, begin, end),
		cmocka_unit_test_setup_teardown(descriptors_of_doorbells_are_set_aside, begin, end),
	};
	return cmocka_run_group_tests_name("user", tests, NULL, NULL);
}
