/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts addresses between the protocol's 128-bit form and the kernel's sockaddr, for both families. */
#include <string.h>

#include "sockets/ks_net.h"

static bool is_link_local(const struct pkt_addr *a) { return a->b[0] == 0xfe && (a->b[1] & 0xc0) == 0x80; }

socklen_t ks_sockaddr(union ks_sockaddr *s, uint32_t dev, const struct pkt_addr *ip, uint16_t port)
{
	memset(s, 0, sizeof(*s));
	if (pkt_addr_is_ip4(ip)) {
		s->v4.sin_family = AF_INET;
		s->v4.sin_port = htons(port);
		memcpy(&s->v4.sin_addr, ip->b + 12, sizeof(s->v4.sin_addr));
		return sizeof(s->v4);
	}
	s->v6.sin6_family = AF_INET6;
	s->v6.sin6_port = htons(port);
	memcpy(&s->v6.sin6_addr, ip->b, sizeof(s->v6.sin6_addr));
	/* The kernel ignores the interface of a group whose scope is wider than the link. */
	if (is_link_local(ip) || pkt_addr_is_any_group(ip))
		s->v6.sin6_scope_id = rnicd.port[dev]->if_index;
	return sizeof(s->v6);
}

struct pkt_addr ks_sockaddr_ip(const union ks_sockaddr *s, uint16_t *port)
{
	struct pkt_addr a = { .b = { 0 } };

	*port = 0;
	if (s->sa.sa_family == AF_INET) {
		a = pkt_addr_ip4(ntohl(s->v4.sin_addr.s_addr));
		*port = ntohs(s->v4.sin_port);
	} else if (s->sa.sa_family == AF_INET6) {
		memcpy(a.b, &s->v6.sin6_addr, sizeof(a.b));
		*port = ntohs(s->v6.sin6_port);
	}
	return a;
}

void ks_scope(int fd, bool peer, struct ipc_addr *a)
{
	union ks_sockaddr s = { .sa = { .sa_family = AF_UNSPEC } };
	socklen_t len = sizeof(s);
	struct pkt_addr ip;

	memcpy(ip.b, a->ip, sizeof(ip.b));
	if (is_link_local(&ip) && (peer ? getpeername(fd, &s.sa, &len) : getsockname(fd, &s.sa, &len)) == 0 &&
	    s.sa.sa_family == AF_INET6)
		a->scope = s.v6.sin6_scope_id;
}

bool ks_has_addr(uint32_t dev, const struct pkt_addr *ip, uint32_t scope)
{
	const struct rnicd_port *p = rnicd.port[dev];

	return pkt_addr_eq(&p->cfg->ip, ip) && (!is_link_local(ip) || p->if_index == scope);
}

uint32_t ks_dev_of(const struct pkt_addr *ip)
{
	for (uint32_t i = 0; i < rnicd.n_ports; i++)
		if (pkt_addr_eq(&rnicd.port[i]->cfg->ip, ip))
			return i;
	return UINT32_MAX;
}

int ks_socket(const struct pkt_addr *ip, int type)
{
	const bool v4 = pkt_addr_is_ip4(ip);
	const int one = 1;
	int fd = socket(v4 ? AF_INET : AF_INET6, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd >= 0 && !v4) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
		setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &one, sizeof(one));
	}
	return fd;
}
