/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "pkt/pkt.h"
#include "plane/host_seg.h"

#define MSS 1000u

struct frame {
	uint8_t b[PKT_HDR_MAX + MSS];
	uint32_t len;
};

/* A segment whose checksum is that of the pseudo header. */
static struct host_seg make(struct frame *f, bool ip6, uint32_t seq, uint32_t payload, uint8_t flags)
{
	struct pkt_flow flow = {
		.l2 = { .dst = { 2, 0, 0, 0, 0, 2 }, .src = { 2, 0, 0, 0, 0, 1 }, .vlan = PKT_NO_VLAN },
		.src = pkt_addr_ip4(0x0a000001),
		.dst = pkt_addr_ip4(0x0a000002),
		.sport = 1,
		.dport = 2
	};
	struct pkt_tcp_template t;
	struct host_seg s = { 0 };

	if (ip6) {
		flow.src = (struct pkt_addr){ { 0xfd, [15] = 1 } };
		flow.dst = (struct pkt_addr){ { 0xfd, [15] = 2 } };
	}
	memset(f, 0, sizeof(*f));
	pkt_tcp_template_init(&t, &flow);
	const struct pkt_tcp_seg seg = { .seq = seq, .ack = 7, .flags = flags, .wnd = 9, .payload_len = payload };
	f->len = pkt_tcp_build(&t, &seg, PKT_CSUM_PSEUDO, f->b) + payload;
	host_seg_of(f->b, f->len, f->len, &s);
	return s;
}

static void segments_in_sequence_are_joined(void **state)
{
	struct frame f[3];
	struct virtio_net_hdr h;
	uint8_t head[HOST_HDR_MAX], want[2];
	struct host_join j;

	(void)state;
	for (int ip6 = 0; ip6 < 2; ip6++) {
		struct host_seg a = make(&f[0], ip6, UINT32_MAX - 10, MSS, PKT_TCP_ACK);
		struct host_seg b = make(&f[1], ip6, MSS - 11, MSS, PKT_TCP_ACK | PKT_TCP_PSH);
		struct host_seg c = make(&f[2], ip6, 2 * MSS - 11, 10, PKT_TCP_ACK);
		host_join_begin(&j, &a);
		assert_true(host_join_add(&j, &b));
		assert_true(host_join_add(&j, &c));
		assert_int_equal(j.n, 3);
		assert_int_equal(j.payload, 2 * MSS + 10);
		assert_false(host_join_add(&j, &c)); /* nothing may follow a segment that is shorter than the first */
		host_join_head(&j, head, &h);

		struct pkt p;
		uint32_t len = a.hdr + j.payload;
		assert_int_equal(pkt_parse(head, a.hdr, len, &p), PKT_OK); /* the IPv4 header's checksum, too */
		assert_int_equal(p.payload_len, j.payload);
		assert_int_equal(p.tcp_flags, PKT_TCP_ACK | PKT_TCP_PSH);
		assert_int_equal(p.tcp_seq, UINT32_MAX - 10);
		assert_int_equal(h.gso_size, MSS);
		assert_int_equal(h.hdr_len, a.hdr);
		assert_int_equal(h.gso_type, ip6 ? VIRTIO_NET_HDR_GSO_TCPV6 : VIRTIO_NET_HDR_GSO_TCPV4);
		assert_int_equal(host_sum_of(&h, head, a.hdr), HOST_SUM_TCP);

		/*
		 * A join of one segment leaves the header as the packet library made it. The checksum fields have the
		 * pseudo header's sum, which differs by the additional length.
		 */
		memcpy(want, head + a.l4 + 16, 2);
		struct host_join one;
		host_join_begin(&one, &a);
		host_join_head(&one, head, &h);
		assert_memory_equal(head, f[0].b, a.hdr);
		assert_int_equal((rn_load_be16(want) + 0xffffu - rn_load_be16(f[0].b + a.l4 + 16)) % 0xffffu, MSS + 10);
	}
}

static void what_differs_stays_alone(void **state)
{
	struct frame f, g;
	struct host_join j;
	struct host_seg s;

	(void)state;
	struct host_seg a = make(&f, false, 1, MSS, PKT_TCP_ACK);
	host_join_begin(&j, &a);
	s = make(&g, false, 2 + MSS, MSS, PKT_TCP_ACK);
	assert_false(host_join_add(&j, &s)); /* a gap */
	s = make(&g, true, 1 + MSS, MSS, PKT_TCP_ACK);
	assert_false(host_join_add(&j, &s)); /* IPv6 */
	static const uint8_t at[] = { 0, 15, 22, 26, 33, 34, 37, 42, 48 };
	for (size_t i = 0; i < sizeof(at); i++) {
		s = make(&g, false, 1 + MSS, MSS, PKT_TCP_ACK);
		g.b[at[i]] ^= 0x40;
		assert_false(host_join_add(&j, &s));
	}
	s = make(&g, false, 1 + MSS, MSS, PKT_TCP_ACK);
	assert_true(host_join_add(&j, &s));
	j.head.payload = MSS - 1;
	s = make(&g, false, 1 + 2 * MSS, MSS, PKT_TCP_ACK);
	assert_false(host_join_add(&j, &s)); /* longer than the first segment */
	j.head.payload = MSS;
	for (uint32_t seq = 1 + 2 * MSS; s = make(&g, false, seq, MSS, PKT_TCP_ACK), host_join_add(&j, &s);)
		seq += MSS;
	assert_int_equal(j.n, (HOST_SEG_MAX - 40) / MSS);
}

