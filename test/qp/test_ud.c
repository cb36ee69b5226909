/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagram queue pairs: two devices, with the test in the wire's place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "crc32c/crc32c.h"
#include "iwarp/ddp.h"
#include "dgram/dgram.h"
#include "rig.h"

#define MTU  1024u
#define QKEY 0x11111111u
#define A    (&r->n[0])
#define B    (&r->n[1])
#define GRAM (MTU + DGRAM_OVERHEAD)

struct gram {
	struct dgram_to to;
	uint32_t len;
	uint8_t p[GRAM];
};

static const uint8_t addr_a[16] = { [10] = 0xff, 0xff, 10, 77, 0, 1 }, addr_b[16] = { [10] = 0xff, 0xff, 10, 77, 0, 2 };

/* Makes QP i of the node one of datagrams, over the same rings. */
static void make_ud(struct rig_node *n, uint32_t i, struct qp_srq *srq)
{
	struct rig_qp *q = &n->q[i];
	struct qp_attr a = rig_attr(n, i);

	a.srq = srq;
	a.type = QP_UD;
	a.access = 0;
	a.max_msg = MTU;
	rc_destroy(&n->ctx.rc, &q->qp);
	assert_int_equal(qp_init(&q->qp, &a), QP_OK);
	qp_set(&q->qp, &(struct qp_tune){ .qkey = QKEY });
}

static void up(struct rig_node *n, uint32_t i)
{
	for (uint32_t s = QP_S_INIT; s <= QP_S_RTS; s++)
		assert_int_equal(dgram_modify(&n->dgram, &n->q[i].qp, (enum qp_state)s), QP_OK);
}

static struct rig *pair_of(bool from)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	cfg.from = from;
	struct rig *r = rig_new(&cfg);
	for (int id = 0; id < 2; id++) {
		make_ud(&r->n[id], 0, NULL);
		up(&r->n[id], 0);
	}
	return r;
}

static struct rig *pair(void) { return pair_of(false); }

static struct rig_wr send_wr(const struct qp_sge *sge, uint32_t n)
{
	return (struct rig_wr){ .wr_id = 5, .op = QP_WR_SEND, .flags = QP_WF_SIGNALED, .sge = sge, .num_sge = n };
}

/* As rig_post(), with an address: that of B's QP 0 unless w has another (raddr: qkey << 32 | qpn). */
static void post(struct rig_node *n, const struct rig_wr *w)
{
	struct rig_qp *p = &n->q[0];
	uint8_t raw[QP_WQE_MAX_SLOTS * QP_SLOT_SIZE] = { 0 };
	struct qp_wqe *e = (struct qp_wqe *)(void *)raw;
	uint32_t bytes = w->flags & QP_WF_INLINE ? w->inl_len : w->num_sge * (uint32_t)sizeof(struct qp_sge);
	uint32_t slots = qp_wqe_slots(QP_UD_ADDR_LEN + bytes);

	*e = (struct qp_wqe){ .wr_id = w->wr_id,
			      .op = w->op,
			      .flags = w->flags,
			      .num_sge = (uint8_t)w->num_sge,
			      .slots = (uint8_t)slots,
			      .inline_len = (uint16_t)w->inl_len,
			      .hop_limit = 9,
			      .aux = w->aux };
	e->ud.qpn = w->raddr != 0 ? (uint32_t)w->raddr : 10;
	e->ud.qkey = w->raddr != 0 ? (uint32_t)(w->raddr >> 32) : QKEY;
	memcpy(e->dgram.addr, addr_b, sizeof(addr_b));
	if (bytes > 0)
		memcpy(raw + QP_WQE_FIXED + QP_UD_ADDR_LEN, w->flags & QP_WF_INLINE ? w->inl : (const void *)w->sge,
		       bytes);
	spsc_prod_copy(&p->sq, 0, raw, (size_t)slots * QP_SLOT_SIZE);
	spsc_prod_publish(&p->sq, slots);
	dgram_doorbell(&n->dgram, &p->qp);
}

/* Takes the next datagram that the node sends; false: there is none. */
static bool out(struct rig_node *n, struct gram *g)
{
	struct qp *qp;

	memset(g, 0, sizeof(*g));
	while (g->len == 0 && (qp = dgram_pop(&n->dgram)) != NULL) {
		g->len = dgram_out(&n->dgram, qp, g->p, &g->to);
		if (dgram_waits(qp))
			dgram_put(&n->dgram, qp);
	}
	rc_flush(&n->ctx.rc);
	return g->len > 0;
}

