/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/sigbus.h"

#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>

#include "base/rn_base.h"
#include "control/loop.h"

/*
 * pages of a region that are replaced one by one: each may split a mapping into three, and the kernel limits the number
 * of mappings
 */
#define PAGES_MAX 4u

/* Written by the control thread; read in the handler by any thread. size is set last and cleared first, so an entry
 * with a size is complete. */
static struct {
	uintptr_t base;
	uint64_t size;  /* atomic; 0: free */
	uint32_t hit;   /* atomic; 1: a page was replaced since the last look */
	uint32_t pages; /* atomic: number of pages replaced */
} watch[SIGBUS_WATCHES];
static uint32_t any; /* atomic; 1: a page of any region was replaced */

/* Maps anonymous pages there, which read as zeros. */
static bool zeros(uintptr_t at, uint64_t len)
{
	const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;

	return mmap((void *)at, len, PROT_READ | PROT_WRITE, how, -1, 0) != MAP_FAILED;
}

/* Replaces the page around `at`. It tries 4 KiB, 2 MiB and 1 GiB, as the mapping of a larger page cannot be split. */
static bool replace_page(uintptr_t base, uint64_t size, uintptr_t at)
{
	for (unsigned shift = 12; shift <= 30; shift += 9) {
		uint64_t page = UINT64_C(1) << shift;
		uintptr_t first = at & ~(uintptr_t)(page - 1);
		if (first >= base && rn_in_range(first - base, page, size) && zeros(first, page))
			return true;
	}
	return false;
}

/* Replaces the page at `at`. After PAGES_MAX pages the whole region is replaced: the client is disconnected anyway. */
static bool replace(int i, uint64_t size, uintptr_t at)
{
	if (__atomic_fetch_add(&watch[i].pages, 1, __ATOMIC_RELAXED) < PAGES_MAX &&
	    replace_page(watch[i].base, size, at))
		return true;
	return zeros(watch[i].base, size);
}

/* The handler makes system calls and atomic operations only: it is async-signal-safe. */
static void on_sigbus(int sig, siginfo_t *si, void *ctx)
{
	uintptr_t at = (uintptr_t)si->si_addr;

	(void)ctx;
	for (int i = 0; i < SIGBUS_WATCHES; i++) {
		uint64_t size = __atomic_load_n(&watch[i].size, __ATOMIC_ACQUIRE);
		if (size == 0 || at - watch[i].base >= size)
			continue;
		if (!replace(i, size, at))
			break;
		__atomic_store_n(&watch[i].hit, 1, __ATOMIC_RELEASE);
		__atomic_store_n(&any, 1, __ATOMIC_RELEASE);
		loop_poke();
		return;
	}
	signal(sig, SIG_DFL); /* returns to the same instruction, which now ends the process */
}

bool sigbus_start(void)
{
	struct sigaction sa = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER };

	return sigaction(SIGBUS, &sa, NULL) == 0;
}

int sigbus_watch(const void *base, uint64_t size)
{
	for (int i = 0; i < SIGBUS_WATCHES; i++) {
		if (__atomic_load_n(&watch[i].size, __ATOMIC_RELAXED) != 0)
			continue;
		watch[i].base = (uintptr_t)base;
		__atomic_store_n(&watch[i].pages, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&watch[i].hit, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&watch[i].size, size, __ATOMIC_RELEASE);
		return i;
	}
	return -1;
}

void sigbus_forget(int w)
{
	if (w >= 0)
		__atomic_store_n(&watch[w].size, 0, __ATOMIC_RELEASE);
}

bool sigbus_hit(int w) { return w >= 0 && __atomic_exchange_n(&watch[w].hit, 0, __ATOMIC_ACQUIRE) != 0; }

bool sigbus_any(void) { return __atomic_exchange_n(&any, 0, __ATOMIC_ACQUIRE) != 0; }
