/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ISO_RUN_H
#define ISO_RUN_H

#include "filter.h"

/* One run, as the options describe it. */
struct run {
	struct job job;
	const struct hub_ops *ops;
	struct hub_cfg hub;
	const char *output; /* path of the picture */
	bool check, json;
};

/* Runs process r->hub.me. Returns its exit status. */
int run_rank(struct run *r);

#endif
