/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands and requests under way with a QP. The test plays the workers, the client and the QP's connection. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "control/client.h"
#include "control/oob.h"

#define WORKERS 3u

struct rnicd rnicd;

static struct client cl, other;
static struct client_pd pd;
static struct client_qp qp;
static struct qp engine_qp;
static struct worker_client view[WORKERS];
static uint8_t queues[4096] RN_ALIGNED(64);

/* ---- functions that the file under test calls ---- */

static struct cmd *sent;
static uint32_t sent_to, deaths, settled, parked, arrived, ended, refused;

void client_hold(struct client *c) { c->under_way++; }
void client_unhold(struct client *c)
{
	assert_int_not_equal(c->under_way, 0);
	c->under_way--;
	deaths += c->state == CLIENT_DYING && c->under_way == 0;
}

/* Called for another client's request that waited when the QP was destroyed. */
void client_error(struct client *c, int err, const char *fmt, ...)
{
	(void)fmt;
	assert_ptr_equal(c, &other);
	assert_int_equal(err, EIO);
	refused++;
}

void oob_settled(struct client_qp *q)
{
	assert_true(client_qp_is_free(q));
	settled++;
}

void cmd_send(struct cmd *c, uint32_t worker)
{
	assert_null(sent); /* one command at a time */
	sent = c;
	sent_to = worker;
}

uint32_t ud_owner(uint32_t port, uint32_t qpn) { return (port + qpn) % WORKERS; }

/* Plays the worker's answer. */
static void answer(enum cmd_type type, uint32_t worker)
{
	struct cmd *c = sent;

	assert_non_null(c);
	assert_int_equal(c->type, type);
	assert_int_equal(sent_to, worker);
	sent = NULL;
	c->done(c);
}

static int begin(void **state)
{
	(void)state;
	rnicd.n_workers = WORKERS;
	sent = NULL;
	deaths = settled = parked = arrived = ended = refused = 0;
	other = (struct client){ .state = CLIENT_READY };
	cl = (struct client){ .state = CLIENT_READY,
			      .region[IPC_REGION_QUEUES] = { .base = queues, .size = sizeof(queues) } };
	for (uint32_t i = 0; i < WORKERS; i++)
		cl.wc[i] = &view[i];
	qp = (struct client_qp){ .c = &cl, .pd = &pd, .qp = &engine_qp };
	client_qp_place(&qp);
	return 0;
}

static int end(void **state)
{
	(void)state;
	assert_null(sent);
	client_qp_unplace(&qp);
	return 0;
}

static void done(struct cmd *c) { client_qp_return(rn_container_of(c, struct client_qp, cmd)); }

static void then(struct client_qp *q)
{
	assert_int_equal(q->state, CLIENT_QP_HELD);
	assert_ptr_equal(q->borrower, &arrived);
	arrived++;
}

static void gone(struct client_qp *q)
{
	assert_true(client_qp_is_ending(q));
	ended++;
}

static void goes_on(struct client *c)
{
	(void)c;
	assert_true(client_qp_is_free(&qp));
	parked++;
}

/* ---- tests ---- */

static void command_holds_the_client_until_it_is_back(void **state)
{
	(void)state;
	assert_true(client_qp_is_free(&qp));
	client_qp_command(&qp, CMD_QP_WAITS, done);
	assert_false(client_qp_is_free(&qp));
	assert_int_equal(cl.under_way, 1);
	answer(CMD_QP_WAITS, qp.worker);
	assert_true(client_qp_is_free(&qp));
	assert_int_equal(cl.under_way, 0);
	assert_int_equal(settled, 1);
}

static void holding_twice_counts_once(void **state)
{
	(void)state;
	client_qp_hold(&qp);
	client_qp_command(&qp, CMD_CONN_JOIN, done);
	assert_int_equal(cl.under_way, 1);
	answer(CMD_CONN_JOIN, qp.worker);
	assert_int_equal(cl.under_way, 0);
}

static void request_that_waited_goes_on_before_the_connection(void **state)
{
	(void)state;
	client_qp_command(&qp, CMD_QP_MODIFY, done);
	qp.parked = goes_on;
	qp.parker = &cl;
	answer(CMD_QP_MODIFY, qp.worker);
	assert_int_equal(parked, 1);
	assert_int_equal(settled, 0);
	assert_null(qp.parked);
}

