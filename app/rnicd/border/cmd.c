/* SPDX-License-Identifier: BSD-3-Clause */
#include "border/cmd.h"

#include <stdlib.h>
#include <string.h>

#include "ring/spsc.h"
#include "plane/worker.h"

#define FX_SLOTS 1024u
#define FX_SLOT  1024u
_Static_assert(sizeof(struct cmd_fx) <= FX_SLOT, "an effect is one slot");

/* One per worker: it produces, the control thread consumes. */
struct fx_ring {
	struct spsc_prod prod RN_ALIGNED(RN_CACHE_LINE); /* worker */
	uint64_t passive; /* connections numbered so far */
	uint32_t taken;   /* of ctx->fx, when the ring was full in between */
	struct spsc_cons cons RN_ALIGNED(RN_CACHE_LINE); /* control thread */
	void *mem;
};

static struct fx_ring *ring[RNICD_MAX_WORKERS];
static uint32_t n_rings;
static struct cmd *unsent, **unsent_end = &unsent;

/* ---- commands ---- */

static void run(struct rnicd_worker *w, struct rnicd_cmd *r, uint64_t now)
{
	struct cmd *c = rn_container_of(r, struct cmd, r);

	c->work(w, c, now);
}

static void back(struct rnicd_cmd *r)
{
	struct cmd *c = rn_container_of(r, struct cmd, r);

	c->done(c);
}

void cmd_send(struct cmd *c, uint32_t worker)
{
	c->worker = worker;
	c->r.run = run;
	c->r.done = back;
	c->next = NULL;
	if (unsent == NULL && rnicd_cmd_send(rnicd.worker[worker], &c->r))
		return;
	*unsent_end = c;
	unsent_end = &c->next;
}

void cmd_nothing(struct rnicd_worker *w, struct cmd_all *a, uint64_t now)
{
	(void)w;
	(void)a;
	(void)now;
}

static void work_all(struct rnicd_worker *w, struct cmd *c, uint64_t now)
{
	struct cmd_all *a = c->r.ctx;

	a->work(w, a, now);
}

static void done_all(struct cmd *c)
{
	struct cmd_all *a = c->r.ctx;

	if (--a->left == 0)
		a->done(a);
}

void cmd_send_all(struct cmd_all *a)
{
	a->left = rnicd.n_workers;
	for (uint32_t i = 0; i < rnicd.n_workers; i++) {
		a->one[i].work = work_all;
		a->one[i].done = done_all;
		a->one[i].r.ctx = a;
	}
	for (uint32_t i = 0; i < rnicd.n_workers; i++)
		cmd_send(&a->one[i], i);
}

uint32_t cmd_collect(void)
{
	while (unsent != NULL) {
		struct cmd *c = unsent;
		if (!rnicd_cmd_send(rnicd.worker[c->worker], &c->r))
			break;
		unsent = c->next;
		if (unsent == NULL)
			unsent_end = &unsent;
	}
	return rnicd_cmd_collect();
}

/* ---- effects ---- */

void cmd_stop(void)
{
	for (uint32_t i = 0; i < n_rings; i++) {
		free(ring[i]->mem);
		free(ring[i]);
		ring[i] = NULL;
	}
	n_rings = 0;
}

bool cmd_start(uint32_t workers)
{
	uint64_t size = spsc_size(FX_SLOTS, FX_SLOT);

	for (uint32_t i = 0; i < workers; i++) {
		struct fx_ring *r = aligned_alloc(RN_CACHE_LINE, sizeof(*r));
		void *mem = aligned_alloc(RN_CACHE_LINE, size);
		if (r == NULL || mem == NULL) {
			free(r);
			free(mem);
			cmd_stop();
			return false;
		}
		memset(r, 0, sizeof(*r));
		memset(mem, 0, size);
		struct spsc_place at = { .region = mem, .region_size = size, .nslots = FX_SLOTS, .slot_size = FX_SLOT };
		r->mem = mem;
		ring[i] = r;
		n_rings = i + 1;
		if (spsc_prod_attach(&r->prod, &at) != SPSC_OK || spsc_cons_attach(&r->cons, &at) != SPSC_OK) {
			cmd_stop();
			return false;
		}
	}
	return true;
}

