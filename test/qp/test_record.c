/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA Write-Record: two devices, with the test in the wire's place, which loses, repeats, delays and corrupts
 * datagrams as its seed says. A completion names exactly the octets that are there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "crc32c/crc32c.h"
#include "record_rig.h"

static void every_length_in_any_order(void **state)
{
	static const uint32_t lens[] = { 1, UNIT - 1, UNIT, UNIT + 1, 2 * UNIT, 7 * UNIT + 5, SLOT };
	struct rig *r = pair();

	(void)state;
	for (uint32_t k = 0; k < 3 * RN_ARRAY_LEN(lens); k++) {
		const uint32_t len = lens[k / 3], segs = (len + UNIT - 1) / UNIT;

		n_wire = 0;
		post_write(r, &(struct write){ k, len, there(k), B->rkey, QKEY,
					       k % 3 == 2 ? QP_WR_WRITE_IMM : QP_WR_WRITE });
		send_all(r);
		assert_int_equal(n_wire, segs);
		const struct qp_cqe s = got(&A->scq_client);
		assert_true(s.status == QP_WC_SUCCESS && s.op == QP_WC_RDMA_WRITE && s.byte_len == len);
		for (uint32_t i = 0; i < segs; i++) {
			none(&B->rcq_client);
			in(r, &wire[k % 3 == 0 ? i : k % 3 == 1 ? segs - 1 - i : (i + segs / 2) % segs]);
		}
		const struct qp_cqe c = got(&B->rcq_client);
		assert_int_equal(told(r, &c, k), 0);
		assert_int_equal(c.byte_len, len);
		assert_int_equal(c.flags, QP_WCF_RECORD_WHOLE | (k % 3 == 2 ? QP_WCF_WITH_IMM : 0));
		assert_true(k % 3 != 2 || c.aux == k);
		none(&B->rcq_client);
		assert_true(len == SLOT || B->mem[FROM + k % SLOTS * SLOT + len] == 0xee);
	}
	assert_true(rn_list_empty(&B->dgram.open) && stats(r)->rwqes == 0);
	rig_free(r);
}

static void each_range_that_came_is_told_when_its_time_is_over(void **state)
{
	struct rig *r = pair();
	const uint32_t segs = 9;

	(void)state;
	for (uint32_t came = 0; came < 1u << segs; came++) {
		uint32_t seen = 0, flags = 0;
		struct qp_cqe c;

		n_wire = 0;
		post(r, came, segs * UNIT - 7);
		send_all(r);
		got(&A->scq_client);
		for (uint32_t i = 0; i < segs; i++)
			if (came >> i & 1)
				in(r, &wire[i]);
		clock_on(r, TIMEOUT - 1);
		assert_true(came + 1 == 1u << segs || rn_list_empty(&B->dgram.open) == (came == 0));
		clock_on(r, 1);
		while (rig_poll(&B->rcq_client, &c)) {
			const uint32_t from = told(r, &c, came) / UNIT;

			assert_true(seen == 0 || (flags & QP_WCF_RECORD_MORE) != 0);
			flags = c.flags;
			for (uint32_t i = from; i * UNIT < from * UNIT + c.byte_len; i++) {
				assert_int_equal(seen >> i & 1, 0);
				seen |= 1u << i;
			}
		}
		assert_int_equal(seen, came);
		assert_int_equal(flags, came + 1 == 1u << segs ? QP_WCF_RECORD_WHOLE : 0);
		/* lost segments come late and the others again: that changes nothing */
		for (uint32_t i = 0; i < segs; i++)
			in(r, &wire[i]);
		clock_on(r, TIMEOUT);
		if (came != 0)
			none(&B->rcq_client);
		while (rig_poll(&B->rcq_client, &c))
			;
		clock_on(r, 2 * RN_NS_PER_S);
	}
	rig_free(r);
}

