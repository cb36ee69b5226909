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
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "border/event.h"
#include "border/policy.h"
#include "sockets_rig.h"

#define PATIENCE 60000 /* ms */

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
	assert_int_equal(rnicd.port[0]->stats[0].syn_evicted, 1);
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

static void a_port_that_the_kernel_denies_is_no_port_in_use(void **state)
{
	const struct conn_addr at = { .local = rnicd.port[0]->cfg->ip, .remote = rnicd.port[1]->cfg->ip, .lport = 1 };
	const uid_t was = geteuid();
	struct rc_params p = { .owner = 1 };
	enum qp_verdict qv;
	struct rc *c;

	(void)state;
	assert_int_equal(seteuid(was == 0 ? 65534 : was), 0);
	const enum conn_verdict listen = listener(CMD_LISTEN, 0, 0, 1), open = ks_conn_open(&at, &p, &c, &qv);
	assert_int_equal(seteuid(was), 0);
	if (listen == CONN_OK) { /* the system allows all ports to all */
		assert_int_equal(listener(CMD_UNLISTEN, 0, 0, 1), CONN_OK);
		skip();
	}
	assert_int_equal(listen, CONN_DENIED);
	assert_int_equal(open, CONN_DENIED);
}

static void an_address_that_has_gone_stops_no_listener_at_the_others(void **state)
{
	struct rnicd_port_cfg *gone = &rnicd.cfg.port[1];
	const struct pkt_addr was = gone->ip;
	const uint16_t port = free_port();

	(void)state;
	gone->ip = pkt_addr_ip4(0xc0000201); /* 192.0.2.1, of documentation (RFC 5737) */
	assert_int_equal(listener(CMD_LISTEN, 0, 0, port), CONN_OK);
	assert_non_null(ks_listener(0, port));
	assert_null(ks_listener(1, port));
	assert_non_null(ks_listener(2, port));
	assert_int_equal(listener(CMD_UNLISTEN, 0, 0, port), CONN_OK);
	assert_int_equal(listener(CMD_LISTEN, 0, ~(1u << 1), port), CONN_NO_ROUTE);
	for (uint32_t devs = 3; devs < 8; devs++) {
		const uint16_t held = ks_hold(devs);
		assert_int_not_equal(held, 0);
		ks_hold_end(devs, held);
	}
	assert_int_equal(ks_hold(1u << 1), 0);
	gone->ip = was;
}

