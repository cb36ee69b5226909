/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Behaviour that a particular peer needs. All of this conforms to the RFCs, and is done towards every peer, since a
 * peer's implementation cannot be recognised.
 *
 * Linux siw, responder: sends its Reply before it listens to the socket. FPDUs that come in between are acknowledged by
 *	TCP and not read until more bytes come. RC_NUDGE (rc_life.c): when nothing answers an initiator's first FPDUs,
 *	zero-length messages follow, which any RDMAP stream may contain (rc_tx_nudge). Other responders end the
 *	connection when such a Write names an STag that they have not given out.
 * Linux siw, responder in peer-to-peer mode: a FIN before it has seen the RTR trips a BUG() in its connection manager.
 *	RC_NUDGES_END (rc_life.c): an early disconnect waits until the peer has sent something; a zero-length Read makes
 *	the peer do so.
 * Linux siw, initiator: sees a FIN before the Reply that came along with it (the kernel's backlog joins segments), and
 *	treats the connection as reset. The FIN goes in a segment of its own (tcpl_out.c), and waits for the
 *	acknowledgement of our Reply (rc_shutdown).
 * Linux siw: writes and reads a Terminate's layer and type the wrong way round, and M, D, R in low bits.
 *	rdmap_term_parse (rdmap_wire.c) takes both forms.
 * Linux siw: a reject may lack the words IRD and ORD. mpa_neg_feed (mpa_neg.c) takes it.
 */
#ifndef RC_QUIRK_H
#define RC_QUIRK_H

#include "base/rn_base.h"

#define RC_NUDGES         4u
#define RC_NUDGES_END     3u /* how many nudges an early disconnect waits for: 210 ms */
#define RC_NUDGE_FIRST_NS (10 * RN_NS_PER_MS)
#define RC_NUDGE_FACTOR   4u /* the race lasts a few hundred microseconds, longer in a guest without CPU time */

#endif
