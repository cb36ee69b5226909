/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SIGHUP: reads the configuration again, and applies what can change in a running daemon: the log level, and each
 * port's rate, impairment and capture. The log names all other differences, which take effect at a restart. A file with
 * mistakes changes nothing. Control thread.
 */
#ifndef RELOAD_H
#define RELOAD_H

#include "control/conf.h"

/* path: the configuration file. was: its contents at the start. level_given: the command line sets the log level, so
 * the file does not. */
void reload_begin(const char *path, const struct conf *was, bool level_given);
void reload(void);

/*
 * Changes port i as `to` says, until the next change, or until SIGHUP restores the file's values. One sentence in say.
 * False: a difference cannot change at run time, or a change is under way; nothing was changed. Also under loop_lock.
 */
bool reload_port(uint32_t i, const struct rnicd_port_cfg *to, char *say, size_t len);
/* Whether the last change is still under way at workers. Under loop_lock. */
bool reload_under_way(void);

#endif
