/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct tp_result result(enum tp_mode mode, uint64_t size)
{
	return (struct tp_result){
		.point = { .mode = mode,
			   .size = size,
			   .qps = 2,
			   .depth = 128,
			   .batch = 16,
			   .signal_every = 16,
			   .slots = 1,
			   .loss = TP_NO_LOSS },
		/* 2 s, a million messages, 1 us of CPU time for each */
		.mine = { .ops = 1000000,
			  .bytes = 1000000 * size,
			  .ns = UINT64_C(2000000000),
			  .cpu_ns = 1000000000,
			  .cpu_ops = 1000000,
			  .checked = 10,
			  .lat = { 100, 900, 2350, 10000, 1200000, 3100000000, 2500 } },
		.peer = { .ops = 500000,
			  .bytes = 500000 * size,
			  .ns = 1000000000,
			  .cpu_ns = 500000000,
			  .cpu_ops = 1000000 },
		.connect_ns = 777,
		.device = "rnic0",
		.active_mtu = 4096,
	};
}

static const struct tp_about about = { .version = "1.2.3 (commit 0123456789ab)",
				       .commit = "0123456789ab",
				       .date = "2020-01-02T03:04:05Z",
				       .host = "a \"b\" \\ c\n",
				       .cpu = "" };

static char *print(enum tp_format format, const struct tp_result *res, unsigned n)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	struct tp_report rep;

	tp_report_begin(&rep, f, format, &about);
	for (unsigned i = 0; i < n; i++)
		tp_report_row(&rep, &res[i]);
	tp_report_end(&rep);
	fclose(f);
	return text;
}

static void test_what_spoils_a_figure_stands_behind_it(void **state)
{
	struct tp_result res = result(TP_WRITE_BW, 1000);
	char *text;

	(void)state;
	res.counts = (struct tp_counts){ .known = true, .mtu = 1500, .crc = "on" };
	res.mine.counted = res.peer.counted = 1;
	text = print(TP_TEXT, &res, 1);
	assert_non_null(strstr(text, " verified\n"));
	free(text);
	res.mine.again = 5;
	res.peer.again = 2;
	res.peer.dropped = 4;
	text = print(TP_TEXT, &res, 1);
	assert_non_null(strstr(text, " verified, 7 segments sent again, 4 frames dropped\n"));
	assert_non_null(strstr(text, "peer cpu/msg cpu s/GB"));
	free(text);
	text = print(TP_JSON, &res, 1);
	assert_non_null(strstr(text, "\"mtu\": 1500, \"crc\": \"on\", \"retransmits\": 7, \"drops\": 4 }"));
	free(text);
	res.peer.counted = 0; /* counters of one end alone are not reported */
	text = print(TP_CSV, &res, 1);
	assert_non_null(strstr(text, ",mtu,crc,retransmits,drops\n"));
	assert_non_null(strstr(text, ",1500,on,,\n"));
	free(text);
}

static void test_a_failure_ends_the_document(void **state)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	struct tp_report rep;

	(void)state;
	tp_report_begin(&rep, f, TP_JSON, &about);
	tp_report_fail(&rep, "nobody \"there\"");
	tp_report_end(&rep);
	fclose(f);
	assert_non_null(strstr(text, "\"results\": [\n  ],\n  \"error\": \"nobody \\\"there\\\"\"\n}\n"));
	free(text);
}

static void test_rates(void **state)
{
	struct tp_result res = result(TP_WRITE_BW, 1000);
	struct tp_rates r;

	(void)state;
	tp_rates_make(&r, &res);
	assert_true(r.gbytes > 0.4999 && r.gbytes < 0.5001);
	assert_true(r.gbits > 3.999 && r.gbits < 4.001);
	assert_true(r.mmsgs > 0.4999 && r.mmsgs < 0.5001);
	assert_true(r.cpu_ns_per_msg > 999 && r.cpu_ns_per_msg < 1001);
	assert_true(r.cpu_s_per_gb > 0.999 && r.cpu_s_per_gb < 1.001);
	assert_true(r.peer_cpu_s_per_gb > 0.499 && r.peer_cpu_s_per_gb < 0.501);
	res.point.bidir = true;
	tp_rates_make(&r, &res);
	assert_true(r.gbytes > 0.999 && r.gbytes < 1.001);
	assert_true(r.mmsgs > 0.999 && r.mmsgs < 1.001);
	memset(&res.mine, 0, sizeof(res.mine));
	memset(&res.peer, 0, sizeof(res.peer));
	tp_rates_make(&r, &res);
	assert_true(r.gbytes == 0 && r.cpu_ns_per_msg == 0 && r.cpu_s_per_gb == 0);
}

