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
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "border/handed.h"
#include "ks_rig.h"
#include "sockets/ks_sk.h"

#define LOOPBACK 0x7f000001u
#define LISTENER 7u
#define CLIENT   8u
#define LEN      1000u
#define CONNS    1200u       /* that the plane has room for */
#define HALF     (CONNS / 2) /* of them may be half open */
#define PAIRS    520u        /* of connections that wait; without sockets, a plane sets up 1,024 connections at once */
#define FILES    1400u       /* descriptors that the tests of many connections need */
#define PATIENCE 60000       /* ms */
#define TURNS    10000u      /* far more than anything here takes */
#define LOOK_S   10u         /* seconds between two looks at a closed stream */
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
static uint32_t n_arrived; /* connections of the listener, since it listens */

/* ---- the control thread ---- */

static void take(const struct event *ev)
{
	const struct event_stream *e = &ev->stream;

	assert_int_equal(ev->type, EVENT_STREAM);
	if (e->bits & STREAM_ARRIVED) {
		assert_int_equal(e->listener, LISTENER);
		at[PASSIVE].s = e->stream;
		at[PASSIVE].key = e->key;
		n_arrived++;
	}
	for (uint32_t i = 0; i < ENDS; i++)
		if (at[i].key == e->key)
			at[i].told |= e->bits;
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
	void *mem = mmap(NULL, IPC_STREAM_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(mem != MAP_FAILED);
	return mem;
}

static void memory_free(struct ipc_stream *mem)
{
	if (mem != NULL)
		munmap(mem, IPC_STREAM_SIZE);
}

static void write_bytes(const struct end *e, uint32_t n)
{
	memset((uint8_t *)e->mem + IPC_STREAM_TX_OFF + e->mem->tx_tail, 'x', n);
	e->mem->tx_tail += n;
	ks.streams->touch(e->s);
}

/* A program listens. Returns its address. */
static union ks_sockaddr listener_begin(uint16_t backlog)
{
	union ks_sockaddr to = { .v4 = { AF_INET, 0, { htonl(LOOPBACK) }, { 0 } } };
	socklen_t len = sizeof(to.v4);
	struct conn_addr a = { .port = 0 };
	const int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memset(at, 0, sizeof(at));
	n_arrived = 0;
	assert_int_equal(bind(l, &to.sa, len), 0);
	assert_int_equal(listen(l, backlog), 0);
	assert_int_equal(getsockname(l, &to.sa, &len), 0);
	struct cmd c = { .type = CMD_STREAM_LISTEN,
			 .stream_listen = { .key = LISTENER, .backlog = backlog, .handed = hand_over(l, &a) } };
	carry_out(&c);
	assert_int_equal(c.stream_listen.verdict[0], CONN_OK);
	return to;
}

static void listener_end(void)
{
	struct cmd c = { .type = CMD_STREAM_UNLISTEN, .stream_listen = { .key = LISTENER } };

	carry_out(&c);
}

/* A socket of the kernel's connects. */
static int dial(const union ks_sockaddr *to)
{
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, &to->sa, sizeof(to->v4)), 0);
	return fd;
}

/* A program connects. */
static void client_begin(struct end *e, uint64_t key, uint32_t bit, const union ks_sockaddr *to)
{
	*e = (struct end){ .key = key, .mem = memory_new() };
	struct cmd c = { .type = CMD_STREAM_OPEN, .stream = { .key = key, .mem = e->mem, .user = &user, .bit = bit } };
	c.stream.handed = hand_over(dial(to), &c.stream.addr);
	carry_out(&c);
	assert_int_equal(c.stream.verdict, CONN_OK);
	e->s = c.stream.stream;
}

/* A program listens, and another one connects. The connection waits to be accepted. */
static void begin_pair(void)
{
	const union ks_sockaddr to = listener_begin(1);

	client_begin(&at[ACTIVE], CLIENT, ACTIVE, &to);
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

static void leave(const struct end *e, bool abort)
{
	struct cmd c = { .type = CMD_STREAM_CLOSE, .stream = { .stream = e->s, .key = e->key, .abort = abort } };

	carry_out(&c);
}

static void close_end(const struct end *e) { leave(e, false); }

static void end_pair(void)
{
	for (uint32_t i = 0; i < ENDS; i++)
		if ((at[i].told & STREAM_CLOSED) == 0)
			close_end(&at[i]);
	for (uint32_t i = 0; i < ENDS; i++) {
		wait_told(&at[i], STREAM_CLOSED);
		memory_free(at[i].mem);
	}
	listener_end();
	assert_int_equal(ks.n_conns, 0);
}

/* ---- connections that wait ---- */

static bool readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

static bool few_files; /* the system allows fewer descriptors than FILES */
static int silent[HALF + 1];

/* Peers connect, and send nothing. */
static void silence_begin(const union ks_sockaddr *to, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		silent[i] = dial(to);
		while (ks.n_conns != i + 1)
			turns(1);
	}
}

static void silence_end(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		close(silent[i]);
	while (ks.n_half_open != 0)
		turns(1);
}

