/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams of the reliable transport from any octets: the parser reads no octet outside, a good datagram can be built
 * again to the same octets, and neither end of a flow accepts impossible values.
 */
#include <stdlib.h>
#include <string.h>

#include "crc32c/crc32c.h"
#include "udp/udpl.h"
#include "udp/udpr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
	if (!ok)
		abort();
}

/* A flow with four packets in flight receives the datagram, with the flow's own number and token. */
static void to_sender(struct udpr_hdr h)
{
	static const struct udpr_cfg cfg = { .target = 100000, .patience = RN_NS_PER_S, .ack_delay = 100000 };
	struct udpr_pkt ring[8];
	struct udpr_tx t = { 0 };
	struct udpr_hdr out, cookie = { .kind = UDPR_COOKIE, .flow = 1, .token = 2 };
	uint64_t user, now = RN_NS_PER_S;
	uint32_t told = 0;
	bool ok;

	udpr_tx_open(&t, &cfg, ring, 8, 1);
	for (uint32_t i = 0; i < 4; i++)
		check(udpr_tx_send(&t, i, now));
	check(udpr_tx_next(&t, now, &out, &user) && out.kind == UDPR_HELLO);
	check(udpr_tx_in(&t, &cookie, now) == UDPR_OK);
	while (udpr_tx_next(&t, now, &out, &user))
		;
	h.flow = 1;
	h.token = 2;
	if (udpr_tx_in(&t, &h, now + 1000) == UDPR_OK)
		check(h.kind == UDPR_ACK || h.kind == UDPR_UNKNOWN);
	udpr_tx_tick(&t, now + 2 * RN_NS_PER_S);
	while (udpr_tx_done(&t, &user, &ok))
		told++;
	/* after `patience` each packet has been told, delivered or failed, once */
	check(told == 4 && !udpr_tx_busy(&t));
}

/* A flow that is folded and unfolded takes no packet that had come before. */
static void folded(const struct udpr_rx *rx, struct udpr_hdr *h)
{
	static const uint64_t key[2] = { 1, 2 };
	struct udpr_rx again = { .heard = RN_NS_PER_S };
	struct udpr_fold f;

	if (!udpr_rx_fold(rx, &f))
		return;
	udpr_rx_unfold(&again, key, "peer", 4, &f);
	check(again.open == (rx->flow != 0) && again.flow == rx->flow && again.next == rx->next);
	h->token = again.token;
	h->number = rx->next - 1;
	check(udpr_rx_data(&again, h, RN_NS_PER_S) == (again.open ? UDPR_TWICE : UDPR_STRANGE));
}

static void to_receiver(struct udpr_hdr h)
{
	struct udpr_rx rx = { .open = true, .flow = h.flow, .token = h.token, .next = 0xfffffff0u };
	struct udpr_hdr out;
	enum udpr_verdict v = udpr_rx_data(&rx, &h, RN_NS_PER_S);

	if (v == UDPR_OK)
		check(udpr_rx_data(&rx, &h, RN_NS_PER_S) == UDPR_TWICE);
	check(rx.next == 0xfffffff0u || rx.next == 0xfffffff1u);
	udpr_rx_ack(&rx, RN_NS_PER_S, &out);
	check(out.sacks <= 1);
	folded(&rx, &h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t key[2] = { 1, 2 };
	uint8_t *exact = malloc(size ? size : 1), out[UDPR_ACK_LEN];
	struct udpr_rx none = { 0 };
	struct udpr_hdr h;
	uint32_t len;

	memcpy(exact, data, size);
	if (udpr_parse(exact, (uint32_t)size, &h) == UDPR_OK) {
		check(h.body + h.body_len + UDPL_CRC_LEN == size);
		len = udpr_build(out, &h);
		check(len == h.body);
		if (h.kind != UDPR_HELLO) /* the body of a HELLO has no meaning */
			check(memcmp(out + 1, exact + 1, len - 1) == 0);
		to_sender(h);
		if (h.kind == UDPR_DATA) {
			to_receiver(h);
			check(udpr_rx_open(&none, key, "peer", 4, &h, RN_NS_PER_S) != UDPR_OK && !none.open);
		}
	}
	free(exact);
	return 0;
}
