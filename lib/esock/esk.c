/* SPDX-License-Identifier: BSD-3-Clause */
#include "esock/esk.h"

#include <stddef.h>
#include <string.h>

#include "base/rn_be.h"

static const uint8_t magic[4] = { 'R', 'N', 'X', 'S' };

struct wire_hello {
	uint8_t magic[4];
	uint8_t version, flags; /* flags: FLAG_WINDOW; other bits are sent as 0, and ignored when received */
	rn_be16 slots;
	rn_be32 size;
};
_Static_assert(sizeof(struct wire_hello) == ESK_HELLO_LEN, "as in the document");

/* Behind the hello of an end that has a window. */
struct wire_window {
	rn_be32 stag, size;
};
_Static_assert(sizeof(struct wire_window) == ESK_WINDOW_LEN, "as in the document");

#define FLAG_WINDOW 1u

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

void esk_window_build(uint8_t out[ESK_HELLO_LEN + ESK_WINDOW_LEN], const struct esk_hello *h)
{
	const struct wire_window w = { .stag = rn_be32_of(h->stag), .size = rn_be32_of(h->window) };

	esk_hello_build(out, h);
	out[offsetof(struct wire_hello, flags)] = FLAG_WINDOW;
	memcpy(out + ESK_HELLO_LEN, &w, sizeof(w));
}

enum esk_hello_verdict esk_window_parse(const uint8_t *p, uint32_t len, struct esk_hello *h)
{
	const enum esk_hello_verdict v = esk_hello_parse(p, len, h);
	struct wire_window w;

	if (v != ESK_HELLO_OK || (p[offsetof(struct wire_hello, flags)] & FLAG_WINDOW) == 0)
		return v;
	if (len < ESK_HELLO_LEN + sizeof(w))
		return ESK_HELLO_BAD;
	memcpy(&w, p + ESK_HELLO_LEN, sizeof(w));
	h->stag = rn_be32_get(w.stag);
	h->window = rn_be32_get(w.size);
	return h->window >= ESK_WINDOW_MIN && h->window <= ESK_WINDOW_MAX ? ESK_HELLO_OK : ESK_HELLO_BAD;
}

const char *esk_verdict_text(enum esk_verdict v)
{
	switch (v) {
	case ESK_OK: return "it is good";
	case ESK_SHORT: return "a message is shorter than its head";
	case ESK_UNKNOWN: return "a message is of a kind that the connection does not have";
	case ESK_LENGTH: return "a message of its kind cannot have this length";
	case ESK_OVERDRAWN: return "it grants more receives than it has";
	case ESK_AFTER_END: return "it goes on behind its end";
	case ESK_NO_ROOM: return "it sends more bytes than the window has room for";
	}
	return "?";
}

void esk_init(struct esk *e, const struct esk_hello *own, const struct esk_hello *peer)
{
	*e = (struct esk){ .own = *own,
			   .peer = *peer,
			   .credits = peer->slots,
			   .windows = own->window != 0 && peer->window != 0,
			   .out_room = peer->window,
			   .in_room = own->window };
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

uint32_t esk_window_out(struct esk *e, enum esk_kind kind, uint32_t bytes, uint8_t head[ESK_WINDOW_HEAD])
{
	const rn_be32 room = rn_be32_of(e->room_owed), n = rn_be32_of(bytes);

	esk_out(e, kind, head);
	if (!e->windows)
		return ESK_HEAD_LEN;
	e->in_room += e->room_owed;
	e->room_owed = 0;
	e->out_room -= bytes;
	e->sent += bytes;
	memcpy(head + ESK_HEAD_LEN, &room, sizeof(room));
	memcpy(head + ESK_HEAD_LEN + sizeof(room), &n, sizeof(n));
	return kind == ESK_WRITTEN ? ESK_WINDOW_HEAD : esk_head_len(e);
}

/* The fields of a message in a connection with windows. */
struct room {
	uint32_t more;  /* octets that the peer grants */
	uint32_t bytes; /* of the stream */
};

/* Checks the length of a message and its fields behind the first ESK_HEAD_LEN octets, and reads these fields. */
static enum esk_verdict read_room(const struct esk *e, enum esk_kind kind, const uint8_t *p, uint32_t len,
				  struct room *r)
{
	const uint32_t head = esk_head_len(e);
	rn_be32 w;

	*r = (struct room){ 0 };
	if (len < head)
		return ESK_SHORT;
	r->bytes = len - head;
	if (kind == ESK_WRITTEN) {
		if (len != ESK_WINDOW_HEAD)
			return ESK_LENGTH;
		memcpy(&w, p + head, sizeof(w));
		r->bytes = rn_be32_get(w);
	}
	if ((kind == ESK_DATA || kind == ESK_WRITTEN) != (r->bytes > 0))
		return ESK_LENGTH;
	if (!e->windows)
		return ESK_OK;
	memcpy(&w, p + ESK_HEAD_LEN, sizeof(w));
	r->more = rn_be32_get(w);
	if (r->more > e->peer.window - e->out_room)
		return ESK_OVERDRAWN;
	return r->bytes > e->in_room ? ESK_NO_ROOM : ESK_OK;
}

enum esk_verdict esk_in(struct esk *e, const uint8_t *p, uint32_t len, enum esk_kind *kind)
{
	const uint8_t last = e->windows ? ESK_WRITTEN : ESK_END;
	struct wire_head w;
	struct room r;

	if (len < sizeof(w))
		return ESK_SHORT;
	memcpy(&w, p, sizeof(w));
	if (w.kind < ESK_DATA || w.kind > last || (w.zero[0] | w.zero[1] | w.zero[2]) != 0)
		return ESK_UNKNOWN;
	const enum esk_verdict v = read_room(e, (enum esk_kind)w.kind, p, len, &r);
	if (v != ESK_OK)
		return v;
	if (rn_be32_get(w.grant) > e->peer.slots - e->credits)
		return ESK_OVERDRAWN;
	if (w.kind != ESK_CREDIT && e->in_ended)
		return ESK_AFTER_END;
	e->credits += rn_be32_get(w.grant);
	if (w.kind == ESK_END)
		e->in_ended = true;
	e->bytes = r.bytes;
	if (e->windows) {
		e->out_room += r.more;
		e->in_room -= r.bytes;
		e->got += r.bytes;
	}
	*kind = (enum esk_kind)w.kind;
	return ESK_OK;
}
