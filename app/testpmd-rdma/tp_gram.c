/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs of datagrams: ready at once, without a connection. The client reads the server's numbers of queue pairs
 * over the control connection and writes its own ones there; the way to the other side is the address of that
 * connection. The function that makes such queue pairs is looked up at run time, as other RDMA libraries do not have
 * it.
 */
#include "tp_engine.h"

#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <rnic/rnicdv.h>
#include <stdlib.h>
#include <string.h>

#define QKEY 0x74657374u /* "test" */

typedef int (*query_fn)(struct ibv_context *, struct rnicdv_device_attr *);
typedef struct ibv_qp *(*create_fn)(struct ibv_context *, struct ibv_qp_init_attr_ex *, const struct rnicdv_qp_attr *);

static enum tp_verdict no_such(const struct tp_session *s)
{
	return tp_fail(s->err, TP_NO_DEVICE,
		       "this device has no such queue pairs: --qp-type %s is for devices of rnicd",
		       tp_qp_type_name(s->point.qp_type));
}

static enum tp_verdict make_ready(struct tp_session *s, struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .qkey = QKEY, .port_num = s->ctrl.id->port_num };
	int rc = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	a.qp_state = IBV_QPS_RTR;
	if (rc == 0)
		rc = ibv_modify_qp(qp, &a, IBV_QP_STATE);
	a.qp_state = IBV_QPS_RTS;
	if (rc == 0)
		rc = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
	errno = rc;
	return rc == 0 ? TP_OK : tp_verbs_fail(s->err, "getting a queue pair ready");
}

static struct ibv_qp *make_qp(const struct tp_session *s, create_fn create, uint32_t inline_max)
{
	const bool rd = s->point.qp_type == TP_QP_RD;
	const struct rnicdv_qp_attr dv = { .type = rd ? RNICDV_QPT_RD : RNICDV_QPT_UD };
	const uint32_t one_for_all = s->n_grams < s->point.qps ? s->point.qps
							       : 0; /* a receive for each of the client's */
	struct ibv_qp_init_attr_ex init = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.qp_type = IBV_QPT_UD,
		.pd = s->pd,
		.cap = { s->sq_depth, s->rq_depth + one_for_all, 1, 1, inline_max },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
				  (rd ? 0 : IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
	};

	return create(s->verbs, &init, &dv);
}

/* Receives for the first messages of all queue pairs that talk to this one. */
static enum tp_verdict first_recvs(struct tp_session *s, uint32_t q)
{
	const uint32_t n = !s->is_server || s->point.qp_type == TP_QP_UD ? 0 : s->point.qps / s->n_grams;
	enum tp_verdict v = TP_OK;

	for (uint32_t i = 0; v == TP_OK && i < n; i++)
		v = tp_post_fence_recv(s, q);
	return v;
}

static enum tp_verdict open_one(struct tp_session *s, create_fn create, uint32_t q)
{
	struct tp_gram *g = &s->grams[q];
	enum tp_verdict v;

	g->qp = make_qp(s, create, s->inline_max);
	if (g->qp == NULL)
		return errno == EOPNOTSUPP ? no_such(s) : tp_verbs_fail(s->err, "creating a queue pair of datagrams");
	g->ex = ibv_qp_to_qp_ex(g->qp);
	((uint32_t *)(void *)(s->region + tp_cards_out(&s->layout, s->point.qps)))[q] = htole32(g->qp->qp_num);
	v = make_ready(s, g->qp);
	return v == TP_OK ? first_recvs(s, q) : v;
}

enum tp_verdict tp_gram_open(struct tp_session *s)
{
	create_fn create = (create_fn)(uintptr_t)dlsym(RTLD_DEFAULT, "rnicdv_create_qp");
	query_fn query = (query_fn)(uintptr_t)dlsym(RTLD_DEFAULT, "rnicdv_query_device");
	struct rnicdv_device_attr dev = { 0 };
	enum tp_verdict v = TP_OK;

