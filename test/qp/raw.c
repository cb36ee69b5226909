/* SPDX-License-Identifier: BSD-3-Clause */
#include "raw.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rn_be.h"
#include "crc32c/crc32c.h"
#include "iwarp/mpa_tx.h"

struct bench B;

void open_bench(int raw_id, const struct rig_cfg *with)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	if (with != NULL)
		cfg = *with;
	cfg.raw[raw_id] = true;
	memset(&B, 0, sizeof(B));
	for (uint32_t i = 0; junk[1] == 0 && i < sizeof(junk); i++)
		junk[i] = (uint8_t)(i * 7);
	B.raw = raw_id;
	B.dev = !raw_id;
	B.r = rig_new(&cfg);
	struct rig_node *n = &B.r->n[B.dev];
	B.ro = rig_reg(n, 0, SMALL_LEN, QP_ACC_LOCAL_WRITE, RIG_PD);
	B.other_pd = rig_reg(n, 0, SMALL_LEN, QP_ACC_ALL, RIG_PD + 1);
	B.stale = rig_reg(n, 0, SMALL_LEN, QP_ACC_ALL, RIG_PD);
	B.small = rig_reg(n, SMALL_LEN, SMALL_LEN, QP_ACC_ALL, RIG_PD);
	assert_int_equal(qp_mr_dereg(&n->dev, B.stale), QP_MR_OK);
	memset(n->mem, 0xee, RIG_MEM);
}

struct rig_node *dev(void) { return &B.r->n[B.dev]; }
struct rig_raw *raw(void) { return B.r->n[B.raw].raw; }
uint64_t iova(uint32_t off) { return RIG_IOVA(B.dev) + off; }

void close_bench(void) { rig_free(B.r); }

void send_bytes(const void *p, uint32_t n) { rig_raw_send(B.r, B.raw, p, n); }

/* Sends any ULPDU as an FPDU without markers; flip: with a wrong CRC. */
void send_ulpdu(const uint8_t *ulpdu, uint32_t len, bool flip)
{
	uint8_t f[70000] = { 0 };
	uint32_t total = mpa_fpdu_len(len), crc;

	rn_store_be16(f, (uint16_t)len);
	memcpy(f + 2, ulpdu, len);
	crc = crc32c(0, f, total - 4) ^ (flip ? 1 : 0);
	memcpy(f + total - 4, &crc, 4);
	send_bytes(f, total);
}

void send_ddp(const struct ddp_hdr *h, const void *payload, uint32_t len)
{
	uint8_t u[66000];
	uint32_t n = ddp_build(u, h);

	if (len > 0)
		memcpy(u + n, payload, len);
	send_ulpdu(u, n + len, false);
}

uint8_t junk[60000];

void send_write(uint32_t stag, uint64_t to, uint32_t len, bool last)
{
	const struct ddp_hdr h = ddp_tagged(RDMAP_WRITE, last, stag, to);

	send_ddp(&h, junk, len);
}

void send_send(uint32_t msn, uint32_t mo, uint32_t len, bool last)
{
	const struct ddp_hdr h = ddp_untagged(RDMAP_SEND, last, 0, msn, mo);

	send_ddp(&h, junk, len);
}

void send_read(uint32_t msn, uint32_t stag, uint64_t to, uint32_t len)
{
	const struct ddp_hdr h = ddp_untagged(RDMAP_READ_REQ, true, 0, msn, 0);
	const struct rdmap_read_req q = {
		.sink_stag = 0x1234, .sink_to = 0x1000, .len = len, .src_stag = stag, .src_to = to
	};
	uint8_t body[RDMAP_READ_REQ_LEN];

	rdmap_read_req_build(body, &q);
	send_ddp(&h, body, sizeof(body));
}

struct mpa_policy raw_policy(void)
{
	return (struct mpa_policy){ .rev = 2, .crc = true, .ird = 8, .ord = 8, .rtr = MPA_RTR_WRITE };
}

/* The raw side as initiator: TCP, Request and Reply, up to Full Operation. */
void raw_up(void)
{
	const struct mpa_policy p = raw_policy();
	struct mpa_out out;
	struct mpa_neg_rx nrx;
	struct mpa_frame f;
	uint32_t used;

	rig_raw_connect(B.r, B.raw);
	assert_int_equal(mpa_neg_request(&p, NULL, 0, &out), MPA_NEG_OK);
	send_bytes(out.buf, out.len);
	rig_settle(B.r);
	mpa_neg_rx_init(&nrx, true);
	assert_int_equal(mpa_neg_feed(&nrx, raw()->rx, raw()->rx_len, &used, &f), MPA_NEG_OK);
	B.rx_at = used;
	mpa_rx_init(&B.rx, 0, true);
	assert_true(mpa_rx_give_stage(&B.rx, B.stage, sizeof(B.stage)));
}

