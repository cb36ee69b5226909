/* SPDX-License-Identifier: BSD-3-Clause */
/* What librnic prints on stderr. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rn_base.h"
#include "rnic/say.h"

static void ten_failures_a_second_and_then_how_many_more(void **state)
{
	struct rnic_tell_limit l = { 0 };
	uint64_t now = 5;
	uint32_t lost;

	(void)state;
	for (uint32_t second = 0; second < 3; second++, now += RN_NS_PER_S) {
		for (uint32_t i = 0; i < RNIC_TELL_MOST; i++) {
			assert_true(rnic_tell_due(&l, now + i, &lost));
			assert_int_equal(lost, i == 0 && second > 0 ? 15 : 0);
		}
		for (uint32_t i = 0; i < 15; i++)
			assert_false(rnic_tell_due(&l, now + RN_NS_PER_S - 1, &lost));
	}
	assert_true(rnic_tell_due(&l, now + 100 * RN_NS_PER_S, &lost));
	assert_int_equal(lost, 15);
}

/* A few failures in any second are all printed, for any length of time. */
static void the_eleventh_failure_is_printed_when_it_comes_later(void **state)
{
	struct rnic_tell_limit l = { 0 };
	uint32_t lost;

	(void)state;
	for (uint64_t i = 0; i < 1000; i++) {
		assert_true(rnic_tell_due(&l, i * (RN_NS_PER_S / 8), &lost));
		assert_int_equal(lost, 0);
	}
}

/* What f() prints on stderr; to be freed by the caller. */
static char *printed(void (*f)(void))
{
	int fd = memfd_create("stderr", 0), real = dup(STDERR_FILENO);
	char *text = calloc(1, 65536);

	assert_true(fd >= 0 && real >= 0 && text != NULL && dup2(fd, STDERR_FILENO) >= 0);
	f();
	assert_true(dup2(real, STDERR_FILENO) >= 0 && pread(fd, text, 65535, 0) >= 0);
	close(fd);
	close(real);
	return text;
}

static uint32_t lines(const char *text)
{
	uint32_t n = 0;

	for (; (text = strchr(text, '\n')) != NULL; text++)
		n++;
	return n;
}

static void two_of_each(void)
{
	char long_one[2000];

	memset(long_one, 'x', sizeof(long_one) - 1);
	long_one[sizeof(long_one) - 1] = '\0';
	for (int i = 0; i < 2; i++) {
		rnic_complain("a refusal");
		rnic_tell("a failure");
		rnic_tell("%s", long_one);
	}
}

static void a_refusal_is_printed_once_and_a_failure_each_time(void **state)
{
	(void)state;
	unsetenv("RNIC_REG_VERBOSE");
	char *text = printed(two_of_each);
	assert_int_equal(lines(text), 5);
	assert_non_null(strstr(text, "a refusal\na failure\nxxx"));
	free(text);
}

static void what_silences_refusals_does_not_silence_failures(void **state)
{
	(void)state;
	setenv("RNIC_REG_VERBOSE", "0", 1);
	char *text = printed(two_of_each);
	assert_int_equal(lines(text), 4);
	assert_null(strstr(text, "refusal"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ten_failures_a_second_and_then_how_many_more),
		cmocka_unit_test(the_eleventh_failure_is_printed_when_it_comes_later),
		cmocka_unit_test(a_refusal_is_printed_once_and_a_failure_each_time),
		cmocka_unit_test(what_silences_refusals_does_not_silence_failures),
	};

	return cmocka_run_group_tests_name("say", tests, NULL, NULL);
}
