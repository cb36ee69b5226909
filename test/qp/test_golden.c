/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device plays the captured Linux siw server: it receives the captured client's bytes, and its own bytes, from the
 * MPA Reply to the last FPDU, must be those of the captured server, octet for octet.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "../iwarp/iw_pcap.h"
#include "base/rn_be.h"
#include "iwarp/mpa_tx.h"
#include "iwarp/rdmap_wire.h"
#include "rig.h"

#define STREAM (1u << 19)
#define TABLE  (1u << 24)
#define MSGS   512u

struct stream {
	uint8_t p[STREAM];
	uint32_t n;
	struct mpa_frame frame; /* the side's Request or Reply */
	struct mpa_neg_rx neg;
	uint32_t ops; /* offset of the first FPDU */
};

static struct stream cli, srv;
static struct qp_mr *table;

static void load(const char *name)
{
	static struct iw_flow f[2];
	struct stream *s[2] = { &cli, &srv };
	struct iw_pcap pc;
	struct iw_seg seg;
	char path[512];
	uint32_t flows = 0;

	snprintf(path, sizeof(path), "%s/%s.pcap", CAPTURES_DIR, name);
	if (!iw_pcap_open(&pc, path))
		fail_msg("cannot read %s", path);
	cli.n = srv.n = 0;
	while (iw_pcap_next(&pc, &seg)) {
		if ((seg.flags & IW_TCP_SYN) && flows < 2)
			iw_flow_start(&f[flows++], &seg); /* the client's SYN, then the server's */
		for (uint32_t i = 0; i < flows; i++) {
			struct iw_seg piece;
			if (!iw_flow_owns(&f[i], &seg))
				continue;
			assert_true(iw_flow_add(&f[i], &seg));
			while (iw_flow_pull(&f[i], &piece)) {
				assert_true(s[i]->n + piece.len <= STREAM);
				memcpy(s[i]->p + s[i]->n, piece.body, piece.len);
				s[i]->n += piece.len;
			}
		}
	}
	iw_pcap_close(&pc);
	for (uint32_t i = 0; i < 2; i++) {
		mpa_neg_rx_init(&s[i]->neg, i == 1);
		assert_int_equal(mpa_neg_feed(&s[i]->neg, s[i]->p, s[i]->n, &s[i]->ops, &s[i]->frame), MPA_NEG_OK);
	}
}

/* Takes the next FPDU of a stream without markers; false at the stream's end. */
static bool next_op(const struct stream *s, uint32_t *at, struct ddp_hdr *h, const uint8_t **payload)
{
	if (*at + 2 > s->n)
		return false;
	uint32_t len = rn_load_be16(s->p + *at);
	assert_int_equal(ddp_parse(s->p + *at + 2, len, h), DDP_OK);
	*payload = s->p + *at + 2 + h->hdr_len;
	*at += mpa_fpdu_len(len);
	return true;
}

static void entry(uint32_t stag, uint64_t iova, uint8_t *mem, uint64_t len)
{
	struct qp_mr *mr = &table[stag >> 8];

	*mr = (struct qp_mr){ .word = 1u << 8 | (stag & 0xff),
			      .pd = RIG_PD,
			      .rights = QP_ACC_ALL,
			      .npieces = 1,
			      .iova = iova,
			      .len = len,
			      .one = { mem, len },
			      .kind = QP_ENTRY_MR };
	mr->pieces = &mr->one;
}

/* Fills the memory that the client's Reads read with what the captured server answered. */
static void fill_sources(uint8_t *mem, uint64_t iova)
{
	uint32_t c = cli.ops, s = srv.ops;
	struct ddp_hdr h, r;
	const uint8_t *p, *q;
	struct rdmap_read_req req;

	while (next_op(&cli, &c, &h, &p)) {
		if (h.opcode != RDMAP_READ_REQ)
			continue;
		rdmap_read_req_parse(p, &req);
		uint32_t got = 0;
		bool last = false;
		while (!last && next_op(&srv, &s, &r, &q)) {
			if (r.opcode != RDMAP_READ_RESP)
				continue;
			if (r.payload_len > 0)
				memcpy(mem + (req.src_to - iova) + got, q, r.payload_len);
			got += r.payload_len;
			last = r.last;
		}
	}
}

