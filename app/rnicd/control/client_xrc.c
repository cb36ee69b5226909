/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XRC domains (qp_xrc.h). Processes of one user share a domain by a file that each of them has open: device, inode
 * number and birth time of the file identify the domain. Another user's process with the same file gets another domain.
 *
 * A target queue pair belongs to its domain, and outlives the process that has made it. So its client is the domain's
 * *host*, a client without process, which is made with the first target and dies when no process has the domain open
 * any more. In all other ways a target is an ordinary queue pair. Processes open a target and get handles of it.
 * Destroying the last handle destroys the target; a process that ends without that leaves the target to the others.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/client.h"
#include "control/dev.h"

#define XRCDS_EACH 16u   /* domains that a client may have open */
#define OPENS_MAX  1024u /* handles of a target: each gets the target's events, all in one turn */

struct xrcd {
	struct rn_link link; /* in `domains` while a client has the domain open */
	uid_t uid;
	uint32_t dev;
	bool file; /* processes share the domain by a file, identified by fdev, fino and fborn */
	uint64_t fdev, fino, fborn;
	uint32_t opens;      /* number of struct client_xrcd of it */
	struct client *host; /* NULL: no target yet */
	struct client_pd pd; /* for struct client_qp of targets, which have no PD */
	struct client_cq cq; /* the same: targets have no CQ */
	struct qp_xrcd view; /* the workers' part */
};

static struct rn_list domains;

struct qp_xrcd *client_xrcd_view(const struct client_xrcd *x) { return &x->d->view; }
uint32_t client_xrcd_dev(const struct client_xrcd *x) { return x->d->dev; }

/* ---- domains ---- */

static struct xrcd *domain_find(const struct client *c, uint32_t dev, const struct fds_given *g)
{
	rn_list_each(struct xrcd, d, &domains, link) {
		if (d->file && d->uid == c->uid && d->dev == dev && d->fdev == g->fdev && d->fino == g->fino &&
		    d->fborn == g->fborn)
			return d;
	}
	return NULL;
}

static struct xrcd *domain_new(const struct client *c, uint32_t dev, const struct fds_given *g)
{
	struct xrcd *d = calloc(1, sizeof(*d));

	if (d == NULL)
		return NULL;
	d->uid = c->uid;
	d->dev = d->pd.dev = d->cq.dev = dev;
	if (g != NULL) {
		d->file = true;
		d->fdev = g->fdev;
		d->fino = g->fino;
		d->fborn = g->fborn;
	}
	rn_list_push_front(&domains, &d->link);
	return d;
}

/* A client has closed the domain: the last one ends it. */
static void domain_put(struct xrcd *d)
{
	if (--d->opens > 0)
		return;
	rn_list_remove(&domains, &d->link);
	if (d->host != NULL)
		client_die(d->host);
	else
		free(d);
}

void client_host_gone(struct client *host)
{
	struct xrcd *d = host->hosts;

	d->host = NULL;
	if (d->opens == 0)
		free(d);
}

/* Why the domain cannot be opened, and the errno in *err; NULL: it can. */
static const char *xrcd_refusal(const struct ipc_open_xrcd *r, const struct fds_given *g, uint32_t n, int *err)
{
	*err = EINVAL;
	if (r->dev >= rnicd.n_ports)
		return "there is no such device";
	*err = EOPNOTSUPP;
	if (rnicd.port[r->dev]->cfg->qp_port == 0)
		return client_by_design(
			"its queue pairs connect without rdma_cm: set 'qp-port' in rnicd's configuration",
			"its queue pairs connect without rdma_cm: set qp-port (RNIC_EMBEDDED_KEYS=qp-port=PORT)",
			"its queue pairs connect without rdma_cm, and the designs host and assisted by rdma_cm only: "
			"run the program without --design");
	*err = EINVAL;
	if (n > 0 && !g[0].file)
		return "the descriptor is neither of a file nor of a folder";
	return NULL;
}

void client_open_xrcd(struct client *c, struct fds_given *g, uint32_t n)
{
	const struct ipc_open_xrcd *r = &c->req.open_xrcd;
	int err;
	const char *no = xrcd_refusal(r, g, n, &err);

	if (no != NULL) {
		client_error(c, err, "XRC domain: %s", no);
		return;
	}
	struct xrcd *d = n > 0 ? domain_find(c, r->dev, &g[0]) : NULL;
	if (d == NULL && (r->flags & IPC_XRCD_CREATE) == 0) {
		client_error(c, EAGAIN, "XRC domain: there is none by this file yet: pass O_CREAT");
		return;
	}
	if (d != NULL && (r->flags & IPC_XRCD_EXCLUSIVE) != 0) {
		client_error(c, EINVAL, "XRC domain: there is one by this file, and O_EXCL asks for a new one");
		return;
	}
	if (c->xrcd.live >= XRCDS_EACH) {
		client_error(c, ENOMEM, "a client may have %u XRC domains open: close one", XRCDS_EACH);
		return;
	}
	if (!user_take(c->user, USER_XRCDS, 0, 1)) {
		client_error(c, ENOMEM,
			     "this user has as many XRC domains open as a user may: %u (xrc-domains, user-share)",
			     (uint32_t)user_share(USER_XRCDS));
		return;
	}
	struct client_xrcd *x = user_alloc(c->user, sizeof(*x));
	if (x != NULL)
		x->handle = client_table_add(c, &c->xrcd, x);
	if (x != NULL && x->handle != 0 && d == NULL)
		d = domain_new(c, r->dev, n > 0 ? &g[0] : NULL);
	if (x == NULL || x->handle == 0 || d == NULL) {
		if (x != NULL)
			table_del(&c->xrcd, x->handle);
		user_free(c->user, x);
		user_give(c->user, USER_XRCDS, 0, 1);
		client_error(c, ENOMEM, "no memory");
		return;
	}
	x->d = d;
	d->opens++;
	client_ok_handle(c, x->handle);
}

