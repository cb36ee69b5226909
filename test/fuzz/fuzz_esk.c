/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any private data and any messages: counts stay within the advertised numbers, and a refused message changes no state.
 */
#include <stdlib.h>
#include <string.h>

#include "esock/esk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void hello(const uint8_t *p, uint32_t len, struct esk_hello *h)
{
	uint8_t out[ESK_HELLO_LEN];
	struct esk_hello again;

	if (esk_hello_parse(p, len, h) != ESK_HELLO_OK) {
		*h = (struct esk_hello){ .version = 1, .slots = ESK_SLOTS_MIN, .size = ESK_SIZE_MIN };
		return;
	}
	esk_hello_build(out, h);
	check(esk_hello_parse(out, sizeof(out), &again) == ESK_HELLO_OK);
	check(again.version == h->version && again.slots == h->slots && again.size == h->size);
}

/* Takes a length from the input, then so many octets. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct esk_hello own = { .version = 1, .slots = 8, .size = 64 };
	uint32_t len = (uint32_t)size, n = len < ESK_HELLO_LEN ? len : ESK_HELLO_LEN;
	struct esk_hello peer;
	struct esk e, before;
	enum esk_kind kind;
	uint8_t head[ESK_HEAD_LEN];

	hello(data, n, &peer);
	esk_init(&e, &own, &peer);
	for (uint32_t at = n; at < len;) {
		const uint32_t m = data[at] < len - at - 1 ? data[at] : len - at - 1;
		uint8_t *exact = malloc(m > 0 ? m : 1);

		memcpy(exact, data + at + 1, m);
		before = e;
		if (esk_in(&e, exact, m, &kind) == ESK_OK)
			esk_posted(&e);
		else
			check(before.credits == e.credits && before.owed == e.owed && before.in_ended == e.in_ended);
		check(e.credits <= peer.slots);
		if (esk_room(&e) > 0)
			esk_out(&e, ESK_DATA, head);
		else if (esk_credit_due(&e))
			esk_out(&e, ESK_CREDIT, head);
		free(exact);
		at += 1 + m;
	}
	return 0;
}
