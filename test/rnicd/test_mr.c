/* SPDX-License-Identifier: BSD-3-Clause */
/* Registrations of memory in pieces (client_mr.c); the test plays the rest of the control thread. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/client.h"
#include "control/dev.h"
#include "ipc/ipc_region.h"

#define PIECES 5000u
#define PAGE   4096u

/* ---- functions that the file under test calls ---- */

struct rnicd rnicd;
static struct client client;
static struct client_pd pd;
static struct qp_dev dev;
static struct qp_mr table[64];
static int status; /* of the last answer; -1: there is none yet */
static uint32_t stag;

void client_ok(struct client *c)
{
	(void)c;
	status = 0;
}
void client_answer(struct client *c, struct ipc_msg *m, uint16_t len)
{
	(void)len;
	stag = m->reg_mr_ok.stag;
	client_ok(c);
}
void client_error(struct client *c, int err, const char *fmt, ...)
{
	(void)c;
	(void)fmt;
	status = err;
}
void client_over_quota(struct client *c, const char *fmt, ...) { client_error(c, ENOMEM, "%s", fmt); }
void client_hold(struct client *c) { c->under_way++; }
void client_unhold(struct client *c) { c->under_way--; }
bool client_back(struct client *c)
{
	client_unhold(c);
	return true;
}
struct client_pd *client_pd_get(const struct client *c, uint32_t h)
{
	(void)c;
	return h == 1 ? &pd : NULL;
}
void client_pd_shares(const struct client_pd *p) { (void)p; }
struct client_import *client_import_get(const struct client *c, uint32_t region)
{
	(void)c;
	(void)region;
	return NULL;
}

bool user_take(struct user *u, enum user_table t, uint32_t index, uint64_t n)
{
	(void)u;
	(void)t;
	(void)index;
	(void)n;
	return true;
}
void user_give(struct user *u, enum user_table t, uint32_t index, uint64_t n)
{
	(void)u;
	(void)t;
	(void)index;
	(void)n;
}
void *user_alloc(struct user *u, size_t size)
{
	(void)u;
	return calloc(1, size);
}
void user_free(struct user *u, void *p)
{
	(void)u;
	free(p);
}

struct qp_dev *dev_get(uint32_t index)
{
	(void)index;
	return &dev;
}
struct qp_dev *dev_stirred(uint32_t index) { return dev_get(index); }

/* The workers answer at once. */
void cmd_send_all(struct cmd *c) { c->done(c); }

static struct loop_timer *armed;
void loop_timer_arm(struct loop_timer *t, uint64_t when)
{
	(void)when;
	armed = t;
}

static uint32_t touched; /* pieces, in this turn */
int ipc_region_prefault(uint8_t *p, uint64_t len)
{
	assert_true(p != NULL && len > 0);
	touched++;
	return 0;
}

/* ---- tests ---- */

static int setup(void **state)
{
	(void)state;
	memset(&client, 0, sizeof(client));
	memset(table, 0, sizeof(table));
	qp_dev_init(&dev, table, RN_ARRAY_LEN(table), 1);
	pd = (struct client_pd){ .c = &client, .handle = 1, .id = 7 };
	rnicd.cfg.quota_mrs = 100;
	rnicd.cfg.quota_memory = UINT64_C(1) << 30;
	client.region[IPC_REGION_QUEUES].size = PIECES * sizeof(struct ipc_piece);
	client.region[IPC_REGION_ARENA].size = UINT64_C(2) * PIECES * PAGE;
	client.region[IPC_REGION_QUEUES].base = calloc(1, client.region[IPC_REGION_QUEUES].size);
	client.region[IPC_REGION_ARENA].base = calloc(1, client.region[IPC_REGION_ARENA].size);
	return client.region[IPC_REGION_QUEUES].base != NULL && client.region[IPC_REGION_ARENA].base != NULL ? 0 : -1;
}

static int teardown(void **state)
{
	uint32_t h = 0;
	struct client_mr *mr;

	(void)state;
	while ((mr = table_next(&client.mr, &h)) != NULL) {
		client_mr_void(mr);
		client_mr_free(&client, mr);
	}
	assert_int_equal(client.under_way, 0);
	table_free(&client.mr);
	free(client.region[IPC_REGION_QUEUES].base);
	free(client.region[IPC_REGION_ARENA].base);
	return 0;
}

/* Asks for a region of n pieces of `each` bytes; there is a page between two pieces. Returns the number of turns. */
static uint32_t ask(uint32_t n, uint64_t each, uint32_t most_in_turn)
{
	struct ipc_piece *p = (struct ipc_piece *)(void *)client.region[IPC_REGION_QUEUES].base;
	uint32_t turns = 1;

	for (uint32_t i = 0; i < n; i++)
		p[i] = (struct ipc_piece){ .region = IPC_REGION_ARENA, .off = UINT64_C(2) * PAGE * i, .len = each };
	client.req.reg_mr = (struct ipc_reg_mr){ .pd = 1, .access = QP_ACC_LOCAL_WRITE, .len = n * each, .npieces = n };
	status = -1;
	touched = 0;
	armed = NULL;
	client_reg_mr(&client);
	for (; armed != NULL; turns++) {
		struct loop_timer *t = armed;
		assert_in_range(touched, 1, most_in_turn);
		armed = NULL;
		touched = 0;
		t->due(t);
	}
	return turns;
}

static void region_of_many_pieces_does_not_hold_the_control_thread(void **state)
{
	const struct qp_access last = { .pd = 7, .to = (uint64_t)PIECES * PAGE - 3, .len = 3 };
	struct rn_iov out[1];
	uint32_t n;

	(void)state;
	assert_true(ask(PIECES, PAGE, 256) > PIECES / 257);
	assert_int_equal(status, 0);
	struct qp_access a = last;
	a.stag = stag;
	assert_int_equal(qp_mr_slices(&dev, &a, out, 1, &n), QP_MR_OK);
	assert_ptr_equal(out[0].base, client.region[IPC_REGION_ARENA].base + (2 * PIECES - 1) * UINT64_C(4096) - 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(region_of_many_pieces_does_not_hold_the_control_thread, setup,
						teardown),
	};

	return cmocka_run_group_tests_name("mr", tests, NULL, NULL);
}
