/* SPDX-License-Identifier: BSD-3-Clause */
#include "border/bell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS 8

struct bell bells[RNICD_MAX_WORKERS] = { [0 ... RNICD_MAX_WORKERS - 1] = { .wake_fd = -1, .epoll_fd = -1 } };

bool bell_make(uint32_t worker)
{
	struct bell *b = &bells[worker];

	*b = (struct bell){ .epoll_fd = epoll_create1(EPOLL_CLOEXEC),
			    .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	return b->epoll_fd >= 0 && b->wake_fd >= 0 && bell_watch(worker, b->wake_fd, EPOLLIN | EPOLLET);
}

void bell_free(uint32_t worker)
{
	struct bell *b = &bells[worker];

	if (b->epoll_fd >= 0)
		close(b->epoll_fd);
	if (b->wake_fd >= 0)
		close(b->wake_fd);
	b->epoll_fd = b->wake_fd = -1;
}

void bell_ring(uint32_t worker)
{
	const struct bell *b = &bells[worker];

	/* pairs with the fence between the worker's word and its last look */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&b->sleeping, __ATOMIC_RELAXED) == 0)
		return;
	uint64_t one = 1;
	/* The write fails only if the counter is full: then the worker wakes in any case. */
	if (write(b->wake_fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
		return;
}

bool bell_watch(uint32_t worker, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events };

	return epoll_ctl(bells[worker].epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

void bell_unwatch(uint32_t worker, int fd)
{
	struct epoll_event none = { 0 };

	epoll_ctl(bells[worker].epoll_fd, EPOLL_CTL_DEL, fd, &none);
}

bool bell_wait(uint32_t worker, const struct timespec *longest)
{
	struct epoll_event ev[EVENTS];

	/* The descriptors are not read: some of them belong to clients. */
	return epoll_pwait2(bells[worker].epoll_fd, ev, EVENTS, longest, NULL) > 0;
}
