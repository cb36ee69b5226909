/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings, the command line, and the parameters of a run (a point). */
#include "tp_cli.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct tp_opts o;
static struct tp_err err;

static int setup(void **state)
{
	(void)state;
	tp_opts_default(&o);
	memset(&err, 0, sizeof(err));
	return 0;
}

static void test_sizes_with_units(void **state)
{
	uint64_t v = 0;
	char buf[24];

	(void)state;
	assert_true(tp_parse_size("64", UINT64_MAX, &v) && v == 64);
	assert_true(tp_parse_size("4k", UINT64_MAX, &v) && v == 4096);
	assert_true(tp_parse_size("3M", UINT64_MAX, &v) && v == 3 << 20);
	assert_true(tp_parse_size("1g", 1 << 30, &v) && v == 1 << 30);
	assert_false(tp_parse_size("2g", 1 << 30, &v));
	assert_false(tp_parse_size("", 100, &v));
	assert_false(tp_parse_size("-1", 100, &v));
	assert_false(tp_parse_size("4kb", UINT64_MAX, &v));
	assert_false(tp_parse_size("4 k", UINT64_MAX, &v));
	assert_false(tp_parse_size("99999999999999999999", UINT64_MAX, &v));
	assert_false(tp_parse_size("17179869184g", UINT64_MAX, &v));
	tp_format_size(65536, buf, sizeof(buf));
	assert_string_equal(buf, "64k");
	tp_format_size(1000, buf, sizeof(buf));
	assert_string_equal(buf, "1000");
	tp_format_size(8 << 20, buf, sizeof(buf));
	assert_string_equal(buf, "8m");
}

static void test_times_with_units(void **state)
{
	uint64_t v = 0;

	(void)state;
	assert_true(tp_parse_time("2", &v) && v == UINT64_C(2000000000));
	assert_true(tp_parse_time("0.5s", &v) && v == 500000000);
	assert_true(tp_parse_time("200ms", &v) && v == 200000000);
	assert_true(tp_parse_time("50us", &v) && v == 50000);
	assert_true(tp_parse_time("10m", &v) && v == UINT64_C(600000000000));
	assert_false(tp_parse_time("", &v));
	assert_false(tp_parse_time("-1", &v));
	assert_false(tp_parse_time("1x", &v));
	assert_false(tp_parse_time("1e30", &v));
	assert_false(tp_parse_time("nan", &v));
}

static void test_size_lists(void **state)
{
	static const uint64_t want[] = { 8, 64, 4096, 8192, 16384, 100 };

	(void)state;
	assert_int_equal(tp_opts_set(&o, "size", "8,64,4k..16k,100", &err), TP_OK);
	assert_int_equal(o.n_sizes, 6);
	assert_memory_equal(o.sizes, want, sizeof(want));
	assert_int_equal(tp_opts_set(&o, "sizes", "all", &err), TP_OK);
	assert_int_equal(o.n_sizes, 21);
	assert_int_equal(o.sizes[0], 8);
	assert_int_equal(o.sizes[20], 8 << 20);
	assert_int_equal(tp_opts_set(&o, "size", "1g..1g", &err), TP_OK);
	assert_int_equal(o.n_sizes, 1);
}

