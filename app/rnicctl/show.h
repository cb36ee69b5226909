/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows the daemon's values, as tables for people or as JSON for programs. All functions write to stdout. */
#ifndef SHOW_H
#define SHOW_H

#include <jansson.h>
#include <stdbool.h>

#include "daemon.h"

/* How to print. */
struct show {
	bool json; /* one JSON value, for programs */
	bool all;  /* counters: also those that are zero */
};

/* Each returns the exit status of the program: 0, or 1 after a sentence on stderr. */
int show_status(struct daemon *d, const struct show *s);
int show_counters(struct daemon *d, const struct show *s);
/* Shows a kind of object, such as "ports": the list, or with `which` all values of one object. */
int show_objects(struct daemon *d, const struct show *s, const char *kind, const char *which);

/*
 * All objects of a kind as an array of dictionaries, each with its number or name under "id". The caller owns the
 * reference; NULL: the daemon is gone.
 */
json_t *show_collect(struct daemon *d, const char *kind);

#endif
