/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RNICRUN_PROGRAM_H
#define RNICRUN_PROGRAM_H

#include <stdbool.h>

/*
 * Why a program, found along $PATH as execvp() finds it, cannot have a library preloaded, and what to do about it.
 * NULL: nothing stands against it, or it is not there.
 */
const char *program_obstacle(const char *name);

/* Why it is no program at all: not there, a folder, a file that nobody can run. NULL: it is one. */
const char *program_none(const char *name);

/*
 * False: the dynamic loader, asked without running the program, finds no verbs library for it. A script counts as true.
 */
bool program_links_verbs(const char *name);

#endif
