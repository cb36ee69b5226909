/* SPDX-License-Identifier: BSD-3-Clause */
/* What two MPA frames agree on: RFC 5044 section 7.1.1, RFC 6581 section 9. */
#include "iwarp/mpa_fpdu.h"
#include "iwarp/mpa_neg.h"

static uint16_t min16(uint16_t a, uint16_t b) { return a < b ? a : b; }

/* Chooses one kind of a set: Write costs the responder least, Read needs a queue entry, Send has no DDP header. */
static enum mpa_rtr pick_rtr(uint8_t set)
{
	if (set & MPA_RTR_WRITE)
		return MPA_RTR_WRITE;
	if (set & MPA_RTR_READ)
		return MPA_RTR_READ;
	return set & MPA_RTR_SEND ? MPA_RTR_SEND : MPA_RTR_NONE;
}

uint32_t mpa_neg_pd_max(const struct mpa_policy *p) { return p->rev >= 2 ? MPA_PD_MAX - MPA_ENH_LEN : MPA_PD_MAX; }

/* Appends private data and writes the frame. */
static enum mpa_neg_verdict emit(struct mpa_frame *f, const uint8_t *pd, uint32_t pd_len, struct mpa_out *out)
{
	if (pd_len > MPA_PD_MAX)
		return MPA_NEG_PD_TOO_LONG;
	f->pd = pd;
	f->pd_len = (uint16_t)pd_len;
	out->len = (uint16_t)mpa_neg_build(f, out->buf);
	return out->len > 0 ? MPA_NEG_OK : MPA_NEG_PD_TOO_LONG;
}

enum mpa_neg_verdict mpa_neg_request(const struct mpa_policy *p, const uint8_t *pd, uint32_t pd_len,
				     struct mpa_out *out)
{
	struct mpa_frame f = { .rev = p->rev,
			       .flags = (uint8_t)((p->markers ? MPA_F_MARKERS : 0) | (p->crc ? MPA_F_CRC : 0)) };

	if (p->rev >= 2) {
		f.flags |= MPA_F_ENHANCED;
		f.enhanced = true;
		f.p2p = p->p2p;
		f.rtr = p->p2p ? p->rtr : 0;
		f.ird = p->ird;
		f.ord = p->ord;
	}
	return emit(&f, pd, pd_len, out);
}

/* The common part of both Replies: our revision, and whether the frame is enhanced, follow the Request. */
static struct mpa_frame reply_to(const struct mpa_policy *p, const struct mpa_frame *req)
{
	struct mpa_frame f = { .reply = true, .rev = p->rev < req->rev ? p->rev : req->rev };

	f.enhanced = f.rev >= 2 && req->enhanced;
	f.flags = f.enhanced ? MPA_F_ENHANCED : 0;
	f.ird = p->ird;
	f.ord = p->ord;
	return f;
}

enum mpa_neg_verdict mpa_neg_reject(const struct mpa_policy *p, const struct mpa_frame *req, const uint8_t *pd,
				    uint32_t pd_len, struct mpa_out *out)
{
	struct mpa_frame f = reply_to(p, req);

	f.flags |= (uint8_t)(MPA_F_REJECT | (req->flags & MPA_F_CRC));
	return emit(&f, pd, pd_len, out);
}

uint16_t mpa_step_of(const struct mpa_policy *p, bool asked)
{
	if (!asked || p->unmarked)
		return 0;
	return p->spacing != 0 ? p->spacing : MPA_MARKER_STEP;
}

enum mpa_neg_verdict mpa_neg_accept(const struct mpa_policy *p, const struct mpa_frame *req, const uint8_t *pd,
				    uint32_t pd_len, struct mpa_out *out, struct mpa_agreed *a)
{
	struct mpa_frame f = reply_to(p, req);
	enum mpa_neg_verdict v = MPA_NEG_OK;

	*a = (struct mpa_agreed){ .rev = f.rev,
				  .rx_markers = mpa_step_of(p, p->markers),
				  .tx_markers = mpa_step_of(p, (req->flags & MPA_F_MARKERS) != 0),
				  .crc = p->crc || (req->flags & MPA_F_CRC),
				  .ird = p->ird,
				  .ord = p->ord };
	if ((req->flags & MPA_F_MARKERS) && p->no_markers) {
		v = mpa_neg_reject(p, req, pd, pd_len, out);
		return v == MPA_NEG_OK ? MPA_NEG_NO_MARKERS : v;
	}
	f.flags |= (uint8_t)((p->markers ? MPA_F_MARKERS : 0) | (a->crc ? MPA_F_CRC : 0));
	if (f.enhanced) {
		/*
		 * RFC 6581 section 9.1: each side's IRD answers the other's ORD; MPA_DEPTH_NONE is the largest number.
		 */
		a->enhanced = true;
		a->ird = f.ird = min16(p->ird, req->ord);
		a->ord = f.ord = min16(p->ord, req->ird);
		if (req->p2p) {
			uint8_t can = (uint8_t)(p->rtr & (a->ird > 0 ? 0xff : ~MPA_RTR_READ));

			a->p2p = f.p2p = true;
			a->rtr = pick_rtr(can & req->rtr);
			/*
			 * No kind in common: the Reply offers our kinds, so that the initiator can report this and
			 * terminate.
			 */
			f.rtr = a->rtr ? (uint8_t)a->rtr : can;
			v = a->rtr ? MPA_NEG_OK : MPA_NEG_NO_RTR;
		}
	}
	enum mpa_neg_verdict e = emit(&f, pd, pd_len, out);
	return e == MPA_NEG_OK ? v : e;
}

enum mpa_neg_verdict mpa_neg_finish(const struct mpa_policy *p, const struct mpa_frame *rep, struct mpa_agreed *a)
{
	*a = (struct mpa_agreed){ .rev = rep->rev,
				  .rx_markers = mpa_step_of(p, p->markers),
				  .tx_markers = mpa_step_of(p, (rep->flags & MPA_F_MARKERS) != 0),
				  .crc = p->crc || (rep->flags & MPA_F_CRC),
				  .ird = p->ird,
				  .ord = p->ord };
	if (rep->flags & MPA_F_REJECT)
		return MPA_NEG_REJECTED;
	if (rep->rev > p->rev)
		return MPA_NEG_REV_UNKNOWN;
	if ((rep->flags & MPA_F_MARKERS) && p->no_markers)
		return MPA_NEG_NO_MARKERS;
	if (p->crc_must && !(rep->flags & MPA_F_CRC))
		return MPA_NEG_NO_CRC;
	if (!rep->enhanced)
		return MPA_NEG_OK;
	a->enhanced = true;
	a->ord = min16(p->ord, rep->ird);
	if (rep->ord == MPA_DEPTH_NONE)
		a->ird = p->ird;
	else if (rep->ord <= p->ird || rep->ord <= p->ird_max)
		a->ird = rep->ord;
	else
		return MPA_NEG_IRD_SHORT;
	if (!p->p2p)
		return MPA_NEG_OK;
	a->p2p = rep->p2p;
	uint8_t common = (uint8_t)(p->rtr & rep->rtr & (a->ord > 0 ? 0xff : ~MPA_RTR_READ));
	a->rtr = rep->p2p ? pick_rtr(common) : MPA_RTR_NONE;
	return rep->p2p && a->rtr == MPA_RTR_NONE ? MPA_NEG_NO_RTR : MPA_NEG_OK;
}
