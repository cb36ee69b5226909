/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Verdicts of testpmd-rdma. A function that can fail returns one of these and, when it is not TP_OK, has written one
 * sentence with the remedy into the tp_err that its caller owns.
 */
#ifndef TP_ERR_H
#define TP_ERR_H

#include <stdarg.h>

enum tp_verdict {
	TP_OK = 0,
	TP_BAD_OPTION,  /* an option does not exist, or options cannot be combined */
	TP_NO_DEVICE,   /* no RDMA device, or none that reaches the address */
	TP_NO_MEMORY,   /* allocation or registration failed */
	TP_NO_PEER,     /* nobody answers, or the peer refused */
	TP_PEER_GONE,   /* the connection broke in the middle of a run */
	TP_BAD_PEER,    /* the peer sent what the protocol does not allow */
	TP_TIMEOUT,     /* no progress within --timeout */
	TP_WC_ERROR,    /* a work request completed with an error */
	TP_VERBS_ERROR, /* a verbs call failed */
	TP_CORRUPT,     /* data arrived changed */
	TP_STOPPED,     /* stopped before there was a result */
};

struct tp_err {
	char text[400];
};

enum tp_verdict tp_fail(struct tp_err *err, enum tp_verdict v, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
