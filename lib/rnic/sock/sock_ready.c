/* SPDX-License-Identifier: BSD-3-Clause */
/* What each call does first, and what fork and vfork need. */
#include <unistd.h>

#include "rnic/sock/sock.h"

static __thread pid_t vfork_of; /* the process whose thread has called vfork(); 0: none, or vfork() has returned */

static void before_fork(void)
{
	(void)sock_in_vfork(); /* clears vfork_of in a thread that has come back from vfork() */
	sock_daemon_fork(false);
	sock_tab_fork(false);
}

static void after_fork(void)
{
	sock_tab_fork(true);
	sock_daemon_fork(true);
	sock_pid_fork();
}

static void after_fork_child(void)
{
	after_fork();
	sock_tab_child();
}

static void make_ready(void)
{
	sock_libc_find();
	/* If there is no memory for the handlers, a child of a multithreaded process may wait forever for a lock. */
	(void)pthread_atfork(before_fork, after_fork, after_fork_child);
}

void sock_ready(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_ready);
}

void *sock_vfork_begins(void)
{
	sock_ready();
	vfork_of = getpid();
	return (void *)(uintptr_t)sock_libc.vfork;
}

bool sock_in_vfork(void)
{
	if (__builtin_expect(vfork_of == 0, 1))
		return false;
	if (getpid() != vfork_of)
		return true;
	vfork_of = 0;
	return false;
}
