/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/port_memif.h"

#include <dlfcn.h>
#include <sched.h>

#include <rte_interrupts.h>

struct memif_use memif_use[RNICD_MAX_WORKERS];

/*
 * Stands in front of DPDK's function of this name, which drivers call from libraries of their own, so the dynamic
 * linker gives them this one. The memif driver calls it after it has marked the device as not connected, and before it
 * unmaps anything.
 */
int rte_intr_callback_unregister(const struct rte_intr_handle *handle, rte_intr_callback_fn cb, void *arg)
{
	typedef int (*unregister_fn)(const struct rte_intr_handle *, rte_intr_callback_fn, void *);
	unregister_fn dpdks = (unregister_fn)(uintptr_t)dlsym(RTLD_NEXT, "rte_intr_callback_unregister");

	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* partner: port_memif_enter() */
	for (uint32_t i = 0; i < RNICD_MAX_WORKERS; i++)
		while (__atomic_load_n(&memif_use[i].inside, __ATOMIC_ACQUIRE) != 0)
			sched_yield();
	return dpdks(handle, cb, arg);
}
