/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rn_rng.h"
#include "crc32c/crc32c.h"

#define MAX_LEN 4096u

static uint8_t noise[65536 + 64];

static int setup(void **state)
{
	struct rn_rng r;

	(void)state;
	rn_rng_seed(&r, 5044);
	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (uint8_t)rn_rng_u32(&r);
	return 0;
}

/* CRC32C bit by bit, from the definition: shares no table with the library. */
static uint32_t reference(uint32_t crc, const uint8_t *p, size_t n)
{
	crc = ~crc;
	for (size_t i = 0; i < n; i++) {
		crc ^= p[i];
		for (int k = 0; k < 8; k++)
			crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0);
	}
	return ~crc;
}

/* Vectors of RFC 3720, appendix B.4, and the check value of the CRC catalogues. */
static void published_vectors(void **state)
{
	static const uint8_t read_pdu[48] = {
		0x01, 0xc0, 0, 0,    0, 0, 0, 0,    0,    0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 4, 0,
		0,    0,    0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 2,    0, 0, 0, 0, 0, 0, 0,
	};
	uint8_t b[32];

	(void)state;
	for (const struct crc32c_impl *m = crc32c_impls; m->name != NULL; m++) {
		memset(b, 0, 32);
		assert_int_equal(m->sum(0, b, 32), 0x8A9136AA);
		memset(b, 0xFF, 32);
		assert_int_equal(m->sum(0, b, 32), 0x62A8AB43);
		for (int i = 0; i < 32; i++)
			b[i] = (uint8_t)i;
		assert_int_equal(m->sum(0, b, 32), 0x46DD794E);
		for (int i = 0; i < 32; i++)
			b[i] = (uint8_t)(31 - i);
		assert_int_equal(m->sum(0, b, 32), 0x113FDB5C);
		assert_int_equal(m->sum(0, read_pdu, 48), 0xD9963A56);
		assert_int_equal(m->sum(0, "123456789", 9), 0xE3069283);
		assert_int_equal(m->sum(0, b, 0), 0);
		assert_int_equal(m->sum(0x12345678, b, 0), 0x12345678);
	}
}

static void a_table_is_there_and_the_first_is_in_use(void **state)
{
	const struct crc32c_impl *m = crc32c_impls;

	(void)state;
	assert_int_equal(crc32c(7, noise, 5000), m->sum(7, noise, 5000));
	while (m[1].name != NULL)
		m++;
	assert_string_equal(m->name, "table");
}

static void table_equals_the_definition(void **state)
{
	const struct crc32c_impl *m = crc32c_impls;

	(void)state;
	while (m[1].name != NULL)
		m++;
	for (size_t n = 0; n < 700; n++)
		assert_int_equal(m->sum((uint32_t)n * 77, noise + n % 16, n),
				 reference((uint32_t)n * 77, noise + n % 16, n));
}

/* Every implementation at every length and alignment, compared with the definition, which is computed along the way. */
static void every_length_and_alignment(void **state)
{
	static uint32_t want[MAX_LEN + 1];

	(void)state;
	for (size_t align = 0; align < 16; align++) {
		const uint8_t *p = noise + align;
		uint32_t start = (uint32_t)align * 0x9E3779B9u;

		want[0] = start;
		for (size_t n = 0; n < MAX_LEN; n++)
			want[n + 1] = reference(want[n], p + n, 1);
		for (const struct crc32c_impl *m = crc32c_impls; m->name != NULL; m++)
			for (size_t n = 0; n <= MAX_LEN; n++)
				if (m->sum(start, p, n) != want[n])
					fail_msg("%s: %zu bytes at alignment %zu", m->name, n, align);
	}
}

static void long_buffers(void **state)
{
	struct rn_rng r;

	(void)state;
	rn_rng_seed(&r, 1);
	for (int i = 0; i < 60; i++) {
		size_t off = rn_rng_below(&r, 64), n = 4096 + rn_rng_below(&r, 61440);
		uint32_t want = reference(0, noise + off, n);

		for (const struct crc32c_impl *m = crc32c_impls; m->name != NULL; m++)
			assert_int_equal(m->sum(0, noise + off, n), want);
	}
}

