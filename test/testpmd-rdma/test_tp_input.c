/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines typed at the prompt, and signals between them. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "tp_input.h"

static struct tp_input in;
static char line[sizeof(in.buf)];
static int to;

static int begin(void **state)
{
	int p[2];

	(void)state;
	if (pipe(p) != 0)
		return -1;
	to = p[1];
	in = (struct tp_input){ .fd = p[0], .signal = eventfd(0, EFD_NONBLOCK) };
	return 0;
}

static int end(void **state)
{
	(void)state;
	close(in.fd);
	close(in.signal);
	return to >= 0 ? close(to) : 0;
}

static void say(const char *s) { assert_int_equal(write(to, s, strlen(s)), strlen(s)); }

static void hear(const char *s)
{
	assert_int_equal(tp_input_line(&in, line), TP_IN_LINE);
	assert_string_equal(line, s);
}

static void end_of_input(void)
{
	close(to);
	to = -1;
}

static void lines_come_one_by_one_however_they_are_written(void **state)
{
	(void)state;
	say("start\nstop\n\nsh");
	hear("start");
	hear("stop");
	hear("");
	say("ow stats\nquit");
	hear("show stats");
	end_of_input();
	hear("quit");
	assert_int_equal(tp_input_line(&in, line), TP_IN_END);
	assert_int_equal(tp_input_line(&in, line), TP_IN_END);
}

static void a_line_too_long_comes_in_parts(void **state)
{
	char x[1500];

	(void)state;
	memset(x, 'x', sizeof(x));
	assert_int_equal(write(to, x, sizeof(x)), sizeof(x));
	say("\n");
	assert_int_equal(tp_input_line(&in, line), TP_IN_LINE);
	assert_int_equal(strlen(line), sizeof(in.buf) - 1);
	assert_int_equal(tp_input_line(&in, line), TP_IN_LINE);
	assert_int_equal(strlen(line), sizeof(x) - sizeof(in.buf) + 1);
}

static void handler(int sig)
{
	(void)sig;
	eventfd_write(in.signal, 1);
}

/* Without the eventfd the wait for a line would begin after the signal, and never end. */
static void a_signal_before_the_wait_is_not_lost(void **state)
{
	(void)state;
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	assert_int_equal(tp_input_line(&in, line), TP_IN_SIGNAL);
	say("stop\n");
	hear("stop"); /* a signal is reported once */
	raise(SIGUSR1);
	say("a\n");
	/* the signal is reported before a line that has not been read yet */
	assert_int_equal(tp_input_line(&in, line), TP_IN_SIGNAL);
	hear("a");
	signal(SIGUSR1, SIG_DFL);
}

static void the_end_of_a_run_and_a_signal_are_told_apart(void **state)
{
	int done = eventfd(0, EFD_NONBLOCK);

	(void)state;
	eventfd_write(done, 1);
	assert_false(tp_input_signal(&in, done));
	eventfd_write(in.signal, 1);
	assert_true(tp_input_signal(&in, done));
	assert_false(tp_input_signal(&in, done));
	close(done);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		T(lines_come_one_by_one_however_they_are_written),
		T(a_line_too_long_comes_in_parts),
		T(a_signal_before_the_wait_is_not_lost),
		T(the_end_of_a_run_and_a_signal_are_told_apart),
	};
	return cmocka_run_group_tests_name("tp_input", tests, NULL, NULL);
}
