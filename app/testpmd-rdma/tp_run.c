/* SPDX-License-Identifier: BSD-3-Clause */
/* One run: the order of steps that is the same for every engine, and the steps that engines share. */
#include "tp_engine.h"
#include "tp_pattern.h"
#include "tp_ud.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#define SPINS_PER_LOOK  1024u /* empty polls between two checks of the clock and the control queue */
#define SLICE_NS        100000000
#define CREDIT_SLICE_NS 20000
#define FIRST_WAVE      32u
#define TICK_NS         UINT64_C(50000000)

static const struct tp_engine *const engines[TP_MODE_COUNT] = {
	[TP_WRITE_BW] = &tp_write_bw,   [TP_READ_BW] = &tp_read_bw,   [TP_SEND_BW] = &tp_send_bw,
	[TP_WRITE_LAT] = &tp_write_lat, [TP_READ_LAT] = &tp_read_lat, [TP_SEND_LAT] = &tp_send_lat,
	[TP_SOAK] = &tp_soak,           [TP_IDLE] = &tp_idle_conns,
};

/* An engine for datagrams, if the mode has one; else the engine for connections. */
static const struct tp_engine *const ud_engines[TP_MODE_COUNT] = {
	[TP_WRITE_BW] = &tp_ud_write_bw, [TP_READ_BW] = &tp_ud_read_bw, [TP_SEND_BW] = &tp_ud_send_bw,
	[TP_WRITE_LAT] = &tp_ud_lat,     [TP_READ_LAT] = &tp_ud_lat,    [TP_SEND_LAT] = &tp_ud_lat,
	[TP_SOAK] = &tp_ud_soak,         [TP_IDLE] = &tp_idle_conns,
};

const struct tp_engine *tp_engine_find(const struct tp_point *p)
{
	return (p->qp_type == TP_QP_UD ? ud_engines : engines)[p->mode];
}

void tp_engine_depths(const struct tp_point *p, uint32_t *sq, uint32_t *rq)
{
	tp_engine_find(p)->depths(p, sq, rq);
	*sq += 2; /* the initiator's first message, and the fence after the run */
	*rq += 2;
}

bool tp_should_stop(const struct tp_run *r)
{
	return atomic_load_explicit(r->s->stop, memory_order_relaxed) || (r->s->fin_seen && r->s->peer_stopped);
}

/*
 * First call after empty polls: arm. Second: sleep until an event of either channel, or a slice of time. Credit is
 * written into memory and brings no event, so the waiting side sleeps in short slices.
 */
static enum tp_verdict sleep_on_events(struct tp_session *s, bool awaits_credit)
{
	const struct timespec slice = { 0, awaits_credit ? CREDIT_SLICE_NS : SLICE_NS };
	struct pollfd fd[2] = { { .fd = s->chan->fd, .events = POLLIN }, { .fd = s->ctrl_chan->fd, .events = POLLIN } };
	struct ibv_cq *cq;
	void *context;

	if (!s->armed) {
		s->armed = true;
		errno = ibv_req_notify_cq(s->cq, 0);
		return errno == 0 ? TP_OK : tp_verbs_fail(s->err, "asking for completion events");
	}
	if (ppoll(fd, 2, &slice, NULL) <= 0)
		return TP_OK;
	if (fd[0].revents != 0) {
		if (ibv_get_cq_event(s->chan, &cq, &context) != 0)
			return errno == EAGAIN ? TP_OK : tp_verbs_fail(s->err, "waiting for a completion event");
		s->armed = false;
		if (++s->unacked_events == 1024) {
			ibv_ack_cq_events(s->cq, s->unacked_events);
			s->unacked_events = 0;
		}
	}
	if (fd[1].revents != 0 && ibv_get_cq_event(s->ctrl_chan, &cq, &context) == 0) {
		ibv_ack_cq_events(cq, 1);
		errno = ibv_req_notify_cq(cq, 0);
		if (errno != 0)
			return tp_verbs_fail(s->err, "asking for control events");
	}
	return TP_OK;
}

