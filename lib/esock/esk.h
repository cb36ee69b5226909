/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extended sockets (doc/extended-sockets.md): what both ends send in MPA's private data (the hello), and the messages
 * that carry a byte stream in Sends. A sender has one credit for each receive that the other end has posted.
 *
 * Hello, in the private data of Request and Reply, big endian, 12 octets: "RNXS", version, flags, slots (16 bits), size
 * of a slot (32 bits). A slot is a posted receive. A message begins with a head of 8 octets: kind, three octets of 0,
 * grant (32 bits). The grant is the number of slots that the sender of the message has posted since its last message.
 *
 * Each message takes a slot of its receiver. The last credit may be used for a CREDIT message only. An end that has
 * posted half of its slots again, without having granted them, sends a CREDIT; then the other end can send. So two ends
 * that both read never wait for each other.
 *
 * A window (doc/stream-sockets.md) is memory of the receiver into which the sender writes by RDMA. The tagged offset of
 * an octet is its position in the stream. If both hellos announce a window, each head has four octets more (room): the
 * number of octets of the window that the sender of the message has freed since its last message. A WRITTEN says how
 * many octets have been written.
 *
 * Pure. The peer is untrusted: a grant of more slots than the peer has, and a malformed message, have a verdict each.
 */
#ifndef ESK_H
#define ESK_H

#include <stdbool.h>
#include <stdint.h>

#define ESK_VERSION   1u
#define ESK_HELLO_LEN 12u
#define ESK_HEAD_LEN  8u
#define ESK_SLOTS_MIN 4u
#define ESK_SLOTS_MAX 4096u
#define ESK_SIZE_MIN  64u
#define ESK_SIZE_MAX  (1u << 20)

#define ESK_WINDOW_LEN 8u /* octets behind the hello that announce a window */
#define ESK_ROOM_LEN   4u /* octets of the room, behind the head */
/* octets of the longest head in a connection with windows: that of a WRITTEN, which ends with a number */
#define ESK_WINDOW_HEAD (ESK_HEAD_LEN + ESK_ROOM_LEN + 4u)
#define ESK_WINDOW_MIN  4096u
#define ESK_WINDOW_MAX  (1u << 30)

struct esk_hello {
	uint8_t version;
	uint16_t slots;
	uint32_t size;   /* octets of a slot: the longest message, its head included */
	uint32_t window; /* octets; 0: there is no window */
	uint32_t stag;   /* of the window */
};

enum esk_hello_verdict {
	ESK_HELLO_OK,
	ESK_HELLO_NONE, /* the peer has no extended sockets: other private data, or none */
	ESK_HELLO_BAD   /* the private data begins with "RNXS", and the rest is malformed */
};

void esk_hello_build(uint8_t out[ESK_HELLO_LEN], const struct esk_hello *h);
/* Octets after the hello are ignored: later versions may use them. h->window becomes 0. */
enum esk_hello_verdict esk_hello_parse(const uint8_t *p, uint32_t len, struct esk_hello *h);
/* A hello with the window behind it; h->window is not 0. */
void esk_window_build(uint8_t out[ESK_HELLO_LEN + ESK_WINDOW_LEN], const struct esk_hello *h);
/* Reads a hello, and the window behind it where there is one. */
enum esk_hello_verdict esk_window_parse(const uint8_t *p, uint32_t len, struct esk_hello *h);
/* The version in the Reply to a Request of version `asked`. */
static inline uint8_t esk_version(uint8_t asked) { return asked < ESK_VERSION ? asked : (uint8_t)ESK_VERSION; }

enum esk_kind {
	ESK_DATA = 1,   /* bytes follow, one at least */
	ESK_CREDIT = 2, /* nothing follows */
	ESK_END = 3,    /* nothing follows: the sender will send no more bytes */
	ESK_WRITTEN = 4 /* with windows only. The number of octets that have been written follows */
};

enum esk_verdict {
	ESK_OK,
	ESK_SHORT,     /* shorter than a head */
	ESK_UNKNOWN,   /* a kind that the connection does not have, or octets that must be 0 and are not */
	ESK_LENGTH,    /* DATA without bytes, CREDIT or END with bytes, WRITTEN of another length or of 0 octets */
	ESK_OVERDRAWN, /* grants more slots than the peer has, or more octets than its window has */
	ESK_AFTER_END, /* DATA, WRITTEN or END after an END */
	ESK_NO_ROOM,   /* more bytes than the window has room for */
};
const char *esk_verdict_text(enum esk_verdict v);

/* Both directions of a connection. */
struct esk {
	struct esk_hello own, peer;
	uint32_t credits; /* messages that may be sent: slots of the peer that are free */
	uint32_t owed;    /* own slots that were posted again and are not granted to the peer yet */
	bool out_ended, in_ended;
	uint32_t bytes;     /* of the stream in the message that was taken last */
	bool windows;       /* both ends have a window; the fields below are used only then */
	uint32_t out_room;  /* octets that the peer's window has room for */
	uint32_t in_room;   /* octets that the peer may still send */
	uint32_t room_owed; /* octets of the own window that are free, but not granted yet: the caller sets this */
	uint64_t sent, got; /* octets of the stream so far: the next octet's tagged offset */
};

void esk_init(struct esk *e, const struct esk_hello *own, const struct esk_hello *peer);

/* How many bytes a DATA message may have; 0: none may be sent now. */
static inline uint32_t esk_room(const struct esk *e)
{
	return e->credits >= 2 && !e->out_ended ? e->peer.size - ESK_HEAD_LEN : 0;
}
/* With windows: how many bytes may be sent now by a DATA or by Writes and a WRITTEN; 0: none. */
static inline uint32_t esk_window_room(const struct esk *e)
{
	return e->credits >= 2 && !e->out_ended ? e->out_room : 0;
}
/* Offset of a DATA's bytes in the message. */
static inline uint32_t esk_head_len(const struct esk *e)
{
	return e->windows ? ESK_HEAD_LEN + ESK_ROOM_LEN : ESK_HEAD_LEN;
}
/* With windows: how many bytes a DATA message may have by the size of the peer's slots. */
static inline uint32_t esk_window_data(const struct esk *e) { return e->peer.size - esk_head_len(e); }
static inline bool esk_may_end(const struct esk *e) { return e->credits >= 2 && !e->out_ended; }
/* Whether a CREDIT must be sent. */
static inline bool esk_credit_due(const struct esk *e) { return e->credits >= 1 && e->owed >= e->own.slots / 2u; }
/* Writes the head of a message that is sent now. The caller has checked that it may be sent. */
void esk_out(struct esk *e, enum esk_kind kind, uint8_t head[ESK_HEAD_LEN]);
/*
 * As esk_out(), with or without windows; bytes: the stream's bytes that a DATA has or a WRITTEN reports. Returns the
 * octets of the head.
 */
uint32_t esk_window_out(struct esk *e, enum esk_kind kind, uint32_t bytes, uint8_t head[ESK_WINDOW_HEAD]);
/*
 * With windows: whether a CREDIT must be sent to grant room in the window. Such a CREDIT is sent only with two credits,
 * as the last credit is for a CREDIT that grants half of the slots.
 */
static inline bool esk_room_due(const struct esk *e)
{
	return e->windows && e->credits >= 2 && e->room_owed >= e->own.window / 4;
}

/* Takes a received message of len octets. *kind and e->bytes are valid with ESK_OK. */
enum esk_verdict esk_in(struct esk *e, const uint8_t *p, uint32_t len, enum esk_kind *kind);
/* The slot of a received message has been posted again. */
static inline void esk_posted(struct esk *e) { e->owed++; }

#endif
