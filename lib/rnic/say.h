/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What librnic prints on stderr: refusals, which are few and repeat, and failures that RNIC_VERBOSE asks for, which may
 * be many. Each line is one write(), so that the lines of several processes do not mix. Any thread.
 */
#ifndef RNIC_SAY_H
#define RNIC_SAY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A refusal, and what to do about it. Each line is printed once, and at most ten different ones in a process;
 * RNIC_REG_VERBOSE=0 prints none, RNIC_REG_VERBOSE=1 all.
 */
void rnic_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* What the user has asked for by rnicrun --inject or --sanitize: printed always. */
void rnic_report(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Whether RNIC_VERBOSE asks for a line on stderr for each failure that the program is told of by status or event. */
bool rnic_verbose(void);

/* Tells a failure. Ten lines a second are printed; the first line of a later second says how many were not. */
void rnic_tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define RNIC_TELL_MOST 10u

/* Lines of the present second, and those that were too many. */
struct rnic_tell_limit {
	uint64_t since; /* ns */
	uint32_t n, lost;
};

/* A line is due at that time, in ns of any clock. *lost: lines that were not printed before this one. */
bool rnic_tell_due(struct rnic_tell_limit *l, uint64_t now, uint32_t *lost);

#endif
