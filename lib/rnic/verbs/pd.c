/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protection domains; parent domains, which stand for the PD that they are made from; thread domains, which have no
 * effect because locks are cheap.
 */
#include "rnic/verbs/beside.h"
#include "rnic/verbs/objects.h"

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	RNIC_BESIDE(ibv_alloc_pd, c, NULL, c);
	struct rnic_ctx *ctx = rnic_ctx(c);
	struct ipc_msg m = { .type = IPC_ALLOC_PD, .len = IPC_MSG_LEN(alloc_pd), .alloc_pd = { .dev = ctx->index } };
	struct rnic_pd *pd = calloc(1, sizeof(*pd));
	int rc;

	if (pd == NULL)
		return NULL;
	rc = rnic_inject(INJECT_ALLOC_PD);
	if (rc == 0)
		rc = rnic_call(ctx->s, &m, IPC_MSG_LEN(handle), -1);
	if (rc != 0) {
		free(pd);
		errno = rc;
		return NULL;
	}
	pd->s = ctx->s;
	pd->ibv.context = c;
	pd->ibv.handle = pd->number = m.handle.handle;
	rnic_made(RNIC_OBJ_PD, pd);
	return &pd->ibv;
}

int ibv_dealloc_pd(struct ibv_pd *ibpd)
{
	RNIC_BESIDE(ibv_dealloc_pd, ibpd->context, EINVAL, ibpd);
	struct rnic_pd *pd = rnic_pd(ibpd);
	int rc = 0;

	if (__atomic_load_n(&pd->refs, __ATOMIC_ACQUIRE) != 0)
		return EBUSY;
	if (pd->parent != NULL)
		__atomic_fetch_sub(&pd->parent->refs, 1, __ATOMIC_RELEASE);
	else
		rc = rnic_call_handle(pd->s, IPC_DEALLOC_PD, pd->number);
	if (rc != 0 && !rnic_dead(pd->s))
		return rc;
	rnic_gone(RNIC_OBJ_PD, pd);
	free(pd);
	return 0;
}

struct ibv_pd *rnic_alloc_parent_domain(struct ibv_context *c, struct ibv_parent_domain_init_attr *a)
{
	struct rnic_pd *pd;

	if (a->pd == NULL || a->pd->context != c ||
	    (a->comp_mask &
	     ~(uint32_t)(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT))) {
		errno = a->pd == NULL || a->pd->context != c ? EINVAL : EOPNOTSUPP;
		return NULL;
	}
	pd = calloc(1, sizeof(*pd));
	if (pd == NULL)
		return NULL;
	pd->s = rnic_pd(a->pd)->s;
	pd->number = rnic_pd(a->pd)->number;
	pd->parent = rnic_pd(a->pd)->parent != NULL ? rnic_pd(a->pd)->parent : rnic_pd(a->pd);
	__atomic_fetch_add(&pd->parent->refs, 1, __ATOMIC_RELAXED);
	pd->ibv = (struct ibv_pd){ .context = c, .handle = a->pd->handle };
	return &pd->ibv;
}

struct ibv_td *rnic_alloc_td(struct ibv_context *c, struct ibv_td_init_attr *a)
{
	struct ibv_td *td;

	if (a->comp_mask != 0) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (td != NULL)
		td->context = c;
	return td;
}

int rnic_dealloc_td(struct ibv_td *td)
{
	free(td);
	return 0;
}
