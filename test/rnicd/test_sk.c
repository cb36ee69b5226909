/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports and the end of sockets (sk.c, sk_gram.c); the test plays the workers and the rest of the loop. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "border/bell.h"
#include "control/cm.h"
#include "control/dev.h"
#include "control/sk.h"

#define PORT  5000u
#define USERS 3u /* that may have doorbells */
#define MANY  (SK_SHARE_MAX + 8u)

/* ---- functions that the files under test call ---- */

static struct rnicd_port_cfg port_cfg[2];
static struct rnicd_port ports[2];
static struct client client, other;
static int user_a, user_b; /* their addresses are users */
static int status;         /* of the last answer */
static struct sk *made[2 * MANY];
static uint32_t n_made;
static int program_fd[2 * MANY]; /* the program's ends of their socket pairs; -1: closed */

static uint32_t lines; /* of the log */
void rnicd_log(enum rnicd_log_level level, const char *fmt, ...)
{
	(void)level;
	(void)fmt;
	lines++;
}
void client_error(struct client *c, int err, const char *fmt, ...)
{
	(void)c;
	(void)fmt;
	status = err;
}
void client_hold(struct client *c) { (void)c; }
bool client_back(struct client *c)
{
	(void)c;
	return true;
}
static uint64_t flows; /* in use */
bool user_take(struct user *u, enum user_table t, uint32_t index, uint64_t n)
{
	(void)u;
	(void)index;
	flows += t == USER_FLOWS ? n : 0;
	return true;
}
void user_give(struct user *u, enum user_table t, uint32_t index, uint64_t n)
{
	(void)u;
	(void)index;
	flows -= t == USER_FLOWS ? n : 0;
}
uint32_t user_bells_max(void) { return USERS; }
struct user *user_hold(struct user *u) { return u; }
void user_put(struct user *u) { (void)u; }
uint8_t user_tenant(const struct user *u) { return (const void *)u == &user_a ? 7 : 8; }
bool bell_watch(uint32_t worker, int fd, uint32_t events)
{
	(void)worker;
	(void)fd;
	(void)events;
	return true;
}
bool loop_add(struct loop_fd *f, int fd, uint32_t events)
{
	(void)events;
	f->fd = fd;
	return true;
}
void loop_del(struct loop_fd *f) { f->fd = -1; }
static struct loop_timer *armed;
void loop_timer_arm(struct loop_timer *t, uint64_t when)
{
	(void)when;
	armed = t;
}
void loop_timer_disarm(struct loop_timer *t)
{
	if (armed == t)
		armed = NULL;
}
struct fds_job *fds_closing(void) { return malloc(1); }
void fds_close(struct fds_job *closing, uid_t uid, int sock)
{
	(void)uid;
	free(closing);
	close(sock);
}
uint32_t dev_by_addr(const uint8_t ip[16])
{
	for (uint32_t d = 0; d < rnicd.n_ports; d++)
		if (memcmp(port_cfg[d].ip.b, ip, sizeof(port_cfg[d].ip.b)) == 0)
			return d;
	return UINT32_MAX;
}

/* The workers answer at once. */
void cmd_send_all(struct cmd *c)
{
	if (c->done != NULL)
		c->done(c);
}
static uint32_t closes, aborts; /* commands CMD_STREAM_CLOSE, and those of them with abort */
void cmd_send(struct cmd *c, uint32_t worker)
{
	(void)worker;
	closes += c->type == CMD_STREAM_CLOSE;
	aborts += c->type == CMD_STREAM_CLOSE && c->stream.abort;
	c->done(c);
}

struct sk *sk_make(struct client *c)
{
	struct sk *s = sk_new(c->user, sk_user_get(c), 0);

	assert_non_null(s);
	s->gone = true;
	return s;
}
struct sk *sk_find(struct client *c, uint64_t key, enum sk_state state)
{
	(void)c;
	(void)key;
	(void)state;
	return NULL;
}
void sk_hand_over(struct client *c, struct sk *s, bool with_memory)
{
	(void)c;
	(void)with_memory;
	assert_true(n_made < RN_ARRAY_LEN(made));
	program_fd[n_made] = s->fd;
	made[n_made++] = s;
	s->fd = -1;
	status = 0;
}

/* ---- tests ---- */

static int setup(void **state)
{
	(void)state;
	rnicd.n_workers = 1;
	rnicd.cfg.n_workers = 1;
	rnicd.n_ports = 2;
	for (uint32_t d = 0; d < 2; d++) {
		port_cfg[d] = (struct rnicd_port_cfg){ .ip = pkt_addr_ip4(0x0a000001 + d), .ud_port = 4793 };
		ports[d] = (struct rnicd_port){ .cfg = &port_cfg[d], .index = d };
		rnicd.port[d] = &ports[d];
	}
	client = (struct client){ .user = (struct user *)(void *)&user_a, .uid = 1000 };
	other = (struct client){ .user = (struct user *)(void *)&user_b, .uid = 1001 };
	n_made = 0;
	return 0;
}

