/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive path of datagram queue pairs: Sends, segments of Sends and of Write-Records, and requests for
 * Read-Records from several senders. The input chooses their numbers, lengths and order, corrupts some of them, and
 * lets time pass between them. Each octet of a good datagram follows from its place, so everything that a completion
 * names can be checked. No byte may be written outside the receives and the region that records may be written to, each
 * receive completes once, and an answer is complete. The length of the input chooses whether incomplete records have
 * maps.
 */
#include <stdlib.h>
#include <string.h>

#include "base/rn_be.h"
#include "crc32c/crc32c.h"
#include "rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define QKEY    0x1234u
#define QPN     10u
#define STEP    12u /* octets of input for each step */
#define MAX     4096u
#define RECVS   8u
#define RECV_AT 65536u
#define REC_AT  (2u << 20) /* offset of the region that records may be written to */
#define REC_LEN 8192u
#define FILL    0xeeu
#define TAG     7u /* the group's tag, which is bound to the region of records */

#define MAPS 2u /* entries of the ring of maps, when there is one */

static struct dgram_msgs msgs;

struct play {
	struct spsc_cons maps; /* slots NULL: without maps, completions of records name ranges */
	struct rig *r;
	uint32_t rkey;
	uint32_t posted, completed;
	bool bent; /* the header of a datagram with a good CRC was changed, so its octets may lie at a wrong place */
};

static struct rig_node *target(const struct play *y) { return &y->r->n[1]; }

static void must(bool ok)
{
	if (!ok)
		abort();
}

static uint8_t send_byte(uint32_t src, uint32_t id, uint32_t i) { return (uint8_t)((src * 71 + id * 31 + i * 7) | 1); }
static uint8_t record_byte(uint64_t to) { return (uint8_t)((to * 13 + (to >> 8)) | 1); }

static void post_recv_at(struct play *y, uint32_t i)
{
	const struct qp_sge s[2] = { rig_sge(target(y), RECV_AT + i * MAX, MAX / 2),
				     rig_sge(target(y), RECV_AT + i * MAX + MAX / 2, MAX / 2 - 64) };

	must(rig_post_recv(target(y), 0, i, s, 2));
	y->posted++;
}

static void open_target(struct play *y)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	y->r = rig_new(&cfg);
	struct rig_node *n = target(y);
	struct rig_qp *q = &n->q[0];
	struct qp_attr a = rig_attr(n, 0);

	a.type = QP_UD;
	a.access = 0;
	a.max_msg = dgram_max(UDPL_UNIT);
	rc_destroy(&n->ctx.rc, &q->qp);
	must(qp_init(&q->qp, &a) == QP_OK);
	qp_set(&q->qp, &(struct qp_tune){ .qkey = QKEY, .access = QP_ACC_REMOTE });
	dgram_msgs_init(&msgs, &q->qp, UDPL_UNIT, UDPL_UNIT, 0);
	n->dgram.timeout = 100;
	n->dgram.linger = 1000;
	for (uint32_t s = QP_S_INIT; s <= QP_S_RTS; s++)
		must(dgram_modify(&n->dgram, &q->qp, (enum qp_state)s) == QP_OK);
	must(qp_mr_dereg(&n->dev, n->rkey) == QP_MR_OK);
	n->lkey = rig_reg(n, RECV_AT, RECVS * MAX, QP_ACC_LOCAL_WRITE, RIG_PD);
	y->rkey = rig_reg(n, REC_AT, REC_LEN, QP_ACC_LOCAL_WRITE | QP_ACC_REMOTE_WRITE, RIG_PD);
	must(dgram_bind(&msgs, &(struct dgram_bind){
				       .tag = TAG, .stag = y->rkey, .to = RIG_IOVA(1) + REC_AT, .len = REC_LEN }));
	memset(n->mem, FILL, RIG_MEM);
	for (uint32_t i = 0; i < RECVS; i++)
		post_recv_at(y, i);
}

static void give_maps(struct play *y)
{
	static RN_ALIGNED(RN_CACHE_LINE) uint8_t ring[sizeof(struct spsc_hdr) + MAPS * QP_MAP_SIZE];
	const struct spsc_place at = {
		.region = ring, .region_size = sizeof(ring), .nslots = MAPS, .slot_size = QP_MAP_SIZE
	};

	memset(ring, 0, sizeof(ring));
	must(dgram_msgs_maps(&msgs, &at) == SPSC_OK && spsc_cons_attach(&y->maps, &at) == SPSC_OK);
}

