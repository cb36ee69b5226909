/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "iwarp/iw_remedy.h"

static void each_remedy_belongs_to_an_error_that_an_rfc_names(void **state)
{
	struct iw_err e;
	uint32_t n = 0;

	(void)state;
	while (iw_remedy_at(n, &e)) {
		assert_true(iw_err_known(e));
		assert_non_null(iw_err_remedy(e));
		n++;
	}
	assert_true(n > 0);
}

static void no_error_has_two_remedies(void **state)
{
	struct iw_err e, f;

	(void)state;
	for (uint32_t i = 0; iw_remedy_at(i, &e); i++)
		for (uint32_t k = 0; k < i && iw_remedy_at(k, &f); k++)
			assert_false(e.layer == f.layer && e.etype == f.etype && e.code == f.code);
}

static void an_error_that_no_rfc_names_has_no_remedy(void **state)
{
	(void)state;
	assert_null(iw_err_remedy((struct iw_err){ .layer = 7, .etype = 7, .code = 7 }));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_remedy_belongs_to_an_error_that_an_rfc_names),
		cmocka_unit_test(no_error_has_two_remedies),
		cmocka_unit_test(an_error_that_no_rfc_names_has_no_remedy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