/* The program closes its socket i, and the loop has not handled this yet. */
static void close_unseen(uint32_t i)
{
	if (program_fd[i] >= 0)
		close(program_fd[i]);
	program_fd[i] = -1;
}

static int teardown(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < n_made; i++) {
		close_unseen(i);
		if (made[i]->src.fd >= 0)
			made[i]->src.ready(&made[i]->src, EPOLLHUP);
	}
	sk_reap();
	return 0;
}

/* Binds a datagram socket to the port of a device, or of all devices: dev GRAM_ANY_DEV. Returns the errno. */
static int gram(struct client *c, uint32_t dev, uint32_t flags)
{
	struct ipc_addr a = { .port = PORT };

	if (dev != GRAM_ANY_DEV)
		memcpy(a.ip, port_cfg[dev].ip.b, sizeof(a.ip));
	c->req = (struct ipc_msg){ .type = IPC_SOCK_GRAM, .sock_gram = { .local = a, .flags = flags } };
	status = -1;
	sk_gram_request(c);
	return status;
}

static void a_worker_never_looks_at_more_than_so_many_sockets_of_a_port(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SK_SHARE_MAX - 1; i++)
		assert_int_equal(gram(&client, 0, IPC_GRAM_BALANCE), 0);
	assert_int_equal(gram(&client, GRAM_ANY_DEV, IPC_GRAM_BALANCE), 0);
	assert_int_equal(gram(&client, 0, IPC_GRAM_BALANCE), EADDRINUSE);
	assert_int_equal(gram(&client, GRAM_ANY_DEV, IPC_GRAM_BALANCE), EADDRINUSE);
	/* the other device has one socket, the one of all devices */
	assert_int_equal(gram(&client, 1, IPC_GRAM_BALANCE), 0);
	assert_int_equal(gram(&other, 1, IPC_GRAM_BALANCE), EADDRINUSE);
	close_unseen(7); /* as in a kernel, there is room at once */
	assert_int_equal(gram(&client, 0, IPC_GRAM_BALANCE), 0);
	assert_int_equal(gram(&client, 0, IPC_GRAM_BALANCE), EADDRINUSE);
}

static void sockets_with_a_port_of_the_kernels_are_no_more_than_so_many(void **state)
{
	static struct sk with[SK_SHARE_MAX + 1];

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(with); i++) {
		with[i].local.port = PORT;
		assert_int_equal(sk_gram_joins(&with[i]), i < SK_SHARE_MAX);
	}
	with[7].gone = true;
	assert_false(sk_gram_ends(PORT)); /* its worker has released it */
	with[7].gram = (struct gram *)(void *)&with[7];
	assert_true(sk_gram_ends(PORT) && !sk_gram_ends(PORT + 1));
	sk_gram_give_port(&with[7]);
	assert_true(sk_gram_joins(&with[SK_SHARE_MAX]));
	for (uint32_t i = 0; i < RN_ARRAY_LEN(with); i++)
		if (i != 7)
			sk_gram_give_port(&with[i]);
}

/* Binds a stream socket to the port of a device. */
static enum sk_port stream(struct client *c, uint32_t dev, bool shared)
{
	struct sk *s = sk_make(c);

	s->dev = dev;
	s->families = CM_IP4 | CM_IP6;
	s->local.port = PORT;
	s->balance = shared;
	const enum sk_port got = sk_take_port(s);
	if (got == SK_PORT_OK) {
		assert_true(sk_open(s));
		s->gone = false;
		sk_hand_over(c, s, false);
	} else {
		sk_settle(s);
	}
	return got;
}

static void bind_never_looks_at_more_than_so_many_sockets_of_a_port(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SK_SHARE_MAX; i++)
		assert_int_equal(stream(&client, 0, true), SK_PORT_OK);
	assert_int_equal(stream(&client, 0, true), SK_PORT_CROWDED);
	assert_int_equal(stream(&client, 0, false), SK_PORT_TAKEN);
	assert_int_equal(stream(&other, 0, true), SK_PORT_TAKEN);
	assert_int_equal(stream(&other, 1, true), SK_PORT_OK);
	close_unseen(7); /* as in a kernel, there is room at once */
	assert_int_equal(stream(&client, 0, true), SK_PORT_OK);
	assert_int_equal(stream(&client, 0, true), SK_PORT_CROWDED);
}

static void port_is_free_when_the_last_of_its_sockets_is_closed(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(stream(&client, 0, true), SK_PORT_OK);
	close_unseen(0);
	close_unseen(2);
	assert_int_equal(stream(&other, 0, false), SK_PORT_TAKEN);
	close_unseen(1);
	assert_int_equal(stream(&other, 0, false), SK_PORT_OK);
}

