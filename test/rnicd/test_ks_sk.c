/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream sockets over the kernel's TCP (ks_sk.h), both ends in one plane, on loopback. The test plays the control
 * thread and both programs, and runs each turn itself: there is no progress thread.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "border/event.h"
#include "border/handed.h"
#include "sockets/ks_sk.h"

#define LOOPBACK 0x7f000001u
#define LISTENER 7u
#define CLIENT   8u
#define LEN      1000u
#define LOOK_S   10u /* seconds between two looks at a closed stream */
#define END_NS   (5 * RN_NS_PER_S)

enum { ACTIVE, PASSIVE, ENDS };

/* A program's end of the connection. */
static struct end {
	struct stream *s;
	uint64_t key;
	struct ipc_stream *mem;
	uint32_t told; /* STREAM_* */
} at[ENDS];
static struct stream_user user;

/* ---- the control thread ---- */

static void answered(struct cmd *c) { c->type = CMD_NOTHING; }

static void take(const struct event *ev)
{
	const struct event_stream *e = &ev->stream;

	assert_int_equal(ev->type, EVENT_STREAM);
	if (e->bits & STREAM_ARRIVED) {
		assert_int_equal(e->listener, LISTENER);
		at[PASSIVE].s = e->stream;
		at[PASSIVE].key = e->key;
	}
	for (uint32_t i = 0; i < ENDS; i++)
		if (at[i].key == e->key)
			at[i].told |= e->bits;
}

static void turns(uint32_t n)
{
	while (n-- > 0) {
		assert_true(ks_poll());
		(void)event_collect(64, take);
	}
}

static void carry_out(struct cmd *c)
{
	c->done = answered;
	cmd_send_all(c);
	while (c->type != CMD_NOTHING)
		turns(1);
}

static void wait_told(const struct end *e, uint32_t bits)
{
	while ((e->told & bits) != bits)
		turns(1);
}

static void wait_state(const struct end *e, uint32_t bits)
{
	while ((e->mem->state & bits) != bits)
		turns(1);
}

static struct handed *hand_over(int fd, struct conn_addr *a)
{
	struct ipc_addr local = { .port = 0 };
	struct handed *h = NULL;
	char err[256];
	bool listens;

	assert_int_equal(ks_taker.keep(fd, &h, &local, &listens, err, sizeof(err)), 0);
	close(fd);
	memcpy(a->local.b, local.ip, sizeof(local.ip));
	a->lport = local.port;
	return h;
}

/* ---- both programs ---- */

static struct ipc_stream *memory_new(void)
{
	struct ipc_stream *mem = aligned_alloc(4096, IPC_STREAM_SIZE);

	assert_non_null(mem);
	memset(mem, 0, IPC_STREAM_SIZE);
	return mem;
}

static void write_bytes(const struct end *e, uint32_t n)
{
	memset((uint8_t *)e->mem + IPC_STREAM_TX_OFF + e->mem->tx_tail, 'x', n);
	e->mem->tx_tail += n;
	ks.streams->touch(e->s);
}

/* A program listens, and another one connects. The connection waits to be accepted. */
static void begin_pair(void)
{
	union ks_sockaddr to = { .v4 = { AF_INET, 0, { htonl(LOOPBACK) }, { 0 } } };
	socklen_t len = sizeof(to.v4);
	struct conn_addr a = { .port = 0 };
	const int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
		  c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memset(at, 0, sizeof(at));
	assert_int_equal(bind(l, &to.sa, len), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, &to.sa, &len), 0);
	struct cmd listening = { .type = CMD_STREAM_LISTEN,
				 .stream_listen = { .key = LISTENER, .backlog = 1, .handed = hand_over(l, &a) } };
	carry_out(&listening);
	assert_int_equal(listening.stream_listen.verdict[0], CONN_OK);
	assert_int_equal(connect(c, &to.sa, len), 0);
	at[ACTIVE].key = CLIENT;
	at[ACTIVE].mem = memory_new();
	struct cmd open = { .type = CMD_STREAM_OPEN,
			    .stream = { .key = CLIENT, .mem = at[ACTIVE].mem, .user = &user, .bit = ACTIVE } };
	open.stream.handed = hand_over(c, &open.stream.addr);
	carry_out(&open);
	assert_int_equal(open.stream.verdict, CONN_OK);
	at[ACTIVE].s = open.stream.stream;
	wait_told(&at[PASSIVE], STREAM_ARRIVED);
}

static void accept_pair(void)
{
	struct end *e = &at[PASSIVE];

	e->mem = memory_new();
	struct cmd adopt = { .type = CMD_STREAM_ADOPT,
			     .stream = {
				     .stream = e->s, .key = e->key, .mem = e->mem, .user = &user, .bit = PASSIVE } };
	carry_out(&adopt);
	assert_int_equal(adopt.stream.verdict, CONN_OK);
}

