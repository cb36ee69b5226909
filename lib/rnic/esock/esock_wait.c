/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives completions and events of the connection manager, and sleeps until they come. */
#include "rnic/esock/esock.h"

#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#define POLLED  16
#define LOOK_NS (50 * RN_NS_PER_US) /* how long a thread looks before it sleeps */

uint64_t es_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * RN_NS_PER_S + (uint64_t)t.tv_nsec;
}

uint64_t es_until(int timeout_ms) { return timeout_ms < 0 ? RN_NEVER : es_now() + (uint64_t)timeout_ms * RN_NS_PER_MS; }

bool es_blocks(const struct es *es) { return (fcntl(es->fd, F_GETFL) & O_NONBLOCK) == 0; }

void es_broken(struct es *es, int err)
{
	if (es->state == ES_OVER)
		return;
	es->err = err;
	es_set_state(es, ES_OVER);
}

int es_gone(const struct es *es, int err)
{
	if (es->err == EPROTO)
		return es_fail(EPROTO, "the peer broke the rules of extended sockets: %s", esk_verdict_text(es->rule));
	return es_fail(err, "the connection has ended: the peer is gone");
}

/* ---- completions ---- */

static int error_of(enum ibv_wc_status s)
{
	switch ((int)s) {
	case IBV_WC_SUCCESS: return 0;
	case IBV_WC_WR_FLUSH_ERR: return ECANCELED;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_REM_INV_REQ_ERR: return EACCES;
	case IBV_WC_LOC_LEN_ERR: return EMSGSIZE;
	default: return EIO;
	}
}

/*
 * From now on the program's receives are served from the lists only: those that wait complete, since the stream has
 * ended.
 */
static void end_receives(struct es *es)
{
	struct es_op *op;

	while (es->in.first == NULL && (op = es_take(&es->recv_wait)) != NULL) {
		op->error = es->bytes && es->esk.in_ended ? 0 : ECANCELED;
		op->length = 0;
		es_put(&es->recv_done, op);
	}
}

static void completed(struct es *es, const struct ibv_wc *wc)
{
	struct es_op *op = (struct es_op *)(uintptr_t)wc->wr_id;
	bool good = wc->status == IBV_WC_SUCCESS;

	op->error = error_of(wc->status);
	if (op->kind != ES_RECV && op->kind != ES_SLOT)
		es->sending--;
	switch (op->kind) {
	case ES_SEND: es_put(&es->send_done, op); break;
	case ES_RECV:
		op->length = good ? wc->byte_len : 0;
		es_put(&es->recv_done, op);
		break;
	case ES_PIECE:
		es->pieces--;
		es_put(&es->free[ES_PIECE], op);
		break;
	case ES_BYTES:
	case ES_CTRL: es_put(&es->free[op->kind], op); break;
	case ES_SLOT:
		if (good)
			es_message(es, op, wc->byte_len);
		break;
	case ES_KINDS: break;
	}
	if (!good && wc->status != IBV_WC_WR_FLUSH_ERR)
		es_broken(es, ECONNRESET);
}

static bool arm(struct es *es)
{
	if (!es->armed)
		es->armed = ibv_req_notify_cq(es->cq, 0) == 0;
	return es->armed;
}

static bool completions(struct es *es)
{
	struct ibv_wc wc[POLLED];
	struct ibv_cq *cq;
	void *context;
	bool any = false;
	int n;

	if (es->armed && ibv_get_cq_event(es->cc, &cq, &context) == 0) {
		ibv_ack_cq_events(cq, 1);
		es->armed = false;
		if (es->sleeps) /* the sleeping thread must see the next completion, too */
			arm(es);
	}
	while ((n = ibv_poll_cq(es->cq, POLLED, wc)) > 0) {
		for (int i = 0; i < n; i++)
			completed(es, &wc[i]);
		any = true;
	}
	return any;
}

/* ---- the connection ---- */

/* While the connection is up only one event can come: its end. */
static bool ended(struct es *es)
{
	struct rdma_cm_event *ev;

	if (es->state != ES_OPEN || rdma_get_cm_event(es->ch, &ev) != 0)
		return false;
	bool end = ev->event == RDMA_CM_EVENT_DISCONNECTED || ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
	rdma_ack_cm_event(ev);
	return end;
}

bool es_progress(struct es *es)
{
	bool over = ended(es), any = completions(es);

	if (over) /* first takes everything that came before */
		es_broken(es, es->bytes && !es->esk.in_ended ? ECONNRESET : 0);
	if (es->bytes) {
		es_serve_receives(es);
		es_credit(es);
		es_end(es);
	}
	if (es->state == ES_OVER)
		end_receives(es);
	if (any || over) {
		const uint64_t one = 1;
		es->taken++;
		pthread_cond_broadcast(&es->turn);
		if (es->sleeps && write(es->kick_fd, &one, sizeof(one)) < 0)
			return true; /* its counter is full: that thread wakes anyway */
	}
	return any || over;
}

