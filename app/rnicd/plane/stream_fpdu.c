/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams whose program makes and takes apart FPDUs and leaves their CRCs to the worker (design assisted): what goes
 * out gets its CRCs in the ring before TCP has it, so that a segment that is sent again is the same; what came in is
 * summed where it lies, and shown when an FPDU is whole. What the program writes meanwhile spoils its own FPDUs and
 * nothing else: lengths are copied, and no walk leaves the ring (iwarp/mpa_ring.h).
 */
#include "plane/stream.h"

#define MASK  (IPC_STREAM_RING - 1)
#define AHEAD 65536u /* bytes that are summed before they are given to TCP: they are still in the cache then */
_Static_assert(IPC_STREAM_RING > 2 * MPA_RING_FPDU_MAX, "an FPDU that waits for its end leaves room for more");

/* What the program says of a direction; false: nothing yet. */
static bool stream_says(const struct ipc_stream_fpdus *f, struct mpa_ring *r)
{
	/* acquire: the others were written before it */
	uint32_t how = __atomic_load_n(&f->how, __ATOMIC_ACQUIRE);

	if (rn_likely((how & IPC_STREAM_FPDUS) == 0))
		return false;
	r->step = __atomic_load_n(&f->step, __ATOMIC_RELAXED);
	r->at = __atomic_load_n(&f->at, __ATOMIC_RELAXED);
	r->base = __atomic_load_n(&f->base, __ATOMIC_RELAXED);
	r->mask = MASK;
	return true;
}

/* ---- sent ---- */

bool stream_fpdus_out(struct stream *s, struct rnicd_port_stats *st, uint32_t tail, bool all, uint32_t *may)
{
	struct mpa_ring *r = &s->tx_fpdus;

	*may = tail;
	if (rn_likely(s->tx_sums == STREAM_SUMS_NOT)) {
		if (rn_likely(!stream_says(&s->mem->tx_fpdus, r)))
			return true;
		if (rn_unlikely(r->at - s->tx_put > IPC_STREAM_RING || !mpa_step_good(r->step)))
			return false;
		if (r->at - s->tx_put > tail - s->tx_put)
			return true; /* the FPDUs are still to be put */
		r->bytes = (uint8_t *)s->mem + IPC_STREAM_TX_OFF;
		s->tx_sums = STREAM_SUMS_ON;
	}
	if (s->tx_sums == STREAM_SUMS_END)
		return true;
	while ((int32_t)(r->at - s->tx_put) < (int32_t)AHEAD) {
		if (mpa_ring_seal(r, tail) == MPA_RING_FPDU) {
			st->sums_tx++;
			continue;
		}
		if (all)
			s->tx_sums = STREAM_SUMS_END;
		break;
	}
	if (s->tx_sums == STREAM_SUMS_ON)
		*may = r->at;
	return true;
}

/* ---- received ---- */

/* The summing begins where the program says if that is the next byte to come: it sums what it has been shown. */
static void stream_sums_begin(struct stream *s)
{
	if (rn_likely(!stream_says(&s->mem->rx_fpdus, &s->rx_fpdus)) || s->rx_fpdus.at != s->rx_shown ||
	    !mpa_step_good(s->rx_fpdus.step))
		return;
	s->rx_fpdus.bytes = (uint8_t *)s->mem + IPC_STREAM_RX_OFF;
	s->rx_sums = STREAM_SUMS_ON;
	__atomic_store_n(&s->mem->rx_summed, s->rx_shown, __ATOMIC_RELAXED);
	/* release: a client that sees it finds rx_summed valid */
	__atomic_store_n(&s->mem->state, s->mem->state | IPC_STREAM_SUMS, __ATOMIC_RELEASE);
}

void stream_show(struct stream *s, struct rnicd_port_stats *st, bool all)
{
	struct mpa_ring *r = &s->rx_fpdus;
	enum mpa_ring_verdict v;

	if (rn_likely(s->rx_sums == STREAM_SUMS_NOT))
		stream_sums_begin(s);
	if (rn_unlikely(s->rx_sums == STREAM_SUMS_ON)) {
		while ((v = mpa_ring_check(r, s->rx_tail)) == MPA_RING_FPDU)
			st->sums_rx++;
		__atomic_store_n(&s->mem->rx_summed, r->at, __ATOMIC_RELEASE);
		if (v == MPA_RING_BAD_CRC || all)
			s->rx_sums = STREAM_SUMS_END;
	}
	s->rx_shown = s->rx_sums == STREAM_SUMS_ON ? r->at : s->rx_tail;
	__atomic_store_n(&s->mem->rx_tail, s->rx_shown, __ATOMIC_RELEASE);
}
