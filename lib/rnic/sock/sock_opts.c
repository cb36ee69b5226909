/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options of a TCP socket that rnicd's TCP does not have. A new socket of the kernel's says whether such an option and
 * its value are valid, and which value is the default. A value that was set is returned again.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "ipc/ipc_sock_opt.h"
#include "rnic/sock/sock.h"

int sock_opt_give(void *to, socklen_t *len, const void *from, size_t size)
{
	if (*len > size)
		*len = (socklen_t)size;
	memcpy(to, from, *len);
	return 0;
}

int sock_other(int domain) { return sock_libc_is_confined() ? -1 : socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0); }

void sock_other_close(int fd)
{
	int saved = errno;

	if (fd >= 0)
		sock_libc.close(fd);
	errno = saved;
}

static void opt_keep(struct sock *s, int level, int name, int value)
{
	uint32_t i = 0;

	while (i < s->opts && (s->opt[i].level != level || s->opt[i].name != name))
		i++;
	if (i == RN_ARRAY_LEN(s->opt))
		return;
	s->opt[i] = (struct sock_opt){ level, name, value };
	if (i == s->opts)
		s->opts++;
}

static bool opt_of(int fd, int level, int name, int *value)
{
	socklen_t len = sizeof(*value);

	return sock_libc.getsockopt(fd, level, name, value, &len) == 0 && len == sizeof(*value);
}

void sock_opts_learn(struct sock *s, int fd)
{
	static const struct {
		int level, name, skipped; /* skipped: a value that is not learned, as a new socket has it */
	} usual[] = {
		{ SOL_SOCKET, SO_KEEPALIVE, -1 },
		{ SOL_SOCKET, SO_REUSEADDR, -1 },
		{ SOL_SOCKET, SO_REUSEPORT, -1 },
		{ SOL_SOCKET, SO_PRIORITY, 0 },
		{ SOL_SOCKET, SO_MARK, 0 },
		{ SOL_SOCKET, SO_BINDTOIFINDEX, 0 }, /* SO_BINDTODEVICE as a number */
		{ IPPROTO_TCP, TCP_NODELAY, -1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, -1 },
		{ IPPROTO_TCP, TCP_KEEPINTVL, -1 },
		{ IPPROTO_TCP, TCP_KEEPCNT, -1 },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, 0 },
		{ IPPROTO_IP, IP_TOS, -1 },
		{ IPPROTO_IP, IP_TTL, IPDEFTTL },
		{ IPPROTO_IPV6, IPV6_V6ONLY, -1 },
		{ IPPROTO_IPV6, IPV6_TCLASS, 0 },
		{ IPPROTO_IPV6, IPV6_UNICAST_HOPS, IPDEFTTL },
	};

	for (uint32_t i = 0; i < RN_ARRAY_LEN(usual); i++) {
		int value;
		if (opt_of(fd, usual[i].level, usual[i].name, &value) && value != usual[i].skipped)
			opt_keep(s, usual[i].level, usual[i].name, value);
	}
}

void sock_opts_teach(struct sock *s, int fd)
{
	sock_lock(&s->tx);
	for (uint32_t i = 0; i < s->opts; i++)
		(void)sock_libc.setsockopt(fd, s->opt[i].level, s->opt[i].name, &s->opt[i].value,
					   sizeof(s->opt[i].value));
	sock_unlock(&s->tx);
}

int sock_opts_set(struct sock *s, int level, int name, const void *from, socklen_t len)
{
	const bool zerocopy = level == SOL_SOCKET && name == SO_ZEROCOPY;
	int other = zerocopy ? -1 : sock_other(s->domain), value;
	int rc = other < 0 ? 0 : sock_libc.setsockopt(other, level, name, from, len);

	if (zerocopy) { /* nothing would ever come into the queue of errors */
		errno = EOPNOTSUPP;
		return -1;
	}
	if (rc == 0 && other >= 0 && opt_of(other, level, name, &value)) {
		sock_lock(&s->tx);
		opt_keep(s, level, name, value);
		sock_unlock(&s->tx);
		if (ipc_sock_opt_passes(level, name) && sock_kernels())
			sock_pass_option(s, level, name, value);
	}
	sock_other_close(other);
	return rc;
}

int sock_opts_get(struct sock *s, int level, int name, void *to, socklen_t *len)
{
	bool found = false;
	int value = 0;

	sock_lock(&s->tx);
	for (uint32_t i = 0; i < s->opts && !found; i++) {
		found = s->opt[i].level == level && s->opt[i].name == name;
		value = s->opt[i].value;
	}
	sock_unlock(&s->tx);
	int other = found ? -1 : sock_other(s->domain);
	if (other < 0)
		return sock_opt_give(to, len, &value, sizeof(value));
	int rc = sock_libc.getsockopt(other, level, name, to, len);
	sock_other_close(other);
	return rc;
}