enum tp_verdict tp_idle(struct tp_run *r)
{
	struct tp_session *s = r->s;
	enum tp_verdict v;
	uint64_t now;
	bool dead;

	if (s->point.events) {
		v = sleep_on_events(s, r->awaits_credit);
		if (v != TP_OK)
			return v;
	} else {
		tp_pause();
		if (++r->spins % SPINS_PER_LOOK != 0)
			return TP_OK;
	}
	dead = atomic_load(&s->dead);
	v = tp_ctrl_pump(s);
	if (v != TP_OK)
		return v;
	if (dead)
		return tp_fail(s->err, TP_PEER_GONE, "the %s closed the connection during the run: see its output",
			       s->is_server ? "client" : "server");
	if (s->is_server && atomic_load(s->stop))
		return tp_fail(s->err, TP_STOPPED, "the server is stopping");
	now = tp_now();
	if (s->point.events ? r->spins++ == 0 : r->spins == SPINS_PER_LOOK)
		r->idle_since = now;
	else if (now - r->idle_since > s->point.timeout)
		return tp_fail(s->err, TP_TIMEOUT,
			       "no operation completed for %.3g s: is the network up? (--timeout sets how long to "
			       "wait)",
			       (double)s->point.timeout / 1e9);
	return TP_OK;
}

enum tp_verdict tp_session_wc(struct tp_session *s, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS)
		return tp_wc_fail(s, wc);
	if (tp_wr_kind(wc->wr_id) == TP_WR_FENCE)
		s->fences_out++;
	else if (tp_wr_kind(wc->wr_id) == TP_WR_FENCE_RECV)
		s->fences_in++;
	return TP_OK;
}

enum tp_verdict tp_post_fence(struct tp_session *s, uint32_t qp)
{
	struct ibv_sge sge = { (uintptr_t)s->region + s->layout.fence, 8, s->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = tp_wr_id(TP_WR_FENCE, qp, 0),
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	errno = tp_post_send(s, qp, &wr);
	return errno == 0 ? TP_OK : tp_verbs_fail(s->err, "posting a Send");
}

/* Poll until `in` fences have come in and `out` own fences have completed. */
static enum tp_verdict wait_fences(struct tp_run *r, uint64_t in, uint64_t out)
{
	struct tp_session *s = r->s;
	struct ibv_wc wc;
	enum tp_verdict v = TP_OK;

	tp_busy(r);
	while (v == TP_OK && (s->fences_in < in || s->fences_out < out)) {
		int n = ibv_poll_cq(s->cq, 1, &wc);

		if (n < 0)
			return tp_fail(s->err, TP_VERBS_ERROR, "polling the completion queue failed");
		if (n == 0) {
			v = tp_idle(r);
		} else {
			tp_busy(r);
			v = tp_session_wc(s, &wc);
		}
	}
	return v;
}

static enum tp_verdict post_fences(struct tp_session *s)
{
	enum tp_verdict v = TP_OK;

	for (uint32_t q = 0; v == TP_OK && q < s->point.qps; q++)
		v = tp_post_fence(s, q);
	return v;
}

/* Sends the initiator's first message on each connection, in groups: thousands at once would disturb the measurement of
 * idle connections. */
static enum tp_verdict first_words(struct tp_run *r)
{
	enum tp_verdict v = TP_OK;

