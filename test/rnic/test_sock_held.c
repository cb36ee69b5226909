/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that pthread_cancel() ends in a call at a socket of librnicsock gives the socket back: after close() nothing
 * of the socket is left. The whole library is linked; the test plays rnicd and makes the sockets.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "rnic/sock/sock_gram.h"

#define HANG_S 20
#define NAP_US 50000

static int fd, rnicd_fd; /* the two ends of the descriptor */
static struct sock *s;
static struct sock_bells bells = { .socks = 1000, .wake_fd = -1 };

static void *memory(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

static void make(enum sock_kind kind, int type)
{
	int both[2];

	sock_ready();
	assert_int_equal(socketpair(AF_UNIX, type, 0, both), 0);
	fd = both[0];
	rnicd_fd = both[1];
	s = sock_new(AF_INET);
	assert_non_null(s);
	s->kind = kind;
	if (bells.bell == NULL)
		bells.bell = memory(sizeof(*bells.bell));
	s->bells = &bells;
	sock_set(fd, s);
	sock_put(s); /* the descriptor has it */
}

static void make_stream(void)
{
	make(SOCK_IS_STREAM, SOCK_STREAM);
	s->mem = memory(IPC_STREAM_SIZE);
	s->mem->state = IPC_STREAM_CONNECTED;
}

static void make_gram(void)
{
	make(SOCK_IS_GRAM, SOCK_STREAM);
	s->gram = memory(IPC_GRAM_SIZE);
}

static void make_listener(struct sockaddr_in *at)
{
	socklen_t len = sizeof(*at);

	make(SOCK_LISTENS, SOCK_STREAM);
	s->below = socket(AF_INET, SOCK_STREAM, 0);
	*at = (struct sockaddr_in){ .sin_family = AF_INET };
	assert_int_equal(sock_libc.bind(s->below, (struct sockaddr *)at, sizeof(*at)), 0);
	assert_int_equal(sock_libc.listen(s->below, 1), 0);
	assert_int_equal(sock_libc.fcntl(s->below, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(sock_libc.getsockname(s->below, (struct sockaddr *)at, &len), 0);
}

static void *make_call(void *arg)
{
	void (**call)(void) = arg;

	(*call)();
	return NULL;
}

static void *make_call_cancelled(void *arg)
{
	pthread_cancel(pthread_self());
	make_call(arg);
	pthread_testcancel();
	return NULL;
}

/* Ends a thread in the call: one that sleeps in it, and one that is to end at its first cancellation point. */
static void cancelled_in(void (*call)(void))
{
	void *end = NULL;
	pthread_t t;

	alarm(HANG_S);
	assert_int_equal(pthread_create(&t, NULL, make_call, &call), 0);
	usleep(NAP_US); /* a thread that does not sleep yet is cancelled all the same */
	pthread_cancel(t);
	assert_int_equal(pthread_join(t, &end), 0);
	assert_ptr_equal(end, PTHREAD_CANCELED);
	assert_int_equal(s->refs, 1);
	assert_int_equal(pthread_create(&t, NULL, make_call_cancelled, &call), 0);
	assert_int_equal(pthread_join(t, &end), 0);
	assert_ptr_equal(end, PTHREAD_CANCELED);
	assert_int_equal(s->refs, 1);
	alarm(0);
}

static void unmake(void)
{
	sock_libc.close(rnicd_fd);
	assert_int_equal(close(fd), 0);
	assert_int_equal(s->refs, 0);
}

/* rnicd's answer: no connection waits. */
int __wrap_sock_accept(const struct sock *l, int listener, struct sock *made, int *number);
int __wrap_sock_accept(const struct sock *l, int listener, struct sock *made, int *number)
{
	(void)l;
	(void)listener;
	(void)made;
	(void)number;
	return EAGAIN;
}

static void accepts(void) { (void)accept(fd, NULL, NULL); }

static void the_port_of_a_listener_is_free_after_accept_and_close(void **state)
{
	struct sockaddr_in at;

	(void)state;
	make_listener(&at);
	cancelled_in(accepts);
	unmake();
	int again = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(sock_libc.bind(again, (struct sockaddr *)&at, sizeof(at)), 0);
	sock_libc.close(again);
}

static uint8_t bytes[9];

static void receives(void) { (void)recv(fd, bytes, sizeof(bytes), 0); }
static void reads(void) { (void)read(fd, bytes, sizeof(bytes)); }
static void receives_a_message(void)
{
	struct iovec v = { bytes, sizeof(bytes) };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	(void)recvmsg(fd, &m, 0);
}

static void receives_from(void) { (void)recvfrom(fd, bytes, sizeof(bytes), 0, NULL, NULL); }

static void a_stream_after_receiving(void **state)
{
	(void)state;
	make_stream();
	cancelled_in(receives);
	cancelled_in(reads);
	cancelled_in(receives_a_message);
	cancelled_in(receives_from);
	unmake();
}

static void a_datagram_socket_after_receiving(void **state)
{
	(void)state;
	make_gram();
	cancelled_in(receives);
	cancelled_in(receives_a_message);
	unmake();
}

static void sends(void) { (void)send(fd, bytes, sizeof(bytes), 0); }
static void writes(void) { (void)write(fd, bytes, sizeof(bytes)); }

static void splices(void)
{
	int p[2];

	assert_int_equal(pipe(p), 0);
	assert_int_equal(sock_libc.write(p[1], bytes, sizeof(bytes)), sizeof(bytes));
	(void)splice(p[0], NULL, fd, NULL, sizeof(bytes), 0);
}

static void a_stream_after_sending(void **state)
{
	(void)state;
	make_stream();
	s->mem->tx_tail = IPC_STREAM_RING; /* no room */
	cancelled_in(sends);
	cancelled_in(writes);
	cancelled_in(splices);
	unmake();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_port_of_a_listener_is_free_after_accept_and_close),
		cmocka_unit_test(a_stream_after_receiving),
		cmocka_unit_test(a_datagram_socket_after_receiving),
		cmocka_unit_test(a_stream_after_sending),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