	if (create == NULL || query == NULL || query(s->verbs, &dev) != 0 || dev.max_ud_msg == 0)
		return no_such(s);
	s->n_grams = s->is_server && s->point.mode == TP_IDLE ? 1 : s->point.qps;
	s->grams = calloc(s->n_grams, sizeof(*s->grams));
	if (s->grams == NULL)
		return tp_fail(s->err, TP_NO_MEMORY, "out of memory");
	for (uint32_t q = 0; v == TP_OK && q < s->n_grams; q++)
		v = open_one(s, create, q);
	return v;
}

enum tp_verdict tp_gram_exchange(struct tp_session *s)
{
	const uint64_t in = tp_cards_in(&s->layout), out = tp_cards_out(&s->layout, s->point.qps);
	enum tp_verdict v = tp_ctrl_rdma(s, IBV_WR_RDMA_READ, in, out, 4 * s->point.qps);

	return v == TP_OK ? tp_ctrl_rdma(s, IBV_WR_RDMA_WRITE, out, in, 4 * s->point.qps) : v;
}

enum tp_verdict tp_gram_join(struct tp_session *s)
{
	const uint32_t *card = (const void *)(s->region + tp_cards_in(&s->layout));
	const struct sockaddr *peer = rdma_get_peer_addr(s->ctrl.id);
	struct ibv_ah_attr to = { .is_global = 1, .port_num = s->ctrl.id->port_num };

	if (peer->sa_family == AF_INET6) {
		memcpy(to.grh.dgid.raw, &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr, 16);
	} else { /* ::ffff:a.b.c.d */
		to.grh.dgid.raw[10] = to.grh.dgid.raw[11] = 0xff;
		memcpy(to.grh.dgid.raw + 12, &((const struct sockaddr_in *)(const void *)peer)->sin_addr, 4);
	}
	s->ah = ibv_create_ah(s->pd, &to);
	if (s->ah == NULL)
		return tp_verbs_fail(s->err, "finding the way to the other side's datagrams");
	for (uint32_t q = 0; q < s->n_grams; q++) {
		const uint32_t one = le32toh(card[0]);

		s->grams[q].peer_qpn = le32toh(card[q]);
		if (s->grams[q].peer_qpn == 0)
			s->grams[q].peer_qpn = one; /* the server has one for all */
	}
	return TP_OK;
}

void tp_gram_close(struct tp_session *s)
{
	for (uint32_t q = 0; s->grams != NULL && q < s->n_grams; q++)
		if (s->grams[q].qp != NULL)
			ibv_destroy_qp(s->grams[q].qp);
	free(s->grams);
	s->grams = NULL;
	if (s->ah != NULL)
		ibv_destroy_ah(s->ah);
	s->ah = NULL;
}

int tp_gram_post(struct tp_session *s, uint32_t qp, const struct ibv_send_wr *wr)
{
	struct tp_gram *g = &s->grams[qp];
	struct ibv_qp_ex *ex = g->ex;

	ibv_wr_start(ex);
	for (; wr != NULL; wr = wr->next) {
		ex->wr_id = wr->wr_id;
		ex->wr_flags = wr->send_flags & ~(unsigned)IBV_SEND_INLINE;
		if (wr->opcode == IBV_WR_SEND)
			ibv_wr_send(ex);
		else if (wr->opcode == IBV_WR_SEND_WITH_IMM)
			ibv_wr_send_imm(ex, wr->imm_data);
		else if (wr->opcode == IBV_WR_RDMA_WRITE)
			ibv_wr_rdma_write(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		else if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
			ibv_wr_rdma_write_imm(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
		else
			ibv_wr_rdma_read(ex, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		ibv_wr_set_ud_addr(ex, s->ah, g->peer_qpn, QKEY);
		if ((wr->send_flags & IBV_SEND_INLINE) != 0)
			ibv_wr_set_inline_data(ex, (void *)(uintptr_t)wr->sg_list->addr, wr->sg_list->length);
		else
			ibv_wr_set_sge(ex, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
	}
	return ibv_wr_complete(ex);
}
