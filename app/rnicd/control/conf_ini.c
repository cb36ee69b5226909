/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/conf_ini.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static char *trim(char *s)
{
	while (isspace((unsigned char)*s))
		s++;
	char *end = s + strlen(s);
	while (end > s && isspace((unsigned char)end[-1]))
		end--;
	*end = '\0';
	return s;
}

/* A comment begins with # or ; at the beginning of a line or after a blank, so that values may contain these
 * characters. */
static void cut_comment(char *s)
{
	for (char *p = s; *p != '\0'; p++) {
		if ((*p == '#' || *p == ';') && (p == s || isspace((unsigned char)p[-1]))) {
			*p = '\0';
			return;
		}
	}
}

static void read_line(char *text, unsigned line, conf_ini_fn *fn, void *arg)
{
	cut_comment(text);
	char *s = trim(text);
	size_t n = strlen(s);

	if (n == 0)
		return;
	if (s[0] == '[') {
		if (s[n - 1] != ']' || n == 2) {
			fn(arg, line, CONF_BAD, "a section is written [name]", "");
			return;
		}
		s[n - 1] = '\0';
		fn(arg, line, CONF_SECTION, trim(s + 1), "");
		return;
	}
	char *eq = strchr(s, '=');
	if (eq == NULL || eq == s) {
		fn(arg, line, CONF_BAD, "neither a [section], nor key = value, nor a comment", "");
		return;
	}
	*eq = '\0';
	fn(arg, line, CONF_KEY, trim(s), trim(eq + 1));
}

void conf_ini_read(FILE *f, conf_ini_fn *fn, void *arg)
{
	char buf[CONF_LINE_MAX];
	unsigned line = 1;
	size_t n = 0;
	bool bad = false;
	int c;

	do {
		c = getc(f);
		if (c != '\n' && c != EOF) {
			if (c == '\0')
				bad = true;
			if (n < sizeof(buf))
				buf[n++] = (char)c;
			continue;
		}
		if (bad || n == sizeof(buf)) {
			fn(arg, line, CONF_BAD,
			   bad ? "the line holds a zero byte: not a text file" : "the line is too long", "");
		} else {
			buf[n] = '\0';
			read_line(buf, line, fn, arg);
		}
		n = 0;
		bad = false;
		line++;
	} while (c != EOF);
}
