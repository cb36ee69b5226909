/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line: getopt_long over the table of settings, and the help text made from it. */
#ifndef TP_CLI_H
#define TP_CLI_H

#include "tp_opts.h"

#include <stdio.h>

enum tp_cli { TP_CLI_RUN, TP_CLI_HELP, TP_CLI_VERSION, TP_CLI_BAD };

/* Parse argv into o, which the caller has set to its defaults. TP_CLI_BAD: err holds the sentence. */
enum tp_cli tp_cli_parse(struct tp_opts *o, int argc, char **argv, struct tp_err *err);
void tp_cli_help(FILE *out);

#endif
