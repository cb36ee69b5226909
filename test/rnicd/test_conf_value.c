/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "control/conf_value.h"

static char why[CONF_WHY_MAX];

static void whole_numbers(void **state)
{
	static const char *const bad[] = { "",  "-1", "+1", " 1", "1 ", "1.0", "1k", "0x", "99999999999999999999",
					   "4", "11", "one" };
	uint64_t v = 0;

	(void)state;
	assert_true(conf_uint("5", 5, 10, &v, why) && v == 5);
	assert_true(conf_uint("0xa", 5, 10, &v, why) && v == 10);
	assert_true(conf_uint("18446744073709551615", 0, UINT64_MAX, &v, why) && v == UINT64_MAX);
	v = 77;
	for (size_t i = 0; i < RN_ARRAY_LEN(bad); i++)
		assert_false(conf_uint(bad[i], 5, 10, &v, why));
	assert_int_equal(v, 77);
	assert_string_equal(why, "must be a whole number from 5 to 10");
}

static void bytes_are_powers_of_1024(void **state)
{
	uint64_t v;

	(void)state;
	assert_true(conf_bytes("4096", 0, UINT64_MAX, &v, why) && v == 4096);
	assert_true(conf_bytes("2k", 0, UINT64_MAX, &v, why) && v == 2048);
	assert_true(conf_bytes("1.5G", 0, UINT64_MAX, &v, why) && v == UINT64_C(3) << 29);
	assert_true(conf_bytes("1 T", 0, UINT64_MAX, &v, why) && v == UINT64_C(1) << 40);
	assert_false(conf_bytes("1KB", 0, UINT64_MAX, &v, why));
	assert_false(conf_bytes("99999999999T", 0, UINT64_MAX, &v, why));
	/* Its digits times T exceed 128 bits: what is left of the product is 5 T. */
	assert_false(conf_bytes("928455029464035211.174343168T", 0, UINT64_MAX, &v, why));
	assert_true(conf_bytes("16777215.999999999T", 0, UINT64_MAX, &v, why) && v == UINT64_C(18446744073709550516));
	assert_false(conf_bytes("1M", 0, 1024, &v, why));
	assert_string_equal(why, "must be bytes (K, M, G, T) from 0 to 1K");
}

static void rates_are_powers_of_1000(void **state)
{
	uint64_t v;

	(void)state;
	assert_true(conf_rate("10G", 1, UINT64_MAX, &v, why) && v == UINT64_C(10000000000));
	assert_true(conf_rate("2.5g", 1, UINT64_MAX, &v, why) && v == UINT64_C(2500000000));
	assert_true(conf_rate("100m", 1, UINT64_MAX, &v, why) && v == 100000000);
	assert_false(conf_rate("10Gb", 1, UINT64_MAX, &v, why));
	assert_false(conf_rate("0", 1, UINT64_MAX, &v, why));
}

static void times_need_a_unit(void **state)
{
	uint64_t v;

	(void)state;
	assert_true(conf_time("0", 0, RN_NS_PER_S, &v, why) && v == 0);
	assert_true(conf_time("1ms", 0, RN_NS_PER_S, &v, why) && v == RN_NS_PER_MS);
	assert_true(conf_time("2.5us", 0, RN_NS_PER_S, &v, why) && v == 2500);
	assert_true(conf_time("1s", 0, RN_NS_PER_S, &v, why) && v == RN_NS_PER_S);
	assert_false(conf_time("10", 0, RN_NS_PER_S, &v, why));
	assert_false(conf_time("1.s", 0, RN_NS_PER_S, &v, why));
	assert_false(conf_time("1.1s", 0, RN_NS_PER_S, &v, why));
	assert_string_equal(why, "must be a time (ns, us, ms, s) from 0 to 1s");
}

