/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pkt/pkt_igmp.h"

/* Captured from Linux: queries of a bridge in versions 3 and 2, and a host that joins 239.1.1.1 and leaves it. */
static const uint8_t joins3[] = { 0x01, 0x00, 0x5e, 0x00, 0x00, 0x16, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00,
				  0x46, 0xc0, 0x00, 0x28, 0x00, 0x00, 0x40, 0x00, 0x01, 0x02, 0x41, 0xf8, 0xc0, 0x00,
				  0x02, 0x01, 0xe0, 0x00, 0x00, 0x16, 0x94, 0x04, 0x00, 0x00, 0x22, 0x00, 0xe9, 0xfb,
				  0x00, 0x00, 0x00, 0x01, 0x04, 0x00, 0x00, 0x00, 0xef, 0x01, 0x01, 0x01 };
static const uint8_t leaves3[] = { 0x01, 0x00, 0x5e, 0x00, 0x00, 0x16, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00,
				   0x46, 0xc0, 0x00, 0x28, 0x00, 0x00, 0x40, 0x00, 0x01, 0x02, 0x41, 0xf8, 0xc0, 0x00,
				   0x02, 0x01, 0xe0, 0x00, 0x00, 0x16, 0x94, 0x04, 0x00, 0x00, 0x22, 0x00, 0xea, 0xfb,
				   0x00, 0x00, 0x00, 0x01, 0x03, 0x00, 0x00, 0x00, 0xef, 0x01, 0x01, 0x01 };
static const uint8_t query3[] = { 0x01, 0x00, 0x5e, 0x00, 0x00, 0x01, 0xde, 0x97, 0x7e, 0x89, 0x6e, 0x63, 0x08,
				  0x00, 0x46, 0xc0, 0x00, 0x24, 0x00, 0x00, 0x40, 0x00, 0x01, 0x02, 0x04, 0x13,
				  0x00, 0x00, 0x00, 0x00, 0xe0, 0x00, 0x00, 0x01, 0x94, 0x04, 0x00, 0x00, 0x11,
				  0x64, 0xec, 0x1e, 0x00, 0x00, 0x00, 0x00, 0x02, 0x7d, 0x00, 0x00 };
static const uint8_t query3_group[] = { 0x01, 0x00, 0x5e, 0x01, 0x01, 0x01, 0xde, 0x97, 0x7e, 0x89, 0x6e, 0x63, 0x08,
					0x00, 0x46, 0xc0, 0x00, 0x24, 0x00, 0x00, 0x40, 0x00, 0x01, 0x02, 0xf4, 0x11,
					0x00, 0x00, 0x00, 0x00, 0xef, 0x01, 0x01, 0x01, 0x94, 0x04, 0x00, 0x00, 0x11,
					0x0a, 0xfc, 0x75, 0xef, 0x01, 0x01, 0x01, 0x02, 0x7d, 0x00, 0x00 };
static const uint8_t query2[] = { 0x01, 0x00, 0x5e, 0x00, 0x00, 0x01, 0xde, 0x97, 0x7e, 0x89, 0x6e, 0x63,
				  0x08, 0x00, 0x46, 0xc0, 0x00, 0x20, 0x00, 0x00, 0x40, 0x00, 0x01, 0x02,
				  0x04, 0x17, 0x00, 0x00, 0x00, 0x00, 0xe0, 0x00, 0x00, 0x01, 0x94, 0x04,
				  0x00, 0x00, 0x11, 0x64, 0xee, 0x9b, 0x00, 0x00, 0x00, 0x00 };
static const uint8_t query2_group[] = { 0x01, 0x00, 0x5e, 0x01, 0x01, 0x01, 0xde, 0x97, 0x7e, 0x89, 0x6e, 0x63,
					0x08, 0x00, 0x46, 0xc0, 0x00, 0x20, 0x00, 0x00, 0x40, 0x00, 0x01, 0x02,
					0xf4, 0x15, 0x00, 0x00, 0x00, 0x00, 0xef, 0x01, 0x01, 0x01, 0x94, 0x04,
					0x00, 0x00, 0x11, 0x0a, 0xfe, 0xf2, 0xef, 0x01, 0x01, 0x01 };
