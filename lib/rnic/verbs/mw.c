/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows. A bind is a work request, and is checked when it is carried out. */
#include "rnic/verbs/objects.h"

struct rnic_mw {
	struct ibv_mw ibv; /* first */
	struct rnic_session *s;
};

struct ibv_mw *rnic_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct rnic_session *s = rnic_pd(pd)->s;
	struct ipc_msg m = { .type = IPC_ALLOC_MW,
			     .len = IPC_MSG_LEN(alloc_mw),
			     .alloc_mw = { .pd = rnic_pd(pd)->number, .type = type } };
	struct rnic_mw *mw = calloc(1, sizeof(*mw));
	int rc = rnic_inject(INJECT_ALLOC_MW);

	if (mw == NULL)
		return NULL;
	if (rc == 0)
		rc = rnic_call(s, &m, IPC_MSG_LEN(reg_mr_ok), -1);
	if (rc != 0) {
		free(mw);
		errno = rc;
		return NULL;
	}
	mw->s = s;
	mw->ibv = (struct ibv_mw){
		.context = pd->context, .pd = pd, .rkey = m.reg_mr_ok.stag, .handle = m.reg_mr_ok.handle, .type = type
	};
	rnic_pd_use(pd);
	rnic_made(RNIC_OBJ_MW, mw);
	return &mw->ibv;
}

int rnic_dealloc_mw(struct ibv_mw *ibmw)
{
	struct rnic_mw *mw = (struct rnic_mw *)ibmw;
	int rc = rnic_call_handle(mw->s, IPC_DEALLOC_MW, ibmw->handle);

	if (rc != 0 && !rnic_dead(mw->s))
		return rc;
	rnic_pd_leave(ibmw->pd);
	rnic_gone(RNIC_OBJ_MW, mw);
	free(mw);
	return 0;
}

/* Windows of type 1: each bind makes a new key, which the caller gives to peers. */
int rnic_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr *bad,
		wr = { .wr_id = bind->wr_id,
		       .opcode = IBV_WR_BIND_MW,
		       .send_flags = bind->send_flags,
		       .bind_mw = { .mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = bind->bind_info } };
	int rc;

	if (mw->pd->handle != qp->pd->handle ||
	    (bind->bind_info.mr != NULL && rnic_pd(bind->bind_info.mr->pd)->number != rnic_pd(mw->pd)->number))
		return EPERM;
	rc = rnic_post_send(qp, &wr, &bad);
	if (rc == 0)
		mw->rkey = wr.bind_mw.rkey;
	return rc;
}
