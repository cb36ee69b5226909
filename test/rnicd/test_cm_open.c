/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that are opened while a worker has no memory to set up another one. The test plays the workers and the
 * clock.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "border/policy.h"
#include "control/cm.h"
#include "control/dev.h"
#include "control/oob.h"

#define WAITERS 3u

struct rnicd rnicd;

static struct client cl[WAITERS];
static struct cm_id id[WAITERS];
static struct rnicd_port port;
static struct rnicd_port_cfg port_cfg;

/* ---- functions that the files under test call ---- */

static int answer[WAITERS]; /* answer to the client's request: 0 or an errno; -1: none yet */

void client_ok(struct client *c) { answer[c - cl] = 0; }
void client_error(struct client *c, int err, const char *fmt, ...)
{
	(void)fmt;
	answer[c - cl] = err;
}
void client_hold(struct client *c) { c->under_way++; }
bool client_back(struct client *c)
{
	c->under_way--;
	return true;
}

struct cm_id *cm_find(struct client *c, uint32_t handle)
{
	(void)handle;
	return &id[c - cl];
}
void cm_request_leave(struct cm_id *i) { (void)i; }
void cm_set_state(struct cm_id *i, enum cm_state to) { i->state = to; }
void cm_wrong_state(struct client *c, const struct cm_id *i, const char *what)
{
	(void)c;
	(void)i;
	fail_msg("%s", what);
}
uint8_t cm_family_of(uint32_t dev) { return dev == 0 ? CM_IP4 : CM_IP6; }
#define PORT 50000u
static uint32_t ports_left, searches; /* free ports, from PORT on; searches: how often the next one was asked for */
uint16_t cm_port_next(uint32_t dev, uint32_t families)
{
	assert_int_equal(families, cm_family_of(dev));
	return ports_left == 0 ? 0 : (uint16_t)(PORT + searches++ % ports_left);
}
const char *cm_port_refusal(const struct client *c, uint32_t dev, uint16_t p)
{
	(void)c;
	(void)dev;
	(void)p;
	return NULL;
}
void cm_sidr_connect(struct client *c, struct cm_id *i)
{
	(void)c;
	(void)i;
}
void cm_sidr_accept(struct client *c, struct cm_id *i)
{
	(void)c;
	(void)i;
}
void cm_sidr_reject(struct client *c, struct cm_id *i)
{
	(void)c;
	(void)i;
}
void oob_conn_gone(struct cm_conn *k) { (void)k; }
struct qp_dev *dev_get(uint32_t index)
{
	(void)index;
	return NULL;
}
uint32_t conn_owner(const struct conn_addr *a)
{
	(void)a;
	return 0; /* all flows belong to worker 0 */
}
struct mpa_policy conn_policy(const struct rnicd_port *p)
{
	(void)p;
	return (struct mpa_policy){ .ird = 0 };
}

/* A queue pair moves to any worker at once. */
void client_qp_lend(struct client_qp *q, uint32_t worker, void *borrower, void (*then)(struct client_qp *q))
{
	q->worker = q->target = worker;
	q->borrower = borrower;
	then(q);
}
void client_qp_return(struct client_qp *q) { (void)q; }
void client_qp_rnr(struct client_qp *q, uint32_t retry, uint32_t timer)
{
	(void)q;
	(void)retry;
	(void)timer;
}
void client_qp_silence(struct client_qp *q, uint32_t timeout, uint32_t retry_cnt)
{
	(void)q;
	(void)timeout;
	(void)retry_cnt;
}
struct qp_tune client_qp_tune(const struct client_qp *q)
{
	(void)q;
	return (struct qp_tune){ .access = 0 };
}

static struct cmd *sent[WAITERS];
static uint32_t n_sent;
void cmd_send(struct cmd *c, uint32_t worker)
{
	assert_int_equal(worker, 0);
	assert_int_equal(c->type, CMD_CONN_OPEN);
	sent[n_sent++] = c;
}

static struct loop_timer *armed[WAITERS];
static uint32_t n_armed;
void loop_timer_arm(struct loop_timer *t, uint64_t when)
{
	(void)when;
	armed[n_armed++] = t;
}
uint64_t rnicd_now(void) { return 1; }
void rnicd_log(enum rnicd_log_level level, const char *fmt, ...)
{
	(void)level;
	(void)fmt;
}

/* ---- tests ---- */

/* The worker answers all its commands. */
static void answers(enum conn_verdict cv, enum qp_verdict qv)
{
	const uint32_t n = n_sent;
	struct cmd *now[WAITERS];

	for (uint32_t i = 0; i < n; i++)
		now[i] = sent[i];
	n_sent = 0;
	for (uint32_t i = 0; i < n; i++) {
		now[i]->open.cv = cv;
		now[i]->open.qv = qv;
		now[i]->done(now[i]);
	}
}

static void pauses_end(void)
{
	const uint32_t n = n_armed;
	struct loop_timer *now[WAITERS];

	for (uint32_t i = 0; i < n; i++)
		now[i] = armed[i];
	n_armed = 0;
	for (uint32_t i = 0; i < n; i++)
		now[i]->due(now[i]);
}

