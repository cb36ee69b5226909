/* SPDX-License-Identifier: BSD-3-Clause */
/* In place of the control plane, for tests of the data plane alone: no effect is expected, messages go to stderr. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "border/cmd.h"

void cmd_sidr(struct rnicd_worker *w, const struct cmd_fx *fx)
{
	(void)w;
	(void)fx;
}

bool cmd_effects(struct rnicd_worker *w, struct qp_ctx *ctx)
{
	(void)w;
	if (ctx->n_fx != 0)
		abort();
	return true;
}

void rnicd_log(enum rnicd_log_level level, const char *fmt, ...)
{
	va_list ap;

	(void)level;
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}
