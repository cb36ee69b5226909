/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds what limits the connections of a running daemon now: reads the counters twice, and prints a sentence with a
 * figure for each cause that shows between the readings, the heaviest first.
 */
#ifndef EXPLAIN_H
#define EXPLAIN_H

#include "daemon.h"

/* seconds: time between the two readings. Returns the exit status. */
int explain_now(struct daemon *d, double seconds, bool json);

#endif
