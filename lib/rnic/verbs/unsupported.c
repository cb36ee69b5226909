/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Public functions that take one of our objects and that this device does not have. They must not fall through to the
 * stock libraries, which would read members that our objects do not have.
 */
#include "rnic/verbs/beside.h"
#include "rnic/verbs/objects.h"

static void *none(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

/* ---- addresses ---- */

int ibv_resolve_eth_l2_from_gid(struct ibv_context *c, struct ibv_ah_attr *attr, uint8_t mac[ETHERNET_LL_SIZE],
				uint16_t *vid)
{
	RNIC_BESIDE(ibv_resolve_eth_l2_from_gid, c, EINVAL, c, attr, mac, vid);
	return EOPNOTSUPP;
}

/* ---- memory of other devices ---- */

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	RNIC_BESIDE(ibv_reg_dmabuf_mr, pd->context, NULL, pd, offset, length, iova, fd, access);
	if (fd >= 0) /* with -1 a program only asks whether this is supported */
		rnic_unsupported("ibv_reg_dmabuf_mr",
				 "memory of other devices cannot be shared: copy it to the program's own");
	return none();
}

struct ibv_dm *ibv_import_dm(struct ibv_context *c, uint32_t handle)
{
	RNIC_BESIDE(ibv_import_dm, c, NULL, c, handle);
	return none();
}

void ibv_unimport_dm(struct ibv_dm *dm) { RNIC_BESIDE_VOID(ibv_unimport_dm, dm->context, dm); }

/* ---- enhanced connection establishment (ECE) of InfiniBand ---- */

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	RNIC_BESIDE(ibv_set_ece, qp->context, EINVAL, qp, ece);
	return EOPNOTSUPP;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	RNIC_BESIDE(ibv_query_ece, qp->context, EINVAL, qp, ece);
	return EOPNOTSUPP;
}

/* 1 would promise that the bytes of a message become visible in order. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	RNIC_BESIDE(ibv_query_qp_data_in_order, qp->context, 0, qp, op, flags);
	return 0;
}

/* ---- fork: fork.c always does what is needed, whether ibv_fork_init() is called or not ---- */

int ibv_fork_init(void) { return 0; }

enum ibv_fork_status ibv_is_fork_initialized(void) { return IBV_FORK_UNNEEDED; }

int ibv_dontfork_range(void *base, size_t size);
int ibv_dontfork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	return 0;
}

int ibv_dofork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	return 0;
}
