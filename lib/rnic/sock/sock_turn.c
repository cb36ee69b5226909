/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns at a ring of a socket: a mutex orders the threads of this process, and a word in the socket's memory orders the
 * processes that share the socket (fork, a passed descriptor). A process that does not wait for its turn spoils the
 * data of that socket only.
 *
 * A thread that pthread_cancel() ends keeps the locks that it holds, so it is not cancelled while it holds one.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "rnic/sock/sock.h"

#define TURN_NS (2 * RN_NS_PER_S) /* a turn this long: its process has died in another pid namespace */

static pid_t self;

pid_t sock_pid(void)
{
	pid_t p = __atomic_load_n(&self, __ATOMIC_RELAXED);

	if (p == 0) {
		p = getpid();
		__atomic_store_n(&self, p, __ATOMIC_RELAXED);
	}
	return p;
}

void sock_pid_fork(void) { __atomic_store_n(&self, 0, __ATOMIC_RELAXED); }

/* ---- locks ---- */

static __thread uint32_t locks; /* held by this thread */
static __thread int cancel;     /* whether this thread may be cancelled when it holds no lock */

void sock_lock(pthread_mutex_t *m)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	if (locks++ == 0) /* a signal handler that runs before this line or after it finds cancellation off */
		cancel = was;
	pthread_mutex_lock(m);
}

void sock_unlock(pthread_mutex_t *m)
{
	const int back = cancel;
	int off;

	pthread_mutex_unlock(m);
	if (--locks == 0)
		pthread_setcancelstate(back, &off);
}

bool sock_holds_lock(void) { return locks != 0; }

/* ---- turns ---- */

void sock_turn_begin(pthread_mutex_t *m, uint32_t *word)
{
	const uint32_t own = (uint32_t)sock_pid();
	uint32_t holder = 0;
	uint64_t end = 0;

	sock_lock(m);
	while (!__atomic_compare_exchange_n(word, &holder, own, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		uint64_t now = sock_now();
		if (end == 0)
			end = now + TURN_NS;
		if (holder == own || now > end || (kill((pid_t)holder, 0) != 0 && errno == ESRCH)) {
			/* The holder was killed in its turn. It had not published its change: the index is valid. */
			if (__atomic_compare_exchange_n(word, &holder, own, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return;
		}
		holder = 0;
		sched_yield();
	}
}

void sock_turn_end(pthread_mutex_t *m, uint32_t *word)
{
	__atomic_store_n(word, 0, __ATOMIC_RELEASE);
	sock_unlock(m);
}
