/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that wait for a stream's bytes or room. The test plays rnicd, the clock and the other programs of the CPU.
 * What rnicd does may come at any point of a wait: a test sets it for the point where the thread takes its turn at a
 * ring, where it yields the CPU, or where it sleeps.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "rnic/sock/sock_gram.h"

#define OUT_ROOM (IPC_STREAM_RING / 4)

static struct sock *s;
static int fd, rnicd_fd;                          /* the two ends of the descriptor */
static uint64_t now_ns;                           /* the clock */
static uint32_t bells, yields, sleeps, blocks;    /* counts of calls */
static void (*at_turn)(void), (*at_yield)(void);  /* called once, at the next turn or yield */
static void (*at_ppoll)(void), (*at_sleep)(void); /* the same, when the kernel looks, and when a thread sleeps */
static uint64_t others_ns;                        /* how long other programs keep the CPU at each yield */
static struct pollfd p;

static void once(void (**f)(void))
{
	void (*now)(void) = *f;

	*f = NULL;
	if (now != NULL)
		now();
}

/* ---- in place of other parts of the library ---- */

void sock_ready(void) {}
void sock_bell(const struct sock *of)
{
	(void)of;
	bells++;
}
void sock_take_bells(struct sock *of, struct sock_bells *u) { of->bells = u; }
int sock_below_fd(const struct sock *of)
{
	(void)of;
	return -1;
}
void sock_gram_watch(struct sock *of, int number)
{
	(void)of;
	(void)number;
}
void sock_gram_settle(struct sock *of, int number) { sock_gram_watch(of, number); }
short sock_gram_events(const struct sock *of, short told)
{
	(void)of;
	return told;
}

void sock_lock(pthread_mutex_t *m) { pthread_mutex_lock(m); }
void sock_unlock(pthread_mutex_t *m) { pthread_mutex_unlock(m); }
bool sock_holds_lock(void) { return false; }

void sock_turn_begin(pthread_mutex_t *m, uint32_t *word)
{
	(void)word;
	once(&at_turn);
	pthread_mutex_lock(m);
}

void sock_turn_end(pthread_mutex_t *m, uint32_t *word)
{
	(void)word;
	pthread_mutex_unlock(m);
}

/* ---- in place of libc's ---- */

int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	(void)id;
	now_ns += 100;
	*ts = (struct timespec){ .tv_sec = (time_t)(now_ns / RN_NS_PER_S), .tv_nsec = (long)(now_ns % RN_NS_PER_S) };
	return 0;
}

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
	yields++;
	now_ns += others_ns;
	once(&at_yield);
	return 0;
}

static int (*kernel_ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
static ssize_t (*kernel_send)(int, const void *, size_t, int);
static ssize_t (*kernel_recv)(int, void *, size_t, int);

/* A thread for which nothing comes while it sleeps would sleep for good: the test fails. */
static int fake_ppoll(struct pollfd *l, nfds_t n, const struct timespec *ts, const sigset_t *mask)
{
	static const struct timespec at_once;

	once(&at_ppoll);
	int rc = kernel_ppoll(l, n, &at_once, mask);

	if (rc != 0 || (ts != NULL && ts->tv_sec == 0 && ts->tv_nsec == 0))
		return rc;
	sleeps++;
	once(&at_sleep);
	rc = kernel_ppoll(l, n, &at_once, mask);
	assert_int_not_equal(rc, 0);
	return rc;
}

static int fake_poll(struct pollfd *l, nfds_t n, int ms)
{
	return fake_ppoll(l, n, ms == 0 ? &(const struct timespec){ 0 } : NULL, NULL);
}

/* A thread sleeps in recv(), too. */
static ssize_t fake_recv(int from, void *to, size_t n, int flags)
{
	struct pollfd l = { .fd = from, .events = POLLIN };

	if ((flags & MSG_DONTWAIT) == 0)
		(void)fake_ppoll(&l, 1, NULL, NULL);
	return kernel_recv(from, to, n, flags | MSG_DONTWAIT);
}

static ssize_t fake_send(int to, const void *from, size_t n, int flags)
{
	blocks++;
	return kernel_send(to, from, n, flags);
}

/* ---- what rnicd does ---- */

static void answer(uint32_t bit)
{
	uint8_t sink[2 * IPC_STREAM_BLOCK];

	if ((s->mem->want & bit) == 0)
		return;
	s->mem->want &= ~bit;
	if (bit == IPC_STREAM_WANT_IN)
		assert_int_equal(kernel_send(rnicd_fd, "", 1, MSG_DONTWAIT), 1);
	while (bit == IPC_STREAM_WANT_OUT && sock_libc.recv(rnicd_fd, sink, sizeof(sink), MSG_DONTWAIT) > 0)
		;
}

static void bytes_come(void)
{
	s->mem->rx_tail += 1000;
	answer(IPC_STREAM_WANT_IN);
}

static void room_comes(void)
{
	s->mem->tx_head = s->mem->tx_tail;
	answer(IPC_STREAM_WANT_OUT);
}

/* ---- */

static int begin(void **state)
{
	const int least = 1;
	int pair[2];

	(void)state;
	sock_libc_find();
	kernel_ppoll = sock_libc.ppoll;
	kernel_send = sock_libc.send;
	kernel_recv = sock_libc.recv;
	sock_libc.recv = fake_recv;
	sock_libc.ppoll = fake_ppoll;
	sock_libc.poll = fake_poll;
	sock_libc.send = fake_send;
	s = sock_new(AF_INET);
	if (s == NULL || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
		return -1;
	fd = pair[0];
	rnicd_fd = pair[1];
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)); /* as rnicd does: one block fills it */
	s->kind = SOCK_IS_STREAM;
	s->mem = mmap(NULL, IPC_STREAM_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->mem == MAP_FAILED)
		return -1;
	s->mem->state = IPC_STREAM_CONNECTED;
	sock_set(fd, s);
	now_ns = RN_NS_PER_S;
	bells = yields = sleeps = blocks = 0;
	at_turn = at_yield = at_ppoll = at_sleep = NULL;
	others_ns = 0;
	p = (struct pollfd){ .fd = fd };
	return 0;
}

