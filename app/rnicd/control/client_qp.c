/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's requests about queue pairs. client_qp_run.c: the operation under way on a QP, and its worker. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/client.h"
#include "control/dev.h"
#include "control/group.h"
#include "control/oob.h"
#include "control/rd_memory.h"
#include "border/policy.h"

#define QPN_HASH     4096u
#define QPN_LAST_EFA 0xffffu
#define QPN_DRAWS    1024u

#define RNR_FOR_GOOD 7u
#define RNR_UNIT_NS  (10 * RN_NS_PER_US)
#define RNR_LEAST_NS (100 * RN_NS_PER_MS)

#define SILENCE_LEAST_NS RN_NS_PER_S

static struct rn_list by_qpn[QPN_HASH];

/* ---- numbers ---- */

struct client_qp *client_qp_of(uint32_t qpn)
{
	rn_list_each(struct client_qp, q, &by_qpn[qpn % QPN_HASH], by_qpn) {
		if (q->qpn == qpn)
			return q;
	}
	return NULL;
}

static void qpn_put(struct client_qp *q) { rn_list_push_front(&by_qpn[q->qpn % QPN_HASH], &q->by_qpn); }
static void qpn_del(struct client_qp *q) { rn_list_remove(&by_qpn[q->qpn % QPN_HASH], &q->by_qpn); }

/*
 * QPNs are random, because a peer that knows a QPN may request a connection to it. There are far more QPNs than QPs, so
 * the QPN of a destroyed QP is seldom drawn again soon. Datagram queue pairs of a device in the personality efa have
 * QPNs of 16 bits, as libfabric's addresses have no room for more.
 */
uint32_t client_qp_number(const struct rnicd_port *port, bool datagram)
{
	const bool few = datagram && port->cfg->personality == RNICD_EFA;
	const uint32_t last = few ? QPN_LAST_EFA : rnicd.qpn_last;
	uint32_t qpn = 0;

	for (uint32_t i = 0; i < QPN_DRAWS; i++) {
		qpn = rnicd.qpn_first + (uint32_t)(dev_random() % (last - rnicd.qpn_first + 1));
		if (client_qp_of(qpn) == NULL && !udpl_is_sock(qpn) && !udpl_has_port(qpn))
			return qpn;
	}
	return 0;
}

/* ---- creation ---- */

static bool take_bit(struct client *c, uint32_t *bit)
{
	for (uint32_t i = 0; i < RN_ARRAY_LEN(c->db_used); i++) {
		if (c->db_used[i] == UINT64_MAX)
			continue;
		uint32_t b = (uint32_t)__builtin_ctzll(~c->db_used[i]);
		c->db_used[i] |= UINT64_C(1) << b;
		*bit = i * 64 + b;
		return true;
	}
	return false;
}

static void give_bit(struct client *c, uint32_t bit) { c->db_used[bit / 64] &= ~(UINT64_C(1) << (bit % 64)); }

static void give_spans(struct client_qp *q)
{
	spans_give(&q->c->spans, &q->shm);
	spans_give(&q->c->spans, &q->sq);
	spans_give(&q->c->spans, &q->rq);
}

/* Reserves the ranges of the QP's queues, which the engine has found to lie in the region. */
static enum span_verdict take_spans(struct client_qp *q, const struct qp_attr *a)
{
	q->shm = (struct span){ .off = a->shm_off, .len = sizeof(struct qp_shm) };
	enum span_verdict v = spans_take(&q->c->spans, &q->shm);
	if (v == SPAN_OK) {
		q->sq = (struct span){ .off = a->sq_off, .len = spsc_size(a->sq_slots, QP_SLOT_SIZE) };
		v = spans_take(&q->c->spans, &q->sq);
	}
	if (v == SPAN_OK && a->srq == NULL) {
		q->rq = (struct span){ .off = a->rq_off, .len = spsc_size(a->rq_slots, QP_SLOT_SIZE) };
		v = spans_take(&q->c->spans, &q->rq);
	}
	return v;
}

