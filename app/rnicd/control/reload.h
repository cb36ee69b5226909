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

/*
 * Port i becomes as `to` says, until the next change or SIGHUP, which goes by the file. One sentence in say; false:
 * something in it cannot change, or a change is under way, and nothing was changed. Also under loop_lock.
 */
bool reload_port(uint32_t i, const struct rnicd_port_cfg *to, char *say, size_t len);
/* Whether workers, or a capture that is written to its end, hold the next change up. Under loop_lock. */
bool reload_under_way(void);

#endif
