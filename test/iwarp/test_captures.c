/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Golden: real iWARP between two Linux siw endpoints. test/captures/decoded.txt is what an independent decoder made of
 * each capture, test/captures/SUMMARY its counts next to tshark's. Each capture is read here in three ways (segments as
 * they came, octet by octet, chains of odd slices) and must give the same lines; each MPA frame and each FPDU is then
 * built again from its parsed fields and must give the same octets.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rn_be.h"
#include "iw_pcap.h"
#include "iwarp/ddp.h"
#include "iwarp/mpa_neg.h"
#include "iwarp/mpa_rx.h"
#include "iwarp/mpa_tx.h"
#include "iwarp/rdmap_wire.h"

#define MAX_CASES 200
#define MAX_SIDES 512 /* directions of all connections of one capture */

enum feeding { WHOLE, OCTETS, CHAINS, NUM_FEEDINGS };

struct capture {
	char name[64];
	char **want; /* lines of decoded.txt */
	uint32_t n_want;
	uint32_t fpdus, good, zero; /* counts of SUMMARY */
};

struct side {
	struct iw_flow flow;
	struct mpa_neg_rx neg;
	struct mpa_frame frame;
	bool operating;
	bool broken; /* a verdict has refused the stream, so the rest of the stream is skipped */
	struct mpa_rx rx;
	uint8_t stage[MPA_STAGE_SIZE];
};

struct run {
	const struct capture *cap; /* NULL: no lines are expected */
	struct side *side[MAX_SIDES];
	uint32_t n_sides;
	enum feeding feeding;
	uint32_t line, fpdus, good, zero, staged, terms;
	struct iw_err term;
	enum rdmap_term_form form;
	uint32_t rng;
};

static const char *const op_names[] = { "Write",   "ReadReq", "ReadResp",  "Send",
					"SendInv", "SendSE",  "SendSEInv", "Terminate" };

static void expect_line(struct run *r, const char *got)
{
	if (r->cap == NULL)
		return;
	if (r->line >= r->cap->n_want)
		fail_msg("%s: more than the decoder saw: %s", r->cap->name, got);
	if (strcmp(got, r->cap->want[r->line]) != 0)
		fail_msg("%s, feeding %d:\n  want %s\n  got  %s", r->cap->name, r->feeding, r->cap->want[r->line], got);
	r->line++;
}

static void put_hex(char *s, const uint8_t *p, uint32_t n, const char *between)
{
	static const char digit[] = "0123456789abcdef";

	for (uint32_t i = 0; i < n; i++) {
		if (i > 0)
			s = stpcpy(s, between);
		*s++ = digit[p[i] >> 4];
		*s++ = digit[p[i] & 15];
	}
	*s = 0;
}

/* ---- MPA frames ---- */

static void see_frame(struct run *r, struct side *s)
{
	const struct mpa_frame *f = &s->frame;
	uint32_t wire_len = MPA_HDR_LEN + f->pd_len + (f->enhanced ? MPA_ENH_LEN : 0);
	char line[2048];
	uint8_t again[MPA_FRAME_MAX];
	int n;

	n = sprintf(line, ".%u> MPA %s M%d C%d R%d S%d rsv %x rev %d pdlen %u", s->flow.src & 255,
		    f->reply ? "Rep" : "Req", f->flags >> 7, f->flags >> 6 & 1, f->flags >> 5 & 1, f->flags >> 4 & 1,
		    f->flags & 15, f->rev, wire_len - MPA_HDR_LEN);
	if (f->enhanced)
		n += sprintf(line + n, " [A%d B%d IRD %d | C%d D%d ORD %d]", f->p2p, (f->rtr & MPA_RTR_SEND) != 0,
			     f->ird, (f->rtr & MPA_RTR_WRITE) != 0, (f->rtr & MPA_RTR_READ) != 0, f->ord);
	if (f->pd_len > 0) {
		n += sprintf(line + n, " pd ");
		put_hex(line + n, f->pd, f->pd_len, "");
	}
	expect_line(r, line);
	assert_int_equal(mpa_neg_build(f, again), wire_len);
	assert_memory_equal(again, s->neg.buf, wire_len);
}

/* ---- FPDUs ---- */

