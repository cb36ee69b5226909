/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of libc that librnic intercepts because of registered memory. They are exported without a version, so that
 * they replace libc's of any version. Until the first verbs call, and for memory that is not registered, each just
 * calls libc's.
 */
#include <signal.h>
#include <stdarg.h>
#include <ucontext.h>

#include "rnic/mem/arena.h"
#include "rnic/map.h"

#define FORK_STACK (UINT64_C(256) << 10)

/* ---- memory ---- */

int madvise(void *addr, size_t len, int advice)
{
	const struct rnic_mem *m = advice == MADV_DONTNEED || advice == MADV_FREE ? rnic_mem_last() : NULL;

	if (m == NULL || (uintptr_t)addr + len < (uintptr_t)addr)
		return rnic_advise(addr, len, advice);
	return rnic_mem_discard(m, (uintptr_t)addr, (len + RNIC_PAGE - 1) & ~(RNIC_PAGE - 1), advice);
}

void *mremap(void *old, size_t old_len, size_t new_len, int flags, ...)
{
	const struct rnic_mem *m = new_len >= old_len ? rnic_mem_last() : NULL;
	void *addr = NULL;
	va_list ap;

	if ((flags & MREMAP_FIXED) != 0) {
		va_start(ap, flags);
		addr = va_arg(ap, void *);
		va_end(ap);
	}
	void *to = addr;
	if (m != NULL && rnic_mem_resize(m, (uintptr_t)old, old_len, new_len, flags, &to))
		return to;
	return (void *)syscall(SYS_mremap, old, old_len, new_len, flags, addr);
}

/* ---- signals: the write guard's handler runs before the program's ---- */

int sigaction(int signo, const struct sigaction *act, struct sigaction *old)
{
	if (signo == SIGSEGV && rnic_guard_sigaction(act, old))
		return 0;
	return rnic_libc_sigaction(signo, act, old);
}

sighandler_t signal(int signo, sighandler_t handler)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_RESTART }, old;

	sigemptyset(&sa.sa_mask);
	if (signo == SIGSEGV && rnic_guard_sigaction(&sa, &old))
		return old.sa_handler;
	return ((__typeof__(&signal))rnic_stock("signal"))(signo, handler);
}

/* ---- fork: on a separate stack, since the thread's own may be shared until the child has its copies ---- */

__thread bool rnic_fork_aside;

struct aside {
	ucontext_t back, there;
	pid_t (*fork)(void);
	pid_t pid;
	int err;
};

static void fork_aside(unsigned hi, unsigned lo)
{
	struct aside *a = (struct aside *)((uintptr_t)hi << 32 | lo);

	rnic_fork_aside = true;
	a->pid = a->fork();
	a->err = errno;
	rnic_fork_aside = false;
}

pid_t fork(void)
{
	__typeof__(&fork) libc = (__typeof__(&fork))rnic_stock("fork");
	struct aside *a = rnic_mem_last() == NULL ? MAP_FAILED
						  : rnic_map(NULL, FORK_STACK, PROT_READ | PROT_WRITE,
							     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t p = (uintptr_t)a;

	if (a == MAP_FAILED)
		return libc();
	getcontext(&a->there);
	a->fork = libc;
	a->there.uc_link = &a->back;
	a->there.uc_stack.ss_sp = a + 1;
	a->there.uc_stack.ss_size = FORK_STACK - sizeof(*a);
	makecontext(&a->there, (void (*)(void))fork_aside, 2, (unsigned)(p >> 32), (unsigned)p);
	swapcontext(&a->back, &a->there);
	pid_t pid = a->pid;
	errno = a->err;
	rnic_unmap(a, FORK_STACK);
	return pid;
}
