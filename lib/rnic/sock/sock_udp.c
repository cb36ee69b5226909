/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UDP sockets stay the kernel's. A program that binds one to the address of a port of rnicd's, or sends to an address
 * in a port's subnet, is told so in one line: the kernel's error does not name the reason, or there is none.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

#include "rnic/sock/sock.h"

static bool is_udp(int fd)
{
	int protocol = 0;
	socklen_t len = sizeof(protocol);

	return sock_libc.getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) == 0 && protocol == IPPROTO_UDP;
}

static void udp_say(const struct sockaddr *sa, const struct ipc_addr *a)
{
	char ip[INET6_ADDRSTRLEN] = "", line[256];

	if (sa->sa_family == AF_INET)
		inet_ntop(AF_INET, a->ip + 12, ip, sizeof(ip));
	else
		inet_ntop(AF_INET6, a->ip, ip, sizeof(ip));
	int n = snprintf(
		line, sizeof(line),
		"librnicsock: rnicd carries TCP sockets only: UDP with the address %s goes through the kernel; "
		"use TCP, or an address that the kernel reaches\n",
		ip);
	if (sock_libc.write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* there is nobody to tell */
}

/* Would a TCP socket with this address be rnicd's? bound: it is the socket's own address. */
static bool would_be_ours(const struct ipc_addr *a, bool bound)
{
	struct ipc_addr from;

	return bound ? sock_is_port(a) : sock_reaches(a, &from);
}

void sock_udp_look(int fd, const struct sockaddr *sa, socklen_t len, bool bound)
{
	static bool said; /* by any thread; a child of fork has it from its parent */
	struct ipc_addr a;
	int saved = errno;

	if (!__atomic_load_n(&said, __ATOMIC_RELAXED) && sock_addr_in(sa, len, &a) && is_udp(fd) &&
	    would_be_ours(&a, bound) && !__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
		udp_say(sa, &a);
	errno = saved;
}

bool sock_no_way(ssize_t rc) { return rc < 0 && (errno == ENETUNREACH || errno == EHOSTUNREACH); }
