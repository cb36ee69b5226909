/* SPDX-License-Identifier: BSD-3-Clause */
/* The sender's end of a reliable flow: sending, and loss detection by RFC 8985's rules over packet numbers. */
#include "udp/udpr.h"

#include <string.h>

#include "base/rn_seq.h"

#define PTO_FIRST   (10 * RN_NS_PER_MS)  /* timeout while no round trip has been measured */
#define PTO_FLOOR   (100 * RN_NS_PER_US) /* added to the timeout: the receiver's worker has other work too */
#define BACKOFF_MAX 8u                   /* doublings of the timeout */
#define RTT_MAX_US  (60u * 1000 * 1000)  /* an echo that gives a longer round trip is not believed */
#define REO_MAX     16u                  /* the largest reordering window, in quarters of the least round trip */
#define MUCH        64u                  /* a sender with this many packets or more has much to send */

/* The one writer of a flow's state. */
static void set_state(struct udpr_tx *t, enum udpr_state s) { t->state = (uint8_t)s; }

static struct udpr_pkt *pkt(const struct udpr_tx *t, uint32_t n) { return udpr_tx_pkt(t, n); }

/* ---- lists of packets ---- */

/* The number in the ring whose low 16 bits are `half`. */
static uint32_t number_of(const struct udpr_tx *t, uint16_t half) { return t->una + (uint16_t)(half - t->una); }

static void put_last(const struct udpr_tx *t, struct udpr_list *l, uint32_t n)
{
	if (l->n++ == 0) {
		l->first = (uint16_t)n;
	} else {
		pkt(t, l->last)->next = (uint16_t)n;
		pkt(t, n)->prev = l->last;
	}
	l->last = (uint16_t)n;
}

static void take_off(const struct udpr_tx *t, struct udpr_list *l, uint32_t n)
{
	const struct udpr_pkt *p = pkt(t, n);
	const bool first = l->first == (uint16_t)n, last = l->last == (uint16_t)n;

	l->n--;
	if (first)
		l->first = p->next;
	else
		pkt(t, p->prev)->next = p->next;
	if (last)
		l->last = p->prev;
	else
		pkt(t, p->next)->prev = p->prev;
}

/* Takes the packet off the list of its state, if there is one. */
static void take_off_any(struct udpr_tx *t, uint32_t n)
{
	switch (pkt(t, n)->state) {
	case UDPR_PKT_FLIGHT: take_off(t, &t->flight, n); break;
	case UDPR_PKT_GONE: take_off(t, &t->gone, n); break;
	case UDPR_PKT_HAD: take_off(t, &t->had, n); break;
	default: break;
	}
}

void udpr_tx_open(struct udpr_tx *t, const struct udpr_cfg *cfg, struct udpr_pkt *ring, uint32_t len, uint32_t flow)
{
	uint16_t src = t->src_worker, dst = t->dst_worker;

	*t = (struct udpr_tx){ .cfg = cfg,
			       .ring = ring,
			       .mask = len - 1,
			       .flow = flow,
			       .src_worker = src,
			       .dst_worker = dst,
			       .window = UDPR_WINDOW,
			       .reo = 1,
			       .reo_due = RN_NEVER,
			       .probe = true };
	udpr_cc_start(t);
	set_state(t, UDPR_ASKING);
}

void udpr_tx_ring(struct udpr_tx *t, struct udpr_pkt *ring, uint32_t len)
{
	for (uint32_t n = t->una; n != t->end; n++)
		ring[n & (len - 1)] = *pkt(t, n);
	t->ring = ring;
	t->mask = len - 1;
}

static uint64_t stood(const struct udpr_tx *t) { return t->cfg->stood != NULL ? *t->cfg->stood : 0; }

static bool alive(const struct udpr_tx *t) { return t->state != UDPR_CLOSED && t->state != UDPR_LOST; }

bool udpr_tx_send(struct udpr_tx *t, uint64_t user, uint64_t now)
{
	if (!alive(t) || udpr_tx_room(t, t->mask + 1) == 0)
		return false;
	if (!udpr_tx_busy(t)) {
		if (t->state == UDPR_OPEN && now - t->last_sent > UDPR_TX_IDLE) {
			set_state(t, UDPR_CLOSED);
			return false;
		}
		t->heard = now - stood(t);
	}
	*pkt(t, t->end++) = (struct udpr_pkt){ .user = user };
	return true;
}

