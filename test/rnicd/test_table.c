/* SPDX-License-Identifier: BSD-3-Clause */
/* The small helpers of the control plane: spans, unmapping, handles, owners' numbers. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/huge.h"
#include "base/rn_rng.h"
#include "control/owner.h"
#include "control/spans.h"
#include "control/table.h"
#include "control/unmap.h"
#include "ipc/ipc_shm.h"

static uint64_t counted; /* bytes in the user's share */

bool user_take(struct user *u, enum user_table table, uint32_t index, uint64_t n)
{
	(void)u;
	assert_int_equal(table, USER_MEMORY);
	assert_int_equal(index, 0);
	if (counted + n > 4096)
		return false;
	counted += n;
	return true;
}

void user_give(struct user *u, enum user_table table, uint32_t index, uint64_t n)
{
	(void)u;
	assert_int_equal(table, USER_MEMORY);
	assert_int_equal(index, 0);
	assert_true(n <= counted);
	counted -= n;
}

/* Random operations, compared with a map of bytes. */
static void spans_have_no_byte_in_common(void **state)
{
	const uint64_t first = sizeof(struct ipc_ctrl);
	enum { ROOM = 512, SPANS = 64 };
	static uint8_t of[ROOM]; /* 1: the byte is in a span */
	struct span s[SPANS] = { 0 };
	struct spans t = { 0 };
	struct rn_rng r;

	(void)state;
	rn_rng_seed(&r, 1);
	for (int n = 0; n < 200000; n++) {
		const uint32_t i = rn_rng_below(&r, SPANS);
		bool had = false;
		if (s[i].len > 0) {
			for (uint64_t b = 0; b < s[i].len; b++)
				of[s[i].off - first + b] = 0;
			spans_give(&t, &s[i]);
			spans_give(&t, &s[i]);
			continue;
		}
		const uint64_t len = rn_rng_below(&r, 20), off = rn_rng_below(&r, ROOM - 20);
		for (uint64_t b = 0; b < len; b++)
			had |= of[off + b] != 0;
		s[i] = (struct span){ .off = first + off, .len = len };
		assert_int_equal(spans_take(&t, &s[i]), had ? SPAN_OVERLAPS : SPAN_OK);
		assert_int_equal(s[i].len, had ? 0 : len);
		for (uint64_t b = 0; b < s[i].len; b++)
			of[off + b] = 1;
	}
	for (uint32_t i = 0; i < SPANS; i++)
		spans_give(&t, &s[i]);
	assert_null(t.root);
	assert_int_equal(counted, 0);
	s[0] = (struct span){ .off = first - 1, .len = 1 };
	assert_int_equal(spans_take(&t, &s[0]), SPAN_OVERLAPS);
}

static void spans_count_in_the_share_of_their_user(void **state)
{
	struct span a = { .off = 1 << 20, .len = 4000 }, b = { .off = 2 << 20, .len = 97 };
	struct spans t = { 0 };

	(void)state;
	assert_int_equal(spans_take(&t, &a), SPAN_OK);
	assert_int_equal(counted, 4000);
	assert_int_equal(spans_take(&t, &b), SPAN_NO_MEMORY);
	assert_int_equal(b.len, 0);
	assert_int_equal(counted, 4000);
	spans_give(&t, &a);
	assert_int_equal(counted, 0);
	b.len = 97;
	assert_int_equal(spans_take(&t, &b), SPAN_OK);
	spans_give(&t, &b);
	assert_int_equal(counted, 0);
	assert_null(t.root);
}

static bool mapped(uint8_t *p, uint64_t size)
{
	unsigned char in[1];

	return mincore(p, 4096, in) == 0 || mincore(p + size - 4096, 4096, in) == 0;
}

static uint8_t *hole;  /* a page that was mapped where the thread had just unmapped something */
static bool fill_hole; /* map such a page */