/* A segment without the right to write changes no octet and completes nothing. */
static void memory_is_refused_segment_by_segment(void **state)
{
	struct rig *r = pair();
	const uint64_t end = RIG_IOVA(1) + RIG_MEM;
	uint32_t ro, foreign;
	struct qp_piece piece = { B->mem + FROM, SLOT };
	const struct qp_mr_attr read_only = { .pd = RIG_PD,
					      .rights = QP_ACC_REMOTE_READ,
					      .iova = there(0),
					      .len = SLOT,
					      .pieces = &piece,
					      .npieces = 1 };
	struct qp_mr_attr other_pd = read_only;

	(void)state;
	other_pd.pd = RIG_PD + 1;
	other_pd.rights = QP_ACC_LOCAL_WRITE | QP_ACC_REMOTE_WRITE;
	assert_int_equal(qp_mr_reg(&B->dev, &read_only, &ro), QP_MR_OK);
	assert_int_equal(qp_mr_reg(&B->dev, &other_pd, &foreign), QP_MR_OK);
	const struct write bad[] = { { 0, 100, there(0), B->rkey ^ 1, QKEY, QP_WR_WRITE },
				     { 0, 100, there(0), ro, QKEY, QP_WR_WRITE },
				     { 0, 100, there(0), foreign, QKEY, QP_WR_WRITE },
				     { 0, 100, end - 99, B->rkey, QKEY, QP_WR_WRITE },
				     { 0, 100, RIG_IOVA(1) - 1, B->rkey, QKEY, QP_WR_WRITE },
				     { 0, 100, UINT64_MAX - 99, B->rkey, QKEY, QP_WR_WRITE } };
	for (uint32_t i = 0; i < RN_ARRAY_LEN(bad); i++) {
		post_write(r, &bad[i]);
		send_all(r);
	}
	for (uint32_t i = 0; i < RN_ARRAY_LEN(bad); i++)
		in(r, &wire[i]);
	assert_int_equal(stats(r)->ud_refused, RN_ARRAY_LEN(bad));
	/* a record beyond the end of the region: segments inside are written, the others are not */
	n_wire = 0;
	post_write(r, &(struct write){ 0, 3 * UNIT, end - 2 * UNIT, B->rkey, QKEY, QP_WR_WRITE });
	send_all(r);
	for (uint32_t i = 0; i < 3; i++)
		in(r, &wire[i]);
	clock_on(r, TIMEOUT);
	struct qp_cqe c = got(&B->rcq_client);
	assert_true(c.wr_id == end - 2 * UNIT && c.byte_len == 2 * UNIT && c.flags == 0);
	none(&B->rcq_client);
	/* another Q_Key; a queue pair without the right to be written to */
	n_wire = 0;
	post_write(r, &(struct write){ 0, 100, there(0), B->rkey, QKEY + 1, QP_WR_WRITE });
	post(r, 0, 100);
	send_all(r);
	in(r, &wire[0]);
	assert_int_equal(stats(r)->ud_qkey, 1);
	qp_set(&B->q[0].qp, &(struct qp_tune){ .qkey = QKEY, .access = QP_ACC_REMOTE_READ });
	in(r, &wire[1]);
	assert_int_equal(stats(r)->ud_refused, RN_ARRAY_LEN(bad) + 2);
	assert_int_equal(B->mem[FROM], 0xee);
	none(&B->rcq_client);
	rig_free(r);
}

static const uint8_t group[16] = { [10] = 0xff, 0xff, 239, 1, 2, 3 }, other[16] = { [10] = 0xff, 0xff, 239, 1, 2, 4 };

/* Binds tag 7 of the group to len octets of record m's place at B; len 0: to nothing. */
static void bind_tag(struct rig *r, uint32_t m, uint64_t len)
{
	struct dgram_bind b = { .tag = 7, .stag = B->rkey, .to = there(m), .len = len };

	memcpy(b.group, group, sizeof(b.group));
	assert_true(dgram_bind(&msgs[1], &b));
}

static void to_group(struct rig *r, uint32_t tag, uint32_t len, uint64_t to)
{
	n_wire = 0;
	post_write(r, &(struct write){ 0, len, to, tag, QKEY, QP_WR_WRITE, true });
	send_all(r);
}

