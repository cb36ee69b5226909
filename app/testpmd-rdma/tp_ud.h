/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving over unreliable datagrams: messages, records and answers to Reads, complete or in part, each with its
 * number as immediate data. Bytes that a completion reports as valid are compared; others are not counted.
 */
#ifndef TP_UD_H
#define TP_UD_H

#include "tp_engine.h"

struct tp_ud_msg {
	bool credit;      /* the peer's credit message; the other fields are not set */
	bool whole, last; /* last: no further completion will report the message */
	uint32_t qp, number;
	uint64_t slot;     /* the sender's slot whose bytes the message carries */
	uint64_t place;    /* the receive slot that it is in */
	uint64_t off, len; /* the valid bytes, in the slot */
	uint8_t *at;       /* the first of them */
};

/* Parses and counts a successful completion of a receive or of a record, but compares nothing. */
enum tp_verdict tp_ud_parse(struct tp_run *r, const struct ibv_wc *wc, struct tp_ud_msg *m);
/*
 * As tp_ud_parse(), for runs whose messages have the bytes of tp_fill_tx(). The bytes of an incomplete message, and of
 * one whose buffer may be used again, are compared at once; tp_ud_verify() compares the others after the run.
 */
enum tp_verdict tp_ud_take(struct tp_run *r, const struct ibv_wc *wc, struct tp_ud_msg *m);
enum tp_verdict tp_ud_prepare(struct tp_run *r);
enum tp_verdict tp_ud_verify(struct tp_run *r);

extern const struct tp_engine tp_ud_write_bw, tp_ud_read_bw, tp_ud_send_bw, tp_ud_lat, tp_ud_soak;

#endif
