/* SPDX-License-Identifier: BSD-3-Clause */
#include <rte_lcore.h>

#include "plane/frame.h"
#include "plane/worker_int.h"

#define ZCOPY_MIN_DEFAULT 2048u
#define SMALL_ROOM        128u
#define SLICES            8u             /* more slices are most often short pieces between markers, which are copied */
#define CHAIN_MAX         WORKER_MAX_IOV /* more pieces than the receiver of a pair can take as slices are copied */

static inline struct rte_mbuf *buffer_for(const struct conn *c, struct txseg_buffers *b)
{
	if (b->n == 0) {
		struct rte_mempool *pool = c->way.port->pool;
		if (!b->more || rte_pktmbuf_alloc_bulk(pool, b->m, TXSEG_AHEAD) != 0) {
			b->more = true;
			return rte_pktmbuf_alloc(pool);
		}
		b->n = TXSEG_AHEAD;
	}
	return b->m[--b->n];
}

/* Copies headers and payload into one buffer, and computes the checksum unless the port does. */
static struct rte_mbuf *linear(struct rnicd_worker *w, struct conn *c, const struct tcpl_out *o,
			       struct txseg_buffers *b)
{
	struct rte_mbuf *m = buffer_for(c, b);
	if (rn_unlikely(m == NULL))
		return NULL;
	uint32_t hdr = pkt_tcp_hdr_len(&c->way.tmpl, o->optlen);
	uint8_t *payload = rte_pktmbuf_mtod_offset(m, uint8_t *, hdr);

	frame_defer_crc(m, rc_tcp_copy(&w->tcp, &c->qc, o, payload, way_crc(&c->way)));
	uint64_t sum = 0;
	if (!way_defers(&c->way)) {
		sum = pkt_sum(payload, o->len);
		w->tcp.rc.qp.stats.summed_tx += o->len;
	}
	way_header(&c->way, o, sum, m);
	m->data_len = (uint16_t)(hdr + o->len);
	m->pkt_len = hdr + o->len;
	return m;
}

/*
 * Runs in whichever thread frees the packet. The counter belongs to that thread's lcore: no atomic read-modify-write;
 * the release pairs with the acquire in worker_client_quiet().
 */
static void ext_freed(void *addr, void *opaque)
{
	struct worker_client *client = opaque;
	unsigned int lcore = rte_lcore_id();
	uint64_t *n = &client->ext_freed[lcore < RN_ARRAY_LEN(client->ext_freed) ? lcore : 0].n;

	(void)addr;
	__atomic_store_n(n, *n + 1, __ATOMIC_RELEASE);
}

bool txseg_is_reference(const struct rte_mbuf *m)
{
	for (; m != NULL; m = m->next)
		if (RTE_MBUF_HAS_EXTBUF(m) && m->shinfo->free_cb == ext_freed)
			return true;
	return false;
}

/* Each buffer gets a reference count of its own: a shared 16-bit count could overflow. */
static void refer(struct conn *c, struct rte_mbuf *m, const struct rn_iov *piece)
{
	struct rte_mbuf_ext_shared_info *shinfo = &mbuf_priv(m)->shinfo;

	shinfo->free_cb = ext_freed;
	shinfo->fcb_opaque = c->client;
	rte_mbuf_ext_refcnt_set(shinfo, 1);
	rte_pktmbuf_attach_extbuf(m, piece->base, RTE_BAD_IOVA, (uint16_t)piece->len, shinfo);
	m->data_len = (uint16_t)piece->len;
	m->pkt_len = piece->len;
	c->client->ext_taken++;
}

static void append(struct rnicd_worker *w, struct rte_mbuf *m, const struct rn_iov *piece)
{
	w->tcp.rc.qp.stats.copied_tx += piece->len;
	memcpy(rte_pktmbuf_mtod_offset(m, uint8_t *, m->data_len), piece->base, piece->len);
	m->data_len = (uint16_t)(m->data_len + piece->len);
}

/* Nearly every segment: headers, one slice of the client's memory, and an FPDU's pad and CRC. NULL: not possible. */
static struct rte_mbuf *three(struct rnicd_worker *w, struct conn *c, uint32_t hdr, const struct rn_iov iov[3])
{
	struct rte_mbuf *m[3];