static void test_lists_make_every_combination_once(void **state)
{
	static const struct {
		uint32_t qps, depth;
		uint64_t size;
	} want[] = { { 1, 8, 64 }, { 1, 8, 4096 }, { 1, 16, 64 }, { 1, 16, 4096 },
		     { 3, 8, 64 }, { 3, 8, 4096 }, { 3, 16, 64 }, { 3, 16, 4096 } };
	struct tp_point p;

	(void)state;
	snprintf(o.host, sizeof(o.host), "10.0.0.2");
	assert_int_equal(tp_opts_set(&o, "size", "64,4k", &err), TP_OK);
	assert_int_equal(tp_opts_set(&o, "qps", "1,3", &err), TP_OK);
	assert_int_equal(tp_opts_set(&o, "depth", "8..16", &err), TP_OK);
	assert_int_equal(tp_opts_set(&o, "mode", "write_bw,read_bw", &err), TP_OK);
	assert_int_equal(tp_opts_check(&o, &err), TP_OK);
	assert_int_equal(tp_opts_points(&o), 16);
	for (unsigned i = 0; i < 16; i++) {
		tp_opts_point(&o, i, &p);
		assert_int_equal(p.mode, i < 8 ? TP_WRITE_BW : TP_READ_BW);
		assert_int_equal(p.qps, want[i % 8].qps);
		assert_int_equal(p.depth, want[i % 8].depth);
		assert_int_equal(p.size, want[i % 8].size);
		assert_int_equal(p.series, i / 2);
		assert_int_equal(p.more, i < 15);
	}
	/* a list breaks a rule if one of its values does */
	assert_int_equal(tp_opts_set(&o, "batch", "16", &err), TP_OK);
	assert_int_equal(tp_opts_check(&o, &err), TP_BAD_OPTION);
	assert_int_equal(tp_opts_set(&o, "qps", "0", &err), TP_BAD_OPTION);
	assert_int_equal(tp_opts_set(&o, "depth", "8,", &err), TP_OK);
	assert_int_equal(tp_opts_set(&o, "depth", "8,x", &err), TP_BAD_OPTION);
	assert_int_equal(tp_opts_set(&o, "depth", "16..8", &err), TP_BAD_OPTION);
	assert_int_equal(tp_opts_set(&o, "depth", "99999", &err), TP_BAD_OPTION);
	assert_int_equal(o.depth, 8);
}

static void test_touch_goes_with_send_bw(void **state)
{
	(void)state;
	snprintf(o.host, sizeof(o.host), "10.0.0.2");
	assert_int_equal(tp_opts_set(&o, "touch", NULL, &err), TP_OK);
	assert_int_equal(tp_opts_set(&o, "mode", "send_bw", &err), TP_OK);
	assert_int_equal(tp_opts_check(&o, &err), TP_OK);
	assert_int_equal(tp_opts_set(&o, "mode", "send_bw,write_bw", &err), TP_OK);
	assert_int_equal(tp_opts_check(&o, &err), TP_BAD_OPTION);
	assert_non_null(strstr(err.text, "--touch"));
}

static void test_compute_goes_with_the_bandwidth_modes(void **state)
{
	struct tp_point p;

	(void)state;
	snprintf(o.host, sizeof(o.host), "10.0.0.2");
	assert_int_equal(tp_opts_set(&o, "compute", "20us", &err), TP_OK);
	assert_int_equal(tp_opts_set(&o, "mode", "write_bw,read_bw,send_bw", &err), TP_OK);
	assert_int_equal(tp_opts_check(&o, &err), TP_OK);
	tp_point_make(&p, &o, TP_WRITE_BW, 4096);
	assert_int_equal(p.compute, 20000);
	assert_int_equal(tp_opts_set(&o, "mode", "write_lat", &err), TP_OK);
	assert_int_equal(tp_opts_check(&o, &err), TP_BAD_OPTION);
	assert_non_null(strstr(err.text, "--compute"));
	assert_int_equal(tp_opts_set(&o, "mode", "soak", &err), TP_OK);
	assert_int_equal(tp_opts_check(&o, &err), TP_BAD_OPTION);
	assert_int_equal(tp_opts_set(&o, "compute", "0", &err), TP_OK);
	assert_int_equal(tp_opts_check(&o, &err), TP_OK);
}

static void test_shares(void **state)
{
	uint32_t ppm = 7;

	(void)state;
	assert_true(tp_parse_share("1%", &ppm) && ppm == 10000);
	assert_true(tp_parse_share("0.05%", &ppm) && ppm == 500);
	assert_true(tp_parse_share("0", &ppm) && ppm == 0);
	assert_true(tp_parse_share("100%", &ppm) && ppm == 1000000);
	assert_false(tp_parse_share("101%", &ppm));
	assert_false(tp_parse_share("1", &ppm)); /* ambiguous: one per cent, or all */
	assert_false(tp_parse_share("%", &ppm));
	assert_false(tp_parse_share("-1%", &ppm));
	assert_false(tp_parse_share("1%%", &ppm));
}