static void xrcd_free(struct client *c, struct client_xrcd *x)
{
	table_del(&c->xrcd, x->handle);
	user_give(c->user, USER_XRCDS, 0, 1);
	domain_put(x->d);
	user_free(c->user, x);
}

void client_close_xrcd(struct client *c)
{
	struct client_xrcd *x = table_get(&c->xrcd, c->req.handle.handle);

	if (x == NULL) {
		client_error(c, EINVAL, "there is no XRC domain %u", c->req.handle.handle);
		return;
	}
	if (x->users > 0) {
		client_error(c, EBUSY, "the XRC domain is in use by %u queues", x->users);
		return;
	}
	xrcd_free(c, x);
	client_ok(c);
}

void client_xrcds_leave(struct client *c)
{
	struct client_xrcd *x;
	struct client_srq *s;

	for (uint32_t h = 0; (s = table_next(&c->srq, &h)) != NULL;)
		s->xrcd = NULL;
	for (uint32_t h = 0; (x = table_next(&c->xrcd, &h)) != NULL;)
		xrcd_free(c, x);
}

/* ---- handles of targets ---- */

/* Makes a handle, which names no target yet. NULL: the client was answered with an error. */
static struct client_target *open_new(struct client *c, uint32_t xrcd, uint32_t async, uint64_t cookie)
{
	struct client_xrcd *x = table_get(&c->xrcd, xrcd);
	struct client_chan *chan = NULL;

	if (x == NULL || !client_chan_find(c, async, IPC_CHANNEL_ASYNC, x->d->dev, &chan)) {
		client_error(c, EINVAL, "queue pair: there is no such %s",
			     x == NULL ? "XRC domain" : "channel for asynchronous events");
		return NULL;
	}
	if (c->qp.live + c->target.live >= rnicd.cfg.quota_qps) {
		client_over_quota(c, "quota: a client may have %u queue pairs (quota-qps)", rnicd.cfg.quota_qps);
		return NULL;
	}
	struct client_target *t = user_alloc(c->user, sizeof(*t));
	if (t != NULL)
		t->handle = client_table_add(c, &c->target, t);
	if (t == NULL || t->handle == 0) {
		user_free(c->user, t);
		client_error(c, ENOMEM, "no memory for a queue pair");
		return NULL;
	}
	t->c = c;
	t->x = x;
	t->cookie = cookie;
	t->async = chan;
	if (chan != NULL)
		chan->users++;
	x->users++;
	return t;
}

static void open_free(struct client_target *t)
{
	if (t->q != NULL) {
		rn_list_remove(&t->q->opens, &t->link);
		t->q->n_opens--;
	}
	client_async_leave(t->async, &t->untold);
	t->x->users--;
	table_del(&t->c->target, t->handle);
	user_free(t->c->user, t);
}

static void open_is_of(struct client_target *t, struct client_qp *q)
{
	t->q = q;
	rn_list_push_back(&q->opens, &t->link);
	q->n_opens++;
}

static void open_answer(const struct client_target *t)
{
	struct ipc_msg m = { .create_qp_ok = { .handle = t->handle | IPC_QP_SHARED, .qpn = t->q->qpn } };

	client_answer(t->c, &m, IPC_MSG_LEN(create_qp_ok));
}

void client_open_qp(struct client *c)
{
	const struct ipc_open_qp *r = &c->req.open_qp;
	struct client_target *t = open_new(c, r->xrcd, r->async, r->cookie);

	if (t == NULL)
		return;
	struct client_qp *q = client_qp_of(r->qpn);
	if (q == NULL || q->xrcd != t->x->d || client_qp_is_ending(q)) {
		open_free(t);
		client_error(c, EINVAL, "the XRC domain has no target queue pair %u", r->qpn);
		return;
	}
	if (q->n_opens == OPENS_MAX) {
		open_free(t);
		client_error(c, ENOMEM, "queue pair %u is open %u times already, as often as it can be", r->qpn,
			     OPENS_MAX);
		return;
	}
	open_is_of(t, q);
	open_answer(t);
}