bool udpr_tx_back(struct udpr_tx *t, uint64_t *user)
{
	if (t->nxt != t->una)
		return false;
	if (!udpr_tx_busy(t)) {
		set_state(t, UDPR_CLOSED);
		return false;
	}
	*user = pkt(t, --t->end)->user;
	return true;
}

static void lose_flow(struct udpr_tx *t)
{
	set_state(t, UDPR_LOST);
	t->nxt = t->end;
	t->reo_due = RN_NEVER;
	t->probe = false;
}

/* ---- sending ---- */

static void start_hdr(const struct udpr_tx *t, enum udpr_kind kind, uint64_t now, struct udpr_hdr *out)
{
	udpr_hdr_clear(out);
	out->kind = (uint8_t)kind;
	out->src_worker = t->src_worker;
	out->dst_worker = t->dst_worker;
	out->flow = t->flow;
	out->token = t->token;
	out->stamp = (uint32_t)(now / RN_NS_PER_US);
}

static void put_data(struct udpr_tx *t, uint32_t n, uint64_t now, struct udpr_hdr *out)
{
	struct udpr_pkt *p = pkt(t, n);

	start_hdr(t, UDPR_DATA, now, out);
	out->number = n;
	if (t->state == UDPR_OPENING) {
		out->flags = UDPR_F_COOKIE;
		memcpy(out->cookie, t->cookie, UDPR_COOKIE_LEN);
	}
	if (t->end - t->una >= MUCH)
		out->flags |= UDPR_F_MUCH;
	take_off_any(t, n);
	put_last(t, &t->flight, n);
	p->again = p->state != UDPR_PKT_NEW;
	p->state = UDPR_PKT_FLIGHT;
	p->sent = t->last_sent = now;
	udpr_cc_sent(t, now);
}

/* Whether there is a packet that was not sent yet and for which the receiver's window has room. */
static bool may_be_new(const struct udpr_tx *t) { return t->nxt != t->end && t->nxt - t->una < t->window; }

/* The packet to send now. A probe is the last packet in flight (RFC 8985, 7.3), and ignores the window. */
static bool choose(struct udpr_tx *t, uint64_t now, uint32_t *n)
{
	if (t->probe) {
		t->probe = false;
		for (*n = t->nxt; (*n)-- != t->una;)
			if (pkt(t, *n)->state == UDPR_PKT_FLIGHT)
				return true;
	}
	if (!udpr_cc_room(t, now))
		return false;
	if (t->gone.n > 0) {
		*n = number_of(t, t->gone.first);
		return true;
	}
	if (!may_be_new(t))
		return false;
	*n = t->nxt++;
	return true;
}

bool udpr_tx_next(struct udpr_tx *t, uint64_t now, struct udpr_hdr *out, uint64_t *user)
{
	uint32_t n;

	if (!alive(t) || !udpr_tx_busy(t))
		return false;
	if (t->state == UDPR_ASKING) {
		if (!t->probe)
			return false;
		t->probe = false;
		t->last_sent = now;
		start_hdr(t, UDPR_HELLO, now, out);
		return true;
	}
	if (!choose(t, now, &n))
		return false;
	*user = pkt(t, n)->user;
	put_data(t, n, now, out);
	return true;
}

/* ---- acknowledgement and loss ---- */

static uint64_t reo_window(const struct udpr_tx *t) { return rn_min_u64((uint64_t)t->min_rtt * t->reo / 4, t->srtt); }

/*
 * RACK (RFC 8985, 6.2): a packet counts as lost if a packet that was sent later has come, and a round trip plus the
 * reordering window have passed since the packet was sent. If packets will count as lost later, reo_due says when.
 */
static void find_lost(struct udpr_tx *t, uint64_t now)
{
	const uint64_t wait = t->rack_rtt + reo_window(t);
	uint16_t at = t->flight.first;
	uint32_t lost = 0;

	t->reo_due = RN_NEVER;
	for (uint32_t left = t->flight.n; left > 0; left--) {
		const uint32_t n = number_of(t, at);
		struct udpr_pkt *p = pkt(t, n);

		at = p->next;
		if (p->sent > t->rack_sent)
			break;
		if (p->sent == t->rack_sent && rn_seq_gt(n, t->rack_num))
			continue;
		if (p->sent + wait > now) {
			t->reo_due = p->sent + wait;
			break;
		}
		take_off(t, &t->flight, n);
		put_last(t, &t->gone, n);
		p->state = UDPR_PKT_GONE;
		lost++;
	}
	if (lost != 0)
		udpr_cc_loss(t, lost, now);
}

