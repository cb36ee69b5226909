/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a stream of the wire iwarp: MPA set-up between the rnicds of both ends, queue pair, end. An effect that
 * the engine reports for a stream is first only marked in the stream. The marks are carried out when the engine's list
 * of effects is empty again.
 */
#include "plane/stream_iwarp.h"

#include "border/policy.h"
#include "plane/worker_int.h"

/* Each stream has a protection domain of its own. */
static uint32_t iw_pd(const struct rnicd_worker *w, const struct stream *s)
{
	return (uint32_t)(s - w->streams.at) + 1;
}

/* This end's hello. windows: the hello offers a window. */
static struct esk_hello own_hello(const struct stream_iwarp *i, bool windows)
{
	return (struct esk_hello){ .version = ESK_VERSION,
				   .slots = IWARP_SLOTS,
				   .size = IWARP_SLOT,
				   .window = windows ? IPC_STREAM_RING : 0,
				   .stag = i->window };
}

#define HELLO_MAX (ESK_HELLO_LEN + ESK_WINDOW_LEN)

/* Writes this end's hello; returns its length. */
static uint8_t iw_hello(const struct esk_hello *h, uint8_t out[HELLO_MAX])
{
	if (h->window == 0) {
		esk_hello_build(out, h);
		return ESK_HELLO_LEN;
	}
	esk_window_build(out, h);
	return HELLO_MAX;
}

/* ---- the worker's context ---- */

static bool iw_start(struct rnicd_worker *w)
{
	struct stream_iwarp_ctx *x = w->streams.iwarp;

	if (rc_tcp_ctx_init(&x->tcp, &x->cfg, x->mem, x->size) != QP_OK) {
		x->bad = true;
		return false;
	}
	qp_dev_init(&x->dev, x->mr, x->n_mr, rnicd.secret[3] ^ (w->now + w->index));
	x->on = true;
	return true;
}

bool stream_iwarp_room(struct rnicd_worker *w, bool passive)
{
	struct stream_iwarp_ctx *x = w->streams.iwarp;

	if (rn_unlikely(!x->on) && (x->bad || !iw_start(w)))
		return false;
	/*
	 * Connections of listeners take at most three quarters of the set-ups, so that programs of this host can always
	 * connect.
	 */
	return x->tcp.rc.setups_left > (passive ? x->cfg.rc.setups / 4 : 0) && x->tcp.rc.blk_left > 0;
}

static struct stream_iwarp *iw_of(const struct rnicd_worker *w, const struct stream *s)
{
	return &w->streams.iwarp->at[s - w->streams.at];
}

void stream_iwarp_touch(struct rnicd_worker *w, struct stream *s)
{
	if (!rn_link_linked(&s->touched))
		rn_list_push_back(&w->streams.iwarp->touched, &s->touched);
}

/* ---- queue pair ---- */

static void iw_reset(struct stream_iwarp *i)
{
	i->ready = i->open = i->fails = i->in_told = false;
	i->marks = 0;
	i->esk = (struct esk){ 0 };
	i->error = 0;
	i->n_sent = i->spares = 0;
}

static bool iw_cq(struct stream_iwarp *i)
{
	const struct qp_cq_attr a = { .region = i,
				      .region_size = sizeof(*i),
				      .shm_off = offsetof(struct stream_iwarp, cshm),
				      .ring_off = offsetof(struct stream_iwarp, cq),
				      .ring_stride = sizeof(i->cq),
				      .workers = 1,
				      .cqe = IWARP_CQ };
	const struct spsc_place at = { .region = i,
				       .region_size = sizeof(*i),
				       .off = offsetof(struct stream_iwarp, cq),
				       .nslots = IWARP_CQ,
				       .slot_size = QP_CQE_SIZE };

	i->cq.hdr = (struct spsc_hdr){ 0 };
	i->cshm = (struct qp_cq_shm){ 0 };
	return qp_cq_init(&i->handle, &a) == SPSC_OK && spsc_cons_attach(&i->done, &at) == SPSC_OK;
}

static bool iw_queues(struct stream_iwarp *i)
{
	struct spsc_place at = { .region = i, .region_size = sizeof(*i), .slot_size = QP_SLOT_SIZE };

	i->sq.hdr = i->rq.hdr = (struct spsc_hdr){ 0 };
	at.off = offsetof(struct stream_iwarp, sq);
	at.nslots = IWARP_SQ;
	if (spsc_prod_attach(&i->post_send, &at) != SPSC_OK)
		return false;
	at.off = offsetof(struct stream_iwarp, rq);
	at.nslots = IWARP_SLOTS;
	return spsc_prod_attach(&i->post_recv, &at) == SPSC_OK;
}

