/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions that code compiled with -fsanitize=thread calls (the interface of gcc and clang to the thread
 * sanitizer), and libc's functions for memory, which the linker leads here (--wrap). This file itself is compiled
 * without the sanitizer.
 */
#include "touch.h"

#include <stddef.h>
#include <string.h>

#include <rte_lcore.h>

#include "base/rn_base.h"

#define STACK (1u << 20) /* what lies this near to the thread's own variables is its stack */

static struct touch_line lines[TOUCH_LINES];
static uint32_t used;
static bool on;
static unsigned int whose = LCORE_ID_ANY;

void touch_of(unsigned int lcore) { whose = lcore; }

void touch_start(void)
{
	memset(lines, 0, sizeof(lines));
	used = 0;
	__atomic_store_n(&on, true, __ATOMIC_RELEASE);
}

void touch_stop(void) { __atomic_store_n(&on, false, __ATOMIC_RELEASE); }
const struct touch_line *touch_lines(void) { return lines; }
bool touch_lost(void) { return used > TOUCH_LINES / 2; }

static void note(const void *p, size_t len, bool store)
{
	uintptr_t at = (uintptr_t)p, here = (uintptr_t)__builtin_frame_address(0);

	if (!__atomic_load_n(&on, __ATOMIC_ACQUIRE) || rte_lcore_id() != whose || len == 0 ||
	    at - here + STACK < 2 * STACK)
		return;
	for (uintptr_t l = at / RN_CACHE_LINE; l <= (at + len - 1) / RN_CACHE_LINE; l++) {
		uint32_t i = (uint32_t)(l * 2654435761u) % TOUCH_LINES;
		while (lines[i].line != 0 && lines[i].line != l)
			i = (i + 1) % TOUCH_LINES;
		if (lines[i].line == 0 && used > TOUCH_LINES / 2)
			return;
		used += lines[i].line == 0;
		lines[i].line = l;
		lines[i].loads += !store;
		lines[i].stores += store;
		for (uintptr_t b = rn_max_u64(at, l * RN_CACHE_LINE) / 8;
		     b <= rn_min_u64(at + len - 1, l * RN_CACHE_LINE + RN_CACHE_LINE - 1) / 8; b++)
			lines[i].words |= (uint8_t)(1u << b % 8);
	}
}

/* ---- what the compiler calls ---- */

void __tsan_init(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *p);
void __tsan_func_entry(void *p) { (void)p; }
void __tsan_func_exit(void);
void __tsan_func_exit(void) {}
void __tsan_read_range(void *p, size_t len);
void __tsan_read_range(void *p, size_t len) { note(p, len, false); }
void __tsan_write_range(void *p, size_t len);
void __tsan_write_range(void *p, size_t len) { note(p, len, true); }

#define ACCESS(name, bytes, store) \
	void name(void *p); \
	void name(void *p) { note(p, bytes, store); }
#define SIZE(n) \
	ACCESS(__tsan_read##n, n, false) \
	ACCESS(__tsan_write##n, n, true) \
	ACCESS(__tsan_unaligned_read##n, n, false) \
	ACCESS(__tsan_unaligned_write##n, n, true)

SIZE(1)
SIZE(2)
SIZE(4)
SIZE(8)
SIZE(16)

/* An atomic operation is done in the strongest order, whichever the code has asked for. */
#define FETCH(bits, name, builtin) \
	uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *p, uint##bits##_t v, int order); \
	uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *p, uint##bits##_t v, int order) \
	{ \
		(void)order; \
		note((const void *)(uintptr_t)p, bits / 8, true); \
		return builtin(p, v, __ATOMIC_SEQ_CST); \
	}
#define SWAP(bits, name) \
	int __tsan_atomic##bits##_compare_exchange_##name(volatile uint##bits##_t *p, uint##bits##_t *was, \
							  uint##bits##_t v, int order, int failed); \
	int __tsan_atomic##bits##_compare_exchange_##name(volatile uint##bits##_t *p, uint##bits##_t *was, \
							  uint##bits##_t v, int order, int failed) \
	{ \
		(void)order; \
		(void)failed; \
		note((const void *)(uintptr_t)p, bits / 8, true); \
		return __atomic_compare_exchange_n(p, was, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
	}
#define ATOMIC(bits) \
	uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *p, int order); \
	uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *p, int order) \
	{ \
		(void)order; \
		note((const void *)(uintptr_t)p, bits / 8, false); \
		return __atomic_load_n(p, __ATOMIC_SEQ_CST); \
	} \
	void __tsan_atomic##bits##_store(volatile uint##bits##_t *p, uint##bits##_t v, int order); \
	void __tsan_atomic##bits##_store(volatile uint##bits##_t *p, uint##bits##_t v, int order) \
	{ \
		(void)order; \
		note((const void *)(uintptr_t)p, bits / 8, true); \
		__atomic_store_n(p, v, __ATOMIC_SEQ_CST); \
	} \
	FETCH(bits, exchange, __atomic_exchange_n) \
	FETCH(bits, fetch_add, __atomic_fetch_add) \
	FETCH(bits, fetch_sub, __atomic_fetch_sub) \
	FETCH(bits, fetch_and, __atomic_fetch_and) \
	FETCH(bits, fetch_or, __atomic_fetch_or) \
	FETCH(bits, fetch_xor, __atomic_fetch_xor) \
	SWAP(bits, strong) \
	SWAP(bits, weak)

ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
	(void)order;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order) { (void)order; }

/* ---- libc's functions, which the compiler does not look into ---- */

#define COPY(name) \
	void *__real_##name(void *to, const void *from, size_t len); \
	void *__wrap_##name(void *to, const void *from, size_t len); \
	void *__wrap_##name(void *to, const void *from, size_t len) \
	{ \
		note(from, len, false); \
		note(to, len, true); \
		return __real_##name(to, from, len); \
	}

COPY(memcpy)
COPY(memmove)

void *__real_memset(void *to, int c, size_t len);
void *__wrap_memset(void *to, int c, size_t len);
void *__wrap_memset(void *to, int c, size_t len)
{
	note(to, len, true);
	return __real_memset(to, c, len);
}

int __real_memcmp(const void *a, const void *b, size_t len);
int __wrap_memcmp(const void *a, const void *b, size_t len);
int __wrap_memcmp(const void *a, const void *b, size_t len)
{
	note(a, len, false);
	note(b, len, false);
	return __real_memcmp(a, b, len);
}