static void in(struct rig_node *n, const struct gram *g)
{
	struct udpl_hdr h;
	struct dgram_rx rx = { .len = g->len, .h = &h, .tos = 0x28, .hop_limit = 63 };
	uint8_t *exact = malloc(g->len);

	memcpy(exact, g->p, g->len);
	memcpy(rx.src, addr_a, 16);
	memcpy(rx.dst, addr_b, 16);
	rx.p = exact;
	if (udpl_parse(exact, g->len, &h) == UDPL_OK)
		dgram_in(&n->dgram, &n->q[0].qp, &rx);
	rc_flush(&n->ctx.rc);
	free(exact);
}

static void crc_again(struct gram *g) { udpl_crc_put(g->p, g->len - 4, crc32c(0, g->p, g->len - 4)); }

static struct qp_cqe got(struct spsc_cons *c)
{
	struct qp_cqe cqe;

	assert_true(rig_poll(c, &cqe));
	return cqe;
}

static void none(struct spsc_cons *c)
{
	struct qp_cqe cqe;

	assert_false(rig_poll(c, &cqe));
}

static void recv_into(struct rig *r, uint32_t len)
{
	struct qp_sge s = rig_sge(B, 4096, len);

	memset(B->mem + 4096, 0xee, len + 64);
	assert_true(rig_post_recv(B, 0, 9, &s, 1));
}

/* A datagram of 100 bytes for B. */
static void one(struct rig *r, struct gram *g)
{
	struct qp_sge s = rig_sge(A, 64, 100);
	struct rig_wr w = send_wr(&s, 1);

	for (uint32_t i = 0; i < 100; i++)
		A->mem[64 + i] = (uint8_t)(i * 7 + 1);
	post(A, &w);
	assert_true(out(A, g));
	assert_int_equal(got(&A->scq_client).status, QP_WC_SUCCESS);
}

static void every_length(void **state)
{
	struct rig *r = pair();
	struct gram g;

	(void)state;
	for (uint32_t len = 0; len <= MTU; len += len < 40 ? 1 : 41) {
		struct qp_sge s[2] = { rig_sge(A, 64, len / 3), rig_sge(A, 64 + len / 3, len - len / 3) };
		struct rig_wr w = send_wr(s, 2);

		for (uint32_t i = 0; i < len; i++)
			A->mem[64 + i] = (uint8_t)(i + len);
		recv_into(r, DGRAM_GRH_LEN + len);
		post(A, &w);
		assert_true(out(A, &g));
		assert_int_equal(g.len, len + DGRAM_OVERHEAD);
		assert_memory_equal(g.to.addr, addr_b, 16);
		assert_int_equal(g.to.hop_limit, 9);
		struct qp_cqe c = got(&A->scq_client);
		assert_true(c.status == QP_WC_SUCCESS && c.wr_id == 5 && c.op == QP_WC_SEND && c.qpn == 10);
		in(B, &g);
		c = got(&B->rcq_client);
		assert_true(c.status == QP_WC_SUCCESS && c.wr_id == 9 && c.op == QP_WC_RECV && c.flags == QP_WCF_GRH);
		assert_int_equal(c.byte_len, DGRAM_GRH_LEN + len);
		assert_int_equal(c.src_qp, 10);
		assert_int_equal(c.solicited, 0);
		const uint8_t *m = B->mem + 4096;
		assert_int_equal(m[0] >> 4, 6);
		assert_int_equal((m[0] << 4 & 0xff) | m[1] >> 4, 0x28);
		assert_int_equal(m[7], 63);
		assert_memory_equal(m + 8, addr_a, 16);
		assert_memory_equal(m + 24, addr_b, 16);
		assert_memory_equal(m + DGRAM_GRH_LEN, A->mem + 64, len);
		assert_int_equal(m[DGRAM_GRH_LEN + len], 0xee);
	}
	assert_int_equal(A->ctx.rc.qp.stats.ud_out, B->ctx.rc.qp.stats.ud_in);
	rig_free(r);
}

