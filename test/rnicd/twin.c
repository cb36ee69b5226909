/* SPDX-License-Identifier: BSD-3-Clause */
#include "twin.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "border/bell.h"
#include "border/event.h"
#include "border/policy.h"
#include "plane/dataplane.h"

#define EVENTS_MAX 64u
#define PD         1u
#define DEPTH      16u
#define QUEUES     (16u << 20)
#define CQ_SHM_OFF (TWIN_SHM_OFF + 4096)
#define CQ_STRIDE  (512u * 1024)

struct twin twin[2];
static uint16_t next_port = 5000;
static uint32_t joining; /* the pair that is being connected; also the bit of its queue pairs in the doorbells */

static struct qp *qp_at(struct twin *t, uint32_t pair) { return pair == 0 ? &t->qp : &t->more[pair - 1].qp; }

/* ---- commands ---- */

static void on_event(const struct event *ev);

/* Sends a command and waits for its answer; handles other events meanwhile. */
static void call(struct cmd *c, uint32_t worker)
{
	cmd_send(c, worker);
	while (c->left != 0) {
		event_collect(EVENTS_MAX, on_event);
		sched_yield();
	}
}

static void call_all(struct cmd *c)
{
	cmd_send_all(c);
	while (c->left != 0) {
		event_collect(EVENTS_MAX, on_event);
		sched_yield();
	}
}

/* Brings a QP to RESET, if it was connected before, then to INIT. */
static bool make_init(struct qp *qp)
{
	static const enum qp_state way[] = { QP_S_RESET, QP_S_INIT };

	for (uint32_t i = qp->state == QP_S_ERR ? 0 : 1; i < RN_ARRAY_LEN(way) && qp->state != QP_S_INIT; i++) {
		struct cmd c = { .type = CMD_QP_MODIFY,
				 .qp = { .qp = qp, .has_state = true, .state = way[i], .tune.access = QP_ACC_ALL } };
		call(&c, 0);
		if (c.qp.verdict != QP_OK)
			return false;
	}
	return true;
}

static struct cmd accept_cmd; /* the command of twin 1; one at a time */

static void accepted(struct cmd *c)
{
	if (c->join.qv != QP_OK)
		fprintf(stderr, "accept failed: %u\n", c->join.qv);
}

/* Called before any event of the connection is handled. */
static void opened(struct cmd *c) { twin[0].conn = c->open.cv == CONN_OK ? c->open.conn : NULL; }

/* ---- effects ---- */

