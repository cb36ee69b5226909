/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. */
#include <errno.h>
#include <stdlib.h>

#include "control/client.h"
#include "control/dev.h"
#include "qp/qp_xrc.h"

static const char *srq_refusal(const struct client *c, const struct ipc_create_srq *r, struct client_chan **async)
{
	const struct client_pd *pd = client_pd_get(c, r->pd);
	const struct client_xrcd *x = table_get(&c->xrcd, r->xrcd);
	const struct client_cq *cq = table_get(&c->cq, r->cq);

	if (pd == NULL)
		return "there is no such protection domain";
	if (r->xrcd != 0 && (x == NULL || client_xrcd_dev(x) != pd->dev))
		return "there is no such XRC domain";
	if (r->xrcd != 0 ? cq == NULL || cq->dev != pd->dev : r->cq != 0)
		return "there is no such completion queue";
	if (r->wqe_slots == 0 || r->wqe_slots > QP_WQE_MAX_SLOTS || r->ring_slots > DEV_MAX_SLOTS)
		return "the size of its ring or of a receive is beyond the device's limit";
	if (r->limit > r->ring_slots / r->wqe_slots)
		return "its limit is more than it holds";
	if (!client_chan_find(c, r->async, IPC_CHANNEL_ASYNC, pd->dev, async))
		return "there is no such channel for asynchronous events";
	return NULL;
}

/* Enters the queue into the table in which peers' messages find it by its number. False: the table is full. */
static bool join_domain(struct client_srq *s, const struct ipc_create_srq *r)
{
	struct client_xrcd *x = table_get(&s->c->xrcd, r->xrcd);
	struct client_cq *cq = table_get(&s->c->cq, r->cq);
	const uint32_t dev = s->pd->dev;

	if (!user_take(s->c->user, USER_XSRQS, dev, 1))
		return false;
	s->srq->xrcd = client_xrcd_view(x);
	s->srq->cq = cq->cq;
	if (!qp_xsrq_publish(dev_get(dev), s->srq, (uint32_t)dev_random())) {
		user_give(s->c->user, USER_XSRQS, dev, 1);
		return false;
	}
	s->xrcd = x;
	s->cq = cq;
	x->users++;
	cq->users++;
	s->c->shared = true; /* the domain's connections may have bytes of the client's memory to send */
	return true;
}

static struct client_srq *srq_new(struct client *c, const struct ipc_create_srq *r, enum spsc_verdict *v)
{
	struct client_srq *s = user_alloc(c->user, sizeof(*s));
	struct qp_srq *srq = user_alloc_lines(c->user, sizeof(*srq));
	struct client_pd *pd = client_pd_get(c, r->pd);

	*v = SPSC_OK;
	if (s == NULL || srq == NULL)
		goto fail;
	const struct qp_srq_attr a = {
		.owner = owner_new(),
		.pd = pd->id,
		.wqe_slots = r->wqe_slots,
		.ring = { .region = c->region[IPC_REGION_QUEUES].base,
			  .region_size = c->region[IPC_REGION_QUEUES].size,
			  .off = r->ring_off,
			  .nslots = r->ring_slots,
			  .slot_size = QP_SLOT_SIZE },
	};
	*v = qp_srq_init(srq, &a);
	if (*v != SPSC_OK)
		goto fail;
	s->ring = (struct span){ .off = r->ring_off, .len = spsc_size(r->ring_slots, QP_SLOT_SIZE) };
	enum span_verdict taken = spans_take(&c->spans, &s->ring);
	if (taken == SPAN_OVERLAPS)
		*v = SPSC_BAD_RANGE;
	if (taken != SPAN_OK)
		goto fail;
	s->handle = client_table_add(c, &c->srq, s);
	if (s->handle == 0)
		goto fail;
	s->c = c;
	s->pd = pd;
	s->srq = srq;
	if (r->xrcd != 0 && !join_domain(s, r)) {
		table_del(&c->srq, s->handle);
		goto fail;
	}
	owner_put(&s->owner, OWNER_SRQ, a.owner);
	return s;
fail:
	if (s != NULL)
		spans_give(&c->spans, &s->ring);
	user_free(c->user, s);
	user_free(c->user, srq);
	return NULL;
}

