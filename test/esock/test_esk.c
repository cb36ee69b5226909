/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rn_rng.h"
#include "esock/esk.h"

/* The vectors of doc/extended-sockets.md. */
static const struct {
	const char *name, *hex;
} vectors[] = {
	{ "hello", "524e5853 01000020 00004000" },
	{ "data", "01000000 00000005 62797465 73" },
	{ "credit", "02000000 00000010" },
	{ "end", "03000000 00000000" },
	/* those of doc/stream-sockets.md; the first is the private data of its Request */
	{ "window", "524e5853 01010010 00004000 0a0b0c0d 00040000" },
	{ "window_data", "01000000 00000005 00000000 62797465 73" },
	{ "window_credit", "02000000 00000000 00010000" },
	{ "window_written", "04000000 00000000 00000000 00008000" },
};

static const uint8_t *vector(const char *name, uint32_t *len)
{
	static uint8_t out[64];
	const char *at = NULL;

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
		if (strcmp(vectors[i].name, name) == 0)
			at = vectors[i].hex;
	assert_non_null(at);
	*len = 0;
	while (*at != '\0') {
		char digits[3] = { 0 };
		if (*at == ' ') {
			at++;
			continue;
		}
		memcpy(digits, at, 2);
		out[(*len)++] = (uint8_t)strtoul(digits, NULL, 16);
		at += 2;
	}
	return out;
}

static struct esk two_ends(uint16_t own, uint16_t peer)
{
	const struct esk_hello o = { .version = 1, .slots = own, .size = 64 };
	const struct esk_hello p = { .version = 1, .slots = peer, .size = 128 };
	struct esk e;

	esk_init(&e, &o, &p);
	return e;
}

static void a_hello_is_the_documents(void **state)
{
	const struct esk_hello h = { .version = 1, .slots = 32, .size = 16384 };
	uint8_t out[ESK_HELLO_LEN], more[ESK_HELLO_LEN + 5] = { 0 };
	struct esk_hello got;
	uint32_t len;
	const uint8_t *want = vector("hello", &len);

	(void)state;
	esk_hello_build(out, &h);
	assert_int_equal(len, sizeof(out));
	assert_memory_equal(out, want, len);
	memcpy(more, out, sizeof(out));
	assert_int_equal(esk_hello_parse(more, sizeof(more), &got), ESK_HELLO_OK);
	assert_int_equal(got.version, 1);
	assert_int_equal(got.slots, 32);
	assert_int_equal(got.size, 16384);
	more[5] = 0xff; /* flags are left to later versions, so a reader ignores them */
	assert_int_equal(esk_hello_parse(more, sizeof(more), &got), ESK_HELLO_OK);
}

static void private_data_that_is_no_hello_is_told_apart_from_a_wrong_one(void **state)
{
	static const struct {
		const char *octets;
		uint32_t len;
		enum esk_hello_verdict v;
	} row[] = {
		{ "", 0, ESK_HELLO_NONE },
		{ "RNX", 3, ESK_HELLO_NONE },
		{ "RNX0\1\0\0\4\0\0\0\x40", 12, ESK_HELLO_NONE },
		{ "RNXS", 4, ESK_HELLO_BAD },
		{ "RNXS\1\0\0\4\0\0\0", 11, ESK_HELLO_BAD },
		{ "RNXS\1\0\0\4\0\0\0\x40", 12, ESK_HELLO_OK },
		{ "RNXS\xff\0\x10\0\0\x10\0\0", 12, ESK_HELLO_OK },
		{ "RNXS\0\0\0\4\0\0\0\x40", 12, ESK_HELLO_BAD },
		{ "RNXS\1\0\0\3\0\0\0\x40", 12, ESK_HELLO_BAD },
		{ "RNXS\1\0\x10\1\0\0\0\x40", 12, ESK_HELLO_BAD },
		{ "RNXS\1\0\0\4\0\0\0\x3f", 12, ESK_HELLO_BAD },
		{ "RNXS\1\0\0\4\0\x10\0\1", 12, ESK_HELLO_BAD },
		{ "RNXS\1\0\0\4\xff\xff\xff\xff", 12, ESK_HELLO_BAD },
	};
	struct esk_hello h;

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		if (esk_hello_parse((const uint8_t *)row[i].octets, row[i].len, &h) != row[i].v)
			fail_msg("row %zu", i);
	assert_int_equal(esk_version(1), 1);
	assert_int_equal(esk_version(255), ESK_VERSION);
}

