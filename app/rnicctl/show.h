/* SPDX-License-Identifier: BSD-3-Clause */
/* What the daemon tells, as tables for people or as JSON for programs. All functions write to stdout. */
#ifndef SHOW_H
#define SHOW_H

#include <jansson.h>
#include <stdbool.h>

#include "daemon.h"

/* How to print. */
struct show {
	bool json; /* one JSON value, for programs */
	bool all;  /* counters: those that are zero, too */
};

/* Each returns the exit status of the program: 0, or 1 after a sentence on stderr. */
int show_status(struct daemon *d, const struct show *s);
int show_counters(struct daemon *d, const struct show *s);
/* A kind of object, "ports" for one: the list, or with `which` all about one object. */
int show_objects(struct daemon *d, const struct show *s, const char *kind, const char *which);

/*
 * All objects of a kind as an array of dictionaries, the daemon's number or name of each under "id". The caller's
 * reference; NULL when the daemon is gone.
 */
json_t *show_collect(struct daemon *d, const char *kind);

#endif
