/* SPDX-License-Identifier: BSD-3-Clause */
#include "twin.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plane/worker_int.h"

#define FX_MAX     1024u
#define PD         1u
#define DEPTH      16u
#define QUEUES     (16u << 20)
#define SHM_OFF    ((IPC_QUEUES_FREE_OFF + 63) & ~UINT64_C(63))
#define CQ_SHM_OFF (SHM_OFF + 4096)
#define SQ_OFF     (SHM_OFF + 8192)
#define RQ_OFF     (SQ_OFF + 256 * 1024)
#define CQ_OFF     (RQ_OFF + 256 * 1024)
#define CQ_STRIDE  (512u * 1024)

struct twin twin[2];
static uint16_t next_port = 5000;

/* Workers put effects in, the test thread takes them out; each worker its own. */
static struct fx_log {
	struct qp_fx fx[FX_MAX];
	uint32_t n; /* release by the worker, acquire by the test */
	uint32_t seen;
} fx_log[RNICD_MAX_WORKERS];

void cmd_sidr(struct rnicd_worker *w, const struct cmd_fx *fx)
{
	(void)w;
	(void)fx;
}

bool cmd_effects(struct rnicd_worker *w, struct qp_ctx *ctx)
{
	struct fx_log *log = &fx_log[worker_index(w)];

	for (uint32_t i = 0; i < ctx->n_fx; i++)
		log->fx[(log->n + i) % FX_MAX] = ctx->fx[i];
	if (ctx->n_fx != 0)
		__atomic_store_n(&log->n, log->n + ctx->n_fx, __ATOMIC_RELEASE);
	return true;
}