/* Source and destination at every offset from a word boundary; no byte around the destination changes. */
static void copy_copies_and_sums(void **state)
{
	static uint8_t dst[MAX_LEN + 256];
	struct rn_rng r;

	(void)state;
	rn_rng_seed(&r, 2);
	for (const struct crc32c_impl *m = crc32c_impls; m->name != NULL; m++) {
		for (size_t n = 0; n <= MAX_LEN; n += n < 1600 ? 1 : 13) {
			const uint8_t *src = noise + rn_rng_below(&r, 64);
			uint8_t *d = dst + 64 + rn_rng_below(&r, 64);

			memset(dst, 0xA5, sizeof(dst));
			if (m->copy(9, d, src, n) != m->sum(9, src, n))
				fail_msg("%s: %zu bytes", m->name, n);
			assert_memory_equal(d, src, n);
			for (uint8_t *g = d - 64; g < d; g++)
				assert_int_equal(*g, 0xA5);
			for (uint8_t *g = d + n; g < d + n + 64; g++)
				assert_int_equal(*g, 0xA5);
		}
	}
	assert_int_equal(crc32c_copy(3, dst, noise, 2000), reference(3, noise, 2000));
	assert_memory_equal(dst, noise, 2000);
}

/* A copy that inserts words, made in two calls, compared with one made byte by byte. */
static void copy_puts_words_in_between(void **state)
{
	static uint8_t want[12000], dst[12064];
	uint32_t word[40];
	struct rn_rng r;

	(void)state;
	rn_rng_seed(&r, 6);
	memcpy(word, noise + 1, sizeof(word));
	for (const struct crc32c_impl *m = crc32c_impls; m->name != NULL; m++) {
		for (uint32_t round = 0; round < 6000; round++) {
			const uint8_t *src = noise + rn_rng_below(&r, 64);
			uint8_t *d = dst + rn_rng_below(&r, 64);
			uint32_t n = rn_rng_below(&r, round % 4 == 0 ? 9000 : 1600), cut = rn_rng_below(&r, n + 1);
			uint32_t step = 512u << rn_rng_below(&r, 4);
			struct crc32c_words w = {
				word, round % 8 == 7 ? rn_rng_below(&r, step) : 4 * rn_rng_below(&r, step / 4), step
			};
			size_t next = w.at, len = 0, words = 0;

			for (uint32_t i = 0; i < n; i++) {
				if (len == next) {
					memcpy(want + len, &word[words++], 4);
					len += 4;
					next += step;
				}
				want[len++] = src[i];
			}
			memset(d, 0xA5, len + 1);
			uint32_t sum = m->words(9, d, src, cut, &w);
			sum = m->words(sum, d + cut + 4 * (size_t)(w.next - word), src + cut, n - cut, &w);
			if (sum != reference(9, want, len) || w.next != word + words || w.at != next - len)
				fail_msg("%s: %u bytes in pieces of %u", m->name, n, cut);
			assert_memory_equal(d, want, len);
			assert_int_equal(d[len], 0xA5);
		}
	}
}

/* Buffers that begin or end at an unmapped page: an implementation that reads or writes a byte outside them faults. */
static void never_outside_the_buffer(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *m = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static uint8_t other[MAX_LEN];
	uint32_t word = 1;

	(void)state;
	assert_ptr_not_equal(m, MAP_FAILED);
	assert_int_equal(mprotect(m, page, PROT_NONE), 0);
	assert_int_equal(mprotect(m + 2 * page, page, PROT_NONE), 0);
	memcpy(m + page, noise, page);
	for (const struct crc32c_impl *i = crc32c_impls; i->name != NULL; i++) {
		for (size_t n = 0; n <= 600; n++) {
			uint8_t *front = m + page, *back = m + 2 * page - n;

			assert_int_equal(i->sum(0, front, n), reference(0, front, n));
			assert_int_equal(i->sum(0, back, n), reference(0, back, n));
			i->copy(0, other, front, n);
			i->copy(0, other, back, n);
			i->copy(0, front, other, n);
			i->copy(0, back, other, n);
			for (size_t at = 100; at + 4 < n; at += 52) {
				struct crc32c_words in = { &word, at, 512 }, out = in;

				i->words(0, other, back + 4, n - 4, &in);
				i->words(0, back, other, n - 4, &out);
			}
		}
	}
	munmap(m, 3 * page);
}

