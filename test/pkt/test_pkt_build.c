/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "pcap_file.h"
#include "pkt/pkt.h"

static struct pcap_file cap;

static void load(const char *name, uint32_t frames)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", TEST_DATA_DIR, name);
	assert_int_equal(pcap_file_load(&cap, path), frames);
}

static struct pkt_flow flow_of(const uint8_t *frame, const struct pkt *p)
{
	struct pkt_flow f = { .l2.vlan = p->vlan,
			      .src = p->src,
			      .dst = p->dst,
			      .sport = p->sport,
			      .dport = p->dport,
			      .tos = p->ip_tos,
			      .ttl = frame[p->l3_off + (p->ip_version == 4 ? 8 : 7)] };
	memcpy(f.l2.dst, frame, 6);
	memcpy(f.l2.src, frame + 6, 6);
	return f;
}

/* Builds the headers again from the parsed ones. They must equal, byte for byte, those of the other implementation. */
static void rebuild_tcp(uint32_t i, enum pkt_csum mode)
{
	const uint8_t *frame = cap.rec[i].frame;
	uint32_t len = cap.rec[i].len;
	struct pkt p;
	assert_int_equal(pkt_parse(frame, len, len, &p), PKT_OK);
	if (p.kind != PKT_KIND_TCP)
		return;

	struct pkt_flow f = flow_of(frame, &p);
	struct pkt_tcp_template t;
	pkt_tcp_template_init(&t, &f);
	if (p.ip_version == 4)
		t.ip_id = rn_load_be16(frame + p.l3_off + 4);
	struct pkt_tcp_seg s = {
		.seq = p.tcp_seq,
		.ack = p.tcp_ack,
		.wnd = p.tcp_wnd,
		.flags = p.tcp_flags,
		.opt = p.tcp_opt,
		.opt_len = p.tcp_opt_len,
		.payload_len = p.payload_len,
		.payload_sum = mode == PKT_CSUM_FULL ? pkt_sum(frame + p.payload_off, p.payload_len) : 0,
	};
	uint8_t out[PKT_HDR_MAX];
	memset(out, 0x5a, sizeof(out));
	uint32_t hdr = pkt_tcp_build(&t, &s, mode, out);
	assert_int_equal(hdr, p.payload_off);
	assert_int_equal(hdr, pkt_tcp_hdr_len(&t, s.opt_len));
	for (uint32_t k = hdr; k < sizeof(out); k++)
		assert_int_equal(out[k], 0x5a);
	/* the kernel's flow label of IPv6, which the parser does not return */
	if (p.ip_version == 6)
		memcpy(out + p.l3_off + 1, frame + p.l3_off + 1, 3);
	assert_memory_equal(out, frame, hdr);
	if (p.ip_version == 4)
		assert_int_equal(t.ip_id, (uint16_t)(rn_load_be16(frame + p.l3_off + 4) + 1));
}

static void tcp_is_rebuilt_byte_for_byte(void **state)
{
	(void)state;
	load("siw_write.pcap", 18);
	for (uint32_t i = 0; i < cap.n; i++)
		rebuild_tcp(i, PKT_CSUM_FULL);
	load("kernel_mix.pcap", 30);
	for (uint32_t i = 20; i < 28; i++)
		rebuild_tcp(i, PKT_CSUM_FULL);
}

/* With transmit offload the kernel writes the sum of the pseudo header into the checksum field, as we do. */
static void tcp_pseudo_sum_is_the_kernels(void **state)
{
	(void)state;
	load("siw_gso.pcap", 12);
	for (uint32_t i = 0; i < cap.n; i++)
		rebuild_tcp(i, PKT_CSUM_PSEUDO);
}