static const uint8_t report2[] = { 0x01, 0x00, 0x5e, 0x01, 0x01, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01,
				   0x08, 0x00, 0x46, 0xc0, 0x00, 0x20, 0x00, 0x00, 0x40, 0x00, 0x01, 0x02,
				   0x32, 0x14, 0xc0, 0x00, 0x02, 0x01, 0xef, 0x01, 0x01, 0x01, 0x94, 0x04,
				   0x00, 0x00, 0x16, 0x00, 0xf9, 0xfc, 0xef, 0x01, 0x01, 0x01 };
static const uint8_t leave2[] = { 0x01, 0x00, 0x5e, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01,
				  0x08, 0x00, 0x46, 0xc0, 0x00, 0x20, 0x00, 0x00, 0x40, 0x00, 0x01, 0x02,
				  0x42, 0x14, 0xc0, 0x00, 0x02, 0x01, 0xe0, 0x00, 0x00, 0x02, 0x94, 0x04,
				  0x00, 0x00, 0x17, 0x00, 0xf8, 0xfc, 0xef, 0x01, 0x01, 0x01 };

static const uint8_t mac[6] = { 2, 0, 0, 0, 0, 1 };

/* Makes a frame of query2's headers and this message, with the right checksums. */
static uint32_t frame_of(uint8_t *out, const uint8_t *m, uint32_t len, bool alert, uint32_t dst, uint8_t ttl)
{
	const uint32_t hdr = alert ? 24 : 20;
	uint16_t sum;

	memset(out, 0, 14 + hdr + len);
	memcpy(out, query2, 14 + 20);
	out[14] = (uint8_t)(0x40 | hdr / 4);
	rn_store_be16(out + 16, (uint16_t)(hdr + len));
	out[22] = ttl;
	rn_store_be32(out + 30, dst);
	out[24] = out[25] = 0;
	if (alert)
		memcpy(out + 34, "\x94\x04\0", 4);
	sum = (uint16_t)~pkt_sum_fold(pkt_sum(out + 14, hdr));
	memcpy(out + 24, &sum, 2);
	memcpy(out + 14 + hdr, m, len);
	memset(out + 14 + hdr + 2, 0, 2);
	sum = (uint16_t)~pkt_sum_fold(pkt_sum(out + 14 + hdr, len));
	memcpy(out + 14 + hdr + 2, &sum, 2);
	return 14 + hdr + len;
}

static enum pkt_igmp_verdict parse(const uint8_t *frame, uint32_t len, struct pkt_igmp_query *q)
{
	uint8_t *exact = malloc(len);
	struct pkt p;

	memcpy(exact, frame, len);
	assert_int_equal(pkt_parse(exact, len, len, &p), PKT_OK);
	assert_int_equal(p.kind, PKT_KIND_IGMP);
	enum pkt_igmp_verdict v = pkt_igmp_parse(exact, len, &p, q);
	free(exact);
	return v;
}

static void queries_of_each_version(void **state)
{
	static const uint8_t v1[8] = { 0x11 }, v2[8] = { 0x11, 20, 0, 0, 239, 1, 1, 1 };
	static const uint8_t v3[16] = { 0x11, 0x8f, 0, 0, 239, 1, 1, 1, 2, 125, 0, 1, 10, 0, 0, 1 };
	const struct pkt_addr group = pkt_addr_ip4(0xef010101);
	struct pkt_igmp_query q = { 0 };
	uint8_t f[100];

	(void)state;
	assert_int_equal(parse(query2, sizeof(query2), &q), PKT_IGMP_QUERY);
	assert_true(q.version == 2 && q.all && q.within_ms == 10000);
	assert_int_equal(parse(query3, sizeof(query3), &q), PKT_IGMP_QUERY);
	assert_true(q.version == 3 && q.all && q.within_ms == 10000);
	assert_int_equal(parse(query2_group, sizeof(query2_group), &q), PKT_IGMP_QUERY);
	assert_true(q.version == 2 && !q.all && pkt_addr_eq(&q.group, &group) && q.within_ms == 1000);
	assert_int_equal(parse(query3_group, sizeof(query3_group), &q), PKT_IGMP_QUERY);
	assert_true(q.version == 3 && !q.all && pkt_addr_eq(&q.group, &group) && q.within_ms == 1000);
	assert_int_equal(parse(f, frame_of(f, v1, 8, false, PKT_IP4_ALL_HOSTS, 1), &q), PKT_IGMP_QUERY);
	assert_true(q.version == 1 && q.all && q.within_ms == 10000);
	assert_int_equal(parse(f, frame_of(f, v2, 8, true, 0xef010101, 1), &q), PKT_IGMP_QUERY);
	assert_true(q.version == 2 && !q.all && pkt_addr_eq(&q.group, &group) && q.within_ms == 2000);
	/* 0x8f: (15 + 16) << 3 tenths */
	assert_int_equal(parse(f, frame_of(f, v3, 16, true, 0xef010101, 1), &q), PKT_IGMP_QUERY);
	assert_true(q.version == 3 && !q.all && pkt_addr_eq(&q.group, &group) && q.within_ms == 24800);
	uint8_t late[12] = { 0x11, 0xff };
	assert_int_equal(parse(f, frame_of(f, late, 12, true, PKT_IP4_ALL_HOSTS, 1), &q), PKT_IGMP_QUERY);
	assert_true(q.version == 3 && q.all && q.within_ms == 3174400);
}

