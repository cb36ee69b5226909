/* SPDX-License-Identifier: BSD-3-Clause */
/* Orders that change a running daemon. */
#ifndef ORDER_H
#define ORDER_H

#include "daemon.h"

/* Sends the words behind `command`, "set" or "drop-client"; prints the daemon's answer. Returns the exit status. */
int order_send(struct daemon *d, const char *command, char *const *word, int n);

#endif
