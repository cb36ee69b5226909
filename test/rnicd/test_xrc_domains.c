/* SPDX-License-Identifier: BSD-3-Clause */
/* Targets of XRC domains, and the handles that clients have of them. The test plays the rest of the control thread. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "border/policy.h"
#include "control/client.h"
#include "control/dev.h"

#define OPENS 1024u /* handles that a target may have */

struct rnicd rnicd;

static struct rnicd_port port;
static struct rnicd_port_cfg cfg = { .qp_port = 4790 };
static struct client cl, host;
static struct client_qp *target;

/* ---- functions that the file under test calls ---- */

static int answer;
static struct ipc_msg last;
void client_answer(struct client *c, struct ipc_msg *m, uint16_t len)
{
	(void)c;
	(void)len;
	last = *m;
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
	last.handle.handle = handle;
}
void client_error(struct client *c, int err, const char *fmt, ...)
{
	(void)c;
	(void)fmt;
	answer = err;
}
void client_over_quota(struct client *c, const char *fmt, ...)
{
	(void)c;
	fail_msg("%s", fmt);
}

static uint32_t live; /* objects in the user's share */
void *user_alloc(struct user *u, size_t size)
{
	(void)u;
	live++;
	return calloc(1, size);
}
void *user_alloc_lines(struct user *u, size_t size)
{
	void *p = aligned_alloc(RN_CACHE_LINE, (size + RN_CACHE_LINE - 1) & ~(size_t)(RN_CACHE_LINE - 1));

	(void)u;
	live++;
	return p != NULL ? memset(p, 0, size) : NULL;
}
void user_free(struct user *u, void *p)
{
	(void)u;
	live -= p != NULL ? 1 : 0;
	free(p);
}
bool user_take(struct user *u, enum user_table t, uint32_t index, uint64_t n)
{
	(void)u, (void)t, (void)index, (void)n;
	return true;
}
void user_give(struct user *u, enum user_table t, uint32_t index, uint64_t n)
{
	(void)u, (void)t, (void)index, (void)n;
}
uint64_t user_share(enum user_table t)
{
	(void)t;
	return 1;
}
uint8_t user_tenant(const struct user *u)
{
	(void)u;
	return 1;
}
uint64_t owner_new(void) { return 1; }

bool client_chan_find(const struct client *c, uint32_t handle, uint32_t kind, uint32_t dev, struct client_chan **ch)
{
	(void)c, (void)kind, (void)dev;
	*ch = NULL;
	return handle == 0;
}
void client_pd_use(struct client_pd *p) { p->users++; }
void client_pd_unuse(struct client_pd *p) { p->users--; }
void client_async_leave(struct client_chan *ch, struct rn_list *untold)
{
	assert_null(ch);
	assert_true(rn_list_empty(untold));
}
struct client *client_host(struct user *u, uid_t uid)
{
	(void)u, (void)uid;
	return &host;
}
void client_die(struct client *c) { assert_ptr_equal(c, &host); }
struct qp_dev *dev_get(uint32_t index)
{
	(void)index;
	return (struct qp_dev *)&port; /* nobody looks into it */
}

uint32_t client_qp_number(const struct rnicd_port *p, bool datagram)
{
	(void)p, (void)datagram;
	return 77;
}
bool client_qp_enter(struct client_qp *q, uint64_t owner)
{
	(void)owner;
	target = q;
	return true;
}
struct client_qp *client_qp_of(uint32_t qpn) { return target != NULL && qpn == target->qpn ? target : NULL; }
struct client_qp *client_qp_find(struct client *c, uint32_t handle, void (*again)(struct client *c))
{
	(void)c, (void)handle, (void)again;
	return target;
}
void client_qp_rnr(struct client_qp *q, uint32_t retry, uint32_t timer) { (void)q, (void)retry, (void)timer; }
struct qp_tune client_qp_tune(const struct client_qp *q)
{
	(void)q;
	return (struct qp_tune){ .access = 0 };
}
void client_qp_place(struct client_qp *q) { (void)q; }
struct cmd_qp client_qp_args(const struct client_qp *q) { return (struct cmd_qp){ .qp = q->qp }; }
void client_qp_ask(struct client_qp *q, struct client *c) { q->asker = c; }
struct client *client_qp_asked(struct client_qp *q) { return q->asker; }
bool client_qp_give_back(struct client_qp *q)
{
	(void)q;
	return true;
}
void client_qp_go_on(struct client_qp *q) { (void)q; }
void client_qp_command(struct client_qp *q, enum cmd_type type, void (*done)(struct cmd *))
{
	assert_int_equal(type, CMD_QP_CREATE);
	done(&q->cmd);
}
/* The end of the target. */
void client_qp_end(struct client_qp *q)
{
	assert_true(q == target && q->n_opens == 0 && rn_list_empty(&q->opens));
	target = NULL;
	user_free(NULL, q->qp);
	user_free(NULL, q->no_queues);
	user_free(NULL, q);
	answer = 0;
}
void client_create_qp(struct client *c)
{
	(void)c;
	fail();
}
void client_destroy_qp(struct client *c)
{
	(void)c;
	fail();
}

/* ---- tests ---- */

#define CALL(fn, member, ...) (answer = -1, cl.req = (struct ipc_msg){ .member = { __VA_ARGS__ } }, fn, answer)

static int closed(uint32_t handle) { return CALL(client_destroy_any_qp(&cl), handle, .handle = handle); }

/* All handles of a target get its events in one turn: so their number is bounded. */
static void a_target_has_a_bounded_number_of_handles(void **state)
{
	uint32_t handle[OPENS];

	(void)state;
	rnicd.n_ports = 1;
	rnicd.port[0] = &port;
	port.cfg = &cfg;
	rnicd.cfg.quota_qps = 65536;
	assert_int_equal(CALL(client_open_xrcd(&cl, NULL, 0), open_xrcd, .flags = IPC_XRCD_CREATE), 0);
	const uint32_t xrcd = last.handle.handle;
	assert_int_equal(CALL(client_create_any_qp(&cl), create_qp, .xrc = IPC_XRC_TARGET, .xrcd = xrcd), 0);
	handle[0] = last.create_qp_ok.handle;
	for (uint32_t i = 1; i < OPENS; i++) {
		assert_int_equal(CALL(client_open_qp(&cl), open_qp, .xrcd = xrcd, .qpn = 77), 0);
		handle[i] = last.create_qp_ok.handle;
	}
	const uint32_t before = live;
	assert_int_equal(CALL(client_open_qp(&cl), open_qp, .xrcd = xrcd, .qpn = 77), ENOMEM);
	assert_true(live == before && target->n_opens == OPENS);
	assert_int_equal(closed(handle[5]), 0);
	assert_int_equal(CALL(client_open_qp(&cl), open_qp, .xrcd = xrcd, .qpn = 77), 0);
	handle[5] = last.create_qp_ok.handle;
	assert_int_equal(CALL(client_close_xrcd(&cl), handle, .handle = xrcd), EBUSY);
	for (uint32_t i = 0; i < OPENS; i++)
		assert_int_equal(closed(handle[i]), 0);
	assert_null(target);
	assert_int_equal(CALL(client_close_xrcd(&cl), handle, .handle = xrcd), 0);
	client_host_gone(&host);
	assert_int_equal(live, 0);
	client_table_free(&cl, &cl.xrcd);
	client_table_free(&cl, &cl.target);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_target_has_a_bounded_number_of_handles) };

	return cmocka_run_group_tests_name("xrc_domains", tests, NULL, NULL);
}
