/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a stream: the program's bytes become messages (esock/esk.h), and received messages go to the program's
 * ring.
 */
#include "iws/iws_int.h"

#include <string.h>

#define MASK      (IPC_STREAM_RING - 1)
#define WR_SIZE   128u   /* bytes of the largest work request */
#define DATA_MAX  65536u /* bytes of the largest message, even if the peer takes larger ones */
#define WRITE_MIN 8192u  /* bytes; for fewer, a copy costs less than a second message (measured by ping-pong) */
#define WRITE_MAX 32768u /* bytes of a Write: the program at the other end reads one while the next is on the way */
/* Offset of the program's ring of bytes to send in the stream's memory region. */
#define TX_AT (sizeof(struct iws) + IPC_STREAM_TX_OFF)

/* ---- messages out ---- */

/* Lists n bytes of the tx ring from place `at` on as SGEs; returns the number of SGEs. */
static uint8_t refer(const struct iws *i, struct qp_sge *sge, uint32_t at, uint32_t n)
{
	const uint32_t first = rn_min_u32(n, IPC_STREAM_RING - at);

	if (n == 0)
		return 0;
	sge[0] = (struct qp_sge){ .addr = TX_AT + at, .len = first, .lkey = i->stag };
	if (rn_likely(first == n))
		return 1;
	sge[1] = (struct qp_sge){ .addr = TX_AT, .len = n - first, .lkey = i->stag };
	return 2;
}

/* Posts a work request; the send queue must have room. Its completion frees the program's bytes before tx_put. */
static void put_wr(struct iws *i, const struct qp_wqe *with, const struct qp_sge *sge, uint8_t n)
{
	union {
		struct qp_wqe w;
		uint8_t bytes[WR_SIZE];
	} u = { .bytes = { 0 } };

	u.w = *with;
	u.w.wr_id = i->pos->tx_put;
	u.w.num_sge = n;
	u.w.slots = (uint8_t)qp_wqe_slots(n * (uint32_t)sizeof(sge[0]));
	memcpy(u.bytes + QP_WQE_FIXED, sge, n * sizeof(sge[0]));
	spsc_prod_copy(&i->post_send, 0, u.bytes, u.w.slots * (size_t)QP_SLOT_SIZE);
	spsc_prod_publish(&i->post_send, u.w.slots);
}

/*
 * Posts a message for n of the program's bytes: a DATA carries them; a WRITTEN says that the Write before it had them.
 */
static void post(struct iws_ctx *x, struct iws *i, enum esk_kind kind, uint32_t n)
{
	const uint32_t at = i->pos->tx_put & MASK, head = i->n_sent++ % IWS_SQ;
	const struct qp_wqe send = { .op = QP_WR_SEND };
	struct qp_wqe write = { .op = QP_WR_WRITE, .rkey = i->peer.stag, .raddr = i->esk.sent };
	const bool grants = i->esk.room_owed != 0;
	struct qp_sge sge[3];

	i->pos->tx_put += n;
	if (kind == ESK_WRITTEN)
		put_wr(i, &write, sge, refer(i, sge, at, n));
	sge[0] = (struct qp_sge){ .addr = offsetof(struct iws, head) + (uint64_t)head * ESK_WINDOW_HEAD,
				  .len = esk_window_out(&i->esk, kind, n, i->head[head]),
				  .lkey = i->stag };
	put_wr(i, &send, sge, (uint8_t)(1 + (kind == ESK_DATA ? refer(i, sge + 1, at, n) : 0)));
	if (grants)
		iws_lend(x, i);
	rc_doorbell(x->rc(x), &i->qp);
}

/* True: the send queue has room for a message of any kind. */
static bool has_room(struct iws *i) { return i->open && spsc_prod_free(&i->post_send, 2) >= 2; }

/*
 * Posts a message of at most n bytes to a peer with a window. Few bytes, or what fits a TCP segment (whole) and a slot,
 * go by a DATA, which the other end copies to its ring. More bytes go by a Write, which needs a second message
 * (WRITTEN). False: no room.
 */
