/* SPDX-License-Identifier: BSD-3-Clause */
/* Letters to another process of the user (ks_relay.h): here both ends are in this process. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "sockets/ks_relay.h"

#define LETTERS 500u  /* many times as many as Linux lets wait in a socket */
#define LONG    4000u /* bytes of a long letter */
#define MANY    5000u /* long letters, more than a relay keeps */

struct ks ks;

static struct rnicd_port port;
static struct ks_src *watched; /* the socket of the relay; NULL: there is none */

void ks_watch(struct ks_src *s, uint32_t events)
{
	assert_true(watched == NULL || watched == s);
	watched = events != 0 ? s : NULL;
	s->events = events;
}

static int in, by;
static struct ks_letter to_in; /* a letter with the address of `in` */

static int begin(void **state)
{
	const struct sockaddr_un any = { .sun_family = AF_UNIX };

	(void)state;
	memset(&ks, 0, sizeof(ks));
	memset(&port, 0, sizeof(port));
	rnicd.port[0] = &port;
	in = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	by = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	to_in = (struct ks_letter){ .to_len = sizeof(to_in.to), .fd = -1 };
	/* with no more than the family the kernel chooses a name */
	assert_int_equal(bind(in, (const struct sockaddr *)&any, sizeof(any.sun_family)), 0);
	assert_int_equal(getsockname(in, (struct sockaddr *)&to_in.to, &to_in.to_len), 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	close(in);
	close(by);
	assert_null(watched);
	return 0;
}

/* Sends letter number n: two parts, and a descriptor if fd >= 0. */
static enum ks_passed send_letter(uint32_t n, int fd, uint32_t len)
{
	static uint8_t body[LONG];
	struct ks_letter l = to_in;

	l.part[0] = (struct iovec){ &n, sizeof(n) };
	l.part[1] = (struct iovec){ body, len };
	l.parts = 2;
	l.fd = fd;
	memset(body, (int)(n & 0xff), len);
	return ks_relay(by, &l);
}

/* The same, for a letter that is sent or kept. */
static void send_good(uint32_t n, int fd, uint32_t len)
{
	const enum ks_passed v = send_letter(n, fd, len);

	assert_int_equal(v, watched == NULL ? KS_PASSED : KS_PASS_KEPT);
}

/* The process reads its next letter. *fd: a descriptor that came with it, or -1. The letter's number; -1: none. */
static int64_t next(uint32_t len, int *fd)
{
	static uint8_t body[LONG];
	uint32_t n = 0;
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} ctl;
	struct iovec part[2] = { { &n, sizeof(n) }, { body, sizeof(body) } };
	struct msghdr mh = {
		.msg_iov = part, .msg_iovlen = 2, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
	};
	const ssize_t got = recvmsg(in, &mh, MSG_CMSG_CLOEXEC);

	*fd = -1;
	if (got < 0)
		return -1;
	assert_int_equal(got, sizeof(n) + len);
	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(body[i], n & 0xff);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&mh); c != NULL; c = CMSG_NXTHDR(&mh, c))
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	return n;
}

static uint32_t descriptors(void)
{
	uint32_t n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Reads all letters as the process does: some, then the relay sends more. */
static uint32_t read_all(uint32_t len, bool with_fd)
{
	uint32_t read = 0;
	int64_t n;
	int fd;

	do {
		while ((n = next(len, &fd)) >= 0) {
			assert_int_equal(n, read++);
			assert_int_equal(fd >= 0, with_fd);
			if (fd >= 0)
				close(fd);
		}
		if (watched != NULL) {
			struct pollfd p = { .fd = watched->fd, .events = POLLOUT };
			assert_int_equal(poll(&p, 1, 0), 1);
			ks_relay_event(watched);
			n = 0;
		}
	} while (n >= 0);
	return read;
}

static void a_burst_arrives_whole_and_in_its_order(void **state)
{
	(void)state;
	for (uint32_t n = 0; n < LETTERS; n++)
		send_good(n, -1, 100);
	assert_non_null(watched); /* some letters wait, or this test shows nothing */
	struct pollfd p = { .fd = watched->fd, .events = POLLOUT };
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(read_all(100, false), LETTERS);
}

static void descriptors_go_with_their_letters(void **state)
{
	const uint32_t before = descriptors();

	(void)state;
	for (uint32_t n = 0; n < 50; n++)
		send_good(n, by, 0);
	assert_int_equal(read_all(0, true), 50);
	assert_int_equal(descriptors(), before);
}

static void a_process_that_reads_nothing_costs_bounded_memory(void **state)
{
	uint32_t sent = 0;

	(void)state;
	while (sent < MANY && send_letter(sent, -1, LONG) < KS_PASS_FULL)
		sent++;
	assert_in_range(sent, 100, MANY - 1);
	assert_int_equal(send_letter(sent, -1, LONG), KS_PASS_FULL);
	assert_int_equal(read_all(LONG, false), sent);
}

/* Whoever connects decides how many letters with descriptors there are. */
static void a_process_that_reads_nothing_costs_few_descriptors(void **state)
{
	const uint32_t before = descriptors();
	uint32_t sent = 0;

	(void)state;
	while (sent < MANY && send_letter(sent, by, 0) < KS_PASS_FULL)
		sent++;
	assert_in_range(descriptors() - before, 10, 100);
	assert_int_equal(read_all(0, true), sent);
	assert_int_equal(descriptors(), before);
	for (uint32_t n = 0; n < 50; n++)
		send_good(n, by, 0);
	assert_int_equal(read_all(0, true), 50);
}

static void what_waits_for_a_process_that_ends_is_counted_and_given_back(void **state)
{
	const uint32_t before = descriptors();

	(void)state;
	for (uint32_t n = 0; n < 30; n++)
		send_good(n, n % 2 == 0 ? by : -1, 10);
	close(in);
	assert_non_null(watched);
	struct pollfd p = { .fd = watched->fd, .events = POLLOUT };
	assert_int_equal(poll(&p, 1, 0), 1);
	ks_relay_event(watched);
	assert_null(watched);
	/* every other letter carries a connection; the socket had taken some of the letters */
	assert_in_range(ks.rc.qp.stats.ud_no_qp, 1, 15);
	assert_in_range(port.stats[0].rx_no_flow, 1, 15);
	assert_int_equal(descriptors(), before - 1);
	assert_int_equal(send_letter(0, -1, 10), KS_PASS_NOBODY);
	in = -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_burst_arrives_whole_and_in_its_order, begin, end),
		cmocka_unit_test_setup_teardown(descriptors_go_with_their_letters, begin, end),
		cmocka_unit_test_setup_teardown(a_process_that_reads_nothing_costs_bounded_memory, begin, end),
		cmocka_unit_test_setup_teardown(a_process_that_reads_nothing_costs_few_descriptors, begin, end),
		cmocka_unit_test_setup_teardown(what_waits_for_a_process_that_ends_is_counted_and_given_back, begin,
						end),
	};

	return cmocka_run_group_tests_name("relay", tests, NULL, NULL);
}
