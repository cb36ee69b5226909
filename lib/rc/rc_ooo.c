/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Placing ahead of the stream (RFC 5041, 5.3). A client may poll its memory, and programs rely on the order of
 * InfiniBand: a message shows after all earlier ones, its last bytes show after its others, and of two Writes to one
 * place the later one wins. So only a segment of the open message may be placed while bytes before it are missing, and
 * not the message's last one. Two things must be certain of such a segment:
 *
 * Where its FPDU begins. A marker says so. Without markers the bytes of a segment are no evidence: a peer's user may
 * have chosen the payload to look like an FPDU with a good CRC. The evidence is the stream in order: every segment of
 * this peer has begun with an FPDU so far; the last FPDU was a full segment of the open message; a sender cuts a
 * message into equal parts, the last one apart; and the segment lies where one of these parts begins, at the offset
 * that its DDP header says.
 *
 * Which message it belongs to. A Send has its MSN. A Read Response has a known length: it ends when all requested bytes
 * have arrived. A Write has neither: it may end inside the hole, and another Write may begin there and go on at the
 * same place. So Writes wait.
 *
 * The packet is held all the same, and every byte is checked in its turn. The note of an FPDU placed early only saves
 * the copy in that turn: the note counts if the same FPDU is met at the same place, and all FPDUs between were of the
 * same message. A peer that begins to cut FPDUs may make the guess wrong: then the placed bytes lie inside the Read's
 * sink or the message's receive, never its last byte. The message's own bytes overwrite them in their turn; behind the
 * end of a Send that is shorter than its receive, where byte_len says that nothing has arrived, they stay.
 */
#include "base/rn_seq.h"
#include "rc/rc_int.h"

/*
 * How many full segments h lies behind the last segment in order; 0: h is not a full segment of the open message, or
 * that is uncertain.
 */
static uint32_t parts_ahead(const struct rc *c, const struct ddp_hdr *h)
{
	uint32_t part = c->in.cut - h->hdr_len;

	if (h->opcode != c->in.cut_op || h->payload_len != part || part == 0)
		return 0; /* a segment without payload may begin a message, but is no part of its length */
	uint32_t dist = qp_early(&c->m, h);
	return dist % part == 0 ? dist / part : 0;
}

/* The offset in Full Operation of the n-th FPDU from here, if all of them are full. */
static uint32_t pos_of(const struct rc *c, uint32_t n)
{
	uint32_t pos = mpa_rx_pos(&c->in.mpa), len = n * mpa_fpdu_len(c->in.cut);

	return pos + len + MPA_MARKER_LEN * mpa_markers_in(pos, len, c->in.mpa.step);
}

/* Adds a note, in the order of pos: most come last; one that fills a hole moves those behind it. There is room. */
static void note(struct rc_block *b, const struct mpa_view *v, const struct ddp_hdr *h)
{
	uint32_t i = b->ooo_head + b->n_ooo++;

	for (; i != b->ooo_head && rn_seq_gt(b->ooo[(i - 1) & (RC_OOO - 1)].pos, v->pos); i--)
		b->ooo[i & (RC_OOO - 1)] = b->ooo[(i - 1) & (RC_OOO - 1)];
	b->ooo[i & (RC_OOO - 1)] = (struct rc_ooo){ .pos = v->pos, .raw_len = v->raw_len, .h = *h };
}

void rc_early(struct rc_ctx *ctx, struct rc *c, const struct rc_bytes *b)
{
	uint8_t scratch[DDP_MAX_HDR_LEN];
	uint32_t pos = b->pos - c->in.base;
	struct mpa_find f;
	struct mpa_view v;
	struct ddp_hdr h;

	if (c->in.cut == 0 || (c->in.ragged && c->in.mpa.step == 0) || c->in.mpa.pos != c->in.mpa.start ||
	    c->rnr.state != RC_RNR_NONE)
		return;
	if (!rc_streaming(c) || c->m.qp == NULL)
		return;
	mpa_find_init(&f, &c->in.mpa, pos, b->iov, b->n);
	if (b->crc_due) { /* whole FPDUs, as the sender in this process says */
		f.rx.crc = false;
		f.state = MPA_FIND_SYNCED;
	}
	while (c->blk->n_ooo < RC_OOO && mpa_find_next(&f, &v) && v.pos == pos && v.ulpdu_len == c->in.cut) {
		const uint8_t *p = mpa_view_head(&v, scratch, rn_min_u32(v.ulpdu_len, DDP_MAX_HDR_LEN));
		if (ddp_parse(p, v.ulpdu_len, &h) != DDP_OK)
			return;
		uint32_t ahead = parts_ahead(c, &h);
		if (ahead == 0 || pos_of(c, ahead) != pos || !qp_early_place(&ctx->qp, &c->m, &h, v.ulpdu, v.n))
			return;
		ctx->qp.stats.copied_rx += h.payload_len;
		ctx->qp.stats.summed_rx += v.crc_on ? v.raw_len : 0;
		note(c->blk, &v, &h);
		pos += v.raw_len;
	}
}

static bool same_message(const struct ddp_hdr *a, const struct ddp_hdr *b)
{
	return a->opcode == b->opcode && a->stag == b->stag && a->msn == b->msn;
}

/* Whether the payload of an FPDU, whose turn has come, has been placed already. */
bool rc_ooo_placed(struct rc *c, const struct ddp_hdr *h, const struct mpa_view *v)
{
	struct rc_block *b = c->blk;

	while (b->n_ooo > 0) {
		const struct rc_ooo *o = &b->ooo[b->ooo_head & (RC_OOO - 1)];

		if (!same_message(&o->h, h)) {
			b->n_ooo = 0; /* another message may have overwritten the placed bytes: copy them again */
			return false;
		}
		if (rn_seq_gt(o->pos, v->pos))
			return false;
		b->ooo_head++;
		b->n_ooo--;
		if (o->pos == v->pos)
			return o->raw_len == v->raw_len && o->h.to == h->to && o->h.mo == h->mo &&
			       o->h.payload_len == h->payload_len && !h->last;
	}
	return false;
}