static bool feed_window(struct iws_ctx *x, struct iws *i, uint32_t n, uint32_t whole)
{
	const uint32_t few = rn_max_u32(WRITE_MIN, rn_min_u32(whole, esk_window_data(&i->esk)));

	n = rn_min_u32(n, esk_window_room(&i->esk));
	if (n == 0)
		return false;
	if (n > few)
		post(x, i, ESK_WRITTEN, rn_min_u32(n, WRITE_MAX));
	else
		post(x, i, ESK_DATA, rn_min_u32(n, esk_window_data(&i->esk)));
	return true;
}

/* Posts a message of at most n bytes to a peer without a window. False: the peer has given no credits for it. */
static bool feed_slots(struct iws_ctx *x, struct iws *i, uint32_t n)
{
	const uint32_t most = esk_room(&i->esk);

	if (most == 0)
		return false;
	post(x, i, ESK_DATA, rn_min_u32(rn_min_u32(n, most), DATA_MAX));
	return true;
}

void iws_feed(struct iws_ctx *x, struct iws *i, uint32_t tail, uint32_t whole)
{
	bool more = true;

	while (more && i->pos->tx_put != tail && has_room(i)) {
		const uint32_t n = tail - i->pos->tx_put;
		more = i->esk.windows ? feed_window(x, i, n, whole) : feed_slots(x, i, n);
	}
}

/*
 * Closes the connection, called by the end that has sent its END first. The other end waits for this close, as in TCP's
 * passive close.
 */
static void close_first(struct iws_ctx *x, struct iws *i)
{
	i->open = false;
	rc_disconnect(x->rc(x), i->conn);
}

bool iws_end(struct iws_ctx *x, struct iws *i)
{
	if (!has_room(i) || !esk_may_end(&i->esk))
		return false;
	post(x, i, ESK_END, 0);
	return true;
}

void iws_greet(struct iws_ctx *x, struct iws *i) { post(x, i, ESK_CREDIT, 0); }

/*
 * Posts a CREDIT if the peer is owed much: half of the slots that do not wait for room in the program's ring, or much
 * of the window.
 */
static void credit(struct iws_ctx *x, struct iws *i)
{
	const uint32_t enough = rn_max_u32((IWS_SLOTS - i->spares) / 2, 2);

	if (i->esk.windows)
		i->esk.room_owed = IPC_STREAM_RING - (i->pos->rx_tail - i->pos->rx_head) - i->esk.in_room;
	if (((i->esk.owed >= enough && i->esk.credits >= 1) || esk_room_due(&i->esk)) && has_room(i))
		post(x, i, ESK_CREDIT, 0);
}

/* ---- messages in ---- */

static void slot_post(struct iws *i, uint32_t slot)
{
	struct qp_rwqe r = { .wr_id = slot, .num_sge = 1, .slots = 1 };

	r.sge[0] = (struct qp_sge){ .addr = offsetof(struct iws, slot) + (uint64_t)slot * IWS_SLOT,
				    .len = IWS_SLOT,
				    .lkey = i->stag };
	spsc_prod_copy(&i->post_recv, 0, &r, sizeof(r));
	spsc_prod_publish(&i->post_recv, 1);
}

void iws_slots(struct iws *i)
{
	for (uint32_t slot = 0; slot < IWS_SLOTS; slot++)
		slot_post(i, slot);
}

static void slot_again(struct iws *i, uint32_t slot)
{
	if (qp_get_state(&i->qp) == QP_S_ERR)
		return;
	(void)spsc_prod_free(&i->post_recv, 1);
	slot_post(i, slot);
	esk_posted(&i->esk);
}

/*
 * Posts slots again, but only so many that the program's ring has room for the contents of all posted slots. So a
 * received message can always be copied to the ring at once.
 */
