/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is done for the sake of one peer. Nothing here is against the RFCs, so that it is done towards everyone: a peer
 * cannot be told by what it says.
 *
 * Linux siw, responder: sends its Reply before it listens to the socket. FPDUs that come in between are
 *	acknowledged by TCP and lie there until more bytes come. RC_NUDGE (rc_life.c): to an initiator's first FPDUs
 *	that nobody answers, zero-length messages are added, which any RDMAP stream may hold (rc_tx_nudge). Other
 *	responders end the connection when such a Write names an STag that they have not given out.
 * Linux siw, responder in peer-to-peer mode: a FIN before it has seen the RTR trips a BUG() in its connection
 *	manager. RC_NUDGES_END (rc_life.c): an early disconnect waits until the peer has said something, which a
 *	zero-length Read asks it to.
 * Linux siw, initiator: hears of a FIN before the Reply that came along with it (the kernel's backlog joins
 *	segments), and takes the connection for reset. The FIN goes in a segment of its own (tcpl_out.c), and waits
 *	for the acknowledgement of our Reply (rc_shutdown).
 * Linux siw: writes and reads a Terminate's layer and type the wrong way round, and M, D, R in low bits.
 *	rdmap_term_parse (rdmap_wire.c) takes both forms.
 * Linux siw: a reject may lack the words IRD and ORD. mpa_neg_feed (mpa_neg.c) takes it.
 */
#ifndef RC_QUIRK_H
#define RC_QUIRK_H

#include "base/rn_base.h"

#define RC_NUDGES         4u
#define RC_NUDGES_END     3u /* nudges that an early disconnect lets pass before it is carried out: 210 ms */
#define RC_NUDGE_FIRST_NS (10 * RN_NS_PER_MS)
#define RC_NUDGE_FACTOR   4u /* the window is a few hundred microseconds; a guest without CPU time makes it longer */

#endif