static void connects(uint32_t i)
{
	answer[i] = -1;
	cl[i].req = (struct ipc_msg){ .cm_connect = { .id = 1 } };
	cm_connect(&cl[i]);
}

static int begin(void **state)
{
	(void)state;
	rnicd.n_ports = rnicd.n_workers = 1;
	rnicd.port[0] = &port;
	port.cfg = &port_cfg;
	rnicd.setups = 16; /* a quarter is for connections being opened, half of which a user may have: two */
	rnicd.cfg.user_share = 50;
	user_start();
	assert_int_equal(user_share(USER_OPENINGS), 2);
	for (uint32_t i = 0; i < WAITERS; i++) {
		cl[i] = (struct client){ .state = CLIENT_READY, .user = user_get(0) };
		id[i] = (struct cm_id){ .c = &cl[i], .state = CM_ROUTE_KNOWN };
	}
	n_sent = n_armed = 0;
	ports_left = 1000;
	searches = 0;
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < WAITERS; i++) {
		if (id[i].conn != NULL)
			cm_conn_free(id[i].conn);
		user_put(cl[i].user);
	}
	return 0;
}

/* They are as many as fill the user's share. A connection that waits for memory keeps no other one waiting. */
static void all_that_wait_for_memory_try_again_when_their_pause_ends(void **state)
{
	(void)state;
	connects(0);
	connects(1);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(n_sent, 2);
		answers(CONN_QP, QP_NO_MEMORY);
		assert_int_equal(n_armed, 2);
		assert_true(user_has_room(cl[0].user, USER_OPENINGS, 0, 2));
		pauses_end();
	}
	assert_int_equal(n_sent, 2);
	connects(2); /* the share is used up: this one waits for the others */
	assert_int_equal(n_sent, 2);
	answers(CONN_OK, QP_OK);
	assert_int_equal(answer[0], 0);
	assert_int_equal(answer[1], 0);
	cm_conn_established(id[0].conn);
	pauses_end();
	answers(CONN_OK, QP_OK);
	assert_int_equal(answer[2], 0);
}

/* The local port of the first attempt is taken toward this peer: the second attempt counts like the first. */
static void another_port_is_tried_by_one_that_fills_the_users_share(void **state)
{
	(void)state;
	connects(0);
	connects(1);
	answers(CONN_IN_USE, QP_OK);
	assert_int_equal(n_armed, 0);
	assert_int_equal(n_sent, 2);
	answers(CONN_OK, QP_OK);
	assert_int_equal(answer[0], 0);
	assert_int_equal(answer[1], 0);
	assert_false(user_has_room(cl[0].user, USER_OPENINGS, 0, 1));
}

/* An id's own port that is denied is told; of the other ports the next one is tried. */
static void a_port_that_the_user_may_not_have_is_told(void **state)
{
	(void)state;
	id[0].has_port = true;
	id[0].local.port = 1023;
	connects(0);
	connects(1);
	answers(CONN_DENIED, QP_OK);
	assert_int_equal(answer[0], EACCES);
	assert_int_equal(answer[1], -1);
	assert_int_equal(n_sent, 1);
	answers(CONN_OK, QP_OK);
	assert_int_equal(answer[1], 0);
}

/* All but few ports are taken, and these have connections to the peer already. */
static void few_free_ports_are_tried_once_each(void **state)
{
	(void)state;
	for (ports_left = 0; ports_left < 4; ports_left++) {
		searches = 0;
		connects(0);
		for (uint32_t i = 0; i < ports_left; i++) {
			assert_int_equal(answer[0], -1);
			answers(CONN_IN_USE, QP_OK);
		}
		assert_int_equal(answer[0], ports_left == 0 ? EADDRNOTAVAIL : EADDRINUSE);
		assert_int_equal(searches, ports_left == 0 ? 0 : ports_left + 1);
	}
}

/* No port leads to the queue pair's worker. */
static void a_port_for_another_worker_is_looked_for_once_round(void **state)
{
	struct client_pd pd = { .dev = 0 };
	struct client_qp q = { .c = &cl[0], .pd = &pd, .worker = 1 };

	(void)state;
	ports_left = 3;
	cl[0].req = (struct ipc_msg){ .cm_connect = { .id = 1, .qp = table_add(&cl[0].qp, &q) } };
	cm_connect(&cl[0]);
	assert_int_equal(searches, 4);
	answers(CONN_OK, QP_OK);
	assert_int_equal(answer[0], 0);
	table_free(&cl[0].qp);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		T(all_that_wait_for_memory_try_again_when_their_pause_ends),
		T(another_port_is_tried_by_one_that_fills_the_users_share),
		T(a_port_that_the_user_may_not_have_is_told),
		T(few_free_ports_are_tried_once_each),
		T(a_port_for_another_worker_is_looked_for_once_round),
	};

	return cmocka_run_group_tests_name("cm_open", tests, NULL, NULL);
}
