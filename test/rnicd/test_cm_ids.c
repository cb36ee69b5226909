/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids of the connection manager: their addresses, ports and neighbours. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cm_rig.h"

static bool port_is_free(uint32_t dev, uint16_t p)
{
	if (!cm_port_take(NULL, dev, CM_IP4, p))
		return false;
	cm_port_give(NULL, dev, CM_IP4, p);
	return true;
}

/*
 * IPv4 and IPv6 have ports of their own. A listener on the IPv6 wildcard address takes both, unless the client says
 * otherwise.
 */
static void a_family_does_not_take_the_ports_of_the_other(void **state)
{
	const struct ipc_addr any4 = { .ip = { [10] = 0xff, [11] = 0xff }, .port = 20003 }, any6 = { .port = 20003 };
	uint32_t four = new_id(), six = new_id(), both = new_id();

	(void)state;
	assert_int_equal(CALL(cm_bind, cm_bind, .id = four, .addr = any4), 0);
	assert_int_equal(CALL(cm_bind, cm_bind, .id = both, .addr = any6), EADDRINUSE);
	assert_int_equal(CALL(cm_bind, cm_bind, .id = six, .addr = any6, .own_family = 1), 0);
	assert_true(destroyed(four));
	assert_int_equal(CALL(cm_bind, cm_bind, .id = both, .addr = any6), EADDRINUSE);
	assert_int_equal(CALL(cm_bind, cm_bind, .id = both, .addr = addr(10, 1, 20003)), 0);
	/* no device of the id's family reaches the address, or has the source address */
	assert_int_equal(CALL(cm_resolve_addr, cm_resolve, .id = six, .dst = addr(10, 2, 9)), 0);
	assert_int_equal(CALL(cm_resolve_addr, cm_resolve, .id = six, .has_src = 1, .src = addr(10, 1, 0),
			      .dst = addr(10, 2, 9)),
			 0);
	assert_true(destroyed(six));
	assert_false(port_is_free(0, 20003)); /* it is that of `both` */
	assert_true(destroyed(both));
	assert_true(port_is_free(0, 20003) && port_is_free(1, 20003));
}

/*
 * No device here has a link-local address: an address with the number of an interface must not be taken for that of
 * another device.
 */
static void a_link_local_address_is_of_the_interface_that_it_names(void **state)
{
	const struct ipc_addr local = { .ip = { 0xfe, 0x80, [15] = 2 }, .port = 20004, .scope = 7 };
	uint32_t id = new_id();

	(void)state;
	assert_int_equal(CALL(cm_bind, cm_bind, .id = id, .addr = local), EADDRNOTAVAIL);
	assert_true(destroyed(id));
}

static void an_address_that_no_device_reaches_keeps_no_port(void **state)
{
	uint32_t id = new_id();

	(void)state;
	assert_int_equal(CALL(cm_resolve_addr, cm_resolve, .id = id, .has_src = 1, .src = addr(10, 1, 20001),
			      .dst = addr(192, 1, 9)),
			 0);
	assert_true(port_is_free(0, 20001));
	assert_true(destroyed(id));
	assert_true(port_is_free(0, 20001));
}

static void an_id_that_goes_gives_back_no_port_of_others(void **state)
{
	uint32_t id = new_id(), other = new_id();

	(void)state;
	assert_int_equal(CALL(cm_bind, cm_bind, .id = id, .addr = { .port = 20002 }), 0); /* on all devices */
	assert_int_equal(CALL(cm_resolve_addr, cm_resolve, .id = id, .has_src = 1, .src = addr(10, 1, 0),
			      .dst = addr(192, 1, 9)),
			 0); /* no device reaches this address */
	assert_int_equal(CALL(cm_bind, cm_bind, .id = other, .addr = addr(10, 2, 20002)), EADDRINUSE);
	assert_int_equal(
		CALL(cm_resolve_addr, cm_resolve, .id = id, .has_src = 1, .src = addr(10, 1, 0), .dst = addr(10, 2, 9)),
		0); /* device 0 reaches this address */
	assert_int_equal(CALL(cm_bind, cm_bind, .id = other, .addr = addr(10, 2, 20002)), 0);
	assert_true(destroyed(id));
	assert_false(port_is_free(1, 20002));
	assert_true(port_is_free(0, 20002));
	assert_true(destroyed(other));
	assert_true(port_is_free(1, 20002));
}