/* The application: answers each Send of the client with the server's next Send. */
static void answer(struct rig_node *n, uint32_t *at, uint64_t id)
{
	struct qp_sge sge = { .addr = RIG_IOVA(1) + (3u << 20), .lkey = n->lkey };
	struct ddp_hdr h;
	const uint8_t *p = NULL;

	while (next_op(&srv, at, &h, &p)) {
		if (!rdmap_op_of(h.opcode)->takes_recv)
			continue;
		if (h.payload_len > 0)
			memcpy(n->mem + (3u << 20) + sge.len, p, h.payload_len);
		sge.len += h.payload_len;
		if (!h.last)
			continue;
		const struct rig_wr w = {
			.wr_id = id, .op = QP_WR_SEND, .flags = QP_WF_SIGNALED, .sge = &sge, .num_sge = 1
		};
		assert_true(rig_post(n, 0, &w));
		return;
	}
}

static void replay(const char *name)
{
	struct rig_cfg cfg;

	load(name);
	rig_defaults(&cfg);
	cfg.raw[0] = true;
	cfg.manual = true;
	cfg.crc = srv.frame.flags & MPA_F_CRC;
	cfg.rev = 2;
	struct rig *r = rig_new(&cfg);
	struct rig_node *n = &r->n[1];
	memcpy(table, n->mr, sizeof(n->mr));
	n->dev.mr = table;
	n->dev.n = TABLE;
	table[n->lkey >> 8].pieces = &table[n->lkey >> 8].one;
	const uint8_t *pd = srv.frame.pd;
	uint32_t stag = rn_load_be32(pd + 4);
	uint64_t iova = rn_load_be64(pd + 8);
	assert_memory_equal(pd, "SIW1", 4);
	entry(stag, iova, n->mem, 1u << 18);
	fill_sources(n->mem, iova);

	rig_raw_connect(r, 0);
	rig_raw_send(r, 0, cli.p, cli.ops);
	rig_settle(r);
	assert_int_equal(rig_fx(r, 1, QP_FX_CONNECT_REQUEST)->priv_len, cli.frame.pd_len);
	const struct rc_accept a = { .qp = &n->q[0].qp, .ird = 4, .ord = 4, .priv = pd, .priv_len = srv.frame.pd_len };
	assert_int_equal(rc_accept(&n->ctx.rc, &n->conn[0].rc, &a), QP_OK);
	rig_settle(r);

	uint32_t c = cli.ops, s = srv.ops, sends = 0;
	struct ddp_hdr h;
	const uint8_t *p = NULL;
	struct qp_sge sink = rig_sge(n, 2u << 20, 1u << 20);
	for (uint32_t i = 0; i < 64; i++)
		rig_post_recv(n, 0, i, &sink, 1);
	for (uint32_t from = c; next_op(&cli, &c, &h, &p); from = c) {
		struct qp_cqe e;
		rig_raw_send(r, 0, cli.p + from, c - from);
		rig_settle(r);
		if (h.opcode == RDMAP_WRITE && h.payload_len > 0)
			assert_memory_equal(n->mem + (h.to - iova), p, h.payload_len);
		if (!rdmap_op_of(h.opcode)->takes_recv || !h.last)
			continue;
		assert_true(rig_poll(&n->rcq_client, &e));
		assert_int_equal(e.status, QP_WC_SUCCESS);
		assert_int_equal(e.wr_id, sends++);
		assert_int_equal(e.byte_len, h.mo + h.payload_len);
		if (h.payload_len > 0)
			assert_memory_equal(n->mem + (2u << 20) + h.mo, p, h.payload_len);
		answer(n, &s, sends);
		rig_settle(r);
	}
	assert_int_equal(n->q[0].qp.state, QP_S_RTS);
	assert_int_equal(r->n[0].raw->rx_len, srv.n);
	for (uint32_t i = 0; i < srv.n; i++)
		if (r->n[0].raw->rx[i] != srv.p[i])
			fail_msg("%s: octet %u is %02x, siw sent %02x", name, i, r->n[0].raw->rx[i], srv.p[i]);
	rig_free(r);
}

