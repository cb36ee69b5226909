/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line that DPDK's EAL is given, from rnicd.cfg. Control thread, before the start. */
#ifndef RNICD_EAL_ARGS_H
#define RNICD_EAL_ARGS_H

#include "border/rnicd.h"

#define EAL_ARGS_MAX (24u + RNICD_MAX_LINES)
#define EAL_ARG_LEN  512u

struct eal_args {
	int n;
	char text[EAL_ARGS_MAX][EAL_ARG_LEN];
	char *v[EAL_ARGS_MAX + 1]; /* into text; NULL behind the last */
};

/* a is zero; it must live as long as EAL, which keeps pointers into it. */
void eal_args(struct eal_args *a);

#endif
