/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why something does not work, said in the log: a cause is a line of one table, which also makes
 * doc/troubleshooting.md. A cause is said at once, and again for the same port when SAY_AGAIN_NS have passed; the
 * number of those between is in the next line. Control thread.
 */
#ifndef WHY_H
#define WHY_H

#include <stdio.h>

#include "border/event.h"

/* What a worker tells of a connection: an end that is not orderly is said. */
void why_connection(const struct event_fx *fx);

/* A neighbour that did not answer ARP is said. */
void why_neighbour(const struct event_neigh *ev);

/* A connection's path takes smaller packets than the port sends. */
void why_path(const struct event_path *ev);

/* A client has asked for more than its quota; text: the sentence that the client gets. */
void why_quota(uint32_t client, int pid, const char *text);

/* A client's completion queue of so many entries had no room for one more. */
void why_cq(uint32_t client, int pid, uint32_t entries);

/* From now on the ports' counters are looked at once a second. */
void why_start(void);
void why_stop(void);

/* Writes doc/troubleshooting.md. */
void why_document(FILE *out);

#endif
