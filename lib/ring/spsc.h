/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single-producer single-consumer ring in any memory, also between processes that do not trust each other.
 *
 * In the shared memory lie two free-running indices and the slots, nothing else: no pointer, no length, no geometry.
 * Each side keeps a private handle: the geometry given at attach, its own index, and the last checked index of the
 * other side. A side never reads its own index back from shared memory, so a side that writes garbage over the indices
 * harms only itself: the other side notices at its next refresh, latches SPSC_CORRUPT and from then on sees the ring as
 * empty (consumer) or full (producer). What lies in the slots stays untrusted: copy a slot, check the copy, use the
 * copy.
 *
 * A slot is a power of two of bytes. An entry may take several consecutive slots; it wraps from the last slot to the
 * first, so it is not contiguous there: fetch each slot by its number or copy with spsc_cons_copy().
 *
 * Threads: one thread at a time per handle. The two sides may be in different threads or processes.
 * Memory: the caller owns it; it must stay mapped while a handle is in use. Zeroed memory is an empty ring.
 */
#ifndef RING_SPSC_H
#define RING_SPSC_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/rn_base.h"

enum spsc_verdict {
	SPSC_OK = 0,
	SPSC_BAD_GEOMETRY, /* slots or slot size not a power of two */
	SPSC_BAD_RANGE,    /* the ring does not lie inside the region */
	SPSC_BAD_ALIGN,    /* the ring does not start on a cache line */
	SPSC_CORRUPT,      /* the other side's index is impossible */
};

/* The shared part. The slots follow it. */
struct spsc_hdr {
	RN_ALIGNED(RN_CACHE_LINE) uint32_t prod; /* slots published since ever; written by the producer only */
	/* bits set by the consumer, which wants a notification of the next publication; the ring's user defines them */
	uint32_t asked;
	RN_ALIGNED(RN_CACHE_LINE) uint32_t cons; /* slots released since ever; written by the consumer only */
};

_Static_assert(sizeof(struct spsc_hdr) == 2 * RN_CACHE_LINE, "shared between processes");
_Static_assert(offsetof(struct spsc_hdr, cons) == RN_CACHE_LINE, "shared between processes");

/* Where a ring lies, and its shape. The attaching side trusts the source of these numbers, or has copied them. */
struct spsc_place {
	void *region;         /* start of a mapping in this process */
	uint64_t region_size; /* bytes */
	uint64_t off;         /* bytes from the start of the region to struct spsc_hdr; any value is checked */
	uint32_t nslots;
	uint32_t slot_size; /* bytes */
};

struct spsc_prod {
	struct spsc_hdr *hdr;
	uint8_t *slots;
	uint32_t mask;             /* nslots - 1 */
	uint32_t shift;            /* log2 of the slot size */
	uint32_t own;              /* the index that was last published */
	uint32_t seen;             /* the consumer's index when last refreshed */
	enum spsc_verdict verdict; /* SPSC_OK or, for good, SPSC_CORRUPT */
};

struct spsc_cons {
	struct spsc_hdr *hdr;
	const uint8_t *slots;
	uint32_t mask;
	uint32_t shift;
	uint32_t own;  /* the index that was last released */
	uint32_t seen; /* the producer's index when last refreshed */
	enum spsc_verdict verdict;
};

/* Bytes that a ring takes; 0 when the geometry is not allowed. */
uint64_t spsc_size(uint32_t nslots, uint32_t slot_size);

/*
 * Fills the handle. Goes on from the indices found in the memory (an impossible pair is SPSC_CORRUPT), so a side can
 * be attached again by the next user. On any verdict but SPSC_OK the handle is not usable.
 */
RN_NODISCARD enum spsc_verdict spsc_prod_attach(struct spsc_prod *p, const struct spsc_place *at);
RN_NODISCARD enum spsc_verdict spsc_cons_attach(struct spsc_cons *c, const struct spsc_place *at);

/* Loads the consumer's index and checks it: it may only move forward, and not past what was published. */
static inline void spsc_prod_refresh(struct spsc_prod *p)
{
	/* Acquire: pairs with the release in spsc_cons_release(); the slots are no longer being read. */
	uint32_t cons = __atomic_load_n(&p->hdr->cons, __ATOMIC_ACQUIRE);

	if (rn_unlikely(p->own - cons > p->own - p->seen || p->verdict != SPSC_OK)) {
		p->verdict = SPSC_CORRUPT;
		p->seen = p->own - p->mask - 1;
		return;
	}
	p->seen = cons;
}

/*
 * How many slots may be written now. Reads the shared index only when fewer than `want` are known to be free. When the
 * result is below `want`, p->verdict tells a full ring from a corrupt one.
 */
static inline uint32_t spsc_prod_free(struct spsc_prod *p, uint32_t want)
{
	uint32_t n = p->mask + 1 - (p->own - p->seen);

	if (n >= want)
		return n;
	spsc_prod_refresh(p);
	return p->mask + 1 - (p->own - p->seen);
}

/* The i-th slot after those published, i < spsc_prod_free(). To be written in place; aligned to its size up to 64. */
static inline void *spsc_prod_slot(const struct spsc_prod *p, uint32_t i)
{
	return p->slots + ((size_t)((p->own + i) & p->mask) << p->shift);
}

