/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SS_H
#define SS_H

/*
 * Prints the sockets of rnicd that the user may see. pids, NULL-terminated: prints only sockets that one of these
 * processes has open; an empty list: all sockets. Returns the exit status.
 */
int ss_print(const char *socket_path, char *const *pids);

#endif
