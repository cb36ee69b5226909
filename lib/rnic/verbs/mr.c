/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory regions. */
#include "rnic/verbs/beside.h"
#include "rnic/verbs/veil.h"
#include "rnic/verbs/watch.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define ACCESS_REMOTE_CHANGES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define ACCESS_WRITES         (IBV_ACCESS_LOCAL_WRITE | ACCESS_REMOTE_CHANGES)
/*
 * Access flags that the daemon need not know. IBV_ACCESS_HUGETLB: pages are mapped as they are. Optional flags may be
 * ignored. IBV_ACCESS_ZERO_BASED: iova_of() handles it.
 */
#define ACCESS_IGNORED (IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE | IBV_ACCESS_ZERO_BASED)
#define ACCESS_SENT    (IBV_ACCESS_LOCAL_WRITE | ACCESS_REMOTE_CHANGES | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND)

static int access_check(unsigned int access)
{
	if ((access & IBV_ACCESS_ON_DEMAND) != 0) {
		rnic_unsupported("ibv_reg_mr", "on-demand paging is not supported: "
					       "register without IBV_ACCESS_ON_DEMAND");
		return EOPNOTSUPP;
	}
	if ((access & ~(unsigned int)(ACCESS_SENT | ACCESS_IGNORED)) != 0)
		return EINVAL;
	if ((access & ACCESS_REMOTE_CHANGES) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0)
		return EINVAL;
	return 0;
}

static void mr_free(struct rnic_mr *mr)
{
	rnic_mem_unback(mr->s->mem, &mr->back);
	free(mr);
}

static int mr_back(struct rnic_mr *mr)
{
	return rnic_mem_back(mr->s->mem, (uintptr_t)mr->ibv.addr, mr->ibv.length, (mr->access & ACCESS_WRITES) != 0,
			     &mr->back);
}

static int mr_call(struct rnic_mr *mr, struct ipc_msg *m)
{
	int rc;

	m->type = IPC_REG_MR;
	m->len = IPC_MSG_LEN(reg_mr);
	m->reg_mr.pd = rnic_pd(mr->ibv.pd)->number;
	m->reg_mr.access = mr->access & ACCESS_SENT;
	rc = rnic_call(mr->s, m, IPC_MSG_LEN(reg_mr_ok), -1);
	if (rc != 0)
		return rc;
	mr->number = m->reg_mr_ok.handle;
	mr->ibv.handle = m->reg_mr_ok.stag >> 8;
	mr->ibv.lkey = mr->ibv.rkey = m->reg_mr_ok.stag;
	return 0;
}

/*
 * Registers the region with the daemon; old: the region that it replaces, or 0. The piece list lies in the queue region
 * during the call.
 */
static int mr_tell(struct rnic_mr *mr, uint32_t old)
{
	struct rnic_session *s = mr->s;
	uint64_t size = mr->back.n * sizeof(struct ipc_piece);
	uint64_t off = rnic_shm_alloc(s->shm, size);
	struct ipc_msg m = { .reg_mr = { .iova = mr->iova,
					 .len = mr->ibv.length,
					 .pieces_off = off,
					 .npieces = mr->back.n,
					 .mr = old } };
	int rc;

	if (off == 0)
		return ENOMEM;
	memcpy(s->queues + off, mr->back.piece, size);
	rc = mr_call(mr, &m);
	rnic_shm_free(s->shm, off, size);
	return rc;
}

static struct ibv_mr *reg_instead(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access,
				  uint32_t old)
{
	struct rnic_mr *mr;
	int rc = access_check(access);

	if (rc == 0 && (length == 0 || (uintptr_t)addr + length < (uintptr_t)addr || iova + length < iova))
		rc = EINVAL;
	if (rc == 0 && rnic_dead(rnic_pd(pd)->s))
		rc = EIO;
	if (rc != 0) {
		errno = rc;
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	if (mr == NULL)
		return NULL;
	mr->s = rnic_pd(pd)->s;
	mr->access = access;
	mr->iova = iova;
	mr->ibv = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = addr, .length = length };
	/* A veil goes first: pages are moved with their access rights, which must be the program's. */
	rnic_veil_take_range((uintptr_t)addr, length);
	rc = mr_back(mr);
	if (rc == 0) {
		rc = mr_tell(mr, old);
		if (rc == 0) {
			rnic_pd_use(pd);
			rnic_watch_mr(mr);
			return &mr->ibv;
		}
		mr_free(mr);
	} else {
		free(mr);
	}
	errno = rc;
	return NULL;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	const int injected = rnic_inject(INJECT_REG_MR);

	if (injected != 0) {
		errno = injected;
		return NULL;
	}
	struct ibv_mr *mr = reg_instead(pd, addr, length, iova, access, 0);

	rnic_made(RNIC_OBJ_MR, mr);
	return mr;
}

