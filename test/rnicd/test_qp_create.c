/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The creation of a queue pair: when its client gets the answer, what the client then sees, and what happens before the
 * worker knows the queue pair. The test plays the worker and the client.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "border/policy.h"
#include "control/client.h"
#include "control/dev.h"
#include "control/group.h"
#include "control/oob.h"
#include "control/rd_memory.h"

#define SHM_OFF 16384 /* behind the control block */

struct rnicd rnicd;

static struct client cl;
static struct client_pd pd;
static struct client_cq cq;
static struct rnicd_port port;
static struct rnicd_port_cfg port_cfg;
static struct worker_client view;
static uint8_t queues[1 << 16] RN_ALIGNED(4096);
static char device; /* stands for a struct qp_dev, which nobody looks into */

/* ---- functions that the files under test call ---- */

static struct cmd *sent[4];
static uint32_t n_sent, n_answers;
static int status;
static struct ipc_msg last;

void cmd_send(struct cmd *c, uint32_t worker)
{
	assert_int_equal(worker, 0);
	assert_in_range(n_sent, 0, RN_ARRAY_LEN(sent) - 1);
	sent[n_sent++] = c;
}

void client_answer(struct client *c, struct ipc_msg *m, uint16_t len)
{
	(void)c;
	(void)len;
	n_answers++;
	status = m->status;
	last = *m;
}

void client_ok(struct client *c)
{
	struct ipc_msg m = { .status = 0 };

	client_answer(c, &m, IPC_MSG_HDR);
}

void client_error(struct client *c, int err, const char *fmt, ...)
{
	struct ipc_msg m = { .status = err };

	(void)fmt;
	client_answer(c, &m, IPC_MSG_HDR);
}

void client_over_quota(struct client *c, const char *fmt, ...) { client_error(c, ENOMEM, "%s", fmt); }
void client_hold(struct client *c) { c->under_way++; }
void client_unhold(struct client *c) { c->under_way--; }

bool client_back(struct client *c)
{
	client_unhold(c);
	return c->state != CLIENT_DYING;
}

struct client_pd *client_pd_get(const struct client *c, uint32_t handle)
{
	(void)c;
	return handle == 1 ? &pd : NULL;
}

void client_pd_use(struct client_pd *p) { p->users++; }
void client_pd_unuse(struct client_pd *p) { p->users--; }
void client_async_leave(struct client_chan *ch, struct rn_list *untold)
{
	assert_null(ch);
	assert_true(rn_list_empty(untold));
}
bool client_chan_find(const struct client *c, uint32_t handle, uint32_t kind, uint32_t dev, struct client_chan **ch)
{
	(void)c;
	(void)kind;
	(void)dev;
	*ch = NULL;
	return handle == 0;
}

const char *client_gram_refusal(const struct client *c, const struct ipc_create_qp *r, uint32_t dev, int *err)
{
	(void)c;
	(void)r;
	(void)dev;
	(void)err;
	return NULL;
}

size_t client_gram_size(const struct ipc_create_qp *r)
{
	(void)r;
	return sizeof(struct qp);
}

bool client_gram_begin(struct client_qp *q, const struct ipc_create_qp *r)
{
	(void)q;
	(void)r;
	return true;
}

const char *client_gram_why(int err)
{
	(void)err;
	return "";
}

void client_gram_end(struct client_qp *q) { (void)q; }

const char *client_hold_refusal(const struct ipc_create_qp *r)
{
	(void)r;
	return NULL;
}

bool client_hold_begin(struct client_qp *q, const struct ipc_create_qp *r)
{
	(void)q;
	(void)r;
	return true;
}

void client_hold_end(struct client_qp *q) { (void)q; }
void client_groups_leave(struct client_qp *q) { (void)q; }

struct qp_dev *dev_get(uint32_t index)
{
	(void)index;
	return (struct qp_dev *)(void *)&device;
}

bool dev_has_design(uint32_t design) { return design == 0; }

uint64_t dev_random(void)
{
	static uint64_t n;

	return n++;
}

void oob_leave(struct client_qp *q) { (void)q; }
void oob_settled(struct client_qp *q) { (void)q; }

bool oob_begin(struct client_qp *q, const struct ipc_modify_qp *r)
{
	(void)q;
	(void)r;
	return false;
}

