/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of datagram sockets, and which one a packet is for. */
#include "border/grams.h"

#include <errno.h>

void grams_begin(struct grams *c)
{
	udps_init(c->peers, rnicd.secret);
	pkt_frag_init(c->segs, PKT_FRAG_PIECES, 0, rnicd.secret, &c->seg_counts);
	/* a worker that is started anew does not begin with numbers that a peer has just seen */
	c->msn = (uint32_t)flow_mix(rnicd.secret[1] + c->worker);
}

void gram_ring(struct grams *c, struct gram *g)
{
	if (g->broken)
		return;
	gram_answer(c, g);
	if (!g->stuck && !rn_link_linked(&g->ready))
		rn_list_push_back(&c->ready, &g->ready);
}

void gram_open(struct grams *c, struct gram *g)
{
	struct gram **at = &c->slot[gram_slot(g->lport)];

	g->next = *at;
	*at = g;
	g->user->gram[g->bit] = g;
	stream_user_uses(g->user, g->bit);
}

bool gram_close(struct grams *c, struct gram *g, bool give_up)
{
	struct gram **at = &c->slot[gram_slot(g->lport)];
	uint32_t count = 0;

	/* datagrams that the program sent before it ended still leave */
	if (!give_up && !g->broken && !gram_send(c, g, GRAM_SHARE, &count))
		return false;
	while (*at != NULL && *at != g)
		at = &(*at)->next;
	if (*at != NULL)
		*at = g->next;
	g->user->gram[g->bit] = NULL;
	rn_list_remove(&c->ready, &g->ready);
	rn_list_remove(&c->telling, &g->telling);
	return true;
}

/* ---- by port, address and peer ---- */

static struct gram *gram_bucket(const struct grams *c, uint16_t lport) { return c->slot[gram_slot(lport)]; }

static bool from_peer(const struct gram *g, const struct pkt_addr *ip, uint16_t port)
{
	return g->peer.port == port && pkt_addr_eq(&g->peer.ip, ip);
}

/*
 * How well a socket fits a packet: a socket with this peer fits best, then one with this device's address. 0: not at
 * all.
 */
static uint32_t fits(const struct gram *g, uint32_t dev, const struct pkt *p)
{
	if (g->lport != p->dport || (g->dev != dev && g->dev != GRAM_ANY_DEV))
		return 0;
	if (g->peer.port != 0 && !from_peer(g, &p->src, p->sport))
		return 0;
	return 1u + (g->dev == dev) + 2u * (g->peer.port != 0);
}

/*
 * Of the n sockets that fit as well as `first` and share the packets of a port: chooses one by a hash of both
 * addresses.
 */
static struct gram *balanced(struct gram *first, uint32_t n, uint32_t dev, const struct pkt *p)
{
	const struct flow_key key = {
		.local = p->dst, .remote = p->src, .lport = p->dport, .rport = p->sport, .port = dev
	};
	const uint32_t most = fits(first, dev, p);
	struct gram *g = first;

	for (n = flow_hash(rnicd.secret, &key) % n; !g->balance || fits(g, dev, p) != most || n-- > 0;)
		g = g->next;
	return g;
}

/* Of several sockets with the port: the one that fits best, of equals the newest. */
struct gram *gram_find(struct grams *c, uint32_t dev, const struct pkt *p)
{
	struct gram *best = NULL;
	uint32_t most = 0, same = 0;

	for (struct gram *g = gram_bucket(c, p->dport); g != NULL; g = g->next) {
		uint32_t f = fits(g, dev, p);
		if (f > most) {
			most = f;
			best = g;
			same = 0;
		}
		same += f == most && g->balance;
	}
	return rn_likely(same < 2 || !best->balance) ? best : balanced(best, same, dev, p);
}

void gram_fail(struct grams *c, struct gram *g, int err)
{
	__atomic_store_n(&g->mem->error, (uint32_t)err, __ATOMIC_RELEASE);
	gram_answer(c, g);
}

void gram_refused(struct grams *c, const struct pkt_refused *r)
{
	/* a socket without a peer is told nothing, as on Linux: it could not know which datagram was refused */
	for (struct gram *g = gram_bucket(c, r->sport); g != NULL; g = g->next) {
		if (g->lport != r->sport || g->peer.port == 0 || !from_peer(g, &r->dst, r->dport) || g->broken)
			continue;
		gram_fail(c, g, ECONNREFUSED);
	}
}