static void what_is_ignored(void **state)
{
	static const uint8_t v2[12] = { 0x11, 20, 0, 0, 239, 1, 1, 1 }, unicast[8] = { 0x11, 20, 0, 0, 10, 1, 1, 1 };
	static const uint8_t sources[12] = { 0x11, 20, 0, 0, 239, 1, 1, 1, 0, 0, 0, 1 }, all[8] = { 0x11, 20 };
	static const uint8_t report[8] = { 0x16, 0, 0, 0, 239, 1, 1, 1 };
	struct pkt_igmp_query q;
	uint8_t f[100];
	uint32_t n;

	(void)state;
	for (uint32_t len = 0; len <= 12; len++) /* valid lengths are 8 and 12 */
		assert_int_equal(parse(f, frame_of(f, v2, rn_max_u32(len, 4), true, 0xef010101, 1), &q),
				 len == 8 || len == 12 ? PKT_IGMP_QUERY : PKT_IGMP_BAD);
	assert_int_equal(parse(f, frame_of(f, v2, 8, false, 0xef010101, 1), &q), PKT_IGMP_BAD); /* no router alert */
	/* a TTL above 1: not from this link */
	assert_int_equal(parse(f, frame_of(f, v2, 8, true, 0xef010101, 2), &q), PKT_IGMP_BAD);
	assert_int_equal(parse(f, frame_of(f, all, 8, true, 0xef010101, 1), &q), PKT_IGMP_BAD);
	assert_int_equal(parse(f, frame_of(f, unicast, 8, true, 0xef010101, 1), &q), PKT_IGMP_BAD);
	assert_int_equal(parse(f, frame_of(f, sources, 12, true, 0xef010101, 1), &q),
			 PKT_IGMP_BAD); /* fewer sources than the count says */
	assert_int_equal(parse(f, frame_of(f, report, 8, true, 0xef010101, 1), &q), PKT_IGMP_OTHER);
	n = frame_of(f, v2, 8, true, 0xef010101, 1);
	f[n - 1] ^= 1;
	assert_int_equal(parse(f, n, &q), PKT_IGMP_BAD);
	/* options that run past the header, or never end; the header's checksum is made right again */
	for (uint32_t opt = 0; opt < 256; opt++) {
		for (uint32_t len = 0; len < 8; len++) {
			n = frame_of(f, v2, 8, true, 0xef010101, 1);
			f[34] = (uint8_t)opt;
			f[35] = (uint8_t)len;
			f[24] = f[25] = 0;
			uint16_t sum = (uint16_t)~pkt_sum_fold(pkt_sum(f + 14, 24));
			memcpy(f + 24, &sum, 2);
			assert_int_equal(parse(f, n, &q), opt == 0x94 && len == 4 ? PKT_IGMP_QUERY : PKT_IGMP_BAD);
		}
	}
}

