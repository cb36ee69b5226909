/* SPDX-License-Identifier: BSD-3-Clause */
#include "rnic/verbs/fail.h"

#include <sys/socket.h>

static uint64_t away_until;       /* atomic; ns, CLOCK_MONOTONIC */
static struct rnic_session *last; /* atomic: the newest session, whose daemon may be gone */

/* ---- asynchronous events ---- */

union async_slot {
	struct ipc_async_event ev;
	uint8_t slot[IPC_EVENT_SLOT_SMALL];
};

/* Puts an event into the context's queue; cookie 0: no event. May be called under the lock of a completion queue. */
static void async_put(struct rnic_ctx *ctx, int event, uint64_t cookie)
{
	const union async_slot u = { .ev = { .type = (uint32_t)event, .cookie = cookie } };

	if (event == IBV_EVENT_PORT_ERR || event == IBV_EVENT_PORT_ACTIVE)
		__atomic_store_n(&ctx->port_down, event == IBV_EVENT_PORT_ERR, __ATOMIC_RELAXED);
	if (cookie != 0)
		rnic_evq_put(&ctx->async, u.slot);
}

static bool is_of_qp(int event)
{
	return event == IBV_EVENT_QP_FATAL || event == IBV_EVENT_QP_REQ_ERR || event == IBV_EVENT_QP_ACCESS_ERR ||
	       event == IBV_EVENT_QP_LAST_WQE_REACHED;
}

/* The object that an event of a queue pair is about. Events of a device are about its port, number 1. */
static uint64_t cookie_of(int event, const struct ibv_qp *qp)
{
	if (is_of_qp(event))
		return (uintptr_t)qp;
	if (event == IBV_EVENT_SRQ_LIMIT_REACHED)
		return qp != NULL ? (uintptr_t)qp->srq : 0;
	return 1;
}

/* ---- failures that come with a completion ---- */

struct inject_what rnic_fail_what(enum inject_at at, uint32_t opcode, uint32_t qpn)
{
	struct inject_what w = { .at = at, .opcode = opcode, .qpn = qpn };
	struct ibv_qp *qp = rnic_inject_asks_side() ? rnic_qp_find(qpn) : NULL;

	if (qp != NULL)
		w.side = rnic_qp(qp)->side;
	return w;
}

/* Breaks the connection to rnicd. What follows is the same as when rnicd ends: call.c notices the hang-up. */
static void break_off(const struct rnic_session *s, const struct inject_rule *r)
{
	__atomic_store_n(&away_until, rnic_clock(CLOCK_MONOTONIC) + (uint64_t)r->last_ms * 1000000, __ATOMIC_RELAXED);
	shutdown(s->sock, SHUT_RDWR);
}

bool rnic_fail_away(void)
{
	return rn_unlikely(rnic_injecting) &&
	       rnic_clock(CLOCK_MONOTONIC) < __atomic_load_n(&away_until, __ATOMIC_RELAXED);
}

const struct qp_cqe *rnic_fail_cqe(struct rnic_cq *cq, const struct qp_cqe *e, struct qp_cqe *out)
{
	struct inject_what w = rnic_fail_what(INJECT_WC, e->op, e->qpn);
	struct rnic_ctx *ctx = rnic_ctx(cq->ex.context);
	const uint32_t status = rnic_inject_cqe(&w, e->wr_id);

	w.at = INJECT_ASYNC;
	const struct inject_rule *r = rnic_inject_beside(&w);
	if (r != NULL)
		async_put(ctx, r->result, cookie_of(r->result, rnic_qp_find(e->qpn)));
	w.at = INJECT_GONE;
	r = rnic_inject_beside(&w);
	if (r != NULL)
		break_off(ctx->s, r);
	if (status == IBV_WC_SUCCESS || e->status != IBV_WC_SUCCESS)
		return e; /* a completion that has failed already stays as it is */
	*out = *e;
	out->status = (uint8_t)status;
	out->vendor_err = 0;
	return out;
}

/* ---- failures that come at a time ---- */

#define FIRED_MOST 64u

/* The rule that fires, and the queue pairs or shared receive queues that have got its event: each gets one. */
struct fired {
	const struct inject_rule *r;
	uint64_t cookie[FIRED_MOST];
	uint32_t n;
};

static void fire_at_qp(struct rnic_qp *qp, void *arg)
{
	struct fired *f = arg;
	const uint64_t cookie = cookie_of(f->r->result, &qp->ex.qp_base);

	if (rnic_dead(qp->s) || cookie == 0 || (f->r->qpn != 0 && f->r->qpn != qp->ex.qp_base.qp_num) ||
	    (f->r->side != INJECT_BOTH && f->r->side != qp->side))
		return;
	for (uint32_t i = 0; i < f->n; i++)
		if (f->cookie[i] == cookie)
			return;
	if (f->n == FIRED_MOST)
		return;
	f->cookie[f->n++] = cookie;
	async_put(rnic_ctx(qp->ex.qp_base.context), f->r->result, cookie);
}

static bool fire_at_devices(struct rnic_session *s, int event)
{
	bool any = false;

	pthread_mutex_lock(&s->lock);
	rn_list_each(struct rnic_evq, q, &s->evqs, link) {
		if (q->kind != IPC_CHANNEL_ASYNC)
			continue;
		async_put(rn_container_of(q, struct rnic_ctx, async), event, 1);
		any = true;
	}
	pthread_mutex_unlock(&s->lock);
	return any;
}

/* Carries out a rule whose time has come. False: there is nothing yet that the rule could be applied to. */
static bool fire(const struct inject_rule *r)
{
	struct fired f = { .r = r };
	struct rnic_session *s = __atomic_load_n(&last, __ATOMIC_ACQUIRE);

	if (s == NULL || rnic_dead(s))
		return false;
	if (r->at == INJECT_GONE) {
		break_off(s, r);
		return true;
	}
	if (is_of_qp(r->result) || r->result == IBV_EVENT_SRQ_LIMIT_REACHED) {
		rnic_qp_each(fire_at_qp, &f);
		return f.n > 0;
	}
	return fire_at_devices(s, r->result);
}

void rnic_fail_begin(struct rnic_session *s)
{
	__atomic_store_n(&last, s, __ATOMIC_RELEASE);
	rnic_inject_begin(fire);
	rnic_orders_begin(s);
}
