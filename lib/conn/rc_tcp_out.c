/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The next TCP segment of a connection: FPDUs are pulled while TCP would send them; its bytes as slices or as a copy.
 */
#include "conn/rc_tcp_int.h"
#include "tcp_lite/tcpl_path.h"

/* Queues the records that go first, whatever the peer's window is: set-up frames, RTR, Terminate. */
static void queue_due(struct rc_tcp_ctx *ctx, struct rc_tcp *c)
{
	uint64_t ref;
	uint32_t len;

	rc_tcp_use_mem(ctx, c);
	while ((len = rc_due(&c->rc, &ref)) != 0)
		if (!tcpl_send(&c->tcp, len, ref)) { /* TCP has closed meanwhile */
			rc_dropped(&ctx->rc, &c->rc, ref);
			rc_reset(&ctx->rc, &c->rc);
			tcpl_abort(&c->tcp);
		}
}

/* The memory of the records in flight is their owners' again. Without enough copies the stream cannot go on. */
void rc_tcp_let_go(struct rc_tcp_ctx *ctx, struct rc_tcp *c)
{
	for (uint32_t i = c->tcp.q_head; i != c->tcp.q_tail; i++) {
		if (!rc_let_go(&ctx->rc, &c->rc, tcpl_chunk(&c->tcp, i)->ref)) {
			rc_reset(&ctx->rc, &c->rc);
			return;
		}
	}
}

/* Does what rc wants of TCP. */
static void obey(struct rc_tcp_ctx *ctx, struct rc_tcp *c)
{
	if (rn_unlikely(rc_todo(&c->rc) & RC_TODO_LET_GO))
		rc_tcp_let_go(ctx, c);
	uint32_t todo = rc_todo(&c->rc);

	rc_todo_clear(&c->rc);
	if (rn_unlikely(todo & RC_TODO_RST)) {
		tcpl_abort(&c->tcp);
		return;
	}
	if (todo & RC_TODO_SEND)
		queue_due(ctx, c);
	if (todo & RC_TODO_ACK)
		tcpl_ack_now(&c->tcp);
	if (todo & RC_TODO_FIN) {
		rc_tcp_use_mem(ctx, c);
		tcpl_shutdown(&c->tcp, ctx->rc.qp.now);
	}
}

/*
 * Queues FPDUs until a full segment waits, so that each is sent while its bytes are still in the cache. With nothing in
 * flight one is always queued: it drives the window probe.
 */
static inline void fill(struct rc_tcp_ctx *ctx, struct rc_tcp *c)
{
	uint64_t ref;
	uint32_t len, budget = 0; /* what is left of TCP's budget, as last computed */
	bool cuts;

	if (!rc_tx_begin(&ctx->rc, &c->rc))
		return;
	rc_tcp_use_mem(ctx, c);
	if (rn_unlikely(rc_todo(&c->rc)))
		obey(ctx, c);
	while (rc_tx_open(&c->rc)) {
		if (c->tcp.q_end - c->tcp.snd_nxt >= tcpl_emss(&c->tcp) || tcpl_room(&c->tcp) <= RC_TCP_CTRL_CHUNKS)
			return;
		len = rc_peek(&ctx->rc, &c->rc);
		if (len == 0)
			return;
		if (len > budget && len > (budget = tcpl_budget(&c->tcp)) && !tcpl_idle(&c->tcp))
			return;
		cuts = tcpl_path(&c->tcp) == TCPL_PATH_CUTS;
		if (rn_unlikely(cuts) && !rc_tx_copies(&ctx->rc, &c->rc))
			return;
		len = rc_pull(&ctx->rc, &c->rc, &ref);
		if (len == 0)
			return;
		if (rn_unlikely(cuts))
			rc_keep(&ctx->rc, &c->rc, ref);
		if (rn_unlikely(!tcpl_send(&c->tcp, len, ref))) {
			rc_dropped(&ctx->rc, &c->rc, ref);
			rc_reset(&ctx->rc, &c->rc);
			return;
		}
		budget -= rn_min_u32(len, budget);
	}
}

/*
 * Gives the working memory back while nothing lies in it: no record is in flight, no packet held or kept, no end
 * pending.
 */
void rc_tcp_rest(struct rc_tcp_ctx *ctx, struct rc_tcp *c)
{
	static const struct tcpl_mem none;
	enum tcpl_state s = tcpl_get_state(&c->tcp);
	enum rc_state rs = rc_get_state(&c->rc);
	bool open = s == TCPL_S_ESTABLISHED && (rs == RC_OPERATIONAL || rs == RC_WAIT_FIRST);

	/* With our FIN acknowledged, nothing more will be sent. */
	if ((open || s == TCPL_S_FIN_WAIT_2 || s == TCPL_S_TIME_WAIT) && tcpl_set_mem(&c->tcp, &none))
		rc_rest(&ctx->rc, &c->rc);
}

/* TCP is CLOSED and has sent its last segment: all records and packets are given back. */
static RN_COLD void finish(struct rc_tcp_ctx *ctx, struct rc_tcp *c)
{
	struct tcpl_slice s;
	uint64_t ref;

	while (tcpl_acked(&c->tcp, &ref) || tcpl_tx_drop(&c->tcp, &ref))
		rc_dropped(&ctx->rc, &c->rc, ref);
	for (; tcpl_rx_next(&c->tcp, &s); rc_tcp_unhold(ctx, c))
		rc_tcp_ref_back(ctx, s.ref);
	for (; tcpl_rx_drop(&c->tcp, &ref); rc_tcp_unhold(ctx, c))
		rc_tcp_ref_back(ctx, ref);
	rc_closed(&ctx->rc, &c->rc);
}