static void reports_of_each_version(void **state)
{
	const struct pkt_igmp_record joins = { PKT_IGMP_JOINS, pkt_addr_ip4(0xef010101) };
	const struct pkt_igmp_record leaves = { PKT_IGMP_LEAVES, pkt_addr_ip4(0xef010101) };
	const struct pkt_addr src = pkt_addr_ip4(0xc0000201), all_routers = pkt_addr_ip4(PKT_IP4_ALL_ROUTERS);
	struct pkt_igmp_record many[64];
	struct pkt_l2 l2 = { .vlan = PKT_NO_VLAN };
	struct pkt_igmp_query q;
	uint8_t out[PKT_IGMP_FRAME(64)];
	struct pkt p;

	(void)state;
	memcpy(l2.src, mac, 6);
	assert_int_equal(pkt_igmp_build(out, &l2, &src, 3, &joins, 1), PKT_ETH_MIN);
	assert_memory_equal(out, joins3, sizeof(joins3));
	assert_memory_equal(out + sizeof(joins3), "\0\0\0\0\0", PKT_ETH_MIN - sizeof(joins3));
	pkt_igmp_build(out, &l2, &src, 3, &leaves, 1);
	assert_memory_equal(out, leaves3, sizeof(leaves3));
	pkt_igmp_build(out, &l2, &src, 2, &joins, 1);
	assert_memory_equal(out, report2, sizeof(report2));
	pkt_igmp_build(out, &l2, &src, 2, &leaves, 1);
	assert_memory_equal(out, leave2, sizeof(leave2));
	for (uint32_t version = 1; version <= 2; version++) {
		uint32_t hdr = version == 1 ? 20 : 24;
		assert_int_equal(pkt_igmp_build(out, &l2, &src, version, &joins, 1), PKT_ETH_MIN);
		assert_int_equal(parse(out, PKT_ETH_MIN, &q), PKT_IGMP_OTHER);
		assert_memory_equal(out, "\x01\0\x5e\x01\x01\x01", 6);
		assert_memory_equal(out + 30, "\xef\1\1\1", 4);
		assert_int_equal(out[14 + hdr], version == 1 ? 0x12 : 0x16);
		assert_memory_equal(out + 14 + hdr + 4, "\xef\1\1\1", 4);
	}
	assert_int_equal(pkt_igmp_build(out, &l2, &src, 2, &leaves, 1), PKT_ETH_MIN);
	assert_int_equal(pkt_parse(out, PKT_ETH_MIN, PKT_ETH_MIN, &p), PKT_OK);
	assert_true(pkt_addr_eq(&p.dst, &all_routers));
	assert_int_equal(out[38], 0x17);
	for (uint32_t i = 0; i < 64; i++)
		many[i] = (struct pkt_igmp_record){ PKT_IGMP_IS_IN_IT, pkt_addr_ip4(0xef020300 + i) };
	l2.vlan = 7;
	uint32_t len = pkt_igmp_build(out, &l2, &src, 3, many, 64);
	assert_int_equal(len, 18 + 24 + 8 + 64 * 8);
	assert_int_equal(parse(out, len, &q), PKT_IGMP_OTHER);
	assert_int_equal(rn_load_be16(out + 18 + 24 + 6), 64);
	assert_memory_equal(out + len - 8, "\2\0\0\0\xef\2\3\x3f", 8);
}

static void addresses_of_groups(void **state)
{
	const struct pkt_addr first = pkt_addr_ip4(0xe0000000), last = pkt_addr_ip4(0xefffffff);
	const struct pkt_addr below = pkt_addr_ip4(0xdfffffff), above = pkt_addr_ip4(0xf0000000);
	const struct pkt_addr v6 = { { 0xff, 2, [12] = 0xe0 } };
	uint8_t m[6];

	(void)state;
	assert_true(pkt_addr_is_group(&first) && pkt_addr_is_group(&last));
	assert_false(pkt_addr_is_group(&below) || pkt_addr_is_group(&above) || pkt_addr_is_group(&v6));
	pkt_group_mac(m, &last);
	assert_memory_equal(m, "\x01\0\x5e\x7f\xff\xff", 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queries_of_each_version),
		cmocka_unit_test(what_is_ignored),
		cmocka_unit_test(reports_of_each_version),
		cmocka_unit_test(addresses_of_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
