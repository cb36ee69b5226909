/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a stream: set-up, queue pair, window, end. An effect that the engine reports for the connection is first
 * only marked in the stream. The caller carries out the marks when the engine's list of effects is empty again.
 */
#include "iws/iws_int.h"

/* This end's hello. windows: the hello offers a window. */
static struct esk_hello own_hello(const struct iws *i, bool windows)
{
	return (struct esk_hello){ .version = ESK_VERSION,
				   .slots = IWS_SLOTS,
				   .size = IWS_SLOT,
				   .window = windows ? IPC_STREAM_RING : 0,
				   .stag = i->window };
}

/* Writes this end's hello; returns its length. */
static uint8_t put_hello(const struct esk_hello *h, uint8_t out[IWS_HELLO_MAX])
{
	if (h->window == 0) {
		esk_hello_build(out, h);
		return ESK_HELLO_LEN;
	}
	esk_window_build(out, h);
	return IWS_HELLO_MAX;
}

/* ---- queue pair ---- */

void iws_begin(struct iws *i, struct rc *conn, struct iws_pos *pos, uint32_t pd)
{
	i->ready = i->open = i->fails = i->in_told = false;
	i->marks = 0;
	i->esk = (struct esk){ 0 };
	i->error = 0;
	i->n_sent = i->spares = 0;
	i->conn = conn;
	i->mem = NULL;
	i->pos = pos;
	i->pd = pd;
}

static bool make_cq(struct iws *i)
{
	const struct qp_cq_attr a = { .region = i,
				      .region_size = sizeof(*i),
				      .shm_off = offsetof(struct iws, cshm),
				      .ring_off = offsetof(struct iws, cq),
				      .ring_stride = sizeof(i->cq),
				      .workers = 1,
				      .cqe = IWS_CQ };
	const struct spsc_place at = { .region = i,
				       .region_size = sizeof(*i),
				       .off = offsetof(struct iws, cq),
				       .nslots = IWS_CQ,
				       .slot_size = QP_CQE_SIZE };

	i->cq.hdr = (struct spsc_hdr){ 0 };
	i->cshm = (struct qp_cq_shm){ 0 };
	return qp_cq_init(&i->handle, &a) == SPSC_OK && spsc_cons_attach(&i->done, &at) == SPSC_OK;
}

static bool make_queues(struct iws *i)
{
	struct spsc_place at = { .region = i, .region_size = sizeof(*i), .slot_size = QP_SLOT_SIZE };

	i->sq.hdr = i->rq.hdr = (struct spsc_hdr){ 0 };
	at.off = offsetof(struct iws, sq);
	at.nslots = IWS_SQ;
	if (spsc_prod_attach(&i->post_send, &at) != SPSC_OK)
		return false;
	at.off = offsetof(struct iws, rq);
	at.nslots = IWS_SLOTS;
	return spsc_prod_attach(&i->post_recv, &at) == SPSC_OK;
}

/* Registers the memory region for work requests: struct iws at offset 0, and then the program's memory. */
static bool make_region(struct iws_ctx *x, struct iws *i)
{
	i->piece[0] = (struct qp_piece){ .base = (uint8_t *)i, .end = sizeof(*i) };
	i->piece[1] = (struct qp_piece){ .base = (uint8_t *)i->mem, .end = sizeof(*i) + IPC_STREAM_SIZE };
	const struct qp_mr_attr a = { .pd = i->pd,
				      .rights = QP_ACC_LOCAL_WRITE,
				      .len = sizeof(*i) + IPC_STREAM_SIZE,
				      .pieces = i->piece,
				      .npieces = 2 };

	return qp_mr_reg(x->dev, &a, &i->stag) == QP_MR_OK;
}

/* Registers the window's memory region. The peer may not write to it until iws_lend() has set the window. */
static bool make_window(struct iws_ctx *x, struct iws *i)
{
	const struct qp_piece ring = { .base = (uint8_t *)i->mem + IPC_STREAM_RX_OFF, .end = IPC_STREAM_RING };
	const struct qp_mr_attr a = {
		.pd = i->pd, .rights = QP_ACC_LOCAL_WRITE, .len = IPC_STREAM_RING, .pieces = &ring, .npieces = 1
	};

	return qp_mr_reg(x->dev, &a, &i->window) == QP_MR_OK;
}

