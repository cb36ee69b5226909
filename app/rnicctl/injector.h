/* SPDX-License-Identifier: BSD-3-Clause */
/* rnicctl inject: replaces the failures that a program under rnicrun --inject injects, through the control socket of
 * rnicd. */
#ifndef INJECTOR_H
#define INJECTOR_H

/* client: a number of rnicctl clients, or pid=NUMBER. Prints the result. Returns the exit status. */
int injector_send(const char *socket, const char *client, const char *spec);

#endif
