/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/conf.h"

static struct conf c;

/* Reads the text; the messages must be exactly `want`. */
static void expect(const char *text, const char *want)
{
	size_t n;
	char *got;
	FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	FILE *err = open_memstream(&got, &n);

	(void)conf_read(f, "t.conf", &c, err);
	fclose(f);
	fclose(err);
	assert_string_equal(got, want);
	free(got);
}

#define A(paths) "[port a]\naddress = 10.0.0.1/24\npaths = " paths "\n"
#define B(paths) "[port b]\naddress = 10.0.0.2/24\npaths = " paths "\n"

static void paths_are_lines_behind_the_ports(void **state)
{
	(void)state;
	expect(A("pair:b, pair:b") "delay = 0, 1ms\nloss = 1%\nrate = 1G,2G\nmtu = 1400\n" B(
		       "pair:a,pair:a") "mtu = 1400\n"
					"spread = flow\n",
	       "");
	assert_int_equal(c.d.n_ports, 2);
	assert_int_equal(c.d.n_paths, 4);
	const struct rnicd_port_cfg *a = &c.d.port[0], *p = &c.d.port[2];
	assert_true(a->kind == RNICD_PORT_PATHS && !a->is_path && a->spread == RNICD_SPREAD_TURNS);
	assert_int_equal(c.d.port[1].spread, RNICD_SPREAD_FLOW);
	assert_int_equal(a->impair.loss, 0); /* its paths have losses, the port itself has no line */
	assert_int_equal(a->rate_bps, UINT64_C(3000000000));
	for (uint32_t i = 0; i < 4; i++) {
		assert_true(p[i].is_path && p[i].of == i / 2 && p[i].kind == RNICD_PORT_PAIR && p[i].mtu == 1400);
		assert_true(pkt_addr_eq(&p[i].ip, &c.d.port[i / 2].ip));
	}
	assert_string_equal(p[0].name, "a/0");
	assert_string_equal(p[1].name, "a/1");
	assert_string_equal(p[0].args, "b/0");
	assert_string_equal(p[1].args, "b/1");
	assert_string_equal(p[2].args, "a/0");
	assert_string_equal(p[3].args, "a/1");
	assert_true(p[0].impair.delay_ns == 0 && p[1].impair.delay_ns == RN_NS_PER_MS);
	assert_true(p[0].impair.loss == p[1].impair.loss && p[0].impair.loss != 0);
	assert_true(p[0].rate_bps == 1000000000 && p[1].rate_bps == 2000000000);
	assert_true(p[0].impair.seed != p[1].impair.seed); /* each path loses other frames */
	assert_int_equal(p[2].rate_bps, 0);
	assert_int_equal(c.d.port[1].rate_bps, 0);
}

static void devices_keep_their_own_commas(void **state)
{
	(void)state;
	expect(A("memif:role=server,id=0,socket=/x/m.sock ,\tmemif:role=server,id=1,socket=/x/m.sock, af_packet:eth0"),
	       "");
	assert_int_equal(c.d.n_paths, 3);
	assert_string_equal(c.d.port[1].args, "role=server,id=0,socket=/x/m.sock,socket-abstract=no");
	assert_string_equal(c.d.port[2].args, "role=server,id=1,socket=/x/m.sock,socket-abstract=no");
	assert_true(c.d.port[3].kind == RNICD_PORT_AF_PACKET && strcmp(c.d.port[3].args, "eth0") == 0);
}

/* The second path from a to b is wired to the second path from b to a, whatever other paths are listed between. */
static void wires_are_counted_for_each_pair_of_ports(void **state)
{
	(void)state;
	expect(A("pair:b, pair:d, pair:b") B("pair:a, pair:a") "[port d]\naddress = 10.0.1.1/24\npaths = pair:a\n", "");
	assert_string_equal(c.d.port[3].args, "b/0");
	assert_string_equal(c.d.port[4].args, "d/0");
	assert_string_equal(c.d.port[5].args, "b/1");
	assert_string_equal(c.d.port[7].args, "a/2");
	assert_string_equal(c.d.port[8].args, "a/1");
}

