/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts, protection domains and memory regions that processes of one user share. A client that shows a context's
 * token (ipc.h) may import them. An imported PD is another name of the lender's PD: a region that a client registers in
 * it may be used by all clients of the PD. A client that has ended is kept, without QPs, until no other client uses the
 * PDs that it has lent or has regions in, so that its regions remain valid.
 */
#include <errno.h>
#include <stdlib.h>

#include "control/client.h"
#include "control/dev.h"

#define DEAD_MAX 32u /* ended importers whose regions stay valid in a PD; those of further ones are freed */

void client_token(struct client *c, struct fds_given *g, uint32_t n)
{
	struct client_chan *ch = table_get(&c->chan, c->req.handle.handle);
	uint64_t cookie = g[0].cookie;

	(void)n;
	if (ch == NULL || ch->kind != IPC_CHANNEL_ASYNC || ch->token.key != 0) {
		client_error(c, EINVAL, "there is no context without a token that has the channel %u",
			     c->req.handle.handle);
	} else if (cookie == 0 || owner_get(OWNER_TOKEN, cookie) != NULL) {
		client_error(c, EINVAL, "a context's token must be a socket, and its own");
	} else {
		owner_put(&ch->token, OWNER_TOKEN, cookie);
		client_ok(c);
	}
}

/* Finds the context that the token stands for; NULL: the client was answered with the error. */
static const struct client_chan *context_of(struct client *c, const struct fds_given *g)
{
	/* a descriptor that is no socket has the cookie 0, which no token has */
	struct owner *o = owner_get(OWNER_TOKEN, g->cookie);
	const struct client_chan *ch = o != NULL ? rn_container_of(o, struct client_chan, token) : NULL;

	if (ch == NULL) {
		client_error(c, EINVAL, "the descriptor is the cmd_fd of no open context of this rnicd");
	} else if (ch->c->uid != c->uid) {
		client_error(c, EPERM, "the context is of a process of uid %u: only processes of that user may import",
			     (unsigned)ch->c->uid);
	} else if (ch->c->state == CLIENT_DYING) {
		client_error(c, ENODEV, "the process that has opened the context has ended");
	} else {
		return ch;
	}
	return NULL;
}

void client_token_dev(struct client *c, struct fds_given *g, uint32_t n)
{
	const struct client_chan *ch = context_of(c, &g[0]);

	(void)n;
	if (ch != NULL)
		client_ok_handle(c, ch->dev);
}

/* The PD that an imported PD stands for; for any other PD, itself. NULL: the lender's PD is gone. */
static struct client_pd *root_of(struct client_pd *p) { return p->borrowed ? p->lender : p; }

void client_token_mr(struct client *c, struct fds_given *g, uint32_t n)
{
	const struct client_chan *ch = context_of(c, &g[0]);
	struct client_mr *mr = ch != NULL ? client_mr_of(ch->dev, c->req.handle.handle) : NULL;
	const struct client_pd *root = mr != NULL ? root_of(mr->pd) : NULL;

	(void)n;
	if (ch == NULL)
		return;
	if (root == NULL || root->c != ch->c) {
		client_error(c, EINVAL, "the context has no memory region %u", c->req.handle.handle);
		return;
	}
	struct ipc_msg m = { .token_mr_ok = { .handle = c->req.handle.handle, .stag = mr->stag, .len = mr->len } };
	client_answer(c, &m, IPC_MSG_LEN(token_mr_ok));
}

/* ---- protection domains ---- */

/* Whether the PD counts in `in_use` of its lender. */
static bool counts(const struct client_pd *p) { return p->users > 0 && !p->left && p->lender != NULL; }

void client_pd_use(struct client_pd *p)
{
	const bool did = counts(p);

	p->users++;
	if (!did && counts(p))
		p->lender->in_use++;
}

void client_pd_unuse(struct client_pd *p)
{
	const bool did = counts(p);

	p->users--;
	if (did && !counts(p))
		p->lender->in_use--;
}

/* Tells the workers to send the client's data only by copy. */
static void shares(const struct client *c)
{
	for (uint32_t i = 0; i < rnicd.n_workers; i++)
		__atomic_store_n(&c->wc[i]->shares, true, __ATOMIC_RELAXED);
}