/* Failed receives and completions of Sends have no sender's address. */
static void a_queue_that_tells_of_senders(void **state)
{
	static const uint8_t none_of[QP_UD_ADDR_LEN];
	struct rig *r = pair_of(true);
	const uint32_t fits[] = { DGRAM_GRH_LEN + 100, 50, DGRAM_GRH_LEN + 100 };
	struct gram g;

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(fits); i++) {
		const struct qp_cqe_wide *w;

		recv_into(r, fits[i]);
		memset(g.p, 0, sizeof(g.p));
		one(r, &g);
		in(B, &g);
		assert_int_equal(spsc_cons_avail(&B->rcq_client, 1), 1);
		w = spsc_cons_slot(&B->rcq_client, 0);
		const bool good = w->e.status == QP_WC_SUCCESS;
		assert_int_equal(good, fits[i] > 100);
		assert_memory_equal(w->from, good ? addr_a : none_of, sizeof(w->from));
		(void)got(&B->rcq_client);
	}
	rig_free(r);
}

static void immediate_inline_and_solicited(void **state)
{
	/* the octets as a protocol analyser would show them */
	static const uint8_t wire[] = { 0x10, 1, 1, 0, 0, 0,    0,    10,   0,    0,    0,    10,  0x11, 0x11, 0x11,
					0x11, 0, 0, 0, 0, 0x41, 0x45, 0xde, 0xad, 0xbe, 0xef, 0,   0,    0,    0,
					0,    0, 0, 1, 0, 0,    0,    0,    'h',  'e',  'l',  'l', 'o' };
	static const uint8_t imm[4] = { 0xde, 0xad, 0xbe, 0xef };
	uint8_t big[QP_MAX_INLINE];
	struct rig *r = pair();
	struct rig_wr w = {
		.op = QP_WR_SEND_IMM, .flags = QP_WF_SOLICITED | QP_WF_INLINE, .inl = "hello", .inl_len = 5
	};
	struct gram g;

	(void)state;
	memcpy(&w.aux, imm, 4);
	recv_into(r, 200);
	post(A, &w);
	assert_true(out(A, &g));
	assert_int_equal(g.len, sizeof(wire) + UDPL_CRC_LEN);
	assert_memory_equal(g.p, wire, sizeof(wire));
	none(&A->scq_client); /* not signaled */
	in(B, &g);
	struct qp_cqe c = got(&B->rcq_client);
	assert_int_equal(c.flags, QP_WCF_GRH | QP_WCF_WITH_IMM);
	assert_memory_equal(&c.aux, imm, 4);
	assert_int_equal(c.solicited, 1);
	assert_int_equal(c.byte_len, 45);

	memset(big, 0x77, sizeof(big));
	w = (struct rig_wr){ .op = QP_WR_SEND, .flags = QP_WF_INLINE, .inl = big, .inl_len = sizeof(big) };
	recv_into(r, 40 + sizeof(big));
	post(A, &w);
	assert_true(out(A, &g));
	in(B, &g);
	assert_int_equal(got(&B->rcq_client).byte_len, 40 + sizeof(big));
	assert_memory_equal(B->mem + 4096 + 40, big, sizeof(big));
	rig_free(r);
}

static void as_many_sges_as_there_may_be(void **state)
{
	struct rig *r = pair();
	struct qp_sge s[QP_MAX_SGE], d[QP_MAX_SGE];
	struct gram g;

	(void)state;
	for (uint32_t i = 0; i < QP_MAX_SGE; i++) {
		s[i] = rig_sge(A, 100 * i, i % 5 == 0 ? 0 : 30);
		d[i] = rig_sge(B, 8192 + 100 * i, 31);
		memset(A->mem + 100 * i, (int)i, 30);
	}
	struct rig_wr w = send_wr(s, QP_MAX_SGE);
	assert_true(rig_post_recv(B, 0, 1, d, QP_MAX_SGE));
	post(A, &w);
	assert_true(out(A, &g));
	in(B, &g);
	assert_int_equal(got(&B->rcq_client).byte_len, 40 + 24 * 30);
	for (uint32_t at = 40, n = 0; n < 24 * 30; at++, n++) {
		uint32_t from = n / 30 + n / 30 / 4 + 1; /* every fifth is empty */
		assert_int_equal(B->mem[8192 + 100 * (at / 31) + at % 31], from);
	}
	rig_free(r);
}