static uint64_t iova_of(const void *addr, unsigned int access)
{
	return (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : (uintptr_t)addr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	RNIC_BESIDE(ibv_reg_mr, pd->context, NULL, pd, addr, length, access);
	return reg_mr(pd, addr, length, iova_of(addr, (unsigned int)access), (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	RNIC_BESIDE(ibv_reg_mr_iova, pd->context, NULL, pd, addr, length, iova, access);
	return reg_mr(pd, addr, length, iova, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	RNIC_BESIDE(ibv_reg_mr_iova2, pd->context, NULL, pd, addr, length, iova, access);
	return reg_mr(pd, addr, length, iova, access);
}

int ibv_dereg_mr(struct ibv_mr *ibmr)
{
	RNIC_BESIDE(ibv_dereg_mr, ibmr->context, EINVAL, ibmr);
	struct rnic_mr *mr = rnic_mr(ibmr);

	if (mr->imported) { /* the region's own process deregisters it */
		rnic_pd_leave(ibmr->pd);
		free(mr);
		return 0;
	}
	rnic_watch_mr_gone(mr, "ibv_dereg_mr");
	int rc = rnic_call_handle(mr->s, IPC_DEREG_MR, mr->number);

	if (rc != 0 && !rnic_dead(mr->s)) {
		rnic_watch_mr(mr);
		return rc;
	}
	rnic_gone(RNIC_OBJ_MR, mr);
	rnic_pd_leave(ibmr->pd);
	mr_free(mr);
	return 0;
}

/* A null region: every address lies in it; reads give zeros, and received bytes are discarded. */
struct ibv_mr *rnic_alloc_null_mr(struct ibv_pd *pd)
{
	struct rnic_mr *mr = calloc(1, sizeof(*mr));
	struct ipc_msg m = { 0 };
	int rc;

	if (mr == NULL)
		return NULL;
	mr->s = rnic_pd(pd)->s;
	mr->access = IBV_ACCESS_LOCAL_WRITE;
	mr->ibv = (struct ibv_mr){ .context = pd->context, .pd = pd };
	rc = mr_call(mr, &m);
	if (rc == 0) {
		rnic_pd_use(pd);
		return &mr->ibv;
	}
	free(mr);
	errno = rc;
	return NULL;
}

static int rereg_input(struct ibv_mr *mr, int flags, const struct ibv_pd *pd, const void *addr, size_t length,
		       int access)
{
	if (mr->length == 0 || rnic_mr(mr)->imported) /* length 0: a null region */
		return EINVAL;
	if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0)
		return EINVAL;
	if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0 && (addr == NULL || length == 0))
		return EINVAL;
	if ((flags & IBV_REREG_MR_CHANGE_PD) != 0 && (pd == NULL || pd->context != mr->context))
		return EINVAL;
	if ((flags & IBV_REREG_MR_CHANGE_ACCESS) == 0)
		return access != 0 ? EINVAL : 0;
	return access_check((unsigned int)access);
}

/* The program keeps its pointer to `mr`: the structure of the old region takes over the contents of the new one. */
static void mr_replace(struct rnic_mr *mr, struct rnic_mr *by)
{
	rnic_watch_mr_gone(by, NULL);
	rnic_watch_mr_gone(mr, "ibv_rereg_mr");
	rnic_mem_back_swap(mr->s->mem, &mr->back, &by->back);
	rnic_pd_leave(mr->ibv.pd);
	mr->ibv = by->ibv;
	mr->number = by->number;
	mr->access = by->access;
	mr->iova = by->iova;
	free(by);
	rnic_watch_mr(mr);
}

/* Replaces a region by a new one with the same keys; on failure the old region is unchanged. */
int ibv_rereg_mr(struct ibv_mr *ibmr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct rnic_mr *mr = rnic_mr(ibmr);
	struct ibv_mr *by;
	uint64_t iova;
	int rc;

	RNIC_BESIDE(ibv_rereg_mr, ibmr->context, IBV_REREG_MR_ERR_INPUT, ibmr, flags, pd, addr, length, access);
	rc = rereg_input(ibmr, flags, pd, addr, length, access);
	if (rc != 0) {
		errno = rc;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if ((flags & IBV_REREG_MR_CHANGE_PD) == 0)
		pd = ibmr->pd;
	if ((flags & IBV_REREG_MR_CHANGE_ACCESS) == 0)
		access = (int)mr->access;
	iova = iova_of(addr, (unsigned int)access);
	if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) == 0) {
		addr = ibmr->addr;
		length = ibmr->length;
		iova = mr->iova;
	}
	by = reg_instead(pd, addr, length, iova, (unsigned int)access, mr->number);
	if (by == NULL)
		return IBV_REREG_MR_ERR_CMD;
	mr_replace(mr, rnic_mr(by));
	return 0;
}
