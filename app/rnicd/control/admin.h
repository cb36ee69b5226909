/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an administrator changes in a running daemon (rnicctl set, rnicctl drop-client). The orders come through the
 * telemetry socket, whose folder only root and the daemon's own user can enter. Under loop_lock.
 */
#ifndef ADMIN_H
#define ADMIN_H

#include <stdbool.h>
#include <stddef.h>

#define ADMIN_SAY_MAX 400u

/*
 * "port NAME KEY=VALUE ..." with the keys that SIGHUP can change, an empty value for the default; "log-level LEVEL".
 * Nothing is changed unless all of it can be. One sentence in say (ADMIN_SAY_MAX bytes); false: nothing was changed.
 */
bool admin_set(const char *order, char *say);

/* Disconnects the client with this number from the daemon, as after a violation. say and result as above. */
bool admin_drop_client(const char *number, char *say);

#endif