static void messages_are_the_documents(void **state)
{
	struct esk e = two_ends(32, 32);
	uint8_t head[ESK_HEAD_LEN];
	enum esk_kind kind;
	uint32_t len;

	(void)state;
	for (uint32_t i = 0; i < 5; i++)
		esk_posted(&e);
	esk_out(&e, ESK_DATA, head);
	assert_memory_equal(head, vector("data", &len), sizeof(head));
	for (uint32_t i = 0; i < 16; i++)
		esk_posted(&e);
	assert_true(esk_credit_due(&e));
	esk_out(&e, ESK_CREDIT, head);
	assert_memory_equal(head, vector("credit", &len), sizeof(head));
	esk_out(&e, ESK_END, head);
	assert_memory_equal(head, vector("end", &len), sizeof(head));
	assert_int_equal(esk_room(&e), 0);
	assert_int_equal(e.credits, 29);
	e = two_ends(32, 32);
	e.credits = 2;
	const uint8_t *p = vector("data", &len);
	assert_int_equal(esk_in(&e, p, len, &kind), ESK_OK);
	assert_int_equal(kind, ESK_DATA);
	assert_int_equal(e.credits, 7);
	p = vector("credit", &len);
	assert_int_equal(esk_in(&e, p, len, &kind), ESK_OK);
	assert_int_equal(e.credits, 23);
	p = vector("end", &len);
	assert_int_equal(esk_in(&e, p, len, &kind), ESK_OK);
	assert_true(e.in_ended);
	assert_int_equal(esk_in(&e, p, len, &kind), ESK_AFTER_END);
}

static void what_breaks_a_rule_changes_nothing(void **state)
{
	static const struct {
		const char *octets;
		uint32_t len;
		enum esk_verdict v;
	} row[] = {
		{ "", 0, ESK_SHORT },
		{ "\1\0\0\0\0\0\0", 7, ESK_SHORT },
		{ "\0\0\0\0\0\0\0\0x", 9, ESK_UNKNOWN },
		{ "\4\0\0\0\0\0\0\0", 8, ESK_UNKNOWN },
		{ "\1\1\0\0\0\0\0\0x", 9, ESK_UNKNOWN },
		{ "\1\0\0\1\0\0\0\0x", 9, ESK_UNKNOWN },
		{ "\1\0\0\0\0\0\0\0", 8, ESK_LENGTH },
		{ "\2\0\0\0\0\0\0\0x", 9, ESK_LENGTH },
		{ "\3\0\0\0\0\0\0\0x", 9, ESK_LENGTH },
		{ "\1\0\0\0\0\0\0\4x", 9, ESK_OVERDRAWN },
		{ "\2\0\0\0\xff\xff\xff\xff", 8, ESK_OVERDRAWN },
	};
	enum esk_kind kind;

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct esk e = two_ends(8, 8), before;
		e.credits = 5;
		before = e;
		if (esk_in(&e, (const uint8_t *)row[i].octets, row[i].len, &kind) != row[i].v)
			fail_msg("row %zu", i);
		assert_memory_equal(&e, &before, sizeof(e));
		assert_true(strlen(esk_verdict_text(row[i].v)) > 10);
	}
}

/* ---- with windows: doc/stream-sockets.md ---- */

