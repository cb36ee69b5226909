/* SPDX-License-Identifier: BSD-3-Clause */
#include "border/news.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/rn_base.h"

static pthread_mutex_t news_lock = PTHREAD_MUTEX_INITIALIZER;
static struct news kept[NEWS_KEPT]; /* by number % NEWS_KEPT */
static uint64_t last;               /* number of the newest event; 0: none yet */

const char *news_kind_text(enum news_kind kind)
{
	static const char *const text[NEWS_KINDS] = { "error", "warning", "info", "debug", "connection", "client" };

	return text[kind];
}

void news_add(enum news_kind kind, const char *fmt, ...)
{
	struct timespec t;
	va_list ap;

	clock_gettime(CLOCK_REALTIME, &t);
	pthread_mutex_lock(&news_lock);
	struct news *n = &kept[++last % NEWS_KEPT];
	n->number = last;
	n->when = (uint64_t)t.tv_sec * RN_NS_PER_S + (uint64_t)t.tv_nsec;
	n->kind = kind;
	va_start(ap, fmt);
	vsnprintf(n->text, sizeof(n->text), fmt, ap);
	va_end(ap);
	pthread_mutex_unlock(&news_lock);
}

bool news_get(uint64_t number, struct news *out)
{
	pthread_mutex_lock(&news_lock);
	const uint64_t oldest = last < NEWS_KEPT ? 1 : last - NEWS_KEPT + 1;
	const uint64_t n = rn_max_u64(number, oldest);
	const bool there = n <= last;
	if (there)
		*out = kept[n % NEWS_KEPT];
	pthread_mutex_unlock(&news_lock);
	return there;
}

uint64_t news_next(void)
{
	pthread_mutex_lock(&news_lock);
	const uint64_t n = last + 1;
	pthread_mutex_unlock(&news_lock);
	return n;
}
