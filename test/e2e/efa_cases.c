/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls of <infiniband/efadv.h> on devices that present themselves as Elastic Fabric Adapters. Linked with the
 * stock libraries, as any program for these adapters, and run by rnicrun. Both ends are in one process, over two
 * devices of one daemon.
 *
 * usage: efa_cases SERVER-ADDRESS CLIENT-ADDRESS [CASE...]	prints "ok NAME" or "not ok NAME" for each case
 *        efa_cases --list
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/efadv.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SIZE     (1u << 20)
#define QKEY     0x11112222u
#define GRH      40u
#define PATIENCE 60 /* seconds until something that never comes counts as a failure */
#define NO_AHN   0xffffu
#define QPN_MAX  0xffffu /* libfabric's addresses have 16 bits for a queue pair number */
#define CHECK(x) \
	do { \
		if (!(x)) { \
			printf("# %s:%d: %s (errno %d)\n", __func__, __LINE__, #x, errno); \
			return false; \
		} \
	} while (0)

struct end {
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
	struct ibv_ah *ah; /* to the other end; NULL: none */
	struct ibv_mr *mr;
	union ibv_gid gid;
	uint8_t *buf;
};

/* The fields of a completion that the cases check. */
struct said {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	uint32_t byte_len, src_qp, slid, imm;
	unsigned int flags;
	int sgid_rc;
	union ibv_gid sgid;
};

static struct end srv, cli;

static uint8_t byte_of(uint32_t seed, uint32_t i) { return (uint8_t)(seed * 37 + i * 11 + (i >> 8) * 3 + (i >> 16)); }

static void fill(uint8_t *p, uint32_t seed, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = byte_of(seed, i);
}

static bool is_filled(const uint8_t *p, uint32_t seed, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++) {
		if (p[i] == byte_of(seed, i))
			continue;
		printf("# byte %u of %u is wrong\n", i, len);
		return false;
	}
	return true;
}

/* ---- the two ends ---- */

static bool device_open(struct end *e, const char *address)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);
	uint8_t ip[4];

	CHECK(list != NULL && inet_pton(AF_INET, address, ip) == 1);
	for (int i = 0; i < n && e->verbs == NULL; i++) {
		e->verbs = ibv_open_device(list[i]);
		CHECK(e->verbs != NULL && ibv_query_gid(e->verbs, 1, 0, &e->gid) == 0);
		if (memcmp(e->gid.raw + 12, ip, 4) == 0)
			continue;
		ibv_close_device(e->verbs);
		e->verbs = NULL;
	}
	ibv_free_device_list(list);
	CHECK(e->verbs != NULL && (e->pd = ibv_alloc_pd(e->verbs)) != NULL);
	e->buf = calloc(1, 2 * SIZE);
	e->mr = ibv_reg_mr(e->pd, e->buf, (size_t)2 * SIZE,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	CHECK(e->mr != NULL);
	return true;
}

static struct ibv_cq_ex *cq_new(struct end *e, uint64_t efa_flags)
{
	struct ibv_cq_init_attr_ex a = { .cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct efadv_cq_init_attr efa = { .wc_flags = efa_flags };

	return efadv_create_cq(e->verbs, &a, &efa, sizeof(efa));
}

static struct ibv_qp_init_attr_ex attr_of(struct end *e, enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = ibv_cq_ex_to_cq(e->cq),
		.recv_cq = ibv_cq_ex_to_cq(e->cq),
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 16,
			 .max_send_sge = 2,
			 .max_recv_sge = 1,
			 .max_inline_data = 32 },
		.qp_type = type,
		.pd = e->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
				  (type == IBV_QPT_UD ? 0
						      : IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE |
								IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
	};
}

static bool to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
	a.qp_state = IBV_QPS_RTR;
	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0);
	a.qp_state = IBV_QPS_RTS;
	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
	return true;
}

static struct ibv_ah *way_to(struct end *from, const struct end *to)
{
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1, .grh.dgid = to->gid };

	return ibv_create_ah(from->pd, &a);
}