static void await_arrivals(uint32_t n)
{
	for (uint32_t i = 0; i < TURNS && n_arrived < n; i++)
		turns(1);
	assert_int_equal(n_arrived, n);
}

/* A server does not accept: both ends of each connection are being set up, for as long as that takes. */
static void connections_that_no_program_has_accepted_leave_room_for_others(void **state)
{
	static struct end client[PAIRS];

	(void)state;
	if (few_files)
		skip();
	const union ks_sockaddr to = listener_begin(PAIRS);
	for (uint32_t i = 0; i < PAIRS; i++) {
		client_begin(&client[i], CLIENT + i, i, &to);
		await_arrivals(i + 1);
	}
	for (uint32_t i = 0; i < PAIRS; i++)
		leave(&client[i], true);
	while (ks.n_conns != 0)
		turns(1);
	for (uint32_t i = 0; i < PAIRS; i++)
		memory_free(client[i].mem);
	listener_end();
}

static void silent_peers_stop_no_listener(void **state)
{
	const uint32_t n = 65; /* a few more than the backlog */

	(void)state;
	const union ks_sockaddr to = listener_begin(1);
	silence_begin(&to, n);
	client_begin(&at[ACTIVE], CLIENT, ACTIVE, &to);
	await_arrivals(1);
	silence_end(n);
	end_pair();
}

static void the_oldest_of_many_silent_peers_makes_room_for_a_new_one(void **state)
{
	const struct rnicd_port_stats *st = &rnicd.port[0]->stats[0];
	char c;

	(void)state;
	if (few_files)
		skip();
	const union ks_sockaddr to = listener_begin(CONNS);
	silence_begin(&to, HALF);
	assert_int_equal(st->syn_evicted, 0);
	silent[HALF] = dial(&to);
	for (uint32_t i = 0; i < TURNS && st->syn_evicted == 0; i++)
		turns(1);
	assert_int_equal(st->syn_evicted, 1);
	turns(1);
	assert_int_equal(ks.n_conns, HALF);
	assert_true(readable(silent[0], PATIENCE));
	assert_int_equal(recv(silent[0], &c, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, ECONNRESET);
	assert_false(readable(silent[1], 0));
	client_begin(&at[ACTIVE], CLIENT, ACTIVE, &to);
	await_arrivals(1);
	silence_end(HALF + 1);
	end_pair();
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

static int keeps_alive(const struct end *e)
{
	socklen_t len = sizeof(int);
	int on = -1;

	assert_int_equal(getsockopt(e->s->c->src.fd, SOL_SOCKET, SO_KEEPALIVE, &on, &len), 0);
	return on;
}

/* There may be thousands of others: here no pointer in the other stream leads anywhere. */
static void a_command_about_a_stream_looks_at_no_other(void **state)
{
	const struct end *e = &at[PASSIVE];
	struct cmd unlisten = { .type = CMD_STREAM_UNLISTEN, .stream_listen = { .key = LISTENER } };
	struct cmd option = { .type = CMD_STREAM_OPTION,
			      .stream_option = { .level = SOL_SOCKET, .name = SO_KEEPALIVE, .value = 1 } };

	(void)state;
	begin_pair();
	while (ks_sk_more())
		turns(1);
	struct stream *other = at[ACTIVE].s, kept = *other;
	memset(other, 0xee, sizeof(*other));
	option.stream_option.stream = e->s;
	option.stream_option.key = e->key + 1;
	ks_sk_command(&option);
	assert_int_equal(keeps_alive(e), 0);
	option.stream_option.key = e->key;
	ks_sk_command(&option);
	assert_int_equal(keeps_alive(e), 1);
	ks_sk_command(&unlisten);
	*other = kept;
	end_pair();
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
	struct rlimit files;
	struct cmd c = { .type = CMD_STREAM_JOIN, .stream_join = &join };
	char err[256];

	(void)state;
	if (getrlimit(RLIMIT_NOFILE, &files) != 0)
		return -1;
	files.rlim_cur = rn_max_u64(files.rlim_cur, rn_min_u64(files.rlim_max, FILES));
	few_files = setrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur < FILES;
	rnicd.cfg.port[0] =
		(struct rnicd_port_cfg){ .name = "lo", .mtu = 1500, .mpa_rev = 2, .max_ird = 4, .max_ord = 4 };
	rnicd.cfg.port[0].ip = pkt_addr_ip4(LOOPBACK);
	rnicd.cfg.flows = CONNS;
	ks.net = &ks_net_kernel;
	ks.serves = true;
	ks_rig_take = take;
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
		cmocka_unit_test(a_command_about_a_stream_looks_at_no_other),
		cmocka_unit_test(connections_that_no_program_has_accepted_leave_room_for_others),
		cmocka_unit_test(silent_peers_stop_no_listener),
		cmocka_unit_test(the_oldest_of_many_silent_peers_makes_room_for_a_new_one),
		cmocka_unit_test(a_process_that_ends_gives_closed_streams_less_time),
	};

	return cmocka_run_group_tests_name("ks_sk", tests, begin, NULL);
}
