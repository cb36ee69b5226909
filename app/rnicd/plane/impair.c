/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/impair.h"

#include <rte_malloc.h>

#include "base/rn_rng.h"
#include "plane/frame.h"
#include "plane/resegment.h"

#define LIMIT_DEFAULT 4096u
#define GAP_DEFAULT   3u
#define HELD_MAX      16u
#define HELD_NS       RN_NS_PER_MS /* a frame held back for reordering leaves after this at the latest */

struct flying {
	struct rte_mbuf *m;
	uint64_t when;
};

/* Held back until `gap` later frames have been sent. */
struct held {
	struct rte_mbuf *m;
	uint64_t deadline;
	uint32_t gap;
};

struct impair {
	struct rnicd_impair_cfg cfg;
	struct rn_rng rng;
	struct resegment segments;
	struct rte_mempool *copies;
	uint64_t last; /* arrival time of the latest frame on the line, which keeps order */
	uint32_t mask;
	uint32_t head, tail; /* free running */
	uint32_t n_held;
	struct held held[HELD_MAX];
	struct flying line[];
};

bool impair_wanted(const struct rnicd_impair_cfg *cfg)
{
	return cfg->loss != 0 || cfg->duplicate != 0 || cfg->corrupt != 0 || cfg->reorder != 0 || cfg->delay_ns != 0 ||
	       cfg->jitter_ns != 0 || cfg->resegment != RNICD_RESEGMENT_OFF;
}

struct impair *impair_create(const struct rnicd_impair_cfg *cfg, uint32_t worker, struct rte_mempool *copies,
			     int socket)
{
	uint32_t limit = rte_align32pow2(cfg->limit != 0 ? cfg->limit : LIMIT_DEFAULT);
	struct impair *im = rte_zmalloc_socket("impair", sizeof(*im) + limit * sizeof(im->line[0]), RN_CACHE_LINE,
					       socket);

	if (im == NULL)
		return NULL;
	im->cfg = *cfg;
	if (im->cfg.reorder_gap == 0)
		im->cfg.reorder_gap = GAP_DEFAULT;
	im->mask = limit - 1;
	im->copies = copies;
	rn_rng_seed(&im->rng, cfg->seed + worker * UINT64_C(0x9e3779b97f4a7c15));
	/* a random sequence of its own, so that cutting does not shift the draws for frames */
	resegment_init(&im->segments, (enum rnicd_resegment)cfg->resegment, cfg->seed ^ worker, copies);
	return im;
}

void impair_destroy(struct impair *im)
{
	if (im == NULL)
		return;
	for (; im->head != im->tail; im->head++)
		rte_pktmbuf_free(im->line[im->head & im->mask].m);
	for (uint32_t i = 0; i < im->n_held; i++)
		rte_pktmbuf_free(im->held[i].m);
	resegment_end(&im->segments);
	rte_free(im);
}

/* Draws even if the answer is certain, so that one setting does not shift the draws of another. */
static bool chance(struct impair *im, uint32_t probability) { return rn_rng_u32(&im->rng) < probability; }

static void take_off(struct impair *im, struct rte_mbuf *m, uint64_t now, struct rnicd_port_stats *st)
{
	if (im->tail - im->head > im->mask) {
		st->impair_overflow++;
		rte_pktmbuf_free(m);
		return;
	}
	uint64_t jitter = im->cfg.jitter_ns == 0
				  ? 0
				  : (uint64_t)(((unsigned __int128)rn_rng_u64(&im->rng) * im->cfg.jitter_ns) >> 64);
	im->last = rn_max_u64(im->last, now + im->cfg.delay_ns + jitter);
	im->line[im->tail++ & im->mask] = (struct flying){ .m = m, .when = im->last };
}

/* Lets held frames go whose gap is used up (a frame has passed them) or whose time is over. */
static void release_held(struct impair *im, uint64_t now, bool passed, struct rnicd_port_stats *st)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < im->n_held; i++) {
		struct held *h = &im->held[i];
		if (passed && h->gap > 0)
			h->gap--;
		if (h->gap == 0 || now >= h->deadline)
			take_off(im, h->m, now, st);
		else
			im->held[kept++] = *h;
	}
	im->n_held = kept;
}

/* Inverts one bit behind the Ethernet header, in a copy: the frame may point into a client's memory. */
static struct rte_mbuf *corrupt(struct impair *im, struct rte_mbuf *m, struct rnicd_port_stats *st)
{
	uint32_t where = rn_rng_u32(&im->rng);
	struct rte_mbuf *copy = frame_copy(im->copies, m);

	rte_pktmbuf_free(m);
	if (copy == NULL) {
		st->no_buffer++;
		return NULL;
	}
	if (copy->pkt_len <= PKT_ETH_LEN)
		return copy;
	frame_finish(copy);
	uint32_t bit = (uint32_t)(((uint64_t)where * ((copy->pkt_len - PKT_ETH_LEN) * 8)) >> 32);
	rte_pktmbuf_mtod(copy, uint8_t *)[PKT_ETH_LEN + bit / 8] ^= (uint8_t)(1u << bit % 8);
	st->impair_corrupt++;
	return copy;
}

static void one_in(struct impair *im, struct rte_mbuf *m, uint64_t now, struct rnicd_port_stats *st)
{
	bool lost = chance(im, im->cfg.loss);
	bool twice = chance(im, im->cfg.duplicate);
	bool bent = chance(im, im->cfg.corrupt);
	bool late = chance(im, im->cfg.reorder);

	if (lost) {
		st->impair_lost++;
		rte_pktmbuf_free(m);
		return;
	}
	if (twice) {
		struct rte_mbuf *copy = frame_copy(im->copies, m);
		if (copy != NULL) {
			st->impair_dup++;
			take_off(im, copy, now, st);
		}
	}
	if (bent) {
		m = corrupt(im, m, st);
		if (m == NULL)
			return;
	}
	if (late && im->n_held < HELD_MAX) {
		st->impair_reorder++;
		im->held[im->n_held++] = (struct held){ .m = m, .deadline = now + HELD_NS, .gap = im->cfg.reorder_gap };
		return;
	}
	take_off(im, m, now, st);
	release_held(im, now, true, st);
}

void impair_in(struct impair *im, struct rte_mbuf *m, uint64_t now, struct rnicd_port_stats *st)
{
	struct rte_mbuf *out[RESEGMENT_OUT];

	if (im->segments.how == RNICD_RESEGMENT_OFF) {
		one_in(im, m, now, st);
		return;
	}
	uint32_t n = resegment_in(&im->segments, m, now, out, st);
	for (uint32_t i = 0; i < n; i++)
		one_in(im, out[i], now, st);
}

uint32_t impair_out(struct impair *im, uint64_t now, struct rte_mbuf **out, uint32_t max, struct rnicd_port_stats *st)
{
	uint32_t n = 0;
	struct rte_mbuf *due = resegment_due(&im->segments, now);

	if (due != NULL)
		one_in(im, due, now, st);
	if (im->n_held != 0)
		release_held(im, now, false, st);
	while (n < max && im->head != im->tail && im->line[im->head & im->mask].when <= now)
		out[n++] = im->line[im->head++ & im->mask].m;
	return n;
}

uint64_t impair_next(const struct impair *im)
{
	uint64_t next = im->head != im->tail ? im->line[im->head & im->mask].when : RN_NEVER;

	for (uint32_t i = 0; i < im->n_held; i++)
		next = rn_min_u64(next, im->held[i].deadline);
	return rn_min_u64(next, resegment_next(&im->segments));
}