static void post_spares(struct iws *i)
{
	const uint32_t room = IPC_STREAM_RING - (i->pos->rx_tail - i->pos->rx_head);

	while (i->spares > 0 && (IWS_SLOTS - i->spares + 1) * IWS_SLOT <= room)
		slot_again(i, i->spare[--i->spares]);
}

/* A message that breaks the rules ends the connection with a Terminate. */
static void violated(struct iws_ctx *x, struct iws *i)
{
	i->open = false;
	i->fails = true;
	i->error = ECONNRESET;
	(void)rc_modify(x->rc(x), &i->qp, QP_S_ERR);
}

/* Appends received bytes to the program's ring, which has room for them. */
static void ring_put(struct iws_ctx *x, struct iws *i, const uint8_t *p, uint32_t len)
{
	const uint32_t place = i->pos->rx_tail & MASK, first = rn_min_u32(len, IPC_STREAM_RING - place);
	uint8_t *ring = (uint8_t *)i->mem + IPC_STREAM_RX_OFF;

	x->rc(x)->qp.stats.copied_rx += len;
	memcpy(ring + place, p, first);
	memcpy(ring, p + first, len - first);
	i->pos->rx_tail += len;
}

/* Takes a received message. True: the message is good, and may have brought credits. */
static bool message_in(struct iws_ctx *x, struct iws *i, const struct qp_cqe *e, bool unheard)
{
	const uint32_t slot = (uint32_t)e->wr_id, len = e->byte_len;
	enum esk_kind kind;

	if (i->fails)
		return false;
	if (slot >= IWS_SLOTS || len > IWS_SLOT || esk_in(&i->esk, i->slot[slot], len, &kind) != ESK_OK) {
		violated(x, i);
		return false;
	}
	if (i->esk.bytes != 0 && unheard) {
		iws_abort(x, i); /* no program will read the bytes (RFC 9293, 3.10.4; RFC 2525, 2.17) */
		return false;
	}
	if (kind == ESK_DATA)
		ring_put(x, i, i->slot[slot] + esk_head_len(&i->esk), i->esk.bytes);
	else if (kind == ESK_WRITTEN)
		i->pos->rx_tail += i->esk.bytes;
	if (kind == ESK_DATA && !i->esk.windows) {
		i->spare[i->spares++] = (uint8_t)slot;
		return true;
	}
	if (kind == ESK_END && i->esk.out_ended)
		close_first(x, i);
	slot_again(i, slot);
	return true;
}

static void send_done(struct iws *i, const struct qp_cqe *e)
{
	if (e->status == QP_WC_SUCCESS)
		i->pos->tx_head = (uint32_t)e->wr_id;
}

/* Returns whether a message has come that may have brought credits. */
static bool completions(struct iws_ctx *x, struct iws *i, bool unheard)
{
	bool more = false;
	struct qp_cqe e;

	while (spsc_cons_avail(&i->done, 1) != 0) {
		spsc_cons_copy(&i->done, 0, &e, sizeof(e));
		spsc_cons_release(&i->done, 1);
		if (e.op != QP_WC_RECV)
			send_done(i, &e);
		else if (e.status == QP_WC_SUCCESS)
			more |= message_in(x, i, &e, unheard);
	}
	return more;
}

uint32_t iws_take(struct iws_ctx *x, struct iws *i, bool unheard)
{
	const uint32_t head = i->pos->tx_head, tail = i->pos->rx_tail;
	uint32_t found = completions(x, i, unheard) ? IWS_MORE : 0;

	if (i->pos->rx_tail != tail)
		found |= IWS_GOT;
	if ((found & IWS_GOT) && i->esk.windows)
		iws_lend(x, i); /* here: the peer must not change bytes that the program may read when this returns */
	if (i->pos->tx_head != head)
		found |= IWS_ACKED;
	post_spares(i);
	credit(x, i);
	if (i->esk.in_ended && !i->fails && !i->in_told) {
		i->in_told = true;
		found |= IWS_FIN;
	}
	return found;
}
