/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/tele_ask.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "border/cmd.h"
#include "control/addr_text.h"
#include "control/cm.h"
#include "control/loop.h"

#define PATIENCE_S 10 /* a worker that does not answer within these seconds hangs; on a busy machine 2 s are too few */
#define CONNS_MAX  512u /* connections of one command; as many entries has an answer of DPDK's telemetry at most */

/* A command with memory for the answers, for which telemetry's thread waits. This thread frees it, or the control
 * thread if telemetry's thread has stopped waiting. */
struct ask {
	struct cmd cmd;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done, abandoned; /* under lock */
	void *list;           /* a list of answers, freed with the command; NULL: the answers are below */
	union {
		uint32_t n[RNICD_MAX_PORTS * RNICD_MAX_WORKERS]; /* number of entries of each part of the list */
		struct look_worker worker[RNICD_MAX_WORKERS];
		struct look_listener listener[LOOK_LISTENERS];
		struct {
			struct look_conn look[CONNS_MAX];
			char name[CONNS_MAX][sizeof(((struct tele_conn *)0)->name)];
			uint32_t number[CONNS_MAX];
		} conn;
	};
};

static bool stopped; /* under loop_lock */

void tele_ask_stop(void) { stopped = true; }

static void ask_free(struct ask *a)
{
	pthread_mutex_destroy(&a->lock);
	pthread_cond_destroy(&a->cond);
	free(a->list);
	free(a);
}

static void answered(struct cmd *cmd)
{
	struct ask *a = rn_container_of(cmd, struct ask, cmd);

	pthread_mutex_lock(&a->lock);
	bool abandoned = a->abandoned;
	a->done = true;
	pthread_cond_signal(&a->cond);
	pthread_mutex_unlock(&a->lock);
	if (abandoned)
		ask_free(a);
}

/* NULL: no memory. */
static struct ask *ask_new(enum cmd_type type)
{
	struct ask *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return NULL;
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->cond, NULL);
	a->cmd.type = type;
	a->cmd.done = answered;
	return a;
}

/* Sends the command to all workers, and waits for the answers. Called under loop_lock, which it releases. True: the
 * answers have come. False: the command is freed, now or by the control thread. */
static bool ask_all(struct ask *a)
{
	struct timespec until;
	bool refused = stopped;

	if (!refused)
		cmd_send_all(&a->cmd);
	loop_unlock();
	if (refused) {
		ask_free(a);
		return false;
	}

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	pthread_mutex_lock(&a->lock);
	while (!a->done && pthread_cond_timedwait(&a->cond, &a->lock, &until) == 0)
		;
	bool done = a->done;
	a->abandoned = !done;
	pthread_mutex_unlock(&a->lock);
	return done;
}

/* ---- connections ---- */

/*
 * Names the connections that the workers are to look at: the one with this number, or (number 0) those of the list from
 * number `skip` on. The command's length is bounded, since a worker carries it out in one turn.
 */
static void collect(struct ask *a, uint32_t number, uint32_t skip)
{
	struct cmd_look_conns *l = &a->cmd.look_conns;

	l->c = a->conn.look;
	rn_list_each(const struct cm_conn, k, cm_conns(), link) {
		char from[46], to[46];
		if (l->n == CONNS_MAX)
			return;
		if (k->conn == NULL || (number != 0 && k->number != number))
			continue;
		if (number == 0 && skip > 0) {
			skip--;
			continue;
		}
		addr_text(k->local.ip, from, sizeof(from));
		addr_text(k->remote.ip, to, sizeof(to));
		snprintf(a->conn.name[l->n], sizeof(a->conn.name[0]), "%.15s %s:%u %s:%u",
			 rnicd.port[k->dev]->cfg->name, from, k->local.port, to, k->remote.port);
		a->conn.number[l->n] = k->number;
		l->c[l->n++] = (struct look_conn){ .worker = k->worker, .conn = k->conn, .key = k->owner.key };
	}
}

struct tele_conn *tele_conns(uint32_t number, uint32_t skip, uint32_t *n)
{
	struct ask *a = ask_new(CMD_LOOK_CONNS);

	*n = 0;
	if (a == NULL)
		return NULL;
	loop_lock();
	collect(a, number, skip);
	if (!ask_all(a))
		return NULL;
	struct tele_conn *out = malloc((a->cmd.look_conns.n + 1) * sizeof(*out));
	for (uint32_t i = 0; out != NULL && i < a->cmd.look_conns.n; i++) {
		if (!a->conn.look[i].here)
			continue;
		memcpy(out[*n].name, a->conn.name[i], sizeof(out->name));
		out[*n].number = a->conn.number[i];
		out[(*n)++].look = a->conn.look[i];
	}
	ask_free(a);
	return out;
}

/* ---- workers, listeners ---- */

bool tele_workers(struct look_worker out[RNICD_MAX_WORKERS])
{
	struct ask *a = ask_new(CMD_LOOK_WORKER);

	if (a == NULL)
		return false;
	a->cmd.look_worker = a->worker;
	loop_lock();
	if (!ask_all(a))
		return false;
	memcpy(out, a->worker, sizeof(a->worker));
	ask_free(a);
	return true;
}

bool tele_listeners(struct look_listener out[LOOK_LISTENERS], uint32_t *n)
{
	struct ask *a = ask_new(CMD_LOOK_LISTENERS);

	if (a == NULL)
		return false;
	a->cmd.look_listeners.l = a->listener;
	loop_lock();
	if (!ask_all(a))
		return false;
	*n = a->cmd.look_listeners.n;
	memcpy(out, a->listener, *n * sizeof(out[0]));
	ask_free(a);
	return true;
}

/* ---- flows, records ---- */

/* A command with room for its list. NULL: no memory. */
static struct ask *ask_list(enum cmd_type type, size_t entries, size_t size)
{
	struct ask *a = ask_new(type);

	if (a == NULL)
		return NULL;
	a->list = calloc(entries, size);
	if (a->list != NULL)
		return a;
	ask_free(a);
	return NULL;
}

/* Sends the command. Returns the list of answers, and in n the number of entries of each of its parts. NULL: no answer
 * in time. */
static void *listed(struct ask *a, uint32_t *n, uint32_t parts)
{
	loop_lock();
	if (!ask_all(a))
		return NULL;
	void *list = a->list;
	memcpy(n, a->n, parts * sizeof(n[0]));
	a->list = NULL;
	ask_free(a);
	return list;
}

struct look_flow *tele_flows(uint32_t n[RNICD_MAX_PORTS * RNICD_MAX_WORKERS])
{
	const uint32_t parts = rnicd.n_workers * rnicd.n_ports;
	struct ask *a = ask_list(CMD_LOOK_FLOWS, (size_t)parts * LOOK_FLOWS, sizeof(struct look_flow));

	if (a == NULL)
		return NULL;
	a->cmd.look_flows = (struct cmd_look_flows){ .f = a->list, .n = a->n };
	return listed(a, n, parts);
}

struct look_record *tele_records(uint32_t n[RNICD_MAX_WORKERS])
{
	struct ask *a = ask_list(CMD_LOOK_RECORDS, (size_t)rnicd.n_workers * LOOK_RECORDS, sizeof(struct look_record));

	if (a == NULL)
		return NULL;
	a->cmd.look_records = (struct cmd_look_records){ .r = a->list, .n = a->n };
	return listed(a, n, rnicd.n_workers);
}