/* Builds the FPDU again from its parsed fields. Only pad octets may differ: siw does not clear them. */
static void build_again(const struct mpa_view *v, const struct ddp_hdr *h, const uint8_t *ulpdu, const uint8_t *pad)
{
	struct rn_iov iov[MPA_TX_IOV(1, 0)];
	struct rn_iov payload = { .base = (uint8_t *)ulpdu + h->hdr_len, .len = h->payload_len };
	uint8_t out[MPA_STAGE_SIZE];
	struct mpa_fpdu f;
	uint8_t *hdr = mpa_tx_begin(&f, iov, RN_ARRAY_LEN(iov));
	uint32_t n_pad = mpa_pad(v->ulpdu_len), sum;

	assert_int_equal(ddp_build(hdr, h), h->hdr_len);
	assert_int_equal(mpa_tx_frame(&f, h->hdr_len, &payload, 1, payload.len), MPA_TX_OK);
	assert_int_equal(f.len, v->raw_len);
	memcpy(f.inl + f.crc_at - n_pad, pad, n_pad);
	mpa_tx_copy(&f, v->crc_on, out);
	assert_int_equal(rn_load_be16(out), v->ulpdu_len);
	assert_memory_equal(out + MPA_LEN_FIELD, ulpdu, v->ulpdu_len);
	memcpy(&sum, out + v->raw_len - MPA_CRC_LEN, sizeof(sum));
	assert_int_equal(sum, v->crc_field);
}

#define HAND_MADE_PEER 254 /* last octet of the IP address of the peer that writes Terminates as the RFC says */

static void see_terminate(struct run *r, const struct side *s, const uint8_t *body, uint32_t len)
{
	struct rdmap_term t;
	enum rdmap_term_verdict v = rdmap_term_parse(body, len, &t);

	if (r->cap != NULL)
		assert_int_equal(v, RDMAP_TERM_OK);
	if ((s->flow.src & 255) == HAND_MADE_PEER)
		return;
	assert_int_not_equal(t.form, RDMAP_TERM_RFC);
	r->terms++;
	r->term = t.err;
	r->form = t.form;
}

static int put_fields(char *line, const struct ddp_hdr *h, const uint8_t *body)
{
	struct rdmap_read_req rr;
	int n;

	if (h->tagged)
		return sprintf(line, " STag %08x TO %lx data %u", h->stag, (unsigned long)h->to, h->payload_len);
	n = sprintf(line, " QN %u MSN %u MO %u", h->qn, h->msn, h->mo);
	if (h->opcode == RDMAP_READ_REQ) {
		rdmap_read_req_parse(body, &rr);
		return n + sprintf(line + n, " size %u sink %08x/%lx source %08x/%lx", rr.len, rr.sink_stag,
				   (unsigned long)rr.sink_to, rr.src_stag, (unsigned long)rr.src_to);
	}
	if (h->opcode == RDMAP_TERMINATE) {
		n += sprintf(line + n, " body ");
		put_hex(line + n, body, h->payload_len, " ");
		return (int)strlen(line);
	}
	n += sprintf(line + n, " data %u", h->payload_len);
	if (rdmap_op_of(h->opcode)->invalidates)
		n += sprintf(line + n, " inval STag %08x", h->stag);
	return n;
}

static void see_fpdu(struct run *r, struct side *s, const struct mpa_view *v, const uint8_t *pad)
{
	static uint8_t ulpdu[MPA_STAGE_SIZE];
	struct ddp_hdr h;
	char line[2048];
	bool good = mpa_rx_crc(v);
	int n;

	assert_int_equal(rn_iov_gather(v->ulpdu, v->n, ulpdu, sizeof(ulpdu)), v->ulpdu_len);
	r->fpdus++;
	r->staged += v->staged;
	r->good += v->crc_on && good;
	r->zero += v->crc_field == 0;
	enum ddp_verdict dv = ddp_parse(ulpdu, v->ulpdu_len, &h);
	if (r->cap == NULL && (dv != DDP_OK || !good)) {
		s->broken = true;
		return;
	}
	assert_int_equal(dv, DDP_OK);
	n = sprintf(line, ".%u> %-9s %s ulpdu %u", s->flow.src & 255, op_names[h.opcode], h.last ? "L" : "-",
		    v->ulpdu_len);
	n += put_fields(line + n, &h, ulpdu + h.hdr_len);
	n += sprintf(line + n, " pad ");
	if (mpa_pad(v->ulpdu_len) > 0)
		put_hex(line + n, pad, mpa_pad(v->ulpdu_len), "");
	else
		sprintf(line + n, "-");
	n = (int)strlen(line);
	sprintf(line + n, " crc %s", v->crc_on ? (good ? "good" : "BAD") : v->crc_field == 0 ? "zero" : "BAD");
	expect_line(r, line);
	if (h.opcode == RDMAP_TERMINATE)
		see_terminate(r, s, ulpdu + h.hdr_len, h.payload_len);
	if (r->cap != NULL)
		build_again(v, &h, ulpdu, pad);
}