static void forget(struct client_qp *q)
{
	struct client *c = q->c;

	owner_del(&q->owner);
	qpn_del(q);
	rn_list_each(struct client_target, t, &q->opens, link) { /* any are left only if the host ends before them */
		rn_list_remove(&q->opens, &t->link);
		t->q = NULL;
	}
	q->n_opens = 0;
	table_del(&c->qp, q->handle);
	give_bit(c, q->db_bit);
	c->slots -= q->slots;
	client_pd_unuse(q->pd);
	q->scq->users--;
	if (q->rcq != q->scq)
		q->rcq->users--;
	if (q->srq != NULL)
		q->srq->users--;
	client_async_leave(q->async, &q->untold);
	if (q->datagram)
		user_give(c->user, USER_UDS, q->worker, 1);
	give_spans(q);
	client_gram_end(q);
	client_hold_end(q);
	client_qp_unplace(q);
	user_free(c->user, q->qp);
	user_free(c->user, q->no_queues);
	user_free(c->user, q);
}

bool client_qp_enter(struct client_qp *q, uint64_t owner)
{
	struct client *c = q->c;
	bool bit = take_bit(c, &q->db_bit);

	q->handle = bit ? client_table_add(c, &c->qp, q) : 0;
	if (q->handle == 0) {
		if (bit)
			give_bit(c, q->db_bit);
		return false;
	}
	owner_put(&q->owner, OWNER_QP, owner);
	qpn_put(q);
	return true;
}

static void answer_made(const struct client_qp *q)
{
	struct ipc_msg m = { .create_qp_ok = { .handle = q->handle, .qpn = q->qpn, .db_bit = q->db_bit } };

	client_answer(q->c, &m, IPC_MSG_LEN(create_qp_ok));
}

static void created(struct cmd *cmd)
{
	struct client_qp *q = rn_container_of(cmd, struct client_qp, cmd);
	struct client *c = q->c;

	if (cmd->qp.verdict == QP_OK) {
		if (client_qp_give_back(q))
			answer_made(q);
		return;
	}
	const int err = cmd->qp.err;
	forget(q);
	if (client_back(c))
		client_error(c, err != 0 ? err : ENOMEM, "%s", client_gram_why(err));
}

static const char *qp_refusal(const struct client *c, const struct ipc_create_qp *r, struct client_chan **async)
{
	const struct client_pd *pd = client_pd_get(c, r->pd);
	const struct client_cq *scq = table_get(&c->cq, r->send_cq), *rcq = table_get(&c->cq, r->recv_cq);
	const struct client_srq *srq = table_get(&c->srq, r->srq);

	if (pd == NULL)
		return "there is no such protection domain";
	if (scq == NULL || rcq == NULL)
		return "there is no such completion queue";
	if (scq->dev != pd->dev || rcq->dev != pd->dev)
		return "its completion queues are of another device than its protection domain";
	if (r->srq != 0 && (srq == NULL || srq->pd->dev != pd->dev))
		return "there is no such shared receive queue";
	if (r->datagram > IPC_RD || r->xrc > IPC_XRC_INITIATOR ||
	    (r->xrc != IPC_XRC_NONE && (r->datagram != IPC_UD_NONE || r->srq != 0)))
		return "there is no such kind of queue pairs";
	if (!dev_has_design(r->design))
		return "the design that it asks for is none of those that this process has";
	const char *held = client_hold_refusal(r);
	if (held != NULL)
		return held;
	if (!rn_is_pow2(r->sq_slots) || r->sq_slots > DEV_MAX_SLOTS || r->rq_slots > DEV_MAX_SLOTS ||
	    (srq == NULL ? !rn_is_pow2(r->rq_slots) : r->rq_slots != 0))
		return "the sizes of its queues must be powers of two within the device's limit";
	if (!client_chan_find(c, r->async, IPC_CHANNEL_ASYNC, pd->dev, async))
		return "there is no such channel for asynchronous events";
	return NULL;
}

/* How long a message waits for a receive if the client does not say it, ns. On InfiniBand the peer's rnr_retry decides,
 * which is not known here; most programs set 7 (without limit). */
static uint64_t rnr_default(const struct client_qp *q)
{
	const struct rnicd_port_cfg *cfg = rnicd.port[q->pd->dev]->cfg;

	/*
	 * A sender of reliable datagrams cannot know which peers have posted receives, so by default its messages wait.
	 */
	return rnicd_rnr_waits(cfg) || (q->reliable && cfg->rnr == RNICD_RNR_AUTO) ? RN_NEVER : 0;
}