void client_pd_shares(const struct client_pd *p)
{
	if (p->borrowed && p->lender->c != p->c)
		shares(p->lender->c);
}

void client_token_pd(struct client *c, struct fds_given *g, uint32_t n)
{
	const struct client_chan *ch = context_of(c, &g[0]);
	struct client_pd *lender = ch != NULL ? client_pd_get(ch->c, c->req.handle.handle) : NULL;

	(void)n;
	if (ch == NULL)
		return;
	if (lender == NULL || lender->dev != ch->dev) {
		client_error(c, EINVAL, "the context has no protection domain %u", c->req.handle.handle);
		return;
	}
	lender = root_of(lender);
	struct client_pd *p = c->pd.live < DEV_MAX_PD ? user_alloc(c->user, sizeof(*p)) : NULL;
	if (p != NULL)
		p->handle = client_table_add(c, &c->pd, p);
	if (p == NULL || p->handle == 0) {
		user_free(c->user, p);
		client_error(c, ENOMEM, "no more protection domains: %u are in use", c->pd.live);
		return;
	}
	*p = (struct client_pd){
		.c = c, .handle = p->handle, .dev = lender->dev, .id = lender->id, .borrowed = true, .lender = lender
	};
	rn_list_push_front(&lender->guests, &p->guest);
	lender->live++;
	if (lender->c != c) {
		shares(c);
		c->shared = lender->c->shared = true;
	}
	client_ok_handle(c, p->handle);
}

/* Dying clients that wait for users of the PD `root` check again: the PD's own and its importers. */
static void look_again(const struct client_pd *root)
{
	client_death_soon(root->c);
	rn_list_each(const struct client_pd, g, &root->guests, guest)
		client_death_soon(g->c);
}

/* Closes all windows and regions in the PD, before the PD's id may be given to another PD. */
static void void_all(const struct client_pd *p)
{
	rn_list_each(const struct client_mw, mw, &p->mws, in_pd)
		qp_mw_close(dev_get(p->dev), mw->stag);
	rn_list_each(struct client_mr, mr, &p->mrs, in_pd)
		client_mr_void(mr);
}

void client_pd_return(struct client_pd *p)
{
	struct client_pd *lender = p->lender;

	if (lender == NULL)
		return;
	void_all(p);
	lender->in_use -= counts(p) ? 1 : 0;
	p->lender = NULL;
	rn_list_remove(&lender->guests, &p->guest);
	client_death_soon(p->c);
	if (p->left)
		lender->dead--; /* nobody waits for that */
	else if (--lender->live == 0)
		look_again(lender);
}

/*
 * The client of the PD has ended. Others check again only if this may let one of them go on: a client may have
 * thousands of imports of one PD.
 */
static void leaves(struct client_pd *p)
{
	struct client_pd *lender = p->lender;

	if (counts(p))
		lender->in_use--;
	p->left = true;
	if (!p->borrowed) {
		look_again(p);
	} else if (lender != NULL) {
		lender->dead++;
		if (--lender->live == 0 || lender->dead == DEAD_MAX + 1)
			look_again(lender);
	}
}

/* Whether other clients use the PD that the imported p stands for, and so may use the regions that its client has
 * registered in p. */
static bool wanted(const struct client_pd *p)
{
	const struct client_pd *root = p->lender;

	return root != NULL && (!root->left || root->live > 0) && root->dead <= DEAD_MAX;
}

bool client_pds_leave(struct client *c)
{
	struct client_pd *p;

	for (uint32_t h = 0; (p = table_next(&c->pd, &h)) != NULL;)
		if (!p->left)
			leaves(p);
	for (uint32_t h = 0; (p = table_next(&c->pd, &h)) != NULL;)
		if (p->live > 0 || (wanted(p) && !rn_list_empty(&p->mrs)))
			return false;
	for (uint32_t h = 0; (p = table_next(&c->pd, &h)) != NULL;) {
		rn_list_each(struct client_pd, g, &p->guests, guest)
			client_pd_return(g); /* of clients that have ended, which may wait for this one in turn */
		client_pd_return(p);
	}
	return true;
}
