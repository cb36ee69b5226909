/* SPDX-License-Identifier: BSD-3-Clause */
/* Releases the objects of a client that has ended, each before the objects that it refers to. Each step waits for the
 * workers' answers. */
#include <stdlib.h>

#include "control/client.h"
#include "control/cm.h"
#include "control/dev.h"

enum step {
	STEP_IDS,     /* connection manager ids and connections without QP */
	STEP_QPS,     /* QPs: connections end, workers take nothing from the client's rings any more */
	STEP_SRQS,    /* XRC: gives up its handles of target QPs; target QPs release its shared receive queues */
	STEP_XRCDS,   /* closes its XRC domains; a domain's target QPs end when no client has the domain open */
	STEP_CONNS,   /* connections that have not closed yet forget the client */
	STEP_LENT,    /* waits for other clients that use its memory; returns imported PDs */
	STEP_LEAVE,   /* invalidates its STags; then every worker forgets the client */
	STEP_UNSENT,  /* waits for other clients' connections that still have bytes of its memory to send */
	STEP_QUIET,   /* waits for packets that still refer to its memory */
	STEP_RELEASE, /* frees its objects; nobody uses its memory any more */
	STEP_UNREAD,  /* waits until it has read the descriptors that it was sent, or has closed its socket */
	STEP_UNMAP,   /* a thread unmaps its memory */
};

#define ENDS_EACH      1024u /* QPs that one turn begins to end */
#define FREED_EACH     4096u /* other objects that one turn frees */
#define QUIET_POLL_NS  RN_NS_PER_MS
#define UNSENT_POLL_NS (20 * RN_NS_PER_MS)  /* between two checks, since each takes the workers' time */
#define UNREAD_POLL_NS (500 * RN_NS_PER_MS) /* a client may let rnicd wait for good */

/* Some of the QPs end in a turn: the others when those are gone. True: none is left. */
static bool step_qps(struct client *c)
{
	struct client_qp *q;
	uint32_t n = 0;

	for (uint32_t h = 0; n < ENDS_EACH && (q = table_next(&c->qp, &h)) != NULL; n++)
		client_qp_end(q);
	return n == 0;
}

struct leave {
	struct cmd cmd;
	struct client *c;
};

static void leave_done(struct cmd *cmd)
{
	struct leave *l = rn_container_of(cmd, struct leave, cmd);
	struct client *c = l->c;

	free(l);
	client_unhold(c);
}

static void again(struct loop_timer *t) { client_death_soon(rn_container_of(t, struct client, timer)); }

static void try_after(struct client *c, uint64_t ns)
{
	c->timer.due = again;
	loop_timer_arm(&c->timer, rnicd_now() + ns);
}

static void try_later(struct client *c) { try_after(c, QUIET_POLL_NS); }

/* False: no memory at the moment; the caller tries again. */
static bool step_leave(struct client *c)
{
	struct client_mr *mr;
	struct client_mw *mw;

	for (uint32_t h = 0; (mw = table_next(&c->mw, &h)) != NULL;)
		qp_mw_close(dev_get(mw->pd->dev), mw->stag);
	for (uint32_t h = 0; (mr = table_next(&c->mr, &h)) != NULL;)
		client_mr_void(mr);
	if (!c->joined)
		return true;
	struct leave *l = calloc(1, sizeof(*l));
	if (l == NULL)
		return false;
	*l = (struct leave){ .c = c, .cmd = { .type = CMD_CLIENT_DEL, .done = leave_done, .client.view = c->wc } };
	client_hold(c);
	cmd_send_all(&l->cmd);
	return true;
}

struct look {
	struct cmd cmd;
	struct client *c;
};

static void paused(struct loop_timer *t) { client_unhold(rn_container_of(t, struct client, timer)); }

/* If bytes are unsent, the hold of the client lasts until the pause has ended, so no other event begins the next look
 * earlier. */
static void look_done(struct cmd *cmd)
{
	struct look *l = rn_container_of(cmd, struct look, cmd);
	struct client *c = l->c;
	bool found = cmd->refers.found;

	free(l);
	if (found) {
		c->timer.due = paused;
		loop_timer_arm(&c->timer, rnicd_now() + UNSENT_POLL_NS);
		return;
	}
	c->step = STEP_QUIET;
	client_unhold(c);
}

static void refers_add(struct cmd_refers *r, const uint8_t *base, uint64_t len)
{
	_Static_assert(IPC_REGIONS + 1 <= CMD_REGIONS, "a client's regions and the room of its imports");
	if (base == NULL)
		return;
	r->region[r->n].base = base;
	r->region[r->n++].len = len;
}