/*
 * How long a message waits for a receive. On InfiniBand the sender repeats the message rnr_retry times, each time after
 * the receiver's RNR timer (IBTA, 9.7.5.2.8). Here a message waits as long as all repetitions would take, but at least
 * for the time that a descheduled process needs to get its CPU back. Programs for iWARP devices leave rnr_retry 0: on
 * such a device a message waits without limit if the port has rnr = wait.
 */
void client_qp_rnr(struct client_qp *q, uint32_t retry, uint32_t timer)
{
	uint64_t ns = timer == 0 ? 65536u : timer == 1 ? 1u : (uint64_t)(2 + (timer & 1)) << (timer / 2 - 1);

	q->at.rnr_ns = rnr_default(q);
	if (q->reliable) { /* its messages tell the peer its rnr_retry; the peers' messages wait for its RNR timer */
		q->at.rnr_told = retry == RNR_FOR_GOOD ? 0 : (uint8_t)(retry + 1);
		q->at.rnr_unit_ns = rn_max_u64(ns * RNR_UNIT_NS, RNR_LEAST_NS);
		return;
	}
	if (q->at.rnr_ns != 0 && retry < RNR_FOR_GOOD && rnicd_adapter(rnicd.port[q->pd->dev]->cfg))
		q->at.rnr_ns = retry == 0 ? 0 : rn_max_u64(retry * ns * RNR_UNIT_NS, RNR_LEAST_NS);
}

/*
 * How long the QP waits for a silent peer. An adapter sends retry_cnt + 1 times and waits each time between one and
 * four time-outs (IBTA, 9.7.6.1.3). Here the wait is at least the time that a descheduled process needs to get its CPU
 * back. timeout 0: TCP's own limit.
 */
void client_qp_silence(struct client_qp *q, uint32_t timeout, uint32_t retry_cnt)
{
	const uint64_t ns = 4 * (UINT64_C(4096) << (timeout & 31)) * ((retry_cnt & 7) + 1);

	q->at.silence_ns = timeout == 0 ? 0 : rn_max_u64(ns, SILENCE_LEAST_NS);
}

struct qp_tune client_qp_tune(const struct client_qp *q)
{
	return (struct qp_tune){ .access = q->at.access,
				 .qkey = q->at.qkey,
				 .rnr_ns = q->at.rnr_ns,
				 .silence_ns = q->at.silence_ns,
				 .rnr_told = q->at.rnr_told,
				 .rnr_unit_ns = q->at.rnr_unit_ns };
}

/* The attributes of a new QP for the engine. */
static struct qp_attr attr_of(const struct client_qp *q, const struct ipc_create_qp *r)
{
	const struct rnicd_port *port = rnicd.port[q->pd->dev];
	const bool many = r->datagram == IPC_UD_LONG;

	return (struct qp_attr){
		.owner = owner_new(),
		.qpn = q->qpn,
		.pd = q->pd->id,
		.dev = dev_get(q->pd->dev),
		.scq = q->scq->cq,
		.rcq = q->rcq->cq,
		.srq = q->srq != NULL ? q->srq->srq : NULL,
		.sig_all = r->sig_all != 0,
		.access = q->at.access,
		.type = q->reliable   ? QP_RD
			: q->datagram ? QP_UD
				      : QP_RC,
		.many = q->reliable,
		.xrc = q->xrc == IPC_XRC_INITIATOR ? QP_XRC_INITIATOR : QP_XRC_NONE,
		.max_msg = many          ? ud_max(port)
			   : q->datagram ? ud_mtu(port)
					 : 0,
		.sparing = rnicd_adapter(port->cfg),
		.tenant = user_tenant(q->c->user),
		.region = q->c->region[IPC_REGION_QUEUES].base,
		.region_size = q->c->region[IPC_REGION_QUEUES].size,
		.shm_off = r->shm_off,
		.sq_off = r->sq_off,
		.rq_off = r->rq_off,
		.sq_slots = r->sq_slots,
		.rq_slots = r->rq_slots,
	};
}

/* Makes a QP and enters it into the tables of its client and of the daemon. NULL: *v says what is wrong with the
 * request; QP_OK: no memory, or the user has too many datagram QPs. */
static struct client_qp *qp_new(struct client *c, const struct ipc_create_qp *r, enum qp_verdict *v)
{
	struct client_qp *q = user_alloc(c->user, sizeof(*q));
	const struct rnicd_port *port = rnicd.port[client_pd_get(c, r->pd)->dev];
	struct qp *qp = user_alloc_lines(c->user, client_gram_size(r));