static void served_like_siw(void **state)
{
	static const char *const name[] = {
		"crc_02_send_0",       "crc_03_send_1",         "crc_05_send_32",       "crc_08_send_1460",
		"crc_09_send_4096",    "crc_10_send_65536",     "crc_12_write_0",       "crc_13_write_1",
		"crc_14_write_64",     "crc_16_write_4096",     "crc_18_write_65536u",  "crc_19_writes_300",
		"crc_20_read_0",       "crc_21_read_1",         "crc_22_read_64",       "crc_23_read_1460",
		"crc_24_read_4096",    "crc_25_read_65536",     "crc_26_reads_512",     "crc_27_mixed_8192",
		"crc_30_sendse_64",    "nocrc_09_send_4096",    "nocrc_17_write_65536", "nocrc_25_read_65536",
		"nocrc_27_mixed_8192", "p2pcrc_02_send_64",     "p2p_02_send_64",       "p2pread_02_send_64",
		"rev1crc_02_send_64",  "rev1crc_03_write_4096", "rev1crc_04_read_4096", "rev1_04_read_4096",
		"crccli_02_send_64",
	};

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(name); i++) {
		print_message("# %s\n", name[i]);
		replay(name[i]);
	}
}

/* Where siw answered with a Terminate, the device sends one of the same meaning (siw's nibbles are swapped). */
static void refused_like_siw(void **state)
{
	static const struct {
		const char *name;
		uint8_t layer, etype, code;
	} t[] = {
		{ "errcrc_04_err_write_stag_64", 1, 1, 0x00 },    { "errcrc_05_err_write_key_64", 1, 1, 0x00 },
		{ "errcrc_06_err_write_bounds_256", 1, 1, 0x01 }, { "errcrc_08_err_read_stag_64", 0, 1, 0x00 },
		{ "errcrc_09_err_read_bounds_256", 0, 1, 0x01 },  { "errcrc_11_err_send_norecv_64", 1, 2, 0x02 },
	};

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(t); i++) {
		struct rig_cfg cfg;
		struct rdmap_term theirs, ours;
		struct ddp_hdr h;
		const uint8_t *p = NULL;

		load(t[i].name);
		rig_defaults(&cfg);
		cfg.raw[0] = true;
		cfg.ird = cfg.ord = 4;
		struct rig *r = rig_new(&cfg);
		struct rig_node *n = &r->n[1];
		memcpy(table, n->mr, sizeof(n->mr));
		n->dev.mr = table;
		n->dev.n = TABLE;
		entry(rn_load_be32(srv.frame.pd + 4), rn_load_be64(srv.frame.pd + 8), n->mem, 1u << 18);
		rig_raw_connect(r, 0);
		rig_raw_send(r, 0, cli.p, cli.ops);
		rig_settle(r);
		uint32_t reply = r->n[0].raw->rx_len, at = srv.ops;
		rig_raw_send(r, 0, cli.p + cli.ops, cli.n - cli.ops);
		rig_settle(r);
		assert_true(next_op(&srv, &at, &h, &p));
		assert_int_equal(h.opcode, RDMAP_TERMINATE);
		(void)!rdmap_term_parse(p, h.payload_len, &theirs);
		static struct stream mine;
		memcpy(mine.p, r->n[0].raw->rx, r->n[0].raw->rx_len);
		mine.n = r->n[0].raw->rx_len;
		assert_true(next_op(&mine, &reply, &h, &p));
		assert_int_equal(h.opcode, RDMAP_TERMINATE);
		assert_int_equal(rdmap_term_parse(p, h.payload_len, &ours), RDMAP_TERM_OK);
		assert_int_equal(ours.err.layer, t[i].layer);
		assert_int_equal(ours.err.etype, t[i].etype);
		assert_int_equal(ours.err.code, t[i].code);
		assert_int_equal(ours.err.layer, theirs.err.layer);
		assert_int_equal(ours.err.etype, theirs.err.etype);
		assert_int_equal(ours.err.code, theirs.err.code);
		assert_int_equal(ours.ddp_len, theirs.ddp_len);
		/*
		 * siw's length is that of the payload (RFC 5040, 4.8: of the segment), and its copy of a Read's header
		 * lacks the MSN.
		 */
		if (!ours.has_read_req) {
			assert_int_equal(ours.segment_len, theirs.segment_len + theirs.ddp_len);
			assert_memory_equal(ours.ddp, theirs.ddp, ours.ddp_len);
		}
		assert_int_equal(ours.has_read_req, theirs.has_read_req);
		rig_free(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(served_like_siw),
		cmocka_unit_test(refused_like_siw),
	};

	/* A table in which every index of the captured STags exists; only touched pages take memory. */
	table = mmap(NULL, (size_t)TABLE * sizeof(*table), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (table == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests_name("qp_golden", tests, NULL, NULL);
}
