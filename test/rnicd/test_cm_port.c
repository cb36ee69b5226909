/* SPDX-License-Identifier: BSD-3-Clause */
/* Local ports of ids: which one comes next, which one two ids may both have, and how many one user may have. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "control/cm.h"

#define FIRST 32768u
#define LAST  60999u

struct rnicd rnicd;

static struct rnicd_port_cfg cfg = { .ip = { .b = { [10] = 0xff, [11] = 0xff, [12] = 10 } } };
static struct rnicd_port port[2] = { { .cfg = &cfg }, { .cfg = &cfg } };

/* The shares of users. */
#define SHARE 3u
struct user {
	uint64_t ports[2]; /* that are counted, of each device */
};
static struct user alice, bob;

bool user_take(struct user *u, enum user_table table, uint32_t index, uint64_t n)
{
	assert_int_equal(table, USER_TCP_PORTS);
	if (u->ports[index] + n > SHARE)
		return false;
	u->ports[index] += n;
	return true;
}

void user_give(struct user *u, enum user_table table, uint32_t index, uint64_t n)
{
	assert_int_equal(table, USER_TCP_PORTS);
	assert_true(u->ports[index] >= n);
	u->ports[index] -= n;
}

static void each_port_comes_once_before_one_comes_again(void **state)
{
	static bool seen[LAST + 1];

	(void)state;
	for (uint32_t i = FIRST; i <= LAST; i++) {
		const uint16_t p = cm_port_next(0, cm_family_of(0));
		assert_in_range(p, FIRST, LAST);
		assert_false(seen[p]);
		seen[p] = true;
	}
	assert_true(seen[cm_port_next(0, cm_family_of(0))]);
}

static void taken_ports_are_passed_over(void **state)
{
	const uint16_t lone = 40000;

	(void)state;
	for (uint32_t p = FIRST; p <= LAST; p++)
		assert_true(p == lone || cm_port_take(NULL, 0, cm_family_of(0), (uint16_t)p));
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(cm_port_next(0, cm_family_of(0)), lone);
	assert_true(cm_port_take(NULL, 0, cm_family_of(0), lone));
	assert_int_equal(cm_port_next(0, cm_family_of(0)), 0);
}

/* ---- ports that the kernel chooses ---- */

#define USED 50000u /* an id of this process has the port, and the kernel does not know */

static uint16_t offers;
static uint32_t released;
static int why;

static uint16_t hold(uint32_t devs)
{
	assert_int_equal(devs, 1);
	errno = why;
	return why != 0 ? 0 : offers++;
}

static void release(uint32_t devs, uint16_t p)
{
	assert_int_equal(devs, 1);
	released = p;
}

static void what_the_kernel_chooses_is_no_port_of_another_id(void **state)
{
	const uint8_t family = cm_family_of(0);

	(void)state;
	cm_port_share(hold, release);
	assert_true(cm_port_take(NULL, 0, family, USED));
	offers = USED;
	assert_int_equal(cm_port_any(NULL, 0, family), USED + 1);
	assert_int_equal(released, USED);
	cm_port_give(NULL, 0, family, USED + 1);
	assert_int_equal(released, USED + 1);
	why = EADDRINUSE;
	assert_int_equal(cm_port_any(NULL, 0, family), 0);
	why = EMFILE; /* the port is chosen without a descriptor */
	const uint16_t p = cm_port_any(NULL, 0, family);
	assert_in_range(p, FIRST, LAST);
	why = 0;
	cm_port_give(NULL, 0, family, p);
	cm_port_give(NULL, 0, family, USED);
}

/* ---- ids of RDMA_PS_UDP ---- */

static void a_port_of_datagrams_is_not_that_of_connections(void **state)
{
	const uint8_t tcp = CM_IP4 | CM_IP6, udp = CM_UDP4 | CM_UDP6;

	(void)state;
	offers = USED;
	released = 0;
	rnicd.n_ports = 2;
	assert_true(cm_port_take(NULL, CM_NO_DEV, udp, 20010));
	assert_false(cm_port_take(NULL, 1, CM_UDP4, 20010));
	assert_true(cm_port_take(NULL, 0, CM_IP4, 20010));
	cm_port_give(NULL, CM_NO_DEV, udp, 20010); /* leaves the other one, and what the kernel holds for it */
	assert_int_equal(released, 0);
	assert_false(cm_port_take(NULL, CM_NO_DEV, tcp, 20010));
	/* an id on all devices chooses one */
	assert_true(cm_port_take(NULL, CM_NO_DEV, udp, 20010));
	cm_port_narrow(NULL, 1, udp, 20010);
	assert_true(cm_port_take(NULL, 0, CM_UDP4, 20010));
	assert_false(cm_port_take(NULL, 1, CM_UDP4, 20010));
	assert_true(cm_port_take(NULL, 1, CM_UDP6, 20010));
	for (uint32_t d = 0; d < 2; d++)
		cm_port_give(NULL, d, udp, 20010);
	rnicd.n_ports = 1;
	cm_port_give(NULL, 0, CM_IP4, 20010);
	assert_int_equal(released, 20010);
	/* the kernel is not asked for a port of datagrams */
	const uint16_t p = cm_port_any(NULL, 0, CM_UDP4);
	assert_in_range(p, FIRST, LAST);
	assert_int_equal(offers, USED);
	cm_port_give(NULL, 0, CM_UDP4, p);
}

/* What processes have: this one's addresses and ports, and one port of another process. */
static struct has {
	struct pkt_addr ip;
	uint16_t port;
} own[8];
static uint32_t n_own, asked;
static struct has others;