static struct ipc_addr endpoint(const struct pkt_addr *ip, uint16_t port)
{
	struct ipc_addr a = { .port = port };

	memcpy(a.ip, ip->b, sizeof(a.ip));
	return a;
}

static bool about_conn(uint8_t type)
{
	return type <= QP_FX_CLOSED;
}

static void put(struct fx_ring *r, uint32_t worker, const struct qp_fx *fx)
{
	struct cmd_fx *o = spsc_prod_slot(&r->prod, 0);

	*o = (struct cmd_fx) { .type = fx->type,
			       .code = fx->code,
			       .ird = fx->ird,
			       .ord = fx->ord,
			       .vendor_err = fx->vendor_err,
			       .worker = worker,
			       .owner = fx->owner };
	if (about_conn(fx->type)) {
		struct qp_conn *c = fx->conn;
		const struct conn_addr *a = conn_addr(c);
		if (c->passive && (c->owner & CMD_OWNER_PASSIVE) == 0) {
			o->listener = c->owner;
			c->owner = CMD_OWNER_PASSIVE | (uint64_t)worker << 48 | ++r->passive;
		}
		o->owner = c->owner;
		o->conn = c;
		o->port = a->port;
		o->local = endpoint(&a->local, a->lport);
		o->remote = endpoint(&a->remote, a->rport);
		if (fx->type == QP_FX_CLOSED)
			c->owner = 0; /* commands still under way find that it is not theirs */
		if (fx->priv_len > 0 && fx->priv_len <= IPC_PRIV_MAX) {
			memcpy(o->priv, fx->priv, fx->priv_len);
			o->priv_len = fx->priv_len;
		}
	}
	spsc_prod_publish(&r->prod, 1);
}

static void wake_control(struct rnicd_worker *w, uint32_t worker)
{
	/* Refused: it has events to collect and is awake. */
	struct rnicd_event ev = { .type = RNICD_EV_USER, .worker = worker };
	(void)rnicd_event_push(w, &ev);
}

void cmd_sidr(struct rnicd_worker *w, const struct cmd_fx *fx)
{
	struct fx_ring *r = ring[worker_index(w)];

	/* half of the ring is for connections alone */
	if (spsc_prod_free(&r->prod, FX_SLOTS / 2) < FX_SLOTS / 2)
		return;
	memcpy(spsc_prod_slot(&r->prod, 0), fx, sizeof(*fx));
	spsc_prod_publish(&r->prod, 1);
	wake_control(w, worker_index(w));
}

bool cmd_effects(struct rnicd_worker *w, struct qp_ctx *ctx)
{
	uint32_t worker = worker_index(w);
	struct fx_ring *r = ring[worker];
	uint32_t first = r->taken;

	if (ctx->n_fx == 0)
		return true;
	while (r->taken < ctx->n_fx && spsc_prod_free(&r->prod, 1) > 0)
		put(r, worker, &ctx->fx[r->taken++]);
	if (r->taken > first)
		wake_control(w, worker);
	if (r->taken < ctx->n_fx)
		return false;
	r->taken = 0;
	return true;
}

bool cmd_fx_take(struct cmd_fx *fx)
{
	static uint32_t turn;

	for (uint32_t i = 0; i < n_rings; i++) {
		struct fx_ring *r = ring[turn];
		if (spsc_cons_avail(&r->cons, 1) > 0) {
			memcpy(fx, spsc_cons_slot(&r->cons, 0), sizeof(*fx));
			spsc_cons_release(&r->cons, 1);
			return true;
		}
		turn = turn + 1 < n_rings ? turn + 1 : 0;
	}
	return false;
}
