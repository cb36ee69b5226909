/* SPDX-License-Identifier: BSD-3-Clause */
/* rnicctl inject: what rnicrun --inject has a running program do is set anew, through the control socket of rnicd. */
#ifndef INJECTOR_H
#define INJECTOR_H

/* client: a number of rnicctl clients, or pid=NUMBER. Prints what came of it. Returns the exit status. */
int injector_send(const char *socket, const char *client, const char *spec);

#endif
