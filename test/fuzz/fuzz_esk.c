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
	uint8_t out[ESK_HELLO_LEN + ESK_WINDOW_LEN];
	struct esk_hello again;

	if (esk_window_parse(p, len, h) != ESK_HELLO_OK) {
		*h = (struct esk_hello){ .version = 1, .slots = ESK_SLOTS_MIN, .size = ESK_SIZE_MIN };
		return;
	}
	esk_hello_build(out, h);
	check(esk_hello_parse(out, sizeof(out), &again) == ESK_HELLO_OK);
	check(again.version == h->version && again.slots == h->slots && again.size == h->size);
	if (h->window == 0)
		return;
	esk_window_build(out, h);
	check(esk_window_parse(out, sizeof(out), &again) == ESK_HELLO_OK);
	check(again.window == h->window && again.stag == h->stag);
}

/* The input is private data, then messages. Each message is an octet with its length, then that number of octets. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct esk_hello own = { .version = 1, .slots = 8, .size = 64, .window = 4096 };
	const uint32_t most = ESK_HELLO_LEN + ESK_WINDOW_LEN;
	uint32_t len = (uint32_t)size, n = len > 5 && data[5] == 0 ? ESK_HELLO_LEN : most;
	struct esk_hello peer;
	struct esk e, before;
	enum esk_kind kind;
	uint8_t head[ESK_WINDOW_HEAD];

	n = n < len ? n : len;
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
			check(before.credits == e.credits && before.owed == e.owed && before.in_ended == e.in_ended &&
			      before.out_room == e.out_room && before.in_room == e.in_room && before.got == e.got);
		check(e.credits <= peer.slots);
		check(!e.windows || (e.out_room <= peer.window && e.in_room <= own.window));
		e.room_owed = e.windows ? own.window - e.in_room : 0; /* as if the program read at once */
		if (e.windows && esk_window_room(&e) > 0)
			(void)esk_window_out(&e, ESK_WRITTEN, 1 + esk_window_room(&e) / 2, head);
		else if (!e.windows && esk_room(&e) > 0)
			(void)esk_window_out(&e, ESK_DATA, 1, head);
		else if (esk_credit_due(&e))
			(void)esk_window_out(&e, ESK_CREDIT, 0, head);
		free(exact);
		at += 1 + m;
	}
	return 0;
}
