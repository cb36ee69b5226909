/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Holds back the peer's Writes to a queue pair whose client asks for that, and places them in an order drawn from a
 * seed: any byte of a Write may show before any other, and a byte of a later Write before one of an earlier Write (RFC
 * 5040, 5.5: the order of placing is not defined). `ordered`: the order is changed only within one Write, as on
 * InfiniBand. A later Write to the same place wins. Everything is placed before anything else of the connection has its
 * turn: a Send, a Read Request, an Atomic, the end. The memory is the caller's.
 */
#ifndef QP_QP_HOLD_H
#define QP_QP_HOLD_H

#include "base/rn_rng.h"
#include "qp/qp.h"
#include "wqe/qp_hold.h"

struct qp_hold {
	struct qp_hold_shm *shm;
	struct rn_rng draw;
	bool by_chance; /* drawn by chance; else in the order in which the bytes came */
	bool ordered;
	bool writes; /* whether peers may write: the QP's own field lacks the right */
	bool ended;  /* the last segment ended its Write */
	uint32_t put, n;
	uint64_t used; /* which cells are in use */
	struct qp_held {
		struct qp_hold_rec r;
		uint32_t number; /* number of its record */
		uint8_t cell;
	} held[QP_HOLD_CELLS]; /* [n] pieces, the oldest first */
};

/*
 * Control thread, after qp_init, of a QP_RC. shm: in the client's queue region. seed 0: in the order in which the bytes
 * came.
 */
void qp_hold_begin(struct qp *qp, struct qp_hold *h, struct qp_hold_shm *shm, uint64_t seed, bool ordered);

/* The client has rung: places some of the pieces that it has seen. */
void qp_hold_some(struct qp_ctx *ctx, struct qp *qp);
/* Places all pieces. atomic: an Atomic comes next, after which the client may use what was written before. */
void qp_hold_settle(struct qp_ctx *ctx, struct qp *qp, bool atomic);

#endif
