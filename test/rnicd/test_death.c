/* SPDX-License-Identifier: BSD-3-Clause */
/* The death of a client, with workers and a clock that the test plays. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "border/news.h"
#include "control/client.h"
#include "control/cm.h"
#include "control/dev.h"
#include "control/why.h"

struct rnicd rnicd;

static struct client *cl; /* freed with its death */
static struct worker_client view;
static uint8_t memory[64];

/* ---- functions that the files under test call ---- */

static uint64_t now;
uint64_t rnicd_now(void) { return now; }

static struct loop_timer *armed; /* the one timer that runs; NULL: none */
static uint64_t due_at;
void loop_timer_arm(struct loop_timer *t, uint64_t when)
{
	armed = t;
	due_at = when;
}
void loop_timer_disarm(struct loop_timer *t)
{
	(void)t;
	armed = NULL;
}

#define UID    1000u /* of the client */
#define TENANT 9u    /* of the user of the client */

/* The command under way, and the numbers of the commands of two types so far. */
static struct cmd *sent;
static uint32_t looks, leaves;
void cmd_send_all(struct cmd *c)
{
	assert_null(sent);
	sent = c;
	looks += c->type == CMD_CLIENT_REFERS;
	if (c->type == CMD_CLIENT_REFERS)
		assert_int_equal(c->refers.tenant, TENANT);
	leaves += c->type == CMD_CLIENT_DEL;
}

/* Of the client's objects there are only queue pairs and memory regions, if any. The worker ends queue pairs later. */
static uint32_t ending[4096], n_ending; /* handles */
void client_qp_end(struct client_qp *q)
{
	assert_true(n_ending < RN_ARRAY_LEN(ending));
	ending[n_ending++] = q->handle;
	client_hold(cl);
}
static uint32_t freed;
void client_mr_free(struct client *c, struct client_mr *mr)
{
	table_del(&c->mr, mr->handle);
	freed++;
}

/* The client has no other objects: these functions have nothing to do. */
bool cm_client_dies(struct client *c)
{
	(void)c;
	return true;
}
void cm_client_conns(struct client *c) { (void)c; }
void client_reaches_leave(struct client *c) { (void)c; }
void client_targets_leave(struct client *c) { (void)c; }
void client_srqs_withdraw(struct client *c) { (void)c; }
void client_xrcds_leave(struct client *c) { (void)c; }
bool client_pds_leave(struct client *c)
{
	(void)c;
	return true;
}
void client_mr_void(struct client_mr *mr) { (void)mr; }
void client_mw_free(struct client *c, struct client_mw *mw)
{
	(void)c;
	(void)mw;
}
void client_srq_free(struct client_srq *s) { (void)s; }
void client_cq_free(struct client_cq *q) { (void)q; }
void client_chan_free(struct client_chan *ch) { (void)ch; }
void client_pds_free(struct client *c) { (void)c; }
void client_imports_free(struct client *c) { (void)c; }
void client_keepers_reap(void) {}
void client_host_gone(struct client *host) { (void)host; }
void qp_mw_close(struct qp_dev *d, uint32_t stag)
{
	(void)d;
	(void)stag;
}
struct qp_dev *dev_get(uint32_t index)
{
	(void)index;
	return NULL;
}

static uint64_t addresses; /* of the client */
void client_addresses_give(struct client *c, uint64_t n)
{
	c->addresses -= n;
	addresses -= n;
}
void client_forget_workers(struct client *c) { c->wc[0] = NULL; }
void client_forget_regions(struct client *c) { (void)c; }
static bool unmapped;
void client_unmap(struct client *c)
{
	c->region[IPC_REGION_QUEUES].base = NULL;
	unmapped = true;
}
bool client_is_unmapped(const struct client *c)
{
	(void)c;
	return unmapped;
}