int __real_munmap(void *at, size_t n);
int __wrap_munmap(void *at, size_t n);
int __wrap_munmap(void *at, size_t n)
{
	const int rc = __real_munmap(at, n);

	if (rc == 0 && fill_hole) {
		fill_hole = false;
		hole = mmap(at, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	}
	return rc;
}

/* A room, as for imports, of which one page is a hugepage of 2^shift bytes that lies at 1 GiB. */
static uint8_t *room_with_hugepage(unsigned shift, uint64_t size)
{
	const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, fixed = MAP_SHARED | MAP_FIXED | MAP_NORESERVE;
	const uint64_t gib = UINT64_C(1) << 30;
	const int fd = memfd_create("hugepage", MFD_CLOEXEC | MFD_HUGETLB | shift << 26);
	uint8_t *p = mmap(NULL, size + gib, PROT_READ, how, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	uint8_t *page = (uint8_t *)(((uintptr_t)p + 2 * gib - 1) & ~(uintptr_t)(gib - 1));
	if (fd < 0 || ftruncate(fd, 1 << shift) != 0 ||
	    mmap(page, UINT64_C(1) << shift, PROT_READ, fixed, fd, 0) == MAP_FAILED)
		print_message("# the system has no pages of %u bytes\n", 1u << shift);
	if (fd >= 0)
		close(fd);
	/* pieces that are counted from this address end inside the hugepage, also inside one of 2 MiB */
	return page - gib + 4096;
}

static void a_hugepage_in_the_way_takes_no_new_mapping_along(void **state)
{
	const uint64_t size = UINT64_C(3) << 30;

	(void)state;
	for (unsigned shift = 21; shift <= 30; shift += 9) {
		struct unmap u = { .base = room_with_hugepage(shift, size), .size = size };
		fill_hole = true;
		unmap_begin(&u);
		assert_true(unmap_start());
		while (!unmap_is_done(&u))
			sched_yield();
		unmap_stop();
		assert_ptr_not_equal(hole, MAP_FAILED);
		assert_true(mapped(hole, 4096));
		assert_int_equal(munmap(hole, 4096), 0);
		for (uint64_t at = 0; at < size; at += UINT64_C(1) << 21)
			assert_false(mapped(u.base + at, 4096));
	}
}

static void memory_of_the_dead_goes_by_another_thread_in_order(void **state)
{
	static const uint64_t size[] = { 4096, UINT64_C(65) << 20, UINT64_C(64) << 20, UINT64_C(1) << 36 };
	struct unmap u[RN_ARRAY_LEN(size) + 1] = { 0 };

	(void)state;
	unmap_begin(&u[RN_ARRAY_LEN(size)]); /* nothing to unmap: done at once */
	assert_true(unmap_is_done(&u[RN_ARRAY_LEN(size)]));
	for (size_t i = 0; i < RN_ARRAY_LEN(size); i++) {
		u[i].size = size[i];
		u[i].base = mmap(NULL, size[i], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
				 0);
		assert_ptr_not_equal(u[i].base, MAP_FAILED);
		u[i].base[0] = 1;
		unmap_begin(&u[i]); /* the thread has not run yet */
		assert_false(unmap_is_done(&u[i]));
		assert_true(mapped(u[i].base, size[i]));
	}
	assert_true(unmap_start());
	while (!unmap_is_done(&u[RN_ARRAY_LEN(size) - 1]))
		sched_yield();
	for (size_t i = 0; i < RN_ARRAY_LEN(size); i++) {
		assert_true(unmap_is_done(&u[i]));
		assert_false(mapped(u[i].base, size[i]));
	}
	unmap_stop();
}

static void handles_are_small_and_used_again(void **state)
{
	struct table t = { 0 };
	int obj[100];

	(void)state;
	assert_null(table_get(&t, 0));
	assert_null(table_get(&t, 1));
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(table_add(&t, &obj[i]), i + 1);
	assert_int_equal(t.live, 100);
	assert_ptr_equal(table_get(&t, 57), &obj[56]);
	table_del(&t, 57);
	table_del(&t, 9);
	table_del(&t, 9);
	table_del(&t, 0);
	table_del(&t, UINT32_MAX);
	assert_int_equal(t.live, 98);
	assert_null(table_get(&t, 57));
	assert_int_equal(table_add(&t, &obj[0]), 9);
	assert_int_equal(table_add(&t, &obj[0]), 57);
	assert_int_equal(table_add(&t, &obj[0]), 101);
	table_free(&t);
	assert_null(table_get(&t, 1));
}

static void a_walk_sees_each_once_also_while_they_go(void **state)
{
	struct table t = { 0 };
	int obj[40], *o;
	uint32_t seen = 0;

	(void)state;
	for (uint32_t i = 0; i < 40; i++)
		table_add(&t, &obj[i]);
	for (uint32_t h = 1; h <= 40; h += 2)
		table_del(&t, h);
	for (uint32_t h = 0; (o = table_next(&t, &h)) != NULL; seen++) {
		assert_ptr_equal(o, &obj[h - 1]);
		table_del(&t, h);
	}
	assert_int_equal(seen, 20);
	assert_int_equal(t.live, 0);
	table_free(&t);
}

static void owners_are_found_by_number_and_kind(void **state)
{
	static struct owner o[20000];
	uint64_t key[20000], last = 0;

	(void)state;
	for (size_t i = 0; i < 20000; i++) {
		/* every third number is one that a worker would give */
		key[i] = i % 3 == 0 ? (UINT64_C(1) << 63) + i : owner_new();
		assert_true(i % 3 == 0 || key[i] > last);
		last = i % 3 == 0 ? last : key[i];
		owner_put(&o[i], OWNER_CONN, key[i]);
	}
	for (size_t i = 0; i < 20000; i++) {
		assert_ptr_equal(owner_get(OWNER_CONN, key[i]), &o[i]);
		assert_null(owner_get(OWNER_QP, key[i]));
	}
	for (size_t i = 0; i < 20000; i += 2)
		owner_del(&o[i]);
	owner_del(&o[0]); /* repeated without harm */
	for (size_t i = 0; i < 20000; i++)
		assert_ptr_equal(owner_get(OWNER_CONN, key[i]), i % 2 == 0 ? NULL : &o[i]);
	for (size_t i = 1; i < 20000; i += 2)
		owner_del(&o[i]);
	assert_null(owner_get(OWNER_CONN, 0));
}

/* The numbers of the memory regions that one user may have on two devices, as client_mr.c makes them. */
static void a_lookup_among_many_owners_passes_few(void **state)
{
	enum { EACH = 198749, OWNERS = 2 * EACH };
	struct owner *o = calloc(OWNERS, sizeof(*o));
	uint64_t passed = 0; /* by lookups of all numbers, one each */

	(void)state;
	assert_non_null(o);
	for (uint32_t i = 0; i < OWNERS; i++)
		owner_put(&o[i], OWNER_MR, (uint64_t)(i / EACH + 1) << 32 | i % EACH);
	for (uint32_t i = 0; i < OWNERS; i++)
		for (const struct rn_link *l = &o[i].link; l != NULL; l = l->next)
			passed++;
	assert_true(passed / OWNERS < 5);
	for (uint32_t i = 0; i < OWNERS; i++)
		owner_del(&o[i]);
	free(o);
}

static void put_file(const char *dir, const char *sub, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, sub);
	assert_int_equal(mkdir(path, 0700), 0);
	strcat(path, "/free_hugepages");
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void take_file(const char *dir, const char *sub)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s/free_hugepages", dir, sub);
	unlink(path);
	snprintf(path, sizeof(path), "%s/%s", dir, sub);
	rmdir(path);
}

static void free_hugepages_of_all_sizes_count(void **state)
{
	char dir[] = "/tmp/rnicd-huge-XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(huge_free_mb(dir), 0);
	put_file(dir, "hugepages-2048kB", "100\n");
	put_file(dir, "hugepages-1048576kB", "2\n");
	put_file(dir, "hugepages-64kB", "nonsense\n");
	assert_int_equal(huge_free_mb(dir), 200 + 2048);
	take_file(dir, "hugepages-2048kB");
	take_file(dir, "hugepages-1048576kB");
	take_file(dir, "hugepages-64kB");
	rmdir(dir);
	assert_int_equal(huge_free_mb("/nonexistent"), 0);
}

static void hugepages_are_decided_and_explained(void **state)
{
	static struct conf c;
	char say[256];

	(void)state;
	c = (struct conf){ .hugepages = CONF_HUGE_NO, .d = { .memory_mb = 1, .hugepages = true } };
	assert_true(huge_decide(&c, say, sizeof(say)));
	assert_false(c.d.hugepages);
	assert_string_equal(say, "ordinary pages (hugepages = no)");
	c = (struct conf){ .hugepages = CONF_HUGE_AUTO, .d = { .memory_mb = UINT32_MAX } };
	assert_true(huge_decide(&c, say, sizeof(say)));
	assert_false(c.d.hugepages);
	assert_non_null(strstr(say, "MiB of hugepages are free, 4294967295 are wanted)"));
	c = (struct conf){ .hugepages = CONF_HUGE_YES, .d = { .memory_mb = UINT32_MAX } };
	assert_false(huge_decide(&c, say, sizeof(say)));
	assert_non_null(
		strstr(say, "hugepages: run `echo 2147483647 > /proc/sys/vm/nr_hugepages`, or set hugepages = no"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spans_have_no_byte_in_common),
		cmocka_unit_test(spans_count_in_the_share_of_their_user),
		cmocka_unit_test(a_hugepage_in_the_way_takes_no_new_mapping_along),
		cmocka_unit_test(memory_of_the_dead_goes_by_another_thread_in_order),
		cmocka_unit_test(handles_are_small_and_used_again),
		cmocka_unit_test(a_walk_sees_each_once_also_while_they_go),
		cmocka_unit_test(owners_are_found_by_number_and_kind),
		cmocka_unit_test(a_lookup_among_many_owners_passes_few),
		cmocka_unit_test(free_hugepages_of_all_sizes_count),
		cmocka_unit_test(hugepages_are_decided_and_explained),
	};
	return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
