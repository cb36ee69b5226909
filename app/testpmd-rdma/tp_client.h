/* SPDX-License-Identifier: BSD-3-Clause */
/* The client: one call, one run over fresh connections. */
#ifndef TP_CLIENT_H
#define TP_CLIENT_H

#include "tp_report.h"
#include "tp_session.h"

struct tp_client_env {
	const atomic_bool *stop;      /* set by another thread: end the run and report the results so far */
	struct tp_progress *progress; /* may be NULL */
};

/* Connect, run, disconnect. res is complete on TP_OK; wrong data is TP_OK with figures and a sentence in err. */
enum tp_verdict tp_client_point(const struct tp_opts *o, const struct tp_point *p, const struct tp_client_env *env,
				struct tp_result *res, struct tp_err *err);

#endif
