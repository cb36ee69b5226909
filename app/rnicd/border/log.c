/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes log lines to stderr. When too many come at once, further lines except errors are dropped and counted. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "border/news.h"
#include "border/rnicd.h"

#define BURST    40u                /* lines that may come at once */
#define PER_LINE (RN_NS_PER_S / 10) /* after a burst: ten lines a second */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t credit_until; /* the time up to which lines have used up the credit (token bucket); under lock */
static uint32_t cut;          /* lines dropped since the last line that was written */

static uint64_t clock_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * RN_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* Whether a line of this level is written. Errors always are: there are few, as each of them ends something. */
static bool may_write(enum rnicd_log_level level)
{
	uint64_t now = clock_now();

	if (level == RNICD_LOG_ERROR)
		return true;
	if (credit_until + BURST * PER_LINE < now)
		credit_until = now - BURST * PER_LINE;
	if (credit_until + PER_LINE > now) {
		cut++;
		return false;
	}
	credit_until += PER_LINE;
	return true;
}

void rnicd_log(enum rnicd_log_level level, const char *fmt, ...)
{
	static const char *const name[] = { "error: ", "warning: ", "", "debug: " };
	static const enum news_kind kind[] = { NEWS_ERROR, NEWS_WARNING, NEWS_INFO, NEWS_DEBUG };
	char line[1024];
	int text;
	va_list ap;
	int n;

	if ((uint32_t)level > rnicd.cfg.log_level)
		return;
	pthread_mutex_lock(&lock);
	if (may_write(level)) {
		n = text = snprintf(line, sizeof(line), "rnicd: %s", name[level]);
		va_start(ap, fmt);
		n += vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
		va_end(ap);
		if (n > (int)sizeof(line) - 48)
			n = (int)sizeof(line) - 48;
		if (cut > 0)
			n += snprintf(line + n, sizeof(line) - (size_t)n, " (%u lines before this were cut)", cut);
		cut = 0;
		news_add(kind[level], "%s", line + text);
		line[n] = '\n';
		ssize_t done = write(STDERR_FILENO, line, (size_t)n + 1);
		(void)done; /* an error on stderr cannot be reported anywhere */
	}
	pthread_mutex_unlock(&lock);
}
