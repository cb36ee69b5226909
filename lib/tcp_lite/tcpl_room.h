/* SPDX-License-Identifier: BSD-3-Clause */
/* For an owner that has no room for a segment in the window which it has announced. */
#ifndef TCPL_ROOM_H
#define TCPL_ROOM_H

#include "tcp_lite/tcpl.h"

/* Takes the payload and the FIN off a received segment, before tcpl_in. Its ACK still counts, and is no duplicate. */
static inline void tcpl_strip(struct tcpl_seg *s)
{
	s->len = 0;
	s->flags &= (uint8_t) ~(TCPL_FIN | TCPL_PSH);
	s->bare = true;
}

#define TCPL_SHUT UINT32_MAX /* rcv_space after tcpl_refuse */

/*
 * After tcpl_in, says so to the peer: the next tcpl_out is an ACK with a window of 0, whatever was announced before
 * (RFC 7323, 2.4). So the peer waits for as long as there is no room, where without an answer it would give the
 * connection up. tcpl_set_rcv_space opens the window again.
 */
void tcpl_refuse(struct tcpl_conn *c);

#endif