	for (uint32_t q = 0; v == TP_OK && q < r->p->qps; q++) {
		v = tp_post_fence(r->s, q);
		if (v == TP_OK && (q + 1) % FIRST_WAVE == 0)
			v = wait_fences(r, 0, q + 1);
	}
	return v == TP_OK ? wait_fences(r, 0, r->p->qps) : v;
}

void tp_fill_tx(struct tp_run *r)
{
	const struct tp_point *p = r->p;
	uint64_t seed = p->seed ^ (uint64_t)r->s->is_server << 63;

	for (uint32_t q = 0; q < p->qps; q++)
		for (uint64_t i = 0; i < p->slots; i++)
			tp_pattern_fill(r->s->region + tp_tx_off(&r->s->layout, q, i), p->size,
					tp_pattern_seed(seed, q, i), 0);
}

void tp_check_slot(struct tp_run *r, uint32_t qp, uint64_t slot, uint64_t len)
{
	struct tp_session *s = r->s;
	uint64_t seed = r->p->seed ^ (uint64_t)!s->is_server << 63;
	const uint8_t *buf = s->region + tp_rx_off(&s->layout, qp, slot);
	size_t bad = tp_pattern_check(buf, len, tp_pattern_seed(seed, qp, slot), 0);

	r->fig.checked += len;
	if (bad == TP_PATTERN_GOOD || r->fig.wrong++ > 0)
		return;
	tp_fail(s->err, TP_CORRUPT,
		"wrong data: %s of %" PRIu64 " bytes, queue pair %u, buffer %" PRIu64
		", first wrong byte %zu (it is 0x%02x)",
		tp_mode_name(r->p->mode), r->p->size, qp, slot, bad, buf[bad]);
}

enum tp_verdict tp_check_rx(struct tp_run *r, uint32_t qp, uint64_t n, uint64_t len)
{
	for (uint64_t i = 0; i < n && i < r->p->slots; i++)
		tp_check_slot(r, qp, i, len);
	return TP_OK;
}

enum tp_verdict tp_verify_written(struct tp_run *r)
{
	enum tp_verdict v = TP_OK;

	for (uint32_t q = 0; r->rx && v == TP_OK && q < r->p->qps; q++)
		v = tp_check_rx(r, q, r->s->fin_min_posted, r->p->size);
	return v;
}

void tp_progress_phase(struct tp_run *r, uint32_t phase, uint64_t now)
{
	struct tp_progress *g = r->s->progress;

	r->next_tick = 0;
	if (g == NULL)
		return;
	atomic_store(&g->ops, 0);
	atomic_store(&g->bytes, 0);
	atomic_store(&g->start, now);
	atomic_store(&g->deadline, r->p->iters == 0 ? now + r->p->duration : 0);
	atomic_store(&g->target, r->p->iters);
	atomic_store(&g->phase, phase);
}

void tp_progress_tick(struct tp_run *r, uint64_t now, uint64_t ops)
{
	struct tp_progress *g = r->s->progress;

	if (now < r->next_tick)
		return;
	r->next_tick = g == NULL ? UINT64_MAX : now + TICK_NS;
	if (g == NULL)
		return;
	atomic_store_explicit(&g->ops, ops, memory_order_relaxed);
	atomic_store_explicit(&g->bytes, ops * r->p->size, memory_order_relaxed);
}

/* Waits until the other thread has established every data connection. */
static enum tp_verdict wait_established(struct tp_session *s)
{
	uint64_t start = tp_now();

	while (atomic_load(&s->established) != s->point.qps) {
		if (atomic_load(&s->dead) || atomic_load(s->stop) || tp_now() - start > s->point.timeout)
			return tp_fail(s->err, TP_BAD_PEER, "only %u of %u data connections came up",
				       atomic_load(&s->established), s->point.qps);
		usleep(500);
	}
	return TP_OK;
}

/* Unreliable datagrams have no fences, since a lost one would be waited for without end. */
static bool has_fences(const struct tp_run *r, const struct tp_engine *e)
{
	return e->fence && r->p->qp_type != TP_QP_UD;
}

/* Buffers filled, every receive posted that the peer may use. */
static enum tp_verdict run_prepare(struct tp_run *r, const struct tp_engine *e)
{
	enum tp_verdict v = e->prepare(r);

	for (uint32_t q = 0; v == TP_OK && has_fences(r, e) && r->rx && q < r->p->qps; q++)
		v = tp_post_fence_recv(r->s, q < tp_n_qps(r->s) ? q : 0);
	return v;
}

/* Waits until both sides are prepared, and every data connection has carried its first message. */
static enum tp_verdict line_up(struct tp_run *r, const struct tp_engine *e)
{
	struct tp_session *s = r->s;
	struct tp_msg m = { .type = TP_MSG_GO };
	enum tp_verdict v;

