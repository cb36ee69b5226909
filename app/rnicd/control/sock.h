/* SPDX-License-Identifier: BSD-3-Clause */
/* The control socket in the file system, and messages to the service manager. */
#ifndef SOCK_H
#define SOCK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Makes the control socket at path, with permissions `mode`, and listens. If its directory is missing, it is made (one
 * level). A socket that an ended daemon has left is removed. Returns the listening descriptor; -1 with a sentence in
 * err, for example if a daemon runs on the socket, or a file with this name is no socket.
 */
int sock_listen(const char *path, uint32_t mode, char *err, uint32_t err_len);
/* Removes the socket's name from the file system. */
void sock_unlink(const char *path);

/* Tells the service manager that has started rnicd, if there is one ($NOTIFY_SOCKET). state: such as "READY=1". */
void sock_notify(const char *state);

#endif
