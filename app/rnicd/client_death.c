/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a client, in the order in which things refer to each other. Each step waits for the workers' answers. */
#include <stdlib.h>

#include "client.h"
#include "cm.h"
#include "dev.h"

enum step {
	STEP_IDS,     /* connection manager ids and connections without QP */
	STEP_QPS,     /* QPs: connections end, nothing is taken from its rings any more */
	STEP_CONNS,   /* connections that have not closed yet end without it */
	STEP_LENT,    /* what it has borrowed goes back; what it has lent is waited for: others use its memory */
	STEP_LEAVE,   /* STags are void; then every worker forgets the client */
	STEP_QUIET,   /* packets that still refer to its memory */
	STEP_RELEASE
};

#define QUIET_POLL_NS RN_NS_PER_MS

static void step_qps(struct client *c)
{
	struct client_qp *q;

	for (uint32_t h = 0; (q = table_next(&c->qp, &h)) != NULL;)
		client_qp_end(q);
}

struct leave {
	struct cmd_all cmd;
	struct client *c;
};

static void leave_work(struct rnicd_worker *w, struct cmd_all *a, uint64_t now)
{
	struct leave *l = rn_container_of(a, struct leave, cmd);

	(void)now;
	worker_client_del(w, l->c->wc[worker_index(w)]);
}

static void leave_done(struct cmd_all *a)
{
	struct leave *l = rn_container_of(a, struct leave, cmd);
	struct client *c = l->c;

	free(l);
	c->under_way--;
	client_death_step(c);
}

static void again(struct loop_timer *t) { client_death_step(rn_container_of(t, struct client, timer)); }

static void try_later(struct client *c)
{
	c->timer.due = again;
	loop_timer_arm(&c->timer, rnicd_now() + QUIET_POLL_NS);
}

/* False: no memory at the moment; it is tried again. */
static bool step_leave(struct client *c)
{
	struct client_mr *mr;
	struct client_mw *mw;

	for (uint32_t h = 0; (mw = table_next(&c->mw, &h)) != NULL;)
		qp_mw_close(dev_get(mw->pd->dev), mw->stag);
	for (uint32_t h = 0; (mr = table_next(&c->mr, &h)) != NULL;)
		qp_mr_dereg(dev_get(mr->pd->dev), mr->stag);
	if (!c->joined)
		return true;
	struct leave *l = calloc(1, sizeof(*l));
	if (l == NULL)
		return false;
	*l = (struct leave){ .c = c, .cmd = { .work = leave_work, .done = leave_done } };
	c->under_way++;
	cmd_send_all(&l->cmd);
	return true;
}

static bool quiet(const struct client *c)
{
	for (uint32_t i = 0; i < rnicd.n_workers; i++)
		if (c->joined && !worker_client_quiet(c->wc[i]))
			return false;
	return true;
}

static void release(struct client *c)
{
	struct client_chan *ch;
	struct client_mr *mr;
	struct client_mw *mw;
	struct client_srq *srq;
	struct client_cq *q;

	for (uint32_t h = 0; (mw = table_next(&c->mw, &h)) != NULL;)
		client_mw_free(c, mw);
	for (uint32_t h = 0; (mr = table_next(&c->mr, &h)) != NULL;)
		client_mr_free(c, mr);
	for (uint32_t h = 0; (srq = table_next(&c->srq, &h)) != NULL;)
		client_srq_free(srq);
	for (uint32_t h = 0; (q = table_next(&c->cq, &h)) != NULL;)
		client_cq_free(q);
	for (uint32_t h = 0; (ch = table_next(&c->chan, &h)) != NULL;)
		client_chan_free(ch);
	client_pds_free(c);
	table_free(&c->mw);
	table_free(&c->mr);
	table_free(&c->srq);
	table_free(&c->cq);
	table_free(&c->chan);
	table_free(&c->qp);
	table_free(&c->cm);
	loop_timer_disarm(&c->timer);
	client_forget_workers(c);
	client_imports_free(c);
	client_forget_regions(c);
	client_gone(c);
}

void client_death_step(struct client *c)
{
	while (c->begun && c->under_way == 0) {
		switch ((enum step)c->step) {
		case STEP_IDS:
			cm_client_dies(c);
			break;
		case STEP_QPS:
			step_qps(c);
			break;
		case STEP_CONNS:
			cm_client_conns(c);
			break;
		case STEP_LENT:
			client_pds_return(c);
			if (client_pds_lent(c))
				return;
			break;
		case STEP_LEAVE:
			if (!step_leave(c)) {
				try_later(c);
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
			c->begun = false;
			release(c);
			return;
		}
		c->step++;
	}
}