static void test_datagrams(void **state)
{
	struct tp_point p;

	(void)state;
	snprintf(o.host, sizeof(o.host), "10.0.0.2");
	assert_int_equal(tp_opts_set(&o, "qp-type", "ud", &err), TP_OK);
	assert_int_equal(tp_opts_set(&o, "loss", "0,0.1%,5%", &err), TP_OK);
	assert_int_equal(o.n_losses, 3);
	assert_int_equal(o.losses[1], 1000);
	assert_int_equal(tp_opts_set(&o, "size", "1,1m", &err), TP_OK);
	assert_int_equal(tp_opts_check(&o, &err), TP_OK);
	/* the answers to Reads are told apart by their buffers, and only few may be under way */
	tp_point_make(&p, &o, TP_READ_BW, 4096);
	assert_int_equal(p.qp_type, TP_QP_UD);
	assert_true(p.depth <= 8 && p.slots >= 2 * p.depth);
	assert_int_equal(tp_point_check(&p, &err), TP_OK);
	/* in a soak Sends, records and answers have buffers of their own */
	tp_point_make(&p, &o, TP_SOAK, 4096);
	assert_int_equal(p.slots, 3 * p.depth);
	p.slots--;
	assert_int_equal(tp_point_check(&p, &err), TP_BAD_PEER);
	/* with more than one buffer, each receive has its own */
	tp_point_make(&p, &o, TP_SEND_BW, 4096);
	assert_int_equal(p.slots, 1);
	o.buffers = 2;
	tp_point_make(&p, &o, TP_SEND_BW, 4096);
	assert_true(p.slots >= tp_recv_depth(&p));
	p.size = (1 << 20) + 1;
	assert_int_equal(tp_point_check(&p, &err), TP_BAD_PEER);
	p.qp_type = TP_QP_TYPES;
	p.size = 1;
	assert_int_equal(tp_point_check(&p, &err), TP_BAD_PEER);
	assert_int_equal(tp_opts_set(&o, "size", "2m", &err), TP_OK);
	assert_int_equal(tp_opts_check(&o, &err), TP_BAD_OPTION);
	assert_non_null(strstr(err.text, "--qp-type rd"));
	assert_int_equal(tp_opts_set(&o, "qp-type", "rd", &err), TP_OK);
	assert_int_equal(tp_opts_check(&o, &err), TP_OK);
}

static void test_bad_values_leave_settings_alone(void **state)
{
	static const char *const bad[][2] = {
		{ "size", "0" },     { "size", "2g" },      { "size", "8..4" },    { "size", "," },
		{ "size", "4k.." },  { "size", "..4k" },    { "mode", "write" },   { "mode", "" },
		{ "mode", "," },     { "depth", "0" },      { "depth", "1m" },     { "qps", "x" },
		{ "port", "65536" }, { "port", "0" },       { "seconds", "0" },    { "seconds", "soon" },
		{ "warmup", "-3" },  { "events", "maybe" }, { "inline", "1m" },    { "alloc", "heap" },
		{ "cpu", "-1" },     { "nonsense", "1" },   { "iters", "0" },      { "buffers", "0" },
		{ "seed", "" },      { "compute", "2ms" },  { "compute", "long" }, { "qp-type", "uc" },
		{ "loss", "" },      { "loss", "1" },       { "loss", "1%,x" },
	};
	struct tp_opts before;

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		tp_opts_default(&o);
		before = o;
		err.text[0] = '\0';
		assert_int_equal(tp_opts_set(&o, bad[i][0], bad[i][1], &err), TP_BAD_OPTION);
		assert_true(strlen(err.text) > 10);
		assert_memory_equal(&o, &before, sizeof(o));
	}
}

static void test_later_of_iters_and_seconds_counts(void **state)
{
	(void)state;
	assert_int_equal(tp_opts_set(&o, "iters", "1000", &err), TP_OK);
	assert_int_equal(o.iters, 1000);
	assert_int_equal(tp_opts_set(&o, "seconds", "3", &err), TP_OK);
	assert_int_equal(o.iters, 0);
	assert_int_equal(o.duration, UINT64_C(3000000000));
}