static void a_record_to_a_group_goes_where_each_member_has_bound_its_tag(void **state)
{
	struct rig *r = pair();

	(void)state;
	to_addr = group;
	bind_tag(r, 0, SLOT);
	to_group(r, 7, 3 * UNIT, 0);
	for (uint32_t i = 3; i-- > 0;)
		in(r, &wire[i]);
	struct qp_cqe c = got(&B->rcq_client);
	assert_true(told(r, &c, 0) == 0 && c.byte_len == 3 * UNIT && c.flags == QP_WCF_RECORD_WHOLE);
	/* the last octet that is bound, and the next one; another tag; the STag itself; another group */
	to_group(r, 7, 100, SLOT - 100);
	in(r, &wire[0]);
	c = got(&B->rcq_client);
	assert_true(c.wr_id == there(0) + SLOT - 100 && c.byte_len == 100);
	to_group(r, 7, 100, SLOT - 99);
	in(r, &wire[0]);
	to_group(r, 7, 100, UINT64_MAX - 99);
	in(r, &wire[0]);
	to_group(r, 8, 100, 0);
	in(r, &wire[0]);
	to_group(r, B->rkey, 100, there(0));
	in(r, &wire[0]);
	to_group(r, 7, 100, 0);
	to_addr = other;
	in(r, &wire[0]);
	assert_int_equal(stats(r)->ud_refused, 5);
	to_addr = group;
	/* bound again in the middle of a record: the rest of the record counts as another record */
	to_group(r, 7, 2 * UNIT, 0);
	in(r, &wire[0]);
	bind_tag(r, 1, SLOT);
	in(r, &wire[1]);
	assert_int_equal(stats(r)->ud_bad, 1);
	assert_int_equal(B->mem[FROM + SLOT + UNIT], 0xee);
	clock_on(r, TIMEOUT);
	c = got(&B->rcq_client);
	assert_true(c.wr_id == there(0) && c.byte_len == UNIT);
	bind_tag(r, 0, 0);
	to_group(r, 7, 100, 0);
	in(r, &wire[0]);
	assert_int_equal(stats(r)->ud_refused, 6);
	none(&B->rcq_client);
	to_addr = addr_b;
	rig_free(r);
}

static void tags_beyond_the_table_are_refused(void **state)
{
	struct rig *r = pair();
	struct dgram_bind b = { .stag = B->rkey, .to = there(0), .len = SLOT };

	(void)state;
	for (b.tag = 0; b.tag < DGRAM_BINDS; b.tag++)
		assert_true(dgram_bind(&msgs[1], &b));
	assert_false(dgram_bind(&msgs[1], &b));
	b.tag = 3;
	assert_true(dgram_bind(&msgs[1], &b)); /* replaces the entry before */
	b.len = 0;
	assert_true(dgram_bind(&msgs[1], &b));
	assert_false(dgram_bind(&msgs[1], &b));
	b.len = SLOT;
	b.tag = DGRAM_BINDS;
	assert_true(dgram_bind(&msgs[1], &b));
	rig_free(r);
}

static void an_stag_that_goes_in_the_middle_stops_the_rest(void **state)
{
	struct rig *r = pair();

	(void)state;
	post(r, 0, 3 * UNIT);
	send_all(r);
	in(r, &wire[0]);
	assert_int_equal(qp_mr_dereg(&B->dev, B->rkey), QP_MR_OK);
	in(r, &wire[1]);
	in(r, &wire[2]);
	assert_int_equal(stats(r)->ud_refused, 2);
	assert_int_equal(B->mem[FROM + UNIT], 0xee);
	clock_on(r, TIMEOUT);
	const struct qp_cqe c = got(&B->rcq_client);
	assert_true(told(r, &c, 0) == 0 && c.byte_len == UNIT && c.flags == 0);
	rig_free(r);
}

static void a_segment_of_another_record_is_dropped(void **state)
{
	/*
	 * which octet of the datagram is changed: unit, total, offset of the number, STag, TO, L flag, opcode, Q bits
	 */
	static const struct {
		uint32_t at;
		uint8_t xor ;
	} bad[] = { { 0, 1 },  { 3, 1 },     { 19, 1 },    { 27, 1 }, { 27, 0xc0 },
		    { 45, 1 }, { 32, 0x40 }, { 32, 0x80 }, { 33, 2 } };
	struct rig *r = pair();
	struct gram g;

	(void)state;
	post(r, 0, 3 * UNIT);
	send_all(r);
	in(r, &wire[0]);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(bad); i++) {
		g = wire[1];
		g.p[bad[i].at] ^= bad[i].xor ;
		udpl_crc_put(g.p, g.len - 4, crc32c(0, g.p, g.len - 4));
		in(r, &g);
	}
	assert_int_equal(stats(r)->ud_bad, RN_ARRAY_LEN(bad));
	assert_true(stats(r)->ud_in == 1 && msgs[1].track.n_open == 1);
	in(r, &wire[1]);
	in(r, &wire[2]);
	const struct qp_cqe c = got(&B->rcq_client);
	assert_true(told(r, &c, 0) == 0 && c.flags == QP_WCF_RECORD_WHOLE);
	rig_free(r);
}

