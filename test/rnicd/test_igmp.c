/* SPDX-License-Identifier: BSD-3-Clause */
/* The IGMP messages of a port about its groups, and their times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "control/igmp.h"

#define S RN_NS_PER_S

static struct igmp igmp;
static struct pkt_igmp_record r[IGMP_GROUPS];

static struct pkt_addr group(uint32_t n) { return pkt_addr_ip4(0xef000000 + n); }

static int setup(void **state)
{
	(void)state;
	igmp_init(&igmp, 1);
	return 0;
}

static void join(uint32_t n, uint64_t now)
{
	struct pkt_addr a = group(n);

	igmp_join(&igmp, &a, now);
}

static void leave(uint32_t n, uint64_t now)
{
	struct pkt_addr a = group(n);

	igmp_leave(&igmp, &a, now);
}

static void ask(uint8_t version, uint32_t about, uint32_t ms, uint64_t now)
{
	const struct pkt_igmp_query q = {
		.version = version, .all = about == 0, .group = group(about), .within_ms = ms
	};

	igmp_query(&igmp, &q, now);
}

/* Exactly one message with one record is due. */
static void says(uint64_t now, enum pkt_igmp_says what, uint32_t n)
{
	struct pkt_addr a = group(n);

	assert_int_equal(igmp_out(&igmp, now, r), 1);
	assert_int_equal(r[0].says, what);
	assert_true(pkt_addr_eq(&r[0].group, &a));
	assert_int_equal(igmp_out(&igmp, now, r), 0);
}

/* The next message is due within (from, to]; returns its time. */
static uint64_t within(uint64_t from, uint64_t to)
{
	uint64_t at = igmp_next(&igmp);

	assert_true(at > from && at <= to);
	assert_int_equal(igmp_out(&igmp, at - 1, r), 0);
	return at;
}

static void silent(void) { assert_true(igmp_next(&igmp) == RN_NEVER); }

/* Takes all messages that wait to be sent, at the time of each one or at `now` if that is later. */
static void settle(uint64_t now)
{
	for (uint64_t at; (at = igmp_next(&igmp)) != RN_NEVER;)
		assert_true(igmp_out(&igmp, rn_max_u64(now, at), r) > 0);
}

static void changes_are_told_twice(void **state)
{
	(void)state;
	silent();
	join(1, S);
	says(S, PKT_IGMP_JOINS, 1);
	says(within(S, 2 * S), PKT_IGMP_JOINS, 1);
	silent();
	leave(1, 5 * S);
	says(5 * S, PKT_IGMP_LEAVES, 1);
	says(within(5 * S, 6 * S), PKT_IGMP_LEAVES, 1);
	silent();
	leave(1, 7 * S);
	silent();
	/* the group is joined again before the leaving was told twice */
	join(2, 8 * S);
	settle(8 * S);
	leave(2, 9 * S);
	says(9 * S, PKT_IGMP_LEAVES, 2);
	join(2, 9 * S);
	says(9 * S, PKT_IGMP_JOINS, 2);
	says(within(9 * S, 10 * S), PKT_IGMP_JOINS, 2);
	silent();
	/* every host is a member of this group, so there are no messages about it */
	struct pkt_addr all = pkt_addr_ip4(PKT_IP4_ALL_HOSTS);
	igmp_join(&igmp, &all, 11 * S);
	silent();
}

static void queries_are_answered(void **state)
{
	(void)state;
	join(1, 0);
	join(2, 0);
	settle(0);
	ask(3, 0, 4000, 10 * S);
	uint64_t at = within(10 * S, 14 * S);
	assert_int_equal(igmp_out(&igmp, at, r), 2);
	assert_true(r[0].says == PKT_IGMP_IS_IN_IT && r[1].says == PKT_IGMP_IS_IN_IT);
	silent();
	ask(3, 2, 1000, 20 * S);
	says(within(20 * S, 21 * S), PKT_IGMP_IS_IN_IT, 2);
	ask(3, 9, 1000, 30 * S); /* a query for a group that the port is not in */
	silent();
	/* A later query does not postpone the answer to an earlier one. */
	ask(3, 1, 1000, 40 * S);
	at = igmp_next(&igmp);
	for (int i = 0; i < 20; i++)
		ask(3, 1, 3000000, 40 * S);
	assert_true(igmp_next(&igmp) <= at);
	says(igmp_next(&igmp), PKT_IGMP_IS_IN_IT, 1);
	/* a group that is left before the answer is due gets no answer */
	ask(3, 1, 1000, 50 * S);
	leave(1, 50 * S);
	says(50 * S, PKT_IGMP_LEAVES, 1);
	says(within(50 * S, 51 * S), PKT_IGMP_LEAVES, 1);
	silent();
	/* a query every millisecond that wants an answer at once gets far fewer answers */
	uint32_t answers = 0;
	for (uint64_t now = 60 * S; now < 70 * S; now += RN_NS_PER_MS) {
		ask(3, 2, 0, now);
		answers += igmp_out(&igmp, now, r);
	}
	assert_true(answers > 10 && answers < 10 * 200);
}

