/* SPDX-License-Identifier: BSD-3-Clause */
#include "mini_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QKEY     0x6d696e69u
#define GRH      40u
#define POOL     256u         /* receives of the datagram queue pair, for all partners together */
#define RC_RECVS (WINDOW + 4) /* the window, and acknowledgements, of which few can be on their way */
#define ACCESS   (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

/* The facts about a rank that the other ranks get through minirun. */
struct card {
	uint32_t address, qpn, rc_qpn[RANKS];
};

struct rbuf { /* a receive */
	struct lane *lane;
	uint8_t *mem;
	struct ibv_mr *mr;
};

void net_open(const char *address)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id = NULL;

	mini_need(inet_pton(AF_INET, address, &at.sin_addr) == 1, "an address of MINIMPI_ADDRESSES");
	mini_need(ch != NULL && rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) == 0, "opening the RDMA library");
	mini_need(rdma_bind_addr(id, (struct sockaddr *)&at) == 0 && id->verbs != NULL,
		  "finding the RDMA device of the address (is rnicd running?)");
	mini.verbs = id->verbs;
	mini_need((mini.pd = ibv_alloc_pd(mini.verbs)) != NULL, "making a protection domain");
	mini_need((mini.cq = ibv_create_cq(mini.verbs, 8192, NULL, NULL, 0)) != NULL, "making a completion queue");
}

void *net_memory(size_t size, struct ibv_mr **mr)
{
	void *p = NULL;

	mini_need(posix_memalign(&p, 4096, size) == 0, "allocating buffers");
	memset(p, 0, size);
	*mr = ibv_reg_mr(mini.pd, p, size, ACCESS);
	mini_need(*mr != NULL, "registering buffers");
	mini.memory += size;
	return p;
}

static void receive(struct rbuf *b)
{
	struct ibv_sge sge = { (uintptr_t)b->mem, PACKET + GRH, b->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = (uintptr_t)b, .sg_list = &sge, .num_sge = 1 }, *bad;

	errno = ibv_post_recv(b->lane->qp, &wr, &bad);
	mini_need(errno == 0, "posting a receive");
}

static void receive_all(struct lane *l, unsigned n)
{
	struct ibv_mr *mr;
	uint8_t *mem = net_memory((size_t)n * (PACKET + GRH), &mr);
	struct rbuf *b = calloc(n, sizeof(*b));

	mini_need(b != NULL, "allocating receives");
	for (unsigned i = 0; i < n; i++) {
		b[i] = (struct rbuf){ l, mem + (size_t)i * (PACKET + GRH), mr };
		receive(&b[i]);
	}
}

static void gram_open(void)
{
	const bool rd = mini.channel == CHANNEL_RD;
	struct rnicdv_qp_attr dv = { .type = rd ? RNICDV_QPT_RD : RNICDV_QPT_UD };
	struct ibv_qp_init_attr_ex init = { .send_cq = mini.cq,
					    .recv_cq = mini.cq,
					    .qp_type = IBV_QPT_UD,
					    .pd = mini.pd,
					    .cap = { 512, POOL, 1, 1, 0 },
					    .sq_sig_all = 1,
					    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .send_ops_flags = rd ? IBV_QP_EX_WITH_RDMA_WRITE
								 : IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .qkey = QKEY, .port_num = 1 };
	struct ibv_qp *qp = rnicdv_create_qp(mini.verbs, &init, &dv);

	mini_need(qp != NULL, "making a queue pair for datagrams");
	mini.gram = (struct lane){ .qp = qp, .carrier = rd ? BY_RD : BY_UD, .depth = 512 };
	mini_need(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0, "INIT");
	receive_all(&mini.gram, POOL);
	a.qp_state = IBV_QPS_RTR;
	mini_need(ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0, "RTR");
	a.qp_state = IBV_QPS_RTS;
	mini_need(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "RTS");
}

/* Makes the queue pair of a connection, which waits for its partner's number. */
void net_connect_begin(struct peer *p)
{
	struct ibv_qp_init_attr init = { .send_cq = mini.cq,
					 .recv_cq = mini.cq,
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .cap = { WINDOW + 16, RC_RECVS, 1, 1, 0 } };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS };
	struct ibv_qp *qp = ibv_create_qp(mini.pd, &init);

	mini_need(qp != NULL, "making a queue pair for a connection");
	mini_need(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
		  "INIT of a connection");
	p->rc = (struct lane){ .qp = qp, .carrier = BY_RC, .depth = WINDOW + 16 };
	receive_all(&p->rc, RC_RECVS);
	p->conn = CONN_ASKED;
	mini.n_rc++;
}

void net_connect_end(struct peer *p, uint32_t qpn)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR,
				 .path_mtu = IBV_MTU_1024,
				 .dest_qp_num = qpn,
				 .max_dest_rd_atomic = 1,
				 .min_rnr_timer = 12,
				 .ah_attr = { .port_num = 1, .is_global = 1, .grh.dgid = p->gid } };

	mini_need(ibv_modify_qp(p->rc.qp, &a,
				IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
		  "RTR of a connection");
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 20, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1
	};
	mini_need(ibv_modify_qp(p->rc.qp, &a,
				IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					IBV_QP_MAX_QP_RD_ATOMIC) == 0,
		  "RTS of a connection");
	p->conn = CONN_UP;
}

