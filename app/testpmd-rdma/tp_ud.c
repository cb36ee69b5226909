/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_ud.h"
#include "tp_pattern.h"

#include <endian.h>
#include <inttypes.h>
#include <rnic/rnicdv.h>
#include <stdlib.h>
#include <string.h>

static enum tp_verdict stray(struct tp_run *r, const char *what)
{
	return tp_fail(r->s->err, TP_CORRUPT, "a completion tells of %s that nobody sent", what);
}

/* A record or an answer: the address says where it is. */
static enum tp_verdict parse_record(struct tp_run *r, const struct ibv_wc *wc, struct tp_ud_msg *m)
{
	struct tp_session *s = r->s;
	const struct tp_layout *l = &s->layout;
	const uint64_t from = wc->wr_id - (uintptr_t)s->region, place = from - l->rx;
	const uint64_t slots = (uint64_t)r->p->qps * l->slots;

	if (from < l->fence) {
		m->credit = true;
		return TP_OK;
	}
	m->off = place % l->stride - l->head;
	if (from < l->rx || place / l->stride >= slots || place % l->stride < l->head ||
	    m->off + wc->byte_len > l->stride - l->head)
		return stray(r, "bytes");
	m->qp = (uint32_t)(place / l->stride / l->slots);
	m->slot = m->place = place / l->stride % l->slots;
	m->whole = (wc->wc_flags & RNICDV_WC_RECORD_WHOLE) != 0;
	m->last = (wc->wc_flags & RNICDV_WC_RECORD_MORE) == 0;
	m->len = wc->byte_len;
	m->at = s->region + from;
	return TP_OK;
}

static enum tp_verdict parse_recv(struct tp_run *r, const struct ibv_wc *wc, struct tp_ud_msg *m)
{
	struct tp_session *s = r->s;
	const uint64_t slot = wc->wr_id & 0xffffffffff;

	m->qp = tp_wr_qp(wc->wr_id);
	if (tp_wr_kind(wc->wr_id) != TP_WR_RECV || m->qp >= r->p->qps || slot >= s->layout.slots)
		return stray(r, "a message");
	if (wc->byte_len < TP_GRH || wc->byte_len - TP_GRH > s->layout.stride - s->layout.head)
		return tp_fail(s->err, TP_CORRUPT, "a receive has %u bytes", wc->byte_len);
	m->slot = (m->number - 1) % s->layout.slots;
	m->place = slot;
	m->whole = m->last = true;
	m->len = wc->byte_len - TP_GRH;
	m->at = s->region + tp_rx_off(&s->layout, m->qp, slot);
	return TP_OK;
}

enum tp_verdict tp_ud_parse(struct tp_run *r, const struct ibv_wc *wc, struct tp_ud_msg *m)
{
	enum tp_verdict v;

	memset(m, 0, sizeof(*m));
	m->number = (wc->wc_flags & IBV_WC_WITH_IMM) != 0 ? be32toh(wc->imm_data) : 0;
	v = wc->opcode == IBV_WC_DRIVER1 ? parse_record(r, wc, m) : parse_recv(r, wc, m);
	if (v != TP_OK || m->credit)
		return v;
	r->fig.valid += m->len;
	r->fig.arrived += m->whole;
	r->fig.partial += m->last && !m->whole;
	return TP_OK;
}

enum tp_verdict tp_ud_prepare(struct tp_run *r)
{
	r->whole = calloc((size_t)r->p->qps * r->p->slots, sizeof(*r->whole));
	return r->whole != NULL ? TP_OK : tp_fail(r->s->err, TP_NO_MEMORY, "out of memory");
}

enum tp_verdict tp_ud_verify(struct tp_run *r)
{
	for (uint32_t q = 0; q < r->p->qps; q++)
		for (uint64_t i = 0; i < r->p->slots; i++)
			if (r->whole[q * r->p->slots + i])
				tp_check_slot(r, q, i, r->p->size);
	return TP_OK;
}

enum tp_verdict tp_ud_take(struct tp_run *r, const struct ibv_wc *wc, struct tp_ud_msg *m)
{
	struct tp_session *s = r->s;
	const uint64_t seed = r->p->seed ^ (uint64_t)!s->is_server << 63;
	enum tp_verdict v = tp_ud_parse(r, wc, m);
	size_t bad;

	if (v != TP_OK || m->credit)
		return v;
	if (m->off + m->len > r->p->size || (m->whole && m->len != r->p->size))
		return tp_fail(s->err, TP_CORRUPT, "%" PRIu64 " bytes came where %" PRIu64 " were sent", m->len,
			       r->p->size);
	if (m->whole && (wc->opcode == IBV_WC_DRIVER1 || r->p->slots == 1)) {
		r->whole[m->qp * r->p->slots + m->place] = true;
		return TP_OK;
	}
	if (!r->p->verify)
		return TP_OK;
	bad = tp_pattern_check(m->at, m->len, tp_pattern_seed(seed, m->qp, m->slot), m->off);
	r->fig.checked += m->len;
	if (bad != TP_PATTERN_GOOD && r->fig.wrong++ == 0)
		tp_fail(s->err, TP_CORRUPT,
			"wrong data: %s of %" PRIu64
			" bytes, queue pair %u, message %u, bytes told as valid from %" PRIu64
			" on, of which number %zu is wrong (it is 0x%02x)",
			tp_mode_name(r->p->mode), r->p->size, m->qp, m->number, m->off, bad, m->at[bad]);
	return TP_OK;
}