static void test_rates_of_datagrams_are_of_what_arrives(void **state)
{
	struct tp_result res = result(TP_WRITE_BW, 1000);
	struct tp_rates r;
	char *text;

	(void)state;
	res.point.qp_type = TP_QP_UD;
	res.point.loss = 10000;
	res.mine.sent = 2000000;
	res.mine.sent_bytes = 2000000000;
	res.peer.arrived = 1000000;
	res.peer.partial = 900000;
	res.peer.valid = 1900000000;
	tp_rates_make(&r, &res);
	assert_true(r.gbytes > 0.4749 && r.gbytes < 0.4751);
	assert_true(r.mmsgs > 0.2499 && r.mmsgs < 0.2501);
	text = print(TP_JSON, &res, 1);
	assert_non_null(strstr(text, "\"qp_type\": \"ud\", \"loss_percent\": 1, \"sent\": 2000000, "
				     "\"sent_bytes\": 2000000000, \"arrived\": 1000000, \"partial\": 900000, "
				     "\"valid_bytes\": 1900000000,"));
	free(text);
	text = print(TP_TEXT, &res, 1);
	assert_non_null(strstr(text, "\nunreliable datagrams"));
	assert_non_null(strstr(text, "loses 1 % of its frames"));
	assert_non_null(strstr(text, "95% verified"));
	free(text);
	res.point.qp_type = TP_QP_RD; /* reliable datagrams lose no messages */
	tp_rates_make(&r, &res);
	assert_true(r.gbytes > 0.4999 && r.gbytes < 0.5001);
}

static void test_a_table_begins_with_each_loss(void **state)
{
	struct tp_result res[3] = { result(TP_WRITE_BW, 1000), result(TP_WRITE_BW, 1000), result(TP_WRITE_BW, 64) };
	unsigned heads = 0;
	char *text;

	(void)state;
	res[1].point.loss = res[2].point.loss = 500;
	text = print(TP_TEXT, res, 3);
	for (char *p = text; (p = strstr(p, " size ")) != NULL; p++)
		heads++;
	assert_int_equal(heads, 2);
	assert_non_null(strstr(text, "loses 0.05 % of its frames"));
	free(text);
}

static void test_durations(void **state)
{
	char buf[24];

	(void)state;
	tp_format_ns(999, buf, sizeof(buf));
	assert_string_equal(buf, "999ns");
	tp_format_ns(2350, buf, sizeof(buf));
	assert_string_equal(buf, "2.35us");
	tp_format_ns(1200000, buf, sizeof(buf));
	assert_string_equal(buf, "1.20ms");
	tp_format_ns(3100000000, buf, sizeof(buf));
	assert_string_equal(buf, "3.10s");
}

static void test_text_table(void **state)
{
	struct tp_result res[3] = { result(TP_WRITE_BW, 1000), result(TP_WRITE_BW, 65536), result(TP_WRITE_LAT, 8) };
	char *text = print(TP_TEXT, res, 3);
	unsigned heads = 0;
	size_t width = 0;

	(void)state;
	assert_non_null(strstr(text, "write_bw: 2 queue pairs, 128 outstanding"));
	assert_non_null(strstr(text, "64k"));
	assert_non_null(strstr(text, "2.35us"));
	assert_non_null(strstr(text, "verified"));
	for (char *p = text; (p = strstr(p, " size ")) != NULL; p++)
		heads++;
	assert_int_equal(heads, 2);
	/* Columns are aligned: all lines of the first table have the same length. */
	strtok(text, "\n");
	for (int i = 0; i < 3; i++) {
		char *line = strtok(NULL, "\n");

		assert_non_null(line);
		if (width == 0)
			width = strlen(line);
		assert_int_equal(strlen(line), width);
	}
	free(text);
}

