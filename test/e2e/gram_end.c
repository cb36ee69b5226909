/* SPDX-License-Identifier: BSD-3-Clause */
#include "gram_end.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct end e;
uint32_t gram_flags, gram_maps;
uint16_t gram_port;
int gram_rnr = -1;
struct ibv_srq *gram_srq;

void must(bool ok, const char *what)
{
	if (ok)
		return;
	printf("# %s: %s\n", what, strerror(errno));
	exit(1);
}

static int rnr_retry_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	return ibv_query_qp(qp, &a, IBV_QP_RNR_RETRY, &init) == 0 ? a.rnr_retry : -1;
}

struct ibv_qp *gram_qp(struct ibv_cq *cq, enum rnicdv_qp_type type, struct ibv_qp_cap cap, uint64_t ops)
{
	struct rnicdv_qp_attr dv = { .comp_mask = RNICDV_QP_ATTR_FLAGS | RNICDV_QP_ATTR_MAPS | RNICDV_QP_ATTR_UDP_PORT,
				     .type = type,
				     .flags = gram_flags,
				     .maps = gram_maps,
				     .udp_port = gram_port };
	struct ibv_qp_init_attr_ex init = { .send_cq = cq,
					    .recv_cq = cq,
					    .srq = gram_srq,
					    .qp_type = IBV_QPT_UD,
					    .pd = e.pd,
					    .cap = cap,
					    .sq_sig_all = 1,
					    .comp_mask = IBV_QP_INIT_ATTR_PD,
					    .send_ops_flags = ops };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET, .qkey = QKEY, .port_num = 1 };

	if (ops != 0)
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	struct ibv_qp *qp = rnicdv_create_qp(e.verbs, &init, &dv);
	must(qp != NULL, "rnicdv_create_qp");
	must(gram_port == 0 || qp->qp_num == RNICDV_QPN_OF_PORT(gram_port), "the number is not the port's");
	must(ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0, "RESET");
	must(rnr_retry_of(qp) == (type == RNICDV_QPT_RD ? 7 : 0), "rnr_retry in RESET");
	a.qp_state = IBV_QPS_INIT;
	must(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0, "INIT");
	a.qp_state = IBV_QPS_RTR;
	must(ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0, "RTR");
	a.qp_state = IBV_QPS_RTS;
	a.rnr_retry = (uint8_t)gram_rnr;
	must(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | (gram_rnr >= 0 ? IBV_QP_RNR_RETRY : 0)) == 0, "RTS");
	return qp;
}

uint8_t *gram_memory(size_t size, int access, struct ibv_mr **mr)
{
	void *p = NULL;

	must(posix_memalign(&p, 4096, size) == 0, "memory");
	memset(p, 0, size);
	*mr = ibv_reg_mr(e.pd, p, size, access);
	must(*mr != NULL, "ibv_reg_mr");
	return p;
}
