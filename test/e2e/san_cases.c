/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs with one mistake each, and correct ones beside them: both ends of a connection in one process.
 *
 * usage: san_cases SERVER-ADDRESS CLIENT-ADDRESS CASE
 */
#include "cm_rig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <rnic/rnicdv.h>

#define PORT 7900

static bool end_close(struct end *e)
{
	CHECK(ibv_dereg_mr(e->mr) == 0);
	CHECK(ibv_destroy_cq(e->cq) == 0);
	CHECK(ibv_dealloc_pd(e->pd) == 0);
	CHECK(rdma_destroy_id(e->anchor) == 0);
	rdma_destroy_event_channel(e->ch);
	free(e->buf);
	return true;
}

static int send_with(struct rdma_cm_id *id, uint64_t wr_id, uint32_t len, unsigned int flags)
{
	struct ibv_sge sge = { (uintptr_t)cli.buf, len, cli.mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags
	};
	struct ibv_send_wr *bad;

	return ibv_post_send(id->qp, &wr, &bad);
}

static bool changed(bool by_program)
{
	struct ibv_wc wc;
	struct joined j;

	CHECK(join(&j, PORT));
	CHECK(post_recv(&srv, j.sid, 1, BUF_LEN) && post_send(&cli, j.cid, 2, BUF_LEN));
	if (by_program)
		cli.buf[BUF_LEN - 1] ^= 1;
	CHECK(poll_n(&cli, &wc, 1) && poll_n(&srv, &wc, 1));
	cli.buf[0] ^= 1; /* after the completion the program may change the buffer */
	return part(&j);
}

static bool right(void) { return changed(false); }
static bool changed_buffer(void) { return changed(true); }

