/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Experiments (RFC 6994): a SYN asks in option 253 whether the peer takes part in cfg->exid, and a SYN-ACK answers one
 * that asks.
 */
#ifndef TCPL_EXID_H
#define TCPL_EXID_H

#include "tcp_lite/tcpl.h"

/* From CONNECTED on: both ends take part. */
bool tcpl_exid_agreed(const struct tcpl_conn *c);

/* Whether a SYN, which may be malformed, asks. */
bool tcpl_exid_asks(const struct tcpl_seg *syn, uint32_t exid);

#endif