/* The raw side as responder: receives the Request and sends the Reply. */
void raw_reply(const struct mpa_policy *p)
{
	struct mpa_neg_rx nrx;
	struct mpa_frame f;
	struct mpa_out out;
	struct mpa_agreed a;
	uint32_t used;

	rig_connect_start(B.r, 0, NULL, 0);
	rig_settle(B.r);
	mpa_neg_rx_init(&nrx, false);
	assert_int_equal(mpa_neg_feed(&nrx, raw()->rx, raw()->rx_len, &used, &f), MPA_NEG_OK);
	B.rx_at = used;
	mpa_rx_init(&B.rx, 0, true);
	assert_true(mpa_rx_give_stage(&B.rx, B.stage, sizeof(B.stage)));
	(void)!mpa_neg_accept(p, &f, NULL, 0, &out, &a);
	send_bytes(out.buf, out.len);
}

void raw_respond(const struct mpa_policy *p)
{
	raw_reply(p);
	rig_settle(B.r);
}

/* Takes the device's next FPDU; false: there is none. */
bool next_fpdu(struct ddp_hdr *h, uint8_t *payload, uint32_t *len)
{
	struct rn_iov iov = { raw()->rx + B.rx_at, raw()->rx_len - B.rx_at };
	struct mpa_rx_in in;
	struct mpa_view v;
	uint8_t all[66000];

	mpa_rx_input(&in, &iov, 1);
	if (mpa_rx_next(&B.rx, &in, &v) != MPA_RX_FPDU)
		return false;
	assert_true(mpa_rx_crc(&v));
	B.rx_at += v.raw_len;
	rn_iov_gather(v.ulpdu, v.n, all, sizeof(all));
	assert_int_equal(ddp_parse(all, v.ulpdu_len, h), DDP_OK);
	*len = v.ulpdu_len - h->hdr_len;
	memcpy(payload, all + h->hdr_len, *len);
	return true;
}

void expect_terminate(enum iw_layer layer, uint8_t etype, uint8_t code)
{
	static uint8_t body[66000];
	struct rdmap_term t;
	struct ddp_hdr h;
	uint32_t len;

	rig_settle(B.r);
	do {
		if (!next_fpdu(&h, body, &len))
			fail_msg("no Terminate, wanted %u/%u/%u", layer, etype, code);
	} while (h.opcode != RDMAP_TERMINATE);
	assert_int_equal(h.qn, DDP_QN_TERMINATE);
	assert_int_equal(h.msn, 1);
	assert_int_equal(rdmap_term_parse(body, len, &t), RDMAP_TERM_OK);
	if (t.err.layer != layer || t.err.etype != etype || t.err.code != code)
		fail_msg("Terminate %u/%u/%02x, wanted %u/%u/%02x", t.err.layer, t.err.etype, t.err.code, layer, etype,
			 code);
	assert_true(raw()->fin);
	assert_int_equal(dev()->q[0].qp.state, QP_S_ERR);
	assert_int_equal(rig_fx_count(B.r, B.dev, QP_FX_DISCONNECTED), 1);
	assert_int_equal(rig_fx(B.r, B.dev, QP_FX_DISCONNECTED)->vendor_err,
			 (uint32_t)layer << 16 | (uint32_t)etype << 8 | code);
	assert_int_equal(rig_fx_count(B.r, B.dev, QP_FX_QP_EVENT), 1);
}

bool untouched(void) { return dev()->mem[0] == 0xee && memcmp(dev()->mem, dev()->mem + 1, RIG_MEM - 1) == 0; }
void send_terminate(struct iw_err e, const struct ddp_hdr *seg, const struct rdmap_read_req *q)
{
	const struct ddp_hdr h = ddp_untagged(RDMAP_TERMINATE, true, 0, 1, 0);
	uint8_t body[RDMAP_TERM_MAX_LEN], copy[64] = { 0 };
	uint32_t n = seg != NULL ? ddp_build(copy, seg) : 0;

	if (q != NULL)
		rdmap_read_req_build(copy + n, q);
	n = rdmap_term_build(body, e, seg != NULL ? copy : NULL, n + (q != NULL ? RDMAP_READ_REQ_LEN : 0));
	send_ddp(&h, body, n);
}