static void connect_pair(void)
{
	begin_pair();
	accept_pair();
	wait_state(&at[ACTIVE], IPC_STREAM_CONNECTED);
	write_bytes(&at[ACTIVE], LEN); /* the end that has connected speaks first */
	while (at[PASSIVE].mem->rx_tail != LEN)
		turns(1);
}

static void close_end(const struct end *e)
{
	struct cmd c = { .type = CMD_STREAM_CLOSE, .stream = { .stream = e->s, .key = e->key } };

	carry_out(&c);
}

static void end_pair(void)
{
	struct cmd c = { .type = CMD_STREAM_UNLISTEN, .stream_listen = { .key = LISTENER } };

	for (uint32_t i = 0; i < ENDS; i++)
		if ((at[i].told & STREAM_CLOSED) == 0)
			close_end(&at[i]);
	for (uint32_t i = 0; i < ENDS; i++) {
		wait_told(&at[i], STREAM_CLOSED);
		free(at[i].mem);
	}
	carry_out(&c);
	assert_int_equal(ks.n_conns, 0);
}

/* ---- tests ---- */

/* The time that the plane reads from the clock hardly moves meanwhile: *now is the time of the looks. */
static void pass_by(uint64_t *now, uint64_t step, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		turns(1);
		ks.now = *now += step;
		(void)ks_sk_timers();
		turns(1);
	}
}

static void pass(uint64_t *now, uint32_t seconds) { pass_by(now, LOOK_S * RN_NS_PER_S, seconds / LOOK_S); }

static void a_closed_stream_lasts_as_long_as_it_makes_progress(void **state)
{
	(void)state;
	begin_pair();
	write_bytes(&at[ACTIVE], LEN);
	close_end(&at[ACTIVE]);
	uint64_t now = ks.now;
	pass(&now, 190);
	accept_pair();
	wait_state(&at[PASSIVE], IPC_STREAM_PEER_FIN);
	assert_int_equal(at[PASSIVE].mem->rx_tail, LEN);
	pass(&now, 200);
	assert_int_equal(at[ACTIVE].told & STREAM_CLOSED, 0);
	pass(&now, 10);
	wait_told(&at[ACTIVE], STREAM_CLOSED);
	end_pair();
}

static void a_closed_stream_whose_peer_takes_nothing_is_given_up(void **state)
{
	(void)state;
	begin_pair();
	write_bytes(&at[ACTIVE], LEN);
	close_end(&at[ACTIVE]);
	uint64_t now = ks.now;
	pass(&now, 190);
	assert_int_equal(at[ACTIVE].told & STREAM_CLOSED, 0);
	pass(&now, 20);
	wait_told(&at[ACTIVE], STREAM_CLOSED);
	end_pair();
}

/* The process was stopped, perhaps, and the peer has not been silent for longer than a look. */
static void time_without_a_look_is_no_silence_of_the_peer(void **state)
{
	(void)state;
	begin_pair();
	write_bytes(&at[ACTIVE], LEN);
	close_end(&at[ACTIVE]);
	uint64_t now = ks.now;
	pass_by(&now, 300 * RN_NS_PER_S, 1);
	assert_int_equal(at[ACTIVE].told & STREAM_CLOSED, 0);
	pass(&now, 170);
	assert_int_equal(at[ACTIVE].told & STREAM_CLOSED, 0);
	pass(&now, 30);
	wait_told(&at[ACTIVE], STREAM_CLOSED);
	end_pair();
}

/* The program's SO_LINGER is librnicsock's. */
static void the_plane_closes_a_socket_without_lingering(void **state)
{
	const struct linger lingers = { 1, 1000 };
	struct linger l = { 0 };
	socklen_t len = sizeof(l);

	(void)state;
	connect_pair();
	const int fd = dup(at[ACTIVE].s->c->src.fd);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lingers, sizeof(lingers)), 0);
	at[PASSIVE].mem->rx_head = at[PASSIVE].mem->rx_tail; /* else a reset ends the connection */
	end_pair();
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &len), 0);
	assert_int_equal(l.l_onoff, 0);
	close(fd);
}

/* A program that has been told of the failure finds the port free. */
static void the_port_of_a_refused_stream_is_free_before_the_program_is_told(void **state)
{
	(void)state;
	begin_pair();
	struct ks_conn *c = at[ACTIVE].s->c;
	ks.streams->not_connected(at[ACTIVE].s, ECONNREFUSED);
	assert_int_equal(at[ACTIVE].mem->state & IPC_STREAM_ENDED, 0);
	assert_int_equal(c->src.fd, -1);
	wait_state(&at[ACTIVE], IPC_STREAM_ENDED);
	assert_int_equal(at[ACTIVE].mem->error, ECONNREFUSED);
	end_pair();
}

