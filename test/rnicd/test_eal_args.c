/* SPDX-License-Identifier: BSD-3-Clause */
/* Which devices of the machine DPDK is allowed to touch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "plane/eal_args.h"

static struct eal_args made(void)
{
	static struct eal_args a;

	memset(&a, 0, sizeof(a));
	eal_args(&a);
	assert_true(a.n > 0 && (uint32_t)a.n < EAL_ARGS_MAX);
	assert_null(a.v[a.n]);
	return a;
}

static unsigned count(const struct eal_args *a, const char *begins)
{
	unsigned n = 0;

	for (int i = 0; i < a->n; i++)
		n += strncmp(a->text[i], begins, strlen(begins)) == 0;
	return n;
}

static void port(uint32_t i, enum rnicd_port_kind kind, const char *args)
{
	rnicd.cfg.port[i].kind = kind;
	strcpy(rnicd.cfg.port[i].args, args);
	rnicd.cfg.n_ports = i + 1;
}

static void no_device_is_probed_that_no_port_names(void **state)
{
	(void)state;
	rnicd.cfg.n_workers = 1;
	rnicd.cfg.control_cpu = UINT16_MAX;
	port(0, RNICD_PORT_TAP, "t0");
	struct eal_args a = made();
	assert_int_equal(count(&a, "--no-pci"), 1);
	assert_int_equal(count(&a, "--allow"), 0);

	port(1, RNICD_PORT_PCI, "0000:3b:00.0");
	port(2, RNICD_PORT_PCI, "0000:3b:00.1,x=1");
	a = made();
	assert_int_equal(count(&a, "--no-pci"), 0);
	assert_int_equal(count(&a, "--allow"), 2);
	assert_int_equal(count(&a, "--allow=0000:3b:00.0"), 1);
	assert_int_equal(count(&a, "--allow=0000:3b:00.1,x=1"), 1);
}

static void sixteen_ports_do_not_overflow_the_arguments(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RNICD_MAX_PORTS; i++)
		port(i, RNICD_PORT_PCI, "0000:3b:00.0");
	rnicd.cfg.control_cpu = 0;
	strcpy(rnicd.cfg.file_prefix, "p");
	struct eal_args a = made();
	assert_int_equal(count(&a, "--allow"), RNICD_MAX_PORTS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_device_is_probed_that_no_port_names),
		cmocka_unit_test(sixteen_ports_do_not_overflow_the_arguments),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
