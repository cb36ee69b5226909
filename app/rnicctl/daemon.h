/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A running rnicd, as its telemetry socket shows it. The protocol is that of DPDK's telemetry library, version 2: a
 * SOCK_SEQPACKET socket, a greeting in JSON, then one answer in JSON for each command.
 */
#ifndef DAEMON_H
#define DAEMON_H

#include <jansson.h>
#include <stdbool.h>

struct daemon;

/*
 * Finds the daemon and connects to its telemetry socket. `telemetry`: path of that socket, or NULL. With NULL the
 * daemon is the one whose control socket is `control`. If no daemon answers there and `any` is set, the only daemon on
 * the machine is taken. Returns NULL after one sentence on stderr that says what to do. daemon_close() frees the
 * result.
 */
struct daemon *daemon_open(const char *telemetry, const char *control, bool any);
void daemon_close(struct daemon *d);

long daemon_pid(const struct daemon *d);
/* Path of the telemetry socket; valid until daemon_close(). */
const char *daemon_path(const struct daemon *d);

/*
 * Sends one command ("/rnic/ports") with its parameter, or NULL. Returns the value behind the command's name in the
 * answer; the caller owns the reference. NULL: no such command or no such object, or the daemon is gone
 * (daemon_lost()).
 */
json_t *daemon_ask(struct daemon *d, const char *command, const char *parameter);
bool daemon_lost(const struct daemon *d);

/* Says on stderr that the daemon does not answer any more. Returns the exit status for that, 1. */
int daemon_gone(const struct daemon *d);

#endif