/* The receiver has the packets from number `from` to before `to`. Returns how many of these are newly reported. */
static uint32_t take_range(struct udpr_tx *t, uint32_t from, uint32_t to, uint64_t now)
{
	const uint32_t first = rn_seq_max(from, t->una);
	uint32_t news = 0, n = first;

	while (rn_seq_lt(n, to)) {
		struct udpr_pkt *p = pkt(t, n);

		if (p->state == UDPR_PKT_HAD || p->state == UDPR_PKT_TOLD) {
			n += p->run;
			continue;
		}
		take_off_any(t, n);
		put_last(t, &t->had, n);
		p->state = UDPR_PKT_HAD;
		p->run = 1;
		news++;
		/* an ACK sooner than the least round trip is of an earlier sending (RFC 8985, 6.2, step 2) */
		if (p->sent >= t->rack_sent && !(p->again && now - p->sent < t->min_rtt)) {
			t->rack_sent = p->sent;
			t->rack_num = n;
			t->rack_rtt = (uint32_t)rn_min_u64(now - p->sent, UINT32_MAX);
		}
		n++;
	}
	if (rn_seq_lt(first, n)) /* the next ACK tells the same range or a longer one: skip it quickly then */
		pkt(t, first)->run = (uint16_t)rn_min_u32(n - first, UINT16_MAX);
	return news;
}

/* A round trip from the peer's echo, smoothed as in RFC 6298, 2. 0: the echo is implausible. */
static uint64_t measure(struct udpr_tx *t, const struct udpr_hdr *h, uint64_t now)
{
	uint32_t us = (uint32_t)(now / RN_NS_PER_US) - h->stamp, ns, off;

	if (us > RTT_MAX_US || h->hold > us)
		return 0;
	ns = (uint32_t)rn_min_u64(rn_max_u32(us - h->hold, 1) * RN_NS_PER_US, UINT32_MAX);
	if (t->srtt == 0) {
		t->srtt = t->min_rtt = ns;
		t->rttvar = ns / 2;
		return ns;
	}
	off = ns > t->srtt ? ns - t->srtt : t->srtt - ns;
	t->rttvar = t->rttvar - t->rttvar / 4 + off / 4;
	t->srtt = t->srtt - t->srtt / 8 + ns / 8;
	t->min_rtt = rn_min_u32(t->min_rtt, ns);
	return ns;
}

/*
 * Whether the ACK tells only of packets that were sent. Distances from the ACK's number are compared: RFC 1982's order
 * of two numbers says nothing about a third one.
 */
static bool ack_sound(const struct udpr_tx *t, const struct udpr_hdr *h)
{
	const uint32_t most = t->nxt - h->number;

	if (rn_seq_gt(h->number, t->nxt))
		return false;
	for (uint32_t i = 0; i < h->sacks; i++) {
		const uint32_t from = h->sack[i].from - h->number, to = h->sack[i].to - h->number;

		if (from >= to || to > most)
			return false;
	}
	return true;
}

static enum udpr_verdict take_ack(struct udpr_tx *t, const struct udpr_hdr *h, uint64_t now)
{
	uint32_t news;
	uint64_t rtt;

	if (h->sacks > UDPR_SACKS_MUCH || !ack_sound(t, h))
		return UDPR_FAR;
	if (t->state == UDPR_OPENING)
		set_state(t, UDPR_OPEN);
	t->window = rn_min_u32(UDPR_WINDOW << (h->flags >> UDPR_F_WINDOW), UDPR_WIDE);
	/* A needless retransmission means that the path reorders more than was assumed (RFC 8985, 6.2, step 4). */
	if (h->flags & UDPR_F_TWICE && t->reo < REO_MAX)
		t->reo++;
	news = take_range(t, t->una, h->number, now);
	for (uint32_t i = 0; i < h->sacks; i++)
		news += take_range(t, h->sack[i].from, h->sack[i].to, now);
	if (news == 0)
		return UDPR_OK;
	t->heard = now - stood(t);
	t->probes = 0;
	t->probe = false;
	/* If a packet came twice, the echo may be of the copy that was long on the way. */
	rtt = h->flags & UDPR_F_TWICE ? 0 : measure(t, h, now);
	if (rtt != 0)
		udpr_cc_ack(t, rtt, (h->flags & UDPR_F_LATE) != 0, news, now);
	find_lost(t, now);
	return UDPR_OK;
}