static void what_does_not_fit_is_told(void **state)
{
	(void)state;
	expect("[port a]\naddress = 10.0.0.1/24\ndevice = tap:t\npaths = tap:u\n",
	       "t.conf:4: port 'a' has a 'device' and 'paths': give it one of the two\n");
	expect("[port a]\naddress = 10.0.0.1/24\n", "t.conf:1: port 'a' has no 'device'\n");
	/* a comma that is not followed by a device belongs to the device before it */
	expect(A("tap:u, eth0"),
	       "t.conf:3: 'paths = tap:u, eth0' must name the device behind the colon, without blanks\n");
}

static void lists_have_a_value_for_each_path(void **state)
{
	(void)state;
	expect(A("tap:u, tap:v") "delay = 1ms, 2ms, 3ms\n",
	       "t.conf:4: 'delay' has 3 values, but port 'a' has 2 paths\n");
	expect("[port a]\naddress = 10.0.0.1/24\ndevice = tap:t\nloss = 1%, 2%\n",
	       "t.conf:4: 'loss' has 2 values, but port 'a' has 1 path\n");
	expect(A("tap:u, tap:v") "loss = 1%, much\n",
	       "t.conf:4: 'loss = 1%, much' must be a probability from 0% to 100%\n");
	expect(A("tap:u, tap:v") "mtu = 1500, 1400\n",
	       "t.conf:4: 'mtu = 1500, 1400' must be a whole number from 576 to 65280\n");
	expect(A("tap:u, tap:v") "seed = 1,2,3,4,5,6,7,8,9\n",
	       "t.conf:4: 'seed = 1,2,3,4,5,6,7,8,9' is a list of more than 8\n");
}

static void wires_have_two_ends(void **state)
{
	(void)state;
	expect(A("pair:b"), "t.conf:3: path 'a/0' leads to 'b', but there is no section [port b]\n");
	expect(A("pair:b, pair:b") B("pair:a"),
	       "t.conf:3: path 'a/1' leads to 'b', which has no path that leads back: give both as many as the "
	       "other\n");
	expect(A("pair:a"),
	       "t.conf:3: path 'a/0' leads to 'a', which has no path that leads back: give both as many as the "
	       "other\n");
	expect(A("pair:b") B("pair:a") "mtu = 1400\n", "t.conf:3: path 'a/0' leads to 'b', which has another MTU\n"
						       "t.conf:6: path 'b/0' leads to 'a', which has another MTU\n");
	expect(A("tap:t, tap:t"), "t.conf:3: 'a/0' and 'a/1' are one device\n");
}

static void names_and_numbers_have_room(void **state)
{
	(void)state;
	expect("[port a12345678901234567890123456789]\naddress = 10.0.0.1/24\npaths = tap:t\n",
	       "t.conf:3: port 'a12345678901234567890123456789' has a name that is too long for a port with paths: 29 "
	       "letters at most\n");
	expect("[port a]\naddress = 10.0.0.1/24\npaths = tap:a,tap:b,tap:c,tap:d,tap:e,tap:f,tap:g,tap:h\n"
	       "[port b]\naddress = 10.0.1.1/24\npaths = tap:a1,tap:b1,tap:c1,tap:d1,tap:e1,tap:f1,tap:g1,tap:h1\n"
	       "[port c]\naddress = 10.0.2.1/24\npaths = tap:a2\n",
	       "t.conf:9: port 'c' has one path too many: all ports together may have 16\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_are_lines_behind_the_ports),
		cmocka_unit_test(devices_keep_their_own_commas),
		cmocka_unit_test(wires_are_counted_for_each_pair_of_ports),
		cmocka_unit_test(what_does_not_fit_is_told),
		cmocka_unit_test(lists_have_a_value_for_each_path),
		cmocka_unit_test(wires_have_two_ends),
		cmocka_unit_test(names_and_numbers_have_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