	*v = QP_OK;
	const uint32_t qpn = r->udp_port != 0 ? UDPL_QPN_PORTS | r->udp_port
					      : client_qp_number(port, r->datagram != IPC_UD_NONE);
	if (q == NULL || qp == NULL || qpn == 0 || (r->datagram == IPC_RD && rd_memory(port->index, qpn) == NULL))
		goto fail;
	*q = (struct client_qp){ .c = c,
				 .qp = qp,
				 .qpn = qpn,
				 .datagram = r->datagram != IPC_UD_NONE,
				 .reliable = r->datagram == IPC_RD,
				 .deaf = r->deaf != 0,
				 .design = r->design,
				 .xrc = r->xrc,
				 .slots = r->sq_slots + r->rq_slots,
				 .cookie = r->cookie,
				 .pd = client_pd_get(c, r->pd),
				 .scq = table_get(&c->cq, r->send_cq),
				 .rcq = table_get(&c->cq, r->recv_cq),
				 .srq = table_get(&c->srq, r->srq),
				 .at.access = QP_ACC_REMOTE };
	client_qp_rnr(q, RNR_FOR_GOOD, 0);
	const struct qp_attr a = attr_of(q, r);
	*v = qp_init(qp, &a);
	const struct qp_tune t = client_qp_tune(q);
	if (*v == QP_OK)
		qp_set(qp, &t); /* no worker knows it yet */
	if (*v == QP_OK && !client_gram_begin(q, r))
		*v = QP_BAD_ATTR;
	enum span_verdict taken = *v == QP_OK ? take_spans(q, &a) : SPAN_OVERLAPS;
	if (taken == SPAN_OK && !client_hold_begin(q, r))
		taken = SPAN_OVERLAPS;
	if (taken == SPAN_OVERLAPS)
		*v = QP_BAD_ATTR;
	/* the user's share is counted for each worker: forget() gives it back there */
	if (q->datagram)
		q->worker = client_qp_home(q);
	if (taken != SPAN_OK || (q->datagram && !user_take(c->user, USER_UDS, q->worker, 1)))
		goto fail;
	if (!client_qp_enter(q, a.owner)) {
		if (q->datagram)
			user_give(c->user, USER_UDS, q->worker, 1);
		goto fail;
	}
	return q;
fail:
	if (q != NULL && q->c != NULL) {
		give_spans(q);
		client_gram_end(q);
		client_hold_end(q);
	}
	user_free(c->user, q);
	user_free(c->user, qp);
	return NULL;
}

void client_create_qp(struct client *c)
{
	const struct ipc_create_qp r = c->req.create_qp;
	struct client_chan *async;
	enum qp_verdict v;
	const char *no = qp_refusal(c, &r, &async);
	int err = EINVAL;

	if (no == NULL)
		no = client_gram_refusal(c, &r, client_pd_get(c, r.pd)->dev, &err);
	if (no != NULL) {
		client_error(c, err, "queue pair: %s", no);
		return;
	}
	if (c->qp.live >= rnicd.cfg.quota_qps || c->slots + r.sq_slots + r.rq_slots > rnicd.cfg.quota_wrs) {
		client_over_quota(
			c,
			"quota: a client may have %u queue pairs and %u queue entries (quota-qps, quota-outstanding)",
			rnicd.cfg.quota_qps, rnicd.cfg.quota_wrs);
		return;
	}
	struct client_qp *q = qp_new(c, &r, &v);
	if (q == NULL) {
		client_error(
			c, v == QP_OK ? ENOMEM : EINVAL,
			v == QP_OK
				? "no memory for a queue pair"
				: "the send or receive queue lies outside the queue region, or is misaligned, or lies "
				  "in another queue");
		return;
	}
	client_pd_use(q->pd);
	q->scq->users++;
	if (q->rcq != q->scq)
		q->rcq->users++;
	if (q->srq != NULL)
		q->srq->users++;
	q->async = async;
	if (async != NULL)
		async->users++;
	c->slots += q->slots;
	client_qp_place(q);
	q->cmd.qp = client_qp_args(q);
	/* A new QP of an iWARP device is in INIT, one of a RoCE adapter in RESET. */
	q->cmd.qp.has_state = !rnicd_adapter(rnicd.port[q->pd->dev]->cfg);
	q->cmd.qp.state = QP_S_INIT;
	if (q->datagram || !client_qp_create(q, answer_made))
		client_qp_command(q, CMD_QP_CREATE, created);
}

