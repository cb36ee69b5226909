/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
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

/* Parses a frame from memory of exactly its size, so that ASan sees every read beyond it. */
static enum pkt_verdict parse_exact(const uint8_t *frame, uint32_t contiguous, uint32_t len, struct pkt *p)
{
	uint8_t *copy = malloc(contiguous ? contiguous : 1);
	memcpy(copy, frame, contiguous);
	enum pkt_verdict v = pkt_parse(copy, contiguous, len, p);
	p->tcp_opt = v == PKT_OK && p->kind == PKT_KIND_TCP ? frame + (p->tcp_opt - copy) : NULL;
	free(copy);
	return v;
}

static bool l4_ok(const struct pkt *p, const uint8_t *frame)
{
	struct rn_iov iov = { .base = (uint8_t *)(uintptr_t)frame + p->l4_off, .len = p->l4_len };
	return pkt_l4_csum_ok(p, &iov, 1);
}

/* The file as tshark reads it: 18 frames of TCP over IPv4, all checksums good. */
static void siw_frames_parse_and_verify(void **state)
{
	(void)state;
	load("siw_write.pcap", 18);
	static const uint16_t payload[18] = { 0, 0, 0, 48, 0, 48, 0, 1448, 1448, 0, 1260, 28, 0, 28, 0, 0, 0, 0 };
	for (uint32_t i = 0; i < cap.n; i++) {
		struct pkt p;
		assert_int_equal(parse_exact(cap.rec[i].frame, cap.rec[i].len, cap.rec[i].len, &p), PKT_OK);
		assert_int_equal(p.kind, PKT_KIND_TCP);
		assert_int_equal(p.ip_version, 4);
		assert_int_equal(p.payload_len, payload[i]);
		assert_int_equal(p.payload_off + p.payload_len, cap.rec[i].len);
		assert_true(p.sport == 20016 || p.dport == 20016);
		assert_true(l4_ok(&p, cap.rec[i].frame));
	}
}

static void syn_fields(void **state)
{
	(void)state;
	load("siw_write.pcap", 18);
	struct pkt p;
	assert_int_equal(pkt_parse(cap.rec[0].frame, cap.rec[0].len, cap.rec[0].len, &p), PKT_OK);
	assert_int_equal(p.tcp_flags, PKT_TCP_SYN);
	assert_int_equal(p.sport, 55952);
	assert_int_equal(p.dport, 20016);
	assert_int_equal(p.tcp_wnd, 64240);
	assert_int_equal(p.tcp_ack, 0);
	assert_int_equal(p.tcp_opt_len, 20);
	assert_int_equal(p.tcp_opt[0], 2); /* MSS 1460 */
	assert_int_equal(rn_load_be16(p.tcp_opt + 2), 1460);
	assert_int_equal(pkt_addr_to_ip4(&p.src), 0x0a090002);
	assert_int_equal(pkt_addr_to_ip4(&p.dst), 0x0a090001);
	assert_int_equal(p.vlan, PKT_NO_VLAN);
}

/* Captured where the kernel leaves the checksum to the device: the field has the sum of the pseudo header only. */
static void offloaded_sum_is_refused_then_finished(void **state)
{
	(void)state;
	load("siw_gso.pcap", 12);
	for (uint32_t i = 0; i < cap.n; i++) {
		static uint8_t frame[65536];
		struct pkt p;
		assert_int_equal(pkt_parse(cap.rec[i].frame, cap.rec[i].len, cap.rec[i].len, &p), PKT_OK);
		assert_false(l4_ok(&p, cap.rec[i].frame));
		memcpy(frame, cap.rec[i].frame, cap.rec[i].len);
		struct rn_iov iov = { .base = frame + p.l4_off, .len = p.l4_len };
		pkt_l4_csum_finish(&p, frame, &iov, 1);
		assert_true(l4_ok(&p, frame));
	}
}

/*
 * The parser finds the same kind for each frame as tshark; a fragment is reported as a fragment, and hop-by-hop options
 * are skipped.
 */
