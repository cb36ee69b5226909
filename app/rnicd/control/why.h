/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Logs why something does not work. Each cause is a row of one table, from which doc/troubleshooting.md is made as
 * well. A cause is logged at once, and for the same port again after SAY_AGAIN_NS at the earliest; the next line says
 * how often the cause has occurred in between. Control thread.
 */
#ifndef WHY_H
#define WHY_H

#include <stdio.h>

#include "border/event.h"

/* Logs the cause if this effect is the end of a connection, or of its set-up, that is not orderly. */
void why_connection(const struct event_fx *fx);

/* Logs a neighbour that did not answer ARP. */
void why_neighbour(const struct event_neigh *ev);

/* Logs that a connection's path takes only smaller packets than the port sends. */
void why_path(const struct event_path *ev);

/* Logs that a client has asked for more than its quota. text: the sentence that the client gets. */
void why_quota(uint32_t client, int pid, const char *text);

/* Logs that a client's completion queue with this number of entries had no room for a completion. */
void why_cq(uint32_t client, int pid, uint32_t entries);

/* Starts checking the ports' counters once a second. */
void why_start(void);
void why_stop(void);

/* Writes doc/troubleshooting.md. */
void why_document(FILE *out);

#endif