/* ---- attributes ---- */

struct client_qp *client_qp_get(const struct client *c, uint32_t handle)
{
	const struct client_target *t;

	if ((handle & IPC_QP_SHARED) == 0)
		return table_get(&c->qp, handle);
	t = table_get(&c->target, handle & ~IPC_QP_SHARED);
	return t != NULL ? t->q : NULL;
}

struct client_qp *client_qp_find(struct client *c, uint32_t handle, void (*again)(struct client *c))
{
	struct client_qp *q = client_qp_get(c, handle);

	if (q == NULL || client_qp_is_ending(q)) {
		client_error(c, EINVAL, "there is no queue pair %u", handle);
		return NULL;
	}
	if (!client_qp_is_free(q) && (q->oob != NULL || q->xrc == IPC_XRC_TARGET) && q->parked == NULL) {
		q->parked = again;
		q->parker = c;
		if (c != q->c)
			client_hold(c);
		return NULL;
	}
	if (!client_qp_is_free(q)) { /* it is being connected, or one request about it waits already */
		client_error(c, EBUSY, "the queue pair is being connected");
		return NULL;
	}
	return q;
}

static void modified(struct cmd *cmd)
{
	struct client_qp *q = rn_container_of(cmd, struct client_qp, cmd);

	struct client *c = client_qp_asked(q);
	const struct ipc_modify_qp *r = &c->req.modify_qp;
	const struct cmd_qp did = cmd->qp; /* the next command may be sent below */

	if (!client_qp_give_back(q)) {
		if (c != q->c)
			client_error(c, EIO, "the queue pair is being destroyed");
		return;
	}
	if (did.verdict != QP_OK) {
		q->at = q->was;
		client_error(c, EINVAL, "the queue pair cannot go to that state from %s",
			     qp_state_name(qp_get_state(q->qp)));
	} else if ((r->mask & IPC_QP_ATTR_DEST) != 0 && !oob_begin(q, r)) {
		client_error(c, ENOMEM, "no memory to connect the queue pair");
	} else {
		if (did.has_state)
			q->asked = did.state;
		if ((r->mask & IPC_QP_ATTR_RETRY) != 0)
			oob_patience(q, r->timeout, r->retry_cnt);
		client_ok(c);
	}
	client_qp_go_on(q);
}

#define ATTRS \
	((uint32_t)(IPC_QP_ATTR_STATE | IPC_QP_ATTR_ACCESS | IPC_QP_ATTR_IRD | IPC_QP_ATTR_ORD | IPC_QP_ATTR_DEST | \
		    IPC_QP_ATTR_RETRY | IPC_QP_ATTR_RNR | IPC_QP_ATTR_QKEY | IPC_QP_ATTR_SQD_NOTIFY))

/* Why the QP may not be connected without a connection manager, as a sentence; NULL: it may. */
static const char *dest_refusal(const struct client_qp *q, const struct ipc_modify_qp *r)
{
	if (q->datagram)
		return "a datagram queue pair has no destination";
	if ((r->mask & IPC_QP_ATTR_STATE) == 0 || r->state != QP_S_RTR || q->oob != NULL ||
	    qp_get_state(q->qp) != QP_S_INIT)
		return "a destination comes with the step from INIT to RTR";
	if (rnicd.port[q->pd->dev]->cfg->qp_port == 0)
		return client_by_design(
			"connections without rdma_cm are off: set 'qp-port' in rnicd's configuration, or use the "
			"program's option for rdma_cm (-R)",
			"connections without rdma_cm are off: set qp-port (RNIC_EMBEDDED_KEYS=qp-port=PORT), or use "
			"the program's option for rdma_cm (-R)",
			"the designs host and assisted connect by rdma_cm only: run the program without --design, or "
			"with its option for rdma_cm (-R)");
	return NULL;
}