static bool dereg_in_use(void)
{
	struct joined j;

	CHECK(join(&j, PORT));
	CHECK(post_recv(&srv, j.sid, 1, BUF_LEN));
	CHECK(ibv_dereg_mr(srv.mr) == 0);
	CHECK((srv.mr = ibv_reg_mr(srv.pd, srv.buf, BUF_LEN, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	return part(&j);
}

/* The end of a connection flushes what the queue pair had posted: the region may be deregistered. */
static bool dereg_after_the_end(void)
{
	struct joined j;

	CHECK(join(&j, PORT));
	CHECK(post_recv(&srv, j.sid, 1, BUF_LEN));
	CHECK(rdma_disconnect(j.sid) == 0);
	CHECK(ibv_dereg_mr(srv.mr) == 0);
	CHECK((srv.mr = ibv_reg_mr(srv.pd, srv.buf, BUF_LEN, IBV_ACCESS_LOCAL_WRITE)) != NULL);
	CHECK(want(cli.ch, RDMA_CM_EVENT_DISCONNECTED, NULL) && want(srv.ch, RDMA_CM_EVENT_DISCONNECTED, NULL));
	return drop(j.cid) && drop(j.sid) && rdma_destroy_id(j.lid) == 0;
}

static bool read_and_send(unsigned int flags)
{
	struct ibv_wc wc[2];
	struct joined j;

	CHECK(join(&j, PORT));
	CHECK(post_recv(&srv, j.sid, 1, BUF_LEN) && post_read(&cli, &srv, j.cid, 2, 64));
	CHECK(send_with(j.cid, 3, 32, IBV_SEND_SIGNALED | flags) == 0);
	CHECK(poll_n(&cli, wc, 2) && poll_n(&srv, wc, 1));
	return part(&j);
}

static bool missing_fence(void) { return read_and_send(0); }
static bool fence(void) { return read_and_send(IBV_SEND_FENCE); }

static bool small_cq(void)
{
	struct ibv_cq *cq = srv.cq;
	struct ibv_wc wc;
	struct joined j;

	CHECK((srv.cq = ibv_create_cq(srv.verbs, 2, NULL, NULL, 0)) != NULL);
	CHECK(join(&j, PORT));
	for (uint64_t i = 0; i < 3; i++)
		CHECK(post_recv(&srv, j.sid, i, 64));
	CHECK(part(&j));
	while (ibv_poll_cq(srv.cq, 1, &wc) > 0)
		;
	CHECK(ibv_destroy_cq(srv.cq) == 0);
	srv.cq = cq;
	return true;
}

/*
 * Four requests fill the queue. A fifth fits only after the program has polled a completion, which needs a signalled
 * request.
 */
static bool fills_up(unsigned int flags)
{
	struct ibv_wc wc[5];
	struct joined j;

	sig_all = 0;
	caps.max_send_wr = 4;
	CHECK(join(&j, PORT));
	for (uint64_t i = 0; i < 5; i++)
		CHECK(post_recv(&srv, j.sid, i, 64));
	for (uint64_t i = 0; i < 4; i++)
		CHECK(send_with(j.cid, i, 64, flags) == 0);
	CHECK(poll_n(&srv, wc, 4)); /* all four have arrived, but only a polled completion makes room */
	CHECK(send_with(j.cid, 4, 64, flags) == ENOMEM);
	if (flags != 0)
		CHECK(poll_n(&cli, wc, 1) && send_with(j.cid, 4, 64, flags) == 0 && poll_n(&cli, wc, 4));
	return part(&j);
}

static bool never_signaled(void) { return fills_up(0); }
static bool full_queue(void) { return fills_up(IBV_SEND_SIGNALED); }

static bool beyond_caps(void)
{
	struct ibv_sge sge[2] = { { (uintptr_t)cli.buf, 8, cli.mr->lkey }, { (uintptr_t)cli.buf, 8, cli.mr->lkey } };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = sge, .num_sge = 2 }, *bad;
	struct joined j;

	CHECK(join(&j, PORT));
	CHECK(ibv_post_send(j.cid->qp, &wr, &bad) == EINVAL);
	CHECK(send_with(j.cid, 2, BUF_LEN, IBV_SEND_INLINE) == EINVAL);
	return part(&j);
}

/* This case never ends: ibv_destroy_cq() waits for the event's acknowledgement. */
static bool no_ack(void)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(srv.verbs);
	struct ibv_cq *got;
	struct joined j;
	void *context;

	CHECK(ch != NULL && (srv.cq = ibv_create_cq(srv.verbs, 16, NULL, ch, 0)) != NULL);
	CHECK(join(&j, PORT) && ibv_req_notify_cq(srv.cq, 0) == 0);
	CHECK(post_recv(&srv, j.sid, 1, 64) && post_send(&cli, j.cid, 2, 64));
	CHECK(ibv_get_cq_event(ch, &got, &context) == 0);
	CHECK(part(&j));
	return ibv_destroy_cq(srv.cq) == 0;
}

static bool long_private_data(void)
{
	static const uint8_t priv[100] = { 1 };
	struct rdma_conn_param p = param(4, 4, priv, sizeof(priv));
	struct joined j;

	CHECK(join_with(&j, PORT, &p, NULL));
	return part(&j);
}

static bool too_deep(void)
{
	struct rdma_conn_param cp = param(2, 2, NULL, 0), sp = param(2, 4, NULL, 0);
	struct joined j;

	CHECK(join_with(&j, PORT, &cp, &sp));
	return part(&j);
}

/*
 * Makes a connection whose client's CQ has a completion channel. A device may raise the channel's event too early, or
 * once too often, and a correct program copes with that.
 */
static bool event_join(struct joined *j, struct ibv_comp_channel **ch)
{
	CHECK((*ch = ibv_create_comp_channel(cli.verbs)) != NULL);
	CHECK((cli.cq = ibv_create_cq(cli.verbs, 64, NULL, *ch, 0)) != NULL);
	CHECK(join(j, PORT) && ibv_req_notify_cq(cli.cq, 0) == 0);
	for (uint64_t i = 0; i < 32; i++)
		CHECK(post_recv(&srv, j->sid, i, 64));
	return true;
}

static bool event_part(struct joined *j, struct ibv_comp_channel *ch, struct ibv_cq *old)
{
	CHECK(part(j) && ibv_destroy_cq(cli.cq) == 0 && ibv_destroy_comp_channel(ch) == 0);
	cli.cq = old;
	return true;
}

static bool polls_once_for_an_event(void)
{
	struct ibv_cq *old = cli.cq, *got;
	struct ibv_comp_channel *ch;
	struct joined j;
	struct ibv_wc wc;
	void *context;

	CHECK(event_join(&j, &ch));
	CHECK(post_send(&cli, j.cid, 1, 64));
	CHECK(ibv_get_cq_event(ch, &got, &context) == 0);
	ibv_ack_cq_events(got, 1);
	const int k = ibv_poll_cq(cli.cq, 1, &wc);
	CHECK(k == 1);
	return event_part(&j, ch, old);
}

static bool waits_for_events(void)
{
	struct ibv_cq *old = cli.cq, *got;
	struct ibv_comp_channel *ch;
	struct joined j;
	struct ibv_wc wc;
	void *context;
	int done = 0, k;

	CHECK(event_join(&j, &ch));
	for (uint64_t i = 0; i < 32; i++)
		CHECK(post_send(&cli, j.cid, i, 64));
	while (done < 32) {
		CHECK(ibv_get_cq_event(ch, &got, &context) == 0);
		ibv_ack_cq_events(got, 1);
		CHECK(ibv_req_notify_cq(cli.cq, 0) == 0);
		while ((k = ibv_poll_cq(cli.cq, 1, &wc)) > 0)
			done += k;
		CHECK(k == 0);
	}
	return event_part(&j, ch, old);
}

/* ---- memory that the device may be writing ---- */

#define PART    8192u
#define ROUNDS  200u
#define WAIT_NS UINT64_C(15000000000)

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Waits until the byte has the value. */
static bool becomes(const uint8_t *byte, uint8_t value)
{
	const uint64_t until = now_ns() + WAIT_NS;

	while (__atomic_load_n(byte, __ATOMIC_ACQUIRE) != value)
		if (now_ns() > until)
			return false;
	return true;
}

static int write_to(struct rdma_cm_id *id, uint32_t from, uint32_t to, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)cli.buf + from, len, cli.mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED
	};
	struct ibv_send_wr *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)srv.buf + to;
	wr.wr.rdma.rkey = srv.mr->rkey;
	return ibv_post_send(id->qp, &wr, &bad);
}