static void pieces_make_the_whole(void **state)
{
	struct rn_rng r;

	(void)state;
	rn_rng_seed(&r, 3);
	for (int round = 0; round < 500; round++) {
		struct rn_iov iov[20];
		uint32_t n = 1 + rn_rng_below(&r, 20), crc = 0;
		size_t at = 0;

		for (uint32_t i = 0; i < n; i++) {
			iov[i].base = noise + at;
			iov[i].len = rn_rng_chance(&r, 100000) ? 0 : rn_rng_below(&r, 1u << rn_rng_below(&r, 12));
			at += iov[i].len;
			crc = crc32c(crc, iov[i].base, iov[i].len);
		}
		assert_int_equal(crc, crc32c(0, noise, at));
		assert_int_equal(crc32c_iov(0, iov, n), crc);
	}
	assert_int_equal(crc32c_iov(0x1234, NULL, 0), 0x1234);
}

static void combine_joins_two_sums(void **state)
{
	struct rn_rng r;

	(void)state;
	rn_rng_seed(&r, 4);
	for (int round = 0; round < 2000; round++) {
		size_t a = rn_rng_below(&r, 5000), b = rn_rng_below(&r, 1u << rn_rng_below(&r, 16));
		uint32_t crc_a = crc32c(0, noise, a), crc_b = crc32c(0, noise + a, b);

		assert_int_equal(crc32c_combine(crc_a, crc_b, b), crc32c(0, noise, a + b));
	}
	/*
	 * Lengths larger than any buffer: moving a CRC on by 2^32 bytes twice equals moving it on by 2^33 bytes once.
	 */
	assert_int_equal(crc32c_combine(crc32c_combine(0xDEADBEEF, 0, UINT64_C(1) << 32), 0, UINT64_C(1) << 32),
			 crc32c_combine(0xDEADBEEF, 0, UINT64_C(1) << 33));
}

/* The errors that a CRC must detect: every single-bit error, and every burst of up to 32 bits. */
static void errors_show(void **state)
{
	static uint8_t b[1500];
	uint32_t good;

	(void)state;
	memcpy(b, noise, sizeof(b));
	good = crc32c(0, b, sizeof(b));
	for (size_t bit = 0; bit < 8 * sizeof(b); bit++) {
		b[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_not_equal(crc32c(0, b, sizeof(b)), good);
		b[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	for (size_t i = 0; i + 4 <= sizeof(b); i++) {
		memcpy(b + i, &(uint32_t){ (uint32_t)i * 2654435761u + 1 }, 4);
		if (memcmp(b + i, noise + i, 4) != 0)
			assert_int_not_equal(crc32c(0, b, sizeof(b)), good);
		memcpy(b + i, noise + i, 4);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_vectors),
		cmocka_unit_test(a_table_is_there_and_the_first_is_in_use),
		cmocka_unit_test(table_equals_the_definition),
		cmocka_unit_test(every_length_and_alignment),
		cmocka_unit_test(long_buffers),
		cmocka_unit_test(copy_copies_and_sums),
		cmocka_unit_test(copy_puts_words_in_between),
		cmocka_unit_test(never_outside_the_buffer),
		cmocka_unit_test(pieces_make_the_whole),
		cmocka_unit_test(combine_joins_two_sums),
		cmocka_unit_test(errors_show),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