void client_modify_qp(struct client *c)
{
	const struct ipc_modify_qp *r = &c->req.modify_qp;
	struct client_qp *q = client_qp_find(c, r->qp, client_modify_qp);

	if (q == NULL)
		return;
	bool bad = (r->mask & ~ATTRS) != 0 ||
		   ((r->mask & IPC_QP_ATTR_STATE) != 0 && (r->state > QP_S_ERR || r->state == 5)) ||
		   ((r->mask & IPC_QP_ATTR_IRD) != 0 && r->ird > QP_MAX_RD_ATOMIC) ||
		   ((r->mask & IPC_QP_ATTR_RNR) != 0 && (r->rnr_retry > RNR_FOR_GOOD || r->rnr_timer > 31)) ||
		   ((r->mask & IPC_QP_ATTR_ORD) != 0 && r->ord > QP_MAX_RD_ATOMIC);
	if (bad) {
		client_error(c, EINVAL, "queue pair: an attribute has a value that is not possible");
		return;
	}
	const char *no = (r->mask & IPC_QP_ATTR_DEST) != 0 ? dest_refusal(q, r) : NULL;
	if (no != NULL) {
		client_error(c, EOPNOTSUPP, "queue pair: %s", no);
		return;
	}
	q->was = q->at;
	const struct qp_tune was = client_qp_tune(q);
	if ((r->mask & IPC_QP_ATTR_ACCESS) != 0)
		q->at.access = r->access & QP_ACC_ALL;
	if ((r->mask & IPC_QP_ATTR_IRD) != 0)
		q->at.ird = r->ird;
	if ((r->mask & IPC_QP_ATTR_ORD) != 0)
		q->at.ord = r->ord;
	if ((r->mask & IPC_QP_ATTR_QKEY) != 0)
		q->at.qkey = r->qkey;
	const bool has_state = (r->mask & IPC_QP_ATTR_STATE) != 0;
	if (has_state && r->state == QP_S_RESET) {
		client_qp_rnr(q, RNR_FOR_GOOD, 0);
		q->at.silence_ns = 0;
	}
	if ((r->mask & IPC_QP_ATTR_RNR) != 0)
		client_qp_rnr(q, r->rnr_retry, r->rnr_timer);
	if ((r->mask & IPC_QP_ATTR_RETRY) != 0)
		client_qp_silence(q, r->timeout, r->retry_cnt);
	if (has_state && (r->state == QP_S_RESET || r->state == QP_S_ERR))
		oob_leave(q);
	q->cmd.qp = client_qp_args(q);
	q->cmd.qp.tune = client_qp_tune(q);
	q->cmd.qp.was = was;
	q->cmd.qp.has_state = has_state;
	q->cmd.qp.state = (enum qp_state)r->state;
	q->cmd.qp.tune.tell_drained = (r->mask & IPC_QP_ATTR_SQD_NOTIFY) != 0 && has_state && r->state == QP_S_SQD;
	client_qp_ask(q, c);
	client_qp_command(q, CMD_QP_MODIFY, modified);
}

void client_query_qp(struct client *c)
{
	struct client_qp *q = client_qp_get(c, c->req.handle.handle);

	if (q == NULL || client_qp_is_ending(q)) {
		client_error(c, EINVAL, "there is no queue pair %u", c->req.handle.handle);
		return;
	}
	uint32_t state = q->coming ? QP_S_INIT : qp_get_state(q->qp);
	/* The engine has connected the QP, as both ends are in RTR; but the client has not moved it to RTS yet. */
	if (q->oob != NULL && q->asked == QP_S_RTR && state == QP_S_RTS)
		state = QP_S_RTR;
	struct ipc_msg m = { .query_qp_ok = {
				     .state = state, .access = q->at.access, .ird = q->at.ird, .ord = q->at.ord } };
	client_answer(c, &m, IPC_MSG_LEN(query_qp_ok));
}

/* ---- destruction ---- */

static void destroyed(struct client_qp *q)
{
	struct client *c = q->c, *asker = q->asker != NULL ? client_qp_asked(q) : c;

	forget(q); /* client_back() ends the QP's hold of the client */
	if (client_back(c) || asker != c)
		client_ok(asker);
}

void client_qp_end(struct client_qp *q)
{
	oob_leave(q);
	client_groups_leave(q);
	client_qp_destroy(q, destroyed);
}

void client_destroy_qp(struct client *c)
{
	struct client_qp *q = client_qp_find(c, c->req.handle.handle, client_destroy_qp);

	if (q != NULL)
		client_qp_end(q);
}
