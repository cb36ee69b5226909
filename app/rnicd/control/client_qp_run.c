/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operation under way on a QP, and the worker to which the QP belongs. A QP belongs to one worker from its
 * creation; before it gets a connection it may be moved to the connection's worker. While it has a connection it stays
 * where it is. Only one command about a QP is under way at a time.
 */
#include <errno.h>
#include <stdlib.h>

#include "border/flow_owner.h"
#include "control/client.h"
#include "control/oob.h"

static uint32_t per_worker[RNICD_MAX_WORKERS]; /* number of QPs of each worker */

/* The one writer of q->state. A QP that is not FREE holds its client: the client's death waits for it. */
static void client_qp_run_set_state(struct client_qp *q, enum client_qp_state to)
{
	if (q->state == CLIENT_QP_FREE && to != CLIENT_QP_FREE)
		client_hold(q->c);
	else if (q->state != CLIENT_QP_FREE && to == CLIENT_QP_FREE)
		client_unhold(q->c);
	q->state = to;
}

struct cmd_qp client_qp_args(const struct client_qp *q)
{
	return (struct cmd_qp){ .qp = q->qp,
				.client = q->c->wc[q->worker],
				.bit = q->db_bit,
				.datagram = q->datagram,
				.port = q->pd->dev };
}

/* ---- held ---- */

void client_qp_hold(struct client_qp *q) { client_qp_run_set_state(q, CLIENT_QP_HELD); }

void client_qp_command(struct client_qp *q, enum cmd_type type, void (*done)(struct cmd *))
{
	client_qp_hold(q);
	q->cmd.type = type;
	q->cmd.done = done;
	cmd_send(&q->cmd, q->worker);
}

void client_qp_ask(struct client_qp *q, struct client *c)
{
	q->asker = c;
	if (c != q->c)
		client_hold(c);
}

struct client *client_qp_asked(struct client_qp *q)
{
	struct client *c = q->asker;

	q->asker = NULL;
	if (c != q->c)
		client_unhold(c); /* its death goes on at the end of the turn */
	return c;
}

/* Takes the request that has waited for the QP, as *parked, and returns the client to whom it belongs. NULL: no request
 * has waited, or its client is dying. */
static struct client *unpark(struct client_qp *q, void (**parked)(struct client *c))
{
	struct client *c = q->parked != NULL ? q->parker : NULL;

	*parked = q->parked;
	q->parked = NULL;
	q->parker = NULL;
	if (c != NULL && c != q->c)
		client_unhold(c);
	return c != NULL && c->state != CLIENT_DYING ? c : NULL;
}

bool client_qp_give_back(struct client_qp *q)
{
	void (*parked)(struct client * c);
	struct client *c = q->c, *other;

	client_qp_run_set_state(q, CLIENT_QP_FREE);
	if (c->state != CLIENT_DYING)
		return true;
	other = unpark(q, &parked);
	if (other != NULL)
		client_error(other, EIO, "the queue pair is being destroyed");
	return false;
}

void client_qp_go_on(struct client_qp *q)
{
	void (*parked)(struct client * c);
	struct client *c;

	if (q->state != CLIENT_QP_FREE)
		return;
	c = unpark(q, &parked);
	if (c != NULL)
		parked(c);
	else
		oob_settled(q);
}

void client_qp_return(struct client_qp *q)
{
	if (client_qp_give_back(q))
		client_qp_go_on(q);
}

/* ---- its worker ---- */

static uint32_t idlest_worker(void)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < rnicd.n_workers; i++)
		if (per_worker[i] < per_worker[best])
			best = i;
	return best;
}

static struct qp_shm *shm_of(const struct client_qp *q)
{
	if (q->no_queues != NULL)
		return &q->no_queues->shm;
	return (struct qp_shm *)(void *)(q->c->region[IPC_REGION_QUEUES].base + q->shm.off);
}

