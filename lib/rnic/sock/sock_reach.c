/* SPDX-License-Identifier: BSD-3-Clause */
/* Which addresses rnicd's ports have, and which addresses they reach. */
#include <stdlib.h>
#include <string.h>

#include "rnic/sock/sock.h"

bool sock_kernels(void)
{
	static int known; /* 1: yes, -1: no. Any thread; a program may clear its environment later */
	int now = __atomic_load_n(&known, __ATOMIC_RELAXED);

	if (__builtin_expect(now == 0, 0)) {
		now = getenv(IPC_SOCK_KERNELS_ENV) != NULL ? 1 : -1;
		__atomic_store_n(&known, now, __ATOMIC_RELAXED);
	}
	return now > 0;
}

static bool same_net(const uint8_t a[16], const uint8_t b[16], uint32_t bits)
{
	uint32_t whole = bits / 8, rest = bits % 8;

	return memcmp(a, b, whole) == 0 && (rest == 0 || ((a[whole] ^ b[whole]) & (0xff00u >> rest) & 0xff) == 0);
}

static bool no_port_can_have(const struct ipc_addr *a)
{
	static const uint8_t v4[13] = { [10] = 0xff, [11] = 0xff, [12] = 127 }, zero[16], v6[16] = { [15] = 1 };

	return memcmp(a->ip, v4, 13) == 0 || memcmp(a->ip, zero, 16) == 0 || memcmp(a->ip, v6, 16) == 0 ||
	       (memcmp(a->ip, v4, 12) == 0 && memcmp(a->ip + 12, zero, 4) == 0);
}

bool sock_is_port(const struct ipc_addr *a)
{
	return !sock_kernels() && !no_port_can_have(a) && sock_begin() && sock_port_of(a) != UINT32_MAX;
}

bool sock_reaches(const struct ipc_addr *to, struct ipc_addr *from)
{
	bool found = false;

	if (sock_kernels() || no_port_can_have(to) || !sock_begin())
		return false;
	const struct ipc_sock_join_ok *world = sock_known();
	for (uint32_t i = 0; i < world->ports && i < IPC_SOCK_PORTS_MAX; i++) {
		const struct ipc_sock_port *p = &world->port[i];
		if (p->prefix_len > 128 || !same_net(p->ip, to->ip, p->prefix_len))
			continue;
		bool own = memcmp(p->ip, to->ip, 16) == 0;
		if (!found || !own) {
			*from = (struct ipc_addr){ .port = 0 };
			memcpy(from->ip, p->ip, 16);
		}
		found = true;
		if (!own)
			break;
	}
	return found;
}

uint32_t sock_port_of(const struct ipc_addr *a)
{
	const struct ipc_sock_join_ok *world = sock_known();

	for (uint32_t i = 0; i < world->ports && i < IPC_SOCK_PORTS_MAX; i++)
		if (memcmp(world->port[i].ip, a->ip, 16) == 0)
			return i;
	return UINT32_MAX;
}

const struct ipc_sock_port *sock_port(uint32_t dev)
{
	const struct ipc_sock_join_ok *world = sock_known();

	return dev < world->ports && dev < IPC_SOCK_PORTS_MAX ? &world->port[dev] : NULL;
}

bool sock_may_reach(const struct sockaddr *sa, socklen_t len)
{
	static const uint8_t v4[12] = { [10] = 0xff, [11] = 0xff };
	static bool asked; /* written by any thread */
	struct ipc_addr a;

	if (sock_kernels() || sa == NULL || (sa->sa_family != AF_INET && sa->sa_family != AF_INET6) ||
	    !sock_addr_in(sa, len, &a) || no_port_can_have(&a) || memcmp(a.ip, v4, sizeof(v4)) != 0)
		return false;
	if (!__atomic_load_n(&asked, __ATOMIC_RELAXED)) {
		(void)sock_begin();
		__atomic_store_n(&asked, true, __ATOMIC_RELAXED);
	}
	const struct ipc_sock_join_ok *world = sock_known();
	for (uint32_t i = 0; i < world->ports && i < IPC_SOCK_PORTS_MAX; i++)
		if (world->port[i].prefix_len <= 128 && same_net(world->port[i].ip, a.ip, world->port[i].prefix_len))
			return true;
	return false;
}
