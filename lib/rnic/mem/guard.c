/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The write guard. Preferred is userfaultfd: other threads that touch the range sleep in the kernel until it has been
 * replaced. Where userfaultfd is not available (files, hugetlb, containers that forbid it) the range is made read-only
 * and a SIGSEGV handler waits. That would kill a thread whose own stack is in the range, so the handler is not used for
 * stacks.
 */
#include "rnic/mem/arena.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LATE_MAX 64 /* faults that may still be reported after the end of a guard */

static struct {
	uintptr_t start, end; /* the range guarded most recently */
	uint32_t active;      /* futex: 1 while it is guarded */
	uint32_t late;        /* faults in the range that may be retried after the guard's end */
	struct sigaction old; /* the program's handler, which is called after the guard's */
} sig;

static bool (*fault_hook)(uintptr_t addr);

void rnic_mem_on_fault(bool (*hook)(uintptr_t addr))
{
	if (rnic_guard_install() == 0)
		fault_hook = hook;
}

int rnic_guard_open(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* ---- by signal ---- */

static bool guarded(uintptr_t addr)
{
	if (addr < sig.start || addr >= sig.end)
		return false;
	if (__atomic_load_n(&sig.active, __ATOMIC_ACQUIRE) != 0) {
		do {
			syscall(SYS_futex, &sig.active, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
		} while (__atomic_load_n(&sig.active, __ATOMIC_ACQUIRE) != 0);
		return true;
	}
	/*
	 * A fault from before the guard's end may be reported after it, so it is retried; an invalid access faults
	 * again and again.
	 */
	return __atomic_fetch_sub(&sig.late, 1, __ATOMIC_RELAXED) - 1 < LATE_MAX;
}

int rnic_libc_sigaction(int signo, const struct sigaction *act, struct sigaction *old)
{
	static __typeof__(&sigaction) libc;

	if (libc == NULL)
		libc = (__typeof__(&sigaction))rnic_stock("sigaction");
	return libc(signo, act, old);
}

static void on_fault(int signo, siginfo_t *info, void *ctx)
{
	int err = errno;

	if (guarded((uintptr_t)info->si_addr) || rnic_mem_fork_fault((uintptr_t)info->si_addr) ||
	    (fault_hook != NULL && fault_hook((uintptr_t)info->si_addr))) {
		errno = err;
		return;
	}
	if ((sig.old.sa_flags & SA_NODEFER) == 0)
		sigaddset(&sig.old.sa_mask, signo);
	pthread_sigmask(SIG_BLOCK, &sig.old.sa_mask, NULL); /* until the handler returns */
	if ((sig.old.sa_flags & SA_SIGINFO) != 0) {
		sig.old.sa_sigaction(signo, info, ctx);
	} else if (sig.old.sa_handler == SIG_DFL || sig.old.sa_handler == SIG_IGN) {
		/* The access is repeated and ends as without the guard's handler. */
		rnic_libc_sigaction(signo, &sig.old, NULL);
	} else {
		sig.old.sa_handler(signo);
	}
	errno = err;
}

int rnic_guard_install(void)
{
	struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
	struct sigaction now;

	if (rnic_libc_sigaction(SIGSEGV, NULL, &now) != 0)
		return errno;
	if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_fault)
		return 0;
	sig.old = now;
	sigemptyset(&sa.sa_mask);
	return rnic_libc_sigaction(SIGSEGV, &sa, NULL) == 0 ? 0 : errno;
}

bool rnic_guard_sigaction(const struct sigaction *act, struct sigaction *old)
{
	struct sigaction now, before = sig.old;

	if (rnic_libc_sigaction(SIGSEGV, NULL, &now) != 0 || (now.sa_flags & SA_SIGINFO) == 0 ||
	    now.sa_sigaction != on_fault)
		return false;
	if (act != NULL)
		sig.old = *act;
	if (old != NULL)
		*old = before;
	return true;
}

static int sig_begin(struct rnic_guard *g)
{
	int rc = rnic_guard_install();

	if (rc != 0)
		return rc;
	sig.start = g->start;
	sig.end = g->start + g->len;
	__atomic_store_n(&sig.late, LATE_MAX, __ATOMIC_RELAXED);
	__atomic_store_n(&sig.active, 1, __ATOMIC_RELEASE);
	if (mprotect((void *)g->start, g->len, g->prot & ~PROT_WRITE) == 0)
		return 0;
	rc = errno;
	rnic_guard_end(g, true);
	return rc;
}

/* ---- by userfaultfd ---- */

static int uffd_begin(struct rnic_guard *g)
{
	struct uffdio_register reg = { .range = { .start = g->start, .len = g->len },
				       .mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP };
	struct uffdio_writeprotect wp = { .range = reg.range, .mode = UFFDIO_WRITEPROTECT_MODE_WP };

	if (ioctl(g->uffd, UFFDIO_REGISTER, &reg) != 0)
		return errno;
	if (ioctl(g->uffd, UFFDIO_WRITEPROTECT, &wp) != 0) {
		int rc = errno;
		ioctl(g->uffd, UFFDIO_UNREGISTER, &reg.range);
		return rc;
	}
	return 0;
}

static void uffd_end(const struct rnic_guard *g, bool moved)
{
	struct uffdio_range range = { .start = g->start, .len = g->len };

	/* The new mapping is not registered: threads that slept on the old one retry their access on the new one. */
	if (moved)
		ioctl(g->uffd, UFFDIO_WAKE, &range);
	else
		ioctl(g->uffd, UFFDIO_UNREGISTER, &range);
}

/* ---- both ways ---- */

int rnic_guard_begin(struct rnic_guard *g, const struct rnic_mem *m, const struct rnic_vma *v, uintptr_t start,
		     uint64_t len)
{
	*g = (struct rnic_guard){ .start = start, .len = len, .uffd = m->uffd, .prot = v->prot };
	if (g->uffd >= 0 && v->ino == 0 && !v->hugetlb && !v->shared && uffd_begin(g) == 0)
		return 0;
	g->uffd = -1;
	return sig_begin(g);
}

void rnic_guard_end(struct rnic_guard *g, bool moved)
{
	if (g->uffd >= 0) {
		uffd_end(g, moved);
		return;
	}
	if (!moved)
		mprotect((void *)g->start, g->len, g->prot);
	__atomic_store_n(&sig.active, 0, __ATOMIC_RELEASE);
	syscall(SYS_futex, &sig.active, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT32_MAX, NULL, NULL, 0);
}
