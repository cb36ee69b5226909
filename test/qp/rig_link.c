/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "rig_int.h"

static void insert(struct rig *r, struct rig_pkt *p)
{
	struct rig_pkt **at = &r->heap;

	p->serial = r->serial++;
	while (*at != NULL && (*at)->at <= p->at)
		at = &(*at)->next;
	p->next = *at;
	*at = p;
}

static struct rig_pkt *pkt_of(struct rig *r, int to, uint32_t flow, const struct tcpl_out *o, const uint8_t *data)
{
	struct rig_pkt *p = malloc(sizeof(*p) + o->len + 1);

	memcpy(p->opt, o->opt, sizeof(p->opt));
	memcpy(p->data, data, o->len);
	p->to = to;
	p->flow = flow;
	p->seg = (struct tcpl_seg){ .seq = o->seq,
				    .ack = o->ack,
				    .len = o->len,
				    .wnd = o->wnd,
				    .flags = o->flags,
				    .optlen = o->optlen,
				    .opt = p->opt,
				    .ref = (uint64_t)(uintptr_t)&p->qp };
	p->qp = (struct rc_tcp_pkt){ .iov = p->iov };
	uint32_t off = 0;
	while (off < o->len) {
		uint32_t left = o->len - off, take = left;
		if (r->cfg.split && p->qp.n < 7)
			take = 1 + rn_rng_below(&r->rng, left);
		p->iov[p->qp.n++] = (struct rn_iov){ p->data + off, take };
		off += take;
	}
	return p;
}

void rig_inject(struct rig *r, int to, uint32_t flow, const struct tcpl_out *o, const uint8_t *data)
{
	struct rig_pkt *p = pkt_of(r, to, flow, o, data);

	p->at = r->now;
	insert(r, p);
}

static void carry(struct rig *r, int from, uint32_t flow, const struct tcpl_out *o, const uint8_t *data)
{
	const struct rig_link *l = &r->cfg.link;
	uint32_t copies = 1 + rn_rng_chance(&r->rng, l->dup);

	r->pkts++;
	bool lose = r->lose > 0 && o->len > 0;
	r->lose -= lose;
	if (lose || (o->len > 0 && (r->silent >> flow & 1)) || rn_rng_chance(&r->rng, l->loss)) {
		r->dropped++;
		return;
	}
	for (uint32_t i = 0; i < copies; i++) {
		struct rig_pkt *p = pkt_of(r, r->mirror ? from : !from, flow, o, data);

		p->at = r->now + l->delay_ns;
		if (rn_rng_chance(&r->rng, l->reorder))
			p->at += 1 + rn_rng_below(&r->rng, (uint32_t)l->reorder_ns + 1);
		insert(r, p);
	}
}

void rig_transmit(struct rig *r, int from, uint32_t flow, const struct tcpl_out *o, const uint8_t *data)
{
	struct tcpl_out part = *o;

	if (r->tap != NULL)
		r->tap(r, from, o, data);
	if (o->len < 2 || !rn_rng_chance(&r->rng, r->cfg.link.cut)) {
		carry(r, from, flow, o, data);
		return;
	}
	part.len = 1 + rn_rng_below(&r->rng, o->len - 1);
	part.flags = (uint8_t)(o->flags & ~(TCPL_FIN | TCPL_PSH));
	carry(r, from, flow, &part, data);
	uint32_t first = part.len;
	part.seq += first;
	part.len = o->len - first;
	part.flags = o->flags;
	carry(r, from, flow, &part, data + first);
}
