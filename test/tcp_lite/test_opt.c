/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP options: what is built reads back, malformed options are refused, and no octet outside the given bytes is read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rn_rng.h"
#include "tcp_lite/tcpl_int.h"

static bool parse(const char *bytes, uint32_t n, struct tcpl_opts *o)
{
	uint8_t *exact = malloc(n ? n : 1); /* exactly as long as the options, so that ASan sees a read beyond them */

	memcpy(exact, bytes, n);
	bool ok = tcpl_opt_parse(exact, n, o);
	free(exact);
	return ok;
}

#define PARSE(s, o) parse(s, sizeof(s) - 1, o)

static void good(void **state)
{
	struct tcpl_opts o;

	(void)state;
	/* A Linux SYN. */
	assert_true(PARSE("\x02\x04\x05\xb4\x04\x02\x08\x0a\x01\x02\x03\x04\x00\x00\x00\x00\x01\x03\x03\x07", &o));
	assert_true(o.has_mss && o.sack_ok && o.has_ts && o.has_wscale);
	assert_int_equal(o.mss, 1460);
	assert_int_equal(o.wscale, 7);
	assert_int_equal(o.tsval, 0x01020304);
	/* A Linux ACK with two SACK blocks. */
	assert_true(PARSE("\x01\x01\x05\x12\0\0\0\1\0\0\0\2\xff\xff\xff\xf0\0\0\0\x10", &o));
	assert_int_equal(o.n_sack, 2);
	assert_int_equal(o.sack[1].seq, 0xfffffff0);
	assert_int_equal(o.sack[1].end, 0x10);
	assert_true(PARSE("\x01\x01\x00\x05\x00\x00", &o)); /* octets behind EOL are ignored */
	assert_true(PARSE("", &o));
	assert_true(PARSE("\x03\x03\xff", &o));
	assert_int_equal(o.wscale, 14);                                 /* RFC 7323, 2.3 */
	assert_true(PARSE("\xfd\x05\x01\x02\x03\x02\x04\x02\x00", &o)); /* an unknown option, then MSS */
	assert_int_equal(o.mss, 512);
	/* Known options with a wrong length. */
	assert_true(PARSE("\x08\x04\x01\x01\x02\x03\x05\x05\x06\x00\x00\x00\x00", &o));
	assert_false(o.has_ts || o.has_mss || o.n_sack);
}

static void bad(void **state)
{
	struct tcpl_opts o;

	(void)state;
	assert_false(PARSE("\x08\x00", &o));
	assert_false(PARSE("\x08\x01", &o));
	assert_false(PARSE("\x01\x01\x01\x02", &o));
	assert_false(PARSE("\x02\x04\x05", &o));
	assert_false(PARSE("\xfe\xff\x00\x00", &o));
	assert_false(parse((const char[TCPL_OPT_MAX + 1]){ 1, 1 }, TCPL_OPT_MAX + 1, &o));
}

static void syn_round_trip(void **state)
{
	struct tcpl_cfg cfg;
	struct tcpl_opts o;
	uint8_t p[TCPL_OPT_MAX];

	(void)state;
	tcpl_cfg_default(&cfg, 8960);
	cfg.exid = 0x01020304;
	for (uint32_t i = 0; i < 32; i++) {
		uint32_t offer = (i & 1 ? F_SACK : 0) | (i & 2 ? F_TS : 0) | (i & 4 ? F_WSCALE : 0) |
				 (i & 16 ? F_EXID : 0);
		uint8_t n = tcpl_opt_syn(&cfg, offer, (i & 8) != 0, 5, 6, p);
		assert_true(n <= sizeof(p) && n % 4 == 0);
		assert_true(tcpl_opt_parse(p, n, &o));
		assert_int_equal(o.mss, 8960);
		assert_int_equal(o.sack_ok, (offer & F_SACK) != 0);
		assert_int_equal(o.has_ts, (offer & F_TS) != 0);
		assert_int_equal(o.has_wscale, (offer & F_WSCALE) != 0);
		assert_int_equal(o.exid, offer & F_EXID ? cfg.exid : 0);
		assert_int_equal(o.exid_role, (offer & F_EXID) == 0 ? 0 : i & 8 ? TCPL_EXID_TAKES : TCPL_EXID_ASKS);
	}
}

static void sack_fits(void **state)
{
	struct tcpl_conn c = { .n_blocks = 4,
			       .block = { { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } },
			       .dsack = { 90, 91 } };
	struct tcpl_opts o;
	uint8_t p[TCPL_OPT_MAX];

	(void)state;
	uint8_t n = tcpl_opt_sack(&c, p, 0); /* DSACK and three blocks */
	assert_int_equal(n, 36);
	assert_true(tcpl_opt_parse(p, n, &o));
	assert_int_equal(o.sack[0].seq, 90);
	assert_int_equal(o.sack[3].end, 6);
	/* behind timestamps there is room for three blocks; the DSACK is sent only once */
	n = tcpl_opt_sack(&c, p + 12, 12);
	assert_int_equal(n, 28);
	assert_true(tcpl_opt_parse(p + 12, n, &o));
	assert_int_equal(o.n_sack, 3);
	assert_int_equal(o.sack[0].seq, 1);
	c.n_blocks = 0;
	assert_int_equal(tcpl_opt_sack(&c, p, 0), 0);
}

static void any_bytes(void **state)
{
	struct rn_rng g;
	struct tcpl_opts o;
	char b[TCPL_OPT_MAX];

	(void)state;
	rn_rng_seed(&g, 1);
	for (int i = 0; i < 200000; i++) {
		uint32_t n = rn_rng_below(&g, sizeof(b) + 1);
		for (uint32_t k = 0; k < n; k++)
			b[k] = (char)(rn_rng_chance(&g, 700000) ? rn_rng_below(&g, 12) : rn_rng_below(&g, 256));
		if (parse(b, n, &o))
			assert_true(o.n_sack <= 4 && o.wscale <= 14);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good),      cmocka_unit_test(bad),       cmocka_unit_test(syn_round_trip),
		cmocka_unit_test(sack_fits), cmocka_unit_test(any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
