/* SPDX-License-Identifier: BSD-3-Clause */
/* The receiver's end of a reliable flow: cookies, which numbers have come, acknowledgements. */
#include "udp/udpr.h"

#include <string.h>

#include "base/rn_be.h"
#include "base/rn_seq.h"
#include "base/rn_sip.h"

#define ACK_EVERY 8u /* at most this many packets wait for an ACK */
#define WIDE      4u /* the value at UDPR_F_WINDOW that tells the window UDPR_WIDE */
_Static_assert(UDPR_WINDOW << WIDE == UDPR_WIDE, "an ACK can tell the window");

/*
 * The cookie's second half: a keyed hash of the first half (the time of its making), the peer, the flow and the
 * workers.
 */
static uint64_t cookie_hash(const uint64_t key[2], const void *peer, uint32_t peer_len, const struct udpr_hdr *h,
			    uint64_t issued)
{
	uint64_t about[3] = { rn_sip_hash(key, peer, peer_len, 0), issued, 0 };

	about[2] = (uint64_t)h->src_worker << 48 | (uint64_t)h->dst_worker << 32 | h->flow;
	return rn_sip_hash(key, about, sizeof(about), 0);
}

void udpr_cookie_make(const uint64_t key[2], const void *peer, uint32_t peer_len, const struct udpr_hdr *hello,
		      uint64_t now, struct udpr_hdr *out)
{
	uint64_t hash = cookie_hash(key, peer, peer_len, hello, now);

	*out = (struct udpr_hdr){ .kind = UDPR_COOKIE,
				  .src_worker = hello->dst_worker,
				  .dst_worker = hello->src_worker,
				  .flow = hello->flow,
				  .token = (uint32_t)hash,
				  .stamp = hello->stamp };
	rn_store_be64(out->cookie, now);
	rn_store_be64(out->cookie + 8, hash);
}

void udpr_unknown(const struct udpr_hdr *data, struct udpr_hdr *out)
{
	*out = (struct udpr_hdr){ .kind = UDPR_UNKNOWN,
				  .src_worker = data->dst_worker,
				  .dst_worker = data->src_worker,
				  .flow = data->flow,
				  .token = data->token };
}

bool udpr_rx_fold(const struct udpr_rx *rx, struct udpr_fold *f)
{
	uint64_t above = 0;

	for (uint32_t i = 0; i < RN_ARRAY_LEN(rx->bits); i++)
		above |= rx->bits[i];
	if (rx->owed > 0 || above != 0 || rx->wide != NULL)
		return false;
	*f = rx->open ? (struct udpr_fold){ .issued = rx->issued, .flow = rx->flow, .next = rx->next }
		      : (struct udpr_fold){ 0 };
	return true;
}

void udpr_rx_unfold(struct udpr_rx *rx, const uint64_t key[2], const void *peer, uint32_t peer_len,
		    const struct udpr_fold *f)
{
	const struct udpr_hdr h = { .src_worker = rx->dst_worker, .dst_worker = rx->src_worker, .flow = f->flow };

	if (f->flow == 0)
		return;
	rx->issued = f->issued;
	rx->flow = f->flow;
	rx->token = (uint32_t)cookie_hash(key, peer, peer_len, &h, f->issued);
	rx->next = f->next;
	rx->open = true;
}

static bool this_flow(const struct udpr_rx *rx, const struct udpr_hdr *h)
{
	return rx->open && h->flow == rx->flow && h->token == rx->token;
}

enum udpr_verdict udpr_rx_open(struct udpr_rx *rx, const uint64_t key[2], const void *peer, uint32_t peer_len,
			       const struct udpr_hdr *h, uint64_t now)
{
	uint64_t issued, hash;

	if (this_flow(rx, h))
		return UDPR_OK;
	if (!(h->flags & UDPR_F_COOKIE) || h->flow == 0) /* udpr_fold has no flow with the number 0 */
		return UDPR_STRANGE;
	issued = rn_load_be64(h->cookie);
	hash = rn_load_be64(h->cookie + 8);
	if (issued > now || now - issued > UDPR_COOKIE_NS || h->token != (uint32_t)hash ||
	    hash != cookie_hash(key, peer, peer_len, h, issued))
		return UDPR_BAD_COOKIE;
	/* A flow that has been replaced is not opened again: its packets may have been delivered already. */
	if (rx->open && issued <= rx->issued)
		return UDPR_BAD_COOKIE;
	uint64_t *wide = rx->wide;
	if (wide != NULL)
		memset(wide, 0, UDPR_WIDE / 8);
	*rx = (struct udpr_rx){ .heard = now,
				.wide = wide,
				.issued = issued,
				.flow = h->flow,
				.token = h->token,
				.open = true,
				.src_worker = h->dst_worker,
				.dst_worker = h->src_worker };
	return UDPR_OK;
}

static uint32_t window(const struct udpr_rx *rx) { return rx->wide != NULL ? UDPR_WIDE : UDPR_WINDOW; }

static uint64_t *word_of(struct udpr_rx *rx, uint32_t n)
{
	return rx->wide != NULL ? &rx->wide[n % UDPR_WIDE / 64] : &rx->bits[n % UDPR_WINDOW / 64];
}

static bool bit_get(struct udpr_rx *rx, uint32_t n) { return *word_of(rx, n) >> n % 64 & 1; }

