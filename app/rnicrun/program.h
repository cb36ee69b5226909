/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RNICRUN_PROGRAM_H
#define RNICRUN_PROGRAM_H

/*
 * Why a program, found along $PATH as execvp() finds it, cannot have a library preloaded, and what to do about it. NULL:
 * nothing stands against it, or it is not there.
 */
const char *program_obstacle(const char *name);

#endif