/* Wrong: reads a receive's buffer while the device may write to it. */
static bool receive_used(void)
{
	struct ibv_wc wc;
	struct joined j;

	CHECK(join(&j, PORT) && post_recv(&srv, j.sid, 1, BUF_LEN));
	CHECK(__atomic_load_n(&srv.buf[100], __ATOMIC_RELAXED) == 0);
	CHECK(post_send(&cli, j.cid, 2, BUF_LEN) && poll_n(&srv, &wc, 1) && poll_n(&cli, &wc, 1));
	CHECK(srv.buf[100] == cli.buf[100]);
	return part(&j);
}

/* Correct: each message is read before its buffer is posted again. */
static bool receive_read_in_turn(void)
{
	struct ibv_wc wc;
	struct joined j;

	CHECK(join(&j, PORT));
	for (uint8_t i = 1; i <= 20; i++) {
		CHECK(post_recv(&srv, j.sid, i, BUF_LEN));
		memset(cli.buf, i, BUF_LEN);
		CHECK(post_send(&cli, j.cid, i, BUF_LEN) && poll_n(&cli, &wc, 1) && poll_n(&srv, &wc, 1));
		CHECK(srv.buf[0] == i && srv.buf[BUF_LEN - 1] == i);
	}
	return part(&j);
}

static bool written_used(void)
{
	struct ibv_wc wc;
	struct joined j;

	CHECK(join(&j, PORT));
	memset(cli.buf, 5, PART);
	CHECK(write_to(j.cid, 0, 0, PART) == 0 && becomes(&srv.buf[PART - 1], 5) && poll_n(&cli, &wc, 1));
	return part(&j);
}

/* Correct: a Send after the Write tells that the Write is complete. */
static bool written_and_told(void)
{
	struct ibv_wc wc[2];
	struct joined j;

	CHECK(join(&j, PORT));
	for (uint8_t i = 1; i <= 20; i++) {
		CHECK(post_recv(&srv, j.sid, i, 0));
		memset(cli.buf, i, PART);
		CHECK(write_to(j.cid, 0, 0, PART) == 0 && write_to(j.cid, 100, 2 * PART, 8) == 0);
		CHECK(send_with(j.cid, i, 0, IBV_SEND_SIGNALED) == 0 && poll_n(&srv, wc, 1) && poll_n(&cli, wc, 2));
		CHECK(poll_n(&cli, wc, 1) && srv.buf[2 * PART] == i);
		for (uint32_t k = 0; k < PART; k++)
			CHECK(srv.buf[k] == i);
	}
	return part(&j);
}

