/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The STag table of one device: which registered memory a (protection domain, STag, tagged offset, length) names and
 * what may be done to it. Every access of a work request or of a peer goes through qp_mr_slices, nothing else.
 *
 * STag = index (24 bits) << 8 | key (8 bits). Index 0 is never given out (STag 0 is the privileged one). The index is
 * drawn at random from the free ones, and so is the key, which differs from the key of the index's last use. So a guess
 * names a given region with a probability of 1 in n * QP_STAG_KEYS, if n entries may be the region's as far as the
 * guesser knows.
 *
 * An entry is a memory region or a memory window. A window has no pieces: while bound it names a range of a region.
 * Each access compares the word of the region's entry with parent_word, so a window ends with its region. The key of a
 * window's STag is the client's choice at each bind.
 *
 * Threads: one control thread registers, deregisters, allocates and frees; any worker looks up, invalidates and binds.
 * An entry is published by a release store of its word and read between two loads of it, so a reader sees a whole entry
 * or none. A worker that binds takes the entry by compare-and-swap of the word it has looked at (BUSY), so one of
 * several wins and the others fail; it publishes the same way, so a window that was closed meanwhile stays closed.
 * After qp_mr_dereg and qp_mw_close a worker may still use an entry that it looked up before: the control thread
 * answers the client (and frees a piece list, and calls qp_mw_free) only after every worker has come round once.
 */
#ifndef QP_DEV_H
#define QP_DEV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"
#include "base/rn_iov.h"
#include "base/rn_rng.h"
#include "wqe/qp_wqe.h"

enum qp_mr_verdict {
	QP_MR_OK = 0,
	QP_MR_BAD_STAG,   /* no such STag, stale key, or invalidated */
	QP_MR_BAD_PD,     /* another protection domain, or a window of another QP */
	QP_MR_BAD_RIGHTS, /* the right is missing */
	QP_MR_BAD_BOUNDS, /* not inside the registered range */
	QP_MR_TO_WRAP,    /* offset + length passes 2^64 */
	QP_MR_TOO_MANY,   /* more slices than the caller has room for */
	QP_MR_FULL,       /* register: no free entry */
	QP_MR_BAD_ATTR    /* register: pieces do not add up, wrong rights, range wraps; bind: not with this window */
};

/*
 * A run of bytes in this process: the part of a region between the end of the piece before, or the region's begin, and
 * `end`. So an access finds its first piece in a list by bisection.
 */
struct qp_piece {
	uint8_t *base;
	uint64_t end; /* bytes of the region up to its last one, inclusive; of a single piece: its length */
};

enum qp_entry_kind { QP_ENTRY_FREE = 0, QP_ENTRY_MR, QP_ENTRY_MW_1, QP_ENTRY_MW_2 };

/* One entry. Written by the control thread; the word also by workers (invalidation, binding of a window). */
struct qp_mr {
	uint64_t word; /* atomic: generation << 12 | MW << 11 | BUSY << 10 | WINDOW << 9 | VALID << 8 | key */
	uint32_t pd;
	uint32_t npieces;
	uint8_t rights;   /* QP_ACC_* */
	uint8_t kind;     /* enum qp_entry_kind; the control thread writes, workers read it for a window */
	uint8_t last_key; /* of the entry's last use; control thread only */
	uint32_t free; /* an element of the device's array of free indices, not about this entry; control thread only */
	uint64_t iova; /* tagged offset of the first byte */
	uint64_t len;
	union {
		struct {                               /* region */
			const struct qp_piece *pieces; /* &one, or the caller's list */
			struct qp_piece one;
		};
		struct {                      /* bound window */
			uint64_t parent_word; /* of its region's entry when it was bound */
			uint64_t start;       /* tagged offset in the region of the window's first byte */
			uint32_t parent;      /* index of its region's entry */
			uint32_t qpn;         /* type 2: the QP it was bound on */
		} win;
	};
};
_Static_assert(sizeof(struct qp_mr) == RN_CACHE_LINE, "a lookup touches one line");

#define QP_STAG_KEYS 255u /* keys that the next use of an index may have */

struct qp_srq;

struct qp_dev {
	struct qp_mr *mr; /* the caller's, n entries */
	uint32_t n;
	uint32_t n_free;
	uint32_t live;
	struct rn_rng rng;    /* indices and keys */
	uint64_t owner;       /* the caller's */
	struct qp_srq **xsrq; /* caller's, QP_XSRQ_NUMS of them by number: qp_xrc.h; NULL: none */
};

struct qp_mr_attr {
	uint32_t pd;
	uint32_t rights;
	uint64_t iova;
	uint64_t len;                  /* bytes; the end of the last piece */
	const struct qp_piece *pieces; /* a single piece is copied; a list stays the caller's until after qp_mr_dereg */
	uint32_t npieces;
};

