/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extended sockets (doc/extended-sockets.md): what both ends say in MPA's private data, and the messages that carry a
 * stream of bytes over Sends, with credits for the receives that the other end has posted.
 *
 * Hello, in the private data of Request and Reply, big endian, 12 octets: "RNXS", version, flags, slots (16 bits), size
 * of a slot (32 bits). A slot is a posted receive. A message begins with 8 octets: kind, three octets of 0, grant
 * (32 bits): how many slots more the sender of the message has posted since its last one.
 *
 * Each message takes a slot of its receiver. The last credit is for CREDIT messages: an end that owes half of its slots
 * says so, and then the other end can. So no two ends wait for each other while both read.
 *
 * Pure. The peer is untrusted: what it grants beyond its own slots, and what is no message, is a verdict.
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

struct esk_hello {
	uint8_t version;
	uint16_t slots;
	uint32_t size; /* octets of a slot: of a message at most, its head included */
};

enum esk_hello_verdict {
	ESK_HELLO_OK,
	ESK_HELLO_NONE, /* the peer has no extended sockets: other private data, or none */
	ESK_HELLO_BAD   /* "RNXS", and the rest cannot be */
};

void esk_hello_build(uint8_t out[ESK_HELLO_LEN], const struct esk_hello *h);
/* Octets behind the hello are left to later versions. */
enum esk_hello_verdict esk_hello_parse(const uint8_t *p, uint32_t len, struct esk_hello *h);
/* The version that a Reply answers a Request's with. */
static inline uint8_t esk_version(uint8_t asked) { return asked < ESK_VERSION ? asked : (uint8_t)ESK_VERSION; }

enum esk_kind {
	ESK_DATA = 1,   /* bytes follow, one at least */
	ESK_CREDIT = 2, /* nothing follows */
	ESK_END = 3     /* nothing follows: the sender will send no more bytes */
};

enum esk_verdict {
	ESK_OK,
	ESK_SHORT,     /* no room for a head */
	ESK_UNKNOWN,   /* a kind that version 1 has not, or octets that are not 0 */
	ESK_LENGTH,    /* DATA without bytes, or bytes behind another kind */
	ESK_OVERDRAWN, /* more slots granted than the peer has */
	ESK_AFTER_END, /* DATA or END behind an END */
};
const char *esk_verdict_text(enum esk_verdict v);

/* Both directions of a connection. */
struct esk {
	struct esk_hello own, peer;
	uint32_t credits; /* messages that the peer has slots for */
	uint32_t owed;    /* our own slots that have been posted again, and the peer does not know of yet */
	bool out_ended, in_ended;
};

void esk_init(struct esk *e, const struct esk_hello *own, const struct esk_hello *peer);

/* Bytes that a DATA message may have; 0: none may be sent now. */
static inline uint32_t esk_room(const struct esk *e)
{
	return e->credits >= 2 && !e->out_ended ? e->peer.size - ESK_HEAD_LEN : 0;
}
static inline bool esk_may_end(const struct esk *e) { return e->credits >= 2 && !e->out_ended; }
/* A CREDIT is to be sent. */
static inline bool esk_credit_due(const struct esk *e) { return e->credits >= 1 && e->owed >= e->own.slots / 2u; }
/* A message is sent: its head. The caller has asked whether it may be. */
void esk_out(struct esk *e, enum esk_kind kind, uint8_t head[ESK_HEAD_LEN]);

/* A message of len octets has come; *kind is valid with ESK_OK. */
enum esk_verdict esk_in(struct esk *e, const uint8_t *p, uint32_t len, enum esk_kind *kind);
/* The slot of a message that had come is posted again. */
static inline void esk_posted(struct esk *e) { e->owed++; }

#endif