static void what_is_not_good_is_dropped(void **state)
{
	static const struct {
		uint32_t at;
		uint8_t xor ;
	} ddp[] = { { 20, 0x80 }, { 20, 0x40 }, { 20, 0x02 }, { 21, 0x40 },
		    { 21, 0x01 }, { 21, 0x07 }, { 29, 1 },    { 37, 1 } };
	struct rig *r = pair();
	struct gram g, bad;

	(void)state;
	recv_into(r, 200);
	one(r, &g);
	for (uint32_t bit = 0; bit < 8 * g.len; bit++) {
		bad = g;
		bad.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
		in(B, &bad);
	}
	for (uint32_t len = 0; len < g.len; len++) {
		bad = g;
		bad.len = len;
		in(B, &bad);
	}
	assert_true(B->ctx.rc.qp.stats.ud_crc > 8 * 100);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(ddp); i++) {
		bad = g;
		bad.p[ddp[i].at] ^= ddp[i].xor ;
		crc_again(&bad);
		in(B, &bad);
	}
	assert_int_equal(B->ctx.rc.qp.stats.ud_bad, RN_ARRAY_LEN(ddp));
	for (bad = g, bad.len = UDPL_HDR_LEN + UDPL_CRC_LEN; bad.len < DGRAM_OVERHEAD; bad.len++) {
		crc_again(&bad);
		in(B, &bad);
	}
	assert_int_equal(B->ctx.rc.qp.stats.ud_bad, RN_ARRAY_LEN(ddp) + DDP_UNTAGGED_HDR_LEN);
	qp_set(&B->q[0].qp, &(struct qp_tune){ .qkey = QKEY + 1 });
	in(B, &g);
	assert_int_equal(B->ctx.rc.qp.stats.ud_qkey, 1);
	qp_set(&B->q[0].qp, &(struct qp_tune){ .qkey = QKEY });
	none(&B->rcq_client);
	in(B, &g);
	assert_int_equal(got(&B->rcq_client).status, QP_WC_SUCCESS);
	in(B, &g);
	assert_int_equal(B->ctx.rc.qp.stats.ud_no_recv, 1);
	none(&B->rcq_client);
	assert_int_equal(B->q[0].qp.state, QP_S_RTS);
	rig_free(r);
}

static void only_who_is_ready_receives_and_sends(void **state)
{
	struct rig *r = pair();
	struct gram g, none_there;
	struct qp_sge s = rig_sge(A, 0, 10);
	struct rig_wr w = send_wr(&s, 1);

	(void)state;
	one(r, &g);
	assert_int_equal(dgram_modify(&B->dgram, &B->q[0].qp, QP_S_RESET), QP_OK);
	in(B, &g);
	assert_int_equal(dgram_modify(&B->dgram, &B->q[0].qp, QP_S_INIT), QP_OK);
	recv_into(r, 200);
	in(B, &g);
	assert_int_equal(B->ctx.rc.qp.stats.ud_no_qp, 2);
	assert_int_equal(dgram_modify(&B->dgram, &B->q[0].qp, QP_S_RTR), QP_OK);
	in(B, &g);
	assert_int_equal(got(&B->rcq_client).status, QP_WC_SUCCESS);

	/* posted work waits for RTS; SQD holds it back */
	assert_int_equal(dgram_modify(&A->dgram, &A->q[0].qp, QP_S_RESET), QP_OK);
	assert_int_equal(dgram_modify(&A->dgram, &A->q[0].qp, QP_S_INIT), QP_OK);
	assert_int_equal(dgram_modify(&A->dgram, &A->q[0].qp, QP_S_RTR), QP_OK);
	post(A, &w);
	assert_false(out(A, &none_there));
	assert_int_equal(dgram_modify(&A->dgram, &A->q[0].qp, QP_S_RTS), QP_OK);
	assert_true(out(A, &g));
	qp_set(&A->q[0].qp, &(struct qp_tune){ .qkey = QKEY, .tell_drained = true });
	assert_int_equal(dgram_modify(&A->dgram, &A->q[0].qp, QP_S_SQD), QP_OK);
	assert_int_equal(A->ctx.rc.qp.fx[A->ctx.rc.qp.n_fx - 1].code, QP_EVENT_SQ_DRAINED);
	post(A, &w);
	assert_false(out(A, &none_there));
	assert_int_equal(dgram_modify(&A->dgram, &A->q[0].qp, QP_S_RTS), QP_OK);
	assert_true(out(A, &g));

	/* ERR flushes both queues, and also what is posted later */
	got(&A->scq_client);
	got(&A->scq_client);
	post(A, &w);
	assert_true(rig_post_recv(A, 0, 3, &s, 1));
	assert_int_equal(dgram_modify(&A->dgram, &A->q[0].qp, QP_S_ERR), QP_OK);
	rc_flush(&A->ctx.rc);
	assert_int_equal(got(&A->scq_client).status, QP_WC_WR_FLUSH_ERR);
	assert_int_equal(got(&A->rcq_client).status, QP_WC_WR_FLUSH_ERR);
	post(A, &w);
	assert_false(out(A, &none_there));
	assert_int_equal(got(&A->scq_client).status, QP_WC_WR_FLUSH_ERR);
	rig_free(r);
}

