/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Orders by which an administrator changes a running daemon (rnicctl set, rnicctl drop-client). They come through the
 * telemetry socket, whose folder only root and the daemon's own user can enter. Called under loop_lock.
 */
#ifndef ADMIN_H
#define ADMIN_H

#include <stdbool.h>
#include <stddef.h>

#define ADMIN_SAY_MAX 400u

/*
 * order: "port NAME KEY=VALUE ..." with keys that SIGHUP can change (an empty value stands for the default), or
 * "log-level LEVEL". Either all keys are changed or none. Writes one sentence into say (ADMIN_SAY_MAX bytes). False:
 * nothing was changed.
 */
bool admin_set(const char *order, char *say);

/* Disconnects the client with this number, as after a violation. say: as above. False: there is no such client. */
bool admin_drop_client(const char *number, char *say);

#endif
