/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Immediate data of verbs on the wire.
 *
 * Write with immediate: a Write (left out when it has no bytes) and behind it an Immediate Data message (RFC 7306,
 * section 6), whose first 4 octets are the immediate and whose last 4 are zero. It takes a receive; its completion
 * tells the length of the Write before it, as counted on arrival. An immediate without bytes right behind another work
 * request's Write would tell that Write's length, so a zero-length Write goes between them.
 *
 * Send with immediate: RFC 7306 has no such message. A Send and an Immediate Data message would take two receives,
 * where verbs promise one. So a zero-length Write goes directly before the Send, with the STag QP_IMM_STAG, and the
 * mark and the immediate as TO. Such a Write is allowed anywhere, has no effect, and nothing in it is checked (RFC
 * 5040, section 5.2): a peer that does not know the mark receives the Send, without its immediate. A peer that knows
 * the mark gives the immediate to the next Send that is delivered.
 */
#ifndef QP_IMM_H
#define QP_IMM_H

#include <stdint.h>

#define QP_IMM_STAG UINT32_C(0x53454e44) /* "SEND" */
#define QP_IMM_MARK UINT32_C(0x77696d6d) /* "wimm": TO's high half; its low half is the immediate */

#endif
