/* SPDX-License-Identifier: BSD-3-Clause */
#include <netinet/in.h>
#include <string.h>

#include "rnic/sock/sock.h"

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

bool sock_addr_in(const struct sockaddr *sa, socklen_t len, struct ipc_addr *a)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	memset(a, 0, sizeof(*a));
	if (sa == NULL)
		return false;
	if (len >= sizeof(v4) && sa->sa_family == AF_INET) {
		memcpy(&v4, sa, sizeof(v4));
		memcpy(a->ip, mapped, sizeof(mapped));
		memcpy(a->ip + 12, &v4.sin_addr, 4);
		a->port = ntohs(v4.sin_port);
		return true;
	}
	if (len >= sizeof(v6) && sa->sa_family == AF_INET6) {
		memcpy(&v6, sa, sizeof(v6));
		memcpy(a->ip, &v6.sin6_addr, 16);
		a->port = ntohs(v6.sin6_port);
		a->scope = IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) ? v6.sin6_scope_id : 0;
		return true;
	}
	return false;
}

bool sock_addr_is_any(const struct ipc_addr *a)
{
	static const uint8_t none[16];

	return memcmp(a->ip, none, 16) == 0 || (memcmp(a->ip, mapped, 12) == 0 && memcmp(a->ip + 12, none, 4) == 0);
}

static void give_address(const void *from, socklen_t size, struct sockaddr *sa, socklen_t *len)
{
	memcpy(sa, from, *len < size ? *len : size);
	*len = size;
}

void sock_addr_out(const struct sock *s, const struct ipc_addr *a, struct sockaddr *sa, socklen_t *len)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(a->port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(a->port), .sin6_scope_id = a->scope };

	if (sa == NULL || len == NULL)
		return;
	memcpy(&v4.sin_addr, a->ip + 12, 4);
	memcpy(&v6.sin6_addr, a->ip, 16);
	if (s->domain == AF_INET)
		give_address(&v4, sizeof(v4), sa, len);
	else
		give_address(&v6, sizeof(v6), sa, len);
}
