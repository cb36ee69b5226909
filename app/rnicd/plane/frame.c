/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/frame.h"

#include <rte_mbuf_dyn.h>

#include "crc32c/crc32c.h"
#include "iwarp/mpa_fpdu.h"

uint64_t frame_crc_flag, frame_crcs_flag;

bool frame_init(void)
{
	static const struct rte_mbuf_dynflag one = { .name = "rnicd_crc_deferred" },
					     many = { .name = "rnicd_crcs_deferred" };
	int a = rte_mbuf_dynflag_register(&one), b = rte_mbuf_dynflag_register(&many);

	if (a < 0 || b < 0)
		return false;
	frame_crc_flag = UINT64_C(1) << a;
	frame_crcs_flag = UINT64_C(1) << b;
	return true;
}

uint32_t frame_iov(const struct rte_mbuf *m, uint32_t off, uint32_t len, struct rn_iov *iov, uint32_t max)
{
	uint32_t n = 0;

	for (; m != NULL && len > 0; m = m->next) {
		if (off >= m->data_len) {
			off -= m->data_len;
			continue;
		}
		if (n == max)
			return UINT32_MAX;
		uint32_t take = rn_min_u32(m->data_len - off, len);
		iov[n++] = (struct rn_iov){ .base = rte_pktmbuf_mtod_offset(m, uint8_t *, off), .len = take };
		len -= take;
		off = 0;
	}
	return len == 0 ? n : UINT32_MAX;
}

static void fpdu_finish(uint8_t *fpdu, uint32_t len)
{
	uint32_t sum = crc32c(0, fpdu, len - MPA_CRC_LEN);

	memcpy(fpdu + len - MPA_CRC_LEN, &sum, MPA_CRC_LEN); /* RFC 5044, 4.4: least octet first */
}

static void crcs_finish(uint8_t *fpdu, uint32_t left)
{
	while (left > MPA_LEN_FIELD + MPA_CRC_LEN) {
		uint32_t len = mpa_fpdu_len(rn_load_be16(fpdu));
		if (len > left)
			return;
		fpdu_finish(fpdu, len);
		fpdu += len;
		left -= len;
	}
}

void frame_finish(struct rte_mbuf *m)
{
	struct pkt p;
	struct rn_iov iov[FRAME_MAX_SEGS];
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);

	if (!frame_csum_deferred(m))
		return;
	const uint64_t crc = m->ol_flags & (frame_crc_flag | frame_crcs_flag);
	m->ol_flags &= ~(RTE_MBUF_F_TX_L4_MASK | crc);
	if (pkt_parse(frame, m->data_len, m->pkt_len, &p) != PKT_OK)
		return;
	if (crc & frame_crcs_flag)
		crcs_finish(frame + p.payload_off, p.payload_len);
	else if (crc != 0)
		fpdu_finish(frame + p.payload_off, p.payload_len);
	uint32_t n = frame_iov(m, p.l4_off, p.l4_len, iov, FRAME_MAX_SEGS);
	if (n != UINT32_MAX)
		pkt_l4_csum_finish(&p, frame, iov, n);
}

struct rte_mbuf *frame_copy(struct rte_mempool *pool, const struct rte_mbuf *m)
{
	struct rte_mbuf *copy = rte_pktmbuf_alloc(pool);
	if (copy == NULL)
		return NULL;
	uint8_t *dst = (uint8_t *)rte_pktmbuf_append(copy, 0);
	if (m->pkt_len > rte_pktmbuf_tailroom(copy)) {
		rte_pktmbuf_free(copy);
		return NULL;
	}
	for (const struct rte_mbuf *s = m; s != NULL; s = s->next) {
		memcpy(dst, rte_pktmbuf_mtod(s, const uint8_t *), s->data_len);
		dst += s->data_len;
	}
	copy->data_len = (uint16_t)m->pkt_len;
	copy->pkt_len = m->pkt_len;
	copy->port = m->port;
	copy->ol_flags = m->ol_flags & (RTE_MBUF_F_TX_L4_MASK | RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IPV6 |
					frame_crc_flag | frame_crcs_flag);
	copy->tx_offload = m->tx_offload;
	return copy;
}