/* Records never overrun a CQ, and no record is lost because the CQ was full. */
static void a_full_cq_delays_what_is_told(void **state)
{
	struct rig *r = pair_with(16);
	uint32_t seen = 0;
	struct qp_cqe c;

	(void)state;
	for (uint32_t m = 0; m < DGRAM_PER_SOURCE + 8; m++) {
		post(r, m, 100);
		send_all(r);
		rig_poll(&A->scq_client, &c);
	}
	for (uint32_t m = 0; m < n_wire; m++)
		in(r, &wire[m]);
	assert_int_equal(stats(r)->cq_overruns, 0);
	assert_int_equal(msgs[1].track.n_open, DGRAM_PER_SOURCE);
	in(r, &(struct gram){ 0 });
	post(r, 20, 100); /* one more open record of the same sender finds no place */
	send_all(r);
	in(r, &wire[n_wire - 1]);
	assert_int_equal(stats(r)->ud_full, 1);
	for (uint32_t k = 0; k < 4; k++) {
		while (rig_poll(&B->rcq_client, &c)) {
			const uint32_t m = (uint32_t)((c.wr_id - there(0)) / SLOT);
			assert_true(told(r, &c, m) == 0 && c.flags == QP_WCF_RECORD_WHOLE);
			seen |= 1u << m;
		}
		clock_on(r, TIMEOUT);
	}
	assert_int_equal(seen, (1u << (DGRAM_PER_SOURCE + 8)) - 1);
	assert_true(rn_list_empty(&B->dgram.open) && stats(r)->ud_incomplete == 0);
	rig_free(r);
}

static void a_write_of_nothing_or_beyond_the_end_fails(void **state)
{
	static const struct {
		uint32_t len;
		uint64_t to;
	} bad[] = { { 0, 4096 }, { 100, UINT64_MAX - 98 } };

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(bad); i++) {
		struct rig *r = pair();

		post_write(r, &(struct write){ 0, bad[i].len, bad[i].to, B->rkey, QKEY, QP_WR_WRITE });
		send_all(r);
		assert_int_equal(n_wire, 0);
		assert_int_equal(got(&A->scq_client).status, QP_WC_LOC_LEN_ERR);
		rig_free(r);
	}
}

/* ---- maps ---- */

#define MAPS 4u

static RN_ALIGNED(RN_CACHE_LINE) uint8_t ring_of_maps[sizeof(struct spsc_hdr) + MAPS * QP_MAP_SIZE];

/* A pair in which B's queue pair has maps. *c is the client's end of the ring of maps. */
static struct rig *pair_with_maps(struct spsc_cons *c)
{
	const struct spsc_place at = {
		.region = ring_of_maps, .region_size = sizeof(ring_of_maps), .nslots = MAPS, .slot_size = QP_MAP_SIZE
	};
	struct rig *r = pair();

	memset(ring_of_maps, 0, sizeof(ring_of_maps));
	for (uint32_t i = 0; i < DGRAM_OPEN; i++) /* older records of many segments have left their bits */
		memset(msgs[1].track.msg[i].map, 0xff, sizeof(msgs[1].track.msg[i].map));
	assert_int_equal(dgram_msgs_maps(&msgs[1], &at), SPSC_OK);
	assert_int_equal(spsc_cons_attach(c, &at), SPSC_OK);
	return r;
}

/* From the completion of record m of `total` octets: a bit for each valid segment. */
static uint32_t map_of(struct rig *r, struct spsc_cons *maps, const struct qp_cqe *c, uint32_t m, uint32_t total)
{
	struct qp_record_map map;
	uint32_t valid = 0;

	assert_true(c->op == QP_WC_RECORD && c->status == QP_WC_SUCCESS && c->src_qp == 10);
	assert_int_equal(c->flags, QP_WCF_RECORD_MAP);
	assert_true(spsc_cons_avail(maps, 1) > 0);
	memcpy(&map, spsc_cons_slot(maps, 0), sizeof(map));
	spsc_cons_release(maps, 1);
	assert_true(map.to == there(m) && c->wr_id == there(m) && map.unit == UNIT && map.total == total);
	assert_true(map.valid == c->byte_len && map.src_qp == 10);
	for (uint32_t i = 1; i < QP_MAP_SEGS / 64; i++)
		assert_true(map.seg[i] == 0);
	for (uint32_t i = 0; i * UNIT < total; i++) {
		const uint32_t len = rn_min_u32(UNIT, total - i * UNIT);
		const bool there_is = (map.seg[0] >> i & 1) != 0;

		valid += there_is ? len : 0;
		for (uint32_t k = i * UNIT; k < i * UNIT + len; k++)
			assert_int_equal(B->mem[FROM + m % SLOTS * SLOT + k], there_is ? byte_of(m, k) : 0xee);
	}
	assert_int_equal(valid, map.valid);
	return (uint32_t)map.seg[0];
}

