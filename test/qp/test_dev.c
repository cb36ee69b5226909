/* SPDX-License-Identifier: BSD-3-Clause */
/* The STag table, and attributes that come from clients. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "rig.h"

#define N 64u

static struct qp_dev dev;
static struct qp_mr table[N];
static uint8_t mem[8192];

static uint32_t reg(uint64_t iova, const struct qp_piece *p, uint32_t n, uint32_t rights)
{
	struct qp_mr_attr a = { .pd = 1, .rights = rights, .iova = iova, .pieces = p, .npieces = n };
	uint32_t stag = 0;

	a.len = p[n - 1].end;
	assert_int_equal(qp_mr_reg(&dev, &a, &stag), QP_MR_OK);
	return stag;
}

static enum qp_mr_verdict look(uint32_t stag, uint64_t to, uint32_t len)
{
	const struct qp_access a = { .pd = 1, .stag = stag, .to = to, .len = len, .rights = QP_ACC_REMOTE_WRITE };
	struct rn_iov out[4];
	uint32_t n;
	enum qp_mr_verdict v = qp_mr_slices(&dev, &a, out, 4, &n);

	assert_int_equal(qp_mr_check(&dev, &a), v == QP_MR_TOO_MANY ? QP_MR_OK : v);
	if (v == QP_MR_OK)
		assert_int_equal(rn_iov_len(out, n), len);
	return v;
}

static int make(void **state)
{
	(void)state;
	memset(table, 0, sizeof(table));
	qp_dev_init(&dev, table, N, 7);
	return 0;
}

static void bounds(void **state)
{
	const struct qp_piece p = { mem, 4096 };
	uint32_t s = reg(0x10000, &p, 1, QP_ACC_ALL);

	(void)state;
	assert_int_equal(look(s, 0x10000, 4096), QP_MR_OK);
	assert_int_equal(look(s, 0x10000, 4097), QP_MR_BAD_BOUNDS);
	assert_int_equal(look(s, 0x10fff, 1), QP_MR_OK);
	assert_int_equal(look(s, 0x10fff, 2), QP_MR_BAD_BOUNDS);
	assert_int_equal(look(s, 0x11000, 1), QP_MR_BAD_BOUNDS);
	assert_int_equal(look(s, 0xffff, 1), QP_MR_BAD_BOUNDS);
	assert_int_equal(look(s, 0, UINT32_MAX), QP_MR_BAD_BOUNDS);
	assert_int_equal(look(s, UINT64_MAX, 1), QP_MR_BAD_BOUNDS);
	assert_int_equal(look(s, UINT64_MAX, 2), QP_MR_TO_WRAP);
	assert_int_equal(look(s, UINT64_MAX - UINT32_MAX + 1, UINT32_MAX), QP_MR_BAD_BOUNDS);
	assert_int_equal(look(s, UINT64_MAX - UINT32_MAX + 2, UINT32_MAX), QP_MR_TO_WRAP);
	assert_int_equal(look(s, 77, 0), QP_MR_OK);
	assert_int_equal(look(~s, 77, 0), QP_MR_OK);
	assert_int_equal(look(s ^ 1, 0x10000, 1), QP_MR_BAD_STAG);
	assert_int_equal(look(s + 256, 0x10000, 1), QP_MR_BAD_STAG);
	assert_int_equal(look(N << 8, 0x10000, 1), QP_MR_BAD_STAG);
	assert_int_equal(look(0, 0x10000, 1), QP_MR_BAD_STAG);
}

/* A region may end at the last tagged offset. */
static void last_offset(void **state)
{
	const struct qp_piece p = { mem, 4096 };
	uint32_t s = reg(UINT64_MAX - 4095, &p, 1, QP_ACC_ALL);

	(void)state;
	assert_int_equal(look(s, UINT64_MAX, 1), QP_MR_OK);
	assert_int_equal(look(s, UINT64_MAX - 4095, 4096), QP_MR_OK);
	assert_int_equal(look(s, UINT64_MAX - 4095, 4097), QP_MR_TO_WRAP);
	struct qp_mr_attr a = { .pd = 1, .iova = UINT64_MAX - 4094, .len = 4096, .pieces = &p, .npieces = 1 };
	assert_int_equal(qp_mr_reg(&dev, &a, &s), QP_MR_BAD_ATTR);
}

