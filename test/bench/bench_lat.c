/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latency of connections and of datagrams with both ends in one program. One thread posts at one end, polls the other
 * end, and answers. So no message waits for the kernel to switch between two programs, as messages do where the
 * machine has fewer CPUs than polling threads. Connections and datagrams take turns of TURN round trips.
 *
 *	bench_lat ADDRESS ADDRESS send|write|imm SIZE SECONDS
 *
 * prints the median time of one way in nanoseconds, over a connection (Send, Write, Write with immediate) and by
 * unreliable datagrams (Send, Write-Record). The end of a Write is seen in memory, all others by completions.
 */
#include "bench_time.h"
#include "cm_rig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rnic/rnicdv.h>

#define QKEY    0x6c6174u
#define GRH     40u
#define TURN    500u
#define SAMPLES 1000000u
#define DEPTH   64u
#define SIGNAL  16u                 /* every so many requests one is signalled */
#define RX      0u                  /* where received bytes lie in an end's memory; a datagram begins with its GRH */
#define TX      (BUF_LEN / 2)       /* where the bytes to send lie */
#define LOST_NS UINT64_C(500000000) /* a message without an answer for this long has been lost, which is an error */

/* One of the two ends of a kind of queue pair. */
struct side {
	struct end *e;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex; /* of a datagram queue pair */
	struct ibv_ah *peer;
	uint32_t peer_qpn;
	uint32_t posted;
};

struct kind {
	bool datagrams;
	struct side side[2];
	uint32_t *took; /* nanoseconds of SAMPLES round trips */
	uint32_t n;
};

static bool writes;    /* Writes and Write-Records, not Sends */
static bool immediate; /* Writes carry immediate data, so their target gets a completion, as that of a Write-Record */
static uint32_t size;
static uint64_t began; /* when the wait for the present message began */

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "bench_lat: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- queue pairs ---- */

static struct ibv_qp_cap depths(void) { return (struct ibv_qp_cap){ DEPTH, DEPTH, 1, 1, 64 }; }

static void make_rc(struct side *s)
{
	struct ibv_qp_init_attr a = {
		.send_cq = s->e->cq, .recv_cq = s->e->cq, .qp_type = IBV_QPT_RC, .cap = depths()
	};

	s->qp = ibv_create_qp(s->e->pd, &a);
	must(s->qp != NULL && qp_init(s->qp) == 0, "creating a queue pair");
}

static void join_rc(struct side *s, const struct side *to)
{
	union ibv_gid gid;

	must(ibv_query_gid(to->e->verbs, 1, 0, &gid) == 0, "reading the peer's address");
	must(qp_rtr(s->qp, &gid, to->qp->qp_num) == 0 && qp_rts(s->qp, 14, 7) == 0, "connecting");
}

static void make_ud(struct side *s)
{
	struct rnicdv_qp_attr dv = { .type = RNICDV_QPT_UD };
	struct ibv_qp_init_attr_ex init = {
		.send_cq = s->e->cq,
		.recv_cq = s->e->cq,
		.qp_type = IBV_QPT_UD,
		.pd = s->e->pd,
		.cap = depths(),
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .qkey = QKEY, .port_num = 1 };
	int rc;

	s->qp = rnicdv_create_qp(s->e->verbs, &init, &dv);
	must(s->qp != NULL, "creating a queue pair of datagrams");
	s->ex = ibv_qp_to_qp_ex(s->qp);
	rc = ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	a.qp_state = IBV_QPS_RTR;
	rc = rc != 0 ? rc : ibv_modify_qp(s->qp, &a, IBV_QP_STATE);
	a.qp_state = IBV_QPS_RTS;
	rc = rc != 0 ? rc : ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
	must(rc == 0, "getting a queue pair of datagrams ready");
}

static void join_ud(struct side *s, const struct side *to)
{
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1 };

	must(ibv_query_gid(to->e->verbs, 1, 0, &a.grh.dgid) == 0, "reading the peer's address");
	s->peer = ibv_create_ah(s->e->pd, &a);
	must(s->peer != NULL, "making the peer's address");
	s->peer_qpn = to->qp->qp_num;
}