static void kernel_mix_kinds(void **state)
{
	(void)state;
	load("kernel_mix.pcap", 30);
	for (uint32_t n = 1; n <= cap.n; n++) {
		const uint8_t *frame = cap.rec[n - 1].frame;
		uint32_t len = cap.rec[n - 1].len;
		struct pkt p;
		enum pkt_verdict v = parse_exact(frame, len, len, &p);
		if (n >= 11 && n <= 16) {
			assert_int_equal(v, PKT_FRAGMENT);
			assert_int_equal(p.ip_version, 4);
			continue;
		}
		assert_int_equal(v, PKT_OK);
		if (n == 7 || n == 8)
			assert_int_equal(p.kind, PKT_KIND_ARP);
		else if (n == 9 || n == 19)
			assert_int_equal(p.kind, PKT_KIND_ICMP_ECHO);
		else if (n <= 6 || n == 10 || n == 17 || n == 18 || n == 20)
			assert_int_equal(p.kind, PKT_KIND_ICMP);
		else if (n >= 21 && n <= 28)
			assert_int_equal(p.kind, PKT_KIND_TCP);
		else
			assert_int_equal(p.kind, PKT_KIND_UDP);
		if (p.kind != PKT_KIND_ARP)
			assert_true(l4_ok(&p, frame));
		assert_int_equal(p.ip_version, n == 7 || n == 8 ? 0 : n == 9 || n == 10 || n == 29 ? 4 : 6);
	}
	struct pkt p;
	assert_int_equal(pkt_parse(cap.rec[28].frame, cap.rec[28].len, cap.rec[28].len, &p), PKT_OK);
	assert_int_equal(p.dport, 5001);
	assert_int_equal(p.payload_len, 15);
	assert_memory_equal(cap.rec[28].frame + p.payload_off, "hello-over-udp\n", 15);
	assert_int_equal(pkt_parse(cap.rec[23].frame, cap.rec[23].len, cap.rec[23].len, &p), PKT_OK);
	assert_memory_equal(cap.rec[23].frame + p.payload_off, "hello-over-tcp6\n", 16);
}

static void arp_fields(void **state)
{
	(void)state;
	load("kernel_mix.pcap", 30);
	struct pkt p;
	struct pkt_arp a;
	assert_int_equal(pkt_parse(cap.rec[7].frame, cap.rec[7].len, cap.rec[7].len, &p), PKT_OK);
	assert_int_equal(pkt_arp_parse(cap.rec[7].frame, cap.rec[7].len, &p, &a), PKT_OK);
	assert_int_equal(a.op, PKT_ARP_REPLY);
	assert_int_equal(pkt_addr_to_ip4(&a.sender), 0x0a4d0002);
	assert_int_equal(pkt_addr_to_ip4(&a.target), 0x0a4d0001);
	static const uint8_t mac[6] = { 0xbe, 0x67, 0xdd, 0x12, 0x72, 0x34 };
	assert_memory_equal(a.sender_mac, mac, 6);
	assert_int_equal(pkt_arp_parse(cap.rec[7].frame, 41, &p, &a), PKT_TRUNCATED);
	uint8_t frame[42];
	memcpy(frame, cap.rec[7].frame, 42);
	frame[18] = 8; /* hardware address length */
	assert_int_equal(pkt_arp_parse(frame, 42, &p, &a), PKT_BAD_HEADER);
}

/* Every truncated frame is refused and never read beyond its end; headers outside the contiguous part are SPLIT. */
static void every_truncation(void **state)
{
	(void)state;
	load("kernel_mix.pcap", 30);
	for (uint32_t i = 0; i < cap.n; i++) {
		struct pkt p, whole;
		const uint8_t *frame = cap.rec[i].frame;
		uint32_t len = cap.rec[i].len;
		enum pkt_verdict full = pkt_parse(frame, len, len, &whole);
		for (uint32_t cut = 0; cut < len; cut++) {
			enum pkt_verdict v = parse_exact(frame, cut, cut, &p);
			/* an ARP frame's length is checked by pkt_arp_parse() */
			if (whole.kind == PKT_KIND_ARP && cut >= PKT_ETH_LEN)
				assert_int_equal(v, PKT_OK);
			else
				assert_int_equal(v, PKT_TRUNCATED);
			v = parse_exact(frame, cut, len, &p);
			assert_true(v == PKT_SPLIT || v == full);
			if (v == PKT_OK && whole.kind == PKT_KIND_TCP)
				assert_true(cut >= whole.payload_off);
		}
	}
}

/* A TCP/IPv4 ACK, which Ethernet pads to 60 bytes, has no payload. */
static void ethernet_padding_is_cut(void **state)
{
	(void)state;
	load("siw_write.pcap", 18);
	uint8_t frame[128];
	struct pkt p;
	assert_int_equal(pkt_parse(cap.rec[2].frame, cap.rec[2].len, cap.rec[2].len, &p), PKT_OK);
	assert_int_equal(p.payload_len, 0);
	memset(frame, 0xee, sizeof(frame));
	memcpy(frame, cap.rec[2].frame, cap.rec[2].len);
	assert_int_equal(pkt_parse(frame, sizeof(frame), sizeof(frame), &p), PKT_OK);
	assert_int_equal(p.payload_len, 0);
	assert_int_equal(p.l4_len, 32);
	assert_true(l4_ok(&p, frame));
}