static void older_versions_while_they_are_asked_in(void **state)
{
	(void)state;
	join(1, 0);
	join(2, 0);
	settle(0);
	ask(2, 0, 10000, 10 * S);
	assert_int_equal(igmp.version, 2);
	for (int i = 0; i < 2; i++) { /* one group in a message, each at a time of its own */
		uint64_t at = within(9 * S, 20 * S);
		assert_int_equal(igmp_out(&igmp, at, r), 1);
		assert_int_equal(r[0].says, PKT_IGMP_IS_IN_IT);
	}
	silent();
	join(3, 30 * S);
	says(30 * S, PKT_IGMP_JOINS, 3);
	says(within(30 * S, 40 * S), PKT_IGMP_JOINS, 3);
	leave(3, 50 * S);
	says(50 * S, PKT_IGMP_LEAVES, 3); /* told once only */
	silent();
	ask(1, 0, 10000, 60 * S);
	assert_int_equal(igmp.version, 1);
	settle(60 * S);
	leave(2, 100 * S); /* version 1 has no message for that */
	silent();
	/* a query in version 3 is answered in version 1, since the older router is still there */
	ask(3, 0, 1000, 200 * S);
	assert_int_equal(igmp.version, 1);
	says(within(200 * S, 201 * S), PKT_IGMP_IS_IN_IT, 1);
	ask(2, 0, 1000, 300 * S);
	settle(300 * S);
	ask(3, 0, 1000, 321 * S);
	assert_int_equal(igmp.version, 2);
	settle(321 * S);
	ask(3, 0, 1000, 561 * S);
	assert_int_equal(igmp.version, 3);
	says(within(561 * S, 562 * S), PKT_IGMP_IS_IN_IT, 1);
}

static void a_change_of_version_forgets_what_was_to_be_said(void **state)
{
	(void)state;
	join(1, 0);
	says(0, PKT_IGMP_JOINS, 1);
	join(2, 0);
	leave(2, 0);
	says(0, PKT_IGMP_LEAVES, 2);
	ask(2, 1, 1000, S / 100);
	says(within(S / 100, 2 * S), PKT_IGMP_IS_IN_IT, 1);
	silent();
}

static void as_many_groups_as_there_may_be(void **state)
{
	(void)state;
	for (uint32_t i = 1; i <= IGMP_GROUPS; i++)
		join(i, 0);
	assert_int_equal(igmp_out(&igmp, 0, r), IGMP_GROUPS);
	assert_int_equal(igmp_out(&igmp, 0, r), 0);
	settle(0);
	ask(3, 0, 100, S);
	assert_int_equal(igmp_out(&igmp, 2 * S, r), IGMP_GROUPS);
	/* Again and again all groups are left and others joined: the port stays in the right groups. */
	for (uint32_t round = 0; round < 5; round++) {
		for (uint32_t i = 1; i <= IGMP_GROUPS; i++) {
			leave(round * 1000 + i, 3 * S);
			join((round + 1) * 1000 + i, 3 * S);
		}
		if (round == 0)
			for (uint32_t i = 1; i <= IGMP_GROUPS; i++)
				leave(i, 3 * S);
	}
	settle(3 * S);
	ask(3, 0, 100, 10 * S);
	assert_int_equal(igmp_out(&igmp, 11 * S, r), IGMP_GROUPS);
	for (uint32_t i = 0; i < IGMP_GROUPS; i++)
		assert_in_range(pkt_addr_to_ip4(&r[i].group), 0xef000000 + 5001, 0xef000000 + 5000 + IGMP_GROUPS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(changes_are_told_twice, setup),
		cmocka_unit_test_setup(queries_are_answered, setup),
		cmocka_unit_test_setup(older_versions_while_they_are_asked_in, setup),
		cmocka_unit_test_setup(a_change_of_version_forgets_what_was_to_be_said, setup),
		cmocka_unit_test_setup(as_many_groups_as_there_may_be, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
