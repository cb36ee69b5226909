/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that wait for a neighbour (client_reach.c). The test plays the worker, the clock and the clients. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/client.h"

#define CLIENTS 600u
#define PUT_OFF 16u /* requests of a client that do not hold up others */

struct rnicd rnicd;

static struct client cl[CLIENTS];
static struct rnicd_port port;
static struct rnicd_port_cfg cfg = { .ip.b = { [10] = 0xff, 0xff, 10, 77, 0, 1 }, .prefix_len = 96 + 24 };

/* ---- functions that the file under test calls ---- */

static struct cmd *sent[CLIENTS]; /* commands that the worker has not answered */
static uint32_t n_sent;
void cmd_send(struct cmd *c, uint32_t worker)
{
	assert_int_equal(worker, 0);
	assert_int_equal(c->type, CMD_NEIGH);
	assert_true(n_sent < CLIENTS);
	sent[n_sent++] = c;
}

static uint32_t timers;                /* that run */
static struct loop_timer *armed_first; /* of a request */
static struct loop_timer *armed_now;   /* due in the next turn */
uint64_t rnicd_now(void) { return 1; }
void loop_timer_arm(struct loop_timer *t, uint64_t when)
{
	if (when <= rnicd_now()) {
		armed_now = t;
		return;
	}
	if (armed_first == NULL)
		armed_first = t;
	timers++;
	t->t.when = when;
}
void loop_timer_disarm(struct loop_timer *t)
{
	timers -= t->t.when != 0 ? 1 : 0;
	t->t.when = 0;
}

void client_hold(struct client *c) { c->under_way++; }
bool client_back(struct client *c)
{
	c->under_way--;
	return c->state != CLIENT_DYING;
}
void client_put_off(struct client *c) { c->busy = false; }
void client_error(struct client *c, int err, const char *fmt, ...)
{
	(void)c;
	fail_msg("%d: %s", err, fmt);
}

static uint32_t answers, last_seq;
static int last_err;
void client_answer_late(struct client *c, const struct client_late *late, int err, const char *text)
{
	assert_int_equal(late->type, IPC_REACH);
	assert_int_equal(text[0] == '\0', err == 0);
	assert_int_not_equal(c->state, CLIENT_DYING);
	if (!late->put_off)
		c->busy = false;
	answers++;
	last_seq = late->seq;
	last_err = err;
}

/* ---- tests ---- */

static int setup(void **state)
{
	(void)state;
	rnicd.n_ports = 1;
	rnicd.port[0] = &port;
	port.cfg = &cfg;
	memset(cl, 0, sizeof(cl));
	n_sent = timers = answers = 0;
	armed_first = armed_now = NULL;
	return 0;
}

/* Nothing is left of any request. */
static int teardown(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < CLIENTS; i++)
		assert_true(cl[i].under_way == 0 && cl[i].put_off == 0 && rn_list_empty(&cl[i].reaches));
	assert_int_equal(timers, 0);
	return 0;
}

static struct pkt_addr host(uint8_t last)
{
	struct pkt_addr a = cfg.ip;

	a.b[15] = last;
	return a;
}

static void ask(struct client *c, uint32_t seq, uint8_t last)
{
	const struct pkt_addr a = host(last);

	assert_false(c->busy);
	c->req = (struct ipc_msg){ .type = IPC_REACH, .seq = seq };
	memcpy(c->req.reach.ip, a.b, sizeof(a.b));
	c->busy = true;
	client_reach(c);
}

/* The worker answers all commands. */
static void work(enum neigh_verdict v)
{
	const uint32_t n = n_sent;

	n_sent = 0;
	for (uint32_t i = 0; i < n; i++) {
		sent[i]->neigh.verdict = v;
		sent[i]->done(sent[i]);
	}
}

static void neighbour(uint8_t last, int status)
{
	client_reach_neigh(&(struct event_neigh){ .addr = host(last), .status = status });
}

