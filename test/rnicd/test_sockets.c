/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plane of an embedded program, over the kernel's sockets on loopback. The test plays the control thread and the
 * peers, and runs each turn itself: there is no progress thread.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "border/event.h"
#include "border/policy.h"
#include "sockets/ks_ud.h"

#define DEVS     3u
#define LOOPBACK 0x7f000001u /* address of device 0; device 1 has the next one, and so on */
#define PATIENCE 60000       /* ms */

static int begin(void **state)
{
	static const uint8_t mac[PKT_MAC_LEN] = { 2 };
	char err[256];

	(void)state;
	for (uint32_t i = 0; i < DEVS; i++) {
		rnicd.cfg.port[i] =
			(struct rnicd_port_cfg){ .name = "lo", .mtu = 1500, .mpa_rev = 2, .max_ird = 4, .max_ord = 4 };
		rnicd.cfg.port[i].ip = pkt_addr_ip4(LOOPBACK + i);
		if (!ks_port_add(mac))
			return -1;
	}
	rnicd.cfg.flows = 64;
	rnicd.cfg.record_timeout_ns = rnicd.cfg.record_linger_ns = RN_NS_PER_S;
	ks.net = &ks_net_kernel;
	return ks_start(err, sizeof(err)) ? 0 : -1;
}

/* ---- sockets of the test ---- */

static union ks_sockaddr endpoint(uint32_t ip, uint16_t port)
{
	return (union ks_sockaddr){ .v4 = { AF_INET, htons(port), { htonl(ip) }, { 0 } } };
}

static int listening(uint32_t ip, uint16_t port)
{
	const union ks_sockaddr at = endpoint(ip, port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, &at.sa, sizeof(at.v4)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

/* A TCP port that is not in use. */
static uint16_t free_port(void)
{
	int fd = listening(INADDR_ANY, 0);
	union ks_sockaddr at;
	socklen_t len = sizeof(at);

	assert_int_equal(getsockname(fd, &at.sa, &len), 0);
	close(fd);
	return ntohs(at.v4.sin_port);
}

static int dial(uint16_t port)
{
	const union ks_sockaddr to = endpoint(LOOPBACK, port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, &to.sa, sizeof(to.v4)), 0);
	return fd;
}

static bool readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

/* Sends an octet; returns when the peer's kernel has it. */
static void octet_to(int fd)
{
	int left = 1;

	assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), 1);
	while (left != 0)
		assert_int_equal(ioctl(fd, SIOCOUTQ, &left), 0);
}

/* ---- guests: connections at qp-port without an MPA Request ---- */

#define GUESTS 256u /* GUESTS_MAX of ks_pass.c: a further guest closes the oldest */

/*
 * The oldest guest has input when a further guest comes, and epoll reports the further one first: the listener has
 * input since before.
 */
static void guest_that_makes_room_may_have_input(void **state)
{
	const struct ks_listener how = {
		.lport = free_port(), .backlog = 16, .flags = RC_KEEP_RECV, .policy = conn_policy(rnicd.port[0])
	};
	int fd[GUESTS + 1];
	char c;

	(void)state;
	assert_int_equal(ks_listen(&how), CONN_OK);
	const int at = ks_listener(0, how.lport)->src.fd;
	for (uint32_t i = 0; i < GUESTS; i++) {
		fd[i] = dial(how.lport);
		assert_true(readable(at, PATIENCE));
		while (readable(at, 0))
			assert_true(ks_poll());
	}
	fd[GUESTS] = dial(how.lport);
	assert_true(readable(at, PATIENCE));
	octet_to(fd[0]);
	assert_true(ks_poll());
	assert_true(readable(fd[0], PATIENCE));
	assert_true(recv(fd[0], &c, 1, MSG_DONTWAIT) <= 0 && errno != EAGAIN);
	for (uint32_t i = 1; i <= GUESTS; i++)
		assert_false(readable(fd[i], 0));
	ks_unlisten(0, how.lport);
	for (uint32_t i = 0; i <= GUESTS; i++)
		close(fd[i]);
	while (readable(ks.ep, 0))
		assert_true(ks_poll());
}

/* ---- listeners ---- */

static void answered(struct cmd *c) { c->type = CMD_NOTHING; }
static void no_event(const struct event *ev) { assert_int_equal(ev->type, EVENT_FX); }

/* The plane carries out a command about the port on devices [first, DEVS) except those in the mask `without`. */
static enum conn_verdict listener(enum cmd_type type, uint32_t first, uint32_t without, uint16_t port)
{
	struct cmd c = { .type = type,
			 .done = answered,
			 .listen = { .first = first, .last = DEVS, .without = without, .lport = port, .owner = 1 } };

	cmd_send_all(&c);
	while (c.type != CMD_NOTHING) {
		assert_true(ks_poll());
		(void)event_collect(64, no_event);
	}
	return c.listen.verdict[0];
}

/* Two listeners for all addresses, one of each family, may have the same port. */
static void listener_ends_on_its_own_devices_only(void **state)
{
	const uint16_t port = free_port();

	(void)state;
	assert_int_equal(listener(CMD_LISTEN, 0, 1u << 1, port), CONN_OK);
	assert_int_equal(listener(CMD_LISTEN, 0, ~(1u << 1), port), CONN_OK);
	for (uint32_t d = 0; d < DEVS; d++)
		assert_non_null(ks_listener(d, port));
	assert_int_equal(listener(CMD_UNLISTEN, 0, ~(1u << 1), port), CONN_OK);
	assert_non_null(ks_listener(0, port));
	assert_null(ks_listener(1, port));
	assert_non_null(ks_listener(2, port));
	assert_int_equal(listener(CMD_UNLISTEN, 0, 1u << 1, port), CONN_OK);
	for (uint32_t d = 0; d < DEVS; d++)
		assert_null(ks_listener(d, port));
}

static void listener_that_finds_its_port_in_use_ends_no_other_listener(void **state)
{
	const uint16_t port = free_port();
	int other = listening(LOOPBACK + 2, port);

	(void)state;
	assert_int_equal(listener(CMD_LISTEN, 0, ~(1u << 1), port), CONN_OK);
	assert_int_equal(listener(CMD_LISTEN, 0, 1u << 1, port), CONN_IN_USE);
	assert_null(ks_listener(0, port));
	assert_non_null(ks_listener(1, port));
	assert_int_equal(listener(CMD_UNLISTEN, 0, ~(1u << 1), port), CONN_OK);
	assert_null(ks_listener(1, port));
	close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(guest_that_makes_room_may_have_input),
		cmocka_unit_test(listener_ends_on_its_own_devices_only),
		cmocka_unit_test(listener_that_finds_its_port_in_use_ends_no_other_listener),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
