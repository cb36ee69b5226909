/* SPDX-License-Identifier: BSD-3-Clause */
/* Local ports of connections: which one comes next. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "control/cm.h"

#define FIRST 32768u
#define LAST  60999u

struct rnicd rnicd;

static struct rnicd_port_cfg cfg;
static struct rnicd_port port = { .cfg = &cfg };

static void each_port_comes_once_before_one_comes_again(void **state)
{
	static bool seen[LAST + 1];

	(void)state;
	for (uint32_t i = FIRST; i <= LAST; i++) {
		const uint16_t p = cm_port_next(0);
		assert_in_range(p, FIRST, LAST);
		assert_false(seen[p]);
		seen[p] = true;
	}
	assert_true(seen[cm_port_next(0)]);
}

static void taken_ports_are_passed_over(void **state)
{
	const uint16_t lone = 40000;

	(void)state;
	for (uint32_t p = FIRST; p <= LAST; p++)
		assert_true(p == lone || cm_port_take(0, cm_family_of(0), (uint16_t)p));
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(cm_port_next(0), lone);
	assert_true(cm_port_take(0, cm_family_of(0), lone));
	assert_int_equal(cm_port_next(0), 0);
}

/* ---- ports that the kernel chooses ---- */

#define USED 50000u /* an id of this process has the port, and the kernel does not know */

static uint16_t offers;
static uint32_t released;
static int why;

static uint16_t hold(uint32_t devs)
{
	assert_int_equal(devs, 1);
	errno = why;
	return why != 0 ? 0 : offers++;
}

static void release(uint32_t devs, uint16_t p)
{
	assert_int_equal(devs, 1);
	released = p;
}

static void what_the_kernel_chooses_is_no_port_of_another_id(void **state)
{
	const uint8_t family = cm_family_of(0);

	(void)state;
	cm_port_share(hold, release);
	assert_true(cm_port_take(0, family, USED));
	offers = USED;
	assert_int_equal(cm_port_any(0, family), USED + 1);
	assert_int_equal(released, USED);
	cm_port_give(0, family, USED + 1);
	assert_int_equal(released, USED + 1);
	why = EADDRINUSE;
	assert_int_equal(cm_port_any(0, family), 0);
	why = EMFILE; /* the port is chosen without a descriptor */
	const uint16_t p = cm_port_any(0, family);
	assert_in_range(p, FIRST, LAST);
	why = 0;
	cm_port_give(0, family, p);
	cm_port_give(0, family, USED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_port_comes_once_before_one_comes_again),
		cmocka_unit_test(what_the_kernel_chooses_is_no_port_of_another_id),
		cmocka_unit_test(taken_ports_are_passed_over),
	};

	rnicd.n_ports = 1;
	rnicd.port[0] = &port;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