static struct esk two_windows(uint32_t own, uint32_t peer)
{
	const struct esk_hello o = { .version = 1, .slots = 8, .size = 64, .window = own };
	const struct esk_hello p = { .version = 1, .slots = 8, .size = 128, .window = peer };
	struct esk e;

	esk_init(&e, &o, &p);
	return e;
}

static void a_hello_may_offer_a_window(void **state)
{
	const struct esk_hello h = { .version = 1, .slots = 16, .size = 16384, .window = 262144, .stag = 0x0a0b0c0d };
	static const struct {
		const char *octets;
		uint32_t len;
		enum esk_hello_verdict v;
		uint32_t window;
	} row[] = {
		{ "RNXS\1\0\0\4\0\0\0\x40\1\2\3\4\0\0\x10\0", 20, ESK_HELLO_OK, 0 },
		{ "RNXS\1\1\0\4\0\0\0\x40\1\2\3\4\0\0\x10\0", 20, ESK_HELLO_OK, 4096 },
		{ "RNXS\1\xff\0\4\0\0\0\x40\1\2\3\4\x40\0\0\0zzz", 23, ESK_HELLO_OK, 1 << 30 },
		{ "RNXS\1\1\0\4\0\0\0\x40\1\2\3\4\0\0\x10", 19, ESK_HELLO_BAD, 0 },
		{ "RNXS\1\1\0\4\0\0\0\x40", 12, ESK_HELLO_BAD, 0 },
		{ "RNXS\1\1\0\4\0\0\0\x40\1\2\3\4\0\0\x0f\xff", 20, ESK_HELLO_BAD, 0 },
		{ "RNXS\1\1\0\4\0\0\0\x40\1\2\3\4\x40\0\0\1", 20, ESK_HELLO_BAD, 0 },
		{ "RNXS\1\1\0\3\0\0\0\x40\1\2\3\4\0\0\x10\0", 20, ESK_HELLO_BAD, 0 },
		{ "rnxs\1\1\0\4\0\0\0\x40\1\2\3\4\0\0\x10\0", 20, ESK_HELLO_NONE, 0 },
	};
	uint8_t out[ESK_HELLO_LEN + ESK_WINDOW_LEN];
	struct esk_hello got;
	uint32_t len;

	(void)state;
	esk_window_build(out, &h);
	assert_memory_equal(out, vector("window", &len), sizeof(out));
	assert_int_equal(len, sizeof(out));
	assert_int_equal(esk_window_parse(out, sizeof(out), &got), ESK_HELLO_OK);
	assert_int_equal(got.window, 262144);
	assert_int_equal(got.stag, 0x0a0b0c0d);
	assert_int_equal(esk_hello_parse(out, sizeof(out), &got), ESK_HELLO_OK); /* an end that knows no windows */
	assert_int_equal(got.window, 0);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		if (esk_window_parse((const uint8_t *)row[i].octets, row[i].len, &got) != row[i].v)
			fail_msg("row %zu", i);
		if (row[i].v == ESK_HELLO_OK)
			assert_int_equal(got.window, row[i].window);
	}
}

