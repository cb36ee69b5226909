/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Letters: messages to another process of the user, by its datagram socket. Linux lets few messages wait in such a
 * socket (net.unix.max_dgram_qlen, by default 10), and a burst of the network brings more. A relay keeps the letters to
 * one process that found no room, in their order, and sends them as the process reads.
 *
 * For the thread that holds ks.lock.
 */
#ifndef KS_RELAY_H
#define KS_RELAY_H

#include <sys/un.h>

#include "sockets/ks_ud.h"

struct ks_letter {
	struct sockaddr_un to;
	socklen_t to_len;
	struct iovec part[2];
	uint32_t parts;
	int fd; /* a descriptor that the letter carries; -1: none. The caller's descriptor stays open */
};

/* Sends the letter by the socket `by`, if there is room for it now. */
enum ks_passed ks_letter_send(int by, const struct ks_letter *l);
/*
 * Sends the letter by the socket `by`, or keeps a copy until there is room. KS_PASS_FULL: too many letters are kept
 * already, or there is no memory or descriptor.
 */
enum ks_passed ks_relay(int by, const struct ks_letter *l);
/* The process to which a relay sends has room, or has ended. A letter that cannot be sent any more is counted. */
void ks_relay_event(struct ks_src *s);
/* In a child of fork(): closes the child's copies of descriptors. */
void ks_relay_close(void);

#endif
