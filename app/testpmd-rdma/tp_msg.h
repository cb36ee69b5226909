/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol between client and server: private data of the connections, then fixed-size Send messages on the control
 * connection. Wire form: big-endian 64-bit words. A decoded message is a copy; its values are untrusted and are checked
 * where they are used.
 *
 * 	client				server
 * 	connect {control}	->	accept
 * 	SETUP {point, region}	->
 * 			<-	SETUP_OK {region} | ERROR {text}
 * 	connect {data} x qps	->	accept
 * 	fence Send on each data QP ->		(the initiator of an iWARP connection speaks first)
 * 	GO			->
 * 			<-	READY
 * 			the run
 * 	FIN {posted}		<->	FIN {posted}	(each side when it has nothing more to post)
 * 	fence Sends after one-sided modes <->
 * 			<-	RESULT {figures}
 * 	disconnect
 */
#ifndef TP_MSG_H
#define TP_MSG_H

#include "tp_hist.h"
#include "tp_opts.h"

#define TP_MSG_WORDS    24
#define TP_MSG_TEXT     256
#define TP_MSG_SIZE     (16 + TP_MSG_WORDS * 8 + TP_MSG_TEXT)
#define TP_PRIVATE_SIZE 24

enum tp_msg_type {
	TP_MSG_SETUP = 1,
	TP_MSG_SETUP_OK,
	TP_MSG_GO,
	TP_MSG_READY,
	TP_MSG_FIN,
	TP_MSG_RESULT,
	TP_MSG_ERROR,
};

struct tp_msg {
	enum tp_msg_type type;
	uint64_t word[TP_MSG_WORDS];
	char text[TP_MSG_TEXT]; /* ERROR: a sentence, always terminated */
};

/* Address and rkey of a side's buffers. */
struct tp_region {
	uint64_t addr, len;
	uint32_t rkey;
};

/* Figures of one side of one run. */
struct tp_figures {
	uint64_t ops, bytes; /* measured, warm-up excluded */
	uint64_t ns;         /* length of the measurement */
	uint64_t cpu_ns;     /* CPU time in it */
	uint64_t cpu_ops;    /* operations during cpu_ns (a passive side does not know the end of the warm-up) */
	uint64_t checked;    /* bytes compared */
	uint64_t wrong;      /* comparisons that failed */
	uint64_t overtaken;  /* soak: completions that came before that of an earlier operation */
	struct tp_quantiles lat;
	/* For datagrams that may be lost, over the whole run: what this side posted, and what arrived from the other
	 * side. */
	uint64_t sent, sent_bytes; /* messages; bytes */
	uint64_t arrived, partial; /* messages that came whole, and in part */
	uint64_t valid;            /* bytes that came */
	/* Counters of this side's port during the run, if rnicctl could ask rnicd. */
	uint64_t counted;        /* 0 or 1 */
	uint64_t again, dropped; /* TCP segments that were sent again; frames that were dropped */
};

enum tp_role { TP_ROLE_CONTROL = 1, TP_ROLE_DATA = 2 };

struct tp_private {
	enum tp_role role;
	uint32_t index;   /* of the data connection */
	uint64_t session; /* random, joins a control connection and its data connections */
};

void tp_msg_encode(uint8_t wire[TP_MSG_SIZE], const struct tp_msg *m);
/* TP_BAD_PEER when it is no message of this version. */
enum tp_verdict tp_msg_decode(struct tp_msg *m, const uint8_t *wire, size_t len, struct tp_err *err);

void tp_private_encode(uint8_t wire[TP_PRIVATE_SIZE], const struct tp_private *p);
enum tp_verdict tp_private_decode(struct tp_private *p, const uint8_t *wire, size_t len, struct tp_err *err);

void tp_msg_put_setup(struct tp_msg *m, const struct tp_point *p, const struct tp_region *r, uint32_t inline_max);
/* Does not check the point: tp_point_check does. */
void tp_msg_get_setup(const struct tp_msg *m, struct tp_point *p, struct tp_region *r, uint32_t *inline_max);
void tp_msg_put_region(struct tp_msg *m, const struct tp_region *r);
void tp_msg_get_region(const struct tp_msg *m, struct tp_region *r);
void tp_msg_put_result(struct tp_msg *m, const struct tp_figures *f);
void tp_msg_get_result(const struct tp_msg *m, struct tp_figures *f);

#endif
