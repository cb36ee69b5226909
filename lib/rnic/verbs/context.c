/* SPDX-License-Identifier: BSD-3-Clause */
/* Opened devices: what stands behind an application's ibv_context. */
#include "rnic/verbs/beside.h"
#include "rnic/verbs/fail.h"

#include <unistd.h>

/*
 * Slots of ibv_context_ops that were function pointers twenty years ago. Today's headers never call them; a program
 * that does is stopped here.
 */
static void *gone(void) { abort(); }

static void ops_set(struct verbs_context *v)
{
	struct ibv_context_ops *o = &v->context.ops;

	o->_compat_query_device = (int (*)(struct ibv_context *, struct ibv_device_attr *))(void (*)(void))gone;
	o->_compat_query_port =
		(int (*)(struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *))(void (*)(void))gone;
	o->_compat_alloc_pd = o->_compat_dealloc_pd = o->_compat_reg_mr = o->_compat_rereg_mr = gone;
	o->_compat_dereg_mr = o->_compat_create_cq = o->_compat_cq_event = o->_compat_resize_cq = gone;
	o->_compat_destroy_cq = o->_compat_create_srq = o->_compat_modify_srq = o->_compat_query_srq = gone;
	o->_compat_destroy_srq = o->_compat_create_qp = o->_compat_query_qp = o->_compat_modify_qp = gone;
	o->_compat_destroy_qp = o->_compat_create_ah = o->_compat_destroy_ah = o->_compat_attach_mcast = gone;
	o->_compat_detach_mcast = o->_compat_async_event = gone;
	o->alloc_mw = rnic_alloc_mw;
	o->bind_mw = rnic_bind_mw;
	o->dealloc_mw = rnic_dealloc_mw;
	o->poll_cq = rnic_poll_cq;
	o->req_notify_cq = rnic_req_notify_cq;
	o->post_srq_recv = rnic_injecting ? rnic_fail_post_srq_recv : rnic_post_srq_recv;
	o->post_send = rnic_injecting ? rnic_fail_post_send : rnic_post_send;
	o->post_recv = rnic_injecting ? rnic_fail_post_recv : rnic_post_recv;

	/* For extended operations left NULL, the header's inline functions return EOPNOTSUPP. */
	v->sz = sizeof(*v);
	v->query_port = rnic_query_port;
	v->query_device_ex = rnic_query_device_ex;
	v->query_rt_values = rnic_query_rt_values;
	v->create_cq_ex = rnic_create_cq_ex;
	v->create_qp_ex = rnic_create_qp_ex;
	v->create_srq_ex = rnic_create_srq_ex;
	v->open_xrcd = rnic_open_xrcd;
	v->close_xrcd = rnic_close_xrcd;
	v->get_srq_num = rnic_get_srq_num;
	v->open_qp = rnic_open_qp;
	v->alloc_null_mr = rnic_alloc_null_mr;
	v->alloc_parent_domain = rnic_alloc_parent_domain;
	v->alloc_td = rnic_alloc_td;
	v->dealloc_td = rnic_dealloc_td;
}

struct ibv_context *rnic_open(struct rnic_session *s, struct rnic_dev *dev, int token)
{
	struct rnic_ctx *ctx = calloc(1, sizeof(*ctx));
	int rc;

	if (ctx == NULL)
		return NULL;
	ctx->s = s;
	ctx->dev = dev;
	ctx->index = dev->index;
	ctx->info = dev->info;
	ops_set(&ctx->vctx);
	if (ctx->info.efa)
		ctx->ahns = rnic_ahns_new();
	rc = ctx->info.efa && ctx->ahns == NULL ? ENOMEM : rnic_evq_open(&ctx->async, s, IPC_CHANNEL_ASYNC, ctx->index);
	if (rc != 0) {
		rnic_ahns_free(ctx->ahns);
		free(ctx);
		errno = rc;
		return NULL;
	}
	ctx->vctx.context.device = &dev->ibv;
	ctx->vctx.context.cmd_fd = token >= 0 ? token : rnic_token_make(s, ctx->async.handle);
	ctx->vctx.context.async_fd = ctx->async.fd;
	ctx->vctx.context.num_comp_vectors = 1;
	pthread_mutex_init(&ctx->vctx.context.mutex, NULL);
	ctx->vctx.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	return &ctx->vctx.context;
}

/*
 * The session's device for one that the program may have listed in an earlier session: the one of the same name, since
 * a daemon that was started again may number its ports otherwise. NULL with errno: there is none.
 */
static struct rnic_dev *dev_now(struct rnic_session *s, const struct ibv_device *ibdev)
{
	struct rnic_dev *dev = NULL;
	uint32_t n = 0;
	struct rnic_dev **all = rnic_devices(s, &n);

	for (uint32_t i = 0; all != NULL && i < n && dev == NULL; i++)
		if (strcmp(all[i]->ibv.name, ibdev->name) == 0)
			dev = all[i];
	if (dev == NULL && all != NULL)
		errno = ENODEV;
	free(all);
	return dev;
}

struct ibv_context *ibv_open_device(struct ibv_device *ibdev)
{
	RNIC_PASS(ibv_open_device, rnic_our_dev(ibdev), NULL, ibdev);
	const int injected = rnic_inject(INJECT_OPEN_DEVICE);

	if (injected != 0) {
		errno = injected;
		return NULL;
	}
	struct rnic_session *s = rnic_session_get();
	struct rnic_dev *dev = s != NULL ? dev_now(s, ibdev) : NULL;
	struct ibv_context *c = dev != NULL ? rnic_open(s, dev, -1) : NULL;

	rnic_made(RNIC_OBJ_CONTEXT, c);
	return c;
}

int ibv_close_device(struct ibv_context *c)
{
	RNIC_BESIDE(ibv_close_device, c, EINVAL, c);
	struct rnic_ctx *ctx = rnic_ctx(c);
	int rc = rnic_evq_close(&ctx->async);

	if (rc == 0 || rc == EBUSY)
		rnic_gone(RNIC_OBJ_CONTEXT, c);
	if ((rc == 0 || rc == EBUSY) && c->cmd_fd >= 0) {
		close(c->cmd_fd);
		c->cmd_fd = -1;
	}
	if (rc == EBUSY)
		return 0; /* objects of the context that are left live until the process ends, as with other devices */
	if (rc != 0)
		return rc;
	pthread_mutex_destroy(&c->mutex);
	rnic_ahns_free(ctx->ahns);
	free(ctx);
	return 0;
}
