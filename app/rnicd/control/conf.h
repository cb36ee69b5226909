/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration file: sections [rnicd] and [port NAME], read strictly. An unknown section or key, an impossible
 * value, a missing key, and a key that is given twice are mistakes. All mistakes are printed, each as a line
 * "FILE:LINE: sentence". The tables in conf_key.c, printed by rnicd --help-config, explain each key.
 */
#ifndef CONF_H
#define CONF_H

#include <stdbool.h>
#include <stdio.h>

#include "border/rnicd.h"

enum conf_huge { CONF_HUGE_NO, CONF_HUGE_YES, CONF_HUGE_AUTO };

struct conf {
	struct rnicd_cfg d; /* d.hugepages is decided at start: huge_decide() */
	enum conf_huge hugepages;
	bool workers_set;                        /* the file sets workers to CPUs; false: workers = auto */
	unsigned workers_line, control_cpu_line; /* lines of these two keys in the file; 0: not given */
};

/*
 * Reads f, whose name is `name` in messages, into *c (overwritten, defaults first). Returns the number of mistakes,
 * each one line on err. With mistakes *c is not to be used.
 */
unsigned conf_read(FILE *f, const char *name, struct conf *c, FILE *err);
/* The same from a path; a file that cannot be opened counts as one mistake. */
unsigned conf_load(const char *path, struct conf *c, FILE *err);

/* Sets the path of the control socket, in place of the file's. False with half a sentence in why (CONF_WHY_MAX
 * bytes). */
bool conf_socket(struct conf *c, const char *path, char *why);

/* Prints every key with its default and one line of explanation. */
void conf_help(FILE *out);

#endif