static void test_wrong_data_is_loud(void **state)
{
	struct tp_result res = result(TP_SOAK, 1000);
	char *text;

	(void)state;
	res.peer.wrong = 1;
	text = print(TP_TEXT, &res, 1);
	assert_non_null(strstr(text, "WRONG"));
	free(text);
}

static unsigned count(const char *s, char c)
{
	unsigned n = 0;

	for (; *s != '\0'; s++)
		n += *s == c;
	return n;
}

static void test_csv(void **state)
{
	struct tp_result res[2] = { result(TP_READ_BW, 1000), result(TP_READ_LAT, 8) };
	char *text = print(TP_CSV, res, 2), *head, *row, *last;

	(void)state;
	head = strtok(text, "\n");
	row = strtok(NULL, "\n");
	last = strtok(NULL, "\n");
	assert_null(strtok(NULL, "\n"));
	assert_int_equal(strncmp(head, "mode,size,qps,", 14), 0);
	assert_int_equal(strncmp(row, "read_bw,1000,2,128,16,16,1,0,0,1000000,1000000000,2000000000,0.5,4,0.5,", 71),
			 0);
	assert_int_equal(strncmp(last, "read_lat,8,", 11), 0);
	assert_int_equal(count(head, ','), count(row, ','));
	assert_int_equal(count(head, ','), count(last, ','));
	free(text);
}

static void test_json(void **state)
{
	struct tp_result res[2] = { result(TP_SEND_BW, 1000), result(TP_SEND_LAT, 8) };
	char *text = print(TP_JSON, res, 2);

	(void)state;
	assert_int_equal(text[0], '{');
	assert_int_equal(count(text, '{'), 3);
	assert_int_equal(count(text, '{'), count(text, '}'));
	assert_int_equal(count(text, '['), count(text, ']'));
	assert_int_equal(count(text, '"') % 2, 0);
	assert_non_null(strstr(text, "{\n  \"schema\": 1,\n"));
	assert_non_null(strstr(text, "\"version\": \"1.2.3 (commit 0123456789ab)\",\n"));
	assert_non_null(strstr(text, "\"host\": \"a \\\"b\\\" \\\\ c \",\n  \"cpu\": \"\",\n"));
	assert_non_null(strstr(text, "\"mode\": \"send_bw\""));
	assert_non_null(strstr(text, "\"gbytes_per_s\": 0.5,"));
	assert_non_null(strstr(text, "\"bidir\": false"));
	assert_non_null(strstr(text, "\"lat_p999_ns\": 1200000,"));
	assert_non_null(strstr(text, "\"commit\": \"0123456789ab\",\n"));
	assert_non_null(strstr(text, "\"device\": \"rnic0\", \"active_mtu\": 4096, \"mtu\": null, \"crc\": \"\", "
				     "\"retransmits\": null, \"drops\": null }"));
	assert_non_null(strstr(text, "],\n  \"error\": null\n}\n"));
	assert_null(strstr(text, ", }"));
	assert_non_null(strstr(text, "},\n"));
	free(text);
	text = print(TP_JSON, NULL, 0);
	assert_non_null(strstr(text, "\"results\": ["));
	assert_int_equal(count(text, '{'), count(text, '}'));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rates),
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_text_table),
		cmocka_unit_test(test_wrong_data_is_loud),
		cmocka_unit_test(test_csv),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_rates_of_datagrams_are_of_what_arrives),
		cmocka_unit_test(test_a_table_begins_with_each_loss),
		cmocka_unit_test(test_what_spoils_a_figure_stands_behind_it),
		cmocka_unit_test(test_a_failure_ends_the_document),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