void oob_patience(struct client_qp *q, uint8_t timeout, uint8_t retry_cnt)
{
	(void)q;
	(void)timeout;
	(void)retry_cnt;
}

struct rd_port *rd_memory(uint32_t dev, uint32_t qpn)
{
	(void)dev;
	(void)qpn;
	return NULL;
}

uint32_t ud_mtu(const struct rnicd_port *p)
{
	(void)p;
	return 1024;
}

uint32_t ud_max(const struct rnicd_port *p) { return ud_mtu(p); }

uint32_t ud_owner(uint32_t dev, uint32_t qpn)
{
	(void)dev;
	(void)qpn;
	return 0;
}

bool user_take(struct user *u, enum user_table t, uint32_t worker, uint64_t n)
{
	(void)u;
	(void)t;
	(void)worker;
	(void)n;
	return true;
}

void user_give(struct user *u, enum user_table t, uint32_t worker, uint64_t n)
{
	(void)u;
	(void)t;
	(void)worker;
	(void)n;
}

void *user_alloc(struct user *u, size_t size)
{
	(void)u;
	return calloc(1, size);
}

uint8_t user_tenant(const struct user *u) { return u != NULL ? 1 : 2; }
void *user_alloc_lines(struct user *u, size_t size)
{
	const size_t whole = (size + RN_CACHE_LINE - 1) & ~(size_t)(RN_CACHE_LINE - 1);
	void *p = aligned_alloc(RN_CACHE_LINE, whole);

	(void)u;
	assert_non_null(p);
	return memset(p, 0, whole);
}

void user_free(struct user *u, void *p)
{
	(void)u;
	free(p);
}

/* ---- the worker and the client ---- */

/* The worker carries out the oldest command. */
static void answer(enum cmd_type type, enum qp_verdict verdict)
{
	struct cmd *c = sent[0];

	assert_int_not_equal(n_sent, 0);
	assert_int_equal(c->type, type);
	n_sent--;
	for (uint32_t i = 0; i < n_sent; i++)
		sent[i] = sent[i + 1];
	c->qp.verdict = verdict;
	c->qp.later = type == CMD_QP_LATER;
	c->done(c);
}

static void ask(void (*request)(struct client *c), const struct ipc_msg *m)
{
	n_answers = 0;
	cl.req = *m;
	request(&cl);
}

#define ASK(request, member, ...) ask(request, &(struct ipc_msg){ .member = { __VA_ARGS__ } })
#define CREATE(...) \
	ASK(client_create_qp, create_qp, .pd = 1, .send_cq = 1, .recv_cq = 1, .shm_off = SHM_OFF, .sq_off = 20480, \
	    .rq_off = 24576, .sq_slots = 16, .rq_slots = 16, __VA_ARGS__)

static uint32_t state_of(void) { return __atomic_load_n(&((struct qp_shm *)(void *)(queues + SHM_OFF))->state, 0); }

static int begin(void **state)
{
	(void)state;
	port_cfg = (struct rnicd_port_cfg){ .personality = RNICD_IWARP };
	port.cfg = &port_cfg;
	rnicd.port[0] = &port;
	rnicd.n_ports = rnicd.n_workers = 1;
	rnicd.cfg.quota_qps = 10;
	rnicd.cfg.quota_wrs = 1000;
	rnicd.qpn_first = 2;
	rnicd.qpn_last = 0xffff;
	n_sent = n_answers = 0;
	cl = (struct client){ .state = CLIENT_READY,
			      .wc[0] = &view,
			      .region[IPC_REGION_QUEUES] = { .base = queues, .size = sizeof(queues) } };
	pd = (struct client_pd){ .c = &cl, .id = 1 };
	cq = (struct client_cq){ .c = &cl, .cq = (struct qp_cq *)(void *)&device };
	assert_int_equal(table_add(&cl.cq, &cq), 1);
	return 0;
}

static int end(void **state)
{
	(void)state;
	assert_int_equal(n_sent, 0);
	assert_int_equal(cl.under_way, 0);
	assert_int_equal(cl.qp.live, 0);
	assert_int_equal(pd.users + cq.users, 0);
	table_free(&cl.cq);
	table_free(&cl.qp);
	return 0;
}

