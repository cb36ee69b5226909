/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_err.h"

#include <stdio.h>

enum tp_verdict tp_fail(struct tp_err *err, enum tp_verdict v, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return v;
}
