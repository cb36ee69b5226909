/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is done for the sake of one peer. Nothing here is against the RFCs, so that it is done towards everyone: a peer cannot
 * be told by what it says.
 *
 * peer                 what it does                                    what we do                                 where
 * Linux siw, responder sends its Reply before it listens to the socket: RC_NUDGE: to an initiator's first FPDUs  rc.c
 *                      FPDUs that come in between are acknowledged by   that nobody answers, zero-length Writes
 *                      TCP and lie there until more bytes come          are added, which any RDMAP stream may hold
 * Linux siw, responder in peer-to-peer mode, a FIN before it has seen   RC_NUDGES_END: an early disconnect waits   rc.c
 *                      the RTR trips a BUG() in its connection manager  until the peer has said something, which
 *                                                                       a zero-length Read asks it to
 * Linux siw, initiator hears of a FIN before the Reply that came along  the FIN goes in a segment of its own, and  tcpl_out.c
 *                      with it (the kernel's backlog joins segments),   waits for the acknowledgement of our Reply rc.c
 *                      and takes the connection for reset
 * Linux siw            writes and reads a Terminate's layer and type    rdmap_term_parse takes both forms          rdmap_wire.c
 *                      the wrong way round, and M, D, R in low bits
 * Linux siw            a reject may lack the words IRD and ORD          mpa_neg_feed takes it                      mpa_neg.c
 */
#ifndef QP_QUIRK_H
#define QP_QUIRK_H

#include "base/rn_base.h"

#define RC_NUDGES         4u
#define RC_NUDGES_END     3u /* an early disconnect lets so many pass, then it is carried out: 210 ms */
#define RC_NUDGE_FIRST_NS (10 * RN_NS_PER_MS)
#define RC_NUDGE_FACTOR   4u /* the window is a few hundred microseconds; a guest without CPU time makes it longer */

#endif
