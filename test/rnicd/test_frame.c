/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * On a wire inside this process, frames carry CRC and checksum fields that are not computed yet ("open"). The fields
 * are computed when a frame leaves the process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "crc32c/crc32c.h"
#include "eal.h"
#include "iwarp/mpa_fpdu.h"
#include "plane/frame.h"

#define OPEN 0xee /* the octet that fills an open CRC */

static struct rte_mempool *pool;

static int setup(void **state)
{
	(void)state;
	if (!eal_for_test() || !frame_init())
		return -1;
	pool = pool_for_test("frames", 64, 2048);
	return pool == NULL ? -1 : 0;
}

/*
 * Makes FPDUs one behind the other, with ULPDUs of these lengths whose octets count up. Returns the number of octets.
 */
static uint32_t fpdus(uint8_t *at, const uint16_t *ulpdu, uint32_t n)
{
	uint32_t off = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t len = mpa_fpdu_len(ulpdu[i]);
		memset(at + off, 0, len);
		rn_store_be16(at + off, ulpdu[i]);
		for (uint32_t k = 0; k < ulpdu[i]; k++)
			at[off + MPA_LEN_FIELD + k] = (uint8_t)(k + i);
		memset(at + off + len - MPA_CRC_LEN, OPEN, MPA_CRC_LEN);
		off += len;
	}
	return off;
}

static struct rte_mbuf *frame_of(const uint16_t *ulpdu, uint32_t n)
{
	const struct pkt_flow f = {
		.l2 = { .dst = { 2, 0, 0, 0, 0, 2 }, .src = { 2, 0, 0, 0, 0, 1 }, .vlan = PKT_NO_VLAN },
		.src = pkt_addr_ip4(0x0a000001),
		.dst = pkt_addr_ip4(0x0a000002),
		.sport = 1,
		.dport = 2
	};
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	struct pkt_tcp_template t;

	assert_non_null(m);
	pkt_tcp_template_init(&t, &f);
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);
	uint32_t hdr = pkt_tcp_hdr_len(&t, 0), len = fpdus(frame + hdr, ulpdu, n);
	const struct pkt_tcp_seg s = { .seq = 5, .ack = 7, .wnd = 9, .flags = PKT_TCP_ACK, .payload_len = len };
	pkt_tcp_build(&t, &s, PKT_CSUM_PSEUDO, frame);
	m->data_len = (uint16_t)(hdr + len);
	m->pkt_len = hdr + len;
	m->ol_flags |= RTE_MBUF_F_TX_L4_MASK & RTE_MBUF_F_TX_TCP_CKSUM;
	frame_defer_crc(m, n);
	return m;
}

static void finished(const uint16_t *ulpdu, uint32_t n)
{
	struct rte_mbuf *m = frame_of(ulpdu, n);
	struct pkt p;
	uint32_t off = 0;

	assert_true(frame_crc_deferred(m));
	struct rte_mbuf *copy = frame_copy(pool, m);
	assert_non_null(copy);
	rte_pktmbuf_free(m);
	frame_finish(copy);
	assert_false(frame_crc_deferred(copy));
	assert_true(frame_good(copy));
	uint8_t *frame = rte_pktmbuf_mtod(copy, uint8_t *);
	assert_int_equal(pkt_parse(frame, copy->data_len, copy->pkt_len, &p), PKT_OK);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t len = mpa_fpdu_len(ulpdu[i]), sum = crc32c(0, frame + p.payload_off + off, len - MPA_CRC_LEN);
		assert_memory_equal(frame + p.payload_off + off + len - MPA_CRC_LEN, &sum, MPA_CRC_LEN);
		off += len;
	}
	assert_int_equal(off, p.payload_len);
	rte_pktmbuf_free(copy);
}

static void one_fpdu_gets_its_crc(void **state)
{
	(void)state;
	finished((const uint16_t[]){ 1000 }, 1);
}

static void each_fpdu_of_a_frame_gets_its_crc(void **state)
{
	(void)state;
	finished((const uint16_t[]){ 14, 78, 79, 80, 81 }, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_fpdu_gets_its_crc),
		cmocka_unit_test(each_fpdu_of_a_frame_gets_its_crc),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