static void the_q_key_of_the_queue_pair(void **state)
{
	struct rig *r = pair();
	struct qp_sge s = rig_sge(A, 0, 10);
	struct rig_wr w = send_wr(&s, 1);
	struct udpl_hdr h;
	struct gram g;

	(void)state;
	qp_set(&A->q[0].qp, &(struct qp_tune){ .qkey = 0x80001234 }); /* a Q_Key that only the queue pair can set */
	w.raddr = (uint64_t)UINT32_C(0x80000000) << 32 | 0x123456;
	post(A, &w);
	assert_true(out(A, &g));
	assert_int_equal(udpl_parse(g.p, g.len, &h), UDPL_OK);
	assert_int_equal(h.qkey, 0x80001234);
	assert_int_equal(h.dst_qpn, 0x123456);
	w.raddr = (uint64_t)UINT32_C(0x7fffffff) << 32 | 0xff123456; /* a queue pair's number with more than 24 bits */
	post(A, &w);
	assert_true(out(A, &g));
	assert_int_equal(udpl_parse(g.p, g.len, &h), UDPL_OK);
	assert_int_equal(h.qkey, 0x7fffffff);
	assert_int_equal(h.dst_qpn, 0x123456);
	rig_free(r);
}

static void a_receive_that_is_too_small_fails_alone(void **state)
{
	static const uint32_t room[] = { 139, 40, 39, 0 };
	struct rig *r = pair();
	struct gram g;

	(void)state;
	one(r, &g);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(room); i++) {
		recv_into(r, room[i]);
		in(B, &g);
		assert_int_equal(got(&B->rcq_client).status, QP_WC_LOC_LEN_ERR);
		assert_int_equal(B->mem[4096], 0xee);
	}
	assert_int_equal(B->ctx.rc.qp.stats.ud_too_long, RN_ARRAY_LEN(room));
	recv_into(r, 140);
	in(B, &g);
	assert_int_equal(got(&B->rcq_client).byte_len, 140);
	rig_free(r);
}

/* The first Send fails with `status`, the second is flushed. */
static void send_fails(const struct rig_wr *w, enum qp_wc_status status)
{
	struct rig *r = pair();
	struct qp_sge s = rig_sge(A, 0, 10);
	struct rig_wr next = send_wr(&s, 1);
	struct gram g;

	post(A, w);
	post(A, &next);
	assert_false(out(A, &g));
	struct qp_cqe c = got(&A->scq_client);
	assert_true(c.status == status && c.wr_id == w->wr_id);
	assert_int_equal(got(&A->scq_client).status, QP_WC_WR_FLUSH_ERR);
	assert_int_equal(A->q[0].qp.state, QP_S_ERR);
	rig_free(r);
}

static void bad_work_requests(void **state)
{
	struct qp_sge s = { .addr = RIG_IOVA(0), .len = MTU + 1, .lkey = 0 };
	struct rig_wr w = send_wr(&s, 1);
	struct rig *r = pair(); /* rig_new() gives the same keys each time */

	(void)state;
	send_fails(&w, QP_WC_LOC_PROT_ERR);
	s.lkey = A->lkey;
	send_fails(&w, QP_WC_LOC_LEN_ERR);
	s.len = 1;
	w.op = QP_WR_WRITE;
	send_fails(&w, QP_WC_LOC_QP_OP_ERR);
	rig_free(r);
}

static void a_bad_receive_is_its_owners_fault(void **state)
{
	struct rig *r = pair();
	struct qp_sge s = rig_sge(B, 0, 200);
	struct gram g;

	(void)state;
	one(r, &g);
	s.lkey ^= 1;
	assert_true(rig_post_recv(B, 0, 3, &s, 1));
	in(B, &g);
	assert_int_equal(got(&B->rcq_client).status, QP_WC_LOC_PROT_ERR);
	assert_int_equal(B->q[0].qp.state, QP_S_ERR);
	rig_free(r);
}