static bool end_open(struct end *e, enum ibv_qp_type type)
{
	struct efadv_qp_init_attr efa = { .driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD };

	CHECK((e->cq = cq_new(e, EFADV_WC_EX_WITH_SGID)) != NULL);
	struct ibv_qp_init_attr_ex a = attr_of(e, type);
	CHECK((e->qp = efadv_create_qp_ex(e->verbs, &a, &efa, sizeof(efa))) != NULL && to_rts(e->qp));
	CHECK(e->qp->qp_type == type && e->qp->qp_num <= QPN_MAX);
	return true;
}

static bool end_close(struct end *e)
{
	struct ibv_ah *ah = e->ah;

	e->ah = NULL;
	CHECK(ibv_destroy_qp(e->qp) == 0 && ibv_destroy_cq(ibv_cq_ex_to_cq(e->cq)) == 0);
	return ah == NULL || ibv_destroy_ah(ah) == 0;
}

/* Makes two queue pairs. The client has an address handle for the server; the server has none for the client yet. */
static bool both_open(enum ibv_qp_type type)
{
	CHECK(end_open(&srv, type) && end_open(&cli, type));
	return (cli.ah = way_to(&cli, &srv)) != NULL;
}

static bool both_close(void) { return end_close(&cli) && end_close(&srv); }

static uint32_t ahn_of(struct ibv_ah *ah)
{
	struct efadv_ah_attr a;

	return efadv_query_ah(ah, &a, sizeof(a)) == 0 ? a.ahn : UINT32_MAX;
}

static bool receive(struct end *e, uint64_t wr_id, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)e->buf, len, e->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(e->qp, &wr, &bad) == 0;
}

/* Waits for the next completion. */
static bool next(struct end *e, struct said *s)
{
	struct ibv_poll_cq_attr none = { 0 };
	const time_t end = time(NULL) + PATIENCE;

	while (ibv_start_poll(e->cq, &none) != 0) {
		CHECK(time(NULL) < end);
		sched_yield();
	}
	*s = (struct said){ .wr_id = e->cq->wr_id,
			    .status = e->cq->status,
			    .opcode = ibv_wc_read_opcode(e->cq),
			    .byte_len = ibv_wc_read_byte_len(e->cq),
			    .src_qp = ibv_wc_read_src_qp(e->cq),
			    .slid = ibv_wc_read_slid(e->cq),
			    .imm = ibv_wc_read_imm_data(e->cq),
			    .flags = ibv_wc_read_wc_flags(e->cq) };
	s->sgid_rc = efadv_wc_read_sgid(efadv_cq_from_ibv_cq_ex(e->cq), &s->sgid);
	ibv_end_poll(e->cq);
	return true;
}

static bool done(struct end *e, uint64_t wr_id, enum ibv_wc_opcode op)
{
	struct said s;

	CHECK(next(e, &s));
	if (s.status != IBV_WC_SUCCESS || s.wr_id != wr_id || s.opcode != op)
		printf("# %s, opcode %d, wr_id %llu\n", ibv_wc_status_str(s.status), s.opcode,
		       (unsigned long long)s.wr_id);
	CHECK(s.status == IBV_WC_SUCCESS && s.wr_id == wr_id && s.opcode == op);
	return true;
}

enum what { SEND, SEND_IMM, WRITE, WRITE_IMM, READ };

/* Posts a work request of `len` bytes of the client's buffer, by ibv_wr_*. */
static bool request(enum what what, uint64_t wr_id, uint32_t len)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(cli.qp);
	const uint32_t rkey = srv.mr->rkey;
	const uint64_t to = (uintptr_t)srv.buf;

	CHECK(x != NULL);
	ibv_wr_start(x);
	x->wr_id = wr_id;
	x->wr_flags = IBV_SEND_SIGNALED;
	switch (what) {
	case SEND: ibv_wr_send(x); break;
	case SEND_IMM: ibv_wr_send_imm(x, htonl(len)); break;
	case WRITE: ibv_wr_rdma_write(x, rkey, to); break;
	case WRITE_IMM: ibv_wr_rdma_write_imm(x, rkey, to, htonl(len)); break;
	case READ: ibv_wr_rdma_read(x, rkey, to); break;
	}
	ibv_wr_set_sge(x, cli.mr->lkey, (uintptr_t)cli.buf, len);
	ibv_wr_set_ud_addr(x, cli.ah, srv.qp->qp_num, QKEY);
	return ibv_wr_complete(x) == 0;
}