static int end(void **state)
{
	(void)state;
	sock_set(fd, NULL);
	sock_put(s);
	return sock_libc.close(fd) | sock_libc.close(rnicd_fd);
}

static ssize_t receives(void)
{
	static uint8_t buf[1000];
	const struct iovec iov = { buf, sizeof(buf) };

	return sock_recv(s, fd, &iov, 1, 0);
}

static ssize_t sends(size_t n, int flags)
{
	static uint8_t buf[2 * IPC_STREAM_RING];
	const struct iovec iov = { buf, n };

	return sock_send(s, fd, &iov, 1, flags);
}

static void fill(void) { assert_int_equal(sends(2 * IPC_STREAM_RING, MSG_DONTWAIT), IPC_STREAM_RING); }

/* ---- nothing that comes is missed ---- */

/*
 * rnicd looks at `want` when bytes come. It finds no bit while the thread has not said yet that it will sleep, and the
 * thread's last look was before.
 */
static void bytes_that_come_between_the_last_look_and_the_sleep_are_seen(void **state)
{
	(void)state;
	p.events = POLLIN;
	at_turn = bytes_come;
	assert_int_equal(poll(&p, 1, -1), 1);
	assert_null(at_turn);
	assert_int_equal(p.revents, POLLIN);
	assert_int_equal(sleeps, 0);
}

static void others_take_the_bytes(void) { s->mem->rx_head = s->mem->rx_tail; }

static void bytes_come_and_others_take_them(void)
{
	bytes_come();
	at_ppoll = others_take_the_bytes;
	at_sleep = bytes_come;
}

static void a_thread_whose_bytes_another_one_has_taken_looks_again_and_sleeps(void **state)
{
	(void)state;
	p.events = POLLIN;
	at_turn = bytes_come_and_others_take_them;
	assert_int_equal(poll(&p, 1, -1), 1);
	assert_int_equal(sock_unread(s), 1000);
}

static void bytes_and_room_that_come_during_the_sleep_end_it(void **state)
{
	(void)state;
	p.events = POLLIN;
	at_sleep = bytes_come;
	assert_int_equal(poll(&p, 1, -1), 1);
	assert_int_equal(sleeps, 1);
	assert_int_equal(receives(), 1000);
	at_sleep = bytes_come; /* the descriptor shows the earlier bytes still */
	assert_int_equal(poll(&p, 1, -1), 1);
	assert_int_equal(sleeps, 2);
	fill();
	p.events = POLLOUT;
	at_sleep = room_comes;
	assert_int_equal(poll(&p, 1, -1), 1);
	assert_int_equal(sleeps, 3);
}

static void recv_and_send_sleep_until_bytes_and_room_come(void **state)
{
	(void)state;
	at_sleep = bytes_come;
	assert_int_equal(receives(), 1000);
	fill();
	at_sleep = room_comes;
	assert_int_equal(sends(1, 0), 1);
	assert_int_equal(sleeps, 2);
}

/* ---- a look costs less than a system call ---- */