/* Gives the card to minirun and takes those of all ranks. */
static void exchange(const struct card *mine, struct card *all)
{
	uint8_t *to = (uint8_t *)all;
	ssize_t n;

	mini_need(write(mini.fd, mine, sizeof(*mine)) == (ssize_t)sizeof(*mine), "telling minirun of this rank");
	for (size_t got = 0, want = sizeof(*all) * mini.size; got < want; got += (size_t)n) {
		n = read(mini.fd, to + got, want - got);
		mini_need(n > 0, "hearing from minirun of the other ranks");
	}
}

void net_meet(uint32_t address)
{
	static struct card all[RANKS];
	struct card mine = { .address = address };

	if (mini.channel != CHANNEL_RC) {
		gram_open();
		mine.qpn = mini.gram.qp->qp_num;
	}
	for (unsigned i = 0; i < mini.size; i++) {
		mini.peer[i].rank = i;
		if (mini.channel != CHANNEL_RC || i == mini.rank)
			continue;
		net_connect_begin(&mini.peer[i]);
		mine.rc_qpn[i] = mini.peer[i].rc.qp->qp_num;
	}
	exchange(&mine, all);
	for (unsigned i = 0; i < mini.size; i++) {
		struct peer *p = &mini.peer[i];
		struct ibv_ah_attr to = { .is_global = 1, .port_num = 1 };

		if (i == mini.rank)
			continue;
		p->gid.raw[10] = p->gid.raw[11] = 0xff; /* ::ffff:a.b.c.d */
		memcpy(p->gid.raw + 12, &all[i].address, 4);
		p->qpn = all[i].qpn;
		to.grh.dgid = p->gid;
		if (mini.channel == CHANNEL_RC)
			net_connect_end(p, all[i].rc_qpn[mini.rank]);
		else
			mini_need((p->ah = ibv_create_ah(mini.pd, &to)) != NULL, "making an address handle");
	}
}

void net_send(struct slot *s, struct lane *l, struct peer *p, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)s->head, len, s->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = (uintptr_t)s, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	if (l->carrier != BY_RC) {
		wr.wr.ud.ah = p->ah;
		wr.wr.ud.remote_qpn = p->qpn;
		wr.wr.ud.remote_qkey = QKEY;
	}
	s->lane = l;
	s->posted = true;
	l->posted++;
	mini.bytes[l->carrier] += len;
	errno = ibv_post_send(l->qp, &wr, &bad);
	mini_need(errno == 0, "posting a Send");
}

void net_write(const struct net_write *w, struct lane *l, struct peer *p)
{
	l->posted++;
	mini.bytes[l->carrier] += w->len;
	if (l->carrier == BY_RC) {
		struct ibv_sge sge = { (uintptr_t)w->from, w->len, w->mr->lkey };
		struct ibv_send_wr wr = { .wr_id = (uintptr_t)w->req | 1,
					  .sg_list = &sge,
					  .num_sge = 1,
					  .opcode = IBV_WR_RDMA_WRITE,
					  .wr.rdma = { w->to, w->rkey } },
				   *bad;

		errno = ibv_post_send(l->qp, &wr, &bad);
		mini_need(errno == 0, "posting a Write");
		return;
	}
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(l->qp);
	ibv_wr_start(ex);
	ex->wr_id = (uintptr_t)w->req | 1;
	if (l->carrier == BY_UD)
		ibv_wr_rdma_write_imm(ex, w->rkey, w->to, htonl(w->id));
	else
		ibv_wr_rdma_write(ex, w->rkey, w->to);
	ibv_wr_set_ud_addr(ex, p->ah, p->qpn, QKEY);
	ibv_wr_set_sge(ex, w->mr->lkey, (uintptr_t)w->from, w->len);
	errno = ibv_wr_complete(ex);
	mini_need(errno == 0, "posting a Write-Record");
}

static void received(const struct ibv_wc *wc)
{
	struct rbuf *b = (struct rbuf *)(uintptr_t)wc->wr_id;
	const uint32_t skip = b->lane->carrier == BY_UD ? GRH : 0;

	if (wc->byte_len >= skip)
		stream_in(b->mem + skip, wc->byte_len - skip);
	receive(b);
}

/* A send work request has completed. wr_id: the packet's slot, or the request that a Write belongs to, plus 1. */
static void sent(const struct ibv_wc *wc)
{
	for (unsigned i = 0; i < mini.size; i++)
		if (mini.peer[i].rc.qp != NULL && mini.peer[i].rc.qp->qp_num == wc->qp_num)
			mini.peer[i].rc.posted--;
	if (mini.gram.qp != NULL && mini.gram.qp->qp_num == wc->qp_num)
		mini.gram.posted--;
	if (wc->wr_id & 1)
		msg_write_done((void *)(uintptr_t)(wc->wr_id - 1));
	else
		stream_sent((struct slot *)(uintptr_t)wc->wr_id);
}

bool net_poll(void)
{
	struct ibv_wc wc[32];
	const int n = ibv_poll_cq(mini.cq, 32, wc);

	mini_need(n >= 0, "polling");
	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS) {
			fprintf(stderr, "minimpi: rank %u: a work request failed: %s (vendor_err 0x%x)\n", mini.rank,
				ibv_wc_status_str(wc[i].status), wc[i].vendor_err);
			exit(1);
		}
		if (wc[i].opcode == IBV_WC_RECV)
			received(&wc[i]);
		else if (wc[i].opcode != IBV_WC_DRIVER1)
			sent(&wc[i]);
		else if ((wc[i].wc_flags & RNICDV_WC_RECORD_WHOLE) != 0)
			msg_piece(ntohl(wc[i].imm_data), wc[i].wr_id);
	}
	return n > 0;
}
