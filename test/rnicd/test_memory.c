/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that several clients of one user take together. Each client stays below the quotas of a client. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_client.h"

#define CLIENTS 8u
#define EACH    6u /* what a client takes at most */

static struct daemon d;

static int start(void **state)
{
	(void)state;
	daemon_start(&d, "user-share = 50\nclient-memory = 64M\nobject-memory = 8M");
	return 0;
}

static int stop(void **state)
{
	(void)state;
	daemon_stop(&d);
	return 0;
}

/* Takes something of the daemon for this client; pd is a protection domain, chan a channel of the client. */
typedef int (*take)(struct fc *c, uint32_t pd, uint32_t chan);

/* Takes by several clients until one is refused; returns how often they got it. least: waits until they have got it
 * so often, as the daemon may not have released the memory of earlier clients yet. */
static uint32_t all_that_they_get(take one, uint32_t least)
{
	static struct fc c[CLIENTS];
	uint32_t n = 0, joined = 0;
	int rc = 0, efd;

	for (; joined < CLIENTS && rc == 0; joined++) {
		struct fc *f = &c[joined];
		fc_join(f, &d);
		const uint32_t pd = fc_pd(f), chan = fc_chan(f, 10, IPC_CHANNEL_CM, &efd);
		for (uint32_t k = 0; k < EACH && rc == 0; k++) {
			rc = one(f, pd, chan);
			for (int wait = 0; rc == ENOMEM && n < least && wait < 3000; wait++) {
				poll(NULL, 0, 10);
				rc = one(f, pd, chan);
			}
			n += rc == 0;
		}
		close(efd);
	}
	assert_int_equal(rc, ENOMEM);
	for (uint32_t i = 0; i < joined; i++)
		fc_close(&c[i]);
	return n;
}

static uint32_t twice(take one)
{
	const uint32_t n = all_that_they_get(one, 0);

	assert_int_equal(all_that_they_get(one, n), n); /* what the first clients had is free again */
	assert_true(daemon_alive(&d));
	return n;
}

/* The largest object that rnicd keeps for a client. */
static int list_of_pieces(struct fc *c, uint32_t pd, uint32_t chan)
{
	static struct ipc_piece p[30000];
	struct ipc_msg m;

	(void)chan;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(p); i++)
		p[i] = (struct ipc_piece){ .region = IPC_REGION_ARENA, .off = i * 64, .len = 64 };
	return fc_mr(c, &m, pd, p, RN_ARRAY_LEN(p));
}

static void lists_of_pieces_are_bounded_over_all_clients_of_a_user(void **state)
{
	(void)state;
	/* A list takes 480,000 bytes, and as much again while it is being made; the share is 4 MiB. */
	assert_in_range(twice(list_of_pieces), 6, 8);
}

static int region(struct fc *c, uint32_t pd, uint32_t chan)
{
	struct ipc_piece p = { .region = IPC_REGION_ARENA, .len = 3 << 20 };
	struct ipc_msg m;

	(void)chan;
	return fc_mr(c, &m, pd, &p, 1);
}

static void registered_memory_is_bounded_over_all_clients_of_a_user(void **state)
{
	(void)state;
	assert_int_equal(twice(region), 10); /* of 3 MiB; the share is 32 MiB, and channels have some of it */
}

/* Pieces of one byte, each in a page of its own: the pages count. */
static int scattered_bytes(struct fc *c, uint32_t pd, uint32_t chan)
{
	static struct ipc_piece p[768];
	struct ipc_msg m;

	(void)chan;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(p); i++)
		p[i] = (struct ipc_piece){ .region = IPC_REGION_ARENA, .off = i * 4096 + 4095, .len = 1 };
	return fc_mr(c, &m, pd, p, RN_ARRAY_LEN(p));
}

static void each_page_of_scattered_bytes_counts(void **state)
{
	(void)state;
	assert_int_equal(twice(scattered_bytes), 10);
}

static int thousand_ids(struct fc *c, uint32_t pd, uint32_t chan)
{
	struct ipc_msg m;
	int rc = 0;

	(void)pd;
	for (uint32_t i = 0; i < 1000 && rc == 0; i++)
		rc = FC_CALL(c, &m, IPC_CM_CREATE_ID, cm_create_id, .channel = chan);
	return rc;
}

static void ids_are_bounded_over_all_clients_of_a_user(void **state)
{
	(void)state;
	assert_in_range(all_that_they_get(thousand_ids, 0), 2, 12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_of_pieces_are_bounded_over_all_clients_of_a_user),
		cmocka_unit_test(registered_memory_is_bounded_over_all_clients_of_a_user),
		cmocka_unit_test(each_page_of_scattered_bytes_counts),
		cmocka_unit_test(ids_are_bounded_over_all_clients_of_a_user),
	};
	return cmocka_run_group_tests_name("memory", tests, start, stop);
}