/*
 * Requests an event for the next completion, and takes what came before the request. True: something has come, and the
 * request may be used up. The event of a completion that was taken earlier may still come: it uses up a request, too.
 */
static bool arm_and_look(struct es *es)
{
	bool any, armed;

	do {
		armed = arm(es);
		any = es_progress(es);
	} while (!any && armed && !es->armed);
	return any;
}

/* ---- sleeping ---- */

static bool has_something(const struct es *es)
{
	return es->in.first != NULL || es->esk.in_ended || es->recv_done.first != NULL || es->send_done.first != NULL ||
	       es->state == ES_OVER;
}

void es_settle(struct es *es)
{
	const int err = errno;
	uint64_t v = 1;

	while (!has_something(es) && !es->armed && arm_and_look(es))
		;
	const bool ready = has_something(es);
	if (ready != es->ready) {
		const ssize_t n = ready ? write(es->ready_fd, &v, sizeof(v)) : read(es->ready_fd, &v, sizeof(v));
		es->ready = n > 0 ? ready : es->ready;
	}
	errno = err;
}

static int timed_wait(struct es *es, uint64_t until)
{
	struct timespec ts = { .tv_sec = (time_t)(until / RN_NS_PER_S), .tv_nsec = (long)(until % RN_NS_PER_S) };

	return until == RN_NEVER ? pthread_cond_wait(&es->turn, &es->lock)
				 : pthread_cond_timedwait(&es->turn, &es->lock, &ts);
}

static void follower_gone(void *es) { es_drop(es); }

/* Another thread sleeps in poll(): what it takes may be for this thread. cancel: PTHREAD_CANCEL_*. */
static bool follow(struct es *es, uint64_t until, int cancel)
{
	const uint64_t seen = es->taken;
	const int before = es_cancel;
	int rc, off;

	pthread_cleanup_push(follower_gone, es);
	pthread_setcancelstate(cancel, &off);
	rc = timed_wait(es, until);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &off);
	pthread_cleanup_pop(0);
	es_cancel = before;
	return rc == 0 || es->taken != seen;
}

/* One of the threads that follow sleeps next. */
static void sleeper_gone(void *arg)
{
	struct es *es = arg;

	pthread_mutex_lock(&es->lock);
	es->sleeps = false;
	pthread_cond_broadcast(&es->turn);
	es_drop(es);
}

void es_poll(struct es *es, struct pollfd *p, nfds_t n, int ms, int cancel, void (*gone)(void *es))
{
	const int before = es_cancel; /* a signal handler may make calls meanwhile */
	int off;

	pthread_mutex_unlock(&es->lock);
	pthread_cleanup_push(gone, es);
	pthread_setcancelstate(cancel, &off);
	poll(p, n, ms);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &off);
	pthread_cleanup_pop(0);
	pthread_mutex_lock(&es->lock);
	es_cancel = before;
}

/* True: another thread has written kick_fd. */
static bool sleep_in_poll(struct es *es, int ms, int cancel)
{
	struct pollfd p[3] = { { .fd = es->cc->fd, .events = POLLIN },
			       { .fd = es->ch->fd, .events = POLLIN },
			       { .fd = es->kick_fd, .events = POLLIN } };

	es->sleeps = true;
	es_poll(es, p, 3, ms, cancel, sleeper_gone);
	es->sleeps = false;
	return p[2].revents != 0;
}

static bool wait_until(struct es *es, uint64_t until, int cancel)
{
	const uint64_t begun = es_now(), seen = es->taken;

	while (es_now() - begun < rn_min_u64(LOOK_NS, until > begun ? until - begun : 0))
		if (es_progress(es))
			return true;
	if (arm_and_look(es))
		return true;
	if (es->sleeps)
		return follow(es, until, cancel);
	for (;;) {
		const uint64_t now = es_now();
		const uint64_t ms = until == RN_NEVER ? UINT64_MAX : until > now ? (until - now) / RN_NS_PER_MS + 1 : 0;
		uint64_t kicks;

		if (ms == 0) {
			pthread_cond_broadcast(&es->turn);
			return false;
		}
		if (sleep_in_poll(es, (int)rn_min_u64(ms, 1000), cancel) &&
		    read(es->kick_fd, &kicks, sizeof(kicks)) < 0)
			continue;
		if (es_progress(es) || es->taken != seen) { /* another thread may have taken it, */
			pthread_cond_broadcast(&es->turn);  /* and wait at `turn`: one of those sleeps next */
			return true;
		}
		if (arm_and_look(es))
			return true;
	}
}

bool es_wait(struct es *es, uint64_t until) { return wait_until(es, until, es_cancel); }
bool es_wait_through(struct es *es, uint64_t until) { return wait_until(es, until, PTHREAD_CANCEL_DISABLE); }