/* The worker knows whether the stream makes progress, so the control thread ends none, and the user's share has it. */
static void a_closed_stream_lasts_until_its_worker_ends_it(void **state)
{
	static int connection; /* its address is the worker's stream */
	const char *why;

	(void)state;
	assert_int_equal(stream(&client, 0, false), SK_PORT_OK);
	struct sk *s = made[0];
	sk_set_state(s, SK_STREAM);
	assert_true(sk_arm(s, &why));
	s->stream = (struct stream *)(void *)&connection;
	closes = aborts = 0;
	close_unseen(0);
	s->src.ready(&s->src, EPOLLHUP);
	if (armed != NULL)
		armed->due(armed);
	assert_int_equal(closes, 1);
	assert_int_equal(aborts, 0);
	assert_int_equal(flows, 1);
	s->stream = NULL;
	sk_settle(s);
	assert_int_equal(flows, 0);
}

/* The worker has ended the stream, and the control thread has not seen its event yet. */
static void port_of_a_failed_connect_is_free_when_the_socket_is_closed(void **state)
{
	static int connection;
	const char *why;

	(void)state;
	for (uint32_t failed = 0; failed < 2; failed++) {
		assert_int_equal(stream(&client, failed, false), SK_PORT_OK);
		struct sk *s = made[failed];
		sk_set_state(s, SK_STREAM);
		assert_true(sk_arm(s, &why));
		s->stream = (struct stream *)(void *)&connection;
		s->mem->state = IPC_STREAM_ENDED | (failed ? 0 : IPC_STREAM_CONNECTED);
		close_unseen(failed);
		assert_int_equal(stream(&client, failed, false), failed ? SK_PORT_OK : SK_PORT_TAKEN);
		s->stream = NULL;
		sk_settle(s);
	}
}

/* A peer connects and resets the connection again and again, and the program does not accept. */
static void connections_that_end_before_accept_leave_nothing(void **state)
{
	static int connection;

	(void)state;
	assert_int_equal(stream(&client, 0, false), SK_PORT_OK);
	struct sk *l = made[0];
	sk_set_state(l, SK_LISTENING);
	for (uint64_t key = UINT64_C(1) << 60; key < (UINT64_C(1) << 60) + 100; key++) {
		struct event_stream ev = { .bits = STREAM_ARRIVED,
					   .key = key,
					   .listener = l->owner.key,
					   .stream = (struct stream *)(void *)&connection };
		sk_event(&ev, 0);
		assert_int_equal(l->n_pending, 1);
		assert_int_equal(l->tokens, 1);
		ev.bits = STREAM_CLOSED;
		sk_event(&ev, 0);
		assert_int_equal(l->n_pending, 0);
		assert_int_equal(flows, 0);
		assert_null(sk_of(key));
	}
	sk_set_state(l, SK_BOUND);
}

static void each_user_s_streams_are_a_tenant_of_their_own(void **state)
{
	(void)state;
	const struct sk_user *a = sk_user_get(&client), *b = sk_user_get(&other);
	assert_non_null(a);
	assert_non_null(b);
	assert_int_equal(a->view[0]->tenant, 7);
	assert_int_equal(b->view[0]->tenant, 8);
}

static void further_users_do_not_use_up_descriptors(void **state)
{
	struct client c[USERS + 1] = {
		client, other, { .uid = 1002, .user = other.user }, { .uid = 1003, .user = other.user }
	};

	(void)state;
	lines = 0;
	for (uint32_t round = 0; round < 2; round++) { /* the same users come again */
		for (uint32_t i = 0; i < USERS; i++)
			assert_non_null(sk_user_get(&c[i]));
		assert_int_equal(lines, round);
		const int free_fd = dup(0);
		assert_null(sk_user_get(&c[USERS]));
		assert_int_equal(lines, 1); /* no second one so soon */
		close(free_fd);
		assert_int_equal(dup(0), free_fd);
		close(free_fd);
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_worker_never_looks_at_more_than_so_many_sockets_of_a_port),
		T(sockets_with_a_port_of_the_kernels_are_no_more_than_so_many),
		T(bind_never_looks_at_more_than_so_many_sockets_of_a_port),
		T(port_is_free_when_the_last_of_its_sockets_is_closed),
		T(a_closed_stream_lasts_until_its_worker_ends_it),
		T(port_of_a_failed_connect_is_free_when_the_socket_is_closed),
		T(connections_that_end_before_accept_leave_nothing),
		T(each_user_s_streams_are_a_tenant_of_their_own),
		T(further_users_do_not_use_up_descriptors),
	};

	return cmocka_run_group_tests_name("sk", tests, NULL, NULL);
}