static void test_warmup_is_operations_or_time(void **state)
{
	(void)state;
	assert_int_equal(tp_opts_set(&o, "warmup", "1000", &err), TP_OK);
	assert_int_equal(o.warmup_ops, 1000);
	assert_int_equal(o.warmup, 0);
	assert_int_equal(tp_opts_set(&o, "warmup", "20ms", &err), TP_OK);
	assert_int_equal(o.warmup_ops, 0);
	assert_int_equal(o.warmup, 20000000);
	assert_int_equal(tp_opts_set(&o, "warmup", "0", &err), TP_OK);
	assert_int_equal(o.warmup_ops, 0);
	assert_int_equal(o.warmup, 0);
}

static enum tp_cli parse(const char *const *words)
{
	char *argv[32] = { (char *)(uintptr_t) "testpmd-rdma" };
	static char copies[32][64];
	int n = 1;

	for (; words[n - 1] != NULL; n++) {
		snprintf(copies[n], sizeof(copies[n]), "%s", words[n - 1]);
		argv[n] = copies[n];
	}
	argv[n] = NULL;
	tp_opts_default(&o);
	err.text[0] = '\0';
	return tp_cli_parse(&o, n, argv, &err);
}

#define PARSE(...) parse((const char *const[]){ __VA_ARGS__, NULL })

static void test_command_line(void **state)
{
	(void)state;
	assert_int_equal(PARSE("-m", "read_lat", "--size=64", "-n", "500", "--json", "-e", "10.0.0.2"), TP_CLI_RUN);
	assert_string_equal(o.host, "10.0.0.2");
	assert_int_equal(o.modes[0], TP_READ_LAT);
	assert_int_equal(o.sizes[0], 64);
	assert_int_equal(o.iters, 500);
	assert_int_equal(o.format, TP_JSON);
	assert_true(o.events);
	assert_int_equal(PARSE("-s", "-a", "10.0.0.2", "-p", "77"), TP_CLI_RUN);
	assert_true(o.server);
	assert_int_equal(o.port, 77);
	assert_int_equal(PARSE("-i"), TP_CLI_RUN);
	assert_int_equal(PARSE("--help"), TP_CLI_HELP);
	assert_int_equal(PARSE("-V"), TP_CLI_VERSION);
	/* HOST may stand anywhere on the command line */
	assert_int_equal(PARSE("host", "-d", "5"), TP_CLI_RUN);
	assert_int_equal(o.depth, 5);
	assert_string_equal(o.host, "host");
}

static void test_command_line_mistakes(void **state)
{
	(void)state;
	assert_int_equal(parse((const char *const[]){ NULL }), TP_CLI_BAD);
	assert_non_null(strstr(err.text, "no server named"));
	assert_int_equal(PARSE("a", "b"), TP_CLI_BAD);
	assert_int_equal(PARSE("--bogus", "a"), TP_CLI_BAD);
	assert_non_null(strstr(err.text, "--bogus"));
	assert_int_equal(PARSE("a", "-q"), TP_CLI_BAD);
	assert_non_null(strstr(err.text, "-q needs a value"));
	assert_int_equal(PARSE("-s", "-i"), TP_CLI_BAD);
	assert_int_equal(PARSE("-s", "host"), TP_CLI_BAD);
	assert_int_equal(PARSE("-m", "write_lat", "-e", "host"), TP_CLI_BAD);
	assert_int_equal(PARSE("-m", "send_lat", "-b", "host"), TP_CLI_BAD);
	assert_int_equal(PARSE("-m", "send_lat", "-d", "4", "host"), TP_CLI_BAD);
	assert_int_equal(PARSE("-d", "4", "--batch", "8", "host"), TP_CLI_BAD);
}

static void test_every_setting_has_its_help(void **state)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	(void)state;
	tp_cli_help(f);
	fclose(f);
	for (unsigned i = 0; i < tp_n_settings; i++) {
		char option[64];

		snprintf(option, sizeof(option), "--%s", tp_settings[i].name);
		assert_non_null(strstr(text, option));
	}
	for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
		assert_true(strlen(line) <= 104);
	free(text);
}