/* The socket, the log and the user's share. */
void loop_del(struct loop_fd *f) { f->fd = -1; }
void loop_events(struct loop_fd *f, uint32_t events)
{
	(void)f;
	(void)events;
}
void fds_cancel(uint64_t key) { (void)key; }
static int closed; /* the socket that was closed; -1: none */
void fds_close(struct fds_job *closing, uid_t uid, int sock)
{
	(void)uid;
	free(closing);
	close(sock);
	closed = sock;
}
bool fds_open(uint64_t key, int sock, int dir, const struct fds_mapping *m)
{
	(void)key;
	(void)sock;
	(void)dir;
	(void)m;
	return false;
}
void news_add(enum news_kind kind, const char *fmt, ...)
{
	(void)kind;
	(void)fmt;
}
void rnicd_log(enum rnicd_log_level level, const char *fmt, ...)
{
	(void)level;
	(void)fmt;
}
void why_quota(uint32_t client, int pid, const char *sentence)
{
	(void)client;
	(void)pid;
	(void)sentence;
}
bool user_take(struct user *u, enum user_table table, uint32_t index, uint64_t n)
{
	(void)u;
	(void)table;
	(void)index;
	(void)n;
	return true;
}
void user_give(struct user *u, enum user_table table, uint32_t index, uint64_t n)
{
	(void)u;
	(void)table;
	(void)index;
	(void)n;
}
uint8_t user_tenant(const struct user *u)
{
	(void)u;
	return TENANT;
}
void user_put(struct user *u) { (void)u; }
void user_free(struct user *u, void *p)
{
	(void)u;
	free(p);
}

/* ---- tests ---- */

/* The workers answer the command under way; found: a connection has bytes of the client to send. */
static void answer(enum cmd_type type, bool found)
{
	struct cmd *c = sent;

	assert_non_null(c);
	assert_int_equal(c->type, type);
	sent = NULL;
	if (type == CMD_CLIENT_REFERS)
		c->refers.found = found;
	c->done(c);
}

/* Some turns of the loop in which no time passes. */
static void turns(void)
{
	for (int i = 0; i < 5; i++)
		client_reap();
}

static void the_timer_is_due(void)
{
	struct loop_timer *t = armed;

	assert_non_null(t);
	now = due_at;
	armed = NULL;
	t->due(t);
}

static int begin(void **state)
{
	(void)state;
	now = 1;
	armed = NULL;
	sent = NULL;
	looks = leaves = 0;
	unmapped = false;
	rnicd.n_workers = 1;
	cl = calloc(1, sizeof(*cl));
	assert_non_null(cl);
	*cl = (struct client){ .state = CLIENT_READY,
			       .uid = UID,
			       .src.fd = -1,
			       .wc[0] = &view,
			       .joined = true,
			       .shared = true,
			       .addresses = sizeof(memory),
			       .region[IPC_REGION_QUEUES] = { .base = memory, .size = sizeof(memory) } };
	rn_list_push_front(&clients.all, &cl->link);
	clients.n = 1;
	clients.stopping = false;
	closed = -1;
	addresses = cl->addresses;
	return 0;
}

/* Makes cl a client with a socket and with nothing else. Returns the client's end. */
static int with_a_socket(void)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	cl->state = CLIENT_SOCKETS;
	cl->joined = cl->shared = cl->counted = false;
	cl->closing = malloc(1);
	cl->src.fd = pair[0];
	return pair[1];
}

static void pass_a_descriptor(void)
{
	struct ipc_msg m = { .status = 0 };
	const int fd = STDERR_FILENO;

	client_answer_fds(cl, &m, IPC_MSG_HDR, &fd, 1);
}

static int read_answer(int sock)
{
	struct ipc_msg m;
	unsigned n = 1;
	int fd = -1, rc = ipc_recv(sock, &m, &fd, &n);

	if (fd >= 0)
		close(fd);
	return rc;
}

static void client_that_reads_gets_any_number_of_descriptors(void **state)
{
	(void)state;
	int sock = with_a_socket();
	for (int i = 0; i < 3; i++) {
		pass_a_descriptor();
		assert_int_equal(read_answer(sock), 0);
	}
	assert_int_equal(cl->state, CLIENT_SOCKETS);
	close(sock);
	client_die(cl);
	assert_int_not_equal(closed, -1);
	turns();
	assert_int_equal(clients.n, 0);
}

