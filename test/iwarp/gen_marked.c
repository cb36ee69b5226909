/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes a capture of a synthetic connection, made by lib/iwarp alone, which another program decodes and checks:
 *   gen_marked OUT.pcap INITIATOR_WANTS_MARKERS RESPONDER_WANTS_MARKERS MSS SEED EASY
 * EASY 1: a connection that tshark 4.0 can follow, with one FPDU per segment and no FPDU that ends right before a
 * marker (there tshark counts one marker too many). On standard output: one line "frame ulpdu_len opcode markers" per
 * FPDU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rn_be.h"
#include "iwarp/ddp.h"
#include "iwarp/mpa_neg.h"
#include "iwarp/mpa_tx.h"
#include "iwarp/rdmap_wire.h"
#include "ref_mpa.h"

#define N_SEGMENTS 300

struct end {
	uint32_t ip, seq, stream; /* stream: offset in the direction's Full Operation */
	uint16_t port;
	bool markers; /* this end sends markers */
	uint32_t msn[3];
};

static FILE *out;
static uint32_t frame_no;
static uint8_t payload[10000];

static void packet(struct end *from, const struct end *to, uint8_t flags, const uint8_t *body, uint32_t len)
{
	uint8_t h[54] = { 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45 };
	uint32_t rec[4] = { ++frame_no, 0, 54 + len, 54 + len };

	rn_store_be16(h + 16, (uint16_t)(40 + len));
	h[22] = 64;
	h[23] = 6;
	rn_store_be32(h + 26, from->ip);
	rn_store_be32(h + 30, to->ip);
	rn_store_be16(h + 34, from->port);
	rn_store_be16(h + 36, to->port);
	rn_store_be32(h + 38, from->seq);
	rn_store_be32(h + 42, to->seq);
	h[46] = 0x50;
	h[47] = flags;
	rn_store_be16(h + 48, 0xffff);
	fwrite(rec, sizeof(rec), 1, out);
	fwrite(h, sizeof(h), 1, out);
	if (len > 0)
		fwrite(body, 1, len, out);
	from->seq += len + (flags & 2 ? 1 : 0);
}

/* Appends one FPDU to seg and prints its line. */
static uint32_t fpdu(struct end *from, const struct ddp_hdr *h, const uint8_t *data, uint32_t n, uint8_t *seg)
{
	struct rn_iov iov[MPA_TX_IOV(1, MPA_TX_MARKERS)], pay = { (uint8_t *)data, n };
	struct mpa_fpdu f;
	uint32_t hdr_len = ddp_build(mpa_tx_begin(&f, iov, RN_ARRAY_LEN(iov)), h), plain;

	if (mpa_tx_frame(&f, hdr_len, &pay, 1, n) != MPA_TX_OK)
		abort();
	plain = f.len;
	if (from->markers && mpa_tx_mark(&f, from->stream, MPA_MARKER_STEP) != MPA_TX_OK)
		abort();
	mpa_tx_copy(&f, true, seg);
	from->stream += f.len;
	printf("%u %u %u %u\n", frame_no + 1, f.ulpdu_len, h->opcode, (f.len - plain) / 4);
	return f.len;
}

static bool ends_before_marker(const struct end *from, uint32_t ulpdu_len)
{
	uint32_t len = mpa_fpdu_len(ulpdu_len);

	return (from->stream + len + 4 * mpa_markers_in(from->stream, len, MPA_MARKER_STEP)) % 512 == 0;
}

static uint32_t any_fpdu(struct end *from, uint32_t max, bool easy, uint64_t *rng, uint8_t *seg)
{
	static const uint8_t ops[] = { RDMAP_WRITE,    RDMAP_SEND,     RDMAP_SEND_SE,
				       RDMAP_SEND_INV, RDMAP_READ_REQ, RDMAP_READ_RESP };
	uint8_t op = ops[ref_rand(rng) % sizeof(ops)];
	uint32_t room = max - rdmap_op_of(op)->hdr_len;
	uint32_t n = ref_rand(rng) & 1 ? room - (ref_rand(rng) & 3) : ref_rand(rng) % room;
	struct ddp_hdr h;
	uint8_t rr[RDMAP_READ_REQ_LEN];

	if (op == RDMAP_READ_REQ)
		n = sizeof(rr);
	if (easy && ends_before_marker(from, rdmap_op_of(op)->hdr_len + n)) {
		op = op == RDMAP_READ_REQ ? RDMAP_SEND : op;
		n = n < 4 ? n + 4 : n - 4;
	}
	if (rdmap_op_of(op)->tagged) {
		h = ddp_tagged(op, true, ref_rand(rng), ref_rand(rng));
		return fpdu(from, &h, payload, n, seg);
	}
	h = ddp_untagged(op, true, rdmap_op_of(op)->invalidates ? ref_rand(rng) : 0, 0, 0);
	h.msn = ++from->msn[h.qn];
	if (op != RDMAP_READ_REQ)
		return fpdu(from, &h, payload, n, seg);
	rdmap_read_req_build(rr, &(struct rdmap_read_req){ 1, 2, 3, 4, 5 });
	return fpdu(from, &h, rr, sizeof(rr), seg);
}