static void pieces(void **state)
{
	const struct qp_piece p[] = { { mem + 4000, 10 }, { mem, 11 }, { mem + 100, 511 }, { mem + 2000, 514 } };
	uint32_t s = reg(1000, p, 4, QP_ACC_ALL), n;
	struct qp_access a = { .pd = 1, .stag = s, .to = 1005, .len = 20 };
	struct rn_iov out[4];

	(void)state;
	assert_int_equal(qp_mr_slices(&dev, &a, out, 4, &n), QP_MR_OK);
	assert_int_equal(n, 3);
	assert_ptr_equal(out[0].base, mem + 4005);
	assert_int_equal(out[0].len, 5);
	assert_ptr_equal(out[1].base, mem);
	assert_int_equal(out[1].len, 1);
	assert_ptr_equal(out[2].base, mem + 100);
	assert_int_equal(out[2].len, 14);
	assert_int_equal(qp_mr_slices(&dev, &a, out, 2, &n), QP_MR_TOO_MANY);
	assert_int_equal(n, 2);
	a.len = 509;
	assert_int_equal(qp_mr_slices(&dev, &a, out, 4, &n), QP_MR_OK);
	assert_int_equal(n, 4);
	assert_int_equal(out[3].len, 3);
	a.len = 510;
	assert_int_equal(qp_mr_slices(&dev, &a, out, 4, &n), QP_MR_BAD_BOUNDS);
}

