/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pkt_parse over any bytes, with any split between the contiguous part and the rest. All parts of an accepted frame
 * must lie inside the frame, an echo reply and a finished checksum must stay inside it, and a TCP header that is built
 * again must read back the same.
 */
#include <stdlib.h>

#include "pkt/pkt.h"
#include "pkt/pkt_icmp.h"
#include "pkt/pkt_igmp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void rebuild(const struct pkt *p)
{
	struct pkt_flow f = { .l2.vlan = p->vlan, .src = p->src, .dst = p->dst, .sport = p->sport, .dport = p->dport };
	struct pkt_tcp_template t;
	struct pkt_tcp_seg s = { .seq = p->tcp_seq,
				 .ack = p->tcp_ack,
				 .wnd = p->tcp_wnd,
				 .flags = p->tcp_flags,
				 .opt = p->tcp_opt,
				 .opt_len = p->tcp_opt_len };
	uint8_t out[PKT_HDR_MAX];
	struct pkt q;

	pkt_tcp_template_init(&t, &f);
	uint32_t len = pkt_tcp_build(&t, &s, PKT_CSUM_FULL, out);
	check(len <= sizeof(out) && pkt_parse(out, len, len, &q) == PKT_OK && q.kind == PKT_KIND_TCP);
	check(q.tcp_seq == p->tcp_seq && q.tcp_ack == p->tcp_ack && q.tcp_flags == p->tcp_flags &&
	      q.tcp_opt_len == p->tcp_opt_len && pkt_addr_eq(&q.src, &p->src) && q.vlan == p->vlan);
	struct rn_iov iov = { .base = out + q.l4_off, .len = q.l4_len };
	check(pkt_l4_csum_ok(&q, &iov, 1));
}

/* A frame that differs from one that was read in one byte: as its next segment it is read as pkt_parse reads it. */
static void next_of(const uint8_t *before, const struct pkt *read, uint32_t contiguous, uint32_t len, uint32_t what)
{
	uint8_t *frame = malloc(contiguous);
	struct pkt p, q;

	memcpy(frame, before, contiguous);
	frame[(what >> 8) % contiguous] ^= (uint8_t)what;
	if (pkt_parse_next(frame, contiguous, len, before, read, &p)) {
		check(pkt_parse(frame, contiguous, len, &q) == PKT_OK && q.kind == read->kind);
		check(p.payload_off == q.payload_off && p.payload_len == q.payload_len && p.l4_len == q.l4_len);
		check(p.tcp_opt == q.tcp_opt && p.tcp_opt_len == q.tcp_opt_len && p.tcp_seq == q.tcp_seq);
		check(pkt_addr_eq(&p.src, &q.src) && pkt_addr_eq(&p.dst, &q.dst) && p.sport == q.sport);
	}
	free(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2 || size > 70000)
		return 0;
	uint32_t len = (uint32_t)size - 2;
	uint32_t contiguous = rn_min_u32(len, (uint32_t)data[0] | (uint32_t)data[1] << 8);
	uint8_t *frame = malloc(contiguous + 1); /* exactly as long as the frame, so that ASan sees a read beyond it */
	struct pkt p;

	memcpy(frame, data + 2, contiguous);
	frame = realloc(frame, contiguous ? contiguous : 1);
	if (pkt_parse(frame, contiguous, len, &p) == PKT_OK) {
		check(p.kind == PKT_KIND_ARP || p.ip_version == 0 || rn_in_range(p.payload_off, p.payload_len, len));
		struct pkt_too_big b;
		if (pkt_icmp_too_big(frame, contiguous, &p, &b))
			check(p.kind == PKT_KIND_ICMP && b.mtu >= 68 && b.mtu <= UINT16_MAX);
		struct pkt_refused r;
		if (pkt_icmp_refused(frame, contiguous, &p, &r))
			check(p.kind == PKT_KIND_ICMP);
		uint8_t answer[PKT_ICMP_PORT_MAX];
		struct pkt_l2 l2 = { .vlan = 1 };
		check(pkt_icmp_port_build(answer, &l2, frame, contiguous, &p) <= sizeof(answer));
		if (p.kind == PKT_KIND_TCP) {
			check(p.tcp_opt_len <= PKT_TCP_OPT_MAX && p.payload_off <= contiguous);
			rebuild(&p);
			next_of(frame, &p, contiguous, len, (uint32_t)data[size - 1] << 8 | data[size - 2]);
		}
		if (p.ip_version != 0 && rn_in_range(p.l4_off, p.l4_len, contiguous)) {
			struct rn_iov iov = { .base = frame + p.l4_off, .len = p.l4_len };
			if (p.kind != PKT_KIND_OTHER && p.kind != PKT_KIND_IGMP) {
				pkt_l4_csum_finish(&p, frame, &iov, 1);
				check(pkt_l4_csum_ok(&p, &iov, 1));
			}
			if (p.kind == PKT_KIND_ICMP_ECHO) {
				pkt_icmp_echo_reply(frame, &p);
				check(pkt_l4_csum_ok(&p, &iov, 1));
			}
		}
		struct pkt_arp a;
		struct pkt_igmp_query q;
		if (p.kind == PKT_KIND_IGMP && pkt_igmp_parse(frame, contiguous, &p, &q) == PKT_IGMP_QUERY)
			check(q.version >= 1 && q.version <= 3 && (q.all || pkt_addr_is_group(&q.group)));
		if (p.kind == PKT_KIND_ARP && pkt_arp_parse(frame, contiguous, &p, &a) == PKT_OK)
			check(pkt_addr_is_ip4(&a.sender) && pkt_addr_is_ip4(&a.target));
	}
	free(frame);
	return 0;
}
