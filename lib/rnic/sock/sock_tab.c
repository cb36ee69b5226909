/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of descriptors that are ours. Looking up another descriptor takes one load. A socket lives until its last
 * descriptor is closed and the last call on it has returned.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "rnic/sock/sock.h"

struct sock *sock_tab[SOCK_FDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sock *unused, *all;
static __thread uint32_t holds; /* results of sock_get() and sock_new() that this thread has not put back */

static void drop(struct sock *s);

struct sock *sock_hold(int fd)
{
	struct sock *s = __atomic_load_n(&sock_tab[fd], __ATOMIC_ACQUIRE);

	for (uint32_t refs; s != NULL;) {
		refs = __atomic_load_n(&s->refs, __ATOMIC_RELAXED);
		if (refs != 0 &&
		    __atomic_compare_exchange_n(&s->refs, &refs, refs + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
			if (__atomic_load_n(&sock_tab[fd], __ATOMIC_ACQUIRE) == s) {
				holds++;
				return s;
			}
			drop(s);
		}
		s = __atomic_load_n(&sock_tab[fd], __ATOMIC_ACQUIRE);
	}
	return NULL;
}

void sock_tab_fork(bool over)
{
	if (over)
		pthread_mutex_unlock(&lock);
	else
		pthread_mutex_lock(&lock);
}

static void make_locks(struct sock *s)
{
	pthread_mutex_init(&s->rx, NULL);
	pthread_mutex_init(&s->tx, NULL);
}

/* The rings are as if another process used them: the parent's threads go on, and publish each index whole. */
void sock_tab_child(void)
{
	for (struct sock *s = all; s != NULL; s = s->older)
		make_locks(s);
	if (holds != 0) /* a signal handler has forked: the call that it interrupted goes on in the child */
		return;
	/* The parent's other threads are not here to put back what they held: only descriptors hold sockets. */
	for (struct sock *s = all; s != NULL; s = s->older)
		s->refs = s->refs != 0;
	for (int fd = 0; fd < SOCK_FDS && all != NULL; fd++)
		if (sock_tab[fd] != NULL)
			sock_tab[fd]->refs++;
	for (struct sock *s = all; s != NULL; s = s->older)
		if (s->refs != 0)
			drop(s);
}

static void drop(struct sock *s)
{
	if (__atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) != 0)
		return;
	if (s->mem != NULL)
		munmap(s->mem, IPC_STREAM_SIZE);
	s->mem = NULL;
	if (s->gram != NULL)
		munmap(s->gram, IPC_GRAM_SIZE);
	s->gram = NULL;
	free(s->more);
	s->more = NULL;
	if (s->below >= 0)
		sock_libc_close_aside(s->below);
	s->below = -1;
	sock_take_bells(s, NULL);
	pthread_mutex_lock(&lock);
	s->next = unused;
	unused = s;
	pthread_mutex_unlock(&lock);
}

void sock_put(struct sock *s)
{
	holds--;
	drop(s);
}

void sock_put_held(void *s) { sock_put(s); }

struct sock *sock_new(int domain)
{
	pthread_mutex_lock(&lock);
	struct sock *s = unused;
	if (s != NULL)
		unused = s->next;
	pthread_mutex_unlock(&lock);
	bool first = s == NULL;
	if (first)
		s = malloc(sizeof(*s));
	if (s == NULL)
		return NULL;
	memset(s, 0, offsetof(struct sock, older)); /* a child of fork() reads the list at any time */
	s->domain = domain;
	s->rcv_ms = s->snd_ms = s->below = -1;
	make_locks(s);
	__atomic_store_n(&s->refs, 1, __ATOMIC_RELEASE);
	holds++;
	if (first) {
		pthread_mutex_lock(&lock);
		s->older = all;
		all = s;
		pthread_mutex_unlock(&lock);
	}
	return s;
}

int sock_still(const struct sock *s, int fd)
{
	if (!s->numbered || ((uint32_t)fd < SOCK_FDS && __atomic_load_n(&sock_tab[fd], __ATOMIC_ACQUIRE) == s))
		return fd;
	return sock_number(s);
}

int sock_number(const struct sock *s)
{
	for (int fd = 0; fd < SOCK_FDS; fd++)
		if (__atomic_load_n(&sock_tab[fd], __ATOMIC_RELAXED) == s)
			return fd;
	return -1;
}

struct sock *sock_leave_begin(int fd)
{
	struct sock *s = sock_get(fd);

	if (s != NULL && sock_holds_lock()) { /* a signal handler has interrupted a turn of its own thread */
		sock_put(s);
		return NULL;
	}
	if (s != NULL) {
		sock_lock(&s->rx);
		sock_lock(&s->tx);
	}
	return s;
}

void sock_leave_end(struct sock *s)
{
	if (s == NULL)
		return;
	sock_unlock(&s->tx);
	sock_unlock(&s->rx);
	sock_put(s);
}

void sock_set(int fd, struct sock *s)
{
	if ((uint32_t)fd >= SOCK_FDS)
		return;
	if (s != NULL) {
		s->numbered = true;
		__atomic_add_fetch(&s->refs, 1, __ATOMIC_ACQ_REL);
	}
	struct sock *old = __atomic_exchange_n(&sock_tab[fd], s, __ATOMIC_ACQ_REL);
	if (old != NULL)
		drop(old);
}
