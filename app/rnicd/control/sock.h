/* SPDX-License-Identifier: BSD-3-Clause */
/* The control socket's name in the file system, and messages to the service manager. */
#ifndef SOCK_H
#define SOCK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Listens at path (its directory is made when missing, one level). A socket that an ended daemon has left is removed.
 * It fails if a daemon runs on the socket, or a file of the name is not a socket. The listening descriptor, or -1 and a
 * sentence in err.
 */
int sock_listen(const char *path, uint32_t mode, char *err, uint32_t err_len);
/* Removes the name. */
void sock_unlink(const char *path);

/* Tells the service manager that started us, if any ($NOTIFY_SOCKET), e.g. "READY=1". */
void sock_notify(const char *state);

#endif