/* A client may have many pieces of a page, and post accesses to the last one: no access reads the whole list. */
static void a_long_list_of_pieces_is_not_walked(void **state)
{
	const uint32_t n = 65536;
	struct qp_piece *p = mmap(NULL, n * sizeof(*p), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct qp_access a = { .pd = 1, .len = 2 };
	struct rn_iov out[2];
	uint32_t k;

	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	for (uint32_t i = 0; i < n; i++)
		p[i] = (struct qp_piece){ mem + i % 4096, i + 1 };
	a.stag = reg(0, p, n, QP_ACC_ALL);
	for (uint32_t i = 0; i < n - 1; i += 97) {
		a.to = i;
		assert_int_equal(qp_mr_slices(&dev, &a, out, 2, &k), QP_MR_OK);
		assert_int_equal(k, 2);
		assert_ptr_equal(out[0].base, mem + i % 4096);
		assert_ptr_equal(out[1].base, mem + (i + 1) % 4096);
	}
	/* the search for the last bytes must not read the first quarter */
	assert_int_equal(mprotect(p, n / 4 * sizeof(*p), PROT_NONE), 0);
	a.to = n - 2;
	assert_int_equal(qp_mr_slices(&dev, &a, out, 2, &k), QP_MR_OK);
	assert_ptr_equal(out[1].base, mem + (n - 1) % 4096);
	munmap(p, n * sizeof(*p));
}

static void rights_and_domains(void **state)
{
	const struct qp_piece p = { mem, 64 };
	uint32_t s = reg(0, &p, 1, QP_ACC_LOCAL_WRITE | QP_ACC_REMOTE_READ);
	struct qp_access a = { .pd = 1, .stag = s, .len = 1, .rights = QP_ACC_REMOTE_READ };

	(void)state;
	assert_int_equal(qp_mr_check(&dev, &a), QP_MR_OK);
	a.rights = QP_ACC_REMOTE_READ | QP_ACC_REMOTE_WRITE;
	assert_int_equal(qp_mr_check(&dev, &a), QP_MR_BAD_RIGHTS);
	a.rights = 0;
	assert_int_equal(qp_mr_check(&dev, &a), QP_MR_OK);
	a.pd = 2;
	assert_int_equal(qp_mr_check(&dev, &a), QP_MR_BAD_PD);
}

static void bad_registrations(void **state)
{
	const struct qp_piece p[] = { { mem, 64 }, { mem, 128 } }, none = { mem, 0 };
	const struct qp_piece huge[] = { { mem, UINT64_MAX }, { mem, 2 } };
	struct qp_mr_attr a = { .pd = 1, .len = 128, .pieces = p, .npieces = 2 };
	uint32_t s;

	(void)state;
	a.len = 127;
	assert_int_equal(qp_mr_reg(&dev, &a, &s), QP_MR_BAD_ATTR);
	a.len = 129;
	assert_int_equal(qp_mr_reg(&dev, &a, &s), QP_MR_BAD_ATTR);
	a = (struct qp_mr_attr){ .pieces = &none, .npieces = 1 };
	assert_int_equal(qp_mr_reg(&dev, &a, &s), QP_MR_BAD_ATTR);
	a = (struct qp_mr_attr){ .pieces = p, .npieces = 0 };
	assert_int_equal(qp_mr_reg(&dev, &a, &s), QP_MR_BAD_ATTR);
	a = (struct qp_mr_attr){ .len = 1, .pieces = huge, .npieces = 2 }; /* the second piece ends before the first */
	assert_int_equal(qp_mr_reg(&dev, &a, &s), QP_MR_BAD_ATTR);
	a = (struct qp_mr_attr){ .len = 64, .pieces = p, .npieces = 1, .rights = QP_ACC_ZERO_BASED };
	assert_int_equal(qp_mr_reg(&dev, &a, &s), QP_MR_BAD_ATTR);
	assert_int_equal(dev.live, 0);
}

static void a_stale_stag_names_nothing(void **state)
{
	const struct qp_piece p = { mem, 64 };
	uint32_t first = reg(0, &p, 1, QP_ACC_ALL), s = 0;
	bool drawn[N] = { false };

	(void)state;
	assert_int_not_equal(first >> 8, 0);
	assert_int_equal(qp_mr_dereg(&dev, first ^ 1), QP_MR_BAD_STAG);
	assert_int_equal(qp_mr_dereg(&dev, first), QP_MR_OK);
	assert_int_equal(qp_mr_dereg(&dev, first), QP_MR_BAD_STAG);
	assert_int_equal(qp_mr_dereg(&dev, UINT32_MAX), QP_MR_BAD_STAG);
	assert_int_equal(look(first, 0, 1), QP_MR_BAD_STAG);
	for (uint32_t i = 0; i < N - 1; i++) { /* each index is given out once more; the first one with another key */
		s = reg(0, &p, 1, QP_ACC_ALL);
		assert_true(s >> 8 > 0 && s >> 8 < N);
		assert_false(drawn[s >> 8]);
		drawn[s >> 8] = true;
		assert_int_not_equal(s, first);
	}
	assert_int_equal(look(first, 0, 1), QP_MR_BAD_STAG);
	struct qp_mr_attr a = { .pd = 1, .len = 64, .pieces = &p, .npieces = 1 };
	assert_int_equal(qp_mr_reg(&dev, &a, &s), QP_MR_FULL);
	assert_int_equal(dev.live, N - 1);
}

/*
 * The table has one free entry, so the index is known: all keys are equally frequent, but no key comes twice in a row.
 */
static void a_key_never_comes_twice_in_a_row(void **state)
{
	const struct qp_piece p = { mem, 64 };
	uint32_t seen_keys[256] = { 0 }, last = 0;

	(void)state;
	memset(table, 0, sizeof(table));
	qp_dev_init(&dev, table, 2, 5);
	for (uint32_t i = 0; i < 256 * 200; i++) {
		uint32_t s = reg(0, &p, 1, QP_ACC_ALL);
		assert_int_equal(s >> 8, 1);
		assert_int_not_equal(s, last);
		last = s;
		seen_keys[s & 0xff]++;
		assert_int_equal(qp_mr_dereg(&dev, s), QP_MR_OK);
	}
	for (uint32_t i = 0; i < 256; i++)
		assert_in_range(seen_keys[i], 100, 300);
}

/*
 * Making the table of a device writes no memory, so an idle device's table costs none. Each index is given out once
 * until the table is full.
 */
static void a_new_table_is_not_touched_and_whole(void **state)
{
	enum { ENTRIES = 1000, PAGES = ENTRIES * sizeof(struct qp_mr) };
	static bool given[ENTRIES];
	const struct qp_piece p = { mem, 64 };
	struct qp_mr_attr a = { .pd = 1, .len = 64, .pieces = &p, .npieces = 1 };
	void *at = mmap(NULL, PAGES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t s;

	(void)state;
	assert_ptr_not_equal(at, MAP_FAILED);
	qp_dev_init(&dev, at, ENTRIES, 5);
	assert_int_equal(mprotect(at, PAGES, PROT_READ | PROT_WRITE), 0);
	for (uint32_t i = 1; i < ENTRIES; i++) {
		assert_int_equal(qp_mr_reg(&dev, &a, &s), QP_MR_OK);
		assert_in_range(s >> 8, 1, ENTRIES - 1);
		assert_false(given[s >> 8]);
		given[s >> 8] = true;
	}
	assert_int_equal(qp_mr_reg(&dev, &a, &s), QP_MR_FULL);
	munmap(at, PAGES);
}

/*
 * An observer who knows the STags and the seed of one device cannot predict the STags of the other, whose seed was
 * stirred.
 */
static void indices_are_drawn_from_all_that_are_free(void **state)
{
	static struct qp_mr big[1024];
	const struct qp_piece p = { mem, 64 };
	struct qp_mr_attr a = { .pd = 1, .len = 64, .pieces = &p, .npieces = 1 };
	uint32_t in[4] = { 0 }, s, same = 0, one[64];

	(void)state;
	qp_dev_init(&dev, big, RN_ARRAY_LEN(big), 5);
	for (uint32_t i = 0; i < 400; i++) {
		assert_int_equal(qp_mr_reg(&dev, &a, &s), QP_MR_OK);
		in[(s >> 8) / 256]++;
		if (i < RN_ARRAY_LEN(one))
			one[i] = s;
	}
	for (uint32_t i = 0; i < 4; i++)
		assert_in_range(in[i], 60, 140);
	memset(big, 0, sizeof(big));
	qp_dev_init(&dev, big, RN_ARRAY_LEN(big), 5);
	qp_dev_stir(&dev, 77);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(one); i++) {
		assert_int_equal(qp_mr_reg(&dev, &a, &s), QP_MR_OK);
		same += s == one[i];
	}
	assert_true(same < 4);
}

static void invalidation(void **state)
{
	const struct qp_piece p = { mem, 64 };
	uint32_t s = reg(0, &p, 1, QP_ACC_REMOTE_WRITE), local = reg(0, &p, 1, QP_ACC_LOCAL_WRITE);

	(void)state;
	assert_int_equal(qp_mr_invalidate(&dev, 2, 9, s), QP_MR_BAD_PD);
	assert_int_equal(qp_mr_invalidate(&dev, 1, 9, s ^ 4), QP_MR_BAD_STAG);
	assert_int_equal(qp_mr_invalidate(&dev, 1, 9, local), QP_MR_BAD_RIGHTS);
	assert_int_equal(look(s, 0, 1), QP_MR_OK);
	assert_int_equal(qp_mr_invalidate(&dev, 1, 9, s), QP_MR_OK);
	assert_int_equal(qp_mr_invalidate(&dev, 1, 9, s), QP_MR_BAD_STAG);
	assert_int_equal(look(s, 0, 1), QP_MR_BAD_STAG);
	assert_int_equal(qp_mr_dereg(&dev, s), QP_MR_OK);
}

/* One thread looks up without a pause while another registers and deregisters: a lookup sees complete entries only. */
static bool stop;
static uint64_t seen;

static void *lookups(void *arg)
{
	(void)arg;
	for (uint32_t k = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); k++) {
		const struct qp_access a = {
			.pd = 1, .stag = (1 + k % 3) << 8 | (k & 0xff), .to = (1 + k % 3) * 4096, .len = 16
		};
		struct rn_iov out[2];
		uint32_t n;

		/* A mixture of PD, offset and base of different registrations would be noticed. */
		for (uint64_t to = 4096; to <= 8192; to += 4096) {
			struct qp_access b = a;
			b.to = to;
			if (qp_mr_slices(&dev, &b, out, 2, &n) == QP_MR_OK) {
				if (out[0].base != mem + (to - 4096))
					return (void *)1;
				seen++;
			}
		}
	}
	return NULL;
}

