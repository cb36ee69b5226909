/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams whose program builds and parses FPDUs itself and leaves their CRCs to the worker (design assisted). The
 * worker writes the CRCs of sent FPDUs into the ring before it hands the bytes to TCP, so that a retransmission carries
 * the same bytes. It checks the CRCs of received FPDUs in the ring; the program may read an FPDU when it is complete. A
 * program that writes to the ring meanwhile spoils its own FPDUs and nothing else: lengths are copied, and the walk
 * over FPDUs never leaves the ring (iwarp/mpa_ring.h).
 */
#include "plane/stream.h"
#include "plane/worker_int.h"

#define MASK (IPC_STREAM_RING - 1)
/*
 * CRCs are computed at most this many bytes ahead of TCP, so that the bytes are still in the cache when TCP reads them
 */
#define AHEAD 65536u
_Static_assert(IPC_STREAM_RING > 2 * MPA_RING_FPDU_MAX, "an FPDU that waits for its end leaves room for more");

/* Reads where the program says that the FPDUs of a direction begin. False: it has not said so yet. */
static bool stream_says(const struct ipc_stream_fpdus *f, struct mpa_ring *r)
{
	/* acquire: the program writes the other fields before `how` */
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

bool stream_fpdus_out(struct rnicd_worker *w, struct stream *s, uint32_t tail, bool all, uint32_t *may)
{
	struct mpa_ring *r = &s->tx_fpdus;

	*may = tail;
	if (rn_likely(s->tx_sums == STREAM_SUMS_NOT)) {
		if (rn_likely(!stream_says(&s->mem->tx_fpdus, r)))
			return true;
		if (rn_unlikely(r->at - s->pos.tx_put > IPC_STREAM_RING || !mpa_step_good(r->step)))
			return false;
		if (r->at - s->pos.tx_put > tail - s->pos.tx_put)
			return true; /* the program has not put all bytes before the first FPDU yet */
		r->bytes = (uint8_t *)s->mem + IPC_STREAM_TX_OFF;
		s->tx_sums = STREAM_SUMS_ON;
	}
	if (s->tx_sums == STREAM_SUMS_END)
		return true;
	const uint32_t from = r->at;
	while ((int32_t)(r->at - s->pos.tx_put) < (int32_t)AHEAD) {
		if (mpa_ring_seal(r, tail) == MPA_RING_FPDU) {
			stream_stats(w, s)->sums_tx++;
			continue;
		}
		if (all)
			s->tx_sums = STREAM_SUMS_END;
		break;
	}
	w->tcp.rc.qp.stats.summed_tx += r->at - from;
	if (s->tx_sums == STREAM_SUMS_ON)
		*may = r->at;
	return true;
}

/* ---- received ---- */

/* Begins to check CRCs, if the program says that FPDUs begin at the end of the bytes that it may read (rx_shown). */
static void stream_sums_begin(struct stream *s)
{
	if (rn_likely(!stream_says(&s->mem->rx_fpdus, &s->rx_fpdus)) || s->rx_fpdus.at != s->rx_shown ||
	    !mpa_step_good(s->rx_fpdus.step))
		return;
	s->rx_fpdus.bytes = (uint8_t *)s->mem + IPC_STREAM_RX_OFF;
	s->rx_sums = STREAM_SUMS_ON;
	__atomic_store_n(&s->mem->rx_summed, s->rx_shown, __ATOMIC_RELAXED);
	/* release: a program that sees the bit finds rx_summed valid */
	__atomic_store_n(&s->mem->state, s->mem->state | IPC_STREAM_SUMS, __ATOMIC_RELEASE);
}

void stream_show(struct rnicd_worker *w, struct stream *s, bool all)
{
	struct mpa_ring *r = &s->rx_fpdus;
	enum mpa_ring_verdict v;

	if (rn_likely(s->rx_sums == STREAM_SUMS_NOT))
		stream_sums_begin(s);
	if (rn_unlikely(s->rx_sums == STREAM_SUMS_ON)) {
		const uint32_t from = r->at;
		while ((v = mpa_ring_check(r, s->pos.rx_tail)) == MPA_RING_FPDU)
			stream_stats(w, s)->sums_rx++;
		w->tcp.rc.qp.stats.summed_rx += r->at - from;
		__atomic_store_n(&s->mem->rx_summed, r->at, __ATOMIC_RELEASE);
		if (v == MPA_RING_BAD_CRC || all)
			s->rx_sums = STREAM_SUMS_END;
	}
	s->rx_shown = s->rx_sums == STREAM_SUMS_ON ? r->at : s->pos.rx_tail;
	__atomic_store_n(&s->mem->rx_tail, s->rx_shown, __ATOMIC_RELEASE);
}
