/* SPDX-License-Identifier: BSD-3-Clause */
#include "events.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define TIME_TEXT 40u

/* One event. The daemon's answer is a line: number, time (ns since 1970), kind, text; `text` points into that line. */
struct happened {
	uint64_t number, when;
	char kind[16];
	const char *text;
};

static bool happened_read(const char *line, struct happened *h)
{
	int text = 0;

	if (line == NULL || sscanf(line, "%" SCNu64 " %" SCNu64 " %15s %n", &h->number, &h->when, h->kind, &text) != 3)
		return false;
	h->text = line + text;
	return text > 0;
}

/* Writes a time (ns since 1970) as text: in the user's time zone, or as ISO 8601 in UTC. */
static void time_text(uint64_t when, bool iso, char out[TIME_TEXT])
{
	const time_t s = (time_t)(when / 1000000000);
	struct tm tm;
	size_t n;

	if (iso)
		gmtime_r(&s, &tm);
	else
		localtime_r(&s, &tm);
	n = strftime(out, TIME_TEXT, iso ? "%Y-%m-%dT%H:%M:%S" : "%H:%M:%S", &tm);
	snprintf(out + n, TIME_TEXT - n, ".%03u%s", (unsigned)(when / 1000000 % 1000), iso ? "Z" : "");
}

static void event_json(const struct happened *h)
{
	char at[TIME_TEXT];
	json_t *o = json_object();

	time_text(h->when, true, at);
	json_object_set_new(o, "number", json_integer((json_int_t)h->number));
	json_object_set_new(o, "time", json_string(at));
	json_object_set_new(o, "kind", json_string(h->kind));
	json_object_set_new(o, "text", json_string(h->text));
	json_dumpf(o, stdout, JSON_PRESERVE_ORDER | JSON_COMPACT);
	putchar('\n');
	json_decref(o);
}

static void event_text(const struct happened *h, uint64_t expected)
{
	char at[TIME_TEXT];

	if (h->number > expected)
		printf("(%" PRIu64 " events were more than rnicd keeps)\n", h->number - expected);
	time_text(h->when, false, at);
	printf("%s %-10s %s\n", at, h->kind, h->text);
}

/*
 * Prints the event *number, or the next later one that rnicd still keeps, and sets *number to the number behind it.
 * False: there is no such event yet, or the daemon is gone.
 */
static bool ask_event(struct daemon *d, const struct events_how *how, uint64_t *number)
{
	struct happened h;
	char parameter[24];

	snprintf(parameter, sizeof(parameter), "%" PRIu64, *number);
	json_t *answer = daemon_ask(d, "/rnic/events", parameter);
	const bool there = happened_read(json_string_value(answer), &h);
	if (there && how->json)
		event_json(&h);
	else if (there)
		event_text(&h, *number);
	if (there)
		*number = h.number + 1;
	json_decref(answer);
	return there;
}

int events_follow(struct daemon *d, const struct events_how *how)
{
	const struct timespec wait = { .tv_sec = (time_t)how->interval,
				       .tv_nsec = (long)((how->interval - (double)(time_t)how->interval) * 1e9) };
	json_t *state = daemon_ask(d, "/rnic/events", NULL);
	const json_t *next = json_object_get(state, how->all ? "oldest" : "next");
	uint64_t number = (uint64_t)json_integer_value(next);
	const bool told = next != NULL;
	unsigned shown = 0;

	json_decref(state);
	if (!told && !daemon_lost(d)) {
		fputs("rnicctl: this rnicd does not report events: it is older than rnicctl\n", stderr);
		return 1;
	}
	while (!daemon_lost(d) && (how->count == 0 || shown < how->count)) {
		if (ask_event(d, how, &number)) {
			shown++;
			continue;
		}
		fflush(stdout);
		nanosleep(&wait, NULL);
	}
	fflush(stdout);
	return daemon_lost(d) ? daemon_gone(d) : 0;
}