static void close_target(struct client *c)
{
	const uint32_t handle = c->req.handle.handle;
	struct client_target *t = table_get(&c->target, handle & ~IPC_QP_SHARED);

	if (t == NULL) {
		client_error(c, EINVAL, "there is no queue pair %u", handle);
		return;
	}
	const bool last = t->q != NULL && rn_list_first(&t->q->opens, struct client_target, link) == t &&
			  rn_list_next(t, struct client_target, link) == NULL;
	struct client_qp *q = last ? client_qp_find(c, handle, close_target) : NULL;
	if (last && q == NULL)
		return; /* the request waits, or the client was answered */
	open_free(t);
	if (!last) {
		client_ok(c);
		return;
	}
	client_qp_ask(q, c);
	client_qp_end(q);
}

void client_targets_leave(struct client *c)
{
	struct client_target *t;

	for (uint32_t h = 0; (t = table_next(&c->target, &h)) != NULL;)
		open_free(t);
}

/* ---- targets ---- */

/* The host of a domain, made when it is first needed. NULL: there is no room for another client. */
static struct client *host_of(struct xrcd *d, struct user *u)
{
	if (d->host == NULL)
		d->host = client_host(u, d->uid);
	if (d->host != NULL) {
		d->host->hosts = d;
		d->pd.c = d->cq.c = d->host;
	}
	return d->host;
}

static struct client_qp *target_new(struct xrcd *d)
{
	struct user *u = d->host->user;
	struct client_qp *q = user_alloc(u, sizeof(*q));
	struct qp *qp = user_alloc_lines(u, sizeof(*qp));
	struct qp_target *t = user_alloc_lines(u, sizeof(*t));

	if (q == NULL || qp == NULL || t == NULL)
		goto fail;
	*q = (struct client_qp){ .c = d->host,
				 .qp = qp,
				 .no_queues = t,
				 .qpn = client_qp_number(rnicd.port[d->dev], false),
				 .xrc = IPC_XRC_TARGET,
				 .xrcd = d,
				 .pd = &d->pd,
				 .scq = &d->cq,
				 .rcq = &d->cq,
				 .at.access = QP_ACC_REMOTE };
	client_qp_rnr(q, 7, 0); /* without limit, on a port where messages wait */
	struct qp_attr a = { .type = QP_RC,
			     .owner = owner_new(),
			     .qpn = q->qpn,
			     .dev = dev_get(d->dev),
			     .access = q->at.access,
			     .sparing = rnicd_adapter(rnicd.port[d->dev]->cfg),
			     .tenant = user_tenant(u) };
	qp_target_attr(t, &d->view, &a);
	if (q->qpn == 0 || qp_init(qp, &a) != QP_OK || !client_qp_enter(q, a.owner))
		goto fail;
	const struct qp_tune tune = client_qp_tune(q);
	qp_set(qp, &tune); /* no worker knows it yet */
	client_pd_use(&d->pd);
	d->cq.users++;
	return q;
fail:
	user_free(u, q);
	user_free(u, qp);
	user_free(u, t);
	return NULL;
}

static void target_created(struct cmd *cmd)
{
	struct client_qp *q = rn_container_of(cmd, struct client_qp, cmd);
	const struct client *c = client_qp_asked(q);

	(void)client_qp_give_back(q);
	rn_list_each(const struct client_target, t, &q->opens, link) {
		if (t->c == c)
			open_answer(t);
	}
	client_qp_go_on(q);
}

static void create_target(struct client *c)
{
	const struct ipc_create_qp *r = &c->req.create_qp;
	struct client_target *t = open_new(c, r->xrcd, r->async, r->cookie);

	if (t == NULL)
		return;
	struct xrcd *d = t->x->d;
	struct client_qp *q = NULL;
	if (host_of(d, c->user) == NULL)
		client_error(c, ENOMEM,
			     "an XRC domain with target queue pairs takes a client's place, and there is none, or no "
			     "memory (clients, user-share)");
	else if (d->host->qp.live >= rnicd.cfg.quota_qps)
		client_over_quota(c, "quota: an XRC domain has %u target queue pairs (quota-qps)", rnicd.cfg.quota_qps);
	else if ((q = target_new(d)) == NULL)
		client_error(c, ENOMEM, "no memory or no number for another target queue pair");
	if (q == NULL) {
		open_free(t);
		return;
	}
	open_is_of(t, q);
	client_qp_place(q);
	q->cmd.qp = client_qp_args(q);
	q->cmd.qp.has_state = !rnicd_adapter(rnicd.port[d->dev]->cfg);
	q->cmd.qp.state = QP_S_INIT;
	client_qp_ask(q, c);
	client_qp_command(q, CMD_QP_CREATE, target_created);
}

/* ---- requests about queue pairs of either kind ---- */

void client_create_any_qp(struct client *c)
{
	if (c->req.create_qp.xrc == IPC_XRC_TARGET)
		create_target(c);
	else
		client_create_qp(c);
}

void client_destroy_any_qp(struct client *c)
{
	if ((c->req.handle.handle & IPC_QP_SHARED) != 0)
		close_target(c);
	else
		client_destroy_qp(c);
}
