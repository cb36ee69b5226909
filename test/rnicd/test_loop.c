/* SPDX-License-Identifier: BSD-3-Clause */
/* The control thread's loop (loop.c). The test plays the clock and the workers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "border/event.h"
#include "border/rnicd.h"
#include "control/loop.h"

#define TIMERS 1000u
#define EACH   256u /* that one turn handles */

/* ---- functions that the file under test calls ---- */

struct rnicd rnicd;
static uint64_t now = RN_NS_PER_S;
uint64_t rnicd_now(void) { return now; }
bool event_prepare_sleep(void) { return true; }
void event_awake(void) {}

static int slept; /* ms that the last sleep may last */
int __real_epoll_wait(int ep, struct epoll_event *e, int n, int ms);
int __wrap_epoll_wait(int ep, struct epoll_event *e, int n, int ms);
int __wrap_epoll_wait(int ep, struct epoll_event *e, int n, int ms)
{
	slept = ms;
	return __real_epoll_wait(ep, e, n, 0);
}

/* ---- tests ---- */

static uint32_t due, due_before, turns, served;
static void on_due(struct loop_timer *t)
{
	(void)t;
	due++;
}
static void on_ready(struct loop_fd *f, uint32_t events)
{
	(void)f;
	(void)events;
	served++;
}

static bool all_due(void) { return due == TIMERS; }
static uint32_t collect(void) { return 0; }
static void turn_end(void)
{
	turns++;
	assert_true(due - due_before <= EACH);
	assert_int_equal(served, turns); /* a descriptor does not wait until all timers have been handled */
	due_before = due;
}

static void many_due_timers_leave_each_turn_to_others(void **state)
{
	static struct loop_timer timer[TIMERS];
	static const struct loop_hooks hooks = { .until = all_due, .collect = collect, .turn_end = turn_end };
	struct loop_fd f = { .ready = on_ready };
	const int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);

	(void)state;
	rnicd.control_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(fd >= 0 && rnicd.control_fd >= 0);
	assert_true(loop_start());
	assert_true(loop_add(&f, fd, EPOLLIN));
	for (uint32_t i = 0; i < TIMERS; i++) {
		timer[i].due = on_due;
		loop_timer_arm(&timer[i], now + RN_NS_PER_MS);
	}
	now += 2 * RN_NS_PER_MS;
	loop_run(&hooks);
	assert_int_equal(turns, (TIMERS + EACH - 1) / EACH);
	assert_int_equal(slept, 0); /* timers were left */
	loop_del(&f);
	loop_stop();
	close(fd);
	close(rnicd.control_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(many_due_timers_leave_each_turn_to_others) };

	return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
