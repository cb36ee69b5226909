/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_layout.h"

#include <string.h>

#define MOST_SLOTS (UINT64_C(1) << 60) /* bytes: more than there are addresses, and a sum of several does not wrap */

/* Bytes of the slots of one direction, or MOST_SLOTS if they are more. */
static uint64_t slots_len(const struct tp_layout *l, uint32_t qps)
{
	const uint64_t n = qps * l->slots;

	return n <= MOST_SLOTS / l->stride ? n * l->stride : MOST_SLOTS;
}

void tp_layout_make(struct tp_layout *l, const struct tp_point *p)
{
	uint64_t shift = p->mode == TP_SOAK ? 64 : 0; /* soak varies the position of messages in their slot */
	uint64_t cards = p->qp_type != TP_QP_RC ? 8 * (uint64_t)p->qps : 0;

	memset(l, 0, sizeof(*l));
	l->head = p->qp_type == TP_QP_UD ? 64 : 0;
	l->stride = tp_round_up(l->head + p->size + shift, 64);
	l->slots = p->slots;
	l->fence = (uint64_t)p->qps * 128;
	l->cards = l->fence + 128;
	l->tx = tp_round_up(l->cards + cards, TP_PAGE);
	l->rx = tp_round_up(l->tx + slots_len(l, p->qps), TP_PAGE);
	l->constant = tp_round_up(l->rx + slots_len(l, p->qps), TP_PAGE);
	l->len = tp_round_up(l->constant + (p->mode == TP_SOAK ? l->stride : 0), TP_PAGE);
}