	if (s->is_server) {
		v = tp_ctrl_wait(s, TP_MSG_GO, &m, TP_NO_TIMEOUT);
		if (v == TP_OK)
			v = s->grams != NULL ? tp_gram_join(s) : wait_established(s);
		if (v == TP_OK && s->point.qp_type != TP_QP_UD)
			v = wait_fences(r, s->point.qps, 0);
		if (v == TP_OK)
			v = run_prepare(r, e);
		m = (struct tp_msg){ .type = TP_MSG_READY };
		return v == TP_OK ? tp_ctrl_send(s, &m) : v;
	}
	v = run_prepare(r, e);
	if (v == TP_OK)
		v = first_words(r);
	if (v == TP_OK)
		v = tp_ctrl_send(s, &m);
	return v == TP_OK ? tp_ctrl_wait(s, TP_MSG_READY, &m, s->point.timeout) : v;
}

static enum tp_verdict body(struct tp_run *r, const struct tp_engine *e)
{
	struct tp_session *s = r->s;
	uint64_t cpu = tp_cpu_ns(), first = s->is_server ? r->p->qps : 0, own = s->is_server ? 0 : r->p->qps;
	const bool fence = has_fences(r, e);
	enum tp_verdict v = TP_OK;

	if (e->two_sided || r->tx)
		v = e->run(r);
	if (v == TP_OK && !r->fin_sent)
		v = tp_ctrl_send_fin(s, r->posted, r->min_posted);
	if (v == TP_OK)
		v = tp_ctrl_wait_fin(s, TP_NO_TIMEOUT);
	if (v == TP_OK && fence && r->tx)
		v = post_fences(s);
	if (v == TP_OK && fence)
		v = wait_fences(r, first + (r->rx ? r->p->qps : 0), own + (r->tx ? r->p->qps : 0));
	if (v == TP_OK && r->fig.cpu_ops == 0) {
		r->fig.cpu_ns = tp_cpu_ns() - cpu;
		r->fig.cpu_ops = s->fin_posted;
	}
	if (v == TP_OK && r->p->verify && e->verify != NULL)
		v = e->verify(r);
	return v;
}

/* rnicd's counts since the run began, if rnicd can be asked. */
static void count_spoilt(struct tp_run *r)
{
	const struct tp_counts *before = &r->s->counts;
	struct tp_counts after;

	tp_counts_look(ibv_get_device_name(r->s->verbs->device), &after);
	r->fig.counted = before->known && after.known;
	if (r->fig.counted) {
		r->fig.again = after.again - before->again;
		r->fig.dropped = after.dropped - before->dropped;
	}
}

enum tp_verdict tp_run_point(struct tp_session *s, struct tp_figures *mine, struct tp_figures *peer)
{
	const struct tp_engine *e = tp_engine_find(&s->point);
	struct tp_run *r = calloc(1, sizeof(*r));
	struct tp_msg m;
	enum tp_verdict v;

	if (r == NULL)
		return tp_fail(s->err, TP_NO_MEMORY, "out of memory");
	r->s = s;
	r->p = &s->point;
	r->tx = !s->is_server || s->point.bidir || e->ping_pong;
	r->rx = s->is_server || s->point.bidir || e->ping_pong;
	tp_hist_reset(&r->hist);
	tp_counts_look(ibv_get_device_name(s->verbs->device), &s->counts);
	v = line_up(r, e);
	if (v == TP_OK)
		v = body(r, e);
	if (v == TP_OK) {
		tp_hist_summary(&r->hist, &r->fig.lat);
		count_spoilt(r);
		*mine = r->fig;
		if (s->is_server) {
			tp_msg_put_result(&m, mine);
			v = tp_ctrl_send(s, &m);
		} else {
			v = tp_ctrl_wait(s, TP_MSG_RESULT, &m, s->point.timeout + UINT64_C(60000000000));
			if (v == TP_OK)
				tp_msg_get_result(&m, peer);
		}
	}
	free(r->state);
	free(r->whole);
	free(r);
	return v;
}