static void post_receive(struct side *s)
{
	struct ibv_sge sge = { (uintptr_t)s->e->buf + RX, GRH + size, s->e->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	must(ibv_post_recv(s->qp, &wr, &bad) == 0, "posting a receive");
}

/* Whether a message takes a receive. */
static bool receives(bool datagrams) { return !writes || (immediate && !datagrams); }

static void make(struct kind *k)
{
	k->side[0].e = &srv;
	k->side[1].e = &cli;
	k->took = calloc(SAMPLES, sizeof(*k->took));
	must(k->took != NULL, "memory");
	for (int i = 0; i < 2; i++)
		k->datagrams ? make_ud(&k->side[i]) : make_rc(&k->side[i]);
	for (int i = 0; i < 2; i++)
		k->datagrams ? join_ud(&k->side[i], &k->side[1 - i]) : join_rc(&k->side[i], &k->side[1 - i]);
	for (int i = 0; i < 2; i++)
		for (uint32_t n = 0; n < DEPTH / 2 && receives(k->datagrams); n++)
			post_receive(&k->side[i]);
}

/* ---- messages ---- */

static uint64_t there(const struct side *to) { return (uintptr_t)to->e->buf + RX; }

static void post_rc(struct side *s, const struct side *to)
{
	const enum ibv_wr_opcode write = immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
	struct ibv_sge sge = { (uintptr_t)s->e->buf + TX, size, s->e->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = writes ? write : IBV_WR_SEND,
				  .send_flags = (size <= depths().max_inline_data ? IBV_SEND_INLINE : 0) |
						(++s->posted % SIGNAL == 0 ? IBV_SEND_SIGNALED : 0),
				  .wr.rdma = { there(to), to->e->mr->rkey } },
			   *bad;

	must(ibv_post_send(s->qp, &wr, &bad) == 0, "posting");
}

static void post_ud(struct side *s, const struct side *to)
{
	ibv_wr_start(s->ex);
	s->ex->wr_id = 0;
	s->ex->wr_flags = ++s->posted % SIGNAL == 0 ? IBV_SEND_SIGNALED : 0;
	if (writes)
		ibv_wr_rdma_write(s->ex, to->e->mr->rkey, there(to));
	else
		ibv_wr_send(s->ex);
	ibv_wr_set_ud_addr(s->ex, s->peer, s->peer_qpn, QKEY);
	if (size <= depths().max_inline_data)
		ibv_wr_set_inline_data(s->ex, s->e->buf + TX, size);
	else
		ibv_wr_set_sge(s->ex, s->e->mr->lkey, (uintptr_t)s->e->buf + TX, size);
	must(ibv_wr_complete(s->ex) == 0, "posting a datagram");
}

/* The last byte of a message has the message's number. */
static uint8_t *last_byte(const struct side *s, uint32_t from) { return s->e->buf + from + size - 1; }

static void post(const struct kind *k, struct side *s, const struct side *to, uint8_t number)
{
	*last_byte(s, TX) = number;
	if (k->datagrams)
		post_ud(s, to);
	else
		post_rc(s, to);
}

static void not_lost(void)
{
	errno = ETIMEDOUT;
	must(now_ns() - began < LOST_NS, "waiting for a message");
}

/* Waits for the completion of a message that has arrived; passes over those of the end's own requests. */
static void await_completion(const struct kind *k, struct side *s)
{
	struct ibv_wc wc;
	int n;

	for (uint32_t polls = 1;; polls++) {
		n = ibv_poll_cq(s->e->cq, 1, &wc);
		must(n >= 0, "polling");
		if (n == 0 && polls % 4096 == 0)
			not_lost();
		if (n == 0)
			continue;
		errno = EIO;
		must(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
		if ((wc.opcode & IBV_WC_RECV) == 0 && wc.opcode != IBV_WC_DRIVER1)
			continue;
		if (receives(k->datagrams))
			post_receive(s);
		return;
	}
}

static void await_memory(const struct side *s, uint8_t number)
{
	struct ibv_wc wc;
	int n = 0;

	for (uint32_t polls = 1; *(volatile uint8_t *)last_byte(s, RX) != number; polls++)
		if (polls % 65536 == 0)
			not_lost();
	while (s->posted % SIGNAL == 0 && (n = ibv_poll_cq(s->e->cq, 1, &wc)) > 0)
		;
	must(n >= 0, "polling");
}

static void await(const struct kind *k, struct side *s, uint8_t number)
{
	if (k->datagrams || receives(false))
		await_completion(k, s);
	else
		await_memory(s, number);
	errno = EBADMSG;
	must(*last_byte(s, writes || !k->datagrams ? RX : RX + GRH) == number, "the wrong bytes have arrived");
}

/* TURN round trips. keep: their times are kept. */
static void turn(struct kind *k, bool keep)
{
	uint64_t at = now_ns();

	for (uint32_t i = 0; i < TURN; i++) {
		began = at;
		for (uint8_t way = 0; way < 2; way++) {
			const uint8_t number = (uint8_t)(2 * i + way + 1);
			post(k, &k->side[way], &k->side[1 - way], number);
			await(k, &k->side[1 - way], number);
		}
		const uint64_t next = now_ns();
		if (keep && k->n < SAMPLES)
			k->took[k->n++] = next - at < UINT32_MAX ? (uint32_t)(next - at) : UINT32_MAX;
		at = next;
	}
}

int main(int argc, char **argv)
{
	static struct kind kind[2] = { { .datagrams = false }, { .datagrams = true } };

	immediate = argc == 6 && strcmp(argv[3], "imm") == 0;
	writes = immediate || (argc == 6 && strcmp(argv[3], "write") == 0);
	size = argc == 6 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
	if (size == 0 || size > TX - GRH || (!writes && strcmp(argv[3], "send") != 0)) {
		fprintf(stderr, "bench_lat: ADDRESS ADDRESS send|write|imm SIZE SECONDS; SIZE is 1 to %u\n", TX - GRH);
		return 2;
	}
	end_open(&srv, argv[1]);
	end_open(&cli, argv[2]);
	for (int i = 0; i < 2; i++) {
		make(&kind[i]);
		turn(&kind[i], false);
	}
	for (uint64_t end = now_ns() + (uint64_t)(strtod(argv[5], NULL) * 1e9); now_ns() < end;)
		for (int i = 0; i < 2; i++)
			turn(&kind[i], true);
	printf("%.0f %.0f\n", median_of(kind[0].took, kind[0].n) / 2.0, median_of(kind[1].took, kind[1].n) / 2.0);
	return 0;
}
