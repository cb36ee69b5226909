/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SIGHUP: the configuration is read again. What can change in a running daemon changes: the log level, and of each port
 * its rate, its impairment and its capture. Anything else that differs is named, and waits for a restart. A file with
 * mistakes changes nothing. Control thread.
 */
#ifndef RELOAD_H
#define RELOAD_H

#include "control/conf.h"

/* path: of the configuration; was: as it was read from there; level_given: the log level is the command line's. */
void reload_begin(const char *path, const struct conf *was, bool level_given);
void reload(void);

#endif
