/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/port_tx.h"

#include <rte_ethdev.h>
#include <rte_ring.h>

#include "plane/capture.h"
#include "plane/frame.h"
#include "plane/port_host.h"
#include "plane/port_memif.h"
#include "plane/worker_int.h"

#define MASK     (PORT_TX_QUEUE - 1)
#define RETRY_NS (20 * RN_NS_PER_US) /* ns between two polls of a driver that has no room */

void port_tx_push(struct port_tx *t, struct rte_mbuf *m)
{
	if (rn_unlikely(t->n_paths != 0))
		t = port_tx_path(t, m);
	const struct rnicd_port_caps *caps = &t->port->caps;

	if (rn_unlikely(m->nb_segs > 1 && !caps->multi_seg)) {
		struct rte_mbuf *linear = frame_copy(t->port->pool, m);
		rte_pktmbuf_free(m);
		if (linear == NULL) {
			t->st->no_buffer++;
			return;
		}
		m = linear;
	}
	if (rn_unlikely(frame_csum_deferred(m) && !caps->tx_csum))
		frame_finish(m);
	if (rn_unlikely(t->tail - t->head == PORT_TX_QUEUE)) {
		t->st->tx_drops++;
		rte_pktmbuf_free(m);
		return;
	}
	t->fifo[t->tail++ & MASK] = m;
}

/* Lets frames past the shaper. Such frames count as being on the line, and the capture has seen them. */
static void admit(struct port_tx *t, uint64_t now)
{
	uint32_t n = t->tail - t->ready;

	if (shape_on(&t->shape)) {
		uint32_t len[PORT_TX_BURST];
		uint32_t waiting = n;
		n = rn_min_u32(n, PORT_TX_BURST);
		for (uint32_t i = 0; i < n; i++)
			len[i] = t->fifo[(t->ready + i) & MASK]->pkt_len;
		struct shape_ask ask = { .now = now, .since = t->asked, .len = len, .n = n };
		n = shape_admit(&t->shape, &ask, &t->wake);
		if (t->wake == RN_NEVER && n < waiting)
			t->wake = now;
	}
	struct capture *cap = port_capture(rn_likely(t->port->of == NULL) ? t->port : t->port->of);
	if (rn_likely(cap == NULL || t->through != NULL)) { /* the queue's owner captures the frames */
		t->ready += n;
		return;
	}
	for (; n > 0; n--) {
		if (!capture_frame(cap, t->fifo[t->ready++ & MASK], CAPTURE_OUT))
			t->st->capture_drops++;
	}
}

static uint32_t give(struct port_tx *t, struct rte_mbuf **m, uint32_t n)
{
	uint64_t bytes = 0;
	uint32_t lens[PORT_TX_BURST];

	/* read before the call: once the driver has a frame, the frame may be freed already */
	for (uint32_t i = 0; i < n; i++)
		lens[i] = m[i]->pkt_len;
	uint32_t sent;
	if (rn_unlikely(port_link(t->port) != RNICD_LINK_UP)) {
		rte_pktmbuf_free_bulk(m, n);
		t->st->tx_drops += n;
		return n;
	}
	if (t->port->wire != NULL) {
		sent = rte_ring_sp_enqueue_burst(t->port->peer->wire[t->queue], (void *const *)m, n, NULL);
	} else if (t->through == NULL && t->port->host != NULL) {
		return port_host_tx(t->port, t->queue, m, n);
	} else if (rn_likely(t->through == NULL)) {
		port_memif_enter(t->port, t->queue);
		sent = rte_eth_tx_burst(t->port->ethdev, t->queue, m, (uint16_t)n);
		port_memif_leave(t->port, t->queue);
	} else {
		for (uint32_t i = 0; i < n; i++)
			m[i]->port = t->port->index;
		sent = rte_ring_mp_enqueue_burst(t->through, (void *const *)m, n, NULL);
		if (sent != 0)
			bell_ring(t->queue);
		return sent; /* the queue's owner counts the frames */
	}
	for (uint32_t i = 0; i < sent; i++)
		bytes += lens[i];
	t->st->tx_packets += sent;
	t->st->tx_bytes += bytes;
	return sent;
}

static uint32_t through_impairment(struct port_tx *t, uint64_t now)
{
	struct rte_mbuf *out[PORT_TX_BURST];
	uint32_t done = 0, n;

	while (t->head != t->ready) {
		impair_in(t->impair, t->fifo[t->head++ & MASK], now, t->st);
		done++;
	}
	while ((n = impair_out(t->impair, now, out, PORT_TX_BURST, t->st)) != 0) {
		/* frames that the far end has no room for are lost, as on any network */
		uint32_t sent = give(t, out, n);
		rte_pktmbuf_free_bulk(out + sent, n - sent);
		t->st->tx_drops += n - sent;
		done += n;
	}
	t->wake = rn_min_u64(t->wake, impair_next(t->impair));
	return done;
}

static uint32_t to_driver(struct port_tx *t, uint64_t now)
{
	uint32_t done = 0;

	while (t->head != t->ready) {
		uint32_t at = t->head & MASK;
		uint32_t n = rn_min_u32(rn_min_u32(t->ready - t->head, PORT_TX_QUEUE - at), PORT_TX_BURST);
		uint32_t sent = give(t, &t->fifo[at], n);
		t->head += sent;
		done += sent;
		if (sent != n)
			break;
	}
	if (done != 0 || t->head == t->ready) {
		t->moved = now;
	} else if (now - t->moved > PORT_TX_STUCK_NS) {
		t->st->tx_drops += t->tail - t->head;
		port_tx_drop_all(t);
	}
	if (t->head != t->ready)
		t->wake = done != 0 ? now : now + RETRY_NS;
	return done;
}

uint32_t port_tx_flush(struct port_tx *t, uint64_t now)
{
	t->wake = RN_NEVER;
	if (rn_likely(t->head == t->tail && t->impair == NULL)) { /* no frame waits, as in most turns */
		t->asked = t->moved = now;
		return 0;
	}
	if (t->ready != t->tail)
		admit(t, now);
	if (t->ready == t->tail)
		t->asked = now;
	if (t->impair != NULL)
		return through_impairment(t, now);
	return to_driver(t, now);
}

void port_tx_drop_all(struct port_tx *t)
{
	for (; t->head != t->tail; t->head++)
		rte_pktmbuf_free(t->fifo[t->head & MASK]);
	t->ready = t->tail;
	t->wake = RN_NEVER;
}