	if (hdr + iov[0].len > SMALL_ROOM || iov[2].len > SMALL_ROOM ||
	    rte_pktmbuf_alloc_bulk(w->small_pool, m, 3) != 0)
		return NULL;
	m[0]->data_len = (uint16_t)hdr;
	append(w, m[0], &iov[0]);
	refer(c, m[1], &iov[1]);
	append(w, m[2], &iov[2]);
	m[0]->next = m[1];
	m[1]->next = m[2];
	m[0]->nb_segs = 3;
	return m[0];
}

/* As three(), for any list of slices. */
static struct rte_mbuf *linked(struct rnicd_worker *w, struct conn *c, uint32_t hdr, const struct rn_iov *iov,
			       uint32_t n, uint32_t zcopy_min)
{
	struct rte_mbuf *head = rte_pktmbuf_alloc(c->way.port->pool), *last = head;

	if (rn_unlikely(head == NULL))
		return NULL;
	head->data_len = (uint16_t)hdr;
	for (uint32_t i = 0; i < n; i++) {
		const struct rn_iov *v = &iov[i];
		bool large = v->len >= zcopy_min;
		if (large || RTE_MBUF_HAS_EXTBUF(last) || v->len > rte_pktmbuf_tailroom(last)) {
			struct rte_mbuf *m = !large && v->len > SMALL_ROOM ? NULL : rte_pktmbuf_alloc(w->small_pool);
			if (m == NULL)
				goto give_up;
			last->next = m;
			last = m;
			if (++head->nb_segs > CHAIN_MAX)
				goto give_up;
		}
		if (large)
			refer(c, last, v);
		else
			append(w, last, v);
	}
	return head;

give_up:
	rte_pktmbuf_free(head);
	return NULL;
}

/* Header and small pieces copied, large pieces as they lie in the client's memory. NULL: make it linear. */
static struct rte_mbuf *chain(struct rnicd_worker *w, struct conn *c, const struct tcpl_out *o, uint32_t zcopy_min)
{
	uint32_t hdr = pkt_tcp_hdr_len(&c->way.tmpl, o->optlen);
	struct rn_iov iov[SLICES];
	struct rte_mbuf *head = NULL;
	bool crc_due;
	uint32_t n = rc_tcp_slices(&c->qc, o, iov, SLICES, &crc_due);

	if (n == 0 || (crc_due && !way_inside(&c->way)))
		return NULL;
	if (rn_likely(n == 3 && iov[1].len >= zcopy_min))
		head = three(w, c, hdr, iov);
	if (rn_unlikely(head == NULL))
		head = linked(w, c, hdr, iov, n, zcopy_min);
	if (rn_unlikely(head == NULL))
		return NULL;
	head->pkt_len = hdr + o->len;
	way_header(&c->way, o, 0, head);
	frame_defer_crc(head, crc_due);
	return head;
}

/* The client may write to its memory at any time. So no checksum is computed over bytes that are read again later. */
static bool by_reference(const struct conn *c, const struct tcpl_out *o, uint32_t zcopy_min)
{
	return c->client != NULL && o->len >= zcopy_min && c->way.port->caps.zero_copy &&
	       (way_inside(&c->way) || (c->way.port->caps.tx_csum && !rc_agreed(&c->qc.rc)->crc)) &&
	       !__atomic_load_n(&c->client->shares, __ATOMIC_RELAXED);
}

struct rte_mbuf *txseg_build(struct rnicd_worker *w, struct conn *c, const struct tcpl_out *o, struct txseg_buffers *b)
{
	uint32_t zcopy_min = rnicd.cfg.zcopy_min != 0 ? rnicd.cfg.zcopy_min : ZCOPY_MIN_DEFAULT;

	if (by_reference(c, o, zcopy_min)) {
		struct rte_mbuf *m = chain(w, c, o, zcopy_min);
		if (m != NULL)
			return m;
	}
	c->way.tx->st->tx_copied += o->len >= zcopy_min;
	return linear(w, c, o, b);
}
