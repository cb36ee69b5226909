/* SPDX-License-Identifier: BSD-3-Clause */
/* The script of a chart: which setting is the axis, which one makes lines, which one makes charts. */
#include "tp_plot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const struct tp_about about = { .version = "1.2.3", .date = "2020-01-02T03:04:05Z", .host = "it's" };

/* The result of run number i: i + 1 GB/s, and i + 1 us. */
static struct tp_result result_of(const struct tp_opts *o, unsigned i)
{
	struct tp_result res = { .device = "rnic0" };

	tp_opts_point(o, i, &res.point);
	res.mine.ops = 1;
	res.mine.bytes = i + 1;
	res.mine.ns = 1;
	res.mine.lat.p50 = (i + 1) * 1000;
	return res;
}

/* The script for all runs of the settings, which are pairs "name", "value" with NULL at the end. */
static char *script(const char *const *settings)
{
	static struct tp_result list[64];
	struct tp_opts o;
	struct tp_err err;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	tp_opts_default(&o);
	for (; settings[0] != NULL; settings += 2)
		assert_int_equal(tp_opts_set(&o, settings[0], settings[1], &err), TP_OK);
	for (unsigned i = 0; i < tp_opts_points(&o); i++)
		list[i] = result_of(&o, i);
	tp_plot_script(f, "a'b.svg", &about, list, tp_opts_points(&o));
	fclose(f);
	return text;
}

#define SCRIPT(...) script((const char *const[]){ __VA_ARGS__, NULL })

static void test_lines_over_the_size(void **state)
{
	char *text = SCRIPT("size", "64,4k", "qps", "1,8");

	(void)state;
	assert_non_null(strstr(text, "\nset output 'a''b.svg'\n"));
	assert_non_null(strstr(text, "rnic0 on it''s, 2020-01-02T03:04:05Z'"));
	assert_non_null(strstr(text, "set xlabel 'message size in bytes'\nset logscale x 2\n"));
	assert_non_null(strstr(text, "$line0 << EOD\n64 1\n4096 2\nEOD\n"));
	assert_non_null(strstr(text, "$line2 << EOD\n64 3\n4096 4\nEOD\n"));
	assert_non_null(strstr(text, "title 'write_bw, 1 queue pairs'"));
	assert_non_null(strstr(text, "title 'write_bw, 8 queue pairs'\n"));
	assert_null(strstr(text, "latency"));
	free(text);
}

/* Large messages have a lower default depth than small ones; both still belong to one line. */
static void test_a_depth_that_follows_from_the_size_makes_no_line(void **state)
{
	char *text = SCRIPT("size", "64k..8m");

	(void)state;
	assert_null(strstr(text, "$line1 "));
	assert_non_null(strstr(text, "title 'write_bw'\n"));
	free(text);
}

static void test_lines_over_what_differs_first(void **state)
{
	char *text = SCRIPT("size", "64", "qps", "1..4", "depth", "8,16");

	(void)state;
	assert_non_null(strstr(text, "set xlabel 'queue pairs'"));
	assert_non_null(strstr(text, "$line0 << EOD\n1 1\n2 3\n4 5\nEOD\n"));
	assert_non_null(strstr(text, "title 'write_bw, 16 outstanding'"));
	free(text);
	text = SCRIPT("size", "64", "loss", "0,0.5%");
	assert_non_null(strstr(text, "set xlabel 'frames lost, %'\n"));
	assert_non_null(strstr(text, "$line0 << EOD\n0 1\n0.5 2\nEOD\n"));
	assert_null(strstr(text, "logscale"));
	free(text);
}

static void test_latencies_have_a_chart_of_their_own(void **state)
{
	char *text = SCRIPT("mode", "write_bw,write_lat", "size", "8,64");

	(void)state;
	assert_non_null(strstr(text, "set terminal svg size 760,840"));
	assert_non_null(strstr(text, "set multiplot layout 2,1"));
	assert_non_null(strstr(text, "set ylabel 'GB/s'"));
	assert_non_null(strstr(text, "set ylabel 'median latency, us'"));
	assert_non_null(strstr(text, "$line2 << EOD\n8 3\n64 4\nEOD\n"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines_over_the_size),
		cmocka_unit_test(test_a_depth_that_follows_from_the_size_makes_no_line),
		cmocka_unit_test(test_lines_over_what_differs_first),
		cmocka_unit_test(test_latencies_have_a_chart_of_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