/* Copies len bytes into consecutive slots from the i-th on, wrapping. The slots must be free. */
static inline void spsc_prod_copy(const struct spsc_prod *p, uint32_t i, const void *src, size_t len)
{
	size_t to_end = (size_t)(p->mask + 1 - ((p->own + i) & p->mask)) << p->shift;
	size_t first = len < to_end ? len : to_end;

	memcpy(spsc_prod_slot(p, i), src, first);
	if (rn_unlikely(first < len))
		memcpy(p->slots, (const uint8_t *)src + first, len - first);
}

/*
 * Where the caller writes the i-th slot and the n - 1 after it: in the ring, or in `aside`, n slots of the caller's,
 * when they wrap. Writing in place avoids a copy right after small stores, which is slow: its wide loads wait for all
 * of them.
 */
static inline void *spsc_prod_place(const struct spsc_prod *p, uint32_t i, uint32_t n, void *aside)
{
	return rn_likely(((p->own + i) & p->mask) + n <= p->mask + 1) ? spsc_prod_slot(p, i) : aside;
}

/*
 * The caller has written `len` bytes at the place that spsc_prod_place() returned. Copies them into the ring if that
 * was `aside`.
 */
static inline void spsc_prod_placed(const struct spsc_prod *p, uint32_t i, const void *place, const void *aside,
				    size_t len)
{
	if (rn_unlikely(place == aside))
		spsc_prod_copy(p, i, aside, len);
}

/*
 * The n slots from the i-th on will be written soon: fetches their cache lines, which lie in the consumer's core. Only
 * slots that are known to be free: the consumer may be about to read any other.
 */
static inline void spsc_prod_ahead(const struct spsc_prod *p, uint32_t i, uint32_t n)
{
	if (rn_unlikely(i + n > p->mask + 1 - (p->own - p->seen)))
		return;
	for (uint32_t k = i; k < i + n; k++)
		rn_prefetch_write(spsc_prod_slot(p, k));
}

/* Hands the next n slots to the consumer, n <= spsc_prod_free(). */
static inline void spsc_prod_publish(struct spsc_prod *p, uint32_t n)
{
	p->own += n;
	/* Release: pairs with the acquire in spsc_cons_refresh(); the slots are written before. */
	__atomic_store_n(&p->hdr->prod, p->own, __ATOMIC_RELEASE);
}

/*
 * For a producer that notifies its consumer by other means. After a publication: the bits that the consumer has set;
 * for each of them it wants a notification.
 */
static inline uint32_t spsc_prod_asked(const struct spsc_prod *p)
{
	/* Partner: spsc_cons_ask(). Either the producer sees the bit, or the consumer the slots. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&p->hdr->asked, __ATOMIC_RELAXED);
}

/*
 * The consumer asks for a notification. The consumer must look at the ring once more afterwards: the producer may have
 * been faster.
 */
static inline void spsc_cons_ask(struct spsc_cons *c, uint32_t bits)
{
	__atomic_fetch_or(&c->hdr->asked, bits, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void spsc_cons_unask(struct spsc_cons *c, uint32_t bits)
{
	__atomic_fetch_and(&c->hdr->asked, ~bits, __ATOMIC_RELAXED);
}

/* Loads the producer's index and checks it: it may only move forward, and not more than a ring ahead. */
static inline void spsc_cons_refresh(struct spsc_cons *c)
{
	/* Acquire: pairs with the release in spsc_prod_publish(); the slots' contents are there. */
	uint32_t prod = __atomic_load_n(&c->hdr->prod, __ATOMIC_ACQUIRE);
	uint32_t n = prod - c->own;

	if (rn_unlikely(n > c->mask + 1 || n < c->seen - c->own || c->verdict != SPSC_OK)) {
		c->verdict = SPSC_CORRUPT;
		c->seen = c->own;
		return;
	}
	c->seen = prod;
}

/*
 * How many slots may be read now. Reads the shared index only when fewer than `want` are known to be there. When the
 * result is below `want`, c->verdict tells an empty ring from a corrupt one.
 */
static inline uint32_t spsc_cons_avail(struct spsc_cons *c, uint32_t want)
{
	uint32_t n = c->seen - c->own;

	if (n >= want)
		return n;
	spsc_cons_refresh(c);
	return c->seen - c->own;
}

/* The i-th unreleased slot, i < spsc_cons_avail(). A producer that is not trusted may still be changing it. */
static inline const void *spsc_cons_slot(const struct spsc_cons *c, uint32_t i)
{
	return c->slots + ((size_t)((c->own + i) & c->mask) << c->shift);
}

/* Copies len bytes out of consecutive slots from the i-th on, wrapping. The slots must be available. */
static inline void spsc_cons_copy(const struct spsc_cons *c, uint32_t i, void *dst, size_t len)
{
	size_t to_end = (size_t)(c->mask + 1 - ((c->own + i) & c->mask)) << c->shift;
	size_t first = len < to_end ? len : to_end;

	memcpy(dst, spsc_cons_slot(c, i), first);
	if (rn_unlikely(first < len))
		memcpy((uint8_t *)dst + first, c->slots, len - first);
}

/* Gives the first n slots back to the producer, n <= spsc_cons_avail(). */
static inline void spsc_cons_release(struct spsc_cons *c, uint32_t n)
{
	c->own += n;
	/* Release: pairs with the acquire in spsc_prod_refresh(); the slots have been read. */
	__atomic_store_n(&c->hdr->cons, c->own, __ATOMIC_RELEASE);
}

#endif