/* ---- cases ---- */

static bool the_device_is_described(void)
{
	struct efadv_device_attr a, part;
	struct ibv_device_attr dev;
	struct ibv_port_attr port;

	CHECK(srv.verbs->device->node_type == IBV_NODE_UNSPECIFIED);
	CHECK(srv.verbs->device->transport_type == IBV_TRANSPORT_UNSPECIFIED);
	CHECK(ibv_query_device(srv.verbs, &dev) == 0 && dev.vendor_id == 0x1d0f);
	CHECK(ibv_query_port(srv.verbs, 1, &port) == 0 && port.state == IBV_PORT_ACTIVE && port.max_msg_sz >= 4096);
	CHECK(port.link_layer == IBV_LINK_LAYER_UNSPECIFIED);
	memset(&a, 0xff, sizeof(a));
	CHECK(efadv_query_device(srv.verbs, &a, sizeof(a)) == 0);
	CHECK(a.comp_mask == 0 && a.max_sq_wr >= 256 && a.max_rq_wr >= 256 && a.max_sq_sge == 2 && a.max_rq_sge == 1);
	CHECK(a.inline_buf_size >= 32 && a.max_rdma_size >= SIZE && a.reserved[0] == 0 && a.reserved[1] == 0);
	CHECK((a.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ) != 0 &&
	      (a.device_caps & EFADV_DEVICE_ATTR_CAPS_RNR_RETRY) != 0 &&
	      (a.device_caps & EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID) != 0);
	/* the structure of an older program is shorter: no byte behind it may be written */
	memset(&part, 0x5a, sizeof(part));
	CHECK(efadv_query_device(srv.verbs, &part, offsetof(struct efadv_device_attr, device_caps)) == 0);
	CHECK(part.max_sq_wr == a.max_sq_wr && part.device_caps == 0x5a5a5a5a && part.max_rdma_size == 0x5a5a5a5a);
	return efadv_query_device(srv.verbs, &part, 16) == EINVAL;
}

static bool every_operation_of_srd_carries_its_bytes(void)
{
	static const uint32_t lens[] = { 1, 64, 1360, 8192, 100000, SIZE };
	struct said s;

	CHECK(both_open(IBV_QPT_DRIVER));
	for (uint32_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		const uint32_t len = lens[i];

		for (enum what w = SEND; w <= READ; w++) {
			struct end *to = w == READ ? &cli : &srv;

			memset(to->buf, 0, len + 1);
			fill(w == READ ? srv.buf : cli.buf, i * 8 + (uint32_t)w, len);
			if (w == SEND || w == SEND_IMM || w == WRITE_IMM)
				CHECK(receive(&srv, 100 + i, SIZE));
			CHECK(request(w, i, len));
			/* an RDMA Read completes with the opcode of a Send, as with the adapter's own library */
			CHECK(done(&cli, i, w == WRITE || w == WRITE_IMM ? IBV_WC_RDMA_WRITE : IBV_WC_SEND));
			if (w == SEND || w == SEND_IMM || w == WRITE_IMM) {
				CHECK(next(&srv, &s) && s.status == IBV_WC_SUCCESS && s.wr_id == 100 + i);
				CHECK(s.opcode == (w == WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV));
				CHECK(s.byte_len == len && s.src_qp == cli.qp->qp_num);
				CHECK(((s.flags & IBV_WC_WITH_IMM) != 0) == (w != SEND));
				CHECK(w == SEND || s.imm == htonl(len));
				CHECK((s.flags & IBV_WC_GRH) == 0);
			}
			CHECK(is_filled(to->buf, i * 8 + (uint32_t)w, len) && to->buf[len] == 0);
		}
	}
	return both_close();
}

