/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses numbers with units. */
#include "tp_opts.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool tp_parse_size(const char *s, uint64_t max, uint64_t *out)
{
	static const char units[] = "kmg";
	char *end;
	uint64_t v;
	unsigned shift = 0;

	if (!isdigit((unsigned char)*s))
		return false;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno != 0)
		return false;
	if (*end != '\0') {
		const char *u = strchr(units, tolower((unsigned char)*end));

		if (u == NULL || end[1] != '\0')
			return false;
		shift = 10 * (unsigned)(u - units + 1);
	}
	if (v > max >> shift)
		return false;
	*out = v << shift;
	return true;
}

static bool list_add(uint64_t *list, unsigned *n, uint64_t v)
{
	if (*n == TP_MAX_LIST || v == 0)
		return false;
	list[(*n)++] = v;
	return true;
}

/* A number, or a range. */
static bool parse_word(char *w, uint64_t max, uint64_t *list, unsigned *n)
{
	char *dots = strstr(w, "..");
	uint64_t from, to;

	if (dots != NULL)
		*dots = '\0';
	if (!tp_parse_size(w, max, &from))
		return false;
	if (dots == NULL)
		return list_add(list, n, from);
	if (!tp_parse_size(dots + 2, max, &to) || from > to)
		return false;
	for (uint64_t v = from; v <= to; v *= 2)
		if (!list_add(list, n, v))
			return false;
	return true;
}

bool tp_parse_list(const char *s, uint64_t max, uint64_t list[TP_MAX_LIST], unsigned *n)
{
	char copy[512], *save = NULL;

	*n = 0;
	if (snprintf(copy, sizeof(copy), "%s", s) >= (int)sizeof(copy))
		return false;
	for (char *w = strtok_r(copy, ",", &save); w != NULL; w = strtok_r(NULL, ",", &save))
		if (!parse_word(w, max, list, n))
			return false;
	return *n > 0;
}

bool tp_parse_time(const char *s, uint64_t *ns)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = { { "", 1e9 }, { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "m", 60e9 }, { "h", 3600e9 } };
	char *end;
	double v;

	if (!isdigit((unsigned char)*s) && *s != '.')
		return false;
	v = strtod(s, &end);
	for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcasecmp(end, units[i].unit) != 0)
			continue;
		v *= units[i].ns;
		if (!(v >= 0 && v < 1e18))
			return false;
		*ns = (uint64_t)(v + 0.5);
		return true;
	}
	return false;
}

bool tp_parse_share(const char *s, uint32_t *ppm)
{
	char *end;
	double v;

	if (!isdigit((unsigned char)*s) && *s != '.')
		return false;
	v = strtod(s, &end);
	if (!(v >= 0 && v <= 100) || (strcmp(end, "%") != 0 && (*end != '\0' || v > 0)))
		return false;
	*ppm = (uint32_t)(v * 1e4 + 0.5);
	return true;
}

void tp_format_size(uint64_t bytes, char *buf, size_t len)
{
	if (bytes >= 1u << 30 && (bytes & ((1u << 30) - 1)) == 0)
		snprintf(buf, len, "%" PRIu64 "g", bytes >> 30);
	else if (bytes >= 1u << 20 && (bytes & ((1u << 20) - 1)) == 0)
		snprintf(buf, len, "%" PRIu64 "m", bytes >> 20);
	else if (bytes >= 1u << 10 && (bytes & 1023) == 0)
		snprintf(buf, len, "%" PRIu64 "k", bytes >> 10);
	else
		snprintf(buf, len, "%" PRIu64, bytes);
}
