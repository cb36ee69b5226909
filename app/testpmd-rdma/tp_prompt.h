/* SPDX-License-Identifier: BSD-3-Clause */
/* The language of the interactive prompt: one line in, one command out. Words may be shortened while unambiguous. */
#ifndef TP_PROMPT_H
#define TP_PROMPT_H

#include "tp_err.h"

enum tp_verb {
	TP_CMD_EMPTY,
	TP_CMD_SET, /* key, value */
	TP_CMD_START,
	TP_CMD_STOP,
	TP_CMD_SHOW_STATS,
	TP_CMD_SHOW_CONFIG,
	TP_CMD_CLEAR_STATS,
	TP_CMD_WAIT, /* until the run has ended: for scripts */
	TP_CMD_HELP,
	TP_CMD_QUIT,
};

struct tp_command {
	enum tp_verb verb;
	char key[64];
	char value[512]; /* empty when none was given */
};

/* TP_BAD_OPTION with a sentence when the line is no command. */
enum tp_verdict tp_prompt_parse(const char *line, struct tp_command *cmd, struct tp_err *err);

extern const char tp_prompt_help[];

#endif