/* Correct: an Atomic after the Write also tells that the Write is complete. The program watches the Atomic's word. */
static bool written_and_counted(void)
{
	struct ibv_sge sge = { (uintptr_t)cli.buf + PART, 8, cli.mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD }, *bad;
	struct ibv_wc wc[2];
	struct joined j;

	CHECK(join(&j, PORT));
	memset(cli.buf, 5, PART);
	wr.wr.atomic.remote_addr = (uintptr_t)srv.buf + 4 * PART;
	wr.wr.atomic.rkey = srv.mr->rkey;
	wr.wr.atomic.compare_add = 1;
	CHECK(write_to(j.cid, 0, 0, PART) == 0 && ibv_post_send(j.cid->qp, &wr, &bad) == 0 && poll_n(&cli, wc, 2));
	CHECK(becomes(&srv.buf[4 * PART], 1));
	for (uint32_t k = 0; k < PART; k++)
		CHECK(srv.buf[k] == 5);
	return part(&j);
}

/*
 * Wrong: concludes from the last byte of a Write, or from a flag that another Write changes after the data, that all
 * data are there. A device may place that byte first.
 */
static bool trusts(bool flag)
{
	const uint32_t at = flag ? 4 * PART : PART - 1;
	struct ibv_wc wc[2];
	struct joined j;
	uint32_t torn = 0;

	CHECK(join(&j, PORT));
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		memset(cli.buf, (uint8_t)i, PART);
		CHECK(write_to(j.cid, 0, 0, PART) == 0 && (!flag || write_to(j.cid, 0, at, 1) == 0));
		CHECK(becomes(&srv.buf[at], (uint8_t)i));
		for (uint32_t k = 0; k < PART; k++)
			if (__atomic_load_n(&srv.buf[k], __ATOMIC_RELAXED) != (uint8_t)i) {
				torn++;
				break;
			}
		CHECK(poll_n(&cli, wc, flag ? 2 : 1));
	}
	printf("torn %u\n", torn);
	return part(&j);
}

static bool trusts_the_last_byte(void) { return trusts(false); }
static bool trusts_a_flag(void) { return trusts(true); }

/* ---- queues of other kinds ---- */

static bool receive_used_of_srq(void) { return with_srq(receive_used); }
static bool receive_read_in_turn_of_srq(void) { return with_srq(receive_read_in_turn); }
static bool written_used_beside_srq(void) { return with_srq(written_used); }
static bool written_and_told_by_srq(void) { return with_srq(written_and_told); }
static bool trusts_the_last_byte_beside_srq(void) { return with_srq(trusts_the_last_byte); }