static void an_incomplete_record_has_one_completion_and_a_map_of_what_came(void **state)
{
	const uint32_t segs = 7, total = 7 * UNIT - 5, all = (1u << segs) - 1;
	struct spsc_cons maps;
	struct rig *r = pair_with_maps(&maps);

	(void)state;
	for (uint32_t came = 1; came <= all; came++) {
		n_wire = 0;
		memset(B->mem + FROM + came % SLOTS * SLOT, 0xee, SLOT);
		post(r, came, total);
		send_all(r);
		got(&A->scq_client);
		for (uint32_t i = segs; i-- > 0;)
			if (came >> i & 1)
				in(r, &wire[i]);
		clock_on(r, TIMEOUT);
		const struct qp_cqe c = got(&B->rcq_client);
		if (came == all)
			assert_true(c.flags == QP_WCF_RECORD_WHOLE && c.byte_len == total);
		else
			assert_int_equal(map_of(r, &maps, &c, came, total), came);
		for (uint32_t i = 0; i < segs; i++) /* these segments come too late */
			in(r, &wire[i]);
		clock_on(r, TIMEOUT);
		none(&B->rcq_client);
		assert_int_equal(spsc_cons_avail(&maps, 1), 0);
		clock_on(r, 2 * RN_NS_PER_S);
	}
	assert_true(rn_list_empty(&B->dgram.open) && stats(r)->ud_incomplete == all - 1);
	rig_free(r);
}

static void a_record_waits_until_a_map_has_been_read(void **state)
{
	const uint32_t total = 2 * UNIT;
	struct spsc_cons maps;
	struct rig *r = pair_with_maps(&maps);

	(void)state;
	for (uint32_t m = 0; m < MAPS + 2; m++) {
		n_wire = 0;
		post(r, m, total);
		send_all(r);
		got(&A->scq_client);
		in(r, &wire[m % 2]);
	}
	clock_on(r, TIMEOUT);
	for (uint32_t m = 0; m < MAPS + 2; m++) {
		/* from record MAPS on, a map is used that an earlier record has given back */
		const struct qp_cqe c = got(&B->rcq_client);
		assert_int_equal(map_of(r, &maps, &c, m, total), 1u << m % 2);
		clock_on(r, TIMEOUT);
	}
	none(&B->rcq_client);
	assert_true(rn_list_empty(&B->dgram.open) && stats(r)->cq_overruns == 0);
	rig_free(r);
}

/* ---- the seeds ---- */

struct play {
	struct rig *r;
	struct rn_rng rng;
	struct spsc_cons maps; /* used with every third seed */
	uint32_t len[SLOTS];
	uint8_t seen[SLOTS][SLOT / UNIT + 1]; /* segments that a completion has named */
	uint64_t bytes;
};

static void take_completions(struct play *y)
{
	struct rig *r = y->r;
	struct qp_cqe c;

	while (rig_poll(&B->rcq_client, &c)) {
		const uint32_t m = (uint32_t)((c.wr_id - there(0)) / SLOT);

		if ((c.flags & QP_WCF_RECORD_MAP) != 0) {
			const uint32_t bits = map_of(r, &y->maps, &c, m, y->len[m]);

			for (uint32_t i = 0; i <= SLOT / UNIT; i++) {
				assert_int_equal(y->seen[m][i], 0);
				y->seen[m][i] = i < 32 && (bits >> i & 1) != 0;
			}
			y->bytes += c.byte_len;
			continue;
		}
		const uint32_t off = told(r, &c, m);
		assert_true(off % UNIT == 0 && off + c.byte_len <= y->len[m]);
		assert_int_equal((c.flags & QP_WCF_RECORD_WHOLE) != 0, c.byte_len == y->len[m]);
		for (uint32_t i = off; i < off + c.byte_len; i += UNIT)
			assert_int_equal(y->seen[m][i / UNIT]++, 0);
		y->bytes += c.byte_len;
	}
}