/* Checks the completion's map, and the octets that each of its bits names. */
static void look_map(struct play *y, const struct qp_cqe *c)
{
	struct qp_record_map m;
	uint32_t valid = 0;

	must(spsc_cons_avail(&y->maps, 1) > 0);
	memcpy(&m, spsc_cons_slot(&y->maps, 0), sizeof(m));
	spsc_cons_release(&y->maps, 1);
	must(m.to == c->wr_id && m.valid == c->byte_len && m.src_qp == c->src_qp && m.valid < m.total);
	for (uint32_t off = 0, i = 0; off < m.total; off += m.unit, i++) {
		const uint32_t len = rn_min_u32(m.unit, m.total - off);
		const uint64_t at = m.to + off - RIG_IOVA(1);

		if ((m.seg[i / 64] >> i % 64 & 1) == 0)
			continue;
		valid += len;
		must(at >= REC_AT && at + len <= REC_AT + REC_LEN);
		for (uint32_t k = 0; k < len && !y->bent; k++)
			must(target(y)->mem[at + k] == record_byte(m.to + off + k));
	}
	must(valid == m.valid);
}

/* Checks that the octets that a completion names are those that were sent. */
static void look(struct play *y, const struct qp_cqe *c)
{
	const uint8_t *mem = target(y)->mem;

	if (c->op == QP_WC_RECORD) {
		const uint64_t at = c->wr_id - RIG_IOVA(1);

		must(c->status == QP_WC_SUCCESS && c->byte_len > 0);
		if ((c->flags & QP_WCF_RECORD_MAP) != 0) {
			look_map(y, c);
			return;
		}
		must(y->maps.slots == NULL || (c->flags & QP_WCF_RECORD_WHOLE) != 0);
		must(at >= REC_AT && at + c->byte_len <= REC_AT + REC_LEN);
		for (uint32_t i = 0; i < c->byte_len && !y->bent; i++)
			must(mem[at + i] == record_byte(c->wr_id + i));
		return;
	}
	y->completed++;
	if (c->status == QP_WC_SUCCESS) {
		const uint8_t *m = mem + RECV_AT + c->wr_id * MAX + DGRAM_GRH_LEN;

		must(c->byte_len >= DGRAM_GRH_LEN && c->byte_len <= MAX - 64);
		for (uint32_t i = 0; i < c->byte_len - DGRAM_GRH_LEN && !y->bent; i++)
			must(m[i] == send_byte(c->src_qp, rn_load_be32(&c->aux), i));
	}
}

static void take_completions(struct play *y, bool again)
{
	struct qp_cqe c;

	rc_flush(&target(y)->ctx.rc);
	while (rig_poll(&target(y)->rcq_client, &c)) {
		look(y, &c);
		if (again && c.op != QP_WC_RECORD)
			post_recv_at(y, (uint32_t)c.wr_id);
	}
}

static void arrive(struct play *y, const uint8_t *p, uint32_t len, uint8_t src)
{
	struct udpl_hdr h;
	struct dgram_rx rx = { .len = len, .h = &h, .src = { [15] = src } };
	uint8_t *exact = malloc(len); /* exactly as long as the datagram, so that ASan sees a read beyond it */

	memcpy(exact, p, len);
	rx.p = exact;
	if (udpl_parse(exact, len, &h) == UDPL_OK && !udpl_for_cm(h.kind))
		dgram_in(&target(y)->dgram, &target(y)->q[0].qp, &rx);
	free(exact);
}

/*
 * Builds a datagram as the step's octets say. The octets behind the header are those that belong to their place.
 * Returns the length.
 */
static uint32_t build(const struct play *y, const uint8_t *s, uint8_t *p)
{
	const uint32_t src = s[0] >> 3 & 3, id = s[1] & 7, unit = (s[2] % 3 + 1) * UDPL_UNIT;
	const uint32_t total = 1 + (s[3] | s[4] << 8) % 5000u, off = s[5] % ((total + unit - 1) / unit) * unit;
	const bool record = (s[0] & 3) == 2, many = (s[0] & 3) != 0;
	const uint32_t len = many ? rn_min_u32(unit, total - off) : rn_min_u32(total, 600), at = many ? off : 0;
	const bool group = record && (s[10] & 0x80) != 0;
	const bool last = !many || off + len == total;
	const uint64_t to = RIG_IOVA(1) + REC_AT + (uint64_t)(s[6] | s[7] << 8) % (REC_LEN + 512) - 256 + off;
	struct udpl_hdr h = { .kind = record ? UDPL_RECORD
				      : many ? UDPL_SEGMENT
					     : UDPL_SEND,
			      .flags = UDPL_F_IMM,
			      .dst_qpn = group ? UDPL_QPN_GROUP : QPN,
			      .src_qpn = src,
			      .qkey = QKEY,
			      .unit = many ? unit : 0,
			      .total = many ? total : 0 };
	struct udpl_record r = { .id = id, .offset = off };
	uint32_t n = UDPL_HDR_LEN;

	udpl_build(p, &h);
	if (record) {
		const struct ddp_hdr d = ddp_tagged(RDMAP_WRITE, last, group ? TAG : y->rkey,
						    group ? to - RIG_IOVA(1) - REC_AT : to);
		udpl_record_build(p + n, &r);
		n += UDPL_RECORD_LEN;
		n += ddp_build(p + n, &d);
	} else {
		const struct ddp_hdr d = ddp_untagged(RDMAP_SEND, last, id, id, at);
		n += ddp_build(p + n, &d);
	}
	for (uint32_t i = 0; i < len; i++)
		p[n + i] = record ? record_byte(to + i) : send_byte(src, id, at + i);
	return n + len;
}

