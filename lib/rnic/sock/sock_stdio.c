/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stdio streams on sockets. libc's own streams read and write by calls that cannot be intercepted, so a socket gets a
 * stream whose functions are this library's (fopencookie). The standard streams are variables, and are replaced when
 * their descriptors become sockets.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rnic/sock/sock.h"

#define PUBLIC __attribute__((visibility("default")))

/*
 * A stdio stream of ours. Entries are never freed, so that they can be read without a lock. An entry whose file is NULL
 * can be used again.
 */
struct stream {
	FILE *file; /* atomic */
	int fd;
	struct stream *next;
};
static struct stream *streams; /* atomic: new entries are put at the head */

static struct stream *stream_new(int fd)
{
	static FILE *const taken = (FILE *)-1;
	struct stream *e = __atomic_load_n(&streams, __ATOMIC_ACQUIRE);

	for (FILE *none = NULL; e != NULL; e = e->next, none = NULL)
		if (__atomic_compare_exchange_n(&e->file, &none, taken, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			break;
	if (e == NULL) {
		e = malloc(sizeof(*e));
		if (e == NULL)
			return NULL;
		e->file = taken;
		e->next = __atomic_load_n(&streams, __ATOMIC_RELAXED);
		while (!__atomic_compare_exchange_n(&streams, &e->next, e, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			;
	}
	e->fd = fd;
	return e;
}

static int descriptor_of(const FILE *f)
{
	const struct stream *e = __atomic_load_n(&streams, __ATOMIC_ACQUIRE);

	while (e != NULL && __atomic_load_n(&e->file, __ATOMIC_RELAXED) != f)
		e = e->next;
	return e != NULL ? e->fd : -1;
}

/* ---- the functions of such a stream ---- */

static ssize_t stream_read(void *cookie, char *to, size_t n) { return read(((struct stream *)cookie)->fd, to, n); }

/* Writes all bytes, since libc takes a smaller result for an error. */
static ssize_t stream_write(void *cookie, const char *from, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t r = write(((struct stream *)cookie)->fd, from + done, n - done);
		if (r <= 0)
			break;
		done += (size_t)r;
	}
	return (ssize_t)done;
}

static int stream_close(void *cookie)
{
	struct stream *e = cookie;
	int fd = e->fd;

	__atomic_store_n(&e->file, NULL, __ATOMIC_RELEASE);
	return close(fd);
}

static FILE *stream_open(int fd, const char *mode)
{
	static const cookie_io_functions_t calls = { stream_read, stream_write, NULL, stream_close };
	struct stream *e = stream_new(fd);
	FILE *f;

	if (e == NULL)
		return NULL;
	f = fopencookie(e, mode, calls);
	__atomic_store_n(&e->file, f, __ATOMIC_RELEASE);
	return f;
}

/* Whether the descriptor is a socket of ours, or a kernel's socket that may become one. */
static bool may_be_ours(int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct sock *s = sock_get(fd);
	int saved = errno, domain;

	if (s != NULL) {
		sock_put(s);
		return true;
	}
	domain = sock_option(fd, SO_DOMAIN);
	bool may = (domain == AF_INET || domain == AF_INET6) &&
		   sock_libc.getpeername(fd, (struct sockaddr *)&sa, &len) != 0;
	errno = saved;
	return may;
}

/* ---- the standard streams ---- */

/* Bytes that the program has written into the buffer of libc's stream `from` are sent through the socket's stream. */
static void move_unwritten(FILE *from, FILE *to)
{
	size_t n = __fpending(from);

	if (n != 0)
		(void)fwrite(from->_IO_write_base, 1, n, to);
	__fpurge(from);
}

void sock_stdio_follows(int fd)
{
	FILE **const all[] = { &stdin, &stdout, &stderr };
	FILE *f;

	if ((uint32_t)fd > STDERR_FILENO || descriptor_of(*all[fd]) >= 0 || sock_libc.fileno(*all[fd]) != fd)
		return;
	f = stream_open(fd, fd == STDIN_FILENO ? "r" : "w");
	if (f == NULL)
		return;
	if (fd == STDERR_FILENO)
		(void)setvbuf(f, NULL, _IONBF, 0);
	if (fd != STDIN_FILENO)
		move_unwritten(*all[fd], f);
	*all[fd] = f;
}

/* ---- the calls ---- */

PUBLIC FILE *fdopen(int fd, const char *mode)
{
	sock_ready();
	return may_be_ours(fd) ? stream_open(fd, mode) : sock_libc.fdopen(fd, mode);
}

PUBLIC int fileno(FILE *f)
{
	sock_ready();
	int fd = __atomic_load_n(&streams, __ATOMIC_RELAXED) != NULL ? descriptor_of(f) : -1;
	return fd >= 0 ? fd : sock_libc.fileno(f);
}

PUBLIC int fileno_unlocked(FILE *f) { return fileno(f); }

/* Writes to a descriptor, without a stream. */
PUBLIC int vdprintf(int fd, const char *format, va_list ap)
{
	char *text = NULL;
	int n = vasprintf(&text, format, ap);
	size_t done = 0;

	if (n < 0)
		return n;
	while (n > 0 && done < (size_t)n) {
		ssize_t r = write(fd, text + done, (size_t)n - done);
		if (r < 0)
			n = -1;
		else
			done += (size_t)r;
	}
	free(text);
	return n;
}

PUBLIC int dprintf(int fd, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	int n = vdprintf(fd, format, ap);
	va_end(ap);
	return n;
}

/* The names of these functions in programs that are built with _FORTIFY_SOURCE. */
int __dprintf_chk(int fd, int flag, const char *format, ...);
PUBLIC int __dprintf_chk(int fd, int flag, const char *format, ...)
{
	va_list ap;

	(void)flag;
	va_start(ap, format);
	int n = vdprintf(fd, format, ap);
	va_end(ap);
	return n;
}

int __vdprintf_chk(int fd, int flag, const char *format, va_list ap);
PUBLIC int __vdprintf_chk(int fd, int flag, const char *format, va_list ap)
{
	(void)flag;
	return vdprintf(fd, format, ap);
}
