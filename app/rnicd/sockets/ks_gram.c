/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagram sockets over the kernel's: their life, and the wire iwarp. */
#include "sockets/ks_gram.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "border/event.h"
#include "border/strangers.h"

#define LEAVE_NS RN_NS_PER_S /* a closed socket has so long to send what is in its ring */

static struct grams all_grams;
static uint64_t answers_at;    /* stranger_allowed() */
static struct rn_list closing; /* sockets that end, the one that gives up first in front */
static bool heard;             /* the kernel's sockets have been read since the last socks_burst() */

/* Buffers for segments of incomplete datagrams. Untouched pages take no memory. */
struct segment {
	struct segment *next;
	uint32_t len;
	uint8_t b[KS_MTU_MAX];
};
#define SEGMENTS (PKT_FRAG_PIECES + 1)
static struct segment *segments, *spare_segments;

/* ---- what the plane brings ---- */

static void grams_say(struct grams *c, uint32_t dev, const struct pkt_addr *to, const uint8_t *p, uint32_t len)
{
	(void)c;
	ks_ud_send(dev, to, p, len);
}

static bool grams_may_answer(struct grams *c, uint32_t dev)
{
	if (stranger_allowed(&answers_at, *c->now))
		return true;
	rnicd.port[dev]->stats[0].rx_unanswered++;
	return false;
}

static uint32_t grams_iwarp(struct grams *c, const struct gram *g, const struct ipc_gram_rec *rec, struct udps_peer *to)
{
	const uint32_t n = gram_segments(rec, to);

	if (!ks_ud_room(n))
		return 0;
	const struct gram_cut cut = gram_cut_begin(c, g, rec, to);
	for (uint32_t i = 0; i < n; i++)
		ks_ud_put(to->key.dev, rec, gram_cut_build(g, &cut, i, ks_ud_next()));
	return n;
}

static const struct gram_plane over_kernel = { .say = grams_say,
					       .may_answer = grams_may_answer,
					       .plain = ks_gram_plain,
					       .iwarp = grams_iwarp,
					       .route = ks_gram_route,
					       .holds = ks_gram_holds };

/* ---- life ---- */

/* The addresses at which the socket is: one device's, or all. False: none, since no device has the socket's address. */
static bool address_of(const struct gram *g, struct pkt_addr *ip)
{
	if (g->dev == GRAM_NO_DEV)
		return false;
	*ip = g->dev == GRAM_ANY_DEV ? pkt_addr_ip4(0) : rnicd.port[g->dev]->cfg->ip;
	return true;
}

static void grams_open(struct gram *g)
{
	struct ks_below *b = ks_below_of(g);
	struct pkt_addr ip;

	b->gram = g;
	b->named = address_of(g, &ip) && ks_pass_sock(&ip, g->lport);
	gram_open(&all_grams, g);
	ks_gram_io_open(b);
	ks.n_uds++;
}

/* False: datagrams still have to leave. */
static bool grams_close(struct gram *g)
{
	struct ks_below *b = ks_below_of(g);
	struct pkt_addr ip;

	const bool ends = gram_close(&all_grams, g, ks.now >= b->give_up);
	(void)ks_ud_flush();
	if (!ends)
		return false;
	if (b->named && address_of(g, &ip))
		ks_pass_sock_end(&ip, g->lport);
	ks_gram_io_end(b);
	g->below = NULL;
	ks.n_uds--;
	return true;
}

/* The control thread need not ask again: a socket of the kernel's may be full for long. */
static bool close_begin(struct cmd *c)
{
	struct ks_below *b = ks_below_of(c->gram.gram);

	b->give_up = ks.now + LEAVE_NS;
	if (grams_close(c->gram.gram))
		return true;
	b->close = c;
	rn_list_push_back(&closing, &b->closing);
	return false;
}

/* Continues the end of sockets; returns how many have ended. */
static uint32_t close_more(void)
{
	struct rn_list again = { 0 };
	struct ks_below *b;
	uint32_t n = 0;

	while ((b = rn_list_pop(&closing, struct ks_below, closing)) != NULL) {
		struct cmd *c = b->close;
		const bool waits = b->gram->stuck && ks.now < b->give_up;
		if (waits || !grams_close(b->gram)) {
			rn_list_push_back(&again, &b->closing);
			continue;
		}
		event_answer(0, c);
		n++;
	}
	while ((b = rn_list_pop(&again, struct ks_below, closing)) != NULL)
		rn_list_push_back(&closing, &b->closing);
	return n;
}

bool ks_gram_command(struct cmd *c)
{
	struct gram *g = c->gram.gram;

	c->gram.waits = false;
	switch ((int)c->type) {
	case CMD_GRAM_OPEN: grams_open(g); break;
	case CMD_GRAM_PEER: g->peer = c->gram.peer; break;
	case CMD_GRAM_CLOSE: return close_begin(c);
	default: break;
	}
	return true;
}

void ks_gram_ring(struct gram *g) { gram_ring(&all_grams, g); }

/* ---- the wire iwarp ---- */

/* NULL: there is none; this happens only if buffers are lost. */
static struct segment *segment_new(void)
{
	static uint32_t used;
	struct segment *s = spare_segments;

	if (s == NULL)
		return used < SEGMENTS ? &segments[used++] : NULL;
	spare_segments = s->next;
	return s;
}

static void segment_free(struct segment *s)
{
	s->next = spare_segments;
	spare_segments = s;
}