/* Builds a request for a Read-Record as the step's octets say. */
static uint32_t build_read(const struct play *y, const uint8_t *s, uint8_t *p)
{
	const struct udpl_hdr h = {
		.kind = UDPL_READ, .dst_qpn = QPN, .src_qpn = s[0] >> 3 & 3, .qkey = QKEY, .total = QKEY
	};
	const struct ddp_hdr d = ddp_untagged(RDMAP_READ_REQ, true, 0, s[1], 0);
	const struct rdmap_read_req q = { .sink_stag = 1,
					  .sink_to = s[2],
					  .len = s[3] | (uint32_t)s[4] << 8,
					  .src_stag = y->rkey,
					  .src_to = RIG_IOVA(1) + REC_AT + (s[6] | (uint32_t)s[7] << 8) - 256 };

	udpl_build(p, &h);
	rdmap_read_req_build(p + UDPL_HDR_LEN + ddp_build(p + UDPL_HDR_LEN, &d), &q);
	return UDPL_HDR_LEN + DDP_UNTAGGED_HDR_LEN + RDMAP_READ_REQ_LEN;
}

/*
 * Takes the answers that the device owes, as a worker does: each is a whole datagram and has no octet from outside the
 * region.
 */
static void take_answers(struct play *y, uint32_t most)
{
	uint8_t p[UDPL_HDR_LEN + DGRAM_INNER_MAX + UDPL_UNIT + UDPL_CRC_LEN];
	struct rig_node *n = target(y);
	struct dgram_to to;
	struct qp *qp;

	while (most-- > 0 && (qp = dgram_pop(&n->dgram)) != NULL) {
		const uint32_t len = dgram_out(&n->dgram, qp, p, &to);

		must(len <= sizeof(p) && (len == 0 || (udpl_crc_good(p, len) && p[1] == UDPL_RECORD)));
		if (dgram_waits(qp))
			dgram_put(&n->dgram, qp);
	}
}

static void step(struct play *y, const uint8_t *s)
{
	uint8_t p[UDPL_HDR_LEN + DGRAM_INNER_MAX + 3 * UDPL_UNIT + 1024];
	uint32_t len = (s[0] & 3) == 3 ? build_read(y, s, p) : build(y, s, p);
	struct rig_node *n = target(y);

	if ((s[0] & 0x20) != 0 && s[9] != 0) {
		p[s[8] % len] ^= s[9];
		y->bent |= (s[0] & 0x40) != 0;
	}
	udpl_crc_put(p, len, crc32c(0, p, len));
	if ((s[0] & 0x60) == 0x20 && s[9] != 0)
		p[len] ^= 1; /* a corrupted datagram, which the CRC detects */
	arrive(y, p, len + UDPL_CRC_LEN, s[0] >> 3 & 3);
	n->ctx.rc.qp.now += s[10] & 0x3f;
	for (uint32_t i = 0; i < DGRAM_OPEN && dgram_timer(&n->dgram); i++)
		;
	take_answers(y, s[11]);
	if ((s[0] & 0x80) == 0)
		take_completions(y, true);
}

static bool untouched(const uint8_t *mem, uint32_t from, uint32_t to)
{
	return mem[from] == FILL && memcmp(mem + from, mem + from + 1, to - from - 1) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct play y = { .posted = 0 };

	if (size > 8192)
		return 0;
	open_target(&y);
	if (size % 2 != 0)
		give_maps(&y);
	struct rig_node *n = target(&y);
	for (; size >= STEP; data += STEP, size -= STEP)
		step(&y, data);
	must(n->ctx.rc.qp.stats.cq_overruns == 0);
	take_completions(&y, false);
	if (qp_get_state(&n->q[0].qp) != QP_S_ERR)
		must(dgram_modify(&n->dgram, &n->q[0].qp, QP_S_ERR) == QP_OK);
	take_completions(&y, false);
	must(y.completed == y.posted && rn_list_empty(&n->dgram.open));
	must(untouched(n->mem, 0, RECV_AT));
	must(untouched(n->mem, RECV_AT + RECVS * MAX, REC_AT));
	must(untouched(n->mem, REC_AT + REC_LEN, RIG_MEM));
	rig_free(y.r);
	return 0;
}