static bool take_udp(const struct pkt_addr *ip, uint16_t p)
{
	errno = why;
	if (why != 0)
		return false;
	errno = EADDRINUSE;
	/* the first port that is asked for is the other process's */
	if (asked++ == 0 && others.port == 0)
		others.port = p;
	if (others.port == p && pkt_addr_eq(&others.ip, ip))
		return false;
	own[n_own++] = (struct has){ *ip, p };
	return true;
}

static void give_udp(const struct pkt_addr *ip, uint16_t p)
{
	for (uint32_t i = 0; i < n_own; i++) {
		if (own[i].port != p || !pkt_addr_eq(&own[i].ip, ip))
			continue;
		own[i] = own[--n_own];
		return;
	}
}

static void a_port_of_datagrams_is_reserved_among_processes(void **state)
{
	const struct pkt_addr any4 = pkt_addr_ip4(0), any6 = { .b = { 0 } };
	const uint8_t udp = CM_UDP4 | CM_UDP6;

	(void)state;
	cm_port_share_udp(take_udp, give_udp);
	others = (struct has){ any6, 20011 };
	assert_false(cm_port_take(NULL, CM_NO_DEV, udp, 20011));
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(n_own, 0);
	assert_true(cm_port_take(NULL, CM_NO_DEV, CM_UDP4, 20011));
	assert_true(n_own == 1 && pkt_addr_eq(&own[0].ip, &any4));
	cm_port_narrow(NULL, 0, CM_UDP4, 20011);
	cm_port_give(NULL, 0, CM_UDP4, 20011);
	assert_int_equal(n_own, 0);
	assert_true(cm_port_take(NULL, 0, CM_UDP4, 20011));
	assert_true(n_own == 1 && pkt_addr_eq(&own[0].ip, &cfg.ip));
	assert_true(cm_port_take(NULL, 0, CM_IP4, 20011)); /* a TCP port is not reserved in this way */
	cm_port_give(NULL, 0, CM_IP4, 20011);
	assert_int_equal(n_own, 1);
	cm_port_give(NULL, 0, CM_UDP4, 20011);
	/* a port that is chosen is no other process's, at the device's address or at all addresses */
	for (uint32_t all = 0; all < 2; all++) {
		const uint32_t dev = all ? CM_NO_DEV : 0;
		others = (struct has){ all ? cfg.ip : any4, 0 };
		asked = 0;
		const uint16_t p = cm_port_any(NULL, dev, CM_UDP4);
		assert_in_range(p, FIRST, LAST);
		assert_true(others.port != 0 && p != others.port);
		assert_true(n_own == 1 && own[0].port == p && pkt_addr_eq(&own[0].ip, all ? &any4 : &cfg.ip));
		cm_port_give(NULL, dev, CM_UDP4, p);
		assert_int_equal(n_own, 0);
	}
	why = EMFILE;
	assert_int_equal(cm_port_any(NULL, 0, CM_UDP4), 0);
	assert_int_equal(errno, EMFILE);
	why = 0;
	cm_port_share_udp(NULL, NULL);
}

/* ---- a user's share ---- */

static void a_user_takes_no_more_ports_than_its_share(void **state)
{
	const uint8_t both = CM_IP4 | CM_IP6;
	uint16_t p = 0;

	(void)state;
	cm_port_share(NULL, NULL);
	rnicd.n_ports = 2;
	assert_true(cm_port_take(&alice, CM_NO_DEV, both, 20000));   /* counts once on each device */
	assert_true(cm_port_take(&alice, CM_NO_DEV, CM_IP6, 20001)); /* no device can use it */
	assert_true(cm_port_take(&alice, 1, CM_IP4, 20002));
	assert_true(cm_port_take(&alice, 1, CM_IP4, 20003));
	assert_false(cm_port_take(&alice, CM_NO_DEV, both, 20004)); /* room on device 0 only */
	assert_int_equal(errno, EDQUOT);
	assert_int_equal(cm_port_any(&alice, 1, CM_IP4), 0);
	assert_int_equal(errno, EDQUOT);
	assert_int_equal(alice.ports[0], 1);
	assert_int_equal(alice.ports[1], SHARE);
	assert_false(cm_port_take(&alice, 1, CM_UDP4, 20003)); /* counts as well */
	assert_int_equal(errno, EDQUOT);
	assert_false(cm_port_take(&bob, 1, CM_IP4, 20003));
	assert_int_equal(errno, EADDRINUSE);
	p = cm_port_any(&bob, 1, CM_IP4);
	assert_int_not_equal(p, 0);
	cm_port_give(&bob, 1, CM_IP4, p);
	cm_port_narrow(&alice, 0, both, 20000);
	assert_int_equal(alice.ports[0], 1);
	assert_int_equal(alice.ports[1], SHARE - 1);
	cm_port_give(&alice, 0, CM_IP4, 20000);
	cm_port_give(&alice, CM_NO_DEV, CM_IP6, 20001);
	cm_port_give(&alice, 1, CM_IP4, 20002);
	cm_port_give(&alice, 1, CM_IP4, 20003);
	for (uint32_t d = 0; d < 2; d++)
		assert_int_equal(alice.ports[d] + bob.ports[d], 0);
	rnicd.n_ports = 1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_port_comes_once_before_one_comes_again),
		cmocka_unit_test(what_the_kernel_chooses_is_no_port_of_another_id),
		cmocka_unit_test(a_port_of_datagrams_is_not_that_of_connections),
		cmocka_unit_test(a_port_of_datagrams_is_reserved_among_processes),
		cmocka_unit_test(a_user_takes_no_more_ports_than_its_share),
		cmocka_unit_test(taken_ports_are_passed_over),
	};

	rnicd.n_ports = 1;
	rnicd.port[0] = &port[0];
	rnicd.port[1] = &port[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
