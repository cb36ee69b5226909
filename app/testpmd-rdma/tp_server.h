/* SPDX-License-Identifier: BSD-3-Clause */
/* The server: listens, and gives every client's run a thread of its own. */
#ifndef TP_SERVER_H
#define TP_SERVER_H

#include "tp_opts.h"

#include <stdatomic.h>

/*
 * Returns when *stop is set, with --once after the first client's last run (its verdict; the sentence is printed), or
 * when it cannot listen or its device goes away. Prints one line per run on stdout unless quiet.
 */
enum tp_verdict tp_server(const struct tp_opts *o, const atomic_bool *stop, struct tp_err *err);

#endif