void iws_lend(struct iws_ctx *x, struct iws *i)
{
	const uint32_t at = (uint32_t)i->esk.got % IPC_STREAM_RING, n = i->esk.in_room;
	const uint32_t first = rn_min_u32(n, IPC_STREAM_RING - at);
	uint8_t *ring = (uint8_t *)i->mem + IPC_STREAM_RX_OFF;
	struct qp_mr_attr a = { .pd = i->pd,
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
	(void)qp_mr_change(x->dev, i->window, &a);
}

/* Makes the queue pair of a stream that has the program's memory, and posts its receives. */
static bool make_qp(struct iws_ctx *x, struct iws *i, struct ipc_stream *mem, uint8_t tenant)
{
	i->mem = mem;
	if (!make_cq(i) || !make_queues(i))
		return false;
	i->qshm = (struct qp_shm){ 0 };
	const struct qp_attr a = { .type = QP_RC,
				   .pd = i->pd,
				   .dev = x->dev,
				   .scq = &i->handle,
				   .rcq = &i->handle,
				   .sig_all = 1,
				   .access = QP_ACC_REMOTE_WRITE,
				   .tenant = tenant,
				   .region = i,
				   .region_size = sizeof(*i),
				   .shm_off = offsetof(struct iws, qshm),
				   .sq_off = offsetof(struct iws, sq),
				   .rq_off = offsetof(struct iws, rq),
				   .sq_slots = IWS_SQ,
				   .rq_slots = IWS_SLOTS };
	if (qp_init(&i->qp, &a) != QP_OK || !make_region(x, i))
		return false;
	if (!make_window(x, i)) {
		(void)qp_mr_dereg(x->dev, i->stag);
		return false;
	}
	i->ready = true;
	iws_slots(i);
	return rc_modify(x->rc(x), &i->qp, QP_S_INIT) == QP_OK;
}

/* ---- set-up ---- */

/* Called when both hellos are known: sets up credits and window. */
static void agree(struct iws_ctx *x, struct iws *i, const struct esk_hello *own)
{
	esk_init(&i->esk, own, &i->peer);
	if (i->esk.windows)
		iws_lend(x, i);
}

struct mpa_policy iws_policy(const struct mpa_policy *of_port)
{
	struct mpa_policy p = *of_port;

	p.p2p = false; /* the first FPDU is the message of iws_greet() */
	p.ird = p.ord = 1;
	p.ird_max = 0;
	return p;
}

void iws_times(struct rc_cfg *cfg)
{
	cfg->reply_ns = cfg->accept_ns = RN_NEVER;
	cfg->open_ns = cfg->drain_ns = RN_NEVER;
	cfg->close_ns = 10 * RN_NS_PER_S;
}

uint8_t iws_ask(struct iws_ctx *x, struct iws *i, struct ipc_stream *mem, uint8_t tenant, uint8_t priv[IWS_HELLO_MAX])
{
	if (!make_qp(x, i, mem, tenant))
		return 0;
	const struct esk_hello own = own_hello(i, true);
	return put_hello(&own, priv);
}

void iws_adopt(struct iws_ctx *x, struct iws *i, struct ipc_stream *mem, uint8_t tenant)
{
	uint8_t hello[IWS_HELLO_MAX];
	struct rc_accept a = { .qp = &i->qp, .ird = 1, .ord = 1, .priv = hello };
	const bool made = make_qp(x, i, mem, tenant);
	const struct esk_hello own = own_hello(i, i->peer.window != 0);

	a.priv_len = put_hello(&own, hello);
	if (made)
		agree(x, i, &own);
	/* If the connection has ended meanwhile, the program learns of it as of any other end. */
	if (made && rc_accept(x->rc(x), i->conn, &a) == QP_OK)
		i->open = true;
	else
		iws_abort(x, i);
}

bool iws_up(struct iws_ctx *x, struct iws *i, uint32_t marks)
{
	if ((marks & IWS_HELLO) == 0) {
		iws_abort(x, i);
		return false;
	}
	const struct esk_hello own = own_hello(i, true);
	agree(x, i, &own);
	i->open = true;
	iws_greet(x, i);
	return true;
}

/* ---- effects of the engine ---- */

static uint32_t mark_of(struct iws *i, const struct qp_fx *fx)
{
	switch ((int)fx->type) {
	case QP_FX_CONNECT_REQUEST:
	case QP_FX_ESTABLISHED:
		return (fx->type == QP_FX_CONNECT_REQUEST ? IWS_ASKED
			: rc_is_passive(fx->conn)         ? 0u
							  : IWS_UP) |
		       (fx->priv_len != 0 && esk_window_parse(fx->priv, fx->priv_len, &i->peer) == ESK_HELLO_OK
				? IWS_HELLO
				: 0u);
	case QP_FX_REJECTED:
	case QP_FX_CONNECT_ERROR: return IWS_GONE | IWS_ROUGH;
	case QP_FX_UNREACHABLE: return IWS_GONE | IWS_ROUGH | (fx->code == 0 ? IWS_SILENT : 0u);
	case QP_FX_DISCONNECTED:
		return IWS_GONE | (fx->code != QP_GONE_ORDERLY ? IWS_ROUGH : 0u) |
		       (fx->code == QP_GONE_SILENT ? IWS_SILENT : 0u);
	case QP_FX_CLOSED: return IWS_CLOSED;
	default: return 0;
	}
}

void iws_note(struct iws *i, const struct qp_fx *fx) { i->marks |= mark_of(i, fx); }

/* ---- the end ---- */

void iws_abort(struct iws_ctx *x, struct iws *i)
{
	i->fails = true;
	i->open = false;
	if (i->error == 0)
		i->error = ECONNRESET;
	rc_abort(x->rc(x), i->conn);
}

/* Whether both ends have sent their END. */
static bool both_ended(const struct iws *i) { return i->ready && i->esk.out_ended && i->esk.in_ended; }

int iws_gone(struct iws *i, uint32_t marks, int reset)
{
	i->open = false;
	if (i->error == 0 && ((marks & IWS_ROUGH) || !both_ended(i)))
		i->error = marks & IWS_SILENT ? ETIMEDOUT : reset;
	if (i->error != 0 && i->mem != NULL)
		i->fails = true;
	return i->error;
}

void iws_free(struct iws_ctx *x, struct iws *i)
{
	if (i->ready) {
		struct rc_ctx *ctx = x->rc(x);
		rc_destroy(ctx, &i->qp);
		qp_cq_leave(&ctx->qp, &i->handle);
		(void)qp_mr_dereg(x->dev, i->stag);
		(void)qp_mr_dereg(x->dev, i->window);
	}
	i->ready = false;
}
