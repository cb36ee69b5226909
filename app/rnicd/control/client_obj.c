/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, protection domains and completion queues. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "control/client.h"
#include "control/dev.h"

void client_query_dev(struct client *c)
{
	struct ipc_msg m = { .status = 0 };
	uint32_t dev = c->req.query_dev.dev;

	if (dev >= rnicd.n_ports) {
		client_error(c, ENODEV, "there is no device %u: this rnicd has %u", dev, rnicd.n_ports);
		return;
	}
	dev_info(dev, &m.dev_info);
	client_answer(c, &m, IPC_MSG_LEN(dev_info));
}

/* ---- protection domains ---- */

static struct table pd_ids; /* PDs of all clients, by id; an id is free again when all objects in its PD are gone */

struct client_pd *client_pd_get(const struct client *c, uint32_t handle)
{
	struct client_pd *p = table_get(&c->pd, handle);

	return p == NULL || (p->borrowed && p->lender == NULL) ? NULL : p;
}

static void pd_free(struct user *user, struct client_pd *p)
{
	if (!p->borrowed)
		table_del(&pd_ids, p->id);
	user_free(user, p);
}

void client_pds_free(struct client *c)
{
	struct client_pd *p;

	for (uint32_t h = 0; (p = table_next(&c->pd, &h)) != NULL;)
		pd_free(c->user, p);
	client_table_free(c, &c->pd);
}

void client_alloc_pd(struct client *c)
{
	uint32_t dev = c->req.alloc_pd.dev;

	if (dev >= rnicd.n_ports) {
		client_error(c, ENODEV, "there is no device %u", dev);
		return;
	}
	struct client_pd *p = c->pd.live < DEV_MAX_PD ? user_alloc(c->user, sizeof(*p)) : NULL;
	if (p != NULL)
		p->id = table_add(&pd_ids, p);
	if (p != NULL && p->id != 0)
		p->handle = client_table_add(c, &c->pd, p);
	if (p == NULL || p->handle == 0) {
		if (p != NULL)
			pd_free(c->user, p);
		client_error(c, ENOMEM,
			     c->pd.live >= DEV_MAX_PD
				     ? "a client may have %u protection domains: deallocate some"
				     : "no memory for another protection domain: %u are in use, and this "
				       "user may have no more objects (object-memory, user-share)",
			     c->pd.live);
		return;
	}
	p->c = c;
	p->dev = dev;
	client_ok_handle(c, p->handle);
}

void client_dealloc_pd(struct client *c)
{
	struct client_pd *p = table_get(&c->pd, c->req.handle.handle);

	if (p == NULL) {
		client_error(c, EINVAL, "there is no protection domain %u", c->req.handle.handle);
		return;
	}
	if (p->users > 0) {
		client_error(c, EBUSY, "the protection domain is in use by %u memory regions and queues", p->users);
		return;
	}
	if (p->in_use > 0) {
		client_error(c, EBUSY,
			     "the protection domain is in use: memory regions or queues are in %u imports of it",
			     p->in_use);
		return;
	}
	rn_list_each(struct client_pd, g, &p->guests, guest)
		client_pd_return(g);
	client_pd_return(p);
	table_del(&c->pd, p->handle);
	pd_free(c->user, p);
	client_ok(c);
}

/* ---- completion queues ---- */

static const char *cq_refusal(const struct client *c, const struct ipc_create_cq *r, struct client_chan **chan,
			      struct client_chan **async)
{
	if (r->dev >= rnicd.n_ports)
		return "there is no such device";
	if (!rn_is_pow2(r->cqe) || r->cqe > 2 * DEV_MAX_CQE)
		return "the number of entries must be a power of two within the device's limit";
	if (!client_chan_find(c, r->channel, IPC_CHANNEL_COMP, r->dev, chan))
		return "there is no such completion channel";
	if (!client_chan_find(c, r->async, IPC_CHANNEL_ASYNC, r->dev, async))
		return "there is no such channel for asynchronous events";
	return NULL;
}

static struct qp_cq_attr rings_of(const struct client *c, uint64_t off, uint64_t stride, uint32_t cqe, bool wide)
{
	return (struct qp_cq_attr){ .region = c->region[IPC_REGION_QUEUES].base,
				    .region_size = c->region[IPC_REGION_QUEUES].size,
				    .ring_off = off,
				    .ring_stride = stride,
				    .workers = rnicd.n_workers,
				    .cqe = cqe,
				    .wide = wide };
}

