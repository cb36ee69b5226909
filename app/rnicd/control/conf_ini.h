/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The grammar of the configuration file: "[section]", "key = value", comments from # or ; on. Reports each line to the
 * caller, which knows the allowed sections and keys. No state is kept.
 */
#ifndef CONF_INI_H
#define CONF_INI_H

#include <stdint.h>
#include <stdio.h>

#define CONF_LINE_MAX 1024u

enum conf_item {
	CONF_SECTION, /* name: the text between the brackets, without blanks at its ends */
	CONF_KEY,     /* name and value; value may be empty */
	CONF_BAD,     /* name: a sentence that says what is wrong with the line */
};

/* Called for each line that is not empty. Strings are valid during the call. */
typedef void conf_ini_fn(void *arg, unsigned line, enum conf_item item, const char *name, const char *value);

void conf_ini_read(FILE *f, conf_ini_fn *fn, void *arg);

#endif
