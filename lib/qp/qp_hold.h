/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peer's Writes to a queue pair whose client asks for it are held back, and become visible in an order drawn from a
 * seed: a byte of a Write may show before another one, and one of a later Write before one of an earlier (RFC 5040,
 * 5.5: the order of placing is not defined); `ordered`: only within one Write, as on InfiniBand. What is written later
 * to the same place wins. Everything is placed before anything else of the connection has its turn: a Send, a Read
 * Request, an Atomic, the end. The memory is the caller's.
 */
#ifndef QP_QP_HOLD_H
#define QP_QP_HOLD_H

#include "base/rn_rng.h"
#include "qp/qp.h"
#include "wqe/qp_hold.h"

struct qp_hold {
	struct qp_hold_shm *shm;
	struct rn_rng draw;
	bool by_chance; /* else in the order in which the bytes came */
	bool ordered;
	bool writes; /* the QP's right, which its own field does not have */
	bool ended;  /* the last segment ended its Write */
	uint32_t put, n;
	uint64_t used; /* cells */
	struct qp_held {
		struct qp_hold_rec r;
		uint32_t number; /* of its record */
		uint8_t cell;
	} held[QP_HOLD_CELLS]; /* [n], the oldest first */
};

/* Control thread, after qp_init, of a QP_RC. shm: in the client's queue region. seed 0: in order. */
void qp_hold_begin(struct qp *qp, struct qp_hold *h, struct qp_hold_shm *shm, uint64_t seed, bool ordered);

/* The client has rung: some of what it has seen is placed. */
void qp_hold_some(struct qp_ctx *ctx, struct qp *qp);
/* All is placed. atomic: what comes next is one, which allows the client to use what was written before. */
void qp_hold_settle(struct qp_ctx *ctx, struct qp *qp, bool atomic);

#endif