static void udp_is_rebuilt_byte_for_byte(void **state)
{
	(void)state;
	load("kernel_mix.pcap", 30);
	for (uint32_t i = 28; i < 30; i++) {
		const uint8_t *frame = cap.rec[i].frame;
		struct pkt p;
		assert_int_equal(pkt_parse(frame, cap.rec[i].len, cap.rec[i].len, &p), PKT_OK);
		struct pkt_flow f = flow_of(frame, &p);
		uint8_t out[PKT_HDR_MAX];
		uint32_t hdr = pkt_udp_build(out, &f, p.payload_len, pkt_sum(frame + p.payload_off, p.payload_len),
					     PKT_CSUM_FULL);
		assert_int_equal(hdr, p.payload_off);
		if (p.ip_version == 6) {
			memcpy(out + p.l3_off + 1, frame + p.l3_off + 1, 3);
		} else {
			/* the identification is the kernel's choice, and the header's checksum depends on it */
			memcpy(out + p.l3_off + 4, frame + p.l3_off + 4, 2);
			memset(out + p.l3_off + 10, 0, 2);
			uint16_t v = (uint16_t)~pkt_sum_fold(pkt_sum(out + p.l3_off, 20));
			memcpy(out + p.l3_off + 10, &v, 2);
		}
		assert_memory_equal(out, frame, hdr);
	}
}

static void a_udp_template_serves_datagrams_of_any_length(void **state)
{
	(void)state;
	const struct pkt_addr v6[2] = { { { 0xfd, [15] = 1 } }, { { 0xfd, [15] = 2 } } };
	struct pkt_flow f = {
		.l2 = { .dst = { 2, 1 }, .src = { 2, 2 } }, .sport = 4793, .dport = 53, .tos = 8, .ttl = 3
	};

	for (uint32_t kind = 0; kind < 4; kind++) {
		f.l2.vlan = kind % 2 ? 7 : PKT_NO_VLAN;
		f.src = kind / 2 ? v6[0] : pkt_addr_ip4(0x0a000001);
		f.dst = kind / 2 ? v6[1] : pkt_addr_ip4(0x0a000002);
		struct pkt_udp_template t;
		pkt_udp_template_init(&t, &f);
		for (uint32_t len = 0; len < 1400; len += 13) {
			uint8_t frame[PKT_HDR_MAX + 1400];
			struct pkt p;
			const uint32_t hdr = (uint32_t)t.l2_len + t.l3_len + PKT_UDP_LEN;
			memset(frame, (int)len, sizeof(frame));
			assert_int_equal(
				pkt_udp_template_build(&t, len, pkt_sum(frame + hdr, len), PKT_CSUM_FULL, frame), hdr);
			assert_int_equal(pkt_parse(frame, hdr + len, hdr + len, &p), PKT_OK);
			assert_int_equal(p.payload_len, len);
			assert_int_equal(p.sport, f.sport);
			assert_int_equal(p.dport, f.dport);
			assert_int_equal(p.ip_tos, f.tos);
			struct rn_iov iov = { frame + p.l4_off, p.l4_len };
			assert_true(pkt_l4_csum_ok(&p, &iov, 1));
			pkt_udp_template_build(&t, len, 0, PKT_CSUM_PSEUDO, frame);
			pkt_l4_csum_finish(&p, frame, &iov, 1);
			assert_true(pkt_l4_csum_ok(&p, &iov, 1));
		}
	}
}

static void udp_zero_sum_becomes_ones(void **state)
{
	(void)state;
	struct pkt_flow f = { .l2.vlan = PKT_NO_VLAN,
			      .src = pkt_addr_ip4(0x0a000001),
			      .dst = pkt_addr_ip4(0x0a000002),
			      .sport = 1,
			      .dport = 2 };
	uint8_t frame[PKT_HDR_MAX + 2];
	/* two payload bytes that make the sum all ones */
	uint32_t hdr = pkt_udp_build(frame, &f, 2, 0, PKT_CSUM_FULL);
	memcpy(frame + hdr, frame + hdr - 2, 2);
	hdr = pkt_udp_build(frame, &f, 2, pkt_sum(frame + hdr, 2), PKT_CSUM_FULL);
	assert_int_equal(frame[hdr - 1], 0xff);
	assert_int_equal(frame[hdr - 2], 0xff);
	struct pkt p;
	assert_int_equal(pkt_parse(frame, hdr + 2, hdr + 2, &p), PKT_OK);
	struct rn_iov iov = { frame + p.l4_off, p.l4_len };
	assert_true(pkt_l4_csum_ok(&p, &iov, 1));
}