void udpr_rx_widen(struct udpr_rx *rx, uint64_t *bits)
{
	uint64_t had[UDPR_WINDOW / 64];

	memcpy(had, rx->bits, sizeof(had));
	rx->wide = bits;
	for (uint32_t n = rx->next; n != rx->next + UDPR_WINDOW; n++)
		*word_of(rx, n) |= (had[n % UDPR_WINDOW / 64] >> n % 64 & 1) << n % 64;
	memset(rx->bits, 0, sizeof(rx->bits));
}

uint64_t *udpr_rx_narrow(struct udpr_rx *rx)
{
	uint64_t *bits = rx->wide;

	for (uint32_t i = 0; bits != NULL && i < UDPR_WIDE / 64; i++)
		if (bits[i] != 0)
			return NULL;
	rx->wide = NULL;
	return bits;
}

enum udpr_verdict udpr_rx_data(struct udpr_rx *rx, const struct udpr_hdr *h, uint64_t now)
{
	if (!this_flow(rx, h))
		return UDPR_STRANGE;
	rx->heard = now;
	rx->stamp = h->stamp;
	rx->much = (h->flags & UDPR_F_MUCH) != 0;
	rx->takes |= rx->much;
	if (rx->owed < UINT8_MAX)
		rx->owed++;
	if (rn_seq_lt(h->number, rx->next) || (h->number - rx->next < window(rx) && bit_get(rx, h->number))) {
		rx->flags |= UDPR_F_TWICE;
		rx->at_once = true;
		return UDPR_TWICE;
	}
	if (h->number - rx->next >= window(rx))
		return UDPR_FAR;
	rx->at_once |= h->number != rx->next;
	*word_of(rx, h->number) |= UINT64_C(1) << h->number % 64;
	for (; bit_get(rx, rx->next); rx->next++)
		*word_of(rx, rx->next) &= ~(UINT64_C(1) << rx->next % 64);
	return UDPR_OK;
}

uint64_t udpr_rx_due(const struct udpr_rx *rx, uint64_t delay)
{
	if (!rx->open || rx->owed == 0)
		return RN_NEVER;
	return rx->at_once || rx->owed >= ACK_EVERY ? 0 : rx->heard + delay;
}

uint64_t udpr_rest_due(const struct udpr_tx *t, const struct udpr_rx *rx, uint64_t idle)
{
	if (udpr_tx_busy(t) || rx->owed > 0)
		return RN_NEVER;
	return rn_max_u64(t->last_sent, rx->heard) + rn_max_u64(idle, UDPR_IDLE_MIN);
}

/* The first number from n on, and before `end`, whose bit is `set`; else `end`. */
static uint32_t seek(struct udpr_rx *rx, uint32_t n, uint32_t end, bool set)
{
	while (n != end) {
		const uint64_t w = (set ? *word_of(rx, n) : ~*word_of(rx, n)) >> n % 64;
		const uint32_t step = w != 0 ? (uint32_t)__builtin_ctzll(w) : 64 - n % 64;

		if (step >= end - n)
			return end;
		n += step;
		if (w != 0)
			return n;
	}
	return end;
}

/*
 * Adds the ranges of numbers between n and `end` that have come, lowest first, as many as the ACK has room for. Returns
 * the number after the last range; `end`: all are told.
 */
static uint32_t put_ranges(struct udpr_rx *rx, struct udpr_hdr *out, uint32_t n, uint32_t end)
{
	const uint32_t most = rx->takes ? UDPR_SACKS_MUCH : UDPR_SACKS;

	while (out->sacks < most && (n = seek(rx, n, end, true)) != end) {
		out->sack[out->sacks].from = n;
		n = seek(rx, n, end, false);
		out->sack[out->sacks++].to = n;
	}
	return n;
}

/*
 * Writes the ACK's ranges. An ACK of few ranges tells the lowest ranges, as the sender needs the fate of its oldest
 * packets most. ACKs of many ranges tell all ranges, each ACK the next ones, as every range tells of losses below it.
 */
static void put_all_ranges(struct udpr_rx *rx, struct udpr_hdr *out)
{
	const uint32_t first = rx->next + 1, end = rx->next + window(rx);
	uint32_t from = first;

	if (rx->takes && rx->turn - first < end - first)
		from = rx->turn;
	rx->turn = put_ranges(rx, out, from, end);
	if (rx->turn == end) /* all ranges above `from` are told: those below it follow */
		rx->turn = put_ranges(rx, out, first, from);
}

void udpr_rx_ack(struct udpr_rx *rx, uint64_t now, struct udpr_hdr *out)
{
	udpr_hdr_clear(out);
	out->kind = UDPR_ACK;
	out->src_worker = rx->src_worker;
	out->dst_worker = rx->dst_worker;
	out->flags = (uint8_t)(rx->flags | (rx->wide != NULL && rx->takes ? WIDE << UDPR_F_WINDOW : 0));
	out->flow = rx->flow;
	out->token = rx->token;
	out->number = rx->next;
	out->stamp = rx->stamp;
	out->hold = (uint32_t)((now - rx->heard) / RN_NS_PER_US);
	put_all_ranges(rx, out);
	rx->owed = rx->flags = 0;
	rx->at_once = false;
}