static bool a_sender_is_told_by_its_handle_or_by_its_address(void)
{
	struct said s;
	union ibv_gid gid;

	CHECK(both_open(IBV_QPT_DRIVER));
	for (int i = 0; i < 2; i++)
		CHECK(receive(&srv, 7, 64));
	CHECK(request(SEND, 1, 9) && done(&cli, 1, IBV_WC_SEND) && next(&srv, &s));
	CHECK(s.slid == NO_AHN && s.sgid_rc == 0 && memcmp(&s.sgid, &cli.gid, sizeof(gid)) == 0);
	CHECK((srv.ah = way_to(&srv, &cli)) != NULL);
	CHECK(request(SEND, 2, 9) && done(&cli, 2, IBV_WC_SEND) && next(&srv, &s));
	CHECK(s.slid == ahn_of(srv.ah) && s.sgid_rc < 0);
	return both_close();
}

static bool one_address_has_one_number(void)
{
	struct ibv_ah *a = way_to(&srv, &cli), *b = way_to(&srv, &cli), *own = way_to(&srv, &srv);
	struct efadv_ah_attr attr;

	CHECK(a != NULL && b != NULL && own != NULL);
	const uint32_t n = ahn_of(a);
	CHECK(n < NO_AHN && ahn_of(b) == n && ahn_of(own) != n && ahn_of(own) < NO_AHN);
	CHECK(ibv_destroy_ah(a) == 0 && ahn_of(b) == n);
	CHECK(efadv_query_ah(b, &attr, 8) == EINVAL);
	return ibv_destroy_ah(b) == 0 && ibv_destroy_ah(own) == 0;
}

/* Only the queue pair is made by efadv; then plain verbs are used: ibv_post_send() and ibv_poll_cq(). */
static bool a_plain_queue_pair_and_queue(void)
{
	struct ibv_cq *cq[2] = { ibv_create_cq(srv.verbs, 16, NULL, NULL, 0),
				 ibv_create_cq(cli.verbs, 16, NULL, NULL, 0) };
	struct end *e[2] = { &srv, &cli };
	struct ibv_sge sge;
	struct ibv_wc wc;

	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr a = { .send_cq = cq[i],
					      .recv_cq = cq[i],
					      .cap = { 4, 4, 1, 1, 0 },
					      .sq_sig_all = 1,
					      .qp_type = IBV_QPT_DRIVER };
		CHECK(cq[i] != NULL);
		e[i]->qp = efadv_create_driver_qp(e[i]->pd, &a, EFADV_QP_DRIVER_TYPE_SRD);
		CHECK(e[i]->qp != NULL && a.cap.max_send_wr >= 4 && to_rts(e[i]->qp));
	}
	CHECK((cli.ah = way_to(&cli, &srv)) != NULL && (srv.ah = way_to(&srv, &cli)) != NULL && receive(&srv, 5, 4096));
	fill(cli.buf, 3, 3000);
	sge = (struct ibv_sge){ (uintptr_t)cli.buf, 3000, cli.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 4, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	wr.wr.ud.ah = cli.ah;
	wr.wr.ud.remote_qpn = srv.qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	CHECK(ibv_post_send(cli.qp, &wr, &bad) == 0);
	const time_t end = time(NULL) + PATIENCE;
	while (ibv_poll_cq(cq[0], 1, &wc) == 0 && time(NULL) < end)
		sched_yield();
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.byte_len == 3000 && wc.wr_id == 5);
	CHECK(wc.src_qp == cli.qp->qp_num && wc.slid == ahn_of(srv.ah) && is_filled(srv.buf, 3, 3000));
	while (ibv_poll_cq(cq[1], 1, &wc) == 0 && time(NULL) < end)
		sched_yield();
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_SEND && wc.wr_id == 4);
	for (int i = 0; i < 2; i++) {
		CHECK(ibv_destroy_qp(e[i]->qp) == 0 && ibv_destroy_cq(cq[i]) == 0 && ibv_destroy_ah(e[i]->ah) == 0);
		e[i]->ah = NULL;
	}
	return true;
}

/* ---- many Sends at a time ---- */

#define PIECE    6000u
#define BURST    8u
#define MESSAGES 300u

static struct burst {
	bool used[BURST];                           /* pieces of the client's buffer that a Send uses */
	uint32_t of[BURST], given, done, overtaken; /* of: the message in each piece */
	bool seen[MESSAGES];
	uint32_t came;
} burst;