static void no_seed_names_a_byte_that_is_not_valid(void **state)
{
	static struct play y;
	uint64_t sent_bytes = 0, incomplete = 0;

	(void)state;
	for (uint32_t seed = 1; seed <= 1000; seed++) {
		struct rig *r = y.r = seed % 3 == 0 ? pair_with_maps(&y.maps) : pair();
		uint32_t sent = 0;

		rn_rng_seed(&y.rng, seed);
		piece_len = seed % 8 * 3;
		memset(y.seen, 0, sizeof(y.seen));
		while (sent < SLOTS || n_wire > 0) {
			if (sent < SLOTS && (n_wire < 40 || rn_rng_u64(&y.rng) % 8 == 0)) {
				y.len[sent] = 1 + (uint32_t)(rn_rng_u64(&y.rng) % (20 * UNIT));
				sent_bytes += y.len[sent];
				post(r, sent, y.len[sent]);
				sent++;
				send_all(r);
				while (rig_poll(&A->scq_client, &(struct qp_cqe){ 0 }))
					;
			}
			one_of_the_wire(r, &y.rng, 1 + seed % 64);
			take_completions(&y);
			clock_on(r, rn_rng_u64(&y.rng) % (seed % 2 == 0 ? TIMEOUT / 64 : 100));
		}
		for (uint32_t k = 0; k <= SLOTS / MAPS; k++) { /* records that wait for a free map */
			clock_on(r, TIMEOUT);
			take_completions(&y);
		}
		assert_true(rn_list_empty(&B->dgram.open) && stats(r)->cq_overruns == 0);
		incomplete += stats(r)->ud_incomplete;
		rig_free(r);
	}
	piece_len = 0;
	print_message("# %llu of %llu bytes told as valid, %llu of %u records incomplete\n",
		      (unsigned long long)y.bytes, (unsigned long long)sent_bytes, (unsigned long long)incomplete,
		      1000 * SLOTS);
	assert_true(y.bytes > sent_bytes / 2 && incomplete > 1000);
}

static void what_is_over_is_known_until_as_many_others_are(void **state)
{
	/* numbers in sequence, and numbers that share a bucket of the table */
	static const uint32_t step[] = { 1, DGRAM_OVER_BY_ID, 3 * DGRAM_OVER_BY_ID + 1 };
	struct dgram_key k = { .src_qpn = 7 };

	(void)state;
	for (uint32_t s = 0; s < RN_ARRAY_LEN(step); s++) {
		struct dgram_track t = { .n_open = 0 };

		for (uint32_t i = 0; i < 1000; i++) {
			k.id = i * step[s];
			assert_false(dgram_track_over(&t, &k, i + 1, RN_NEVER));
			dgram_track_end(&t, NULL, &k, i + 1);
			for (uint32_t back = 0; back <= i && back <= DGRAM_OVER; back++) {
				k.id = (i - back) * step[s];
				assert_int_equal(dgram_track_over(&t, &k, i + 1, RN_NEVER), back < DGRAM_OVER);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_length_in_any_order),
		cmocka_unit_test(each_range_that_came_is_told_when_its_time_is_over),
		cmocka_unit_test(memory_is_refused_segment_by_segment),
		cmocka_unit_test(a_record_to_a_group_goes_where_each_member_has_bound_its_tag),
		cmocka_unit_test(tags_beyond_the_table_are_refused),
		cmocka_unit_test(an_stag_that_goes_in_the_middle_stops_the_rest),
		cmocka_unit_test(a_segment_of_another_record_is_dropped),
		cmocka_unit_test(a_full_cq_delays_what_is_told),
		cmocka_unit_test(a_write_of_nothing_or_beyond_the_end_fails),
		cmocka_unit_test(an_incomplete_record_has_one_completion_and_a_map_of_what_came),
		cmocka_unit_test(a_record_waits_until_a_map_has_been_read),
		cmocka_unit_test(no_seed_names_a_byte_that_is_not_valid),
		cmocka_unit_test(what_is_over_is_known_until_as_many_others_are),
	};

	return cmocka_run_group_tests_name("qp_record", tests, NULL, NULL);
}