/* Registers the memory region for work requests: struct stream_iwarp at offset 0, and then the program's memory. */
static bool iw_region(struct stream_iwarp_ctx *x, struct stream_iwarp *i, struct ipc_stream *mem, uint32_t pd)
{
	i->piece[0] = (struct qp_piece){ .base = (uint8_t *)i, .end = sizeof(*i) };
	i->piece[1] = (struct qp_piece){ .base = (uint8_t *)mem, .end = sizeof(*i) + IPC_STREAM_SIZE };
	const struct qp_mr_attr a = { .pd = pd,
				      .rights = QP_ACC_LOCAL_WRITE,
				      .len = sizeof(*i) + IPC_STREAM_SIZE,
				      .pieces = i->piece,
				      .npieces = 2 };

	return qp_mr_reg(&x->dev, &a, &i->stag) == QP_MR_OK;
}

/* Registers the window's memory region. The peer may not write to it until stream_iwarp_lend() has set the window. */
static bool iw_window(struct stream_iwarp_ctx *x, struct stream_iwarp *i, struct ipc_stream *mem, uint32_t pd)
{
	const struct qp_piece ring = { .base = (uint8_t *)mem + IPC_STREAM_RX_OFF, .end = IPC_STREAM_RING };
	const struct qp_mr_attr a = {
		.pd = pd, .rights = QP_ACC_LOCAL_WRITE, .len = IPC_STREAM_RING, .pieces = &ring, .npieces = 1
	};

	return qp_mr_reg(&x->dev, &a, &i->window) == QP_MR_OK;
}

void stream_iwarp_lend(struct rnicd_worker *w, struct stream *s)
{
	struct stream_iwarp *i = s->iwarp;
	const uint32_t at = (uint32_t)i->esk.got % IPC_STREAM_RING, n = i->esk.in_room;
	const uint32_t first = rn_min_u32(n, IPC_STREAM_RING - at);
	uint8_t *ring = (uint8_t *)s->mem + IPC_STREAM_RX_OFF;
	struct qp_mr_attr a = { .pd = iw_pd(w, s),
				.rights = QP_ACC_LOCAL_WRITE | QP_ACC_REMOTE_WRITE,
				.iova = i->esk.got,
				.len = n,
				.pieces = i->lent,
				.npieces = n > first ? 2 : 1 };

	i->lent[0] = (struct qp_piece){ .base = ring + at, .end = first };
	i->lent[1] = (struct qp_piece){ .base = ring, .end = n };
	if (n == 0) { /* a region must have at least one octet: the peer gets no right to write to it */
		i->lent[0] = (struct qp_piece){ .base = ring, .end = 1 };
		a.rights = QP_ACC_LOCAL_WRITE;
		a.len = 1;
	}
	(void)qp_mr_change(&w->streams.iwarp->dev, i->window, &a);
}

/* Makes the queue pair of a stream that has the program's memory, and posts its receives. */
static bool iw_make(struct rnicd_worker *w, struct stream *s)
{
	struct stream_iwarp_ctx *x = w->streams.iwarp;
	struct stream_iwarp *i = s->iwarp;
	const uint32_t pd = iw_pd(w, s);

	if (!iw_cq(i) || !iw_queues(i))
		return false;
	i->qshm = (struct qp_shm){ 0 };
	const struct qp_attr a = { .type = QP_RC,
				   .pd = pd,
				   .dev = &x->dev,
				   .scq = &i->handle,
				   .rcq = &i->handle,
				   .sig_all = 1,
				   .access = QP_ACC_REMOTE_WRITE,
				   .region = i,
				   .region_size = sizeof(*i),
				   .shm_off = offsetof(struct stream_iwarp, qshm),
				   .sq_off = offsetof(struct stream_iwarp, sq),
				   .rq_off = offsetof(struct stream_iwarp, rq),
				   .sq_slots = IWARP_SQ,
				   .rq_slots = IWARP_SLOTS };
	if (qp_init(&i->qp, &a) != QP_OK || !iw_region(x, i, s->mem, pd))
		return false;
	if (!iw_window(x, i, s->mem, pd)) {
		(void)qp_mr_dereg(&x->dev, i->stag);
		return false;
	}
	i->ready = true;
	stream_iwarp_slots(i);
	return rc_modify(&stream_iwarp_ctx(w)->rc, &i->qp, QP_S_INIT) == QP_OK;
}

/* ---- set-up ---- */

/* Called when both hellos are known: sets up credits and window. */
static void iw_agree(struct rnicd_worker *w, struct stream *s, const struct esk_hello *own)
{
	esk_init(&s->iwarp->esk, own, &s->iwarp->peer);
	if (s->iwarp->esk.windows)
		stream_iwarp_lend(w, s);
}