/* The wr_id of the next completion, if there is one; UINT64_MAX: the request failed. */
static bool polled(struct end *e, uint64_t *wr_id)
{
	struct ibv_poll_cq_attr none = { 0 };

	if (ibv_start_poll(e->cq, &none) != 0)
		return false;
	*wr_id = e->cq->status == IBV_WC_SUCCESS ? e->cq->wr_id : UINT64_MAX;
	ibv_end_poll(e->cq);
	return true;
}

static bool receive_piece(uint64_t i)
{
	struct ibv_sge sge = { (uintptr_t)srv.buf + i * PIECE, PIECE, srv.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(srv.qp, &wr, &bad) == 0;
}

/* Posts a Send from each free piece. */
static bool burst_give(struct burst *b)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(cli.qp);

	for (uint32_t i = 0; i < BURST && b->given < MESSAGES; i++) {
		if (b->used[i])
			continue;
		b->used[i] = true;
		b->of[i] = b->given;
		fill(cli.buf + (size_t)i * PIECE, b->given, PIECE);
		memcpy(cli.buf + (size_t)i * PIECE, &b->given, sizeof(b->given));
		ibv_wr_start(x);
		x->wr_id = b->given++;
		x->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_send(x);
		ibv_wr_set_sge(x, cli.mr->lkey, (uintptr_t)cli.buf + (uintptr_t)i * PIECE, PIECE);
		ibv_wr_set_ud_addr(x, cli.ah, srv.qp->qp_num, QKEY);
		CHECK(ibv_wr_complete(x) == 0);
	}
	return true;
}

static bool burst_done(struct burst *b, uint64_t wr_id)
{
	bool mine = false, older = false;

	for (uint32_t i = 0; i < BURST; i++) {
		older |= b->used[i] && b->of[i] < wr_id;
		if (!b->used[i] || b->of[i] != wr_id)
			continue;
		b->used[i] = false;
		mine = true;
	}
	CHECK(mine);
	b->overtaken += older;
	b->done++;
	return true;
}

static bool burst_came(struct burst *b, uint64_t i)
{
	uint8_t *p = srv.buf + i * PIECE;
	uint32_t m;

	CHECK(i < BURST);
	memcpy(&m, p, sizeof(m));
	CHECK(m < MESSAGES && !b->seen[m]);
	for (uint32_t k = sizeof(m); k < PIECE; k++)
		CHECK(p[k] == byte_of(m, k));
	b->seen[m] = true;
	b->came++;
	return receive_piece(i);
}

/* Needs a port that loses packets. */
static bool messages_of_srd_overtake_one_that_waits_for_a_lost_packet(void)
{
	const time_t end = time(NULL) + PATIENCE;
	uint64_t id;

	CHECK(both_open(IBV_QPT_DRIVER));
	for (uint64_t i = 0; i < BURST; i++)
		CHECK(receive_piece(i));
	while (burst.done < MESSAGES || burst.came < MESSAGES) {
		CHECK(time(NULL) < end && burst_give(&burst));
		while (polled(&cli, &id))
			CHECK(burst_done(&burst, id));
		while (polled(&srv, &id))
			CHECK(burst_came(&burst, id));
		sched_yield();
	}
	CHECK(burst.overtaken > 0);
	return both_close();
}

/* A datagram may be as long as the port says, whatever the MTU is. */
static bool datagrams_are_as_long_as_the_port_says(void)
{
	struct ibv_port_attr port;
	struct said s;

	CHECK(both_open(IBV_QPT_UD) && ibv_query_port(cli.verbs, 1, &port) == 0);
	fill(cli.buf, 5, port.max_msg_sz);
	CHECK(receive(&srv, 1, GRH + port.max_msg_sz) && request(SEND_IMM, 2, port.max_msg_sz));
	CHECK(done(&cli, 2, IBV_WC_SEND) && next(&srv, &s) && s.status == IBV_WC_SUCCESS);
	CHECK(s.byte_len == GRH + port.max_msg_sz && s.src_qp == cli.qp->qp_num && s.imm == htonl(port.max_msg_sz));
	CHECK(s.slid == NO_AHN && s.sgid_rc == 0 && memcmp(&s.sgid, &cli.gid, sizeof(s.sgid)) == 0);
	CHECK(is_filled(srv.buf + GRH, 5, port.max_msg_sz));
	return both_close();
}

