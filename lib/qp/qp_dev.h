/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The STag table of one device: which registered memory a (protection domain, STag, tagged offset, length) names and
 * what may be done to it. Every access of a work request or of a peer goes through qp_mr_slices, nothing else.
 *
 * STag = index (24 bits) << 8 | key (8 bits). Index 0 is never given out (STag 0 is the privileged one).
 *
 * Threads: one control thread registers and deregisters; any worker looks up and invalidates. An entry is published
 * by a release store of its word and read between two loads of it, so a reader sees a whole entry or none.
 * After qp_mr_dereg a worker may still be inside a copy that it began before: the control thread answers the client
 * (and frees a piece list) only after every worker has come round once.
 */
#ifndef QP_DEV_H
#define QP_DEV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"
#include "base/rn_iov.h"
#include "base/rn_rng.h"

/* Rights; numbers of ibv_access_flags. Local read is always allowed. */
enum {
	QP_ACC_LOCAL_WRITE = 1,
	QP_ACC_REMOTE_WRITE = 2,
	QP_ACC_REMOTE_READ = 4,
	QP_ACC_ALL = 7
};

enum qp_mr_verdict {
	QP_MR_OK = 0,
	QP_MR_BAD_STAG,   /* no such STag, stale key, or invalidated */
	QP_MR_BAD_PD,     /* of another protection domain */
	QP_MR_BAD_RIGHTS, /* the right is missing */
	QP_MR_BAD_BOUNDS, /* not inside the registered range */
	QP_MR_TO_WRAP,    /* offset + length passes 2^64 */
	QP_MR_TOO_MANY,   /* more slices than the caller has room for */
	QP_MR_FULL,       /* register: no free entry */
	QP_MR_BAD_ATTR    /* register: pieces do not add up, wrong rights, range wraps */
};

/* A run of bytes in this process. */
struct qp_piece {
	uint8_t *base;
	uint64_t len; /* bytes */
};

/* One entry. Written by the control thread; the word also by workers (invalidation). */
struct qp_mr {
	uint32_t word;    /* atomic: generation << 9 | valid << 8 | key */
	uint32_t pd;
	uint32_t rights;  /* QP_ACC_* */
	uint32_t npieces;
	uint64_t iova;    /* tagged offset of the first byte */
	uint64_t len;
	const struct qp_piece *pieces; /* &one, or the caller's list */
	struct qp_piece one;
	uint32_t next_free; /* control thread only */
	uint32_t in_use;    /* control thread only: registered, valid or invalidated */
};

struct qp_dev {
	struct qp_mr *mr; /* caller's, n entries */
	uint32_t n;
	uint32_t free_head, free_tail; /* FIFO, so that an index rests before it is used again */
	uint32_t live;
	struct rn_rng rng; /* keys */
	uint64_t owner;    /* the caller's */
};

struct qp_mr_attr {
	uint32_t pd;
	uint32_t rights;
	uint64_t iova;
	uint64_t len; /* bytes; the sum of the pieces */
	const struct qp_piece *pieces; /* one is copied; more stay the caller's until after qp_mr_dereg */
	uint32_t npieces;
};

/* n: entries, 2..2^24; seed: from a source that peers cannot guess. */
void qp_dev_init(struct qp_dev *dev, struct qp_mr *mr, uint32_t n, uint64_t seed);

/* Control thread. OK, FULL or BAD_ATTR. */
RN_NODISCARD enum qp_mr_verdict qp_mr_reg(struct qp_dev *dev, const struct qp_mr_attr *a, uint32_t *stag);
/* Control thread. OK or BAD_STAG; also takes STags that a peer has invalidated. */
enum qp_mr_verdict qp_mr_dereg(struct qp_dev *dev, uint32_t stag);

/* What an access is for. */
struct qp_access {
	uint32_t pd;
	uint32_t stag;
	uint64_t to;
	uint32_t len;    /* bytes */
	uint32_t rights; /* every one of them is needed */
};

/*
 * The slices of the access in out[0..max), *n of them. Length 0 is always OK with no slice: STag and TO are not
 * looked at (RFC 5040, section 5.2 and 5.5). Any thread.
 */
RN_NODISCARD enum qp_mr_verdict qp_mr_slices(const struct qp_dev *dev, const struct qp_access *a, struct rn_iov *out,
					     uint32_t max, uint32_t *n);

/* The checks alone. */
RN_NODISCARD enum qp_mr_verdict qp_mr_check(const struct qp_dev *dev, const struct qp_access *a);

/* A peer's Send with Invalidate: OK, BAD_STAG, BAD_PD, or BAD_RIGHTS when the entry has no remote right. Any thread. */
RN_NODISCARD enum qp_mr_verdict qp_mr_invalidate(struct qp_dev *dev, uint32_t pd, uint32_t stag);

#endif