static struct mpa_policy iw_policy(const struct stream *s)
{
	struct mpa_policy p = conn_policy(s->way.port);

	p.p2p = false; /* the first FPDU is the message of stream_iwarp_greet() */
	p.ird = p.ord = 1;
	p.ird_max = 0;
	return p;
}

bool stream_iwarp_syn(struct rnicd_worker *w, struct stream *s, const struct tcpl_seg *syn, const struct tcpl_cfg *cfg,
		      uint32_t iss)
{
	const struct rc_tcp_params p = { .rc = { .policy = iw_policy(s) }, .tcp = cfg, .iss = iss };

	if (rc_tcp_passive(stream_iwarp_ctx(w), &s->qc, syn, &p) != QP_OK)
		return false;
	tcpl_set_turns(&s->qc.tcp, &w->tcp.turns);
	s->iwarp = iw_of(w, s);
	iw_reset(s->iwarp);
	return true;
}

bool stream_iwarp_begin(struct rnicd_worker *w, struct stream *s)
{
	uint8_t hello[HELLO_MAX];
	struct rc_params p = { .policy = iw_policy(s), .priv = hello };

	s->iwarp = iw_of(w, s);
	iw_reset(s->iwarp);
	if (!iw_make(w, s))
		return false;
	const struct esk_hello own = own_hello(s->iwarp, true);
	p.priv_len = iw_hello(&own, hello);
	p.qp = &s->iwarp->qp;
	if (rc_tcp_take(stream_iwarp_ctx(w), &s->qc, &p) != QP_OK)
		return false;
	stream_flag(s, IPC_STREAM_IWARP);
	return true;
}

void stream_iwarp_adopt(struct rnicd_worker *w, struct stream *s)
{
	struct stream_iwarp *i = s->iwarp;
	uint8_t hello[HELLO_MAX];
	struct rc_accept a = { .qp = &i->qp, .ird = 1, .ord = 1, .priv = hello };
	const bool made = iw_make(w, s);
	const struct esk_hello own = own_hello(i, i->peer.window != 0);

	a.priv_len = iw_hello(&own, hello);
	if (made)
		iw_agree(w, s, &own);
	/* If the connection has ended meanwhile, the program learns of it as of any other end. */
	if (made && rc_accept(&stream_iwarp_ctx(w)->rc, &s->qc.rc, &a) == QP_OK)
		i->open = true;
	else
		stream_iwarp_abort(w, s);
	stream_iwarp_touch(w, s);
}

/* Called when the peer's MPA Request has come: reports the stream to its listener, if the Request has a valid hello. */
static void iw_asked(struct rnicd_worker *w, struct stream *s, uint32_t marks)
{
	if ((marks & IWARP_HELLO) == 0) {
		stream_iwarp_abort(w, s);
		return;
	}
	s->connected = true;
	if (s->listener == NULL)
		return;
	rn_list_remove(&s->listener->half, &s->half);
	s->listener->n_half--;
	s->listener->n_unclaimed++;
	s->unclaimed = true;
	stream_tell(w, s, STREAM_ARRIVED);
}

/* Called when the peer's MPA Reply has come. */
static void iw_up(struct rnicd_worker *w, struct stream *s, uint32_t marks)
{
	if ((marks & IWARP_HELLO) == 0) {
		stream_iwarp_abort(w, s);
		return;
	}
	const struct esk_hello own = own_hello(s->iwarp, true);
	iw_agree(w, s, &own);
	s->iwarp->open = true;
	stream_iwarp_greet(w, s);
	stream_ready(w, s);
}

/* ---- the end ---- */

void stream_iwarp_abort(struct rnicd_worker *w, struct stream *s)
{
	s->iwarp->fails = true;
	s->iwarp->open = false;
	if (s->iwarp->error == 0)
		s->iwarp->error = ECONNRESET;
	rc_abort(&stream_iwarp_ctx(w)->rc, &s->qc.rc);
	stream_iwarp_touch(w, s);
}

void stream_iwarp_free(struct rnicd_worker *w, struct stream *s)
{
	struct stream_iwarp_ctx *x = w->streams.iwarp;
	struct stream_iwarp *i = s->iwarp;

	if (rn_link_linked(&s->touched))
		rn_list_remove(&x->touched, &s->touched);
	if (i->ready) {
		rc_destroy(&x->tcp.rc, &i->qp);
		qp_cq_leave(&x->tcp.rc.qp, &i->handle);
		(void)qp_mr_dereg(&x->dev, i->stag);
		(void)qp_mr_dereg(&x->dev, i->window);
	}
	i->ready = false;
	s->iwarp = NULL;
}

/* Whether both ends have sent their END. */
static bool iw_done(const struct stream_iwarp *i) { return i->ready && i->esk.out_ended && i->esk.in_ended; }