/*
 * A null region has npieces 0, but two pieces of the caller's: where its bytes are read from (zeros) and where they are
 * written to, each with its length as `end`. Every tagged offset lies in it. It has no remote rights.
 */
#define QP_NULL_MR(domain, two) \
	((struct qp_mr_attr){ .pd = (domain), .rights = QP_ACC_LOCAL_WRITE, .len = UINT64_MAX, .pieces = (two) })

/* mr: n entries, 2..2^24, all zeros; they are not touched here. seed: from a source that peers cannot guess. */
void qp_dev_init(struct qp_dev *dev, struct qp_mr *mr, uint32_t n, uint64_t seed);

/*
 * Control thread. Mixes in random bits of the caller's, so that an observer of STags, however many, cannot compute the
 * next one. Call it before each STag that must be hard to guess.
 */
void qp_dev_stir(struct qp_dev *dev, uint64_t random);

/* Control thread. OK, FULL or BAD_ATTR. */
RN_NODISCARD enum qp_mr_verdict qp_mr_reg(struct qp_dev *dev, const struct qp_mr_attr *a, uint32_t *stag);
/*
 * Control thread. Replaces a region under the same STag; windows bound to the region become void. OK, BAD_STAG or
 * BAD_ATTR. The old pieces are to be kept as after qp_mr_dereg. An access at this moment may find no region.
 */
enum qp_mr_verdict qp_mr_change(struct qp_dev *dev, uint32_t stag, const struct qp_mr_attr *a);
/* Control thread. OK or BAD_STAG; also for an invalidated STag. Windows bound to the region become void. */
enum qp_mr_verdict qp_mr_dereg(struct qp_dev *dev, uint32_t stag);

/* The rights and the owner of an access. */
struct qp_access {
	uint32_t pd;
	uint32_t stag;
	uint64_t to;
	uint32_t len;    /* bytes */
	uint32_t rights; /* QP_ACC_*: all of them are needed */
	uint32_t qpn;    /* for a peer's access to a window: the QP of the access */
	bool last;       /* the access completes a message */
};

/*
 * Finds the slices of the access: out[0..max), *n of them. Length 0 is always OK with no slice, whatever STag and TO
 * (RFC 5040, section 5.2 and 5.5). Any thread.
 */
RN_NODISCARD enum qp_mr_verdict qp_mr_slices(const struct qp_dev *dev, const struct qp_access *a, struct rn_iov *out,
					     uint32_t max, uint32_t *n);

/* Checks as qp_mr_slices() does, without slices. */
RN_NODISCARD enum qp_mr_verdict qp_mr_check(const struct qp_dev *dev, const struct qp_access *a);

/*
 * Invalidates an STag, for a peer's Send with Invalidate or a local invalidation on a QP: OK, BAD_STAG, BAD_PD, or
 * BAD_RIGHTS: the region has no remote right, or the window is of type 1. Any thread.
 */
RN_NODISCARD enum qp_mr_verdict qp_mr_invalidate(struct qp_dev *dev, uint32_t pd, uint32_t qpn, uint32_t stag);

/* The protection domain of the region or window of an STag; 0: there is none. Any thread. */
uint32_t qp_mr_pd(const struct qp_dev *dev, uint32_t stag);

/* ---- memory windows ---- */

/* Control thread. kind: one of the two kinds of window. OK or FULL. The STag is valid once the window is bound. */
RN_NODISCARD enum qp_mr_verdict qp_mw_alloc(struct qp_dev *dev, uint32_t pd, enum qp_entry_kind kind, uint32_t *stag);
/*
 * Control thread. stag: with any key. Unbinds for good; the entry may be freed after every worker has come round once.
 */
void qp_mw_close(struct qp_dev *dev, uint32_t stag);
void qp_mw_free(struct qp_dev *dev, uint32_t stag);

struct qp_mw_bind {
	uint32_t pd, qpn; /* of the QP whose work request it is */
	uint32_t stag;    /* of the window, with its new key */
	uint32_t lkey;    /* of the region */
	uint64_t addr;    /* tagged offset in the region */
	uint64_t len;     /* bytes; 0: unbind, type 1 only */
	uint32_t access;  /* QP_ACC_REMOTE_*, QP_ACC_ZERO_BASED */
};

/*
 * Binds a window. Any worker. OK; BAD_STAG (no such window or region, or another bind is under way), BAD_PD, BAD_RIGHTS
 * (the region does not allow it), BAD_BOUNDS, BAD_ATTR (type 2 is bound already, or length 0).
 */
RN_NODISCARD enum qp_mr_verdict qp_mw_bind(struct qp_dev *dev, const struct qp_mw_bind *b);

#endif