enum udpr_verdict udpr_tx_in(struct udpr_tx *t, const struct udpr_hdr *h, uint64_t now)
{
	bool asking = t->state == UDPR_ASKING;

	if (!alive(t) || h->flow != t->flow || asking != (h->kind == UDPR_COOKIE) || (!asking && h->token != t->token))
		return UDPR_STRANGE;
	switch (h->kind) {
	case UDPR_COOKIE:
		memcpy(t->cookie, h->cookie, UDPR_COOKIE_LEN);
		t->token = h->token;
		t->probes = 0;
		t->probe = false;
		t->heard = now - stood(t);
		(void)measure(t, h, now);
		set_state(t, UDPR_OPENING);
		return UDPR_OK;
	case UDPR_ACK: return take_ack(t, h, now);
	case UDPR_UNKNOWN: lose_flow(t); return UDPR_OK;
	default: return UDPR_BAD_KIND;
	}
}

/* ---- time ---- */

static uint64_t probe_due(const struct udpr_tx *t)
{
	uint64_t pto = PTO_FIRST;

	if (t->state != UDPR_ASKING && t->flight.n == 0)
		return RN_NEVER;
	if (t->srtt != 0)
		pto = rn_max_u64(2ull * t->srtt, t->srtt + 4ull * t->rttvar) + t->cfg->ack_delay + PTO_FLOOR;
	/* udpr_cc_longest(): a peer is probed several times within `patience`, whatever round trip was measured. */
	return t->last_sent + rn_min_u64(pto << rn_min_u32(t->probes, BACKOFF_MAX), udpr_cc_longest(t));
}

static uint64_t patience_ends(const struct udpr_tx *t) { return t->heard + t->cfg->patience + stood(t); }

uint64_t udpr_tx_timer(const struct udpr_tx *t, uint64_t now)
{
	uint64_t due;

	if (!alive(t) || !udpr_tx_busy(t))
		return RN_NEVER;
	if (t->probe)
		return now;
	due = rn_min_u64(rn_min_u64(patience_ends(t), probe_due(t)), t->reo_due);
	if (t->state != UDPR_ASKING && (t->gone.n > 0 || may_be_new(t)) && udpr_cc_room(t, rn_max_u64(now, t->pace)))
		due = rn_min_u64(due, rn_max_u64(now, t->pace));
	return due;
}

/* The first timeout only probes; the second in a row counts all packets in flight as lost (RFC 6298, 5.4 to 5.6). */
void udpr_tx_tick(struct udpr_tx *t, uint64_t now)
{
	if (!alive(t) || !udpr_tx_busy(t))
		return;
	if (now >= patience_ends(t)) {
		lose_flow(t);
		return;
	}
	if (now >= t->reo_due)
		find_lost(t, now);
	if (t->probe || now < probe_due(t))
		return;
	if (t->probes < UINT8_MAX)
		t->probes++;
	if (t->state == UDPR_ASKING || t->probes == 1) {
		t->probe = true;
		return;
	}
	while (t->flight.n > 0) {
		const uint32_t n = number_of(t, t->flight.first);
		take_off(t, &t->flight, n);
		put_last(t, &t->gone, n);
		pkt(t, n)->state = UDPR_PKT_GONE;
	}
	t->pace = now;
	t->reo_due = RN_NEVER;
	udpr_cc_timeout(t, now);
}

/* Returns packet n to the caller of udpr_tx_done(), and frees the numbers up to the first packet not returned. */
static void tell(struct udpr_tx *t, uint32_t n, uint64_t *user, bool *delivered)
{
	struct udpr_pkt *p = pkt(t, n);

	*user = p->user;
	*delivered = p->state == UDPR_PKT_HAD;
	take_off_any(t, n);
	p->state = UDPR_PKT_TOLD;
	while (t->una != t->nxt && pkt(t, t->una)->state == UDPR_PKT_TOLD)
		t->una++;
}

bool udpr_tx_done(struct udpr_tx *t, uint64_t *user, bool *delivered)
{
	if (t->state == UDPR_LOST && udpr_tx_busy(t)) {
		tell(t, t->una, user, delivered);
		return true;
	}
	if (t->had.n == 0)
		return false;
	tell(t, number_of(t, t->had.first), user, delivered);
	return true;
}