/*
 * Called when the connection has ended. Tells the program at once if the end was not orderly, since TCP's own end may
 * have to wait for the peer's FIN.
 */
static void iw_gone(struct rnicd_worker *w, struct stream *s, uint32_t marks)
{
	struct stream_iwarp *i = s->iwarp;

	i->open = false;
	if (i->error == 0 && ((marks & IWARP_ROUGH) || !iw_done(i)))
		i->error = stream_reset_error(s);
	stream_ended(s, i->error);
	if (i->error == 0 || s->mem == NULL)
		return;
	i->fails = true;
	stream_tell(w, s, STREAM_OUT | STREAM_PEER_FIN);
}

static void iw_look(struct rnicd_worker *w, struct stream *s)
{
	struct stream_iwarp *i = s->iwarp;
	const uint32_t marks = i->marks;

	i->marks = 0; /* the calls below may set new marks */
	if (marks & IWARP_ASKED)
		iw_asked(w, s, marks);
	if (marks & IWARP_UP)
		iw_up(w, s, marks);
	if (i->ready)
		stream_iwarp_take(w, s);
	if (marks & IWARP_GONE)
		iw_gone(w, s, marks);
	if (marks & IWARP_CLOSED)
		stream_over(w, s, i->error);
}

/* ---- effects of the engine ---- */

static uint32_t iw_mark_of(struct stream_iwarp *i, const struct qp_fx *fx)
{
	switch ((int)fx->type) {
	case QP_FX_CONNECT_REQUEST:
	case QP_FX_ESTABLISHED:
		return (fx->type == QP_FX_CONNECT_REQUEST ? IWARP_ASKED
			: rc_is_passive(fx->conn)         ? 0
							  : IWARP_UP) |
		       (fx->priv_len != 0 && esk_window_parse(fx->priv, fx->priv_len, &i->peer) == ESK_HELLO_OK
				? IWARP_HELLO
				: 0);
	case QP_FX_REJECTED:
	case QP_FX_UNREACHABLE:
	case QP_FX_CONNECT_ERROR: return IWARP_GONE | IWARP_ROUGH;
	case QP_FX_DISCONNECTED: return IWARP_GONE | (fx->code != 0 ? IWARP_ROUGH : 0);
	case QP_FX_CLOSED: return IWARP_CLOSED;
	default: return 0;
	}
}

/* Adds the counters of the engine's context to the worker's, and zeroes them. */
static void iw_count(struct rnicd_worker *w, struct qp_stats *of)
{
	uint64_t *from = (uint64_t *)(void *)of, *to = (uint64_t *)(void *)&w->tcp.rc.qp.stats;

	for (uint32_t i = 0; i < sizeof(*of) / sizeof(*from); i++) {
		to[i] += from[i];
		from[i] = 0;
	}
}

static void iw_effects(struct rnicd_worker *w)
{
	struct rc_tcp_ctx *ctx = &w->streams.iwarp->tcp;

	ctx->rc.qp.now = w->now;
	rc_flush(&ctx->rc);
	for (uint32_t i = 0; i < ctx->rc.qp.n_fx; i++) {
		const struct qp_fx *fx = &ctx->rc.qp.fx[i];
		if (fx->type > QP_FX_CLOSED)
			/*
			 * An effect of the queue pair is ignored: its connection ends, too, and has an effect of its
			 * own.
			 */
			continue;
		struct stream *s = rn_container_of(rc_tcp_of(fx->conn), struct stream, qc);
		if (s->iwarp == NULL)
			continue;
		s->iwarp->marks |= iw_mark_of(s->iwarp, fx);
		stream_iwarp_touch(w, s);
	}
	for (uint32_t i = 0; i < ctx->n_refs; i++)
		rte_pktmbuf_free(mbuf_of_ref(ctx->refs[i]));
	rc_tcp_drained(ctx);
}

struct rc_tcp_ctx *stream_iwarp_ctx(struct rnicd_worker *w)
{
	struct rc_tcp_ctx *ctx = &w->streams.iwarp->tcp;

	ctx->rc.qp.now = w->now;
	if (rn_unlikely(rc_tcp_full(ctx)))
		iw_effects(w);
	return ctx;
}

uint32_t stream_iwarp_settle(struct rnicd_worker *w)
{
	struct stream_iwarp_ctx *x = w->streams.iwarp;
	struct stream *s;
	uint32_t n = 0;

	if (rn_likely(!x->on))
		return 0;
	iw_effects(w);
	if (!rn_list_empty(&x->touched))
		iw_count(w, &x->tcp.rc.qp.stats);
	for (; (s = rn_list_pop(&x->touched, struct stream, touched)) != NULL; n++)
		iw_look(w, s);
	return n;
}