void rnicd_log(enum rnicd_log_level level, const char *fmt, ...)
{
	va_list ap;

	(void)level;
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

/* ---- commands ---- */

struct call {
	struct rnicd_cmd cmd;
	struct twin *t;
	struct conn_addr addr;
	struct conn_listen listen;
	struct qp_conn *conn;
	bool ok;
};

static bool call(struct call *c, uint32_t worker, void (*run)(struct rnicd_worker *, struct rnicd_cmd *, uint64_t))
{
	c->cmd = (struct rnicd_cmd){ .run = run };
	c->ok = false;
	rnicd_cmd_call(rnicd.worker[worker], &c->cmd);
	return c->ok;
}

static void run_add(struct rnicd_worker *w, struct rnicd_cmd *cmd, uint64_t now)
{
	struct call *c = rn_container_of(cmd, struct call, cmd);

	(void)now;
	worker_client_add(w, &c->t->client[worker_index(w)]);
	c->ok = true;
}

static void run_del(struct rnicd_worker *w, struct rnicd_cmd *cmd, uint64_t now)
{
	struct call *c = rn_container_of(cmd, struct call, cmd);

	(void)now;
	worker_client_del(w, &c->t->client[worker_index(w)]);
	c->ok = true;
}

static void run_init(struct rnicd_worker *w, struct rnicd_cmd *cmd, uint64_t now)
{
	struct call *c = rn_container_of(cmd, struct call, cmd);

	(void)now;
	if (c->t->qp.state == QP_S_ERR && qp_modify(worker_qp_ctx(w), &c->t->qp, QP_S_RESET) != QP_OK)
		return;
	c->ok = c->t->qp.state != QP_S_RESET || qp_modify(worker_qp_ctx(w), &c->t->qp, QP_S_INIT) == QP_OK;
}

static void run_listen(struct rnicd_worker *w, struct rnicd_cmd *cmd, uint64_t now)
{
	struct call *c = rn_container_of(cmd, struct call, cmd);

	(void)now;
	c->ok = conn_listen(w, &c->listen) == CONN_OK;
}

static void run_unlisten(struct rnicd_worker *w, struct rnicd_cmd *cmd, uint64_t now)
{
	struct call *c = rn_container_of(cmd, struct call, cmd);

	(void)now;
	conn_unlisten(w, c->listen.port, c->listen.lport);
	c->ok = true;
}

static void run_open(struct rnicd_worker *w, struct rnicd_cmd *cmd, uint64_t now)
{
	struct call *c = rn_container_of(cmd, struct call, cmd);
	struct qp_conn_params p = { .dev = &c->t->dev, .owner = 0, .qp = &c->t->qp,
				    .policy = conn_policy(rnicd.port[c->t->port]) };
	enum qp_verdict v;

	(void)now;
	c->ok = conn_open(w, &c->addr, &p, &c->t->conn, &v) == CONN_OK;
	if (!c->ok)
		return;
	conn_set_client(c->t->conn, &c->t->client[worker_index(w)]);
	c->t->client[worker_index(w)].qp[0] = &c->t->qp;
}

static void run_accept(struct rnicd_worker *w, struct rnicd_cmd *cmd, uint64_t now)
{
	struct call *c = rn_container_of(cmd, struct call, cmd);
	struct qp_accept a = { .qp = &c->t->qp, .ird = DEPTH, .ord = DEPTH };

	(void)now;
	c->conn->dev = &c->t->dev;
	c->ok = qp_conn_accept(worker_qp_ctx(w), c->conn, &a) == QP_OK;
	c->t->conn = c->conn;
	conn_set_client(c->conn, &c->t->client[worker_index(w)]);
	c->t->client[worker_index(w)].qp[0] = &c->t->qp;
}

static void run_disconnect(struct rnicd_worker *w, struct rnicd_cmd *cmd, uint64_t now)
{
	struct call *c = rn_container_of(cmd, struct call, cmd);

	(void)now;
	qp_conn_disconnect(worker_qp_ctx(w), c->t->conn);
	c->ok = true;
}

/* ---- effects ---- */

static void take_effects(void)
{
	for (uint32_t w = 0; w < rnicd.n_workers; w++) {
		struct fx_log *log = &fx_log[w];
		uint32_t n = __atomic_load_n(&log->n, __ATOMIC_ACQUIRE);
		for (; log->seen != n; log->seen++) {
			struct qp_fx *fx = &log->fx[log->seen % FX_MAX];
			if (fx->type == QP_FX_CONNECT_REQUEST) {
				struct call c = { .t = &twin[1], .conn = fx->conn };
				twin[1].worker = w;
				if (!call(&c, w, run_accept))
					fprintf(stderr, "accept failed\n");
			}
			for (uint32_t i = 0; i < 2; i++) {
				if (fx->conn != twin[i].conn || fx->conn == NULL)
					continue;
				twin[i].established |= fx->type == QP_FX_ESTABLISHED;
				twin[i].disconnected |= fx->type == QP_FX_DISCONNECTED;
				twin[i].closed |= fx->type == QP_FX_CLOSED;
			}
			if (fx->type == QP_FX_CONNECT_ERROR || fx->type == QP_FX_UNREACHABLE || fx->type == QP_FX_REJECTED ||
			    fx->type == QP_FX_QP_EVENT || fx->type == QP_FX_CQ_ERROR)
				fprintf(stderr, "effect %u code %u vendor %x\n", fx->type, fx->code, fx->vendor_err);
		}
	}
}

static bool until(const bool *a, const bool *b)
{
	uint64_t end = rnicd_now() + TWIN_WAIT;

	while (!(*a && *b)) {
		take_effects();
		if (rnicd_now() > end)
			return false;
		sched_yield();
	}
	return true;
}

/* ---- life ---- */

static bool make(struct twin *t, uint32_t port)
{
	memset(t, 0, sizeof(*t));
	t->port = port;
	t->queues = mmap(NULL, QUEUES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	t->arena = mmap(NULL, TWIN_ARENA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (t->queues == MAP_FAILED || t->arena == MAP_FAILED)
		return false;
	qp_dev_init(&t->dev, t->mr, RN_ARRAY_LEN(t->mr), 1234);
	struct qp_piece piece = { .base = t->arena, .len = TWIN_ARENA };
	struct qp_mr_attr mr = { .pd = PD, .rights = QP_ACC_ALL, .len = TWIN_ARENA, .pieces = &piece, .npieces = 1 };
	struct qp_cq_attr cq = { .region = t->queues, .region_size = QUEUES, .shm_off = CQ_SHM_OFF, .ring_off = CQ_OFF,
				 .ring_stride = CQ_STRIDE, .workers = rnicd.n_workers, .cqe = TWIN_CQE };
	struct qp_attr qp = { .owner = 100 + port, .qpn = 17 + port, .pd = PD, .dev = &t->dev, .scq = &t->cq, .rcq = &t->cq,
			      .access = QP_ACC_ALL, .region = t->queues, .region_size = QUEUES, .shm_off = SHM_OFF,
			      .sq_off = SQ_OFF, .rq_off = RQ_OFF, .sq_slots = TWIN_SLOTS, .rq_slots = TWIN_SLOTS };
	struct spsc_place at = { .region = t->queues, .region_size = QUEUES, .off = SQ_OFF, .nslots = TWIN_SLOTS,
				 .slot_size = QP_SLOT_SIZE };
	if (qp_mr_reg(&t->dev, &mr, &t->stag) != QP_MR_OK || qp_cq_init(&t->cq, &cq) != SPSC_OK ||
	    qp_init(&t->qp, &qp) != QP_OK || spsc_prod_attach(&t->sq, &at) != SPSC_OK)
		return false;
	at.off = RQ_OFF;
	if (spsc_prod_attach(&t->rq, &at) != SPSC_OK)
		return false;
	for (uint32_t w = 0; w < rnicd.n_workers; w++) {
		struct call c = { .t = t };
		at = (struct spsc_place){ .region = t->queues, .region_size = QUEUES, .off = CQ_OFF + w * CQ_STRIDE,
					  .nslots = TWIN_CQE, .slot_size = QP_CQE_SIZE };
		t->client[w].doorbell = &((struct ipc_ctrl *)(void *)t->queues)->doorbell[w];
		if (spsc_cons_attach(&t->comp[w], &at) != SPSC_OK || !call(&c, w, run_add))
			return false;
	}
	return true;
}

bool twin_start(uint32_t port_a, uint32_t port_b)
{
	char err[256];

	if (!rnicd_dataplane_start(err, sizeof(err))) {
		fprintf(stderr, "%s\n", err);
		return false;
	}
	memset(fx_log, 0, sizeof(fx_log));
	return make(&twin[0], port_a) && make(&twin[1], port_b);
}

void twin_stop(void)
{
	for (uint32_t i = 0; i < 2; i++) {
		for (uint32_t w = 0; w < rnicd.n_workers; w++) {
			struct call c = { .t = &twin[i] };
			call(&c, w, run_del);
		}
	}
	rnicd_dataplane_stop();
	for (uint32_t i = 0; i < 2; i++) {
		munmap(twin[i].queues, QUEUES);
		munmap(twin[i].arena, TWIN_ARENA);
	}
}

bool twin_connect(void)
{
	struct conn_addr a = { .port = twin[0].port, .local = rnicd.port[twin[0].port]->cfg->ip,
			       .remote = rnicd.port[twin[1].port]->cfg->ip, .lport = (uint16_t)(next_port + 20000),
			       .rport = next_port };
	struct call l = { .listen = { .port = twin[1].port, .lport = next_port, .owner = 1,
				      .policy = conn_policy(rnicd.port[twin[1].port]) } };
	struct call o = { .t = &twin[0], .addr = a };

	next_port++;
	for (uint32_t i = 0; i < 2; i++) {
		struct call c = { .t = &twin[i] };
		twin[i].established = twin[i].disconnected = twin[i].closed = false;
		if (!call(&c, 0, run_init))
			return false;
	}
	for (uint32_t w = 0; w < rnicd.n_workers; w++) {
		if (!call(&l, w, run_listen))
			return false;
	}
	twin[0].worker = conn_owner(&a);
	if (!call(&o, twin[0].worker, run_open) || !until(&twin[0].established, &twin[1].established))
		return false;
	for (uint32_t w = 0; w < rnicd.n_workers; w++)
		call(&l, w, run_unlisten);
	return true;
}

bool twin_disconnect(void)
{
	struct call c = { .t = &twin[0] };

	call(&c, twin[0].worker, run_disconnect);
	if (!until(&twin[0].closed, &twin[1].closed))
		return false;
	for (uint32_t i = 0; i < 2; i++) {
		twin[i].client[twin[i].worker].qp[0] = NULL;
		twin[i].conn = NULL;
	}
	return twin[0].disconnected && twin[1].disconnected;
}

/* ---- the client's side ---- */

bool twin_post(struct twin *t, const struct qp_wqe *w)
{
	if (spsc_prod_free(&t->sq, w->slots) < w->slots)
		return false;
	spsc_prod_copy(&t->sq, 0, w, sizeof(*w));
	spsc_prod_publish(&t->sq, w->slots);
	return true;
}

bool twin_post_recv(struct twin *t, uint64_t wr_id, uint64_t addr, uint32_t len)
{
	struct qp_rwqe w = { .wr_id = wr_id, .num_sge = 1, .slots = 1, .sge = { { addr, len, t->stag } } };

	if (spsc_prod_free(&t->rq, 1) < 1)
		return false;
	spsc_prod_copy(&t->rq, 0, &w, sizeof(w));
	spsc_prod_publish(&t->rq, 1);
	return true;
}

void twin_ring(struct twin *t)
{
	struct ipc_doorbell *db = &((struct ipc_ctrl *)(void *)t->queues)->doorbell[t->worker];

	__atomic_fetch_or(&db->bits[0], 1, __ATOMIC_RELEASE);
	__atomic_fetch_or(&db->summary, 1, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	/* the worker's own eventfd stands for the client's */
	if (__atomic_load_n(&db->need_wakeup, __ATOMIC_RELAXED))
		worker_poke(rnicd.worker[t->worker]);
}

uint32_t twin_poll(struct twin *t, struct qp_cqe *cqe, uint32_t n)
{
	uint32_t k = 0;

	for (uint32_t w = 0; w < rnicd.n_workers; w++) {
		uint32_t avail = rn_min_u32(spsc_cons_avail(&t->comp[w], 1), n - k);
		for (uint32_t i = 0; i < avail; i++)
			memcpy(&cqe[k++], spsc_cons_slot(&t->comp[w], i), sizeof(*cqe));
		if (avail != 0)
			spsc_cons_release(&t->comp[w], avail);
	}
	return k;
}

bool twin_wait(struct twin *t, struct qp_cqe *cqe)
{
	uint64_t end = rnicd_now() + TWIN_WAIT;

	while (twin_poll(t, cqe, 1) == 0) {
		take_effects();
		if (rnicd_now() > end)
			return false;
		sched_yield();
	}
	return true;
}

bool twin_quiet(struct twin *t)
{
	uint64_t end = rnicd_now() + TWIN_WAIT;

	for (uint32_t w = 0; w < rnicd.n_workers; w++) {
		while (!worker_client_quiet(&t->client[w])) {
			if (rnicd_now() > end)
				return false;
			usleep(1000);
		}
	}
	return true;
}
