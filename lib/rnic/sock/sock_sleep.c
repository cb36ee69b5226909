/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping at descriptors. Linux restarts a call of a socket that was interrupted by a signal handler with SA_RESTART,
 * unless the call has a time limit (signal(7)). recv() is such a call, and so a thread that waits for one descriptor to
 * be readable sleeps in it. poll() is never restarted, so it is called again here.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>

#include "rnic/sock/sock.h"

bool sock_does_not_block(int fd, int flags) { return (flags & MSG_DONTWAIT) != 0 || sock_libc_blocks_not(fd); }

bool sock_empty(int fd)
{
	uint8_t sink[64]; /* bytes that make the descriptor readable */
	ssize_t n;

	do
		n = sock_libc_take(fd, sink, sizeof(sink));
	while (n == (ssize_t)sizeof(sink));
	return n > 0 || (n < 0 && errno == EAGAIN);
}

/* Whether all handlers of the program have SA_RESTART: which of them has run is not known. */
static bool handlers_restart(void)
{
	struct sigaction a;

	if (sock_libc_is_confined()) /* sigaction() may be forbidden */
		return false;
	for (int sig = 1; sig < NSIG; sig++)
		if (sock_libc.sigaction(sig, NULL, &a) == 0 && a.sa_handler != SIG_DFL && a.sa_handler != SIG_IGN &&
		    (a.sa_flags & SA_RESTART) == 0)
			return false;
	return true;
}

uint64_t sock_end_in(int ms) { return ms < 0 ? UINT64_MAX : sock_now() + (uint64_t)ms * RN_NS_PER_MS; }

static int ms_until(uint64_t end)
{
	uint64_t now = sock_now(), left = end > now ? end - now : 0;

	return end == UINT64_MAX ? -1 : (int)rn_min_u64((left + RN_NS_PER_MS - 1) / RN_NS_PER_MS, INT_MAX);
}

/* Sleeps without a time limit until the descriptor has a byte or its end. */
static int sleep_in_recv(struct pollfd *p)
{
	uint8_t byte;
	int saved = errno;
	ssize_t got = sock_libc.recv(p->fd, &byte, 1, MSG_PEEK);

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return -1;
	p->revents = POLLIN;
	if (got <= 0)
		(void)sock_libc.poll(p, 1, 0);
	errno = saved;
	return 1;
}

int sock_sleep(struct pollfd *p, nfds_t n, uint64_t end, bool restarts)
{
	int saved = errno, ready;

	if (restarts && end == UINT64_MAX && p[0].events == POLLIN && (n == 1 || p[1].fd < 0) &&
	    !sock_libc_is_confined())
		return sleep_in_recv(p);
	do
		ready = sock_libc.poll(p, n, ms_until(end));
	while (ready < 0 && errno == EINTR && restarts && end == UINT64_MAX && handlers_restart());
	if (ready >= 0)
		errno = ready == 0 ? EAGAIN : saved;
	return ready;
}
