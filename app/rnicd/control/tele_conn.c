/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/tele_conn.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control/cm.h"
#include "control/tele.h"
#include "plane/worker.h"

#define PATIENCE_S 2
#define CONNS_MAX 512u /* as many as an answer of DPDK's telemetry can hold */

struct look {
	struct cmd_all cmd;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done, abandoned; /* under lock */
	uint32_t n;
	struct tele_conn conn[];
};

static void look_work(struct rnicd_worker *w, struct cmd_all *a, uint64_t now)
{
	struct look *l = rn_container_of(a, struct look, cmd);

	(void)now;
	for (uint32_t i = 0; i < l->n; i++) {
		struct tele_conn *t = &l->conn[i];
		const struct qp_conn *c = t->conn;
		if (t->worker != worker_index(w) || c->owner != t->key)
			continue;
		t->here = true;
		t->state = qp_conn_get_state(c);
		tcpl_get_info(&c->tcp, &t->tcp);
		t->stats = c->tcp.stats;
		t->crc = c->agreed.crc;
		t->rx_markers = c->agreed.rx_markers;
		t->tx_markers = c->agreed.tx_markers;
	}
}

static void look_free(struct look *l)
{
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->cond);
	free(l);
}

static void looked(struct cmd_all *a)
{
	struct look *l = rn_container_of(a, struct look, cmd);

	pthread_mutex_lock(&l->lock);
	bool abandoned = l->abandoned;
	l->done = true;
	pthread_cond_signal(&l->cond);
	pthread_mutex_unlock(&l->lock);
	if (abandoned)
		look_free(l);
}

static void collect(struct look *l)
{
	rn_list_each(const struct cm_conn, k, cm_conns(), link) {
		char from[46], to[46];
		if (l->n == CONNS_MAX)
			return;
		if (k->conn == NULL)
			continue;
		struct tele_conn *t = &l->conn[l->n];
		tele_show_addr(k->local.ip, from, sizeof(from));
		tele_show_addr(k->remote.ip, to, sizeof(to));
		snprintf(t->name, sizeof(t->name), "%.15s %s:%u %s:%u", rnicd.port[k->dev]->cfg->name, from,
			 k->local.port, to, k->remote.port);
		t->worker = k->worker;
		t->conn = k->conn;
		t->key = k->owner.key;
		l->n++;
	}
}

/* True: it is done. False: whoever finishes it frees it. */
static bool wait_for(struct look *l)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	pthread_mutex_lock(&l->lock);
	while (!l->done && pthread_cond_timedwait(&l->cond, &l->lock, &until) == 0)
		;
	bool done = l->done;
	l->abandoned = !done;
	pthread_mutex_unlock(&l->lock);
	return done;
}

struct tele_conn *tele_conns(uint32_t *n)
{
	struct look *l = calloc(1, sizeof(*l) + CONNS_MAX * sizeof(l->conn[0]));

	*n = 0;
	if (l == NULL)
		return NULL;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->cond, NULL);
	l->cmd.work = look_work;
	l->cmd.done = looked;
	loop_lock();
	collect(l);
	cmd_send_all(&l->cmd);
	loop_unlock();
	if (!wait_for(l))
		return NULL;
	struct tele_conn *out = malloc((l->n + 1) * sizeof(*out));
	for (uint32_t i = 0; out != NULL && i < l->n; i++)
		if (l->conn[i].here)
			out[(*n)++] = l->conn[i];
	look_free(l);
	return out;
}