/* The descriptor of a socket in an epoll set shows what the set reports, so it must become unwritable at once. */
static void a_full_buffer_costs_a_call_only_before_a_thread_sleeps(void **state)
{
	(void)state;
	fill();
	assert_int_equal(sends(1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	p.events = POLLOUT;
	at_yield = room_comes;
	assert_int_equal(poll(&p, 1, -1), 1);
	assert_int_equal(blocks, 0);
	fill();
	at_sleep = room_comes;
	assert_int_equal(poll(&p, 1, -1), 1);
	assert_int_equal(blocks, 1);
	sock_watch(s, fd);
	fill();
	assert_int_equal(blocks, 2);
}

/* rnicd tells of room when a quarter is free: with less, a thread that has found none would be woken too often. */
static void a_socket_that_was_full_is_writable_when_a_quarter_is_free(void **state)
{
	(void)state;
	fill();
	p.events = POLLOUT;
	s->mem->tx_head += OUT_ROOM - 1;
	assert_int_equal(poll(&p, 1, 0), 0);
	s->mem->tx_head++;
	answer(IPC_STREAM_WANT_OUT);
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_int_equal(sends(1, MSG_DONTWAIT), 1);
	s->mem->tx_head = s->mem->tx_tail - IPC_STREAM_RING + 1;
	assert_int_equal(poll(&p, 1, 0), 1); /* a send has found room since */
}

/* ---- how long a thread looks ---- */

static uint32_t yields_left;

static void bytes_come_later(void)
{
	if (--yields_left == 0)
		bytes_come();
	else
		at_yield = bytes_come_later;
}

/* Two programs on one CPU: the bytes are there when the other one leaves the CPU, after far more than 50 us. */
static void the_time_in_which_others_had_the_cpu_does_not_count(void **state)
{
	(void)state;
	others_ns = 300 * RN_NS_PER_US;
	yields_left = 3;
	at_yield = bytes_come_later;
	assert_int_equal(receives(), 1000);
	assert_int_equal(yields, 3);
	p.events = POLLIN;
	yields_left = 3;
	at_yield = bytes_come_later;
	assert_int_equal(poll(&p, 1, -1), 1);
	assert_int_equal(yields, 6);
	assert_int_equal(sleeps, 0);
}

static void a_thread_that_has_the_cpu_looks_for_about_50_us(void **state)
{
	(void)state;
	others_ns = RN_NS_PER_US;
	at_sleep = bytes_come;
	assert_int_equal(receives(), 1000);
	assert_in_range(yields, 40, 50);
	assert_in_range(now_ns, RN_NS_PER_S + 50 * RN_NS_PER_US, RN_NS_PER_S + 60 * RN_NS_PER_US);
	assert_int_equal(sleeps, 1);
}

static void a_thread_that_does_not_get_the_cpu_back_sleeps_at_once_for_a_while(void **state)
{
	(void)state;
	others_ns = 3 * RN_NS_PER_MS;
	for (uint32_t i = 0; i < 17; i++) {
		at_sleep = bytes_come;
		assert_int_equal(receives(), 1000);
		assert_int_equal(yields, 1);
	}
	assert_int_equal(sleeps, 17);
	others_ns = 0;
	at_yield = bytes_come;
	assert_int_equal(receives(), 1000);
	assert_int_equal(yields, 2);
}

static void poll_does_not_look_beyond_its_time(void **state)
{
	const struct timespec ts = { .tv_nsec = (long)(500 * RN_NS_PER_US) };

	(void)state;
	p.events = POLLIN;
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(yields, 0);
	others_ns = 600 * RN_NS_PER_US;
	yields_left = 2;
	at_yield = bytes_come_later;
	assert_int_equal(ppoll(&p, 1, &ts, NULL), 0);
	assert_int_equal(yields, 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(bytes_that_come_between_the_last_look_and_the_sleep_are_seen),
		CASE(a_thread_whose_bytes_another_one_has_taken_looks_again_and_sleeps),
		CASE(bytes_and_room_that_come_during_the_sleep_end_it),
		CASE(recv_and_send_sleep_until_bytes_and_room_come),
		CASE(a_full_buffer_costs_a_call_only_before_a_thread_sleeps),
		CASE(a_socket_that_was_full_is_writable_when_a_quarter_is_free),
		CASE(the_time_in_which_others_had_the_cpu_does_not_count),
		CASE(a_thread_that_has_the_cpu_looks_for_about_50_us),
		CASE(a_thread_that_does_not_get_the_cpu_back_sleeps_at_once_for_a_while),
		CASE(poll_does_not_look_beyond_its_time),
	};

	return cmocka_run_group_tests_name("how threads wait at streams", tests, NULL, NULL);
}
