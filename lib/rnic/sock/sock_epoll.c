/* SPDX-License-Identifier: BSD-3-Clause */
/* epoll sets of which descriptors of ours are members. */
#include <errno.h>
#include <stdio.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_gram.h"

#define PUBLIC __attribute__((visibility("default")))

void sock_keep_true(struct sock *s, int fd)
{
	if (s->kind == SOCK_IS_GRAM) {
		sock_gram_watch(s, fd);
		return;
	}
	sock_watch(s, fd);
	if (__atomic_load_n(&s->full, __ATOMIC_RELAXED))
		(void)sock_settle(s, fd, POLLOUT);
}

/* Does the same for the kernel's socket below: it is in the same set with the same events, except writability. */
static void epoll_below(int ep, int op, int fd, const struct epoll_event *ev)
{
	struct sock *s = sock_get(fd);
	int saved = errno;

	if (s != NULL && s->wild && s->below >= 0) {
		struct epoll_event in = { 0 };
		if (ev != NULL)
			in = *ev;
		in.events &= ~(uint32_t)(EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND);
		(void)sock_libc.epoll_ctl(ep, op, s->below, &in);
	}
	if (s != NULL)
		sock_put(s);
	errno = saved;
}

/*
 * The set that each descriptor was last added to. If the descriptor has been closed or its number reused since, it is
 * no longer in the set, and EPOLL_CTL_DEL fails.
 */
static struct {
	int set; /* number of the set's descriptor, plus 1; 0: none */
	struct epoll_event ev;
} member[SOCK_FDS];

static void remember(int ep, int op, int fd, const struct epoll_event *ev)
{
	if ((uint32_t)fd >= SOCK_FDS || op == EPOLL_CTL_DEL || ev == NULL)
		return;
	member[fd].set = ep + 1;
	member[fd].ev = *ev;
}

bool sock_epoll_out(int fd)
{
	int saved = errno;
	bool was = (uint32_t)fd < SOCK_FDS && member[fd].set != 0 &&
		   sock_libc.epoll_ctl(member[fd].set - 1, EPOLL_CTL_DEL, fd, NULL) == 0;

	if (was) /* now, as a member can be taken out only by its number: `below` may be closed, its file not */
		epoll_below(member[fd].set - 1, EPOLL_CTL_DEL, fd, NULL);
	errno = saved;
	return was;
}

void sock_epoll_in(int fd)
{
	struct epoll_event ev = member[fd].ev;
	int saved = errno;

	(void)epoll_ctl(member[fd].set - 1, EPOLL_CTL_ADD, fd, &ev);
	errno = saved;
}

/* A descriptor of this process that is the file with this inode number, and one of our sockets; -1: none. */
static int ours_of(uint64_t file)
{
	for (int fd = 0; fd < SOCK_FDS; fd++)
		if (__atomic_load_n(&sock_tab[fd], __ATOMIC_RELAXED) != NULL && sock_file_number(fd) == file)
			return fd;
	return -1;
}

/* The set ep has a member that was added under the number fd; the socket may have another number by now. */
static void found_member(int ep, int fd, const struct epoll_event *ev, uint64_t file)
{
	if (sock_file_number(fd) == file)
		remember(ep, EPOLL_CTL_ADD, fd, ev);
	else
		fd = ours_of(file);
	struct sock *s = fd >= 0 ? sock_get(fd) : NULL;
	if (s == NULL)
		return;
	s->in_epoll = true;
	sock_keep_true(s, fd);
	sock_put(s);
}

void sock_epoll_found(int ep)
{
	char path[64], line[256];
	unsigned long long data, file;
	unsigned events;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", ep);
	FILE *f = fopen(path, "re");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "tfd: %d events: %x data: %llx pos:%*d ino:%llx", &fd, &events, &data, &file) == 4)
			found_member(ep, fd, &(struct epoll_event){ .events = events, .data.u64 = data }, file);
	if (f != NULL)
		fclose(f);
}

PUBLIC int epoll_ctl(int ep, int op, int fd, struct epoll_event *ev)
{
	sock_ready();
	struct sock *s = op != EPOLL_CTL_DEL ? sock_get(fd) : NULL;
	if (s != NULL) {
		s->in_epoll = true;
		sock_keep_true(s, fd);
		sock_put(s);
	}
	int rc = sock_libc.epoll_ctl(ep, op, fd, ev);
	if (rc != 0)
		return rc;
	remember(ep, op, fd, ev);
	epoll_below(ep, op, fd, ev);
	return 0;
}