static void readers_see_whole_entries(void **state)
{
	pthread_t t;
	void *bad;

	(void)state;
	memset(table, 0, sizeof(table));
	qp_dev_init(&dev, table, 4, 1);
	stop = false;
	seen = 0;
	pthread_create(&t, NULL, lookups, NULL);
	for (uint32_t i = 0; i < 300000 || (seen < 100 && i < 30000000); i++) {
		const struct qp_piece p = { mem + (i & 1) * 4096, 4096 };
		struct qp_mr_attr a = {
			.pd = 1, .iova = 4096 + (i & 1) * 4096, .len = 4096, .pieces = &p, .npieces = 1
		};
		uint32_t s;
		assert_int_equal(qp_mr_reg(&dev, &a, &s), QP_MR_OK);
		assert_int_equal(qp_mr_dereg(&dev, s), QP_MR_OK);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(t, &bad);
	assert_null(bad);
}

/* ---- queues at places that clients name ---- */

static uint8_t region[65536] RN_ALIGNED(64);

static void a_region_is_changed_under_its_stag(void **state)
{
	const struct qp_piece p = { mem, 4096 }, q[2] = { { mem, 1024 }, { mem + 4096, 2048 } };
	struct qp_mr_attr a = {
		.pd = 1, .rights = QP_ACC_REMOTE_WRITE, .iova = 0x20000, .len = 2048, .pieces = q, .npieces = 2
	};
	uint32_t s = reg(0x10000, &p, 1, QP_ACC_ALL), live = dev.live;

	(void)state;
	assert_int_equal(qp_mr_change(&dev, s, &a), QP_MR_OK);
	assert_int_equal(dev.live, live);
	assert_int_equal(look(s, 0x10000, 1), QP_MR_BAD_BOUNDS);
	assert_int_equal(look(s, 0x20000, 2048), QP_MR_OK);
	assert_int_equal(look(s, 0x20000, 2049), QP_MR_BAD_BOUNDS);
	assert_int_equal(qp_mr_change(&dev, s ^ 1, &a), QP_MR_BAD_STAG);
	assert_int_equal(qp_mr_change(&dev, s + 256, &a), QP_MR_BAD_STAG);
	a.len = 1;
	assert_int_equal(qp_mr_change(&dev, s, &a), QP_MR_BAD_ATTR);
	assert_int_equal(look(s, 0x20000, 2048), QP_MR_OK);
	a.len = 2048;
	a.pd = 2;
	assert_int_equal(qp_mr_change(&dev, s, &a), QP_MR_OK);
	assert_int_equal(look(s, 0x20000, 1), QP_MR_BAD_PD);
	assert_int_equal(qp_mr_dereg(&dev, s), QP_MR_OK);
	assert_int_equal(qp_mr_change(&dev, s, &a), QP_MR_BAD_STAG);
}

static void a_null_region(void **state)
{
	static uint8_t zeros[16384];
	const struct qp_piece two[2] = { { zeros, sizeof(zeros) }, { mem, sizeof(mem) } };
	struct qp_mr_attr good = QP_NULL_MR(1, two), bad[3] = { good, good, good };
	struct qp_access a = { .pd = 1, .to = UINT64_MAX - 50000, .len = 40000 };
	struct rn_iov in[5], out[4];
	uint32_t n;

	(void)state;
	bad[0].iova = 1;
	bad[1].len = 4096;
	bad[2].rights |= QP_ACC_REMOTE_READ;
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(qp_mr_reg(&dev, &bad[i], &a.stag), QP_MR_BAD_ATTR);
	assert_int_equal(qp_mr_reg(&dev, &good, &a.stag), QP_MR_OK);
	assert_int_equal(qp_mr_slices(&dev, &a, out, 4, &n), QP_MR_OK);
	assert_int_equal(rn_iov_len(out, n), 40000);
	a.rights = QP_ACC_LOCAL_WRITE;
	assert_int_equal(qp_mr_slices(&dev, &a, in, 5, &n), QP_MR_OK);
	assert_int_equal(rn_iov_len(in, n), 40000);
	assert_ptr_equal(in[4].base, mem);
	memset(in[0].base, 0xff, in[0].len);
	for (uint32_t i = 0; i < out[0].len; i++)
		assert_int_equal(out[0].base[i], 0); /* the slice that is read must not be the one that was written */
	assert_int_equal(qp_mr_slices(&dev, &a, in, 2, &n), QP_MR_TOO_MANY);
	a.to = UINT64_MAX;
	assert_int_equal(qp_mr_slices(&dev, &a, in, 4, &n), QP_MR_TO_WRAP);
	a.to = 0;
	a.pd = 2;
	assert_int_equal(qp_mr_slices(&dev, &a, in, 4, &n), QP_MR_BAD_PD);
	a.pd = 1;
	a.rights = QP_ACC_REMOTE_WRITE;
	assert_int_equal(qp_mr_slices(&dev, &a, in, 4, &n), QP_MR_BAD_RIGHTS);
}

static void bad_cq_places(void **state)
{
	struct qp_cq cq;
	const struct qp_cq_attr good = { .region = region,
					 .region_size = sizeof(region),
					 .shm_off = 0,
					 .ring_off = 128,
					 .ring_stride = 4096,
					 .workers = 4,
					 .cqe = 64 };
	struct qp_cq_attr a = good;

	(void)state;
	assert_int_equal(qp_cq_init(&cq, &a), SPSC_OK);
	a.shm_off = sizeof(region) - 64;
	assert_int_equal(qp_cq_init(&cq, &a), SPSC_BAD_RANGE);
	a.shm_off = UINT64_MAX - 63;
	assert_int_equal(qp_cq_init(&cq, &a), SPSC_BAD_RANGE);
	a = good;
	a.shm_off = 8;
	assert_int_equal(qp_cq_init(&cq, &a), SPSC_BAD_ALIGN);
	a = good;
	a.ring_off = sizeof(region) - 4096;
	assert_int_equal(qp_cq_init(&cq, &a), SPSC_BAD_RANGE);
	a = good;
	a.ring_stride = UINT64_MAX - 4095; /* off + stride wraps to a valid place */
	assert_int_equal(qp_cq_init(&cq, &a), SPSC_BAD_RANGE);
	a = good;
	a.cqe = 63;
	assert_int_equal(qp_cq_init(&cq, &a), SPSC_BAD_GEOMETRY);
	a.cqe = UINT32_C(1) << 31;
	assert_int_equal(qp_cq_init(&cq, &a), SPSC_BAD_RANGE);
	a = good;
	a.workers = QP_MAX_WORKERS + 1;
	assert_int_equal(qp_cq_init(&cq, &a), SPSC_BAD_GEOMETRY);
	a.workers = 0;
	assert_int_equal(qp_cq_init(&cq, &a), SPSC_BAD_GEOMETRY);
}

static void bad_qp_places(void **state)
{
	static struct qp_cq cq;
	struct qp qp;
	const struct qp_attr good = { .dev = &dev,
				      .scq = &cq,
				      .rcq = &cq,
				      .region = region,
				      .region_size = sizeof(region),
				      .shm_off = 0,
				      .sq_off = 128,
				      .rq_off = 8192,
				      .sq_slots = 64,
				      .rq_slots = 64 };
	struct qp_attr a = good;

	(void)state;
	memset(region, 0, sizeof(region));
	assert_int_equal(qp_init(&qp, &a), QP_OK);
	a.shm_off = sizeof(region);
	assert_int_equal(qp_init(&qp, &a), QP_BAD_ATTR);
	a = good;
	a.shm_off = 4;
	assert_int_equal(qp_init(&qp, &a), QP_BAD_ATTR);
	a = good;
	a.sq_off = UINT64_MAX - 127;
	assert_int_equal(qp_init(&qp, &a), QP_BAD_ATTR);
	a = good;
	a.rq_slots = 1024;
	assert_int_equal(qp_init(&qp, &a), QP_BAD_ATTR);
	a = good;
	a.sq_slots = 0;
	assert_int_equal(qp_init(&qp, &a), QP_BAD_ATTR);
	a = good;
	a.rcq = NULL;
	assert_int_equal(qp_init(&qp, &a), QP_BAD_ATTR);
	/* The indices were invalid before the daemon attached the queue. */
	a = good;
	((struct spsc_hdr *)(void *)(region + 128))->prod = 1000;
	assert_int_equal(qp_init(&qp, &a), QP_BAD_ATTR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(bounds, make),
		cmocka_unit_test_setup(last_offset, make),
		cmocka_unit_test_setup(pieces, make),
		cmocka_unit_test_setup(a_long_list_of_pieces_is_not_walked, make),
		cmocka_unit_test_setup(rights_and_domains, make),
		cmocka_unit_test_setup(bad_registrations, make),
		cmocka_unit_test_setup(a_stale_stag_names_nothing, make),
		cmocka_unit_test_setup(a_key_never_comes_twice_in_a_row, make),
		cmocka_unit_test_setup(a_new_table_is_not_touched_and_whole, make),
		cmocka_unit_test_setup(indices_are_drawn_from_all_that_are_free, make),
		cmocka_unit_test_setup(invalidation, make),
		cmocka_unit_test(readers_see_whole_entries),
		cmocka_unit_test_setup(a_region_is_changed_under_its_stag, make),
		cmocka_unit_test_setup(a_null_region, make),
		cmocka_unit_test(bad_cq_places),
		cmocka_unit_test_setup(bad_qp_places, make),
	};

	return cmocka_run_group_tests_name("qp_dev", tests, NULL, NULL);
}
