/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every number in rnicd's telemetry, with its unit and meaning: the table for `rnicctl counters`, the metrics and
 * doc/counters.md. A test compares the names with those of a running daemon, in both directions.
 */
#ifndef COUNTER_H
#define COUNTER_H

#include <stdbool.h>
#include <stdint.h>

enum counter_group {
	COUNTER_STACK,
	COUNTER_PORT,
	COUNTER_WORKER,
	COUNTER_CONN,
	COUNTER_FLOW,
	COUNTER_CLIENT,
	COUNTER_GROUPS
};

struct counter {
	enum counter_group group;
	bool gauge; /* goes up and down; false: only ever grows */
	const char *name, *unit, *meaning;
};

extern const struct counter counters[];
extern const uint32_t n_counters;

/* NULL: the table has no such number. */
const struct counter *counter_find(enum counter_group group, const char *name);

/* "stack", "port", ... */
const char *counter_group_name(enum counter_group group);

/* Writes the table to stdout as doc/counters.md has it, with the names that users may know (known.h). */
void counter_document(void);

#endif
