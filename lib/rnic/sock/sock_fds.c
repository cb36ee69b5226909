/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that copy, change and close descriptors, in front of libc's. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#include "rnic/sock/sock.h"

#define PUBLIC __attribute__((visibility("default")))

static int close_ours(int fd)
{
	struct sock *s = sock_get(fd), *left = sock_leave_begin(fd);
	uint16_t port = 0; /* that is to be free when this call returns; 0: none */

	sock_set(fd, NULL);
	sock_leave_end(left);
	int rc = sock_libc.close(fd);
	if (s != NULL && s->kind == SOCK_IS_STREAM && s->linger.l_onoff != 0 && s->linger.l_linger > 0 &&
	    sock_number(s) < 0)
		sock_linger(s);
	if (s != NULL && (s->kind == SOCK_LISTENS || s->kind == SOCK_IS_GRAM) && sock_kernels() && sock_number(s) < 0)
		port = (uint16_t)s->local.port;
	if (s != NULL)
		sock_put(s); /* before: it closes the kernel's socket below */
	if (port != 0)
		sock_kernels_closed(port);
	return rc;
}

PUBLIC int close(int fd)
{
	sock_ready();
	if ((uint32_t)fd < SOCK_FDS && __atomic_load_n(&sock_tab[fd], __ATOMIC_RELAXED) != NULL && !sock_in_vfork())
		return close_ours(fd);
	if (sock_libc_is_aside(fd)) {
		errno = EBADF; /* as for a number that is not open */
		return -1;
	}
	return sock_libc.close(fd);
}

/*
 * `copy` has become a duplicate of fd: notes in the table which socket it is now, if any. left: the socket that it was,
 * from sock_leave_begin(); or NULL. Returns copy.
 */
static int copied(int fd, int copy, struct sock *left)
{
	struct sock *s = copy < 0 || copy == fd ? NULL : sock_get(fd);

	if (copy >= 0 && copy != fd && (uint32_t)copy < SOCK_FDS && !sock_in_vfork() &&
	    (s != NULL || __atomic_load_n(&sock_tab[copy], __ATOMIC_RELAXED) != NULL))
		sock_set(copy, s);
	sock_leave_end(left);
	if (s == NULL)
		return copy;
	if ((uint32_t)copy >= SOCK_FDS) { /* the table has no place for it */
		sock_put(s);
		sock_libc.close(copy);
		errno = EMFILE;
		return -1;
	}
	if (sock_in_vfork()) { /* the table is the parent's, but the next program must inherit the socket below */
		if (s->below >= 0 && (sock_libc.fcntl(copy, F_GETFD) & FD_CLOEXEC) == 0)
			(void)sock_libc.fcntl(s->below, F_SETFD, 0);
	} else {
		sock_below_follows(s);
		sock_stdio_follows(copy);
	}
	sock_put(s);
	return copy;
}

PUBLIC int dup(int fd)
{
	sock_ready();
	return copied(fd, sock_libc.dup(fd), NULL);
}

/* The number `to` becomes a duplicate of fd: sock_leave_begin() of it. */
static struct sock *leaves_for(int fd, int to) { return fd == to || sock_in_vfork() ? NULL : sock_leave_begin(to); }

/*
 * Whether the number `to` is not the program's: for such a number dup2(2) has EBUSY, as if another thread were opening
 * it now. Another error of the call comes first.
 */
static bool is_busy(int fd, int to)
{
	if (fd == to || !sock_libc_is_aside(to) || sock_in_vfork() || sock_libc.fcntl(fd, F_GETFD) < 0)
		return false;
	errno = EBUSY;
	return true;
}

PUBLIC int dup2(int fd, int to)
{
	sock_ready();
	if (is_busy(fd, to))
		return -1;
	struct sock *left = leaves_for(fd, to);
	return copied(fd, sock_libc.dup2(fd, to), left);
}

PUBLIC int dup3(int fd, int to, int flags)
{
	sock_ready();
	if (is_busy(fd, to))
		return -1;
	struct sock *left = leaves_for(fd, to);
	return copied(fd, sock_libc.dup3(fd, to, flags), left);
}

void sock_flagged(int fd)
{
	struct sock *s = sock_get(fd);

	if (s == NULL)
		return;
	sock_below_follows(s); /* also in a child of vfork(), whose descriptors are its own */
	sock_put(s);
}

static int control(int fd, int cmd, void *arg)
{
	sock_ready();
	int rc = sock_libc.fcntl(fd, cmd, arg);
	if (cmd == F_SETFD)
		sock_flagged(fd);
	return cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC ? copied(fd, rc, NULL) : rc;
}

PUBLIC int fcntl(int fd, int cmd, ...)
{
	va_list ap;

	va_start(ap, cmd);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	return control(fd, cmd, arg);
}

PUBLIC int fcntl64(int fd, int cmd, ...)
{
	va_list ap;

	va_start(ap, cmd);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	return control(fd, cmd, arg);
}

/* Descriptors of sock_libc_aside() stay open; those between them are closed. */
static int range_without_aside(unsigned int first, unsigned int last, int flags)
{
	unsigned int from = first;
	int rc = 0;

	for (unsigned int fd = first; rc == 0 && fd < SOCK_FDS && fd <= last; fd++) {
		if (!sock_libc_is_aside((int)fd))
			continue;
		if (fd > from)
			rc = sock_libc.close_range(from, fd - 1, flags);
		from = fd + 1;
	}
	return rc == 0 && from <= last ? sock_libc.close_range(from, last, flags) : rc;
}

PUBLIC int close_range(unsigned int first, unsigned int last, int flags)
{
	sock_ready();
	if (first > last)
		return sock_libc.close_range(first, last, flags);
	bool closes = ((unsigned int)flags & CLOSE_RANGE_CLOEXEC) == 0 && !sock_in_vfork();
	for (unsigned int fd = first; closes && fd < SOCK_FDS && fd <= last; fd++)
		if (__atomic_load_n(&sock_tab[fd], __ATOMIC_RELAXED) != NULL)
			(void)close_ours((int)fd);
	return range_without_aside(first, last, flags);
}

PUBLIC void closefrom(int first)
{
	int saved = errno;

	(void)close_range(first < 0 ? 0 : (unsigned int)first, ~0U, 0);
	errno = saved;
}
