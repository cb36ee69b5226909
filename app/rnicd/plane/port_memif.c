/* SPDX-License-Identifier: BSD-3-Clause */
#define ALLOW_EXPERIMENTAL_API /* rte_intr_fd_get() */
#include "plane/port_memif.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>

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

/* The descriptor is one of memif's: its control channels are the only local sockets that are interrupt sources. */
static bool is_memifs(int fd)
{
	int domain = AF_UNSPEC;
	socklen_t len = sizeof(domain);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX;
}

/*
 * Stands in front of DPDK's function in the same way. DPDK's interrupt thread looks up the source of an event by the
 * descriptor's number, and this number may be that of a new connection when the old one was closed meanwhile. The
 * driver would then wait in recvmsg() for the first message, which may never come if the server is in this process: the
 * same thread has to accept the connection. So memif's sockets do not block, and the driver ends such a connection.
 */
int rte_intr_callback_register(const struct rte_intr_handle *handle, rte_intr_callback_fn cb, void *arg)
{
	typedef int (*register_fn)(const struct rte_intr_handle *, rte_intr_callback_fn, void *);
	register_fn dpdks = (register_fn)(uintptr_t)dlsym(RTLD_NEXT, "rte_intr_callback_register");
	const int fd = rte_intr_fd_get(handle);

	if (is_memifs(fd))
		(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	return dpdks(handle, cb, arg);
}