static void step_unsent(struct client *c)
{
	struct look *l = calloc(1, sizeof(*l));

	if (l == NULL) {
		try_later(c);
		return;
	}
	*l = (struct look){
		.c = c, .cmd = { .type = CMD_CLIENT_REFERS, .done = look_done, .refers.tenant = user_tenant(c->user) }
	};
	refers_add(&l->cmd.refers, c->room.base, c->room.size);
	for (uint32_t r = 0; r < IPC_REGIONS; r++)
		refers_add(&l->cmd.refers, c->region[r].base, c->region[r].size);
	client_hold(c);
	cmd_send_all(&l->cmd);
}

static bool quiet(const struct client *c)
{
	for (uint32_t i = 0; i < rnicd.n_workers; i++)
		if (c->joined && !worker_client_quiet(c->wc[i]))
			return false;
	return true;
}

/* Frees some of the objects, each before those that it refers to. True: none is left. */
static bool release_some(struct client *c)
{
	struct client_chan *ch;
	struct client_mr *mr;
	struct client_mw *mw;
	struct client_srq *srq;
	struct client_cq *q;
	uint32_t n = 0;

	for (uint32_t h = 0; n < FREED_EACH && (mw = table_next(&c->mw, &h)) != NULL; n++)
		client_mw_free(c, mw);
	for (uint32_t h = 0; n < FREED_EACH && (mr = table_next(&c->mr, &h)) != NULL; n++)
		client_mr_free(c, mr);
	for (uint32_t h = 0; n < FREED_EACH && (srq = table_next(&c->srq, &h)) != NULL; n++)
		client_srq_free(srq);
	for (uint32_t h = 0; n < FREED_EACH && (q = table_next(&c->cq, &h)) != NULL; n++)
		client_cq_free(q);
	for (uint32_t h = 0; n < FREED_EACH && (ch = table_next(&c->chan, &h)) != NULL; n++)
		client_chan_free(ch);
	return n < FREED_EACH;
}

static void release(struct client *c)
{
	user_free(c->user, c->huge);
	c->huge = NULL;
	client_pds_free(c);
	client_table_free(c, &c->mw);
	client_table_free(c, &c->mr);
	client_table_free(c, &c->srq);
	client_table_free(c, &c->cq);
	client_table_free(c, &c->chan);
	client_table_free(c, &c->qp);
	client_table_free(c, &c->xrcd);
	client_table_free(c, &c->target);
	client_table_free(c, &c->cm);
	client_forget_workers(c);
	client_unmap(c);
}

/* Carries out the steps of the death, up to one that has to wait. */
static void go_on_dying(struct client *c)
{
	while (c->under_way == 0) {
		switch ((enum step)c->step) {
		case STEP_IDS:
			if (!cm_client_dies(c)) {
				try_after(c, 0);
				return;
			}
			break;
		case STEP_QPS:
			if (!step_qps(c))
				continue; /* the QPs hold the client until they are gone */
			break;
		case STEP_SRQS:
			client_targets_leave(c);
			client_srqs_withdraw(c);
			break;
		case STEP_XRCDS: client_xrcds_leave(c); break;
		case STEP_CONNS: cm_client_conns(c); break;
		case STEP_LENT:
			if (!client_pds_leave(c))
				return;
			break;
		case STEP_LEAVE:
			if (!step_leave(c)) {
				try_later(c);
				return;
			}
			break;
		case STEP_UNSENT:
			if (c->shared) {
				step_unsent(c);
				return;
			}
			break;
		case STEP_QUIET:
			if (!quiet(c)) {
				try_later(c);
				return;
			}
			break;
		case STEP_RELEASE:
			if (!release_some(c)) {
				try_after(c, 0);
				return;
			}
			release(c);
			break;
		case STEP_UNREAD:
			if (!client_close(c)) {
				try_after(c, UNREAD_POLL_NS);
				return;
			}
			break;
		case STEP_UNMAP:
			if (!client_is_unmapped(c)) {
				try_later(c);
				return;
			}
			loop_timer_disarm(&c->timer);
			client_addresses_give(c, c->addresses);
			client_imports_free(c);
			client_forget_regions(c);
			if (c->hosts != NULL)
				client_host_gone(c);
			client_gone(c);
			return;
		}
		c->step++;
	}
}

void client_reap(void)
{
	struct client *c;

	while ((c = rn_list_pop(&clients.dying, struct client, dying)) != NULL)
		go_on_dying(c);
	while ((c = rn_slist_pop(&clients.dead, struct client, dead)) != NULL) {
		user_put(c->user);
		free(c);
	}
	client_keepers_reap();
}