static void terminate(struct end *from, const struct end *to)
{
	struct ddp_hdr h = ddp_untagged(RDMAP_TERMINATE, true, 0, 1, 0), bad = ddp_tagged(RDMAP_WRITE, true, 77, 88);
	uint8_t body[RDMAP_TERM_MAX_LEN], seg[256], off[DDP_MAX_HDR_LEN];
	uint32_t n = ddp_build(off, &bad);

	n = rdmap_term_build(body, iw_err_of(IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_BASE_BOUNDS, false), off, n);
	n = fpdu(from, &h, body, n, seg);
	packet(from, to, 0x18, seg, n);
}

static void set_up(struct end *i, struct end *r, const struct mpa_policy *pi, const struct mpa_policy *pr)
{
	struct mpa_agreed ai, ar;
	struct mpa_neg_rx rx;
	struct mpa_frame f;
	struct mpa_out o;
	uint32_t used;

	packet(i, r, 0x02, NULL, 0);
	packet(r, i, 0x12, NULL, 0);
	packet(i, r, 0x10, NULL, 0);
	if (mpa_neg_request(pi, (const uint8_t *)"hello", 5, &o) != MPA_NEG_OK)
		abort();
	packet(i, r, 0x18, o.buf, o.len);
	mpa_neg_rx_init(&rx, false);
	if (mpa_neg_feed(&rx, o.buf, o.len, &used, &f) != MPA_NEG_OK ||
	    mpa_neg_accept(pr, &f, NULL, 0, &o, &ar) != MPA_NEG_OK)
		abort();
	packet(r, i, 0x18, o.buf, o.len);
	mpa_neg_rx_init(&rx, true);
	if (mpa_neg_feed(&rx, o.buf, o.len, &used, &f) != MPA_NEG_OK || mpa_neg_finish(pi, &f, &ai) != MPA_NEG_OK)
		abort();
	i->markers = ai.tx_markers != 0;
	r->markers = ar.tx_markers != 0;
}

int main(int argc, char **argv)
{
	static const uint32_t file_hdr[] = { 0xa1b2c3d4, 2 | 4 << 16, 0, 0, 262144, 1 };
	struct mpa_policy pi = { .rev = 2, .crc = true, .ird = 4, .ord = 4 }, pr = pi;
	struct end i = { .ip = 0x0a000001, .port = 40000, .seq = 1000 };
	struct end r = { .ip = 0x0a000002, .port = 7471, .seq = 900000 };
	uint8_t seg[20000];

	if (argc != 7 || (out = fopen(argv[1], "wb")) == NULL)
		return 2;
	pi.markers = atoi(argv[2]) != 0;
	pr.markers = atoi(argv[3]) != 0;
	uint32_t mss = (uint32_t)atoi(argv[4]);
	bool easy = atoi(argv[6]) != 0;
	uint64_t rng = strtoull(argv[5], NULL, 10);
	for (uint32_t k = 0; k < sizeof(payload); k++)
		payload[k] = (uint8_t)ref_rand(&rng);
	fwrite(file_hdr, sizeof(file_hdr), 1, out);
	set_up(&i, &r, &pi, &pr);
	for (uint32_t k = 0; k < N_SEGMENTS; k++) {
		struct end *from = k > 0 && (ref_rand(&rng) & 1) ? &r : &i;
		uint32_t room = mpa_mulpdu(mss, from->markers ? MPA_MARKER_STEP : 0), n;

		if (!easy && ref_rand(&rng) % 4 == 0) { /* two FPDUs in one segment */
			n = any_fpdu(from, room / 2 - 20, easy, &rng, seg);
			n += any_fpdu(from, room / 2 - 20, easy, &rng, seg + n);
		} else {
			n = any_fpdu(from, room, easy, &rng, seg);
		}
		if (n > mss)
			return 3;
		packet(from, from == &i ? &r : &i, 0x18, seg, n);
	}
	terminate(&r, &i);
	return fclose(out) != 0;
}