static void lent_qp_comes_to_the_wanted_worker(void **state)
{
	const uint32_t from = qp.worker, to = (from + 1) % WORKERS;

	(void)state;
	client_qp_lend(&qp, to, &arrived, then);
	assert_int_equal(qp.state, CLIENT_QP_LEAVING);
	answer(CMD_QP_LEAVE, from);
	sent->qp.later = false; /* the worker has had no turn in between, so the command is sent again */
	answer(CMD_QP_LATER, from);
	assert_int_equal(qp.worker, from);
	sent->qp.later = true;
	answer(CMD_QP_LATER, from);
	assert_int_equal(qp.state, CLIENT_QP_ARRIVING);
	assert_ptr_equal(sent->qp.client, &view[to]);
	assert_int_equal(arrived, 0);
	answer(CMD_QP_ARRIVE, to);
	assert_int_equal(arrived, 1);
	assert_int_equal(qp.worker, to);
	assert_int_equal(((struct qp_shm *)(void *)queues)->worker, to);
	/* the borrower may move the QP again; if the QP is at this worker already, the callback runs at once */
	client_qp_lend(&qp, to, &arrived, then);
	assert_int_equal(arrived, 2);
	assert_int_equal(cl.under_way, 1);
	client_qp_return(&qp);
	assert_int_equal(cl.under_way, 0);
	assert_int_equal(settled, 1);
}

static void lent_qp_with_a_connection_stays(void **state)
{
	const uint32_t from = qp.worker, to = (from + 1) % WORKERS;

	(void)state;
	client_qp_lend(&qp, to, &arrived, then);
	sent->qp.verdict = QP_BAD_STATE;
	answer(CMD_QP_LEAVE, from);
	assert_null(sent);
	assert_int_equal(arrived, 1);
	assert_int_equal(qp.worker, from);
	assert_int_equal(((struct qp_shm *)(void *)queues)->worker, from);
	assert_false(client_qp_is_there(&qp));
	/* at its own worker it may be used */
	client_qp_lend(&qp, from, &arrived, then);
	assert_int_equal(arrived, 2);
	assert_true(client_qp_is_there(&qp));
	client_qp_return(&qp);
	assert_int_equal(cl.under_way, 0);
}

static void death_waits_for_the_qp_and_wakes_nobody_else(void **state)
{
	(void)state;
	client_qp_command(&qp, CMD_QP_MODIFY, done);
	qp.parked = goes_on;
	qp.parker = &cl;
	cl.state = CLIENT_DYING;
	answer(CMD_QP_MODIFY, qp.worker);
	assert_int_equal(deaths, 1);
	assert_int_equal(parked + settled, 0);
}

/* The QP is an XRC target, which several clients have open. */
static void another_clients_request_holds_that_client_and_is_refused_at_the_end(void **state)
{
	(void)state;
	client_qp_ask(&qp, &other);
	client_qp_command(&qp, CMD_QP_MODIFY, done);
	assert_int_equal(other.under_way, 1);
	assert_ptr_equal(client_qp_asked(&qp), &other);
	assert_int_equal(other.under_way, 0);
	qp.parked = goes_on;
	qp.parker = &other;
	client_hold(&other);
	cl.state = CLIENT_DYING;
	answer(CMD_QP_MODIFY, qp.worker);
	assert_int_equal(refused, 1);
	assert_int_equal(other.under_way, 0);
	assert_int_equal(parked, 0);
}

static void destroyed_qp_is_over_one_turn_later(void **state)
{
	(void)state;
	cl.state = CLIENT_DYING;
	client_qp_destroy(&qp, gone);
	assert_true(client_qp_is_ending(&qp));
	assert_true(sent->qp.orphan);
	answer(CMD_QP_DESTROY, qp.worker);
	assert_int_equal(ended, 0);
	sent->qp.later = true;
	answer(CMD_QP_LATER, qp.worker);
	assert_int_equal(ended, 1);
	assert_int_equal(cl.under_way, 1); /* the callback must release the client */
}

static void new_qps_go_to_the_idlest_worker(void **state)
{
	struct client_qp more[2 * WORKERS];
	uint32_t n[WORKERS] = { 0 };

	(void)state;
	n[qp.worker]++;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(more); i++) {
		more[i] = (struct client_qp){ .c = &cl, .pd = &pd, .qp = &engine_qp };
		client_qp_place(&more[i]);
		n[more[i].worker]++;
	}
	for (uint32_t i = 0; i < WORKERS; i++)
		assert_in_range(n[i], 2, 3);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(more); i++)
		client_qp_unplace(&more[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(command_holds_the_client_until_it_is_back, begin, end),
		cmocka_unit_test_setup_teardown(holding_twice_counts_once, begin, end),
		cmocka_unit_test_setup_teardown(request_that_waited_goes_on_before_the_connection, begin, end),
		cmocka_unit_test_setup_teardown(lent_qp_comes_to_the_wanted_worker, begin, end),
		cmocka_unit_test_setup_teardown(lent_qp_with_a_connection_stays, begin, end),
		cmocka_unit_test_setup_teardown(death_waits_for_the_qp_and_wakes_nobody_else, begin, end),
		cmocka_unit_test_setup_teardown(another_clients_request_holds_that_client_and_is_refused_at_the_end,
						begin, end),
		cmocka_unit_test_setup_teardown(destroyed_qp_is_over_one_turn_later, begin, end),
		cmocka_unit_test_setup_teardown(new_qps_go_to_the_idlest_worker, begin, end),
	};

	return cmocka_run_group_tests_name("qp_run", tests, NULL, NULL);
}
