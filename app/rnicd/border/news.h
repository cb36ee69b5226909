/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recent events, for rnicctl events: lines of the log, connections, clients. The last NEWS_KEPT are kept; older ones
 * are overwritten. Any thread.
 */
#ifndef NEWS_H
#define NEWS_H

#include <stdbool.h>
#include <stdint.h>

#define NEWS_KEPT 512u
#define NEWS_TEXT 480u /* bytes with the final NUL; a longer text is cut */

enum news_kind { NEWS_ERROR, NEWS_WARNING, NEWS_INFO, NEWS_DEBUG, NEWS_CONNECTION, NEWS_CLIENT, NEWS_KINDS };

struct news {
	uint64_t number; /* counted from 1 since the daemon's start */
	uint64_t when;   /* ns since 1970 */
	enum news_kind kind;
	char text[NEWS_TEXT];
};

/* The kind's name as rnicctl shows it. */
const char *news_kind_text(enum news_kind kind);

void news_add(enum news_kind kind, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Finds the oldest event that is still kept and has at least this number. False: there is none yet. */
bool news_get(uint64_t number, struct news *out);

/* The number of the next event. */
uint64_t news_next(void);

#endif
