/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread's descriptor lies at the top of its stack, on one page with what its first functions keep there. A thread
 * that joins it sleeps on a word of the descriptor, a futex. The kernel knows a futex by its address while the page is
 * private, and by its file when the page is shared, so the wake-up at the thread's end would miss threads that slept
 * before the page was moved. So the page becomes private again before that.
 */
#include "rnic/mem/arena.h"
#include "rnic/map.h"

#define DESCRIPTOR (UINT64_C(4) << 10) /* bytes: glibc's is smaller */

static pthread_key_t at_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int page_back(void *arg)
{
	void *page = arg;
	void *copy = rnic_map(NULL, RNIC_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		return 0;
	rnic_copy_pages(copy, page, RNIC_PAGE);
	if (syscall(SYS_mremap, copy, RNIC_PAGE, RNIC_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page) == -1)
		rnic_unmap(copy, RNIC_PAGE);
	return 0;
}

void rnic_stack_back(const struct rnic_mem *m, uintptr_t lo, uintptr_t hi, bool any)
{
	struct rnic_vma v;

	for (uintptr_t at = lo & ~(uintptr_t)(RNIC_PAGE - 1); at < hi; at += RNIC_PAGE) {
		if (rnic_vma_at(&m->proc, at, &v) != 0 || v.start > at)
			continue;
		bool ours = rnic_file_is(&m->file[IPC_REGION_ARENA], &v);
		if (rnic_file_retired(&v) ||
		    (ours && (any || !rnic_in_region(m, IPC_REGION_ARENA, v.off + (at - v.start), RNIC_PAGE))))
			rnic_run_aside(page_back, (void *)at);
	}
}

/* Runs in the thread, near its end: memory regions on its stack have no meaning any more. */
static void thread_ends(void *unused)
{
	uintptr_t self = (uintptr_t)pthread_self();

	(void)unused;
	rnic_stack_back(rnic_mem_last(), self, self + DESCRIPTOR, true);
}

static void key_make(void) { pthread_key_create(&at_end, thread_ends); }

void rnic_stack_moved(void)
{
	pthread_once(&once, key_make);
	pthread_setspecific(at_end, &at_end);
}
