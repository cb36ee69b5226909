/* SPDX-License-Identifier: BSD-3-Clause */
/* rnicrun --embedded: whether a datagram goes into the ring, or the program sends it by the kernel's socket itself. */
#include <string.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_gram.h"

#define MET 256u /* addresses that datagrams have gone to; a power of two */

bool sock_way_is_host(const struct ipc_addr *a)
{
	static const uint8_t v4[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(a->ip, v4, sizeof(v4)) == 0 && a->ip[12] != 0 && a->ip[12] < 224;
}

bool sock_way_is_new(const struct sock *s, const struct ipc_addr *to)
{
	static uint64_t met[MET]; /* of all threads; an address that is lost is new once more, and nothing else */
	uint32_t ip;

	memcpy(&ip, to->ip + 12, sizeof(ip));
	const uint64_t seen = s->id << 32 | ip;
	uint64_t *at = &met[seen * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (MET - 1)];
	return __atomic_exchange_n(at, seen, __ATOMIC_RELAXED) != seen;
}

void sock_way_find(const struct sock *s, const struct msghdr *m, struct sock_way *w)
{
	w->to = s->remote;
	if (m->msg_name != NULL && m->msg_namelen != 0 && !sock_addr_in(m->msg_name, m->msg_namelen, &w->to))
		w->to.port = 0;
	/* what is not valid is the kernel's to refuse */
	w->below = w->to.port == 0 || !sock_way_is_host(&w->to) || s->wire != IPC_GRAM_IWARP;
	w->first = !w->below && s->below_own && sock_way_is_new(s, &w->to);
}
