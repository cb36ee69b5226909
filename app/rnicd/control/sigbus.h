/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client's memory can vanish under the daemon (hugepages taken back, a hole punched where no page can be had again, a
 * shared file cut short): an access is SIGBUS then. The page is replaced by an anonymous one of zeros, whose content is
 * nobody's, and the client is told on; after a few pages the whole region is. A SIGBUS anywhere else ends the daemon as
 * it should.
 */
#ifndef SIGBUS_H
#define SIGBUS_H

#include <stdbool.h>
#include <stdint.h>

#define SIGBUS_WATCHES 2112 /* four for each client, and some */

bool sigbus_start(void);

/* Watches a region; the number of the watch, or -1 when there are too many. Control thread. */
int sigbus_watch(const void *base, uint64_t size);
void sigbus_forget(int watch);
/* True once after any watched page was replaced. */
bool sigbus_any(void);
/* True once after a page of the region was replaced. */
bool sigbus_hit(int watch);

#endif