/* Copies the pad of a view: it follows the ULPDU, in the stage or in the input. */
static void find_pad(const struct mpa_view *v, uint8_t pad[4])
{
	uint8_t raw[MPA_STAGE_SIZE];
	struct rn_iov slice[64];
	uint32_t at = MPA_LEN_FIELD + v->ulpdu_len;

	if (v->staged) {
		memcpy(pad, v->ulpdu[0].base + v->ulpdu_len, mpa_pad(v->ulpdu_len));
		return;
	}
	uint32_t n = rn_iov_cut(v->raw.iov + v->raw.idx, v->raw.n - v->raw.idx, v->raw.off, v->raw_len, slice, 64);
	assert_int_not_equal(n, UINT32_MAX);
	rn_iov_gather(slice, n, raw, sizeof(raw));
	memcpy(pad, raw + at, mpa_pad(v->ulpdu_len));
}

static bool crc_agreed(const struct run *r, const struct side *s)
{
	bool crc = (s->frame.flags & MPA_F_CRC) != 0;

	for (uint32_t i = 0; i < r->n_sides; i++) {
		const struct side *o = r->side[i];

		if (o->flow.src == s->flow.dst && o->flow.sport == s->flow.dport && o->flow.dport == s->flow.sport)
			crc |= o->operating && (o->frame.flags & MPA_F_CRC) != 0;
	}
	return crc;
}

static void feed_rx(struct run *r, struct side *s, const struct rn_iov *iov, uint32_t n)
{
	struct mpa_rx_in in;
	struct mpa_view v;
	uint8_t pad[4];

	if (s->rx.pos == 0 && s->rx.nlen == 0)
		mpa_rx_init(&s->rx, 0, crc_agreed(r, s));
	mpa_rx_input(&in, iov, n);
	while (!s->broken) {
		enum mpa_rx_verdict rv = mpa_rx_next(&s->rx, &in, &v);

		if (rv == MPA_RX_FPDU) {
			find_pad(&v, pad);
			see_fpdu(r, s, &v, pad);
		} else if (rv == MPA_RX_NEED_STAGE) {
			assert_true(mpa_rx_give_stage(&s->rx, s->stage, mpa_rx_stage_need(&s->rx)));
		} else if (rv == MPA_RX_MORE) {
			assert_int_equal(in.idx, in.n);
			if (mpa_rx_idle(&s->rx))
				mpa_rx_take_stage(&s->rx);
			return;
		} else {
			assert_null(r->cap);
			s->broken = true;
		}
	}
}

static void feed(struct run *r, struct side *s, const uint8_t *p, uint32_t n)
{
	struct rn_iov iov[64];
	uint32_t used = 0, k = 0;

	while (n > 0 && !s->operating && !s->broken) {
		uint32_t give = r->feeding == OCTETS ? 1 : n;
		enum mpa_neg_verdict v = mpa_neg_feed(&s->neg, p, give, &used, &s->frame);

		p += used;
		n -= used;
		if (v == MPA_NEG_OK) {
			see_frame(r, s);
			s->operating = true;
		} else if (v != MPA_NEG_MORE) {
			assert_null(r->cap);
			s->broken = true;
		}
	}
	while (n > 0 && !s->broken) {
		iov[k] = (struct rn_iov){ .base = (uint8_t *)p, .len = n };
		r->rng = r->rng * 1103515245 + 12345;
		if (r->feeding == OCTETS)
			iov[k].len = 1;
		else if (r->feeding == CHAINS && k < 62)
			iov[k].len = rn_min_u32(n, r->rng >> 16 & (k & 1 ? 3 : 511));
		p += iov[k].len;
		n -= iov[k].len;
		k++;
		if (n == 0 || r->feeding != CHAINS) {
			feed_rx(r, s, iov, k);
			k = 0;
		}
	}
}

