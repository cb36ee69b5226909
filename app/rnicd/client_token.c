/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process lends to others of its user: contexts, protection domains and memory regions. Who shows a context's
 * token (ipc.h) may use them. A lender that dies stays, without QPs, until nobody uses its PDs any more: its regions
 * go on.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"
#include "dev.h"

/* The kernel's number of a socket; 0: it is none. */
static uint64_t cookie_of(int fd)
{
	uint64_t cookie;
	socklen_t len = sizeof(cookie);

	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) == 0 ? cookie : 0;
}

void client_token(struct client *c, const int *fds, uint32_t n)
{
	struct client_chan *ch = table_get(&c->chan, c->req.handle.handle);
	uint64_t cookie = cookie_of(fds[0]);

	(void)n;
	close(fds[0]);
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

/* The context that the token stands for; NULL: the client was answered with the error. Takes fd. */
static const struct client_chan *context_of(struct client *c, int fd)
{
	struct owner *o = owner_get(OWNER_TOKEN, cookie_of(fd));
	const struct client_chan *ch = o != NULL ? rn_container_of(o, struct client_chan, token) : NULL;

	close(fd);
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

void client_token_dev(struct client *c, const int *fds, uint32_t n)
{
	const struct client_chan *ch = context_of(c, fds[0]);

	(void)n;
	if (ch != NULL)
		client_ok_handle(c, ch->dev);
}

void client_token_mr(struct client *c, const int *fds, uint32_t n)
{
	const struct client_chan *ch = context_of(c, fds[0]);
	struct client_mr *mr = ch != NULL ? table_get(&ch->c->mr, c->req.handle.handle) : NULL;

	(void)n;
	if (ch == NULL)
		return;
	if (mr == NULL || mr->pd->dev != ch->dev) {
		client_error(c, EINVAL, "the context has no memory region %u", c->req.handle.handle);
		return;
	}
	struct ipc_msg m = { .token_mr_ok = { .handle = mr->handle, .stag = mr->stag, .len = mr->len } };
	client_answer(c, &m, IPC_MSG_LEN(token_mr_ok));
}

/* ---- protection domains ---- */

/* A number for one more guest: in its own process the PD itself, elsewhere a part that no other has. 0: none left. */
static uint32_t guest_id(const struct client *c, const struct client_pd *lender)
{
	if (lender->c == c)
		return lender->id;
	for (uint32_t part = 1; part <= QP_PD_PARTS; part++) {
		const struct client_pd *g = lender->guests;
		while (g != NULL && g->id != QP_PD_PART(lender->id, part))
			g = g->next_guest;
		if (g == NULL)
			return QP_PD_PART(lender->id, part);
	}
	return 0;
}

void client_token_pd(struct client *c, const int *fds, uint32_t n)
{
	const struct client_chan *ch = context_of(c, fds[0]);
	struct client_pd *lender = ch != NULL ? client_pd_get(ch->c, c->req.handle.handle) : NULL;

	(void)n;
	if (ch == NULL)
		return;
	if (lender == NULL || lender->dev != ch->dev) {
		client_error(c, EINVAL, "the context has no protection domain %u", c->req.handle.handle);
		return;
	}
	if (lender->borrowed)
		lender = lender->lender;
	struct client_pd *p = c->pd.live < DEV_MAX_PD ? calloc(1, sizeof(*p)) : NULL;
	if (p != NULL)
		*p = (struct client_pd){ .c = c, .dev = lender->dev, .id = guest_id(c, lender), .borrowed = true,
					 .lender = lender, .next_guest = lender->guests };
	if (p != NULL && p->id != 0)
		p->handle = table_add(&c->pd, p);
	if (p == NULL || p->handle == 0) {
		free(p);
		client_error(c, ENOMEM,
			     "no more protection domains: %u are in use, and one may be imported by %u processes",
			     c->pd.live, QP_PD_PARTS);
		return;
	}
	lender->guests = p;
	client_ok_handle(c, p->handle);
}

void client_pd_return(struct client_pd *p)
{
	struct client_pd *lender = p->lender;

	if (lender == NULL)
		return;
	p->lender = NULL;
	for (struct client_pd **at = &lender->guests; *at != NULL; at = &(*at)->next_guest) {
		if (*at == p) {
			*at = p->next_guest;
			break;
		}
	}
	if (lender->c->state == CLIENT_DYING && lender->c != p->c)
		client_death_step(lender->c);
}

/* What is in a borrowed PD becomes void before another guest may get its number. */
void client_pds_return(struct client *c)
{
	struct client_pd *p;
	struct client_mr *mr;
	struct client_mw *mw;

	for (uint32_t h = 0; (mw = table_next(&c->mw, &h)) != NULL;)
		if (mw->pd->borrowed)
			qp_mw_close(dev_get(mw->pd->dev), mw->stag);
	for (uint32_t h = 0; (mr = table_next(&c->mr, &h)) != NULL;) {
		if (!mr->pd->borrowed)
			continue;
		qp_mr_dereg(dev_get(mr->pd->dev), mr->stag);
		mr->stag = 0;
	}
	for (uint32_t h = 0; (p = table_next(&c->pd, &h)) != NULL;)
		client_pd_return(p);
}

bool client_pds_lent(const struct client *c)
{
	const struct client_pd *p;

	for (uint32_t h = 0; (p = table_next(&c->pd, &h)) != NULL;)
		if (p->guests != NULL)
			return true;
	return false;
}