bool rc_tcp_out(struct rc_tcp_ctx *ctx, struct rc_tcp *c, struct tcpl_out *o)
{
	if (rc_get_state(&c->rc) == RC_FREE)
		return false;
	if (rc_todo(&c->rc))
		obey(ctx, c);
	rc_turn(&ctx->rc, &c->rc);
	if (rn_unlikely(c->rc.rnr.state != RC_RNR_NONE))
		rc_tcp_rnr(ctx, c);
	fill(ctx, c);
	rc_turn_end(&ctx->rc, &c->rc);
	if (rn_unlikely(rc_todo(&c->rc)))
		obey(ctx, c);
	tcpl_set_uncut(&c->tcp, !rc_may_cut(&ctx->rc, &c->rc));
	if (tcpl_out(&c->tcp, ctx->rc.qp.now, o))
		return true;
	if (rn_unlikely(c->tcp.uncut) && (c->tcp.q_end != c->tcp.snd_nxt || c->tcp.n_lost != 0))
		rc_cut_waits(&ctx->rc, &c->rc);
	if (rn_unlikely(rc_failed(&c->rc))) /* the QP has failed since rc_turn */
		rc_ready_put(&ctx->rc, &c->rc);
	if (rn_unlikely(tcpl_get_state(&c->tcp) == TCPL_S_CLOSED)) {
		if (c->rc.rnr.state == RC_RNR_NONE) /* else the kept bytes come again */
			finish(ctx, c);
	} else if (rn_unlikely(rc_resting(&ctx->rc, &c->rc))) {
		rc_tcp_rest(ctx, c);
	}
	return false;
}

/* ---- the bytes of a segment ---- */

/* Walks the chunks of a segment. */
struct walk {
	const struct rc_tcp *c;
	uint32_t idx, off, left;
};

static struct walk walk_of(const struct rc_tcp *c, const struct tcpl_out *o)
{
	return (struct walk){ .c = c, .idx = o->chunk, .off = o->off, .left = o->len };
}

/* One chunk's share of a segment. */
static bool walk_next(struct walk *w, struct rc_part *p)
{
	if (w->left == 0)
		return false;
	const struct tcpl_chunk *ch = tcpl_chunk(&w->c->tcp, w->idx++);
	*p = (struct rc_part){ .ref = ch->ref, .off = w->off, .len = rn_min_u32(ch->len - w->off, w->left) };
	w->left -= p->len;
	w->off = 0;
	return true;
}

uint32_t rc_tcp_slices(const struct rc_tcp *c, const struct tcpl_out *o, struct rn_iov *iov, uint32_t max,
		       bool *crc_due)
{
	struct walk w = walk_of(c, o);
	struct rc_part p;
	uint32_t n = 0;

	*crc_due = false;
	while (walk_next(&w, &p)) {
		p.keep = tcpl_path(&c->tcp) == TCPL_PATH_CUTS;
		uint32_t k = rc_slices(&p, p.len == o->len, iov + n, max - n, crc_due);
		if (k == 0)
			return 0;
		n += k;
	}
	return n;
}

bool rc_tcp_refers(const struct rc_tcp *c, const uint8_t *base, uint64_t len)
{
	if (rc_get_state(&c->rc) == RC_FREE || c->tcp.mem.chunk_n == 0)
		return false;
	for (uint32_t i = c->tcp.q_head; i != c->tcp.q_tail; i++)
		if (rc_refers(tcpl_chunk(&c->tcp, i)->ref, base, len))
			return true;
	return false;
}

/* The number of FPDUs. 0: with RC_TCP_CRC_OPEN an FPDU is not whole, or has its CRC already. */
static inline uint32_t copy_parts(struct rc_tcp_ctx *ctx, const struct rc_tcp *c, const struct tcpl_out *o,
				  uint8_t *dst, enum rc_tcp_crc crc)
{
	const enum tcpl_path path = tcpl_path(&c->tcp);
	struct walk w = walk_of(c, o);
	struct rc_part p;
	uint32_t n = 0;

	for (; walk_next(&w, &p); dst += p.len, n++) {
		bool open = crc == RC_TCP_CRC_OPEN;
		p.keep = path == TCPL_PATH_CUTS || (path == TCPL_PATH_UNKNOWN && crc == RC_TCP_CRC_KEPT);
		rc_copy(&ctx->rc, &c->rc, &p, dst, &open);
		if (open != (crc == RC_TCP_CRC_OPEN))
			return 0;
	}
	return n;
}

RN_STRAIGHT uint32_t rc_tcp_copy(struct rc_tcp_ctx *ctx, const struct rc_tcp *c, const struct tcpl_out *o, uint8_t *dst,
				 enum rc_tcp_crc crc)
{
	const struct mpa_agreed *a = rc_agreed(&c->rc);

	/* only the receiver can find the FPDUs of a segment with markers, but a single one need not be found */
	if (crc == RC_TCP_CRC_OPEN && o->len > 0 && a->crc &&
	    (a->tx_markers == 0 || tcpl_chunk(&c->tcp, o->chunk)->len == o->len)) {
		uint32_t n = copy_parts(ctx, c, o, dst, RC_TCP_CRC_OPEN);
		if (n != 0)
			return n;
	}
	(void)copy_parts(ctx, c, o, dst, crc == RC_TCP_CRC_KEPT ? RC_TCP_CRC_KEPT : RC_TCP_CRC_SUM);
	return 0;
}
