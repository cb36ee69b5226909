/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_prompt.h"

#include <stdio.h>
#include <string.h>

const char tp_prompt_help[] =
	"  set SETTING VALUE    change a setting, for example: set size 64k, set mode write_lat, set host 10.0.0.2\n"
	"  start                run the modes and sizes that are set\n"
	"  stop                 end the current run and report its results so far\n"
	"  wait                 wait for the run to end\n"
	"  show config          the settings\n"
	"  show stats           results so far, and the current run\n"
	"  clear stats          delete the results\n"
	"  help                 this text; --help on the command line explains each setting\n"
	"  quit                 leave\n";

static const struct {
	const char *word[2];
	enum tp_verb verb;
} verbs[] = {
	{ { "set", NULL }, TP_CMD_SET },
	{ { "start", NULL }, TP_CMD_START },
	{ { "stop", NULL }, TP_CMD_STOP },
	{ { "show", "stats" }, TP_CMD_SHOW_STATS },
	{ { "show", "config" }, TP_CMD_SHOW_CONFIG },
	{ { "clear", "stats" }, TP_CMD_CLEAR_STATS },
	{ { "wait", NULL }, TP_CMD_WAIT },
	{ { "help", NULL }, TP_CMD_HELP },
	{ { "quit", NULL }, TP_CMD_QUIT },
	{ { "exit", NULL }, TP_CMD_QUIT },
};

#define N_VERBS   (sizeof(verbs) / sizeof(verbs[0]))
#define MAX_WORDS 4

static int matches(const char *typed, const char *word) { return strncmp(typed, word, strlen(typed)) == 0; }

/* Finds the command of a first word, which may be shortened; -1: none, -2: ambiguous. */
static int find_verb(const char *typed)
{
	int found = -1;

	for (unsigned i = 0; i < N_VERBS; i++) {
		if (strcmp(typed, verbs[i].word[0]) == 0)
			return (int)i;
		if (!matches(typed, verbs[i].word[0]))
			continue;
		if (found >= 0 && strcmp(verbs[found].word[0], verbs[i].word[0]) != 0)
			return -2;
		if (found < 0)
			found = (int)i;
	}
	return found;
}

static enum tp_verdict second_word(const char *first, const char *typed, struct tp_command *cmd, struct tp_err *err)
{
	for (unsigned i = 0; i < N_VERBS && typed != NULL; i++) {
		if (strcmp(verbs[i].word[0], first) == 0 && matches(typed, verbs[i].word[1])) {
			cmd->verb = verbs[i].verb;
			return TP_OK;
		}
	}
	return tp_fail(err, TP_BAD_OPTION, "%s what? say \"%s stats\"%s", first, first,
		       strcmp(first, "show") == 0 ? " or \"show config\"" : "");
}

enum tp_verdict tp_prompt_parse(const char *line, struct tp_command *cmd, struct tp_err *err)
{
	char copy[600], *word[MAX_WORDS] = { NULL }, *save = NULL;
	unsigned n = 0, expected = 1;
	int v;

	memset(cmd, 0, sizeof(*cmd));
	if (snprintf(copy, sizeof(copy), "%s", line) >= (int)sizeof(copy))
		return tp_fail(err, TP_BAD_OPTION, "that line is too long");
	copy[strcspn(copy, "#")] = '\0';
	for (char *w = strtok_r(copy, " \t\r\n=", &save); w != NULL && n < MAX_WORDS;
	     w = strtok_r(NULL, " \t\r\n=", &save))
		word[n++] = w;
	if (n == 0)
		return TP_OK;
	v = find_verb(word[0]);
	if (v == -1)
		return tp_fail(err, TP_BAD_OPTION, "unknown command \"%s\": type help", word[0]);
	if (v == -2)
		return tp_fail(err, TP_BAD_OPTION, "\"%s\" could be several commands: write more of it", word[0]);
	cmd->verb = verbs[v].verb;
	if (verbs[v].word[1] != NULL) {
		enum tp_verdict r = second_word(verbs[v].word[0], word[1], cmd, err);

		if (r != TP_OK)
			return r;
		expected = 2;
	} else if (cmd->verb == TP_CMD_SET) {
		if (n < 2)
			return tp_fail(err, TP_BAD_OPTION,
				       "set what? for example \"set size 64k\"; \"show config\" lists the settings");
		snprintf(cmd->key, sizeof(cmd->key), "%s", word[1]);
		if (n > 2)
			snprintf(cmd->value, sizeof(cmd->value), "%s", word[2]);
		expected = 3;
	}
	if (n > expected)
		return tp_fail(err, TP_BAD_OPTION, "\"%s\" is one word too many", word[expected]);
	return TP_OK;
}