static bool dereg_under_srq(void)
{
	struct ibv_srq_init_attr room = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(srv.pd, &room);
	struct ibv_sge sge = { .addr = (uintptr_t)srv.buf, .length = 64, .lkey = srv.mr->lkey };
	struct ibv_sge two[2] = { sge, sge };
	struct ibv_recv_wr wr = { .wr_id = 9, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_recv_wr wide = { .wr_id = 10, .sg_list = two, .num_sge = 2 };

	CHECK(srq != NULL && ibv_post_srq_recv(srq, &wr, &bad) == 0 && ibv_post_srq_recv(srq, &wide, &bad) == EINVAL);
	CHECK(ibv_dereg_mr(srv.mr) == 0 && ibv_destroy_srq(srq) == 0);
	return (srv.mr = ibv_reg_mr(srv.pd, srv.buf, BUF_LEN, IBV_ACCESS_LOCAL_WRITE)) != NULL;
}

/* Wrong: a datagram queue pair sends a message to itself, and the program changes the message's buffer meanwhile. */
static bool datagram_changed(bool reliable)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = cli.cq,
		.recv_cq = cli.cq,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = cli.pd
	};
	struct rnicdv_qp_attr rd = { .type = RNICDV_QPT_RD };
	struct ibv_qp_attr at = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1 };
	struct ibv_ah_attr where = { .is_global = 1, .port_num = 1 };
	struct ibv_sge in = { (uintptr_t)cli.buf + PART, 1024, cli.mr->lkey };
	struct ibv_sge out = { (uintptr_t)cli.buf, 512, cli.mr->lkey };
	struct ibv_recv_wr rwr = { .wr_id = 1, .sg_list = &in, .num_sge = 1 }, *rbad;
	struct ibv_send_wr wr = { .wr_id = 2, .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	struct ibv_wc wc[2];
	struct ibv_qp *qp;

	CHECK((qp = reliable ? rnicdv_create_qp(cli.verbs, &a, &rd) : ibv_create_qp_ex(cli.verbs, &a)) != NULL);
	CHECK(ibv_modify_qp(qp, &at, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
	for (at.qp_state = IBV_QPS_RTR; at.qp_state <= IBV_QPS_RTS; at.qp_state++)
		CHECK(ibv_modify_qp(qp, &at, IBV_QP_STATE) == 0);
	CHECK(ibv_query_gid(cli.verbs, 1, 0, &where.grh.dgid) == 0 && ibv_post_recv(qp, &rwr, &rbad) == 0);
	CHECK((wr.wr.ud.ah = ibv_create_ah(cli.pd, &where)) != NULL);
	wr.wr.ud.remote_qpn = qp->qp_num;
	wr.wr.ud.remote_qkey = 1;
	CHECK(ibv_post_send(qp, &wr, &bad) == 0);
	cli.buf[511] ^= 1;
	CHECK(poll_n(&cli, wc, 2));
	return ibv_destroy_ah(wr.wr.ud.ah) == 0 && ibv_destroy_qp(qp) == 0;
}

static bool ud_changed(void) { return datagram_changed(false); }
static bool rd_changed(void) { return datagram_changed(true); }

static bool unmapped_buffer(void)
{
	uint8_t *buf = mmap(NULL, BUF_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(cli.pd, memset(buf, 1, BUF_LEN), BUF_LEN, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { (uintptr_t)buf, BUF_LEN, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	struct ibv_wc wc;
	struct joined j;

	CHECK(mr != NULL && join(&j, PORT) && post_recv(&srv, j.sid, 1, BUF_LEN));
	CHECK(ibv_post_send(j.cid->qp, &wr, &bad) == 0);
	munmap(buf, BUF_LEN);
	CHECK(poll_n(&cli, &wc, 1) && poll_n(&srv, &wc, 1) && ibv_dereg_mr(mr) == 0);
	return part(&j);
}

static bool leaks(void)
{
	CHECK(ibv_alloc_mw(cli.pd, IBV_MW_TYPE_2) != NULL);
	CHECK(ibv_alloc_pd(srv.verbs) != NULL);
	CHECK(ibv_reg_mr(cli.pd, cli.buf, 64, 0) != NULL && ibv_reg_mr(cli.pd, cli.buf, 64, 0) != NULL);
	return true;
}

static const struct rig_case cases[] = {
	CASE(right),
	CASE(changed_buffer),
	CASE(dereg_in_use),
	CASE(dereg_after_the_end),
	CASE(missing_fence),
	CASE(fence),
	CASE(small_cq),
	CASE(never_signaled),
	CASE(full_queue),
	CASE(beyond_caps),
	CASE(no_ack),
	CASE(long_private_data),
	CASE(too_deep),
	CASE(leaks),
	CASE(polls_once_for_an_event),
	CASE(waits_for_events),
	CASE(receive_used),
	CASE(receive_read_in_turn),
	CASE(written_used),
	CASE(written_and_told),
	CASE(written_and_counted),
	CASE(trusts_the_last_byte),
	CASE(trusts_a_flag),
	CASE(dereg_under_srq),
	CASE(receive_used_of_srq),
	CASE(receive_read_in_turn_of_srq),
	CASE(written_used_beside_srq),
	CASE(written_and_told_by_srq),
	CASE(trusts_the_last_byte_beside_srq),
	CASE(ud_changed),
	CASE(rd_changed),
	CASE(unmapped_buffer),
};

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	end_open(&srv, argv[1]);
	end_open(&cli, argv[2]);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[3], cases[i].name) != 0)
			continue;
		if (!cases[i].run())
			return 1;
		/* Regions that were not freed keep their protection domain, so the ends cannot be closed either. */
		return cases[i].run == leaks || (end_close(&srv) && end_close(&cli)) ? 0 : 1;
	}
	return 2;
}
