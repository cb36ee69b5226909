/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RNICRUN_PROGRAM_H
#define RNICRUN_PROGRAM_H

#include <stdbool.h>

/*
 * Why a library cannot be preloaded into a program (searched in $PATH as by execvp()), and what to do. NULL: it can be,
 * or there is no such program.
 */
const char *program_obstacle(const char *name);

/* Why a file is not a program: it does not exist, is a folder, or cannot be executed. NULL: it is a program. */
const char *program_none(const char *name);

/*
 * Whether the dynamic loader finds a verbs library for the program, checked without running it. A script counts as
 * true.
 */
bool program_links_verbs(const char *name);

#endif
