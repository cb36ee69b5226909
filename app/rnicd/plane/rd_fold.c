/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/rd_fold.h"

#define REST   (100 * RN_NS_PER_MS) /* a peer rests when no packet was exchanged with it for this long */
#define LOOKS  8u                   /* folded peers at which rd_fold_replace() looks */
#define SWEEP  64u                  /* folded peers at which rd_fold_sweep() looks */
#define SWEEPS 8u                   /* how often all folded peers are looked at during rd-idle */

_Static_assert(REST > 2u << RD_USED_SHIFT, "rd_fold.used does not lie in the future");

static uint16_t place_of(const struct rd_port *r, const struct rd_fold *f) { return (uint16_t)(f - r->fold + 1); }

static struct rd_fold *at(struct rd_port *r, uint32_t place) { return place != 0 ? &r->fold[place - 1] : NULL; }

/* Time since the last packet, rounded down to 1 << RD_USED_SHIFT; ns. */
static uint64_t age(const struct rd_fold *f, uint64_t now)
{
	return (uint64_t)((uint32_t)(now >> RD_USED_SHIFT) - f->used) << RD_USED_SHIFT;
}

struct rd_fold *rd_fold_find(struct rd_port *r, const struct pkt_addr *addr, uint32_t number)
{
	struct rd_fold *f = at(r, r->fold_chain[rd_chain_of(addr)]);

	while (f != NULL && (f->number != number || !pkt_addr_eq(&f->addr, addr)))
		f = at(r, f->next);
	return f;
}

bool rd_fold_known(const struct rd_port *r, const struct pkt_addr *addr)
{
	uint32_t n = r->fold_chain[rd_chain_of(addr)];

	while (n != 0 && !pkt_addr_eq(&r->fold[n - 1].addr, addr))
		n = r->fold[n - 1].next;
	return n != 0;
}

static void forget(struct rd_port *r, struct rd_fold *f)
{
	const uint16_t place = place_of(r, f);
	uint16_t *link = &r->fold_chain[rd_chain_of(&f->addr)];

	while (*link != place)
		link = &at(r, *link)->next;
	*link = f->next;
	f->number = RD_FOLD_FREE;
	f->next = r->fold_free;
	r->fold_free = place;
	r->n_folds--;
	r->n_peers--;
}

static void unfold_rx(const struct rd_port *r, const struct rd_fold *f, uint64_t now, struct udpr_rx *rx)
{
	rx->src_worker = r->number;
	rx->dst_worker = f->number;
	rx->heard = now - age(f, now);
	udpr_rx_unfold(rx, rnicd.secret, f->addr.b, sizeof(f->addr.b), &f->rx);
}

void rd_fold_rx(struct rd_port *r, const struct pkt_addr *addr, uint32_t number, uint64_t now, struct udpr_rx *rx)
{
	const struct rd_fold *f = rd_fold_find(r, addr, number);

	*rx = (struct udpr_rx){ 0 };
	if (f != NULL)
		unfold_rx(r, f, now, rx);
}

void rd_fold_open(struct rd_port *r, struct rd_fold *f, uint64_t now, struct rd_peer *p)
{
	unfold_rx(r, f, now, &p->rx);
	p->tx.last_sent = p->rx.heard;
	p->numbers = f->numbers;
	forget(r, f);
}

/* The time after which a folded peer is forgotten; RN_NEVER: it is kept. */
static uint64_t idle_ns(void)
{
	return rnicd.cfg.rd_idle_ns != 0 ? rn_max_u64(rnicd.cfg.rd_idle_ns, UDPR_IDLE_MIN) : RN_NEVER;
}

bool rd_fold_make(struct rd_port *r, const struct rd_peer *p, uint64_t now)
{
	const uint64_t used = rn_max_u64(p->rx.heard, p->tx.last_sent);
	struct udpr_fold rx;

	if (now - used < REST || udpr_tx_busy(&p->tx) || p->ring != NULL || !rn_slist_empty(&p->full) ||
	    !udpr_rx_fold(&p->rx, &rx))
		return false;
	struct rd_fold *f = r->fold_free != 0 ? at(r, r->fold_free) : &r->fold[r->folds_ever++];
	uint16_t *link = &r->fold_chain[rd_chain_of(&p->addr)];

	r->fold_free = f->next;
	*f = (struct rd_fold){ .addr = p->addr,
			       .rx = rx,
			       .used = (uint32_t)((used >> RD_USED_SHIFT) + 1),
			       .next = *link,
			       .number = (uint8_t)p->number,
			       .numbers = (uint8_t)p->numbers };
	*link = place_of(r, f);
	r->n_folds++;
	r->n_peers++;
	if (r->sweep_at == RN_NEVER && idle_ns() != RN_NEVER)
		r->sweep_at = now + idle_ns() / SWEEPS;
	return true;
}

void rd_fold_replace(struct rd_port *r, uint64_t idle, uint64_t now)
{
	for (uint32_t i = 0; i < rn_min_u32(LOOKS, r->folds_ever); i++) {
		struct rd_fold *f = &r->fold[r->fold_hand++ % r->folds_ever];

		if (f->number == RD_FOLD_FREE || age(f, now) <= idle)
			continue;
		forget(r, f);
		return;
	}
}

void rd_fold_sweep(struct rd_port *r, uint64_t now)
{
	const uint64_t idle = idle_ns(), looks = (r->folds_ever + SWEEP - 1) / SWEEP;

	for (uint32_t i = 0; i < rn_min_u32(SWEEP, r->folds_ever); i++) {
		struct rd_fold *f = &r->fold[r->sweep_hand++ % r->folds_ever];

		if (f->number == RD_FOLD_FREE || age(f, now) <= idle)
			continue;
		r->drops.idle++;
		forget(r, f);
	}
	r->sweep_at = r->n_folds > 0 ? now + idle / SWEEPS / looks : RN_NEVER;
}

uint32_t rd_fold_numbers(const struct rd_port *r, const struct pkt_addr *addr)
{
	for (uint32_t n = r->fold_chain[rd_chain_of(addr)]; n != 0; n = r->fold[n - 1].next)
		if (r->fold[n - 1].numbers != 0 && pkt_addr_eq(&r->fold[n - 1].addr, addr))
			return r->fold[n - 1].numbers;
	return 0;
}

void rd_fold_set_numbers(struct rd_port *r, const struct pkt_addr *addr, uint32_t numbers)
{
	for (struct rd_fold *f = at(r, r->fold_chain[rd_chain_of(addr)]); f != NULL; f = at(r, f->next))
		if (pkt_addr_eq(&f->addr, addr))
			f->numbers = (uint8_t)numbers;
}