static void on_event(const struct event *ev)
{
	const struct event_fx *fx = &ev->fx;

	if (ev->type != EVENT_FX)
		return;
	if (fx->type == QP_FX_CONNECT_REQUEST) {
		struct twin *t = &twin[1];
		t->worker = fx->worker;
		t->conn = fx->conn;
		t->key = fx->owner;
		t->client[t->worker].qp[joining] = qp_at(t, joining);
		accept_cmd = (struct cmd){ .type = CMD_CONN_JOIN,
					   .done = accepted,
					   .join = { .which = { .conn = fx->conn, .key = fx->owner },
						     .qp = qp_at(t, joining),
						     .client = &t->client[t->worker],
						     .ird = DEPTH,
						     .ord = DEPTH } };
		cmd_send(&accept_cmd, t->worker);
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

static void take_effects(void) { (void)event_collect(EVENTS_MAX, on_event); }

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

/* What all queue pairs of a twin have alike. */
static struct qp_attr qp_attr_of(struct twin *t, uint8_t *region, uint64_t size)
{
	return (struct qp_attr){ .owner = 100 + t->port,
				 .qpn = 17 + t->port,
				 .pd = PD,
				 .dev = &t->dev,
				 .scq = &t->cq,
				 .rcq = &t->cq,
				 .access = QP_ACC_ALL,
				 .region = region,
				 .region_size = size };
}

static bool make(struct twin *t, uint32_t port)
{
	memset(t, 0, sizeof(*t));
	t->port = port;
	t->queues = mmap(NULL, QUEUES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	t->arena = mmap(NULL, TWIN_ARENA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (t->queues == MAP_FAILED || t->arena == MAP_FAILED)
		return false;
	qp_dev_init(&t->dev, t->mr, RN_ARRAY_LEN(t->mr), 1234);
	struct qp_piece piece = { .base = t->arena, .end = TWIN_ARENA };
	struct qp_mr_attr mr = { .pd = PD, .rights = QP_ACC_ALL, .len = TWIN_ARENA, .pieces = &piece, .npieces = 1 };
	struct qp_cq_attr cq = { .region = t->queues,
				 .region_size = QUEUES,
				 .shm_off = CQ_SHM_OFF,
				 .ring_off = TWIN_CQ_OFF,
				 .ring_stride = CQ_STRIDE,
				 .workers = rnicd.n_workers,
				 .cqe = TWIN_CQE };
	struct qp_attr qp = qp_attr_of(t, t->queues, QUEUES);
	struct spsc_place at = { .region = t->queues,
				 .region_size = QUEUES,
				 .off = TWIN_SQ_OFF,
				 .nslots = TWIN_SLOTS,
				 .slot_size = QP_SLOT_SIZE };
	qp.shm_off = TWIN_SHM_OFF;
	qp.sq_off = TWIN_SQ_OFF;
	qp.rq_off = TWIN_RQ_OFF;
	qp.sq_slots = qp.rq_slots = TWIN_SLOTS;
	if (qp_mr_reg(&t->dev, &mr, &t->stag) != QP_MR_OK || qp_cq_init(&t->cq, &cq) != SPSC_OK ||
	    qp_init(&t->qp, &qp) != QP_OK || spsc_prod_attach(&t->sq, &at) != SPSC_OK)
		return false;
	at.off = TWIN_RQ_OFF;
	if (spsc_prod_attach(&t->rq, &at) != SPSC_OK)
		return false;
	for (uint32_t w = 0; w < rnicd.n_workers; w++) {
		at = (struct spsc_place){ .region = t->queues,
					  .region_size = QUEUES,
					  .off = TWIN_CQ_OFF + w * CQ_STRIDE,
					  .nslots = TWIN_CQE,
					  .slot_size = QP_CQE_SIZE };
		t->client[w].doorbell = &((struct ipc_ctrl *)(void *)t->queues)->doorbell[w];
		t->view[w] = &t->client[w];
		if (spsc_cons_attach(&t->comp[w], &at) != SPSC_OK)
			return false;
	}
	struct cmd c = { .type = CMD_CLIENT_ADD, .client.view = t->view };
	call_all(&c);
	return true;
}

void twin_configure(uint32_t mtu)
{
	struct rnicd_cfg *c = &rnicd.cfg;

	memset(c, 0, sizeof(*c));
	c->n_ports = 2;
	c->n_workers = 1;
	c->control_cpu = UINT16_MAX;
	c->memory_mb = 192;
	c->spin_us = 5;
	c->flows = 64;
	c->seed = 7;
	for (uint32_t i = 0; i < 2; i++) {
		struct rnicd_port_cfg *p = &c->port[i];
		snprintf(p->name, sizeof(p->name), "rnic%u", i);
		snprintf(p->args, sizeof(p->args), "rnic%u", 1 - i);
		p->kind = RNICD_PORT_PAIR;
		p->ip = pkt_addr_ip4(0x0a000001 + i);
		p->prefix_len = 120;
		p->mtu = mtu;
		p->vlan = PKT_NO_VLAN;
		p->crc = true;
		p->mpa_rev = 2;
		p->max_ird = p->max_ord = 16;
		p->min_rto_ns = 5 * RN_NS_PER_MS;
	}
}

bool twin_start(uint32_t port_a, uint32_t port_b)
{
	char err[256];

	if (!rnicd_dataplane_start(err, sizeof(err))) {
		fprintf(stderr, "%s\n", err);
		return false;
	}
	return make(&twin[0], port_a) && make(&twin[1], port_b);
}

void twin_stop(void)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct cmd c = { .type = CMD_CLIENT_DEL, .client.view = twin[i].view };
		call_all(&c);
	}
	rnicd_dataplane_stop();
	for (uint32_t i = 0; i < 2; i++) {
		munmap(twin[i].queues, QUEUES);
		munmap(twin[i].arena, TWIN_ARENA);
	}
}

bool twin_connect(void)
{
	struct conn_addr a = { .port = twin[0].port,
			       .local = rnicd.port[twin[0].port]->cfg->ip,
			       .remote = rnicd.port[twin[1].port]->cfg->ip,
			       .lport = (uint16_t)(next_port + 20000),
			       .rport = next_port };
	struct cmd l = { .type = CMD_LISTEN,
			 .listen = {
				 .first = twin[1].port, .last = twin[1].port + 1, .lport = next_port, .owner = 1 } };

	next_port++;
	for (uint32_t i = 0; i < 2; i++) {
		twin[i].established = twin[i].disconnected = twin[i].closed = false;
		if (!make_init(qp_at(&twin[i], joining)))
			return false;
	}
	call_all(&l);
	for (uint32_t w = 0; w < rnicd.n_workers; w++) {
		if (l.listen.verdict[w] != CONN_OK)
			return false;
	}
	struct twin *t = &twin[0];
	t->worker = conn_owner(&a);
	t->key = 1000 + next_port;
	struct cmd o = { .type = CMD_CONN_OPEN,
			 .done = opened,
			 .open = { .addr = a,
				   .owner = t->key,
				   .dev = &t->dev,
				   .qp = qp_at(t, joining),
				   .client = &t->client[t->worker],
				   .tune.access = QP_ACC_ALL,
				   .policy = conn_policy(rnicd.port[t->port]) } };
	call(&o, t->worker);
	if (o.open.cv != CONN_OK)
		return false;
	t->client[t->worker].qp[joining] = qp_at(t, joining);
	if (!until(&twin[0].established, &twin[1].established))
		return false;
	l.type = CMD_UNLISTEN;
	call_all(&l);
	return true;
}

bool twin_disconnect(void)
{
	struct cmd c = { .type = CMD_CONN_DISCONNECT, .conn = { .conn = twin[0].conn, .key = twin[0].key } };

	call(&c, twin[0].worker);
	if (!until(&twin[0].closed, &twin[1].closed))
		return false;
	for (uint32_t i = 0; i < 2; i++) {
		twin[i].client[twin[i].worker].qp[0] = NULL;
		twin[i].conn = NULL;
	}
	return twin[0].disconnected && twin[1].disconnected;
}

/* ---- further pairs ---- */

#define MORE_SQ   sizeof(struct qp_shm)
#define MORE_RING spsc_size(TWIN_MORE, QP_SLOT_SIZE)
#define MORE_SPAN (MORE_SQ + 2 * MORE_RING)
_Static_assert(sizeof(struct qp_shm) % RN_CACHE_LINE == 0, "the rings begin at cache lines");

static bool make_more(struct twin *t, uint32_t n)
{
	const uint64_t size = n * MORE_SPAN;
	uint8_t *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	t->more = mem == MAP_FAILED ? NULL : calloc(n, sizeof(*t->more));
	for (uint32_t i = 0; i < n && t->more != NULL; i++) {
		struct qp_attr a = qp_attr_of(t, mem, size);
		a.shm_off = i * MORE_SPAN;
		a.sq_off = a.shm_off + MORE_SQ;
		a.rq_off = a.sq_off + MORE_RING;
		a.sq_slots = a.rq_slots = TWIN_MORE;
		struct spsc_place at = { .region = mem,
					 .region_size = size,
					 .off = a.sq_off,
					 .nslots = TWIN_MORE,
					 .slot_size = QP_SLOT_SIZE };
		if (qp_init(&t->more[i].qp, &a) != QP_OK || spsc_prod_attach(&t->more[i].sq, &at) != SPSC_OK)
			return false;
	}
	return t->more != NULL;
}

bool twin_widen(uint32_t n)
{
	bool good = make_more(&twin[0], n) && make_more(&twin[1], n);

	for (joining = 1; good && joining <= n; joining++)
		good = twin_connect();
	joining = 0;
	return good;
}

/* ---- the client's side ---- */

static bool post(struct spsc_prod *sq, const struct qp_wqe *w)
{
	if (spsc_prod_free(sq, w->slots) < w->slots)
		return false;
	spsc_prod_copy(sq, 0, w, sizeof(*w));
	spsc_prod_publish(sq, w->slots);
	return true;
}

bool twin_post_at(uint32_t pair, const struct qp_wqe *w)
{
	return post(pair == 0 ? &twin[0].sq : &twin[0].more[pair - 1].sq, w);
}

bool twin_post(struct twin *t, const struct qp_wqe *w) { return post(&t->sq, w); }

bool twin_post_recv(struct twin *t, uint64_t wr_id, uint64_t addr, uint32_t len)
{
	struct qp_rwqe w = { .wr_id = wr_id, .num_sge = 1, .slots = 1, .sge = { { addr, len, t->stag } } };

	if (spsc_prod_free(&t->rq, 1) < 1)
		return false;
	spsc_prod_copy(&t->rq, 0, &w, sizeof(w));
	spsc_prod_publish(&t->rq, 1);
	return true;
}

static void ring(struct twin *t, uint32_t pair)
{
	struct ipc_doorbell *db = &((struct ipc_ctrl *)(void *)t->queues)->doorbell[t->worker];

	__atomic_fetch_or(&db->bits[pair / 64], UINT64_C(1) << (pair % 64), __ATOMIC_RELEASE);
	__atomic_fetch_or(&db->summary, UINT64_C(1) << (pair / 64), __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	/* the worker's eventfd is used in place of the client's */
	if (__atomic_load_n(&db->need_wakeup, __ATOMIC_RELAXED))
		bell_ring(t->worker);
}

void twin_ring(struct twin *t) { ring(t, 0); }
void twin_ring_at(uint32_t pair) { ring(&twin[0], pair); }

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
