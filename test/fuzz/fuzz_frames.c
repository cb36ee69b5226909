/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole receive path with an established connection: Ethernet frames, whose headers, TCP options and payload the
 * input chooses, go through pkt_parse, checksum, TCP, MPA, DDP and RDMAP, as in a worker. A record is an octet of HOW
 * bits, then TCP flags, window and lengths, then the octets that the HOW bits ask for. Fragments must be refused, no
 * byte may be written outside the regions that the peer may write to, and every packet must come back.
 */
#include <stdlib.h>
#include <string.h>

#include "base/rn_be.h"
#include "crc32c/crc32c.h"
#include "pkt/pkt.h"
#include "raw.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define GUARD (1u << 20) /* memory below this offset and above the region `small` must never change */

enum how {
	HOW_SEQ = 1 << 0,   /* the sequence number is not the next one, but one near it */
	HOW_ACK = 1 << 1,   /* the ACK number is not the newest one, but one near it */
	HOW_FRAG = 1 << 2,  /* the fragment field of the IP header is set */
	HOW_PATCH = 1 << 3, /* one octet of the headers changes without a change of the checksum */
	HOW_FPDU = 1 << 4,  /* the payload is a ULPDU to be framed, with its CRC */
	HOW_TIME = 1 << 5,  /* time passes before the frame */
	HOW_READ = 1 << 6,  /* the device posts a Read */
	HOW_RECV = 1 << 7,  /* the device posts a receive */
};

struct input {
	const uint8_t *p;
	size_t left;
};

static uint8_t u8(struct input *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	return *in->p++;
}

static uint16_t u16(struct input *in)
{
	uint16_t lo = u8(in);

	return (uint16_t)(lo | u8(in) << 8);
}

/* Handles a frame as a worker does. */
static void arrive(const uint8_t *frame, uint32_t len, bool fragment)
{
	uint8_t *exact = malloc(len); /* exactly as long as the frame, so that ASan sees a read beyond it */
	struct pkt p;

	memcpy(exact, frame, len);
	if (pkt_parse(exact, len, len, &p) == PKT_OK && p.kind == PKT_KIND_TCP) {
		struct rn_iov l4 = { exact + p.l4_off, p.l4_len };
		struct tcpl_out o = { .seq = p.tcp_seq,
				      .ack = p.tcp_ack,
				      .len = p.payload_len,
				      .wnd = p.tcp_wnd,
				      .flags = p.tcp_flags,
				      .optlen = p.tcp_opt_len };

		if (fragment)
			abort();
		memcpy(o.opt, p.tcp_opt, p.tcp_opt_len);
		if (pkt_l4_csum_ok(&p, &l4, 1))
			rig_inject(B.r, B.dev, 0, &o, exact + p.payload_off);
	}
	free(exact);
}

static uint32_t fpdu(uint8_t *out, const uint8_t *ulpdu, uint32_t len)
{
	uint32_t total = mpa_fpdu_len(len), crc;

	memset(out, 0, total);
	rn_store_be16(out, (uint16_t)len);
	memcpy(out + 2, ulpdu, len);
	crc = crc32c(0, out, total - 4);
	memcpy(out + total - 4, &crc, 4);
	return total;
}

static void record(struct input *in)
{
	const struct pkt_flow flow = { .l2.vlan = PKT_NO_VLAN,
				       .src = pkt_addr_ip4(0x0a000001),
				       .dst = pkt_addr_ip4(0x0a000002),
				       .sport = 1,
				       .dport = 2,
				       .ttl = 64 };
	const struct tcpl_conn *c = &dev()->conn[0].tcp;
	struct qp_sge sink = rig_sge(dev(), 3u << 20, 5000);
	const struct rig_wr w = { .wr_id = 9,
				  .op = QP_WR_READ,
				  .flags = QP_WF_SIGNALED,
				  .sge = &sink,
				  .num_sge = 1,
				  .raddr = 4096,
				  .rkey = 0x1234 };
	uint8_t frame[PKT_HDR_MAX + 4096], opt[PKT_TCP_OPT_MAX] = { 0 }, payload[4096], how = u8(in);
	struct pkt_tcp_template t;
	struct pkt_tcp_seg s = { .flags = u8(in), .wnd = u16(in), .opt = opt };
	uint16_t lens = u16(in), n = rn_min_u32(lens & 0x7ff, (uint32_t)in->left);

	s.opt_len = (uint8_t)(rn_min_u32(lens >> 11, PKT_TCP_OPT_MAX / 4) * 4);
	s.seq = c->rcv_nxt + (how & HOW_SEQ ? (uint32_t)(int16_t)u16(in) : 0);
	s.ack = c->snd_nxt + (how & HOW_ACK ? (uint32_t)(int16_t)u16(in) : 0);
	for (uint32_t i = 0; i < s.opt_len; i++)
		opt[i] = u8(in);
	n = (uint16_t)rn_min_u32(n, (uint32_t)in->left);
	s.payload_len = n;
	if (how & HOW_FPDU)
		s.payload_len = fpdu(payload, in->p, n);
	else
		memcpy(payload, in->p, n);
	in->p += n;
	in->left -= n;
	s.payload_sum = pkt_sum(payload, s.payload_len);
	pkt_tcp_template_init(&t, &flow);
	uint32_t hdr = pkt_tcp_build(&t, &s, PKT_CSUM_FULL, frame);
	memcpy(frame + hdr, payload, s.payload_len);
	uint16_t frag = how & HOW_FRAG ? u16(in) : 0;
	if (how & HOW_FRAG) {
		uint8_t *ip = frame + PKT_ETH_LEN;
		rn_store_be16(ip + 6, frag);
		memset(ip + 10, 0, 2);
		uint16_t sum = (uint16_t)~pkt_sum_fold(pkt_sum(ip, 20));
		memcpy(ip + 10, &sum, 2);
	}
	if (how & HOW_PATCH) {
		uint8_t at = u8(in);
		frame[at % hdr] ^= u8(in);
	}
	if (how & HOW_READ)
		(void)rig_post(dev(), 0, &w);
	if (how & HOW_RECV)
		(void)rig_post_recv(dev(), 0, 1, &sink, 1);
	if (how & HOW_TIME)
		rig_run(B.r, u8(in) * RN_NS_PER_MS);
	arrive(frame, hdr + s.payload_len, (frag & 0x3fff) != 0 && !(how & HOW_PATCH));
	rig_step(B.r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct rig_cfg cfg;

	if (size > 8192)
		return 0;
	rig_defaults(&cfg);
	cfg.recs = 128;
	cfg.chunks = 64;
	open_bench(0, &cfg);
	/* The peer may write to the region `small` only. */
	if (qp_mr_dereg(&dev()->dev, dev()->rkey) != QP_MR_OK)
		abort();
	dev()->lkey = rig_reg(dev(), 0, RIG_MEM, QP_ACC_LOCAL_WRITE, RIG_PD);
	raw_up();
	while (in.left > 5)
		record(&in);
	rig_settle(B.r);
	const uint8_t *guard = dev()->mem + 2 * SMALL_LEN;
	if (guard[0] != 0xee || memcmp(guard, guard + 1, GUARD - 2 * SMALL_LEN - 1) != 0)
		abort();
	close_bench();
	return 0;
}