static uint32_t insert_vlan(uint8_t *out, const uint8_t *frame, uint32_t len, uint16_t tci)
{
	memcpy(out, frame, 12);
	rn_store_be16(out + 12, PKT_ETHERTYPE_VLAN);
	rn_store_be16(out + 14, tci);
	memcpy(out + 16, frame + 12, len - 12);
	return len + 4;
}

static void vlan_tag(void **state)
{
	(void)state;
	load("siw_write.pcap", 18);
	uint8_t frame[2048];
	struct pkt p;
	uint32_t len = insert_vlan(frame, cap.rec[7].frame, cap.rec[7].len, 0x6007);
	assert_int_equal(parse_exact(frame, len, len, &p), PKT_OK);
	assert_int_equal(p.vlan, 0x6007);
	assert_int_equal(PKT_VID(p.vlan), 7);
	assert_int_equal(p.payload_len, 1448);
	assert_true(l4_ok(&p, frame));
	assert_int_equal(parse_exact(frame, 17, 17, &p), PKT_TRUNCATED);
}

struct bend {
	const char *what;
	uint32_t off;
	uint8_t value;
	enum pkt_verdict verdict;
	bool fix_ip_sum;
};

static void ip4_sum_fix(uint8_t *frame)
{
	memset(frame + 24, 0, 2);
	uint16_t v = (uint16_t)~pkt_sum_fold(pkt_sum(frame + 14, 20));
	memcpy(frame + 24, &v, 2);
}

static void bent_ip4_and_tcp_headers(void **state)
{
	(void)state;
	static const struct bend bends[] = {
		{ "version 5", 14, 0x55, PKT_BAD_HEADER, true },
		{ "header of 16 bytes", 14, 0x44, PKT_BAD_HEADER, true },
		{ "total length below the header", 17, 19, PKT_BAD_HEADER, true },
		{ "header sum", 25, 0, PKT_BAD_CHECKSUM, false },
		{ "total length beyond the frame", 16, 0xff, PKT_TRUNCATED, true },
		{ "more fragments", 20, 0x20, PKT_FRAGMENT, true },
		{ "fragment offset", 21, 0x01, PKT_FRAGMENT, true },
		{ "data offset 4", 46, 0x40, PKT_BAD_HEADER, false },
		{ "data offset beyond the packet", 46, 0xf0, PKT_TRUNCATED, false },
	};
	load("siw_write.pcap", 18);
	for (size_t i = 0; i < RN_ARRAY_LEN(bends); i++) {
		uint8_t frame[128];
		struct pkt p;
		uint32_t len = cap.rec[2].len;
		memcpy(frame, cap.rec[2].frame, len);
		frame[bends[i].off] = bends[i].value;
		if (bends[i].value == 19 && bends[i].off == 17)
			frame[16] = 0;
		if (bends[i].fix_ip_sum)
			ip4_sum_fix(frame);
		enum pkt_verdict v = parse_exact(frame, len, len, &p);
		if (v != bends[i].verdict)
			fail_msg("%s: %s", bends[i].what, pkt_verdict_name(v));
	}
}

static void bent_ip6_headers(void **state)
{
	(void)state;
	load("kernel_mix.pcap", 30);
	const uint8_t *good = cap.rec[23].frame;
	uint32_t len = cap.rec[23].len;
	uint8_t frame[256];
	struct pkt p;

	memcpy(frame, good, len);
	frame[14] = 0x40;
	assert_int_equal(parse_exact(frame, len, len, &p), PKT_BAD_HEADER);

	/* an IPv4-mapped source address would be taken for an IPv4 flow */
	memcpy(frame, good, len);
	struct pkt_addr mapped = pkt_addr_ip4(0x0a000001);
	memcpy(frame + 22, mapped.b, 16);
	assert_int_equal(parse_exact(frame, len, len, &p), PKT_BAD_HEADER);

	memcpy(frame, good, len);
	frame[20] = 44; /* fragment header */
	assert_int_equal(parse_exact(frame, len, len, &p), PKT_FRAGMENT);

	/* an endless chain of 8-byte destination options */
	memcpy(frame, good, len);
	memset(frame + 54, 0, len - 54);
	frame[20] = 60;
	frame[54] = frame[62] = frame[70] = frame[78] = 60;
	assert_int_equal(parse_exact(frame, len, len, &p), PKT_BAD_HEADER);

	/* an option header longer than the packet */
	frame[55] = 0xff;
	assert_int_equal(parse_exact(frame, len, len, &p), PKT_TRUNCATED);

	memcpy(frame, good, len);
	rn_store_be16(frame + 18, 0xffff);
	assert_int_equal(parse_exact(frame, len, len, &p), PKT_TRUNCATED);
}