static void messages_with_windows_are_the_documents(void **state)
{
	struct esk e = two_windows(262144, 262144);
	uint8_t head[ESK_WINDOW_HEAD];
	enum esk_kind kind;
	uint32_t len;

	(void)state;
	e.owed = 5;
	assert_int_equal(esk_window_out(&e, ESK_DATA, 5, head), 12);
	assert_memory_equal(head, vector("window_data", &len), 12);
	e.in_room -= 65536;
	e.room_owed = 65536;
	assert_true(esk_room_due(&e));
	assert_int_equal(esk_window_out(&e, ESK_CREDIT, 0, head), 12);
	assert_memory_equal(head, vector("window_credit", &len), 12);
	assert_int_equal(e.in_room, 262144);
	assert_int_equal(esk_window_out(&e, ESK_WRITTEN, 32768, head), 16);
	assert_memory_equal(head, vector("window_written", &len), 16);
	assert_int_equal(e.sent, 32773);
	assert_int_equal(esk_window_room(&e), 262144 - 32773);

	e = two_windows(262144, 262144);
	e.credits = 2;
	e.out_room = 100;
	const uint8_t *p = vector("window_data", &len);
	assert_int_equal(esk_in(&e, p, len, &kind), ESK_OK);
	assert_int_equal(kind, ESK_DATA);
	assert_int_equal(e.bytes, 5);
	assert_int_equal(e.credits, 7);
	p = vector("window_credit", &len);
	assert_int_equal(esk_in(&e, p, len, &kind), ESK_OK);
	assert_int_equal(e.out_room, 65636);
	assert_int_equal(e.bytes, 0);
	p = vector("window_written", &len);
	assert_int_equal(esk_in(&e, p, len, &kind), ESK_OK);
	assert_int_equal(kind, ESK_WRITTEN);
	assert_int_equal(e.got, 32773);
	assert_int_equal(e.in_room, 262144 - 32773);
}