/* Unaccepted, the connection would keep its listener readable, and the progress thread busy. */
static void a_connection_for_which_there_is_no_descriptor_is_closed(void **state)
{
	const struct ks_listener how = { .lport = free_port(), .backlog = 16, .policy = conn_policy(rnicd.port[0]) };
	const uint64_t before = rnicd.port[0]->stats[0].rx_unanswered;
	struct rlimit was, none;
	char c;

	(void)state;
	assert_int_equal(ks_listen(&how), CONN_OK);
	const int at = ks_listener(0, how.lport)->src.fd;
	const int fd = dial(how.lport);
	assert_true(readable(at, PATIENCE));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	const int unused = dup(fd);
	close(unused);
	none = (struct rlimit){ .rlim_cur = (rlim_t)unused, .rlim_max = was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_true(ks_poll());
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_false(readable(at, 0));
	assert_true(readable(fd, PATIENCE));
	assert_true(recv(fd, &c, 1, MSG_DONTWAIT) <= 0 && errno != EAGAIN);
	assert_int_equal(rnicd.port[0]->stats[0].rx_unanswered, before + 1);
	close(fd);
	ks_unlisten(0, how.lport);
}

#define HALF 32u /* of 64 connections may be half open */

/* Peers connect, and send no MPA Request. */
static void the_oldest_silent_connection_makes_room_for_a_new_one(void **state)
{
	const struct ks_listener how = { .lport = free_port(), .backlog = 1, .policy = conn_policy(rnicd.port[0]) };
	const uint64_t before = rnicd.port[0]->stats[0].syn_evicted;
	int fd[HALF + 1];
	char c;

	(void)state;
	assert_int_equal(ks_listen(&how), CONN_OK);
	const int at = ks_listener(0, how.lport)->src.fd;
	for (uint32_t i = 0; i <= HALF; i++) {
		assert_int_equal(rnicd.port[0]->stats[0].syn_evicted, before);
		fd[i] = dial(how.lport);
		assert_true(readable(at, PATIENCE));
		while (readable(at, 0))
			assert_true(ks_poll());
	}
	assert_int_equal(rnicd.port[0]->stats[0].syn_evicted, before + 1);
	assert_true(readable(fd[0], PATIENCE));
	assert_int_equal(recv(fd[0], &c, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, ECONNRESET);
	for (uint32_t i = 1; i <= HALF; i++)
		assert_false(readable(fd[i], 0));
	ks_unlisten(0, how.lport);
	for (uint32_t i = 0; i <= HALF; i++)
		close(fd[i]);
	while (ks.n_conns != 0) {
		assert_true(ks_poll());
		(void)event_collect(64, no_event);
	}
}

/* ---- a FIN behind a set-up frame ---- */

static struct rc *asked; /* the connection whose MPA Request has come */

static void take_request(const struct event *ev)
{
	no_event(ev);
	if (ev->fx.type == QP_FX_CONNECT_REQUEST)
		asked = ev->fx.conn;
}

static uint32_t n_looks;

static uint32_t acks_nothing(const struct ks_src *s)
{
	(void)s;
	n_looks++;
	return 1;
}

/* This end rejects a connection, and its FIN waits for the acknowledgement of the Reply. */
static void a_peer_that_acknowledges_nothing_is_looked_at_seldom(void **state)
{
	const struct ks_listener how = { .lport = free_port(), .backlog = 1, .policy = conn_policy(rnicd.port[0]) };
	const struct pkt_addr ip = rnicd.port[0]->cfg->ip;
	const struct conn_addr to = { .local = ip, .remote = ip, .rport = how.lport };
	struct rc_params p = { .owner = 2, .policy = how.policy };
	struct ks_net net = ks_net_kernel;
	enum qp_verdict qv;
	struct rc *active;

	(void)state;
	assert_int_equal(ks_listen(&how), CONN_OK);
	assert_int_equal(ks_conn_open(&to, &p, &active, &qv), CONN_OK);
	while (asked == NULL) {
		assert_true(ks_poll());
		(void)event_collect(64, take_request);
	}
	struct ks_conn *c = ks_conn_of(asked);
	net.unacked = acks_nothing;
	ks.net = &net;
	assert_int_equal(rc_reject(&ks.rc, asked, NULL, 0), QP_OK);
	(void)ks_out(c);
	for (const uint64_t end = ks.now + RN_NS_PER_S; ks.now < end; ks.now = ks_conn_due(c))
		(void)ks_out(c);
	assert_in_range(n_looks, 10, 50);
	assert_false(c->fin_sent);
	ks.net = &ks_net_kernel;
	(void)ks_out(c);
	assert_true(c->fin_sent);
	while (ks.n_conns != 0) {
		assert_true(ks_poll());
		(void)event_collect(64, no_event);
	}
	ks_unlisten(0, how.lport);
}

/* ---- ports that are held for the connection manager ---- */

#define ALL_DEVS ((1u << DEVS) - 1)

/* A bit for each device on which another program can have the port. */
static uint32_t free_devs(uint16_t port)
{
	uint32_t devs = 0;

	for (uint32_t d = 0; d < DEVS; d++) {
		const union ks_sockaddr at = endpoint(LOOPBACK + d, port);
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (bind(fd, &at.sa, sizeof(at.v4)) == 0)
			devs |= 1u << d;
		close(fd);
	}
	return devs;
}

static void a_listener_takes_over_the_socket_that_holds_its_port(void **state)
{
	const uint16_t port = ks_hold(ALL_DEVS);

	(void)state;
	assert_int_not_equal(port, 0);
	assert_int_equal(free_devs(port), 0);
	assert_int_equal(listener(CMD_LISTEN, 0, 0, port), CONN_OK);
	close(dial(port));
	assert_int_equal(listener(CMD_UNLISTEN, 0, 0, port), CONN_OK);
	assert_int_equal(free_devs(port), ALL_DEVS);
}

static void a_port_that_is_given_back_on_one_device_stays_held_on_the_others(void **state)
{
	const uint16_t port = ks_hold(ALL_DEVS);

	(void)state;
	ks_hold_end(1u << 1, port);
	assert_int_equal(free_devs(port), 1u << 1);
	ks_hold_end(ALL_DEVS, port);
	assert_int_equal(free_devs(port), ALL_DEVS);
}

static uint16_t chosen; /* the port that the kernel chooses next; 0: any */

static bool open_chosen(struct ks_src *s, const struct conn_addr *a)
{
	struct conn_addr at = *a;

	if (at.lport == 0) {
		at.lport = chosen;
		chosen = 0;
	}
	return ks_net_kernel.open(s, &at);
}

/* An id holds a port of one device. For an id of all devices, the kernel chooses the same port on another device. */
static void a_port_that_one_id_holds_stays_held_when_another_id_cannot_have_it(void **state)
{
	struct ks_net net = ks_net_kernel;
	const uint16_t port = ks_hold(1u << 1);

	(void)state;
	assert_int_not_equal(port, 0);
	net.open = open_chosen;
	ks.net = &net;
	chosen = port;
	const uint16_t all = ks_hold(ALL_DEVS);
	ks.net = &ks_net_kernel;
	assert_int_equal(chosen, 0);
	assert_true(all != 0 && all != port);
	assert_int_equal(free_devs(all), 0);
	assert_int_equal(free_devs(port), ALL_DEVS & ~(1u << 1));
	ks_hold_end(1u << 1, port);
	ks_hold_end(ALL_DEVS, all);
	assert_int_equal(free_devs(port), ALL_DEVS);
}

static void two_interfaces_with_one_address_do_not_keep_a_port_from_each_other(void **state)
{
	struct rnicd_port_cfg *twin = &rnicd.cfg.port[1];
	const struct pkt_addr own = twin->ip;

	(void)state;
	twin->ip = rnicd.cfg.port[0].ip;
	const uint16_t port = ks_hold(ALL_DEVS);
	twin->ip = own;
	assert_int_not_equal(port, 0);
	assert_int_equal(free_devs(port), 1u << 1);
	ks_hold_end(ALL_DEVS, port);
}

static void a_child_of_fork_holds_no_port(void **state)
{
	const uint16_t port = ks_hold(ALL_DEVS);
	int told[2], ends[2];
	char c;

	(void)state;
	assert_true(pipe(told) == 0 && pipe(ends) == 0);
	const pid_t child = fork();
	if (child == 0) {
		close(ends[1]);
		ks_held_close();
		_exit(write(told[1], "x", 1) == 1 && read(ends[0], &c, 1) == 0 ? 0 : 1);
	}
	assert_int_equal(read(told[0], &c, 1), 1);
	ks_hold_end(ALL_DEVS, port);
	assert_int_equal(free_devs(port), ALL_DEVS);
	close(ends[1]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(ends[0]);
	close(told[0]);
	close(told[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(guest_that_makes_room_may_have_input),
		cmocka_unit_test(listener_ends_on_its_own_devices_only),
		cmocka_unit_test(listener_that_finds_its_port_in_use_ends_no_other_listener),
		cmocka_unit_test(a_port_that_the_kernel_denies_is_no_port_in_use),
		cmocka_unit_test(an_address_that_has_gone_stops_no_listener_at_the_others),
		cmocka_unit_test(a_connection_for_which_there_is_no_descriptor_is_closed),
		cmocka_unit_test(the_oldest_silent_connection_makes_room_for_a_new_one),
		cmocka_unit_test(a_peer_that_acknowledges_nothing_is_looked_at_seldom),
		cmocka_unit_test(a_listener_takes_over_the_socket_that_holds_its_port),
		cmocka_unit_test(a_port_that_is_given_back_on_one_device_stays_held_on_the_others),
		cmocka_unit_test(a_port_that_one_id_holds_stays_held_when_another_id_cannot_have_it),
		cmocka_unit_test(two_interfaces_with_one_address_do_not_keep_a_port_from_each_other),
		cmocka_unit_test(a_child_of_fork_holds_no_port),
	};

	return cmocka_run_group_tests(tests, sockets_begin, NULL);
}