static void udp_lengths(void **state)
{
	(void)state;
	load("kernel_mix.pcap", 30);
	uint8_t frame[128];
	struct pkt p;
	uint32_t len = cap.rec[28].len;
	memcpy(frame, cap.rec[28].frame, len);
	rn_store_be16(frame + 38, 7);
	assert_int_equal(parse_exact(frame, len, len, &p), PKT_BAD_HEADER);
	rn_store_be16(frame + 38, 24);
	assert_int_equal(parse_exact(frame, len, len, &p), PKT_TRUNCATED);
	/* a UDP length below IP's: the rest does not belong to the datagram */
	rn_store_be16(frame + 38, 10);
	assert_int_equal(parse_exact(frame, len, len, &p), PKT_OK);
	assert_int_equal(p.payload_len, 2);
	/* no checksum: UDP over IPv4 allows that */
	memset(frame + 40, 0, 2);
	assert_true(l4_ok(&p, frame));
	memcpy(frame, cap.rec[29].frame, cap.rec[29].len);
	memset(frame + 60, 0, 2);
	assert_int_equal(pkt_parse(frame, cap.rec[29].len, cap.rec[29].len, &p), PKT_OK);
	assert_false(l4_ok(&p, frame));
}

static void every_flipped_bit_fails_the_sum(void **state)
{
	(void)state;
	load("siw_write.pcap", 18);
	uint8_t frame[256];
	struct pkt p;
	assert_int_equal(pkt_parse(cap.rec[3].frame, cap.rec[3].len, cap.rec[3].len, &p), PKT_OK);
	memcpy(frame, cap.rec[3].frame, cap.rec[3].len);
	for (uint32_t bit = p.l4_off * 8u; bit < cap.rec[3].len * 8; bit++) {
		frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_false(l4_ok(&p, frame));
		frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_true(l4_ok(&p, frame));
}

static void addresses(void **state)
{
	(void)state;
	struct pkt_addr a = pkt_addr_ip4(0x0a000001), b = pkt_addr_ip4(0x0a0000fe), c = pkt_addr_ip4(0x0a000101);
	assert_true(pkt_addr_is_ip4(&a));
	assert_true(pkt_addr_eq(&a, &a));
	assert_false(pkt_addr_eq(&a, &b));
	assert_true(pkt_addr_same_net(&a, &b, 120));
	assert_false(pkt_addr_same_net(&a, &c, 120));
	assert_true(pkt_addr_same_net(&a, &c, 119));
	assert_false(pkt_addr_same_net(&a, &b, 128));
	assert_true(pkt_addr_same_net(&a, &a, 128));
	assert_true(pkt_addr_same_net(&a, &c, 0));
	assert_false(pkt_addr_same_net(&a, &a, 129));
}

/*
 * Makes a router's answer to a segment from 10.0.0.1 or fd00::1, port 1000, with n bytes of the segment behind the ICMP
 * header. Returns its length.
 */
static uint32_t too_big_frame(uint8_t *f, bool v4, uint32_t mtu, uint32_t n)
{
	struct pkt_addr us = pkt_addr_ip4(0x0a000001), peer = pkt_addr_ip4(0x0a000102);
	uint8_t tcp[PKT_HDR_MAX];
	struct pkt_tcp_template t;
	struct pkt_tcp_seg seg = { .seq = 0x12345678, .flags = 0x10 };
	uint32_t ip = v4 ? PKT_IP4_LEN : PKT_IP6_LEN, at = PKT_ETH_LEN + ip + PKT_ICMP_LEN;

	if (!v4) {
		us = (struct pkt_addr){ .b = { 0xfd, [15] = 1 } };
		peer = (struct pkt_addr){ .b = { 0xfd, 1, [15] = 2 } };
	}
	pkt_tcp_template_init(
		&t, &(struct pkt_flow){ .l2.vlan = PKT_NO_VLAN, .src = us, .dst = peer, .sport = 1000, .dport = 2000 });
	(void)pkt_tcp_build(&t, &seg, PKT_CSUM_FULL, tcp);
	memset(f, 0, at);
	memcpy(f, tcp, PKT_ETH_LEN + ip); /* the same kind of header; its protocol and length are corrected */
	memcpy(f + at, tcp + PKT_ETH_LEN, n);
	if (v4) {
		uint8_t *h = f + PKT_ETH_LEN;
		rn_store_be16(h + 2, (uint16_t)(PKT_IP4_LEN + PKT_ICMP_LEN + n));
		h[9] = 1;
		memset(h + 10, 0, 2);
		uint16_t sum = (uint16_t)~pkt_sum_fold(pkt_sum(h, PKT_IP4_LEN));
		memcpy(h + 10, &sum, 2);
	} else {
		rn_store_be16(f + PKT_ETH_LEN + 4, (uint16_t)(PKT_ICMP_LEN + n));
		f[PKT_ETH_LEN + 6] = 58;
	}
	uint8_t *icmp = f + PKT_ETH_LEN + ip;
	icmp[0] = v4 ? 3 : 2;
	icmp[1] = v4 ? 4 : 0;
	rn_store_be32(icmp + 4, mtu);
	return at + n;
}

static bool too_big(uint8_t *frame, uint32_t len, struct pkt_too_big *b)
{
	uint8_t *copy = malloc(len); /* exactly as long as the frame, so that ASan sees a read beyond it */
	struct pkt p;

	memcpy(copy, frame, len);
	bool yes = pkt_parse(copy, len, len, &p) == PKT_OK && pkt_icmp_too_big(copy, len, &p, b);
	free(copy);
	return yes;
}

static void icmp_too_big_is_read_and_nothing_else_is(void **state)
{
	uint8_t f[256];
	struct pkt_too_big b;

	(void)state;
	for (int v4 = 0; v4 < 2; v4++) {
		uint32_t ip = v4 ? PKT_IP4_LEN : PKT_IP6_LEN, icmp = PKT_ETH_LEN + ip;
		uint32_t len = too_big_frame(f, v4, 1400, ip + 8);
		assert_true(too_big(f, len, &b));
		assert_true(b.mtu == 1400 && b.seq == 0x12345678 && b.sport == 1000 && b.dport == 2000);
		assert_int_equal(b.src.b[15], 1);
		assert_int_equal(b.dst.b[15], 2);
		for (uint32_t n = 0; n < ip + 8; n++) /* the quoted segment is too short */
			assert_false(too_big(f, too_big_frame(f, v4, 1400, n), &b));
		len = too_big_frame(f, v4, v4 ? 0 : 1279, ip + 8); /* an MTU that is not allowed */
		assert_false(too_big(f, len, &b));
		len = too_big_frame(f, v4, 1400, ip + 8);
		f[icmp + 1]++; /* another ICMP code */
		assert_false(too_big(f, len, &b));
		len = too_big_frame(f, v4, 1400, ip + 8);
		f[icmp + PKT_ICMP_LEN + (v4 ? 9 : 6)] = 17; /* the quoted packet is UDP */
		assert_false(too_big(f, len, &b));
		len = too_big_frame(f, v4, 1400, ip + 8);
		f[icmp + PKT_ICMP_LEN] ^= 0x20; /* another IP version in the quote */
		assert_false(too_big(f, len, &b));
	}
}

static bool same(const struct pkt *a, const struct pkt *b)
{
	return a->kind == b->kind && a->ip_version == b->ip_version && a->ip_proto == b->ip_proto &&
	       a->ip_tos == b->ip_tos && a->tcp_flags == b->tcp_flags && a->vlan == b->vlan &&
	       a->ethertype == b->ethertype && a->l3_off == b->l3_off && a->l4_off == b->l4_off &&
	       a->l4_len == b->l4_len && a->sport == b->sport && a->dport == b->dport &&
	       pkt_addr_eq(&a->src, &b->src) && pkt_addr_eq(&a->dst, &b->dst) && a->payload_off == b->payload_off &&
	       a->payload_len == b->payload_len && a->tcp_seq == b->tcp_seq && a->tcp_ack == b->tcp_ack &&
	       a->tcp_wnd == b->tcp_wnd && a->tcp_urg == b->tcp_urg && a->tcp_opt == b->tcp_opt &&
	       a->tcp_opt_len == b->tcp_opt_len;
}

/*
 * Reads a frame as the next one behind another, from memory of exactly its size. Where that succeeds, pkt_parse must
 * read the same. True: it succeeded.
 */
static bool next_exact(const uint8_t *frame, uint32_t contiguous, uint32_t len, const uint8_t *before,
		       uint32_t before_len)
{
	uint8_t *copy = malloc(contiguous ? contiguous : 1);
	struct pkt first, p, whole;

	memcpy(copy, frame, contiguous);
	assert_int_equal(pkt_parse(before, before_len, before_len, &first), PKT_OK);
	bool next = pkt_parse_next(copy, contiguous, len, before, &first, &p);
	if (next) {
		assert_int_equal(pkt_parse(copy, contiguous, len, &whole), PKT_OK);
		assert_true(same(&p, &whole));
	}
	free(copy);
	return next;
}

/* The frames of a real connection: each one is the next of a train of its own direction, and of no other. */
static void the_next_segment_of_a_train(void **state)
{
	uint32_t hits = 0;

	(void)state;
	load("siw_write.pcap", 18);
	for (uint32_t i = 0; i < cap.n; i++) {
		for (uint32_t k = 0; k < cap.n; k++) {
			const uint8_t *frame = cap.rec[i].frame, *before = cap.rec[k].frame;
			bool one_way = memcmp(frame, before, 2 * PKT_MAC_LEN) == 0;
			assert_int_equal(next_exact(frame, cap.rec[i].len, cap.rec[i].len, before, cap.rec[k].len),
					 one_way);
			hits += one_way;
		}
	}
	assert_true(hits > 20);
}

/* Every bit of the first hdr_len octets, turned; every length, cut. Returns how many turned bits were refused. */
static uint32_t bent(const uint8_t *before, uint32_t len, uint32_t hdr_len)
{
	uint8_t frame[2048];
	uint32_t refused = 0;

	for (uint32_t bit = 0; bit < hdr_len * 8; bit++) {
		memcpy(frame, before, len);
		frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
		refused += !next_exact(frame, len, len, before, len);
		ip4_sum_fix(frame);
		(void)next_exact(frame, len, len, before, len);
	}
	for (uint32_t n = 0; n < len; n++) {
		(void)next_exact(before, n, len, before, len);
		assert_false(next_exact(before, n, n, before, len));
	}
	return refused;
}

/*
 * pkt_parse_next never accepts what pkt_parse would not. It refuses all bits of Ethernet's and IPv4's header and of the
 * ports, and lengths of the TCP header that do not fit.
 */
static void bent_next_segments(void **state)
{
	(void)state;
	load("siw_write.pcap", 18);
	assert_true(bent(cap.rec[7].frame, cap.rec[7].len, 66) >= PKT_TRAIN_LEN * 8);
}

/* The same for datagrams; the length that UDP tells is refused when it is longer than what IP has. */
static void bent_next_datagrams(void **state)
{
	(void)state;
	load("kernel_mix.pcap", 30);
	const uint8_t *frame = cap.rec[28].frame; /* UDP over IPv4 */
	const uint32_t len = cap.rec[28].len;
	assert_true(next_exact(frame, len, len, frame, len));
	assert_true(bent(frame, len, PKT_ETH_LEN + PKT_IP4_LEN + PKT_UDP_LEN) > PKT_TRAIN_LEN * 8);
	assert_false(next_exact(cap.rec[29].frame, cap.rec[29].len, cap.rec[29].len, cap.rec[29].frame,
				cap.rec[29].len)); /* UDP over IPv6 */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(siw_frames_parse_and_verify),
		cmocka_unit_test(syn_fields),
		cmocka_unit_test(offloaded_sum_is_refused_then_finished),
		cmocka_unit_test(kernel_mix_kinds),
		cmocka_unit_test(arp_fields),
		cmocka_unit_test(every_truncation),
		cmocka_unit_test(ethernet_padding_is_cut),
		cmocka_unit_test(vlan_tag),
		cmocka_unit_test(bent_ip4_and_tcp_headers),
		cmocka_unit_test(bent_ip6_headers),
		cmocka_unit_test(udp_lengths),
		cmocka_unit_test(every_flipped_bit_fails_the_sum),
		cmocka_unit_test(addresses),
		cmocka_unit_test(icmp_too_big_is_read_and_nothing_else_is),
		cmocka_unit_test(the_next_segment_of_a_train),
		cmocka_unit_test(bent_next_segments),
		cmocka_unit_test(bent_next_datagrams),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