static void arp_is_rebuilt(void **state)
{
	(void)state;
	load("kernel_mix.pcap", 30);
	for (uint32_t i = 6; i < 8; i++) {
		const uint8_t *frame = cap.rec[i].frame;
		struct pkt p;
		struct pkt_arp a;
		struct pkt_l2 l2 = { .vlan = PKT_NO_VLAN };
		assert_int_equal(pkt_parse(frame, cap.rec[i].len, cap.rec[i].len, &p), PKT_OK);
		assert_int_equal(pkt_arp_parse(frame, cap.rec[i].len, &p, &a), PKT_OK);
		memcpy(l2.dst, frame, 6);
		memcpy(l2.src, frame + 6, 6);
		uint8_t out[64], zero[18] = { 0 };
		assert_int_equal(pkt_arp_build(out, &l2, &a), 60);
		assert_memory_equal(out, frame, 42);
		assert_memory_equal(out + 42, zero, 18);
	}
}

static void vlan_headers(void **state)
{
	(void)state;
	struct pkt_l2 l2 = { .dst = { 1, 2, 3, 4, 5, 6 }, .src = { 2, 0, 0, 0, 0, 9 }, .vlan = 0x2007 };
	struct pkt_arp a = { .op = PKT_ARP_REQUEST,
			     .sender = pkt_addr_ip4(0x0a000001),
			     .target = pkt_addr_ip4(0x0a000002) };
	uint8_t out[PKT_HDR_MAX];
	struct pkt p;
	assert_int_equal(pkt_arp_build(out, &l2, &a), 64);
	assert_int_equal(pkt_parse(out, 64, 64, &p), PKT_OK);
	assert_int_equal(p.kind, PKT_KIND_ARP);
	assert_int_equal(p.vlan, 0x2007);

	struct pkt_flow f = { .l2 = l2, .src = a.sender, .dst = a.target, .sport = 7, .dport = 8 };
	struct pkt_tcp_template t;
	pkt_tcp_template_init(&t, &f);
	struct pkt_tcp_seg s = { .seq = 1, .flags = PKT_TCP_ACK, .wnd = 9 };
	uint32_t len = pkt_tcp_build(&t, &s, PKT_CSUM_FULL, out);
	assert_int_equal(len, 58);
	assert_int_equal(pkt_parse(out, len, len, &p), PKT_OK);
	assert_int_equal(p.vlan, 0x2007);
	assert_int_equal(p.dport, 8);
	struct rn_iov iov = { out + p.l4_off, p.l4_len };
	assert_true(pkt_l4_csum_ok(&p, &iov, 1));
	static const uint8_t mac[6] = { 9, 8, 7, 6, 5, 4 };
	pkt_tcp_template_set_dst_mac(&t, mac);
	pkt_tcp_build(&t, &s, PKT_CSUM_FULL, out);
	assert_memory_equal(out, mac, 6);
}

/* The kernel's echo request becomes the kernel's echo reply, except for the identification, which the kernel chose. */
static void echo_reply_is_the_kernels(void **state)
{
	(void)state;
	load("kernel_mix.pcap", 30);
	static const struct {
		uint32_t request, reply;
	} pairs[] = { { 8, 9 }, { 18, 19 } };
	for (size_t i = 0; i < RN_ARRAY_LEN(pairs); i++) {
		uint8_t frame[256], want[256];
		uint32_t len = cap.rec[pairs[i].request].len;
		struct pkt p;
		memcpy(frame, cap.rec[pairs[i].request].frame, len);
		memcpy(want, cap.rec[pairs[i].reply].frame, len);
		assert_int_equal(pkt_parse(frame, len, len, &p), PKT_OK);
		assert_int_equal(p.kind, PKT_KIND_ICMP_ECHO);
		pkt_icmp_echo_reply(frame, &p);
		if (p.ip_version == 4) {
			/* identification, DF and header checksum differ; TTL is the same */
			memcpy(want + 18, frame + 18, 8);
			assert_int_equal(pkt_sum_fold(pkt_sum(frame + 14, 20)), 0xffff);
		} else {
			memcpy(want + 15, frame + 15, 3); /* the flow label differs */
		}
		assert_memory_equal(frame, want, len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tcp_is_rebuilt_byte_for_byte),
		cmocka_unit_test(tcp_pseudo_sum_is_the_kernels),
		cmocka_unit_test(udp_is_rebuilt_byte_for_byte),
		cmocka_unit_test(a_udp_template_serves_datagrams_of_any_length),
		cmocka_unit_test(udp_zero_sum_becomes_ones),
		cmocka_unit_test(arp_is_rebuilt),
		cmocka_unit_test(vlan_headers),
		cmocka_unit_test(echo_reply_is_the_kernels),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
