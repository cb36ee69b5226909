/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains that clients share, and the end of these clients. The test plays the rest of rnicd. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "control/client.h"
#include "control/dev.h"

#define CLIENTS 3u

struct rnicd rnicd;

static struct client cl[CLIENTS];
static struct client_chan chan[CLIENTS]; /* the token of client i is i + 1 */

/* ---- functions that the file under test calls ---- */

static int answer;
static uint32_t answer_handle;

void client_answer(struct client *c, struct ipc_msg *m, uint16_t len)
{
	(void)c;
	(void)len;
	answer = m->status;
}
void client_ok(struct client *c)
{
	(void)c;
	answer = 0;
}
void client_ok_handle(struct client *c, uint32_t handle)
{
	client_ok(c);
	answer_handle = handle;
}
void client_error(struct client *c, int err, const char *fmt, ...)
{
	(void)c;
	(void)fmt;
	answer = err;
}

struct client_pd *client_pd_get(const struct client *c, uint32_t handle) { return table_get(&c->pd, handle); }
struct client_mr *client_mr_of(uint32_t dev, uint32_t index)
{
	(void)dev;
	(void)index;
	return NULL;
}
static uint32_t voided;
void client_mr_void(struct client_mr *mr)
{
	(void)mr;
	voided++;
}
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

static bool looks[CLIENTS]; /* its death goes on at the end of the turn */
static uint32_t n_looks;
void client_death_soon(struct client *c)
{
	looks[c - cl] |= c->state == CLIENT_DYING;
	n_looks++;
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

/* ---- tests ---- */

static int begin(void **state)
{
	(void)state;
	voided = n_looks = 0;
	for (uint32_t i = 0; i < CLIENTS; i++) {
		struct client_pd *p = calloc(1, sizeof(*p));
		cl[i] = (struct client){ .state = CLIENT_READY };
		*p = (struct client_pd){ .c = &cl[i], .id = i + 1 };
		p->handle = table_add(&cl[i].pd, p);
		assert_int_equal(p->handle, 1);
		chan[i] = (struct client_chan){ .c = &cl[i] };
		owner_put(&chan[i].token, OWNER_TOKEN, i + 1);
		looks[i] = false;
	}
	return 0;
}

static int end(void **state)
{
	struct client_pd *p;

	(void)state;
	for (uint32_t i = 0; i < CLIENTS; i++) {
		owner_del(&chan[i].token);
		for (uint32_t h = 0; (p = table_next(&cl[i].pd, &h)) != NULL;)
			free(p);
		table_free(&cl[i].pd);
		table_free(&cl[i].mr);
	}
	return 0;
}

/* Client c imports the PD of client `from`. */
static struct client_pd *imports(uint32_t c, uint32_t from)
{
	struct fds_given g = { .cookie = from + 1 };

	cl[c].req.handle.handle = 1;
	client_token_pd(&cl[c], &g, 1);
	assert_int_equal(answer, 0);
	return table_get(&cl[c].pd, answer_handle);
}

/* A region that client c has registered in the PD. */
static void registers(struct client_mr *mr, uint32_t c, struct client_pd *p)
{
	*mr = (struct client_mr){ .pd = p };
	client_pd_use(p);
	rn_list_push_back(&p->mrs, &mr->in_pd);
	assert_int_not_equal(table_add(&cl[c].mr, mr), 0);
}

/* Runs the deaths until none goes on. Returns the number of these clients that have left. */
static uint32_t left_of(uint32_t who)
{
	static bool gone[CLIENTS];
	uint32_t n = 0;

	for (uint32_t i = 0; i < CLIENTS; i++) {
		gone[i] &= cl[i].state == CLIENT_DYING;
		if ((who >> i & 1) != 0 && cl[i].state != CLIENT_DYING) {
			cl[i].state = CLIENT_DYING;
			looks[i] = true;
		}
	}
	for (bool more = true; more;) {
		more = false;
		for (uint32_t i = 0; i < CLIENTS; i++) {
			if (!looks[i] || gone[i])
				continue;
			looks[i] = false;
			gone[i] = client_pds_leave(&cl[i]);
			more = true;
		}
	}
	for (uint32_t i = 0; i < CLIENTS; i++)
		n += gone[i];
	return n;
}

static void clients_that_import_from_each_other_end(void **state)
{
	struct client_mr a, b;

	(void)state;
	registers(&a, 1, imports(1, 0));
	registers(&b, 0, imports(0, 1));
	assert_int_equal(left_of(1 << 0), 0); /* the other one uses its PD */
	assert_int_equal(left_of(1 << 0 | 1 << 1), 2);
	assert_in_range(voided, 2, 4); /* no region is valid in a PD whose number may be given to another one */
}

static void clients_that_import_in_a_ring_end(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < CLIENTS; i++)
		(void)imports(i, (i + 1) % CLIENTS);
	assert_int_equal(left_of(1 << 0 | 1 << 1), 1); /* client 2 uses the PD of client 0 */
	assert_int_equal(left_of(1 << 0 | 1 << 1 | 1 << 2), 3);
}