static void corrupt_rings(void **state)
{
	struct rig *r = pair();
	struct gram g;

	(void)state;
	one(r, &g);
	A->q[0].sq.hdr->prod += 1000000;
	B->q[0].rq.hdr->prod += 1000000;
	dgram_doorbell(&A->dgram, &A->q[0].qp);
	in(B, &g);
	assert_false(out(A, &g));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(r->n[i].ctx.rc.qp.stats.bad_rings, 1);
		assert_int_equal(r->n[i].q[0].qp.state, QP_S_ERR);
		assert_int_equal(r->n[i].ctx.rc.qp.fx[r->n[i].ctx.rc.qp.n_fx - 1].code, QP_EVENT_FATAL);
	}
	rig_free(r);
}

static void a_shared_receive_queue(void **state)
{
	struct rig *r = pair();
	struct qp_srq srq;
	uint8_t *mem = aligned_alloc(64, spsc_size(8, QP_SLOT_SIZE));
	const struct qp_srq_attr a = { .owner = 9,
				       .pd = RIG_PD,
				       .wqe_slots = 1,
				       .ring = { .region = mem,
						 .region_size = spsc_size(8, QP_SLOT_SIZE),
						 .nslots = 8,
						 .slot_size = QP_SLOT_SIZE } };
	struct spsc_prod client;
	struct gram g;

	(void)state;
	memset(mem, 0, spsc_size(8, QP_SLOT_SIZE));
	assert_int_equal(qp_srq_init(&srq, &a), SPSC_OK);
	assert_int_equal(spsc_prod_attach(&client, &a.ring), SPSC_OK);
	make_ud(B, 0, &srq);
	up(B, 0);
	one(r, &g);
	in(B, &g);
	assert_int_equal(B->ctx.rc.qp.stats.ud_no_recv, 1);
	struct qp_rwqe w = { .wr_id = 88, .num_sge = 1, .slots = 1, .sge = { rig_sge(B, 4096, 140) } };
	spsc_prod_copy(&client, 0, &w, sizeof(w));
	spsc_prod_publish(&client, 1);
	in(B, &g);
	assert_int_equal(got(&B->rcq_client).wr_id, 88);
	assert_memory_equal(B->mem + 4096 + 40, A->mem + 64, 100);
	rig_free(r);
	free(mem);
}

/* Queue pairs are destroyed while they are in the list: the first, the middle one and the last. */
static void gone_from_the_list(void **state)
{
	struct rig_cfg cfg;
	uint32_t n;

	(void)state;
	for (uint32_t gone = 0; gone < 3; gone++) {
		rig_defaults(&cfg);
		struct rig *r = rig_new(&cfg);
		for (uint32_t i = 0; i < 3; i++) {
			make_ud(A, i, NULL);
			up(A, i);
		}
		while (dgram_pop(&A->dgram) != NULL)
			;
		for (uint32_t i = 0; i < 3; i++)
			dgram_doorbell(&A->dgram, &A->q[i].qp);
		dgram_destroy(&A->dgram, &A->q[gone].qp);
		dgram_doorbell(&A->dgram, &A->q[(gone + 1) % 3].qp); /* the queue pair is in the list already */
		struct qp *qp;
		for (n = 0; (qp = dgram_pop(&A->dgram)) != NULL; n++)
			assert_ptr_not_equal(qp, &A->q[gone].qp);
		assert_int_equal(n, 2);
		dgram_doorbell(&A->dgram, &A->q[(gone + 2) % 3].qp);
		assert_ptr_equal(dgram_pop(&A->dgram), &A->q[(gone + 2) % 3].qp);
		rig_free(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_length),
		cmocka_unit_test(a_queue_that_tells_of_senders),
		cmocka_unit_test(immediate_inline_and_solicited),
		cmocka_unit_test(as_many_sges_as_there_may_be),
		cmocka_unit_test(what_is_not_good_is_dropped),
		cmocka_unit_test(only_who_is_ready_receives_and_sends),
		cmocka_unit_test(the_q_key_of_the_queue_pair),
		cmocka_unit_test(a_receive_that_is_too_small_fails_alone),
		cmocka_unit_test(bad_work_requests),
		cmocka_unit_test(a_bad_receive_is_its_owners_fault),
		cmocka_unit_test(corrupt_rings),
		cmocka_unit_test(a_shared_receive_queue),
		cmocka_unit_test(gone_from_the_list),
	};

	return cmocka_run_group_tests_name("qp_ud", tests, NULL, NULL);
}