static void segments_free_dead(void)
{
	struct segment *s;

	while ((s = pkt_frag_dead(all_grams.segs)) != NULL)
		segment_free(s);
}

/* Delivers the datagram that has become whole. */
static void deliver_whole(const struct gram_part *part)
{
	struct rn_iov iov[PKT_FRAG_EACH];
	struct segment *s, *used = NULL;
	uint32_t n = 0;

	while ((s = pkt_frag_whole(all_grams.segs)) != NULL) {
		iov[n++] = (struct rn_iov){ .base = s->b, .len = s->len };
		s->next = used;
		used = s;
	}
	if (gram_whole_good(&all_grams, part))
		(void)gram_deliver(&all_grams, part->g, part->dev, &part->rec, iov, n);
	while ((s = used) != NULL) {
		used = s->next;
		segment_free(s);
	}
}

static void keep_part(const struct gram_part *part)
{
	struct segment *s = part->f.len <= sizeof(s->b) ? segment_new() : NULL;

	if (s == NULL) { /* longer than any that this side has asked for */
		ks.rc.qp.stats.ud_bad++;
		return;
	}
	memcpy(s->b, part->bytes, part->f.len);
	s->len = part->f.len;
	switch (gram_gather(&all_grams, part, s)) {
	case PKT_FRAG_HELD: break;
	case PKT_FRAG_DROPPED: segment_free(s); break;
	case PKT_FRAG_WHOLE: deliver_whole(part); break;
	}
	segments_free_dead();
}

/* Whether this process gets the datagrams for this port of the device. */
static bool is_here(uint32_t dev, uint16_t port)
{
	for (const struct gram *g = all_grams.slot[gram_slot(port)]; g != NULL; g = g->next)
		if (g->lport == port && (g->dev == dev || g->dev == GRAM_ANY_DEV) && ks_below_of(g)->named)
			return true;
	return false;
}

void ks_gram_hear_event(void)
{
	heard = true;
	(void)ks_gram_hear(&all_grams);
}

static void socks_burst(void) { heard = false; }

static void socks_take(const struct ks_gram *in, const struct udpl_hdr *h)
{
	const uint32_t dev = ks_dev_of(&in->to);
	const uint16_t port = udps_port(h->dst_qpn);
	const struct pkt p = { .ip_version = pkt_addr_is_ip4(&in->from) ? 4 : 6,
			       .ip_tos = in->tos,
			       .src = in->from,
			       .dst = in->to,
			       .payload_len = in->len };
	const struct gram_came came = { .dev = dev, .p = &p, .bytes = in->p, .ttl = in->hop_limit };
	struct gram_part part;

	if (dev == UINT32_MAX) {
		ks.rc.qp.stats.ud_bad++;
		return;
	}
	if (!is_here(dev, port)) {
		if (in->passed || !ks_ud_was_passed(in, ks_pass_to_sock(port, in)))
			gram_iwarp_nobody(&all_grams, &came, h);
		return;
	}
	if (!heard) {
		heard = true;
		(void)ks_gram_hear(&all_grams);
	}
	if (gram_iwarp_take(&all_grams, &came, h, &part) == GRAM_PART)
		keep_part(&part);
}

/* ---- turns ---- */

uint32_t ks_gram_timers(void)
{
	if (!ks.serves || !gram_expire(&all_grams))
		return 0;
	segments_free_dead();
	return 1;
}

uint32_t ks_gram_transmit(void)
{
	if (!ks.serves)
		return 0;
	const uint32_t n = ks_gram_heard_all() ? 0 : ks_gram_hear(&all_grams);
	return n + gram_transmit(&all_grams) + close_more();
}

void ks_gram_events(void) { gram_events(&all_grams); }

/* Whether a socket that ends can send more now. */
static bool closes_on(void)
{
	rn_list_each(const struct ks_below, b, &closing, closing)
		if (!b->gram->stuck)
			return true;
	return false;
}

bool ks_gram_more(void)
{
	return ks.serves && (!ks_gram_heard_all() || !rn_list_empty(&all_grams.telling) ||
			     ((!rn_list_empty(&all_grams.ready) || closes_on()) && !ks_ud_waits()));
}

uint64_t ks_gram_due(void)
{
	const struct ks_below *b = rn_list_first(&closing, const struct ks_below, closing);

	if (!ks.serves)
		return RN_NEVER;
	return rn_min_u64(gram_due(&all_grams), b != NULL ? b->give_up : RN_NEVER);
}

/* ---- start ---- */

bool ks_gram_start(void)
{
	static const struct ks_socks hooks = { .take = socks_take, .burst = socks_burst };
	struct grams *c = &all_grams;

	ks.socks = &hooks;
	c->plane = &over_kernel;
	c->now = &ks.now;
	c->stats = &ks.rc.qp.stats;
	if (!ks.serves)
		return true;
	c->peers = calloc(1, sizeof(*c->peers));
	c->segs = calloc(1, sizeof(*c->segs));
	segments = mmap(NULL, SEGMENTS * sizeof(*segments), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (c->peers == NULL || c->segs == NULL || segments == MAP_FAILED || !ks_gram_io_start())
		return false;
	grams_begin(c);
	return true;
}

void ks_gram_stop(void)
{
	free(all_grams.peers);
	free(all_grams.segs);
	all_grams.peers = NULL;
	all_grams.segs = NULL;
	if (segments != NULL && segments != MAP_FAILED)
		munmap(segments, SEGMENTS * sizeof(*segments));
	segments = NULL;
}

void ks_gram_close_all(void) { ks_gram_io_close(); }