static void a_client_stays_while_another_one_uses_its_pd(void **state)
{
	struct client_mr mr;

	(void)state;
	registers(&mr, 1, imports(1, 0));
	(void)imports(2, 0);
	assert_int_equal(left_of(1 << 0 | 1 << 1), 0); /* its own region, and the other client's */
	assert_int_equal(voided, 0);
	assert_int_equal(left_of(1 << 0 | 1 << 1 | 1 << 2), 3);
}

/* The regions of ended importers stay valid, but those of DEAD_MAX + 1 (33) would be too many. */
static void regions_of_few_ended_importers_are_kept(void **state)
{
	static struct client_mr mr[40];

	(void)state;
	for (uint32_t i = 0; i < 32; i++)
		registers(&mr[i], 1, imports(1, 0));
	assert_int_equal(left_of(1 << 1), 0);
	(void)imports(2, 0);
	assert_int_equal(left_of(1 << 1 | 1 << 2), 1);
	assert_int_equal(voided, 0); /* client 2 had none, and those of client 1 are still kept */
	assert_int_equal(left_of(1 << 0 | 1 << 1 | 1 << 2), 3);
	assert_int_equal(voided, 32);
}

/* One process has thousands of imports of its own PD, or of another process's, and regions in them. */
static void the_end_of_many_imports_takes_a_look_at_each(void **state)
{
	enum { IMPORTS = 2000 };
	static struct client_mr mr[2 * IMPORTS];

	(void)state;
	for (uint32_t i = 0; i < 2 * IMPORTS; i++)
		registers(&mr[i], 1, imports(1, i < IMPORTS ? 1 : 0));
	n_looks = 0;
	assert_int_equal(left_of(1 << 1), 1); /* more imports than are kept */
	assert_int_equal(voided, 2 * IMPORTS);
	assert_in_range(n_looks, 1, 10 * IMPORTS);
	assert_int_equal(left_of(1 << 0 | 1 << 1), 2);
}

/* What rnicd asks when the owner deallocates its PD: whether a living client's import of it has a user. */
static void imports_with_users_are_counted(void **state)
{
	const struct client_pd *lent = table_get(&cl[0].pd, 1);
	struct client_pd *p = imports(1, 0), *other = imports(2, 0), *third = imports(2, 0);

	(void)state;
	assert_int_equal(lent->in_use, 0);
	client_pd_use(p);
	client_pd_use(p);
	client_pd_use(other);
	client_pd_use(third);
	assert_int_equal(lent->in_use, 3);
	client_pd_unuse(p);
	assert_int_equal(lent->in_use, 3);
	client_pd_unuse(p);
	assert_int_equal(lent->in_use, 2);
	client_pd_return(third);
	assert_int_equal(lent->in_use, 1);
	client_pd_unuse(third); /* its objects end after the import */
	assert_int_equal(left_of(1 << 2), 1);
	assert_int_equal(lent->in_use, 0);
	client_pd_use(p);
	assert_int_equal(lent->in_use, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(clients_that_import_from_each_other_end, begin, end),
		cmocka_unit_test_setup_teardown(clients_that_import_in_a_ring_end, begin, end),
		cmocka_unit_test_setup_teardown(a_client_stays_while_another_one_uses_its_pd, begin, end),
		cmocka_unit_test_setup_teardown(regions_of_few_ended_importers_are_kept, begin, end),
		cmocka_unit_test_setup_teardown(the_end_of_many_imports_takes_a_look_at_each, begin, end),
		cmocka_unit_test_setup_teardown(imports_with_users_are_counted, begin, end),
	};

	return cmocka_run_group_tests_name("token", tests, NULL, NULL);
}
