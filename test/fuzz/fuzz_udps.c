/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Questions and answers of datagram sockets from any octets, received by a table of peers between datagrams. A good
 * message can be built again to the same octets, a peer that has not answered gets plain datagrams only, and one
 * datagram causes at most one question.
 */
#include <stdlib.h>
#include <string.h>

#include "crc32c/crc32c.h"
#include "udp/udps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct udps_table table;

static void check(bool ok)
{
	if (!ok)
		abort();
}

/* Parses a message. True: the message is one for the table. */
static bool look_word(const uint8_t *p, uint32_t len, struct udps_msg *m)
{
	uint8_t *exact = malloc(len ? len : 1), out[UDPS_LEN];
	struct udpl_hdr h;
	bool good = false;

	memcpy(exact, p, len);
	if (udpl_parse(exact, len, &h) == UDPL_OK && h.kind >= UDPL_SOCK_ASK) {
		good = udps_parse(&h, exact + UDPL_HDR_LEN, m);
		check(!good || len == UDPS_LEN);
	}
	if (good) {
		exact[2] = 0;
		exact[0] &= 0xf0;
		udpl_crc_put(exact, len - UDPL_CRC_LEN, crc32c(0, exact, len - UDPL_CRC_LEN));
		udps_build(out, m);
		check(memcmp(out, exact, sizeof(out)) == 0);
	}
	free(exact);
	return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct udps_key k = { .ip = { 1 }, .port = 2, .from = 3 };
	struct udps_peer *p = NULL;
	uint64_t now = 1;
	bool asked = false, ask;

	udps_init(&table, (const uint64_t[2]){ 1, 2 });
	while (size > 0) {
		const uint8_t op = *data;
		uint32_t len = (uint32_t)(size - 1 < UDPS_LEN ? size - 1 : UDPS_LEN);
		struct udps_msg m;

		data++;
		size--;
		now += (uint64_t)(op >> 4) * 100 * RN_NS_PER_MS;
		if ((op & 1) == 0) {
			k.ip[1] = (op >> 1) & 3;
			p = udps_way(&table, &k, 0, now, &ask);
			asked |= ask;
			check(p != NULL && p->state <= UDPS_PLAIN && p->tries <= UDPS_TRIES && (!ask || p->nonce != 0));
			check(p->state != UDPS_SPEAKS || (asked && p->unit != 0));
			if (p->state == UDPS_SPEAKS && (op & 8) != 0 && udps_slot(p, now))
				check(p->slot < p->slots && p->stag != 0 && now < p->lent);
			continue;
		}
		if (look_word(data, len, &m)) {
			if ((op & 2) != 0 && p != NULL) { /* a fuzzer does not guess a nonce or a Q_Key */
				m.nonce = m.nonce != 0 ? p->nonce : 0;
				m.qkey = m.nonce != 0 ? m.qkey : p->qkey;
			}
			check(!udps_hear(&table, &k, &m, now) || m.status == UDPS_NOBODY);
		}
		data += len;
		size -= len;
	}
	return 0;
}