static uint32_t resolving(const struct ipc_addr *dst)
{
	const uint32_t id = new_id();

	assert_int_equal(CALL(cm_resolve_addr, cm_resolve, .id = id, .dst = *dst), 0);
	assert_int_equal(CALL(cm_resolve_route, cm_resolve, .id = id, .timeout_ms = 1000), 0);
	return id;
}

/* Ids wait for 10.77.0.8, for 10.77.0.9, and two of them for the gateway, 10.77.0.254. */
static void a_neighbour_moves_on_the_ids_whose_next_hop_it_is(void **state)
{
	static const uint8_t last[] = { 8, 9, 254, 254 };
	struct ipc_addr dst[] = { addr(10, 8, 1), addr(10, 9, 1), addr(10, 3, 1), addr(10, 4, 1) };
	uint32_t id[4];

	(void)state;
	dst[2].ip[14] = dst[3].ip[14] = 1; /* 10.77.1.3 and 10.77.1.4, in another subnet */
	memcpy(port_cfg[0].ip.b + 12, (uint8_t[]){ 10, 77, 0, 1 }, 4);
	port_cfg[0].prefix_len = 96 + 24;
	port_cfg[0].gateway = port_cfg[0].ip;
	port_cfg[0].gateway.b[15] = 254;
	port_cfg[0].gateway_set = true;
	for (uint32_t i = 0; i < 4; i++)
		id[i] = resolving(&dst[i]);
	for (uint32_t i = 0; i < 3; i++) {
		struct event_neigh ev = { .port = 0, .status = i == 2 ? -ETIMEDOUT : 0, .addr = port_cfg[0].ip };
		ev.addr.b[15] = last[i];
		cm_neigh(&ev);
		for (uint32_t k = 0; k < 4; k++)
			assert_int_equal(cm_find(&cl, id[k])->state, last[k] > last[i] ? CM_ROUTE_WAIT
								     : last[k] == 254  ? CM_ADDR_KNOWN
										       : CM_ROUTE_KNOWN);
	}
	port_cfg[0] = (struct rnicd_port_cfg){ .ip.b = { [10] = 0xff, [11] = 0xff } };
}

static void many_ids_of_one_neighbour_are_told_in_parts(void **state)
{
	const struct ipc_addr dst = addr(10, 8, 1);
	const struct event_neigh ev = { .addr.b = { [10] = 0xff, [11] = 0xff, 10, 77, 0, 8 } };
	uint32_t id[600], n = 0;

	(void)state;
	for (uint32_t i = 0; i < 600; i++)
		id[i] = resolving(&dst);
	cm_neigh(&ev);
	for (uint32_t told = 256; n < 600; told += 256, armed_last->due(armed_last)) {
		for (uint32_t i = n = 0; i < 600; i++)
			n += cm_find(&cl, id[i])->state == CM_ROUTE_KNOWN;
		assert_int_equal(n, rn_min_u32(600, told));
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		T(an_address_that_no_device_reaches_keeps_no_port),
		T(a_link_local_address_is_of_the_interface_that_it_names),
		T(a_family_does_not_take_the_ports_of_the_other),
		T(an_id_that_goes_gives_back_no_port_of_others),
		T(a_neighbour_moves_on_the_ids_whose_next_hop_it_is),
		T(many_ids_of_one_neighbour_are_told_in_parts),
	};

	return cmocka_run_group_tests_name("cm_ids", tests, NULL, NULL);
}