/* The kernel gives up a peer while the stream is idle. */
static void the_errno_of_a_peer_that_is_gone_is_the_kernels(void **state)
{
	static const int gone[] = { ETIMEDOUT, EHOSTUNREACH, ECONNRESET };

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(gone); i++) {
		connect_pair();
		ks_failed(at[PASSIVE].s->c, gone[i]);
		wait_state(&at[PASSIVE], IPC_STREAM_ENDED);
		assert_int_equal(at[PASSIVE].mem->error, gone[i]);
		end_pair();
	}
}

/*
 * The peer sends bytes and a reset, which the passive end has not read. It sends. queued: bytes that its socket has not
 * taken at once; else new bytes of its program.
 */
static void bytes_then_reset(bool queued)
{
	struct end *e = &at[PASSIVE];
	struct ks_conn *c;

	connect_pair();
	write_bytes(e, 1); /* this end may send now */
	while (at[ACTIVE].mem->rx_tail != 1)
		turns(1);
	c = e->s->c;
	write_bytes(&at[ACTIVE], LEN);
	(void)ks_sk_settle();
	(void)ks_out(at[ACTIVE].s->c);
	while (ks.net->unacked(&at[ACTIVE].s->c->src) != 0)
		poll(NULL, 0, 1);
	ks.net->reset(&at[ACTIVE].s->c->src);
	if (queued) {
		c->rest = calloc(1, sizeof(*c->rest) + 1);
		assert_non_null(c->rest);
		c->rest->len = 1;
		ks_writable(c);
	} else {
		write_bytes(e, 1);
		(void)ks_sk_settle();
		(void)ks_out(c);
	}
	assert_int_equal(c->state, KS_BROKEN);
	wait_state(e, IPC_STREAM_ENDED);
	assert_int_equal(e->mem->rx_tail, 2 * LEN);
	assert_int_equal(e->mem->error, ECONNRESET);
	end_pair();
}

static void bytes_before_a_reset_are_not_lost_to_a_send(void **state)
{
	(void)state;
	bytes_then_reset(true);
	bytes_then_reset(false);
}

/* The last test, since a process begins to end only once. */
static void a_process_that_ends_gives_closed_streams_less_time(void **state)
{
	const uint64_t step = END_NS / 20;
	uint64_t now;

	(void)state;
	for (uint32_t accepted = 0; accepted < 2; accepted++) {
		begin_pair();
		write_bytes(&at[ACTIVE], LEN);
		close_end(&at[ACTIVE]);
		now = ks.now;
		ks_sk_end_soon(END_NS);
		pass_by(&now, step, 18);
		assert_int_equal(at[ACTIVE].told & STREAM_CLOSED, 0);
		assert_true(ks_sk_any_left());
		if (accepted) {
			accept_pair();
			wait_state(&at[PASSIVE], IPC_STREAM_PEER_FIN);
			assert_int_equal(at[PASSIVE].mem->rx_tail, LEN);
		} else {
			pass_by(&now, step, 3);
		}
		wait_told(&at[ACTIVE], STREAM_CLOSED);
		assert_false(ks_sk_any_left());
		end_pair();
	}
}

static int begin(void **state)
{
	static const uint8_t mac[PKT_MAC_LEN] = { 2 };
	static struct stream_user *const join = &user;
	struct cmd c = { .type = CMD_STREAM_JOIN, .stream_join = &join };
	char err[256];

	(void)state;
	rnicd.cfg.port[0] =
		(struct rnicd_port_cfg){ .name = "lo", .mtu = 1500, .mpa_rev = 2, .max_ird = 4, .max_ord = 4 };
	rnicd.cfg.port[0].ip = pkt_addr_ip4(LOOPBACK);
	rnicd.cfg.flows = 16;
	ks.net = &ks_net_kernel;
	ks.serves = true;
	user.bell = calloc(1, sizeof(*user.bell));
	if (user.bell == NULL || !ks_port_add(mac) || !ks_start(err, sizeof(err)))
		return -1;
	carry_out(&c);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_closed_stream_lasts_as_long_as_it_makes_progress),
		cmocka_unit_test(a_closed_stream_whose_peer_takes_nothing_is_given_up),
		cmocka_unit_test(time_without_a_look_is_no_silence_of_the_peer),
		cmocka_unit_test(the_plane_closes_a_socket_without_lingering),
		cmocka_unit_test(the_port_of_a_refused_stream_is_free_before_the_program_is_told),
		cmocka_unit_test(the_errno_of_a_peer_that_is_gone_is_the_kernels),
		cmocka_unit_test(bytes_before_a_reset_are_not_lost_to_a_send),
		cmocka_unit_test(a_process_that_ends_gives_closed_streams_less_time),
	};

	return cmocka_run_group_tests_name("ks_sk", tests, begin, NULL);
}
