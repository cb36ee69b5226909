/* SPDX-License-Identifier: BSD-3-Clause */
/* All the runs that the options ask for, one after another, and the progress line. */
#ifndef TP_SWEEP_H
#define TP_SWEEP_H

#include "tp_client.h"

#include <pthread.h>

/* Results that the prompt keeps; the lock guards everything. */
struct tp_results {
	pthread_mutex_t lock;
	struct tp_result *list;
	unsigned n, room;
	struct tp_point running; /* valid while progress says that something runs */
};

struct tp_sweep_sum {
	unsigned runs, failed, wrong;
};

/* Where the results of a sweep go. */
struct tp_sweep_to {
	struct tp_report *rep;
	struct tp_results *keep; /* or NULL */
	bool progress_line;      /* shows a line on stderr while a run lasts longer than a second */
};

/* Runs all points of the options, and passes on each result when it comes. A failure is printed and ends the sweep. */
struct tp_sweep_sum tp_sweep(const struct tp_opts *o, const struct tp_client_env *env, const struct tp_sweep_to *to);

/* "write_bw 64k: 3.1 of 10.0 s, 1.234 GB/s, 0.0188 Mmsg/s"; false when nothing runs. */
bool tp_progress_format(const struct tp_progress *g, const struct tp_point *p, uint64_t now, char *buf, size_t len);

#endif