static void a_silent_neighbour_holds_up_no_other_request(void **state)
{
	(void)state;
	ask(&cl[0], 7, 8);
	assert_false(cl[0].busy);
	work(NEIGH_WAIT);
	ask(&cl[0], 8, 9);
	work(NEIGH_READY); /* a later request is answered first */
	assert_true(answers == 1 && last_seq == 8 && last_err == 0);
	cl[0].req.seq = 9; /* another request is under way */
	cl[0].busy = true;
	neighbour(9, 0);
	neighbour(8, -EHOSTUNREACH);
	assert_true(answers == 2 && last_seq == 7 && last_err == EHOSTUNREACH);
	assert_true(cl[0].busy);
}

static void the_result_may_come_before_the_workers_answer(void **state)
{
	(void)state;
	ask(&cl[0], 7, 8);
	neighbour(8, 0);
	assert_int_equal(answers, 0);
	work(NEIGH_WAIT);
	assert_true(answers == 1 && last_err == 0);
	ask(&cl[0], 8, 8);
	work(NEIGH_NO_ROUTE);
	assert_int_equal(last_err, ENETUNREACH);
	ask(&cl[0], 9, 8);
	work(NEIGH_FULL);
	assert_int_equal(last_err, ENOBUFS);
}

static void a_lost_result_ends_with_the_time_out(void **state)
{
	(void)state;
	ask(&cl[0], 7, 8);
	work(NEIGH_WAIT);
	armed_first->due(armed_first);
	assert_true(answers == 1 && last_err == EHOSTUNREACH);
}

/* The requests of one client that wait are few: one more is served as all others are, and holds up what follows. */
static void a_client_has_few_requests_that_wait(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < PUT_OFF; i++)
		ask(&cl[0], i, 8);
	ask(&cl[0], PUT_OFF, 8);
	assert_true(cl[0].busy);
	ask(&cl[1], 1, 8); /* another client's count is its own */
	assert_false(cl[1].busy);
	work(NEIGH_WAIT);
	neighbour(8, 0);
	assert_int_equal(answers, PUT_OFF + 2);
	assert_false(cl[0].busy);
	ask(&cl[0], 99, 8);
	assert_false(cl[0].busy);
	work(NEIGH_READY);
}

/* The death of a client waits for no neighbour, but for the worker that has the command. */
static void nothing_is_left_of_a_client_that_ends(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < PUT_OFF + 1; i++)
		ask(&cl[0], i, 8);
	work(NEIGH_WAIT);
	cl[0].state = CLIENT_DYING;
	client_reaches_leave(&cl[0]);
	assert_true(cl[0].under_way == 0 && timers == 0 && answers == 0);
	ask(&cl[1], 1, 8);
	ask(&cl[2], 2, 8);
	neighbour(8, 0);
	cl[1].state = cl[2].state = CLIENT_DYING;
	client_reaches_leave(&cl[1]);
	client_reaches_leave(&cl[2]);
	assert_true(cl[1].under_way == 1 && cl[2].under_way == 1);
	work(NEIGH_WAIT);
	neighbour(8, 0);
	assert_int_equal(answers, 0);
}

static void many_requests_are_answered_in_parts(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < CLIENTS; i++)
		ask(&cl[i], i, 8);
	work(NEIGH_WAIT);
	neighbour(8, 0);
	for (uint32_t told = 256; answers < CLIENTS; told += 256, armed_now->due(armed_now))
		assert_int_equal(answers, rn_min_u32(CLIENTS, told));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_silent_neighbour_holds_up_no_other_request), T(the_result_may_come_before_the_workers_answer),
		T(a_lost_result_ends_with_the_time_out),         T(a_client_has_few_requests_that_wait),
		T(nothing_is_left_of_a_client_that_ends),        T(many_requests_are_answered_in_parts),
	};

	return cmocka_run_group_tests_name("reach", tests, NULL, NULL);
}
