/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors that librnicsock holds beside those of the program: the kernel's sockets below others, and its own. The
 * whole library is linked; the test makes the sockets.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "rnic/sock/sock_gram.h"

static int rnicd_fd; /* rnicd's end of the descriptor */
static struct sock_bells bells = { .socks = 1000, .wake_fd = -1 };

static void *memory(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

/* A UDP socket of rnicd's that has become one by sending a datagram, with the kernel's socket below it. */
static int gram_over(int kernels)
{
	struct sock *s = sock_new(AF_INET);
	int both[2];

	assert_non_null(s);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, both), 0);
	if (bells.bell == NULL)
		bells.bell = memory(sizeof(*bells.bell));
	s->kind = SOCK_IS_GRAM;
	s->gram = memory(IPC_GRAM_SIZE);
	s->bells = &bells;
	s->wild = s->below_live = true;
	s->below = sock_libc_aside(kernels);
	assert_true(s->below >= 0);
	sock_libc.close(kernels);
	sock_set(both[0], s);
	sock_put(s); /* the descriptor has it */
	rnicd_fd = both[1];
	return both[0];
}

/* Sends a datagram to the kernel's socket fd, which has no port yet. */
static void send_to(int fd)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int from = socket(AF_INET, SOCK_DGRAM, 0);

	assert_int_equal(sock_libc.bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(sock_libc.getsockname(fd, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(sock_libc.sendto(from, "x", 1, 0, (struct sockaddr *)&at, sizeof(at)), 1);
	sock_libc.close(from);
}

/* connect() with AF_UNSPEC makes the kernel's socket of it again, and EPOLL_CTL_DEL knows the program's number only. */
static void nothing_of_a_socket_stays_in_an_epoll_set(void **state)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct epoll_event in = { .events = EPOLLIN, .data.u32 = 7 }, out[2];
	int fd = gram_over(socket(AF_INET, SOCK_DGRAM, 0)), ep = epoll_create1(0);

	(void)state;
	assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &in), 0);
	assert_int_equal(connect(fd, &none, sizeof(none)), 0);
	assert_null(sock_get(fd));
	send_to(fd);
	assert_int_equal(epoll_wait(ep, out, 2, 0), 1);
	assert_int_equal(out[0].data.u32, 7);
	assert_int_equal(epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL), 0);
	assert_int_equal(epoll_wait(ep, out, 2, 0), 0);
	sock_libc.close(ep);
	sock_libc.close(rnicd_fd);
	close(fd);
}

/* Whether a file is open at the number. */
static bool is_open(int fd) { return sock_libc.fcntl(fd, F_GETFD) >= 0; }

static void dup2_and_dup3_do_not_replace_a_descriptor_aside(void **state)
{
	int file = open("/dev/null", O_RDWR), p[2];

	(void)state;
	assert_int_equal(pipe(p), 0);
	int aside = sock_libc_aside(p[0]);
	assert_true(aside >= 0);
	assert_int_equal(dup2(file, aside), -1);
	assert_int_equal(errno, EBUSY);
	assert_int_equal(dup3(file, aside, O_CLOEXEC), -1);
	assert_int_equal(errno, EBUSY);
	assert_int_equal(dup2(-1, aside), -1);
	assert_int_equal(errno, EBADF);
	char byte = 0;
	assert_int_equal(sock_libc.write(p[1], "x", 1), 1);
	assert_int_equal(sock_libc.read(aside, &byte, 1), 1);
	assert_int_equal(byte, 'x');
	sock_libc_close_aside(aside);
	/* The number is the program's again. */
	assert_int_equal(dup2(file, aside), aside);
	assert_int_equal(close(aside), 0);
	assert_false(is_open(aside));
	close(p[0]);
	close(p[1]);
	close(file);
}

static int ready(void **state)
{
	(void)state;
	sock_ready();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_of_a_socket_stays_in_an_epoll_set),
		cmocka_unit_test(dup2_and_dup3_do_not_replace_a_descriptor_aside),
	};

	return cmocka_run_group_tests(tests, ready, NULL);
}