/* Reserves the range in which the rings of all workers lie, and checks that no two of these rings overlap. */
static enum span_verdict take_rings(struct client *c, const struct qp_cq_attr *a, struct span *s)
{
	const uint64_t one = spsc_size(a->cqe, qp_cqe_size(a->wide));

	if (a->workers > 1 && a->ring_stride < one)
		return SPAN_OVERLAPS;
	*s = (struct span){ .off = a->ring_off, .len = (a->workers - 1) * a->ring_stride + one };
	return spans_take(&c->spans, s);
}

static struct client_cq *cq_new(struct client *c, const struct ipc_create_cq *r, enum spsc_verdict *v)
{
	struct client_cq *q = user_alloc(c->user, sizeof(*q));
	struct qp_cq *cq = user_alloc_lines(c->user, sizeof(*cq));

	*v = SPSC_OK;
	if (q == NULL || cq == NULL)
		goto fail;
	struct qp_cq_attr a = rings_of(c, r->ring_off, r->ring_stride, r->cqe, r->wide != 0);
	a.owner = owner_new();
	a.shm_off = r->shm_off;
	*v = qp_cq_init(cq, &a);
	if (*v != SPSC_OK)
		goto fail;
	q->shm = (struct span){ .off = a.shm_off, .len = sizeof(struct qp_cq_shm) };
	enum span_verdict taken = spans_take(&c->spans, &q->shm);
	if (taken == SPAN_OK)
		taken = take_rings(c, &a, &q->rings[0]);
	if (taken == SPAN_OVERLAPS)
		*v = SPSC_BAD_RANGE;
	q->handle = taken == SPAN_OK ? client_table_add(c, &c->cq, q) : 0;
	if (q->handle == 0)
		goto fail;
	q->cq = cq;
	owner_put(&q->owner, OWNER_CQ, a.owner);
	return q;
fail:
	if (q != NULL) {
		spans_give(&c->spans, &q->shm);
		spans_give(&c->spans, &q->rings[0]);
	}
	user_free(c->user, q);
	user_free(c->user, cq);
	return NULL;
}

void client_create_cq(struct client *c)
{
	const struct ipc_create_cq r = c->req.create_cq;
	struct client_chan *chan, *async;
	enum spsc_verdict v;
	const char *no = cq_refusal(c, &r, &chan, &async);

	if (no != NULL) {
		client_error(c, EINVAL, "completion queue: %s", no);
		return;
	}
	if (c->cq.live >= rnicd.cfg.quota_cqs || c->slots + r.cqe > rnicd.cfg.quota_wrs) {
		client_over_quota(c,
				  "quota: a client may have %u completion queues and %u queue entries (quota-cqs, "
				  "quota-outstanding)",
				  rnicd.cfg.quota_cqs, rnicd.cfg.quota_wrs);
		return;
	}
	struct client_cq *q = cq_new(c, &r, &v);
	if (q == NULL) {
		client_error(c, v == SPSC_OK ? ENOMEM : EINVAL,
			     v == SPSC_OK
				     ? "no memory for a completion queue"
				     : "the completion queue lies outside the queue region, or is misaligned, or lies "
				       "in another queue");
		return;
	}
	q->c = c;
	q->dev = r.dev;
	q->cqe = r.cqe;
	q->ring_off = r.ring_off;
	q->ring_stride = r.ring_stride;
	q->cookie = r.cookie;
	q->chan = chan;
	q->async = async;
	q->event.cq_cookie = r.cookie;
	q->ev = (struct ev_node){ .len = sizeof(q->event), .data = &q->event };
	if (chan != NULL)
		chan->users++;
	if (async != NULL)
		async->users++;
	c->slots += r.cqe;
	client_ok_handle(c, q->handle);
}

void client_cq_free(struct client_cq *q)
{
	if (q->chan != NULL) {
		ev_cancel(&q->ev);
		q->chan->users--;
	}
	client_async_leave(q->async, &q->untold);
	owner_del(&q->owner);
	q->c->slots -= q->cqe;
	spans_give(&q->c->spans, &q->shm);
	spans_give(&q->c->spans, &q->rings[0]);
	spans_give(&q->c->spans, &q->rings[1]);
	table_del(&q->c->cq, q->handle);
	user_free(q->c->user, q->cq);
	user_free(q->c->user, q);
}

