/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_prompt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static struct tp_command cmd;
static struct tp_err err;

static enum tp_verb verb(const char *line)
{
	assert_int_equal(tp_prompt_parse(line, &cmd, &err), TP_OK);
	return cmd.verb;
}

static void refuse(const char *line, const char *why)
{
	assert_int_equal(tp_prompt_parse(line, &cmd, &err), TP_BAD_OPTION);
	assert_non_null(strstr(err.text, why));
}

static void test_words(void **state)
{
	(void)state;
	assert_int_equal(verb("start\n"), TP_CMD_START);
	assert_int_equal(verb("  stop  \r\n"), TP_CMD_STOP);
	assert_int_equal(verb("show stats"), TP_CMD_SHOW_STATS);
	assert_int_equal(verb("show\tconfig"), TP_CMD_SHOW_CONFIG);
	assert_int_equal(verb("clear stats"), TP_CMD_CLEAR_STATS);
	assert_int_equal(verb("wait"), TP_CMD_WAIT);
	assert_int_equal(verb("help"), TP_CMD_HELP);
	assert_int_equal(verb("quit"), TP_CMD_QUIT);
	assert_int_equal(verb("exit"), TP_CMD_QUIT);
	assert_int_equal(verb(""), TP_CMD_EMPTY);
	assert_int_equal(verb("   # nothing but a remark"), TP_CMD_EMPTY);
	assert_int_equal(verb("start # now"), TP_CMD_START);
}

static void test_shortened(void **state)
{
	(void)state;
	assert_int_equal(verb("q"), TP_CMD_QUIT);
	assert_int_equal(verb("sh s"), TP_CMD_SHOW_STATS);
	assert_int_equal(verb("sh c"), TP_CMD_SHOW_CONFIG);
	assert_int_equal(verb("sta"), TP_CMD_START);
	assert_int_equal(verb("sto"), TP_CMD_STOP);
	refuse("s", "several commands");
	refuse("st", "several commands");
}

static void test_set(void **state)
{
	(void)state;
	assert_int_equal(verb("set size 64k\n"), TP_CMD_SET);
	assert_string_equal(cmd.key, "size");
	assert_string_equal(cmd.value, "64k");
	assert_int_equal(verb("set mode=write_lat"), TP_CMD_SET);
	assert_string_equal(cmd.key, "mode");
	assert_string_equal(cmd.value, "write_lat");
	assert_int_equal(verb("set bidir"), TP_CMD_SET);
	assert_string_equal(cmd.value, "");
	refuse("set", "set what");
	refuse("set size 4 8", "one word too many");
}

static void test_mistakes(void **state)
{
	char line[2000];

	(void)state;
	refuse("launch", "unknown command");
	refuse("show", "show what");
	refuse("show nothing", "show what");
	refuse("start now", "one word too many");
	refuse("show stats all", "one word too many");
	memset(line, 'a', sizeof(line));
	line[sizeof(line) - 1] = '\0';
	refuse(line, "too long");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_shortened),
		cmocka_unit_test(test_set),
		cmocka_unit_test(test_mistakes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