void client_create_srq(struct client *c)
{
	const struct ipc_create_srq r = c->req.create_srq;
	struct client_chan *async;
	enum spsc_verdict v;
	const char *no = srq_refusal(c, &r, &async);

	if (no != NULL) {
		client_error(c, EINVAL, "shared receive queue: %s", no);
		return;
	}
	if (c->srq.live >= rnicd.cfg.quota_qps || c->slots + r.ring_slots > rnicd.cfg.quota_wrs) {
		client_over_quota(c,
				  "quota: a client may have %u shared receive queues and %u queue entries (quota-qps, "
				  "quota-outstanding)",
				  rnicd.cfg.quota_qps, rnicd.cfg.quota_wrs);
		return;
	}
	struct client_srq *s = srq_new(c, &r, &v);
	if (s == NULL) {
		client_error(
			c, v == SPSC_OK ? ENOMEM : EINVAL,
			v == SPSC_OK
				? "no memory for a shared receive queue"
				: "the shared receive queue lies outside the queue region, or is misaligned, or lies "
				  "in another queue");
		return;
	}
	s->slots = r.ring_slots;
	s->cookie = r.cookie;
	s->async = async;
	if (async != NULL)
		async->users++;
	client_pd_use(s->pd);
	c->slots += s->slots;
	qp_srq_arm(s->srq, r.limit);
	struct ipc_msg m = { .create_srq_ok = { .handle = s->handle, .number = s->srq->num } };
	client_answer(c, &m, IPC_MSG_LEN(create_srq_ok));
}

static struct client_srq *client_srq_find(struct client *c, uint32_t handle)
{
	struct client_srq *s = table_get(&c->srq, handle);

	if (s == NULL)
		client_error(c, EINVAL, "there is no shared receive queue %u", handle);
	return s;
}

void client_modify_srq(struct client *c)
{
	const struct ipc_modify_srq *r = &c->req.modify_srq;
	struct client_srq *s = client_srq_find(c, r->srq);

	if (s == NULL)
		return;
	if (r->limit > s->slots / s->srq->wqe_slots) {
		client_error(c, EINVAL, "shared receive queue: its limit is more than it holds");
		return;
	}
	qp_srq_arm(s->srq, r->limit);
	client_ok(c);
}

void client_query_srq(struct client *c)
{
	const struct client_srq *s = client_srq_find(c, c->req.handle.handle);

	if (s == NULL)
		return;
	struct ipc_msg m = { .query_srq_ok = { .limit = qp_srq_limit(s->srq) } };
	client_answer(c, &m, IPC_MSG_LEN(query_srq_ok));
}

void client_srq_free(struct client_srq *s)
{
	client_async_leave(s->async, &s->untold);
	if (s->cq != NULL) {
		s->cq->users--;
		user_give(s->c->user, USER_XSRQS, s->pd->dev, 1);
	}
	if (s->xrcd != NULL)
		s->xrcd->users--;
	owner_del(&s->owner);
	client_pd_unuse(s->pd);
	s->c->slots -= s->slots;
	spans_give(&s->c->spans, &s->ring);
	table_del(&s->c->srq, s->handle);
	user_free(s->c->user, s->srq);
	user_free(s->c->user, s);
}

/* ---- the end of a queue that is in an XRC domain: qp_xrc.h ---- */

static void srq_left(struct cmd *cmd)
{
	struct client_srq *s = rn_container_of(cmd, struct client_srq, cmd);
	struct client *c = s->c;

	if (cmd->srq.again) {
		cmd->srq.again = false;
		cmd_send_all(cmd);
		return;
	}
	if (!client_back(c))
		return;
	client_srq_free(s);
	client_ok(c);
}

static void withdraw(struct client_srq *s)
{
	s->withdrawn = true; /* from here on another queue may get its number */
	qp_xsrq_withdraw(dev_get(s->pd->dev), s->srq);
	s->cmd = (struct cmd){ .type = CMD_SRQ_LEAVE, .done = srq_left, .srq.srq = s->srq };
	client_hold(s->c);
	cmd_send_all(&s->cmd);
}

void client_srqs_withdraw(struct client *c)
{
	struct client_srq *s;

	for (uint32_t h = 0; (s = table_next(&c->srq, &h)) != NULL;)
		if (s->xrcd != NULL && !s->withdrawn)
			withdraw(s);
}

/* Each QP of the queue was destroyed, and the QP's worker has run another turn since, so no worker uses the ring. */
void client_destroy_srq(struct client *c)
{
	struct client_srq *s = client_srq_find(c, c->req.handle.handle);

	if (s == NULL)
		return;
	if (s->users > 0) {
		client_error(c, EBUSY, "the shared receive queue is in use by %u queue pairs", s->users);
		return;
	}
	if (s->xrcd != NULL) {
		withdraw(s);
		return;
	}
	client_srq_free(s);
	client_ok(c);
}