static void what_breaks_a_rule_of_windows_changes_nothing(void **state)
{
	static const struct {
		const char *octets;
		uint32_t len;
		enum esk_verdict v;
	} row[] = {
		{ "\2\0\0\0\0\0\0\0", 8, ESK_SHORT },
		{ "\2\0\0\0\0\0\0\0\0\0\0", 11, ESK_SHORT },
		{ "\5\0\0\0\0\0\0\0\0\0\0\0", 12, ESK_UNKNOWN },
		{ "\1\0\0\0\0\0\0\0\0\0\0\0", 12, ESK_LENGTH },
		{ "\2\0\0\0\0\0\0\0\0\0\0\0x", 13, ESK_LENGTH },
		{ "\4\0\0\0\0\0\0\0\0\0\0\0", 12, ESK_LENGTH },
		{ "\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 15, ESK_LENGTH },
		{ "\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16, ESK_LENGTH },
		{ "\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1x", 17, ESK_LENGTH },
		{ "\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\5", 16, ESK_NO_ROOM },
		{ "\4\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff", 16, ESK_NO_ROOM },
		{ "\1\0\0\0\0\0\0\0\0\0\0\0fives", 17, ESK_NO_ROOM },
		{ "\2\0\0\0\0\0\0\0\0\0\0\x0b", 12, ESK_OVERDRAWN },
		{ "\2\0\0\0\0\0\0\0\xff\xff\xff\xff", 12, ESK_OVERDRAWN },
		{ "\2\0\0\0\0\0\0\4\0\0\0\0", 12, ESK_OVERDRAWN },
	};
	enum esk_kind kind;

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct esk e = two_windows(4096, 4096), before;
		e.credits = 5;
		e.in_room = 4;
		e.out_room = 4086;
		before = e;
		if (esk_in(&e, (const uint8_t *)row[i].octets, row[i].len, &kind) != row[i].v)
			fail_msg("row %zu", i);
		assert_memory_equal(&e, &before, sizeof(e));
		assert_true(strlen(esk_verdict_text(row[i].v)) > 10);
	}
	struct esk e = two_windows(4096, 4096);
	e.in_ended = true;
	assert_int_equal(esk_in(&e, (const uint8_t *)"\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 16, &kind), ESK_AFTER_END);
	e = two_windows(4096, 0); /* the peer has offered none */
	assert_int_equal(esk_in(&e, (const uint8_t *)"\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 16, &kind), ESK_UNKNOWN);
}

static void the_last_credit_is_not_for_room(void **state)
{
	struct esk e = two_windows(4096, 4096);

	(void)state;
	e.room_owed = 1023;
	assert_false(esk_room_due(&e));
	e.room_owed = 1024;
	assert_true(esk_room_due(&e));
	e.credits = 1;
	assert_false(esk_room_due(&e));
	assert_int_equal(esk_window_room(&e), 0);
}

static void the_last_credit_is_for_a_credit(void **state)
{
	struct esk e = two_ends(4, 4);
	uint8_t head[ESK_HEAD_LEN];

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(esk_room(&e), 128 - ESK_HEAD_LEN);
		esk_out(&e, ESK_DATA, head);
	}
	assert_int_equal(esk_room(&e), 0);
	assert_false(esk_may_end(&e));
	esk_posted(&e);
	assert_false(esk_credit_due(&e));
	esk_posted(&e);
	assert_true(esk_credit_due(&e));
	esk_out(&e, ESK_CREDIT, head);
	for (uint32_t i = 0; i < 4; i++)
		esk_posted(&e);
	assert_false(esk_credit_due(&e));
}

/* ---- two ends over a wire, of which one may be slower than the other ---- */

struct side {
	struct esk e;
	uint8_t wire[64][ESK_HEAD_LEN + 1]; /* messages on their way to the other end */
	uint32_t len[64];
	uint32_t head, tail, unread, sent, got;
};

static void say(struct side *s, enum esk_kind kind)
{
	uint8_t *at = s->wire[s->tail % 64];

	esk_out(&s->e, kind, at);
	s->len[s->tail++ % 64] = ESK_HEAD_LEN + (kind == ESK_DATA);
	s->sent += kind == ESK_DATA;
}

static bool step(struct side *s, struct side *from, uint32_t what, uint32_t most)
{
	enum esk_kind kind;

	if (what == 0 && s->sent < most && esk_room(&s->e) > 0) {
		say(s, ESK_DATA);
		return true;
	}
	if (what == 1 && from->head != from->tail) {
		const uint32_t at = from->head++ % 64;
		assert_int_equal(esk_in(&s->e, from->wire[at], from->len[at], &kind), ESK_OK);
		if (kind == ESK_DATA)
			s->unread++;
		else
			esk_posted(&s->e);
		return true;
	}
	if (what == 2 && s->unread > 0) {
		s->unread--;
		s->got++;
		esk_posted(&s->e);
		return true;
	}
	if (what == 3 && esk_credit_due(&s->e)) {
		say(s, ESK_CREDIT);
		return true;
	}
	return false;
}

static bool any_step(struct side s[2], uint32_t most)
{
	for (uint32_t i = 0; i < 8; i++)
		if (step(&s[i / 4], &s[1 - i / 4], i % 4, most))
			return true;
	return false;
}

/*
 * The steps of both ends come in random order, with random numbers of slots. No more messages are under way than the
 * receiver has slots.
 */
static void two_ends_that_read_never_wait_for_each_other(void **state)
{
	const uint32_t most = 200;

	(void)state;
	for (uint64_t seed = 1; seed <= 500; seed++) {
		struct rn_rng r;
		struct side s[2] = { { .sent = 0 } };
		rn_rng_seed(&r, seed);
		const uint16_t a = (uint16_t)(4 + rn_rng_below(&r, 20)), b = (uint16_t)(4 + rn_rng_below(&r, 20));
		s[0].e = two_ends(a, b);
		s[1].e = two_ends(b, a);
		say(&s[0], ESK_CREDIT); /* the initiator's first message is a CREDIT */
		while (s[0].got < most || s[1].got < most) {
			const uint32_t i = rn_rng_below(&r, 2);
			if (!step(&s[i], &s[1 - i], rn_rng_below(&r, 4), most) && !any_step(s, most))
				fail_msg("seed %u: both wait", (unsigned)seed);
			assert_true(s[0].tail - s[0].head + s[1].unread <= b);
			assert_true(s[1].tail - s[1].head + s[0].unread <= a);
		}
	}
}

/* ---- the same with windows ---- */

struct window_side {
	struct esk e;
	uint8_t wire[64][ESK_WINDOW_HEAD + 8];
	uint32_t len[64];
	uint32_t head, tail, unread, got;
};

static void window_say(struct window_side *s, enum esk_kind kind, uint32_t bytes)
{
	const uint32_t at = s->tail++ % 64;

	s->len[at] = esk_window_out(&s->e, kind, bytes, s->wire[at]) + (kind == ESK_DATA ? bytes : 0);
}

/* What is free of the ring behind the window, and not granted. */
static void window_owes(struct window_side *s)
{
	assert_true(s->unread + s->e.in_room <= s->e.own.window);
	s->e.room_owed = s->e.own.window - s->unread - s->e.in_room;
}

static bool window_step(struct window_side *s, struct window_side *from, uint32_t what, struct rn_rng *r)
{
	enum esk_kind kind;

	window_owes(s);
	if (what == 0 && esk_window_room(&s->e) > 0 && s->e.sent < 200000) {
		const uint32_t n = 1 + rn_rng_below(r, esk_window_room(&s->e));
		window_say(s, n <= 8 ? ESK_DATA : ESK_WRITTEN, n);
		return true;
	}
	if (what == 1 && from->head != from->tail) {
		const uint32_t at = from->head++ % 64;
		assert_int_equal(esk_in(&s->e, from->wire[at], from->len[at], &kind), ESK_OK);
		s->unread += s->e.bytes;
		esk_posted(&s->e);
		return true;
	}
	if (what == 2 && s->unread > 0) {
		const uint32_t n = 1 + rn_rng_below(r, s->unread);
		s->unread -= n;
		s->got += n;
		return true;
	}
	if (what == 3 && (esk_credit_due(&s->e) || esk_room_due(&s->e))) {
		window_say(s, ESK_CREDIT, 0);
		return true;
	}
	return false;
}

static bool window_any_step(struct window_side s[2], struct rn_rng *r)
{
	for (uint32_t i = 0; i < 8; i++)
		if (window_step(&s[i / 4], &s[1 - i / 4], i % 4, r))
			return true;
	return false;
}

/* Both ends send 200,000 octets and read, in random steps. There is always a step, and no end overruns the other. */
static void two_ends_with_windows_never_wait_for_each_other(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct rn_rng r;
		struct window_side s[2] = { { .head = 0 } };
		rn_rng_seed(&r, seed);
		const uint32_t a = 4096 + rn_rng_below(&r, 60000), b = 4096 + rn_rng_below(&r, 60000);
		s[0].e = two_windows(a, b);
		s[1].e = two_windows(b, a);
		window_say(&s[0], ESK_CREDIT, 0);
		while (s[0].got < 200000 || s[1].got < 200000) {
			const uint32_t i = rn_rng_below(&r, 2);
			if (!window_step(&s[i], &s[1 - i], rn_rng_below(&r, 4), &r) && !window_any_step(s, &r))
				fail_msg("seed %u: both wait", (unsigned)seed);
			assert_true(s[0].tail - s[0].head <= 8 && s[1].tail - s[1].head <= 8);
		}
		assert_int_equal(s[0].e.got, s[1].e.sent);
		assert_int_equal(s[1].e.got, s[0].e.sent);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hello_is_the_documents),
		cmocka_unit_test(private_data_that_is_no_hello_is_told_apart_from_a_wrong_one),
		cmocka_unit_test(messages_are_the_documents),
		cmocka_unit_test(what_breaks_a_rule_changes_nothing),
		cmocka_unit_test(a_hello_may_offer_a_window),
		cmocka_unit_test(messages_with_windows_are_the_documents),
		cmocka_unit_test(what_breaks_a_rule_of_windows_changes_nothing),
		cmocka_unit_test(the_last_credit_is_not_for_room),
		cmocka_unit_test(the_last_credit_is_for_a_credit),
		cmocka_unit_test(two_ends_that_read_never_wait_for_each_other),
		cmocka_unit_test(two_ends_with_windows_never_wait_for_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