static void probabilities(void **state)
{
	static const char *const bad[] = { "101%", "1.1", "-1%", "%", "1 percent", "0.0000000001" };
	uint64_t v;

	(void)state;
	assert_true(conf_prob("0", &v, why) && v == 0);
	assert_true(conf_prob("50%", &v, why) && v == UINT64_C(1) << 31);
	assert_true(conf_prob("0.25", &v, why) && v == UINT64_C(1) << 30);
	assert_true(conf_prob("100%", &v, why) && v == UINT32_MAX);
	assert_true(conf_prob("0.1%", &v, why) && v == 4294967);
	for (size_t i = 0; i < RN_ARRAY_LEN(bad); i++)
		assert_false(conf_prob(bad[i], &v, why));
	assert_string_equal(why, "must be a probability from 0% to 100%");
}

static void words(void **state)
{
	static const char *const w[] = { "cubic", "newreno", "none", NULL };
	uint64_t v;

	(void)state;
	assert_true(conf_word("NewReno", w, &v, why) && v == 1);
	assert_false(conf_word("reno", w, &v, why));
	assert_string_equal(why, "must be cubic, newreno or none");
	assert_true(conf_bool("on", &v, why) && v == 1);
	assert_true(conf_bool("No", &v, why) && v == 0);
	assert_false(conf_bool("maybe", &v, why));
	assert_string_equal(why, "must be yes or no");
}

static void mac_addresses(void **state)
{
	static const char *const bad[] = { "",
					   "02:00:00:00:00",
					   "02:00:00:00:00:01:02",
					   "2:0:0:0:0:1",
					   "02-00-00-00-00-01",
					   "02:00:00:00:00:0g",
					   "01:00:00:00:00:01",
					   "00:00:00:00:00:00",
					   "ff:ff:ff:ff:ff:ff" };
	static const uint8_t want[6] = { 2, 0xab, 0, 0, 0, 0xff };
	uint8_t mac[6] = { 0 };

	(void)state;
	assert_true(conf_mac("02:aB:00:00:00:ff", mac, why));
	assert_memory_equal(mac, want, 6);
	for (size_t i = 0; i < RN_ARRAY_LEN(bad); i++)
		assert_false(conf_mac(bad[i], mac, why));
	assert_memory_equal(mac, want, 6);
}

static void addresses(void **state)
{
	static const char *const bad[] = { "",          "10.0.0",          "10.0.0.256",      "10.0.0.1.2", "127.0.0.1",
					   "224.0.0.1", "0.0.0.0",         "255.255.255.255", "::",         "::1",
					   "ff02::1",   "::ffff:10.0.0.1", "fe80::1%eth0",    "host" };
	struct pkt_addr a, want = pkt_addr_ip4(0x0a000001);

	(void)state;
	assert_true(conf_addr("10.0.0.1", &a, why));
	assert_memory_equal(&a, &want, sizeof(a));
	assert_true(conf_addr("fd00::1", &a, why));
	assert_int_equal(a.b[0], 0xfd);
	assert_int_equal(a.b[15], 1);
	for (size_t i = 0; i < RN_ARRAY_LEN(bad); i++)
		assert_false(conf_addr(bad[i], &a, why));
}

static void prefixes_count_in_128_bits(void **state)
{
	static const char *const bad[] = { "10.0.0.1",      "10.0.0.1/", "10.0.0.1/0", "10.0.0.1/33",
					   "10.0.0.1/24/8", "/24",       "fd00::1/129" };
	struct pkt_addr a;
	uint32_t bits;

	(void)state;
	assert_true(conf_addr_prefix("10.0.0.1/24", &a, &bits, why) && bits == 120);
	assert_true(conf_addr_prefix("10.0.0.1/32", &a, &bits, why) && bits == 128);
	assert_true(conf_addr_prefix("fd00::1/64", &a, &bits, why) && bits == 64);
	for (size_t i = 0; i < RN_ARRAY_LEN(bad); i++)
		assert_false(conf_addr_prefix(bad[i], &a, &bits, why));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_numbers),
		cmocka_unit_test(bytes_are_powers_of_1024),
		cmocka_unit_test(rates_are_powers_of_1000),
		cmocka_unit_test(times_need_a_unit),
		cmocka_unit_test(probabilities),
		cmocka_unit_test(words),
		cmocka_unit_test(mac_addresses),
		cmocka_unit_test(addresses),
		cmocka_unit_test(prefixes_count_in_128_bits),
	};
	return cmocka_run_group_tests_name("conf_value", tests, NULL, NULL);
}
