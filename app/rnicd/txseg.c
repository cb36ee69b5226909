/* SPDX-License-Identifier: BSD-3-Clause */
#include <rte_lcore.h>

#include "worker_int.h"

#define ZCOPY_MIN_DEFAULT 2048u
#define SMALL_ROOM        128u
#define SLICES_MAX        8u  /* more are most often short ones, between markers: copied */
#define CHAIN_MAX         WORKER_MAX_IOV /* more pieces than the receiver of a pair can take as slices are copied */

static void mark_csum(struct rte_mbuf *m, const struct conn *c)
{
	m->l2_len = c->tmpl.l2_len;
	m->l3_len = c->tmpl.l3_len;
	m->l4_len = PKT_TCP_LEN;
	m->ol_flags |= RTE_MBUF_F_TX_TCP_CKSUM | (c->tmpl.l3_len == PKT_IP4_LEN ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6);
}

static uint32_t put_header(struct rte_mbuf *m, struct conn *c, const struct tcpl_out *o, uint64_t payload_sum)
{
	bool offload = c->port->caps.tx_csum;
	struct pkt_tcp_seg s = { .seq = o->seq, .ack = o->ack, .wnd = o->wnd, .flags = o->flags, .opt_len = o->optlen,
				 .opt = o->opt, .payload_len = o->len, .payload_sum = payload_sum };
	uint32_t len = pkt_tcp_build(&c->tmpl, &s, offload ? PKT_CSUM_PSEUDO : PKT_CSUM_FULL,
				     rte_pktmbuf_mtod(m, uint8_t *));
	if (offload)
		mark_csum(m, c);
	return len;
}

/* Everything copied into one buffer, summed there where the port does not sum. */
static struct rte_mbuf *linear(struct conn *c, const struct tcpl_out *o)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(c->port->pool);
	if (rn_unlikely(m == NULL))
		return NULL;
	uint32_t hdr = pkt_tcp_hdr_len(&c->tmpl, o->optlen);
	uint8_t *payload = rte_pktmbuf_mtod_offset(m, uint8_t *, hdr);

	qp_conn_copy(&c->qc, o, payload);
	put_header(m, c, o, c->port->caps.tx_csum ? 0 : pkt_sum(payload, o->len));
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

static struct rte_mbuf *by_reference(struct rnicd_worker *w, struct conn *c, const struct rn_iov *piece)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(w->small_pool);
	if (rn_unlikely(m == NULL))
		return NULL;
	/* one reference each: the 16-bit count of a shared one could be driven around */
	struct rte_mbuf_ext_shared_info *shinfo = &mbuf_priv(m)->shinfo;
	shinfo->free_cb = ext_freed;
	shinfo->fcb_opaque = c->client;
	rte_mbuf_ext_refcnt_set(shinfo, 1);
	rte_pktmbuf_attach_extbuf(m, piece->base, RTE_BAD_IOVA, (uint16_t)piece->len, shinfo);
	m->data_len = (uint16_t)piece->len;
	m->pkt_len = piece->len;
	c->client->ext_taken++;
	return m;
}

/* Header and small pieces copied, large pieces as they lie in the client's memory. NULL: make it linear. */
static struct rte_mbuf *chain(struct rnicd_worker *w, struct conn *c, const struct tcpl_out *o, uint32_t zcopy_min)
{
	uint32_t hdr = pkt_tcp_hdr_len(&c->tmpl, o->optlen);
	struct rn_iov iov[SLICES_MAX];
	uint32_t n = qp_conn_slices(&c->qc, o, iov, SLICES_MAX);
	struct rte_mbuf *head = n == 0 ? NULL : rte_pktmbuf_alloc(c->port->pool);
	if (rn_unlikely(head == NULL))
		return NULL;
	struct rte_mbuf *last = head;
	bool sum_here = !c->port->caps.tx_csum;

	head->data_len = (uint16_t)hdr;
	head->pkt_len = hdr + o->len;
	for (uint32_t i = 0; i < n; i++) {
		const struct rn_iov *v = &iov[i];
		struct rte_mbuf *m = NULL;
		if (v->len >= zcopy_min) {
			m = by_reference(w, c, v);
			if (m == NULL)
				goto give_up;
		} else if (RTE_MBUF_HAS_EXTBUF(last) || v->len > rte_pktmbuf_tailroom(last)) {
			m = v->len > SMALL_ROOM ? NULL : rte_pktmbuf_alloc(w->small_pool);
			if (m == NULL)
				goto give_up;
		}
		if (m != NULL) {
			last->next = m;
			last = m;
			if (++head->nb_segs > CHAIN_MAX)
				goto give_up;
		}
		if (v->len < zcopy_min) {
			memcpy(rte_pktmbuf_mtod_offset(last, uint8_t *, last->data_len), v->base, v->len);
			last->data_len = (uint16_t)(last->data_len + v->len);
		}
	}
	put_header(head, c, o, sum_here ? pkt_sum_iov(iov, n) : 0);
	return head;

give_up:
	rte_pktmbuf_free(head);
	return NULL;
}

struct rte_mbuf *txseg_build(struct rnicd_worker *w, struct conn *c, const struct tcpl_out *o)
{
	uint32_t zcopy_min = rnicd.cfg.zcopy_min != 0 ? rnicd.cfg.zcopy_min : ZCOPY_MIN_DEFAULT;

	if (c->client != NULL && o->len >= zcopy_min && c->port->caps.zero_copy &&
	    !__atomic_load_n(&c->client->shares, __ATOMIC_RELAXED)) {
		struct rte_mbuf *m = chain(w, c, o, zcopy_min);
		if (m != NULL)
			return m;
	}
	return linear(c, o);
}
