/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What limits the connections of a running daemon now: two looks at its counters, and a sentence with its figure for
 * each cause that is seen between them, the weightiest first.
 */
#ifndef EXPLAIN_H
#define EXPLAIN_H

#include "daemon.h"

/* seconds: between the two looks. Returns the exit status. */
int explain_now(struct daemon *d, double seconds, bool json);

#endif
