/* SPDX-License-Identifier: BSD-3-Clause */
#include "rnic/verbs/veil.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/rn_seq.h"
#include "rnic/sanitize.h"
#include "wqe/qp_hold.h"

#define VEILS       512u /* veils at a time; further buffers get no veil, and early uses of them are not found */
#define PAGE        UINT64_C(4096)
#define STRAYS_MOST 1000u /* faults at addresses without a veil after which such a fault is the program's own */
#define LATE_MOST   64u   /* faults by other threads that may still come after a veil was taken off */

struct veil {
	struct rnic_veil v;
	uint64_t page, end; /* addresses of the protected pages: [page, end) */
	bool up;            /* the pages are protected */
	uint32_t late;      /* faults that may still come in these pages, of LATE_MOST */
};

static struct rnic_spin veil_lock; /* guards all below */
static struct veil veils[VEILS];
static uint32_t nveils; /* entries that have been used */
static uint32_t nup;    /* atomic: veils that are up */
static uint32_t strays; /* faults at addresses without a veil */

static void protect(const struct veil *v, int prot)
{
	const int err = errno;

	mprotect((void *)(uintptr_t)v->page, v->end - v->page, prot); /* fails for memory that has been unmapped */
	errno = err;
}

static void take_off(struct veil *v)
{
	v->up = false;
	v->late = LATE_MOST;
	__atomic_fetch_sub(&nup, 1, __ATOMIC_RELAXED);
	protect(v, PROT_READ | PROT_WRITE);
}

/* ---- the program touches veiled memory ---- */

/* Whether the queue pair is in ERR or RESET, or rnicd is gone: then the program may use the buffers of all receives. */
static bool is_over(const struct rnic_qp *qp)
{
	const uint32_t state = __atomic_load_n(&qp->shm->state, __ATOMIC_ACQUIRE);

	return state == IBV_QPS_ERR || state == IBV_QPS_RESET || rnic_dead(qp->s);
}

static bool is_finding(const struct veil *v, uint64_t addr)
{
	const struct rnic_veil *r = &v->v;

	if (addr < r->from || addr >= r->to || (r->qp != NULL && is_over(r->qp)))
		return false;
	return !r->write || rn_seq_ge(r->number, __atomic_load_n(&r->qp->hold->allowed, __ATOMIC_RELAXED));
}

static void early_tell(const struct rnic_veil *v, uint64_t addr)
{
	if (v->write)
		rnic_finding(
			RNIC_FIND_EARLY,
			"the program: queue pair %u: the byte at 0x%llx is used, and a peer has written it: nothing "
			"says yet that the Write is whole. Poll the completion of a receive that the peer's Send or "
			"immediate data behind its Write takes",
			v->qp->ex.qp_base.qp_num, (unsigned long long)addr);
	else if (v->qp != NULL)
		rnic_finding(
			RNIC_FIND_EARLY,
			"the program: queue pair %u: the byte at 0x%llx is used, and it is in the buffer of receive "
			"0x%llx, of which no completion has been polled: the device may write there",
			v->qp->ex.qp_base.qp_num, (unsigned long long)addr, (unsigned long long)v->wr_id);
	else
		rnic_finding(RNIC_FIND_EARLY,
			     "the program: the byte at 0x%llx is used, and it is in the buffer of receive 0x%llx of a "
			     "shared receive queue, of which no completion has been polled: the device may write there",
			     (unsigned long long)addr, (unsigned long long)v->wr_id);
}

static bool is_readable(uintptr_t addr)
{
	uint8_t byte;
	const struct iovec to = { .iov_base = &byte, .iov_len = 1 };
	const struct iovec from = { .iov_base = (void *)addr, .iov_len = 1 };

	return nveils > 0 && process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
}

/* SIGSEGV at addr. True: the page is accessible now, and the program may repeat its access. */
static bool touched(uintptr_t addr)
{
	struct rnic_veil found = { .from = 0 };
	bool ours = false;

	rnic_spin_lock(&veil_lock);
	for (uint32_t i = 0; i < nveils; i++) {
		struct veil *v = &veils[i];
		if (addr < v->page || addr >= v->end || (!v->up && v->late == 0))
			continue;
		ours = true;
		if (!v->up) {
			v->late--;
			continue;
		}
		if (found.from == 0 && is_finding(v, addr))
			found = v->v;
		take_off(v);
	}
	if (found.from != 0)
		early_tell(&found, addr);
	if (!ours && strays < STRAYS_MOST && is_readable(addr)) {
		strays++; /* the veil was taken off, and its entry in veils[] has been used again */
		ours = true;
	}
	rnic_spin_unlock(&veil_lock);
	return ours;
}

/* ---- putting up, taking off ---- */

/* Before fork(): takes all veils off, since the child inherits the page rights but not the veils. */
static void veils_off(void)
{
	rnic_spin_lock(&veil_lock);
	for (uint32_t i = 0; i < nveils; i++)
		if (veils[i].up)
			take_off(&veils[i]);
}

static void veils_free(void) { rnic_spin_unlock(&veil_lock); }

static void veil_hooks(void)
{
	pthread_atfork(veils_off, veils_free, veils_free);
	rnic_mem_on_fault(touched);
}

void rnic_veil_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, veil_hooks);
}

/* Finds an entry that can be used; entries whose pages may still have faults (`late`) are used last. NULL: none. */
static struct veil *free_veil(void)
{
	struct veil *old = NULL;

	for (uint32_t i = 0; i < nveils; i++)
		if (!veils[i].up && (old == NULL || veils[i].late < old->late))
			old = &veils[i];
	if (nveils < VEILS && (old == NULL || old->late > 0))
		return &veils[nveils++];
	return old;
}

void rnic_veil_put(const struct rnic_veil *r)
{
	uint64_t page = r->from & ~(PAGE - 1), end = (r->to + PAGE - 1) & ~(PAGE - 1);

	if (page < r->least)
		page += PAGE;
	if (end > r->most)
		end -= PAGE;
	if (page >= end || page < r->least || end > r->most)
		return;
	rnic_spin_lock(&veil_lock);
	struct veil *v = free_veil();
	if (v != NULL) {
		*v = (struct veil){ .v = *r, .page = page, .end = end, .up = true };
		__atomic_fetch_add(&nup, 1, __ATOMIC_RELAXED);
		protect(v, PROT_NONE);
	}
	rnic_spin_unlock(&veil_lock);
}

static bool is_none_up(void) { return rn_likely(__atomic_load_n(&nup, __ATOMIC_RELAXED) == 0); }

void rnic_veil_take(const void *queue, uint32_t number)
{
	if (is_none_up())
		return;
	rnic_spin_lock(&veil_lock);
	for (uint32_t i = 0; i < nveils; i++)
		if (veils[i].up && veils[i].v.queue == queue && veils[i].v.number == number)
			take_off(&veils[i]);
	rnic_spin_unlock(&veil_lock);
}

void rnic_veil_take_all(const void *queue)
{
	if (is_none_up())
		return;
	rnic_spin_lock(&veil_lock);
	for (uint32_t i = 0; i < nveils; i++)
		if (veils[i].up && veils[i].v.queue == queue)
			take_off(&veils[i]);
	rnic_spin_unlock(&veil_lock);
}

void rnic_veil_take_range(uint64_t from, uint64_t len)
{
	if (is_none_up())
		return;
	rnic_spin_lock(&veil_lock);
	for (uint32_t i = 0; i < nveils; i++)
		if (veils[i].up && veils[i].page < from + len && from < veils[i].end)
			take_off(&veils[i]);
	rnic_spin_unlock(&veil_lock);
}