/* Descriptors that nobody reads count against a limit of all sockets of rnicd. */
static void client_has_one_unread_answer_with_descriptors_and_keeps_its_place_until_it_reads_it(void **state)
{
	struct ipc_msg m = { .status = 0 };

	(void)state;
	int sock = with_a_socket(), rnicds = cl->src.fd;
	pass_a_descriptor();
	client_answer(cl, &m, IPC_MSG_HDR); /* an answer without descriptors may follow */
	assert_int_equal(cl->state, CLIENT_SOCKETS);
	pass_a_descriptor();
	assert_int_equal(cl->state, CLIENT_DYING);
	for (int i = 0; i < 3; i++) {
		turns();
		assert_int_equal(clients.n, 1);
		assert_int_equal(closed, -1);
		assert_true(due_at - now >= 100 * RN_NS_PER_MS); /* it may let rnicd wait for good */
		the_timer_is_due();
	}
	assert_int_equal(read_answer(sock), 0);
	assert_int_equal(read_answer(sock), 0);
	assert_int_equal(read_answer(sock), -EPIPE);
	turns();
	assert_int_equal(clients.n, 0);
	assert_int_equal(closed, rnicds);
	close(sock);
}

static void client_that_closes_its_socket_has_no_unread_answer(void **state)
{
	(void)state;
	int sock = with_a_socket();
	pass_a_descriptor();
	close(sock);
	client_die(cl);
	turns();
	assert_int_equal(clients.n, 0);
	assert_int_not_equal(closed, -1);
}

static void end_of_rnicd_waits_for_no_unread_answer(void **state)
{
	(void)state;
	int sock = with_a_socket();
	pass_a_descriptor();
	clients.stopping = true;
	client_die(cl);
	turns();
	assert_int_equal(clients.n, 0);
	close(sock);
}

/* Each look takes the time of all workers: between two looks is a pause, whatever else happens meanwhile. */
static void workers_look_for_unsent_bytes_once_in_a_pause(void **state)
{
	(void)state;
	client_die(cl);
	turns();
	answer(CMD_CLIENT_DEL, false);
	turns();
	for (uint32_t look = 1; look <= 3; look++) {
		assert_int_equal(looks, look);
		answer(CMD_CLIENT_REFERS, true);
		turns();
		assert_int_equal(looks, look); /* the pause has not ended */
		client_death_soon(cl);         /* another client has returned a PD */
		turns();
		assert_int_equal(looks, look);
		assert_in_range(due_at - now, RN_NS_PER_MS, RN_NS_PER_S);
		the_timer_is_due();
		turns();
	}
	assert_false(unmapped);
	answer(CMD_CLIENT_REFERS, false);
	turns();
	assert_true(unmapped);
	assert_int_equal(addresses, 0);
	assert_int_equal(leaves, 1);
	assert_int_equal(clients.n, 0);
}

/* Each turn ends some, so that the control thread serves others between them. */
static void thousands_of_objects_end_in_parts(void **state)
{
	enum { QPS = 3000, MRS = 10000 };
	static struct client_qp qp[QPS];
	static struct client_mr mr[MRS];

	(void)state;
	for (uint32_t i = 0; i < QPS; i++)
		qp[i].handle = table_add(&cl->qp, &qp[i]);
	for (uint32_t i = 0; i < MRS; i++)
		mr[i].handle = table_add(&cl->mr, &mr[i]);
	cl->joined = cl->shared = false;
	client_die(cl);
	for (uint32_t n = 0; n < QPS; n += n_ending) {
		n_ending = 0;
		client_reap();
		assert_in_range(n_ending, 1, 1024);
		assert_int_equal(freed, 0);
		for (uint32_t i = 0; i < n_ending; i++) {
			table_del(&cl->qp, ending[i]);
			client_unhold(cl);
		}
	}
	for (uint32_t n = 0; n < MRS; n += freed) {
		freed = 0;
		client_reap();
		assert_in_range(freed, 1, 4096);
		if (armed != NULL)
			the_timer_is_due();
	}
	turns();
	assert_int_equal(clients.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(workers_look_for_unsent_bytes_once_in_a_pause, begin),
		cmocka_unit_test_setup(client_that_reads_gets_any_number_of_descriptors, begin),
		cmocka_unit_test_setup(
			client_has_one_unread_answer_with_descriptors_and_keeps_its_place_until_it_reads_it, begin),
		cmocka_unit_test_setup(client_that_closes_its_socket_has_no_unread_answer, begin),
		cmocka_unit_test_setup(end_of_rnicd_waits_for_no_unread_answer, begin),
		cmocka_unit_test_setup(thousands_of_objects_end_in_parts, begin),
	};

	return cmocka_run_group_tests_name("death", tests, NULL, NULL);
}
