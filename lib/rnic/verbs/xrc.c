/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XRC domains, and their target queue pairs. A target queue pair belongs to its domain. Nothing is posted to a target,
 * so this process has the verbs object of it and no queues. Initiators are in qp.c, XRC shared receive queues in srq.c.
 */
#include "rnic/verbs/objects.h"

#include <fcntl.h>
#include <sys/stat.h>

/* The qp_shm of all targets. Its state stays RESET, so post.c refuses to post to a target. */
static struct qp_shm unposted;

/* Not every descriptor can be passed to another process, and a failed attempt would end the session. */
static bool may_be_shared(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
}

struct ibv_xrcd *rnic_open_xrcd(struct ibv_context *c, struct ibv_xrcd_init_attr *a)
{
	const uint32_t all = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct ipc_msg m = { .type = IPC_OPEN_XRCD, .len = IPC_MSG_LEN(open_xrcd) };
	struct rnic_xrcd *x;
	int rc = 0;

	if ((a->comp_mask & all) != all || (a->comp_mask & ~all) != 0)
		rc = EINVAL;
	else if (a->fd != -1 && !may_be_shared(a->fd))
		rc = fcntl(a->fd, F_GETFD) < 0 ? EBADF : EINVAL;
	x = rc == 0 ? calloc(1, sizeof(*x)) : NULL;
	if (x == NULL) {
		errno = rc != 0 ? rc : ENOMEM;
		return NULL;
	}
	m.open_xrcd.dev = rnic_ctx(c)->index;
	m.open_xrcd.flags = ((a->oflags & O_CREAT) != 0 ? IPC_XRCD_CREATE : 0u) |
			    ((a->oflags & O_EXCL) != 0 ? IPC_XRCD_EXCLUSIVE : 0u);
	rc = rnic_call(rnic_ctx(c)->s, &m, IPC_MSG_LEN(handle), a->fd);
	if (rc != 0) {
		free(x);
		errno = rc;
		return NULL;
	}
	x->s = rnic_ctx(c)->s;
	x->number = m.handle.handle;
	x->ibv.context = c;
	return &x->ibv;
}

int rnic_close_xrcd(struct ibv_xrcd *xrcd)
{
	struct rnic_xrcd *x = rnic_xrcd(xrcd);
	int rc;

	if (__atomic_load_n(&x->refs, __ATOMIC_ACQUIRE) != 0)
		return EBUSY;
	rc = rnic_call_handle(x->s, IPC_CLOSE_XRCD, x->number);
	if (rc != 0 && !rnic_dead(x->s))
		return rc;
	free(x);
	return 0;
}

int rnic_get_srq_num(struct ibv_srq *srq, uint32_t *num)
{
	if (rnic_srq(srq)->number == 0)
		return EOPNOTSUPP;
	*num = rnic_srq(srq)->number;
	return 0;
}

/* ---- targets ---- */

static struct rnic_qp *target_new(struct ibv_context *c, struct ibv_xrcd *xrcd, void *qp_context)
{
	struct rnic_qp *qp = NULL;
	int rc = posix_memalign((void **)&qp, RN_CACHE_LINE, sizeof(*qp));

	if (rc != 0) {
		errno = rc;
		return NULL;
	}
	memset(qp, 0, sizeof(*qp));
	qp->s = rnic_ctx(c)->s;
	qp->shm = &unposted;
	qp->xrcd = rnic_xrcd(xrcd);
	qp->ex.qp_base.context = c;
	qp->ex.qp_base.qp_context = qp_context;
	qp->ex.qp_base.qp_type = IBV_QPT_XRC_RECV;
	return qp;
}

/* Sends the request m about the target, which create_qp_ok answers. On failure frees the target: NULL and errno. */
static struct ibv_qp *target_begin(struct rnic_qp *qp, struct ipc_msg *m)
{
	struct ibv_qp *b = &qp->ex.qp_base;
	int rc = rnic_call(qp->s, m, IPC_MSG_LEN(create_qp_ok), -1);

	if (rc != 0) {
		free(qp);
		errno = rc;
		return NULL;
	}
	b->handle = m->create_qp_ok.handle;
	b->qp_num = m->create_qp_ok.qpn;
	b->state = IBV_QPS_RESET;
	pthread_mutex_init(&b->mutex, NULL);
	pthread_cond_init(&b->cond, NULL);
	__atomic_fetch_add(&qp->xrcd->refs, 1, __ATOMIC_RELAXED);
	rnic_qp_list(qp);
	rnic_made(RNIC_OBJ_QP, qp);
	return b;
}

struct ibv_qp *rnic_target_create(struct ibv_context *c, struct ibv_qp_init_attr_ex *a)
{
	struct ipc_msg m = { .type = IPC_CREATE_QP, .len = IPC_MSG_LEN(create_qp) };

	if ((a->comp_mask & ~(uint32_t)IBV_QP_INIT_ATTR_XRCD) != 0) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (a->comp_mask == 0 || a->xrcd == NULL || a->xrcd->context != c) {
		errno = EINVAL;
		return NULL;
	}
	struct rnic_qp *qp = target_new(c, a->xrcd, a->qp_context);
	if (qp == NULL)
		return NULL;
	m.create_qp.xrc = IPC_XRC_TARGET;
	m.create_qp.xrcd = qp->xrcd->number;
	m.create_qp.cookie = (uintptr_t)qp;
	m.create_qp.async = rnic_ctx(c)->async.handle;
	return target_begin(qp, &m);
}

struct ibv_qp *rnic_open_qp(struct ibv_context *c, struct ibv_qp_open_attr *a)
{
	const uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	struct ipc_msg m = { .type = IPC_OPEN_QP, .len = IPC_MSG_LEN(open_qp) };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr now;

	if ((a->comp_mask & needed) != needed || a->xrcd == NULL || a->xrcd->context != c ||
	    a->qp_type != IBV_QPT_XRC_RECV) {
		errno = EINVAL;
		return NULL;
	}
	struct rnic_qp *qp = target_new(c, a->xrcd,
					(a->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0 ? a->qp_context : NULL);
	if (qp == NULL)
		return NULL;
	m.open_qp.xrcd = qp->xrcd->number;
	m.open_qp.qpn = a->qp_num;
	m.open_qp.cookie = (uintptr_t)qp;
	m.open_qp.async = rnic_ctx(c)->async.handle;
	struct ibv_qp *b = target_begin(qp, &m);
	if (b != NULL) /* sets b->state: another process may have brought the target up */
		(void)ibv_query_qp(b, &now, IBV_QP_STATE, &init);
	return b;
}