static void destroy(uint32_t handle)
{
	ASK(client_destroy_qp, handle, .handle = handle);
	answer(CMD_QP_DESTROY, QP_OK);
	assert_int_equal(n_answers, 0);
	answer(CMD_QP_LATER, QP_OK);
	assert_int_equal(n_answers, 1);
	assert_int_equal(status, 0);
}

/* ---- tests ---- */

static void the_answer_does_not_wait_for_the_worker(void **state)
{
	(void)state;
	CREATE(.cookie = 7);
	assert_int_equal(n_answers, 1);
	assert_int_equal(status, 0);
	const uint32_t handle = last.create_qp_ok.handle;
	assert_int_equal(state_of(), QP_S_INIT); /* so the client may post receives */
	ASK(client_query_qp, handle, .handle = handle);
	assert_int_equal(last.query_qp_ok.state, QP_S_INIT);
	answer(CMD_QP_CREATE, QP_OK);
	assert_int_equal(cl.under_way, 0);
	destroy(handle);
}

/* The worker gets the commands in their order, so all of them find the queue pair. */
static void the_next_request_does_not_wait_either(void **state)
{
	(void)state;
	CREATE(.cookie = 7);
	const uint32_t handle = last.create_qp_ok.handle;
	ASK(client_modify_qp, modify_qp, .qp = handle, .mask = IPC_QP_ATTR_STATE, .state = QP_S_ERR);
	assert_int_equal(n_sent, 2);
	answer(CMD_QP_CREATE, QP_OK);
	assert_int_equal(n_answers, 0);
	answer(CMD_QP_MODIFY, QP_OK);
	assert_int_equal(n_answers, 1);
	assert_int_equal(status, 0);
	destroy(handle);
}

static void it_may_be_destroyed_before_the_worker_knows_it(void **state)
{
	(void)state;
	CREATE(.cookie = 7);
	ASK(client_destroy_qp, handle, .handle = last.create_qp_ok.handle);
	answer(CMD_QP_CREATE, QP_OK);
	answer(CMD_QP_DESTROY, QP_OK);
	answer(CMD_QP_LATER, QP_OK);
	assert_int_equal(n_answers, 1);
}

static void the_client_may_die_before_the_worker_knows_it(void **state)
{
	(void)state;
	CREATE(.cookie = 7);
	struct client_qp *q = client_qp_get(&cl, last.create_qp_ok.handle);
	cl.state = CLIENT_DYING;
	n_answers = 0;
	client_qp_end(q);
	assert_int_equal(cl.under_way, 1);
	answer(CMD_QP_CREATE, QP_OK);
	answer(CMD_QP_DESTROY, QP_OK);
	answer(CMD_QP_LATER, QP_OK);
	assert_int_equal(n_answers, 0);
}

/* A channel adapter's queue pair begins in RESET. */
static void an_adapters_begins_in_reset(void **state)
{
	(void)state;
	port_cfg.personality = RNICD_ROCE;
	CREATE(.cookie = 7);
	assert_int_equal(n_answers, 1);
	assert_int_equal(state_of(), QP_S_RESET);
	const uint32_t handle = last.create_qp_ok.handle;
	ASK(client_query_qp, handle, .handle = handle);
	assert_int_equal(last.query_qp_ok.state, QP_S_RESET);
	answer(CMD_QP_CREATE, QP_OK);
	destroy(handle);
}

/* The worker may have no room for a datagram queue pair. */
static void that_of_datagrams_waits_for_the_worker(void **state)
{
	(void)state;
	CREATE(.datagram = IPC_UD_PLAIN);
	assert_int_equal(n_answers, 0);
	answer(CMD_QP_CREATE, QP_NO_MEMORY);
	assert_int_equal(status, ENOMEM);
	CREATE(.datagram = IPC_UD_PLAIN);
	answer(CMD_QP_CREATE, QP_OK);
	assert_int_equal(status, 0);
	destroy(last.create_qp_ok.handle);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		T(the_answer_does_not_wait_for_the_worker),
		T(the_next_request_does_not_wait_either),
		T(it_may_be_destroyed_before_the_worker_knows_it),
		T(the_client_may_die_before_the_worker_knows_it),
		T(an_adapters_begins_in_reset),
		T(that_of_datagrams_waits_for_the_worker),
	};

	return cmocka_run_group_tests_name("qp_create", tests, NULL, NULL);
}
