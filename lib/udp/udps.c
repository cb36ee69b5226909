/* SPDX-License-Identifier: BSD-3-Clause */
#include "udp/udps.h"

#include <string.h>

#include "base/rn_be.h"
#include "base/rn_sip.h"
#include "crc32c/crc32c.h"

#define WANTS    2u /* one more than the number of questions that ask for slots after the last long datagram */
#define BODY_LEN (UDPS_LEN - UDPL_HDR_LEN - UDPL_CRC_LEN)

_Static_assert(sizeof(struct udps_key) == 24, "compared as bytes");

bool udps_parse(const struct udpl_hdr *h, const uint8_t *body, struct udps_msg *m)
{
	if (h->body_len != BODY_LEN)
		return false;
	*m = (struct udps_msg){ .to = udps_port(h->dst_qpn),
				.from = udps_port(h->src_qpn),
				.unit = h->unit,
				.qkey = h->qkey,
				.stag = h->total,
				.nonce = rn_load_be64(body),
				.status = body[8],
				.slots = body[9] };
	if (m->to == 0 || m->from == 0)
		return false;
	if (h->kind == UDPL_SOCK_ASK)
		return m->status == UDPS_ASKS && m->nonce != 0;
	return m->status == UDPS_NOBODY || m->status == (m->nonce != 0 ? UDPS_TAKES : UDPS_STALE);
}

void udps_build(uint8_t *out, const struct udps_msg *m)
{
	const struct udpl_hdr h = { .kind = m->status == UDPS_ASKS ? UDPL_SOCK_ASK : UDPL_SOCK_ANSWER,
				    .dst_qpn = udps_number(m->to),
				    .src_qpn = udps_number(m->from),
				    .unit = m->unit,
				    .total = m->stag,
				    .qkey = m->qkey };

	udpl_build(out, &h);
	rn_store_be64(out + UDPL_HDR_LEN, m->nonce);
	out[UDPL_HDR_LEN + 8] = m->status;
	out[UDPL_HDR_LEN + 9] = m->slots;
	udpl_crc_put(out, UDPL_HDR_LEN + BODY_LEN, crc32c(0, out, UDPL_HDR_LEN + BODY_LEN));
}

/* ---- peers ---- */

void udps_init(struct udps_table *t, const uint64_t key[2])
{
	memset(t, 0, sizeof(*t));
	memcpy(t->key, key, sizeof(t->key));
}

static struct udps_peer *set_of(struct udps_table *t, const struct udps_key *k)
{
	return t->peer[rn_sip_hash(t->key, k, sizeof(*k), 0) % UDPS_SETS];
}

static struct udps_peer *peer_in(struct udps_peer *set, const struct udps_key *k)
{
	for (uint32_t i = 0; i < UDPS_WAYS; i++)
		if (memcmp(&set[i].key, k, sizeof(*k)) == 0)
			return &set[i];
	return NULL;
}

static uint32_t peers_of(const struct udps_peer *set, uint8_t tenant)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < UDPS_WAYS; i++)
		n += set[i].used != 0 && set[i].tenant == tenant;
	return n;
}

/*
 * The peer of the set that makes room for another one of this tenant: the one that has been idle longest. While all are
 * in use, a tenant with at least two peers more than this one gives up its oldest, so that no tenant keeps the others
 * out of the table. NULL: there is no room.
 */
static struct udps_peer *room_in(struct udps_peer *set, uint8_t tenant, uint64_t now)
{
	const uint32_t own = peers_of(set, tenant);
	struct udps_peer *oldest = &set[0], *spare = NULL;

	for (uint32_t i = 0; i < UDPS_WAYS; i++) {
		if (set[i].used < oldest->used)
			oldest = &set[i];
		if (peers_of(set, set[i].tenant) >= own + 2 && (spare == NULL || set[i].used < spare->used))
			spare = &set[i];
	}
	return oldest->used == 0 || now - oldest->used >= UDPS_IDLE_NS ? oldest : spare;
}

/* The one writer of a peer's state; at: see struct udps_peer. */
static void turn_to(struct udps_peer *p, enum udps_state to, uint64_t at)
{
	p->state = (uint8_t)to;
	p->at = at;
	if (to == UDPS_SPEAKS || to == UDPS_NEW)
		p->tries = 0;
}

/* Notes that the peer is asked once more. False: all tries are used, and the peer counts as silent. */
static bool ask_again(struct udps_table *t, struct udps_peer *p, uint64_t now)
{
	if (p->tries == UDPS_TRIES) {
		turn_to(p, UDPS_PLAIN, now + UDPS_SILENT_NS);
		return false;
	}
	if (p->tries == 0)
		p->nonce = rn_sip_hash(t->key, &p->key, sizeof(p->key), ++t->nonces) | 1;
	p->at = now + (UDPS_RETRY_NS << p->tries++);
	p->wants = (uint8_t)(p->wants - (p->wants != 0));
	return true;
}

struct udps_peer *udps_way(struct udps_table *t, const struct udps_key *k, uint8_t tenant, uint64_t now, bool *ask)
{
	struct udps_peer *set = set_of(t, k), *p = peer_in(set, k);

	*ask = false;
	if (rn_unlikely(p == NULL)) {
		p = room_in(set, tenant, now);
		if (p == NULL)
			return NULL;
		*p = (struct udps_peer){ .key = *k };
	}
	p->used = now;
	p->tenant = tenant;
	if (rn_unlikely(p->state == UDPS_NEW || now >= p->at)) {
		if (p->state == UDPS_PLAIN || (p->state == UDPS_SPEAKS && now >= p->at + UDPS_OLD_NS))
			turn_to(p, UDPS_NEW, 0);
		if (p->state == UDPS_NEW)
			turn_to(p, UDPS_ASKED, 0);
		*ask = ask_again(t, p, now);
	}
	return p;
}

/* Takes an unasked message. Its Q_Key must be the one that the peer gave us, so that nobody else can send one. */
static bool hear_unasked(struct udps_peer *p, const struct udps_msg *m, uint64_t now)
{
	if (p->state != UDPS_SPEAKS || m->qkey != p->qkey)
		return false;
	if (m->status == UDPS_STALE)
		turn_to(p, UDPS_NEW, 0);
	else
		turn_to(p, UDPS_PLAIN, now + UDPS_NOBODY_NS);
	p->nonce = 0;
	return m->status == UDPS_NOBODY;
}

bool udps_slot(struct udps_peer *p, uint64_t now)
{
	if (p->wants == 0 && p->slots == 0 && p->tries == 0)
		p->at = now; /* the next datagram asks the peer */
	p->wants = WANTS;
	if (p->slots == 0 || now >= p->lent)
		return false;
	p->slot = (uint8_t)((p->slot + 1u) % p->slots);
	return true;
}

bool udps_hear(struct udps_table *t, const struct udps_key *k, const struct udps_msg *m, uint64_t now)
{
	struct udps_peer *p = peer_in(set_of(t, k), k);

	if (p == NULL)
		return false;
	if (m->nonce == 0)
		return hear_unasked(p, m, now);
	if (m->nonce != p->nonce)
		return false;
	p->nonce = 0;
	if (m->status != UDPS_TAKES || m->unit == 0) {
		turn_to(p, UDPS_PLAIN, now + UDPS_NOBODY_NS);
		return false;
	}
	p->unit = m->unit;
	p->qkey = m->qkey;
	p->stag = m->stag;
	p->slots = m->stag != 0 ? m->slots : 0;
	p->lent = now + UDPS_LENT_NS;
	turn_to(p, UDPS_SPEAKS, now + UDPS_FRESH_NS);
	return false;
}