static void belongs_to(struct client_qp *q, uint32_t worker)
{
	struct qp_shm *shm = shm_of(q);

	q->worker = worker;
	per_worker[worker]++;
	__atomic_store_n(&shm->worker, worker, __ATOMIC_RELEASE);
	/* pairs with the client's fence: a client that rings the old worker has posted before the new one looks */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

uint32_t client_qp_home(const struct client_qp *q)
{
	if (q->reliable)
		return rd_owner(q->pd->dev, rd_number(q->qpn, rd_numbers()));
	return q->datagram ? ud_owner(q->pd->dev, q->qpn) : idlest_worker();
}

void client_qp_place(struct client_qp *q) { belongs_to(q, client_qp_home(q)); }

void client_qp_unplace(struct client_qp *q) { per_worker[q->worker]--; }

static void client_qp_run_arrived(struct cmd *cmd)
{
	struct client_qp *q = rn_container_of(cmd, struct client_qp, cmd);

	client_qp_run_set_state(q, CLIENT_QP_HELD);
	q->then(q);
}

/* The turn in which the QP left or was destroyed may still have the QP on a list, so the rc_flush of that turn must
 * have run. True: it has. False: the worker is asked again, and the command's `done` is called again. */
static bool turn_is_over(struct client_qp *q)
{
	if (q->cmd.qp.later)
		return true;
	q->cmd.type = CMD_QP_LATER;
	cmd_send(&q->cmd, q->worker);
	return false;
}

static void client_qp_run_left(struct cmd *cmd)
{
	struct client_qp *q = rn_container_of(cmd, struct client_qp, cmd);

	if (cmd->qp.verdict != QP_OK) { /* the QP has a connection */
		client_qp_run_set_state(q, CLIENT_QP_HELD);
		q->then(q);
		return;
	}
	if (!turn_is_over(q))
		return;
	client_qp_unplace(q);
	belongs_to(q, q->target);
	client_qp_run_set_state(q, CLIENT_QP_ARRIVING);
	q->cmd = (struct cmd){ .type = CMD_QP_ARRIVE, .done = client_qp_run_arrived, .qp = client_qp_args(q) };
	cmd_send(&q->cmd, q->worker);
}

void client_qp_lend(struct client_qp *q, uint32_t worker, void *borrower, void (*then)(struct client_qp *q))
{
	q->borrower = borrower;
	q->target = worker;
	if (q->worker == worker) {
		client_qp_hold(q);
		then(q);
		return;
	}
	q->then = then;
	client_qp_run_set_state(q, CLIENT_QP_LEAVING);
	q->cmd = (struct cmd){ .type = CMD_QP_LEAVE, .done = client_qp_run_left, .qp = client_qp_args(q) };
	cmd_send(&q->cmd, q->worker);
}

/* ---- its beginning ---- */

struct coming {
	struct cmd cmd;
	struct client_qp *q;
};

static void has_come(struct cmd *cmd)
{
	struct coming *w = rn_container_of(cmd, struct coming, cmd);

	w->q->coming = false;
	free(w);
}

bool client_qp_create(struct client_qp *q, void (*answer)(const struct client_qp *q))
{
	struct coming *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return false;
	*w = (struct coming){ .q = q, .cmd = { .type = CMD_QP_CREATE, .done = has_come, .qp = q->cmd.qp } };
	q->coming = w->cmd.qp.has_state;
	if (q->coming) /* for the client to read; rnicd never reads it */
		__atomic_store_n(&shm_of(q)->state, w->cmd.qp.state, __ATOMIC_RELEASE);
	answer(q);
	cmd_send(&w->cmd, q->worker);
	return true;
}

/* ---- its end ---- */

static void client_qp_run_ended(struct cmd *cmd)
{
	struct client_qp *q = rn_container_of(cmd, struct client_qp, cmd);

	if (turn_is_over(q))
		q->then(q);
}

void client_qp_destroy(struct client_qp *q, void (*then)(struct client_qp *q))
{
	client_qp_run_set_state(q, CLIENT_QP_ENDING);
	q->then = then;
	q->cmd = (struct cmd){ .type = CMD_QP_DESTROY, .done = client_qp_run_ended, .qp = client_qp_args(q) };
	q->cmd.qp.orphan = q->c->state == CLIENT_DYING;
	cmd_send(&q->cmd, q->worker);
}
