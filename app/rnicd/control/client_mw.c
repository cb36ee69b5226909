/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates and frees memory windows; work requests bind them. They count as memory regions in the client's quota. */
#include <errno.h>
#include <stdlib.h>

#include "control/client.h"
#include "control/dev.h"

void client_alloc_mw(struct client *c)
{
	const struct ipc_alloc_mw *r = &c->req.alloc_mw;
	struct client_pd *pd = client_pd_get(c, r->pd);

	if (pd == NULL || (r->type != IPC_MW_TYPE_1 && r->type != IPC_MW_TYPE_2)) {
		client_error(c, EINVAL, "memory window: there is no such %s",
			     pd == NULL ? "protection domain" : "type");
		return;
	}
	if (c->mr.live + c->mw.live >= rnicd.cfg.quota_mrs) {
		client_over_quota(c, "quota: a client may have %u memory regions and windows (quota-mrs)",
				  rnicd.cfg.quota_mrs);
		return;
	}
	if (!user_take(c->user, USER_STAGS, pd->dev, 1)) {
		client_error(c, ENOMEM,
			     "the user of this client has %u memory regions and windows of the device: no more "
			     "(regions, user-share)",
			     (uint32_t)user_share(USER_STAGS));
		return;
	}
	struct client_mw *mw = user_alloc(c->user, sizeof(*mw));
	if (mw != NULL)
		mw->handle = client_table_add(c, &c->mw, mw);
	const enum qp_entry_kind kind = r->type == IPC_MW_TYPE_1 ? QP_ENTRY_MW_1 : QP_ENTRY_MW_2;
	if (mw == NULL || mw->handle == 0 || qp_mw_alloc(dev_stirred(pd->dev), pd->id, kind, &mw->stag) != QP_MR_OK) {
		if (mw != NULL && mw->handle != 0)
			table_del(&c->mw, mw->handle);
		user_free(c->user, mw);
		user_give(c->user, USER_STAGS, pd->dev, 1);
		client_error(c, ENOMEM, "no memory for another window, or the device's table of regions is full");
		return;
	}
	mw->pd = pd;
	client_pd_use(pd);
	rn_list_push_back(&pd->mws, &mw->in_pd);
	struct ipc_msg m = { .reg_mr_ok = { .handle = mw->handle, .stag = mw->stag } };
	client_answer(c, &m, IPC_MSG_LEN(reg_mr_ok));
}

void client_mw_free(struct client *c, struct client_mw *mw)
{
	qp_mw_free(dev_get(mw->pd->dev), mw->stag);
	user_give(c->user, USER_STAGS, mw->pd->dev, 1);
	client_pd_unuse(mw->pd);
	rn_list_remove(&mw->pd->mws, &mw->in_pd);
	table_del(&c->mw, mw->handle);
	user_free(c->user, mw);
}

struct mw_end {
	struct cmd cmd;
	struct client *c;
	struct client_mw *mw;
};

static void mw_ended(struct cmd *cmd)
{
	struct mw_end *e = rn_container_of(cmd, struct mw_end, cmd);
	struct client *c = e->c;

	client_mw_free(c, e->mw);
	free(e);
	if (client_back(c))
		client_ok(c);
}

void client_dealloc_mw(struct client *c)
{
	struct client_mw *mw = table_get(&c->mw, c->req.handle.handle);
	struct mw_end *e;

	if (mw == NULL) {
		client_error(c, EINVAL, "there is no memory window %u", c->req.handle.handle);
		return;
	}
	e = calloc(1, sizeof(*e));
	if (e == NULL) {
		client_error(c, ENOMEM, "no memory");
		return;
	}
	/* A worker may be binding the window now. When every worker has answered CMD_NOTHING, none is binding it. */
	qp_mw_close(dev_get(mw->pd->dev), mw->stag);
	*e = (struct mw_end){ .c = c, .mw = mw, .cmd = { .type = CMD_NOTHING, .done = mw_ended } };
	client_hold(c);
	cmd_send_all(&e->cmd);
}