static struct side *side_of(struct run *r, const struct iw_seg *seg)
{
	for (uint32_t i = r->n_sides; i-- > 0;)
		if (iw_flow_owns(&r->side[i]->flow, seg))
			return r->side[i];
	return NULL;
}

static void read_capture(struct run *r, const char *name)
{
	char path[512];
	struct iw_pcap p;
	struct iw_seg seg;

	snprintf(path, sizeof(path), "%s/%s.pcap", CAPTURES_DIR, name);
	if (!iw_pcap_open(&p, path))
		fail_msg("cannot read %s", path);
	while (iw_pcap_next(&p, &seg)) {
		struct side *s = side_of(r, &seg);

		if (seg.flags & IW_TCP_SYN) {
			if (s == NULL) {
				assert_true(r->n_sides < MAX_SIDES);
				s = r->side[r->n_sides++] = malloc(sizeof(*s));
			}
			memset(s, 0, offsetof(struct side, stage));
			iw_flow_start(&s->flow, &seg);
			mpa_neg_rx_init(&s->neg, (seg.flags & 0x10) != 0);
			continue;
		}
		if (s == NULL)
			continue;
		assert_true(iw_flow_add(&s->flow, &seg));
		while (iw_flow_pull(&s->flow, &seg))
			feed(r, s, seg.body, seg.len);
	}
	while (r->n_sides > 0)
		free(r->side[--r->n_sides]);
	iw_pcap_close(&p);
}

static void capture_decodes(void **state)
{
	const struct capture *cap = *state;

	for (enum feeding how = WHOLE; how < NUM_FEEDINGS; how++) {
		struct run r = { .cap = cap, .feeding = how, .rng = 1 };

		read_capture(&r, cap->name);
		assert_int_equal(r.line, cap->n_want);
		assert_int_equal(r.fpdus, cap->fpdus);
		assert_int_equal(r.good, cap->good);
		if (cap->good == 0)
			assert_int_equal(r.zero, cap->zero);
		if (how == OCTETS)
			assert_int_equal(r.staged, cap->fpdus);
	}
}

/* The meanings of siw's Terminates. */
static const struct {
	const char *test;
	struct iw_err err;
} errors[] = {
	{ "04_err_write_stag_64", { IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_STAG_INVALID, 0xc0 } },
	{ "05_err_write_key_64", { IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_STAG_INVALID, 0xc0 } },
	{ "06_err_write_bounds_256", { IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_BASE_BOUNDS, 0xc0 } },
	{ "07_err_write_noaccess_64", { IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_STAG_INVALID, 0xc0 } },
	{ "08_err_read_stag_64", { IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_STAG_INVALID, 0xe0 } },
	{ "09_err_read_bounds_256", { IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_BASE_BOUNDS, 0xe0 } },
	{ "11_err_send_norecv_64", { IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_NO_BUFFER, 0xc0 } },
	{ "12_err_send_toolong_256", { IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_NO_BUFFER, 0xc0 } },
	{ "13_err_sendinv_stag_64", { IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_STAG_INVALIDATE, 0xc0 } },
};

static void terminates_of_siw_are_understood(void **state)
{
	static const char *const group[] = { "err", "errcrc" };

	(void)state;
	for (uint32_t g = 0; g < RN_ARRAY_LEN(group); g++) {
		for (uint32_t i = 0; i < RN_ARRAY_LEN(errors); i++) {
			struct run r = { 0 };
			char name[64];

			snprintf(name, sizeof(name), "%s_%s", group[g], errors[i].test);
			read_capture(&r, name);
			assert_int_equal(r.terms, 1);
			assert_int_equal(r.form, RDMAP_TERM_SWAPPED);
			assert_memory_equal(&r.term, &errors[i].err, sizeof(r.term));
		}
	}
}