static void only_plain_data_is_a_segment(void **state)
{
	struct frame f;
	struct host_seg s;
	static const uint8_t flags[] = { PKT_TCP_ACK | PKT_TCP_FIN, PKT_TCP_SYN, PKT_TCP_ACK | PKT_TCP_URG,
					 PKT_TCP_ACK | PKT_TCP_CWR, PKT_TCP_ACK | PKT_TCP_RST };

	(void)state;
	make(&f, false, 1, 0, PKT_TCP_ACK);
	assert_false(host_seg_of(f.b, f.len, f.len, &s));
	for (size_t i = 0; i < sizeof(flags); i++) {
		make(&f, false, 1, 10, flags[i]);
		assert_false(host_seg_of(f.b, f.len, f.len, &s));
	}
	make(&f, false, 1, 10, PKT_TCP_ACK);
	assert_true(host_seg_of(f.b, f.len, f.len, &s));
	assert_false(host_seg_of(f.b, f.len, f.len + 1, &s)); /* padding */
	for (uint32_t first = 0; first < s.hdr; first++)
		assert_false(host_seg_of(f.b, first, f.len, &(struct host_seg){ 0 }));
	f.b[14 + 6] = 0x20; /* a fragment */
	assert_false(host_seg_of(f.b, f.len, f.len, &s));
}

static void received_headers_are_checked(void **state)
{
	struct frame f;
	struct virtio_net_hdr h = { 0 };

	(void)state;
	make(&f, false, 1, 10, PKT_TCP_ACK);
	assert_int_equal(host_sum_of(&h, f.b, f.len), HOST_SUM_UNKNOWN);
	h.flags = VIRTIO_NET_HDR_F_DATA_VALID;
	assert_int_equal(host_sum_of(&h, f.b, f.len), HOST_SUM_VALID);
	h.gso_type = VIRTIO_NET_HDR_GSO_TCPV4;
	assert_int_equal(host_sum_of(&h, f.b, f.len), HOST_BAD); /* GSO without NEEDS_CSUM: the kernel never sends it */

	const struct virtio_net_hdr good = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
					     .csum_start = 34,
					     .csum_offset = 16 };
	assert_int_equal(host_sum_of(&good, f.b, f.len), HOST_SUM_TCP);
	for (uint32_t first = 0; first < 54; first++)
		assert_int_equal(host_sum_of(&good, f.b, first), HOST_BAD);
	h = good;
	h.csum_start = 30;
	assert_int_equal(host_sum_of(&h, f.b, f.len), HOST_BAD);
	h = good;
	h.csum_offset = 6;
	assert_int_equal(host_sum_of(&h, f.b, f.len), HOST_BAD);
	h = good;
	h.gso_type = VIRTIO_NET_HDR_GSO_TCPV4 | VIRTIO_NET_HDR_GSO_ECN;
	assert_int_equal(host_sum_of(&h, f.b, f.len), HOST_BAD); /* gso_size is 0 */
	h.gso_size = 5;
	assert_int_equal(host_sum_of(&h, f.b, f.len), HOST_SUM_TCP);
	h.gso_type = VIRTIO_NET_HDR_GSO_TCPV6;
	assert_int_equal(host_sum_of(&h, f.b, f.len), HOST_BAD);
	h.gso_type = 5; /* several UDP datagrams in one */
	assert_int_equal(host_sum_of(&h, f.b, f.len), HOST_BAD);

	host_defer(f.b, f.len, &h);
	assert_memory_equal(&h, &good, sizeof(h));
	f.b[14 + 9] = PKT_PROTO_UDP;
	host_defer(f.b, f.len, &h);
	assert_int_equal(host_sum_of(&h, f.b, f.len), HOST_SUM_UDP);
	f.b[14 + 9] = PKT_PROTO_ICMP;
	host_defer(f.b, f.len, &h);
	assert_int_equal(h.flags, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(segments_in_sequence_are_joined),
		cmocka_unit_test(what_differs_stays_alone),
		cmocka_unit_test(only_plain_data_is_a_segment),
		cmocka_unit_test(received_headers_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
