/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What comes over unreliable datagrams: messages, records and answers to Reads, whole or in part, with the number that
 * the sender gave each as its immediate. What a completion says is valid is compared, what none names is not counted.
 */
#ifndef TP_UD_H
#define TP_UD_H

#include "tp_engine.h"

struct tp_ud_msg {
	bool credit;      /* it is the peer's word about credit, and nothing else of this struct is set */
	bool whole, last; /* last: nothing more will be told of the message */
	uint32_t qp, number;
	uint64_t slot;     /* of the sender, whose bytes it carries */
	uint64_t place;    /* the receive slot that it is in */
	uint64_t off, len; /* the valid bytes, in the slot */
	uint8_t *at;       /* the first of them */
};

/* Takes a good completion of a receive or of a record apart, counts it, but compares nothing. */
enum tp_verdict tp_ud_parse(struct tp_run *r, const struct ibv_wc *wc, struct tp_ud_msg *m);
/*
 * The same, for runs whose messages are what tp_fill_tx() fills in. Of a message that came in part, and of one whose
 * buffer another one may get, the bytes are compared at once; the others by tp_ud_verify() after the run.
 */
enum tp_verdict tp_ud_take(struct tp_run *r, const struct ibv_wc *wc, struct tp_ud_msg *m);
enum tp_verdict tp_ud_prepare(struct tp_run *r);
enum tp_verdict tp_ud_verify(struct tp_run *r);

extern const struct tp_engine tp_ud_write_bw, tp_ud_read_bw, tp_ud_send_bw, tp_ud_lat, tp_ud_soak;

#endif
