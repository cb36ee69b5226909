/* SPDX-License-Identifier: BSD-3-Clause */
#include "rnic/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/rn_base.h"
#include "rnic/cancel.h"

#define COMPLAINTS_MAX 10
#define LINE_MAX_LEN   512u

/* Prints `len` bytes of line and a newline. */
static void print(char line[LINE_MAX_LEN], int len)
{
	if (len < 0)
		return;
	uint32_t n = rn_min_u32((uint32_t)len, LINE_MAX_LEN - 2);

	line[n] = '\n';
	const int cancel = rnic_cancel_off();
	ssize_t done = write(STDERR_FILENO, line, (size_t)n + 1);
	rnic_cancel_back(cancel);
	(void)done;
}

/* ---- refusals ---- */

/* True: print the line. Each line is printed once, and at most COMPLAINTS_MAX different lines. */
static bool first_time(const char *line)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static uint64_t said[COMPLAINTS_MAX];
	static uint32_t n;
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
	bool due;

	for (const char *p = line; *p != '\0'; p++)
		hash = (hash ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
	pthread_mutex_lock(&lock);
	due = n < COMPLAINTS_MAX;
	for (uint32_t i = 0; due && i < n; i++)
		due = said[i] != hash;
	if (due)
		said[n++] = hash;
	pthread_mutex_unlock(&lock);
	return due;
}

void rnic_complain(const char *fmt, ...)
{
	const char *verbose = getenv("RNIC_REG_VERBOSE");
	char line[LINE_MAX_LEN] = "";
	va_list ap;

	if (verbose != NULL && verbose[0] == '0')
		return;
	va_start(ap, fmt);
	int len = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (verbose != NULL || first_time(line))
		print(line, len);
}

void rnic_report(const char *fmt, ...)
{
	char line[LINE_MAX_LEN] = "";
	va_list ap;

	va_start(ap, fmt);
	int len = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	print(line, len);
}

/* ---- failures ---- */

bool rnic_verbose(void)
{
	enum { UNKNOWN, QUIET, VERBOSE };
	static int is; /* atomic, relaxed: every thread computes the same value */
	int now = __atomic_load_n(&is, __ATOMIC_RELAXED);

	if (now == UNKNOWN) {
		const char *v = getenv("RNIC_VERBOSE");
		now = v != NULL && v[0] != '\0' && v[0] != '0' ? VERBOSE : QUIET;
		__atomic_store_n(&is, now, __ATOMIC_RELAXED);
	}
	return now == VERBOSE;
}

bool rnic_tell_due(struct rnic_tell_limit *l, uint64_t now, uint32_t *lost)
{
	if (l->n == 0 || now - l->since >= RN_NS_PER_S) {
		l->since = now;
		l->n = 0;
	}
	if (l->n == RNIC_TELL_MOST) {
		l->lost++;
		return false;
	}
	l->n++;
	*lost = l->lost;
	l->lost = 0;
	return true;
}

void rnic_tell(const char *fmt, ...)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct rnic_tell_limit limit;
	char line[LINE_MAX_LEN] = "";
	struct timespec t;
	uint32_t lost;
	va_list ap;

	clock_gettime(CLOCK_MONOTONIC, &t);
	pthread_mutex_lock(&lock);
	bool due = rnic_tell_due(&limit, (uint64_t)t.tv_sec * RN_NS_PER_S + (uint64_t)t.tv_nsec, &lost);
	pthread_mutex_unlock(&lock);
	if (!due)
		return;
	if (lost > 0)
		print(line, snprintf(line, sizeof(line), "rnic: %u failures more were not printed", lost));
	va_start(ap, fmt);
	int len = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	print(line, len);
}
