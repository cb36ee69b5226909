/* SPDX-License-Identifier: BSD-3-Clause */
/* The smallest EAL that has packet buffers, and frames to fill them with. */
#ifndef TEST_RNICD_EAL_H
#define TEST_RNICD_EAL_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_mbuf.h>

#include "plane/worker_int.h"

static inline bool eal_for_test(void)
{
	static char prefix[64], dir[128];
	static char *argv[] = {
		"test",         "--no-huge",           "-m",   "64", "--no-shconf", "--no-pci", "--no-telemetry",
		"--lcores=0@0", "--log-level=*:error", prefix, NULL
	};

	snprintf(prefix, sizeof(prefix), "--file-prefix=test_rnicd%d", (int)getpid());
	if (rte_eal_init((int)RN_ARRAY_LEN(argv) - 1, argv) < 0)
		return false;
	snprintf(dir, sizeof(dir), "%s", rte_eal_get_runtime_dir());
	rmdir(dir);
	return true;
}

static inline struct rte_mempool *pool_for_test(const char *name, uint32_t n, uint16_t room)
{
	return rte_pktmbuf_pool_create(name, n, 0, MBUF_PRIV_SIZE, (uint16_t)(RTE_PKTMBUF_HEADROOM + room), 0);
}

/* A TCP segment with `payload` bytes that count up; its sequence number identifies it. */
static inline struct rte_mbuf *frame_for_test(struct rte_mempool *pool, uint32_t seq, uint32_t payload)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	if (m == NULL)
		return NULL;
	struct pkt_flow f = { .l2 = { .dst = { 2, 0, 0, 0, 0, 2 }, .src = { 2, 0, 0, 0, 0, 1 }, .vlan = PKT_NO_VLAN },
			      .src = pkt_addr_ip4(0x0a000001),
			      .dst = pkt_addr_ip4(0x0a000002),
			      .sport = 1,
			      .dport = 2 };
	struct pkt_tcp_template t;
	pkt_tcp_template_init(&t, &f);
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);
	uint32_t hdr = pkt_tcp_hdr_len(&t, 0);
	for (uint32_t i = 0; i < payload; i++)
		frame[hdr + i] = (uint8_t)(seq + i);
	struct pkt_tcp_seg s = {
		.seq = seq, .flags = PKT_TCP_ACK, .payload_len = payload, .payload_sum = pkt_sum(frame + hdr, payload)
	};
	pkt_tcp_build(&t, &s, PKT_CSUM_FULL, frame);
	m->data_len = (uint16_t)(hdr + payload);
	m->pkt_len = hdr + payload;
	return m;
}

static inline uint32_t frame_seq(const struct rte_mbuf *m)
{
	return rn_load_be32(rte_pktmbuf_mtod_offset(m, const uint8_t *, 38));
}

static inline bool frame_good(const struct rte_mbuf *m)
{
	struct pkt p;
	if (pkt_parse(rte_pktmbuf_mtod(m, const uint8_t *), m->data_len, m->pkt_len, &p) != PKT_OK)
		return false;
	struct rn_iov iov = { .base = rte_pktmbuf_mtod_offset(m, uint8_t *, p.l4_off), .len = p.l4_len };
	return pkt_l4_csum_ok(&p, &iov, 1);
}

#endif
