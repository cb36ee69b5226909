/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IPv4 fragments that the input describes, through pkt_parse and pkt_frag. A record is two bytes of time, source and
 * identification, then the fragment field, then two bytes of length. Every reference comes back once, the table is
 * bounded, and a datagram that is reported whole has no hole, no overlap, and a header that reads back.
 */
#include <stdlib.h>
#include <string.h>

#include "base/rn_be.h"
#include "pkt/pkt_frag.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RECORD 7u
#define MOST   4096u

/* A fragment that the table may hold; the reference is the address of this struct. */
struct buffer {
	struct pkt_frag f;
	uint8_t frame[PKT_ETH_LEN + 60];
	bool out;
};
static struct buffer buffers[MOST];
static uint32_t held;

static void must(bool ok)
{
	if (!ok)
		abort();
}

static struct buffer *back(void *ref)
{
	struct buffer *b = ref;

	must(b->out);
	b->out = false;
	held--;
	return b;
}

static void take_dead(struct pkt_frag_table *t)
{
	void *ref;

	while ((ref = pkt_frag_dead(t)) != NULL)
		back(ref);
}

static void take_whole(struct pkt_frag_table *t)
{
	struct buffer *first = back(pkt_frag_whole(t)), *last = first;
	uint32_t end = first->f.len;
	void *ref;

	must(first->f.off == 0);
	while ((ref = pkt_frag_whole(t)) != NULL) {
		must(last->f.more);
		last = back(ref);
		must(last->f.off == end && last->f.id == first->f.id && last->f.src == first->f.src);
		end += last->f.len;
	}
	must(!last->f.more && first->f.hdr_len + end <= 65535);
	struct pkt p;
	pkt_frag_join(t, first->frame + PKT_ETH_LEN);
	enum pkt_verdict v = pkt_parse(first->frame, sizeof(first->frame), PKT_ETH_LEN + first->f.hdr_len + end, &p);
	must(v != PKT_FRAGMENT && v != PKT_BAD_CHECKSUM);
	must(p.l4_len == end || p.kind == PKT_KIND_UDP);
}

/* Makes a frame with the header of this fragment and without payload. False: pkt_parse refuses it. */
static bool make(struct buffer *b, const uint8_t *r)
{
	const uint32_t hdr = 20u + (r[6] >> 5) % 4u * 4u, len = (uint32_t)(r[5] << 8 | r[6]) % 8192u;
	uint8_t *ip = b->frame + PKT_ETH_LEN;
	struct pkt p;

	memset(b->frame, 0, sizeof(b->frame));
	rn_store_be16(b->frame + 12, PKT_ETHERTYPE_IP4);
	ip[0] = (uint8_t)(0x40u | hdr / 4);
	ip[1] = r[2] >> 6;
	rn_store_be16(ip + 2, (uint16_t)(hdr + len));
	rn_store_be16(ip + 4, r[2] & 3);
	ip[6] = r[3];
	ip[7] = r[4];
	ip[9] = PKT_PROTO_UDP;
	ip[15] = r[1] & 7;
	const uint16_t sum = (uint16_t)~pkt_sum_fold(pkt_sum(ip, hdr));
	memcpy(ip + 10, &sum, 2);
	if (pkt_parse(b->frame, sizeof(b->frame), PKT_ETH_LEN + hdr + len, &p) != PKT_FRAGMENT)
		return false;
	return pkt_frag_read(b->frame, &p, &b->f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t key[2] = { 3, 5 };
	struct pkt_frag_counts c = { 0 };
	struct pkt_frag_table *t = malloc(sizeof(*t));
	uint64_t now = 0;

	held = 0;
	pkt_frag_init(t, size % 2 ? PKT_FRAG_PIECES : 0, size / 2 % 4, key, &c);
	for (uint32_t i = 0; i < size / RECORD && i < MOST; i++) {
		const uint8_t *r = data + i * RECORD;
		struct buffer *b = &buffers[i];
		now += r[0] * RN_NS_PER_MS;
		if (r[0] > 250) {
			must(pkt_frag_expire(t, now) > now);
			take_dead(t);
		}
		b->out = false;
		if (!make(b, r))
			continue;
		b->out = true;
		held++;
		switch (pkt_frag_in(t, &b->f, b, now)) {
		case PKT_FRAG_HELD: break;
		case PKT_FRAG_WHOLE: take_whole(t); break;
		case PKT_FRAG_DROPPED: back(b); break;
		}
		take_dead(t);
		must(held <= t->pieces_max && held == t->pieces);
	}
	pkt_frag_clear(t);
	take_dead(t);
	must(held == 0 && pkt_frag_due(t) == RN_NEVER);
	free(t);
	return 0;
}