struct cq_end {
	struct cmd cmd;
	struct client_cq *q;
};

static void cq_ended(struct cmd *cmd)
{
	struct cq_end *e = rn_container_of(cmd, struct cq_end, cmd);
	struct client *c = e->q->c;

	client_cq_free(e->q);
	free(e);
	if (client_back(c))
		client_ok(c);
}

void client_destroy_cq(struct client *c)
{
	struct client_cq *q = table_get(&c->cq, c->req.handle.handle);

	if (q == NULL) {
		client_error(c, EINVAL, "there is no completion queue %u", c->req.handle.handle);
		return;
	}
	if (q->users > 0) {
		client_error(c, EBUSY, "the completion queue is in use by %u queue pairs", q->users);
		return;
	}
	struct cq_end *e = calloc(1, sizeof(*e));
	if (e == NULL) {
		client_error(c, ENOMEM, "no memory");
		return;
	}
	/*
	 * The CQ's QPs are gone, and each QP's worker has run another turn since. So a worker can use the CQ only in
	 * the flush of its present turn, which is over when the worker has answered CMD_NOTHING.
	 */
	*e = (struct cq_end){ .q = q, .cmd = { .type = CMD_NOTHING, .done = cq_ended } };
	client_hold(c);
	cmd_send_all(&e->cmd);
}

struct cq_resize {
	struct cmd cmd;
	struct client_cq *q;
	uint32_t cqe;
	struct span *old; /* the range of the old rings */
	struct spsc_prod ring[QP_MAX_WORKERS];
};

static void resized(struct cmd *cmd)
{
	struct cq_resize *e = rn_container_of(cmd, struct cq_resize, cmd);
	struct client *c = e->q->c;

	c->slots += e->cqe - e->q->cqe;
	e->q->cqe = e->cqe;
	e->q->ring_off = c->req.resize_cq.ring_off;
	e->q->ring_stride = c->req.resize_cq.ring_stride;
	spans_give(&c->spans, e->old);
	free(e);
	if (client_back(c))
		client_ok(c);
}

void client_resize_cq(struct client *c)
{
	const struct ipc_resize_cq *r = &c->req.resize_cq;
	struct client_cq *q = table_get(&c->cq, r->cq);

	if (q == NULL) {
		client_error(c, EINVAL, "there is no completion queue %u", r->cq);
		return;
	}
	if (!rn_is_pow2(r->cqe) || r->cqe > 2 * DEV_MAX_CQE || r->cqe < q->cqe) {
		client_error(c, EINVAL,
			     "completion queue: the new number of entries must be a power of two within the "
			     "device's limit, and no less than the old one");
		return;
	}
	if (c->slots + r->cqe - q->cqe > rnicd.cfg.quota_wrs) {
		client_over_quota(c, "quota: a client may have %u queue entries (quota-outstanding)",
				  rnicd.cfg.quota_wrs);
		return;
	}
	struct qp_cq_attr a = rings_of(c, r->ring_off, r->ring_stride, r->cqe, q->cq->wide);
	struct cq_resize *e = calloc(1, sizeof(*e));
	enum span_verdict taken = SPAN_NO_MEMORY;
	const uint32_t now = q->rings[0].len != 0 ? 0 : 1;
	if (e != NULL)
		taken = qp_cq_rings(&a, e->ring) != SPSC_OK ? SPAN_OVERLAPS : take_rings(c, &a, &q->rings[1 - now]);
	if (taken != SPAN_OK) {
		client_error(c, taken == SPAN_NO_MEMORY ? ENOMEM : EINVAL,
			     taken == SPAN_NO_MEMORY
				     ? "no memory"
				     : "the completion queue lies outside the queue region, or is misaligned, or lies "
				       "in another queue");
		free(e);
		return;
	}
	e->q = q;
	e->cqe = r->cqe;
	e->old = &q->rings[now];
	e->cmd = (struct cmd){ .type = CMD_CQ_RESIZE, .done = resized, .resize = { .cq = q->cq, .ring = e->ring } };
	client_hold(c);
	cmd_send_all(&e->cmd);
}
