/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups that clients of several users share; the test plays the network and the clients. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "control/group.h"

#define GROUPS 20u
#define SHARE  15u /* three quarters */

struct rnicd rnicd;

/* ---- functions that the files under test call ---- */

static uint64_t now = RN_NS_PER_S;
uint64_t rnicd_now(void) { return now; }
void rnicd_log(enum rnicd_log_level level, const char *fmt, ...) { (void)level, (void)fmt; }

static int refused; /* errno of the last refusal */
void client_error(struct client *c, int err, const char *fmt, ...)
{
	(void)c;
	(void)fmt;
	refused = err;
}

bool dev_reaches(uint32_t index, const uint8_t dst[16])
{
	(void)index;
	(void)dst;
	return true;
}

static int in_network; /* groups that the network knows */
void group_net_change(uint32_t dev, const struct pkt_addr *addr, bool in)
{
	(void)dev;
	(void)addr;
	in_network += in ? 1 : -1;
}

/* ---- tests ---- */

static struct client alice, bob;

static int begin(void **state)
{
	(void)state;
	rnicd.cfg = (struct rnicd_cfg){ .user_share = 75, .groups = GROUPS };
	rnicd.n_workers = 1;
	user_start();
	alice = (struct client){ .id = 1, .user = user_get(1) };
	bob = (struct client){ .id = 2, .user = user_get(2) };
	refused = 0;
	return 0;
}

static int end(void **state)
{
	(void)state;
	assert_int_equal(group_count(0), 0);
	assert_true(rn_list_empty(group_list()));
	assert_int_equal(in_network, 0);
	assert_true(user_has_room(alice.user, USER_GROUPS, 0, SHARE) && user_has_room(bob.user, USER_GROUPS, 0, SHARE));
	user_put(alice.user);
	user_put(bob.user);
	return 0;
}

struct place {
	struct group *g;
	struct group_user *u;
	bool qp;
};

static bool enters(struct client *c, uint8_t group, bool qp, struct place *p)
{
	const struct pkt_addr a = { .b = { [10] = 0xff, [11] = 0xff, [12] = 239, [15] = group } };

	p->qp = qp;
	p->g = group_get(c, 0, &a, qp, &p->u);
	if (p->g != NULL)
		group_enter(p->g, p->u, qp);
	return p->g != NULL;
}

static void leaves(const struct place *p) { group_leave(p->g, p->u, p->qp); }

static void a_group_counts_for_a_user_that_is_in_it(void **state)
{
	struct place a[SHARE], b[SHARE], more;

	(void)state;
	for (uint8_t i = 0; i < SHARE; i++)
		assert_true(enters(&alice, i, true, &a[i]) && enters(&bob, i, i % 2 == 0, &b[i]));
	assert_false(enters(&alice, SHARE, true, &more));
	assert_int_equal(refused, ENOMEM);
	assert_true(enters(&bob, SHARE, true, &more)); /* the groups of alice do not count for bob */
	leaves(&more);
	for (uint8_t i = 0; i < SHARE; i++)
		leaves(&a[i]);
	assert_int_equal(in_network, SHARE);
	for (uint8_t i = 0; i < GROUPS - SHARE; i++) /* the rest of the table */
		assert_true(enters(&alice, SHARE + i, true, &a[i]));
	assert_false(enters(&bob, GROUPS, true, &more));
	for (uint8_t i = 0; i < SHARE; i++)
		leaves(&b[i]);
	for (uint8_t i = 0; i < GROUPS - SHARE; i++)
		leaves(&a[i]);
}

static void a_user_leaves_places_in_a_group_to_others(void **state)
{
	static struct place p[DEV_GROUP_QPS + 1];
	const uint32_t share = DEV_GROUP_QPS * 3 / 4;
	struct place id;

	(void)state;
	for (uint32_t i = 0; i < share; i++)
		assert_true(enters(&alice, 1, true, &p[i]));
	assert_false(enters(&alice, 1, true, &p[share]));
	assert_int_equal(refused, ENOMEM);
	assert_true(enters(&alice, 1, false, &id)); /* an id takes no worker's memory */
	for (uint32_t i = share; i < DEV_GROUP_QPS; i++)
		assert_true(enters(&bob, 1, true, &p[i]));
	assert_false(enters(&bob, 1, true, &p[DEV_GROUP_QPS]));
	leaves(&id);
	for (uint32_t i = 0; i < DEV_GROUP_QPS; i++)
		leaves(&p[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_group_counts_for_a_user_that_is_in_it, begin, end),
		cmocka_unit_test_setup_teardown(a_user_leaves_places_in_a_group_to_others, begin, end),
	};

	return cmocka_run_group_tests_name("group", tests, NULL, NULL);
}
