/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RNICRUN_PROGRAM_H
#define RNICRUN_PROGRAM_H

#include <stdbool.h>

/*
 * Why a library cannot be preloaded into a program (searched in $PATH as by execvp()), and what to do. NULL: a library
 * can be preloaded, or there is no such program.
 */
const char *program_obstacle(const char *name);

/* Why a file is not a program: it does not exist, is a folder, or cannot be executed. NULL: it is a program. */
const char *program_none(const char *name);

/*
 * Whether the program's dynamic loader finds a verbs library for it. The program is not run. Also true if this cannot
 * be checked, as for a script.
 */
bool program_links_verbs(const char *name);

#endif
