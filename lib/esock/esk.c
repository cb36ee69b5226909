/* SPDX-License-Identifier: BSD-3-Clause */
#include "esock/esk.h"

#include <string.h>

#include "base/rn_be.h"

static const uint8_t magic[4] = { 'R', 'N', 'X', 'S' };

struct wire_hello {
	uint8_t magic[4];
	uint8_t version, flags; /* flags: sent as 0, ignored when received */
	rn_be16 slots;
	rn_be32 size;
};
_Static_assert(sizeof(struct wire_hello) == ESK_HELLO_LEN, "as in the document");

struct wire_head {
	uint8_t kind;
	uint8_t zero[3];
	rn_be32 grant;
};
_Static_assert(sizeof(struct wire_head) == ESK_HEAD_LEN, "as in the document");

void esk_hello_build(uint8_t out[ESK_HELLO_LEN], const struct esk_hello *h)
{
	struct wire_hello w = { .version = h->version, .slots = rn_be16_of(h->slots), .size = rn_be32_of(h->size) };

	memcpy(w.magic, magic, sizeof(magic));
	memcpy(out, &w, sizeof(w));
}

enum esk_hello_verdict esk_hello_parse(const uint8_t *p, uint32_t len, struct esk_hello *h)
{
	struct wire_hello w;

	if (len < sizeof(magic) || memcmp(p, magic, sizeof(magic)) != 0)
		return ESK_HELLO_NONE;
	if (len < sizeof(w))
		return ESK_HELLO_BAD;
	memcpy(&w, p, sizeof(w));
	*h = (struct esk_hello){ .version = w.version, .slots = rn_be16_get(w.slots), .size = rn_be32_get(w.size) };
	if (h->version == 0 || h->slots < ESK_SLOTS_MIN || h->slots > ESK_SLOTS_MAX || h->size < ESK_SIZE_MIN ||
	    h->size > ESK_SIZE_MAX)
		return ESK_HELLO_BAD;
	return ESK_HELLO_OK;
}

const char *esk_verdict_text(enum esk_verdict v)
{
	switch (v) {
	case ESK_OK: return "it is good";
	case ESK_SHORT: return "a message is shorter than its head";
	case ESK_UNKNOWN: return "a message is of a kind that version 1 does not have";
	case ESK_LENGTH: return "a message of its kind cannot have this length";
	case ESK_OVERDRAWN: return "it grants more receives than it has";
	case ESK_AFTER_END: return "it goes on behind its end";
	}
	return "?";
}

void esk_init(struct esk *e, const struct esk_hello *own, const struct esk_hello *peer)
{
	*e = (struct esk){ .own = *own, .peer = *peer, .credits = peer->slots };
}

void esk_out(struct esk *e, enum esk_kind kind, uint8_t head[ESK_HEAD_LEN])
{
	const struct wire_head w = { .kind = (uint8_t)kind, .grant = rn_be32_of(e->owed) };

	memcpy(head, &w, sizeof(w));
	e->owed = 0;
	e->credits--;
	if (kind == ESK_END)
		e->out_ended = true;
}

enum esk_verdict esk_in(struct esk *e, const uint8_t *p, uint32_t len, enum esk_kind *kind)
{
	struct wire_head w;

	if (len < sizeof(w))
		return ESK_SHORT;
	memcpy(&w, p, sizeof(w));
	if (w.kind < ESK_DATA || w.kind > ESK_END || (w.zero[0] | w.zero[1] | w.zero[2]) != 0)
		return ESK_UNKNOWN;
	if ((w.kind == ESK_DATA) != (len > sizeof(w)))
		return ESK_LENGTH;
	if (rn_be32_get(w.grant) > e->peer.slots - e->credits)
		return ESK_OVERDRAWN;
	if (w.kind != ESK_CREDIT && e->in_ended)
		return ESK_AFTER_END;
	e->credits += rn_be32_get(w.grant);
	if (w.kind == ESK_END)
		e->in_ended = true;
	*kind = (enum esk_kind)w.kind;
	return ESK_OK;
}
