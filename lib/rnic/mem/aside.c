/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs work on a stack of its own, for work on memory that may hold the caller's stack; and a copy that calls no
 * function.
 */
#include "rnic/mem/arena.h"

#include <sched.h>
#include <sys/wait.h>

#include "rnic/map.h"

#define ASIDE_STACK (UINT64_C(256) << 10)

__attribute__((no_sanitize("address", "thread"))) void rnic_copy_pages(void *to, const void *from, uint64_t len)
{
	const volatile uint64_t *src = from;
	uint64_t *dst = to;

	for (uint64_t i = 0; i < len / sizeof(*dst); i++)
		dst[i] = src[i];
}

/* As with vfork(), the caller sleeps in the kernel until this is done, even though others share the address space. */
int rnic_run_aside(int (*fn)(void *arg), void *arg)
{
	uint8_t *stack = rnic_map(NULL, ASIDE_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigset_t all, old;
	pid_t pid;
	int st, rc = 0;

	if (stack == MAP_FAILED)
		return errno;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = clone(fn, stack + ASIDE_STACK, CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_FS | CLONE_SIGHAND, arg);
	if (pid < 0)
		rc = errno;
	else
		while (waitpid(pid, &st, (int)__WCLONE) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	rnic_unmap(stack, ASIDE_STACK);
	return rc;
}
