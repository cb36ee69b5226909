/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client's memory can vanish while the daemon uses it (hugepages taken back, a hole punched where no page can be
 * allocated again, a shared file truncated): an access then raises SIGBUS. The handler replaces the page by an
 * anonymous page of zeros and marks the client; after a few pages it replaces the whole region. A SIGBUS anywhere else
 * ends the daemon as usual.
 */
#ifndef SIGBUS_H
#define SIGBUS_H

#include <stdbool.h>
#include <stdint.h>

#define SIGBUS_WATCHES 8256 /* four for each client, and some more */

bool sigbus_start(void);

/* Watches a region. Returns the number of the watch; -1: there are too many. Control thread. */
int sigbus_watch(const void *base, uint64_t size);
void sigbus_forget(int watch);
/* Whether a page of any watched region was replaced since the last call. */
bool sigbus_any(void);
/* Whether a page of this region was replaced since the last call. */
bool sigbus_hit(int watch);

#endif