/*
 * A hand-made peer that sent every kind of malformed input: the parsers survive it, and all answers of siw are
 * understood.
 */
static void raw_probes_do_no_harm(void **state)
{
	static const char *const probes[] = { "raw_probes_siw_responder", "raw_probes_siw_initiator",
					      "raw_probes_siw_initiator_crc" };
	uint32_t fpdus = 0, terms = 0;

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(probes); i++) {
		uint32_t first = 0;

		for (enum feeding how = WHOLE; how < NUM_FEEDINGS; how++) {
			struct run r = { .feeding = how, .rng = 7 };

			read_capture(&r, probes[i]);
			if (how == WHOLE)
				first = r.fpdus;
			assert_int_equal(r.fpdus, first);
			fpdus += r.fpdus;
			terms += r.terms;
		}
	}
	assert_true(fpdus > 3 * 150);
	assert_true(terms >= 3 * 15);
}

/* What a file has lost at its end would be missing without a word. */
static void capture_that_is_cut_off_is_not_read(void **state)
{
	char from[512], to[] = "/tmp/rnic-capture-XXXXXX";
	struct iw_pcap whole, part;
	int fd = mkstemp(to);

	(void)state;
	snprintf(from, sizeof(from), "%s/%s.pcap", CAPTURES_DIR, "crc_01_connect");
	assert_true(fd >= 0 && iw_pcap_open(&whole, from));
	assert_int_equal(write(fd, whole.data, whole.size), whole.size);
	assert_true(iw_pcap_open(&part, to));
	iw_pcap_close(&part);
	assert_int_equal(ftruncate(fd, (off_t)whole.size - 1), 0);
	assert_false(iw_pcap_open(&part, to));
	iw_pcap_close(&whole);
	close(fd);
	unlink(to);
}

/* ---- the expected lines ---- */

static struct capture caps[MAX_CASES];
static uint32_t n_caps;

static struct capture *cap_of(const char *name)
{
	for (uint32_t i = 0; i < n_caps; i++)
		if (strcmp(caps[i].name, name) == 0)
			return &caps[i];
	return NULL;
}

static FILE *open_text(const char *name)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", CAPTURES_DIR, name);
	f = fopen(path, "r");
	if (f == NULL) {
		perror(path);
		exit(1);
	}
	return f;
}

static void load_decoded(void)
{
	FILE *f = open_text("decoded.txt");
	struct capture *c = NULL;
	char line[2048];

	while (fgets(line, sizeof(line), f) != NULL) {
		line[strcspn(line, "\n")] = 0;
		if (strncmp(line, "== ", 3) == 0) {
			c = &caps[n_caps++];
			snprintf(c->name, sizeof(c->name), "%.63s", line + 3);
			continue;
		}
		c->want = realloc(c->want, (c->n_want + 1) * sizeof(*c->want));
		c->want[c->n_want++] = strdup(line);
	}
	fclose(f);
}

static void load_summary(void)
{
	FILE *f = open_text("SUMMARY");
	char line[256], name[64];
	unsigned int frames, fpdus, tshark, good, zero, bad;

	while (fgets(line, sizeof(line), f) != NULL) {
		struct capture *c;

		if (sscanf(line, "%63s %u %u %u %u %u %u", name, &frames, &fpdus, &tshark, &good, &zero, &bad) != 7)
			continue;
		c = cap_of(name);
		if (c == NULL)
			continue;
		c->fpdus = fpdus;
		c->good = good;
		c->zero = zero;
	}
	fclose(f);
}

int main(void)
{
	struct CMUnitTest tests[MAX_CASES + 3] = { 0 };
	uint32_t n = 0;

	load_decoded();
	load_summary();
	for (uint32_t i = 0; i < n_caps; i++)
		tests[n++] = (struct CMUnitTest){ .name = caps[i].name,
						  .test_func = capture_decodes,
						  .initial_state = &caps[i] };
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(terminates_of_siw_are_understood);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(raw_probes_do_no_harm);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(capture_that_is_cut_off_is_not_read);
	return _cmocka_run_group_tests("captures", tests, n, NULL, NULL);
}
