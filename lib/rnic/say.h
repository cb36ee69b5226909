/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What librnic prints on stderr: refusals, which are few but repeat, and failures, which may be many and are printed if
 * RNIC_VERBOSE asks for them. Each line is one write(), so that the lines of several processes do not mix. The
 * functions may be called from any thread.
 */
#ifndef RNIC_SAY_H
#define RNIC_SAY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Prints a refusal, and what to do about it. Each line is printed once, and at most ten different ones in a process;
 * RNIC_REG_VERBOSE=0 prints none, RNIC_REG_VERBOSE=1 all.
 */
void rnic_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Always prints: for findings and failures that the user has asked for with rnicrun --sanitize or --inject. */
void rnic_report(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Whether RNIC_VERBOSE asks for a line on stderr about each failure that the program learns by status or event. */
bool rnic_verbose(void);

/* Prints a failure, at most ten lines a second. A line that comes later says how many were not printed. */
void rnic_tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define RNIC_TELL_MOST 10u

/* n: lines printed in the present second; lost: lines that were not printed. */
struct rnic_tell_limit {
	uint64_t since; /* ns */
	uint32_t n, lost;
};

/*
 * Whether a line may be printed at the time `now`, in ns of any clock. *lost: lines that were not printed before this
 * one.
 */
bool rnic_tell_due(struct rnic_tell_limit *l, uint64_t now, uint32_t *lost);

#endif
