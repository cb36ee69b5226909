/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Capture of a port to a pcapng file. Workers copy frames into a ring, never wait, and count frames that do not fit; a
 * separate thread writes the files. Received frames are captured as they come in, sent ones as they leave the shaper,
 * before any impairment, as a capture on a host would show them.
 */
#ifndef RNICD_CAPTURE_H
#define RNICD_CAPTURE_H

#include <rte_mbuf.h>

#include "border/rnicd.h"

struct capture;

enum capture_direction { CAPTURE_IN = 1, CAPTURE_OUT = 2 }; /* numbers of the pcapng epb_flags option */

/* Opens the file and starts writing. NULL with a sentence in err. Control thread. */
struct capture *capture_start(const struct rnicd_port *port, char *err, uint32_t err_len);
/* Writes what is still in the ring and closes the file; no worker may use it any more. NULL is allowed. */
void capture_stop(struct capture *c);

/* Any worker. False: dropped. */
bool capture_frame(struct capture *c, const struct rte_mbuf *m, enum capture_direction dir);

#endif