static bool what_is_not_known_is_refused(void)
{
	struct efadv_qp_init_attr efa = { .driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD };
	struct ibv_cq_init_attr_ex c = { .cqe = 4 };
	struct efadv_cq_init_attr ec = { .wc_flags = 1u << 9 };

	CHECK(efadv_create_cq(srv.verbs, &c, &ec, sizeof(ec)) == NULL && errno == EOPNOTSUPP);
	ec = (struct efadv_cq_init_attr){ .comp_mask = 1 };
	CHECK(efadv_create_cq(srv.verbs, &c, &ec, sizeof(ec)) == NULL && errno == EINVAL);
	CHECK((srv.cq = cq_new(&srv, 0)) != NULL);
	struct ibv_qp_init_attr_ex a = attr_of(&srv, IBV_QPT_DRIVER);
	efa.driver_qp_type = 1;
	CHECK(efadv_create_qp_ex(srv.verbs, &a, &efa, sizeof(efa)) == NULL && errno == EOPNOTSUPP);
	efa = (struct efadv_qp_init_attr){ .comp_mask = 1 };
	CHECK(efadv_create_qp_ex(srv.verbs, &a, &efa, sizeof(efa)) == NULL && errno == EINVAL);
	efa = (struct efadv_qp_init_attr){ .reserved = { [2] = 1 } };
	CHECK(efadv_create_qp_ex(srv.verbs, &a, &efa, sizeof(efa)) == NULL && errno == EOPNOTSUPP);
	efa.reserved[2] = 0;
	CHECK(efadv_create_qp_ex(srv.verbs, &a, &efa, 8) == NULL && errno == EINVAL);
	CHECK(efadv_create_qp_ex(srv.verbs, &a, NULL, sizeof(efa)) == NULL && errno == EINVAL);
	a.send_ops_flags |= IBV_QP_EX_WITH_BIND_MW;
	CHECK(efadv_create_qp_ex(srv.verbs, &a, &efa, sizeof(efa)) == NULL && errno == EOPNOTSUPP);
	a = attr_of(&srv, IBV_QPT_DRIVER);
	CHECK(ibv_create_qp_ex(srv.verbs, &a) == NULL && errno == EOPNOTSUPP);
	return ibv_destroy_cq(ibv_cq_ex_to_cq(srv.cq)) == 0;
}

static const struct {
	const char *name;
	bool (*run)(void);
} cases[] = {
#define CASE(f) \
	{ \
#f, f \
	}
	CASE(the_device_is_described),
	CASE(every_operation_of_srd_carries_its_bytes),
	CASE(a_sender_is_told_by_its_handle_or_by_its_address),
	CASE(one_address_has_one_number),
	CASE(a_plain_queue_pair_and_queue),
	CASE(messages_of_srd_overtake_one_that_waits_for_a_lost_packet),
	CASE(datagrams_are_as_long_as_the_port_says),
	CASE(what_is_not_known_is_refused),
};
#define N_CASES ((int)(sizeof(cases) / sizeof(cases[0])))

static bool wanted(const char *name, int n, char **names)
{
	for (int i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return n <= 0;
}

int main(int argc, char **argv)
{
	int failed = 0;

	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (int i = 0; i < N_CASES; i++)
			puts(cases[i].name);
		return 0;
	}
	if (argc < 3 || !device_open(&srv, argv[1]) || !device_open(&cli, argv[2]))
		return 2;
	for (int i = 0; i < N_CASES; i++) {
		if (!wanted(cases[i].name, argc - 3, argv + 3))
			continue;
		const bool good = cases[i].run();
		printf("%s %s\n", good ? "ok" : "not ok", cases[i].name);
		fflush(stdout);
		failed += !good;
	}
	for (int i = 0; i < 2; i++) {
		struct end *e = i == 0 ? &srv : &cli;
		if (ibv_dereg_mr(e->mr) != 0 || ibv_dealloc_pd(e->pd) != 0 || ibv_close_device(e->verbs) != 0)
			failed++;
		free(e->buf);
	}
	return failed > 0;
}