/* For any settings the numbers of a point are consistent. */
static void test_points_hold_their_rules(void **state)
{
	static const uint32_t values[] = { 0, 1, 2, 3, 7, 16, 128, 1000, TP_MAX_DEPTH };
	struct tp_point p;

	(void)state;
	for (unsigned d = 0; d < 9; d++) {
		for (unsigned b = 0; b < 9; b++) {
			for (unsigned s = 0; s < 9; s++) {
				tp_opts_default(&o);
				snprintf(o.host, sizeof(o.host), "h");
				o.depth = values[d];
				o.batch = values[b];
				o.signal_every = values[s];
				if (tp_opts_check(&o, &err) != TP_OK)
					continue;
				for (unsigned m = 0; m < TP_MODE_COUNT; m++) {
					if (tp_mode_is_latency((enum tp_mode)m) && o.depth > 1)
						continue;
					tp_point_make(&p, &o, (enum tp_mode)m, 65536);
					assert_int_equal(tp_point_check(&p, &err), TP_OK);
				}
			}
		}
	}
}

static void test_defaults_of_a_point(void **state)
{
	struct tp_point p, q;

	(void)state;
	tp_point_make(&p, &o, TP_WRITE_BW, 64);
	assert_int_equal(p.depth, 128);
	assert_int_equal(p.batch, 16);
	assert_int_equal(p.signal_every, 16);
	assert_true(p.verify);
	tp_point_make(&p, &o, TP_WRITE_BW, 8 << 20);
	assert_int_equal(p.depth, 8);
	tp_point_make(&p, &o, TP_WRITE_BW, 1 << 30);
	assert_int_equal(p.depth, 4);
	tp_point_make(&p, &o, TP_WRITE_LAT, 8);
	assert_int_equal(p.depth, 1);
	o.no_verify = true;
	tp_point_make(&p, &o, TP_SOAK, 100);
	assert_true(p.verify);
	assert_int_equal(p.slots, 2 * p.depth);
	assert_int_equal(p.warmup, 0);
	/* Each run of a sweep has data of its own. */
	tp_point_make(&p, &o, TP_WRITE_BW, 64);
	tp_point_make(&q, &o, TP_WRITE_BW, 128);
	assert_true(p.seed != q.seed);
	tp_point_make(&q, &o, TP_READ_BW, 64);
	assert_true(p.seed != q.seed);
}

static void test_points_of_a_peer_are_checked(void **state)
{
	struct tp_point good, p;

	(void)state;
	tp_point_make(&good, &o, TP_WRITE_BW, 64);
#define BAD(field, value) \
	do { \
		p = good; \
		p.field = value; \
		assert_int_equal(tp_point_check(&p, &err), TP_BAD_PEER); \
	} while (0)
	BAD(mode, TP_MODE_COUNT);
	BAD(size, 0);
	BAD(size, TP_MAX_SIZE + 1);
	BAD(qps, 0);
	BAD(qps, UINT32_MAX);
	BAD(depth, 0);
	BAD(depth, UINT32_MAX);
	BAD(slots, 0);
	BAD(slots, UINT32_MAX);
	BAD(batch, 0);
	BAD(batch, 129);
	BAD(signal_every, 0);
	BAD(signal_every, 128);
	BAD(duration, 0);
	BAD(timeout, 0);
	BAD(mode, TP_READ_LAT);
	BAD(mode, TP_SOAK);
#undef BAD
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_sizes_with_units, setup),
		cmocka_unit_test_setup(test_times_with_units, setup),
		cmocka_unit_test_setup(test_size_lists, setup),
		cmocka_unit_test_setup(test_shares, setup),
		cmocka_unit_test_setup(test_datagrams, setup),
		cmocka_unit_test_setup(test_lists_make_every_combination_once, setup),
		cmocka_unit_test_setup(test_touch_goes_with_send_bw, setup),
		cmocka_unit_test_setup(test_compute_goes_with_the_bandwidth_modes, setup),
		cmocka_unit_test_setup(test_bad_values_leave_settings_alone, setup),
		cmocka_unit_test_setup(test_later_of_iters_and_seconds_counts, setup),
		cmocka_unit_test_setup(test_warmup_is_operations_or_time, setup),
		cmocka_unit_test_setup(test_command_line, setup),
		cmocka_unit_test_setup(test_command_line_mistakes, setup),
		cmocka_unit_test_setup(test_every_setting_has_its_help, setup),
		cmocka_unit_test_setup(test_points_hold_their_rules, setup),
		cmocka_unit_test_setup(test_defaults_of_a_point, setup),
		cmocka_unit_test_setup(test_points_of_a_peer_are_checked, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
