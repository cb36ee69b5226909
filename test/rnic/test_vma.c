/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/rnic/mem/vma.c: the kernel's ioctl query and its text file give the same result; pages with contents are found.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "rnic/mem/vma.h"

#define PAGE    4096u
#define LOW     UINT64_C(0x10000000) /* pages that come and go; below the program's other mappings */
#define NLOW    20u
#define HIGH    UINT64_C(0x20000000) /* pages that stay */
#define NHIGH   200u
#define WANTED  85u /* of these: its line begins in the second buffer of the text, with or without the low ones */
#define LOOKUPS 2000u

static struct rnic_procfs proc;

static int open_proc(void **state)
{
	(void)state;
	return rnic_procfs_open(&proc);
}

static int close_proc(void **state)
{
	(void)state;
	rnic_procfs_close(&proc);
	return 0;
}

static void query_and_text_agree(void **state)
{
	struct rnic_vma a, b;
	unsigned n = 0;

	(void)state;
	for (uintptr_t at = 0; rnic_vma_at(&proc, at, &a) == 0; at = a.end, n++) {
		assert_int_equal(rnic_vma_at_text(&proc, at, &b), 0);
		assert_int_equal(a.start, b.start);
		assert_int_equal(a.end, b.end);
		assert_int_equal(a.off, b.off);
		assert_int_equal(a.ino, b.ino);
		assert_int_equal(a.dev_major, b.dev_major);
		assert_int_equal(a.dev_minor, b.dev_minor);
		assert_int_equal(a.prot, b.prot);
		assert_int_equal(a.shared, b.shared);
		assert_int_equal(a.page, b.page);
		if (a.name[0] == '[')
			assert_string_equal(a.name, b.name);
	}
	assert_true(n > 10);
	assert_int_equal(rnic_vma_at_text(&proc, UINTPTR_MAX - PAGE, &b), 2 /* ENOENT */);
}

static void a_gap_gives_the_next_mapping(void **state)
{
	uint8_t *p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rnic_vma v;

	(void)state;
	munmap(p + PAGE, PAGE);
	assert_int_equal(rnic_vma_at(&proc, (uintptr_t)p + PAGE, &v), 0);
	assert_int_equal(v.start, (uintptr_t)p + 2 * PAGE);
	munmap(p, 3 * PAGE);
}

static void touched_pages_are_present(void **state)
{
	const unsigned n = 1200;
	uint8_t *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t present[(1200 + 63) / 64];

	(void)state;
	madvise(p, n * PAGE, MADV_NOHUGEPAGE);
	for (unsigned i = 0; i < n; i += 7)
		p[i * PAGE] = 1;
	assert_int_equal(rnic_pages_present(&proc, (uintptr_t)p, n, present), 0);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(present[i / 64] >> (i % 64) & 1, i % 7 == 0);
	munmap(p, n * PAGE);
}

static int ended;

static void *read_the_map(void *unused)
{
	struct rnic_vma v;

	while (!__atomic_load_n(&ended, __ATOMIC_RELAXED))
		rnic_vma_at_text(&proc, LOW / 2, &v);
	return unused;
}

static void map_pages(uint64_t at, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		void *p = (void *)(uintptr_t)(at + i * 2 * PAGE);
		if (mmap(p, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != p)
			abort();
	}
}

static void unmap_pages(uint64_t at, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		munmap((void *)(uintptr_t)(at + i * 2 * PAGE), PAGE);
}

static void *change_the_map(void *unused)
{
	while (!__atomic_load_n(&ended, __ATOMIC_RELAXED)) {
		map_pages(LOW, NLOW);
		unmap_pages(LOW, NLOW);
	}
	return unused;
}

static void the_text_is_right_while_other_threads_read_and_change_it(void **state)
{
	const uintptr_t wanted = HIGH + WANTED * 2 * PAGE;
	unsigned wrong = 0;
	pthread_t reader, mapper;
	struct rnic_vma v;

	(void)state;
	map_pages(HIGH, NHIGH);
	pthread_create(&reader, NULL, read_the_map, NULL);
	pthread_create(&mapper, NULL, change_the_map, NULL);
	for (unsigned i = 0; i < LOOKUPS; i++)
		wrong += rnic_vma_at_text(&proc, wanted, &v) != 0 || v.start != wanted || v.end != wanted + PAGE;
	__atomic_store_n(&ended, 1, __ATOMIC_RELAXED);
	pthread_join(reader, NULL);
	pthread_join(mapper, NULL);
	unmap_pages(HIGH, NHIGH);
	assert_int_equal(wrong, 0);
}

/* Maps a page of a file that lies so deep that its path is longer than the text's buffer; the file is gone then. */
static void *map_deep(void)
{
	char top[] = "/tmp/rnic-vma-XXXXXX", folder[201];
	const int home = open(".", O_RDONLY | O_DIRECTORY);
	const unsigned depth = 50;

	memset(folder, 'f', sizeof(folder) - 1);
	folder[sizeof(folder) - 1] = '\0';
	assert_true(home >= 0);
	assert_non_null(mkdtemp(top));
	assert_int_equal(chdir(top), 0);
	for (unsigned i = 0; i < depth; i++) {
		assert_int_equal(mkdir(folder, 0700), 0);
		assert_int_equal(chdir(folder), 0);
	}
	int fd = open("file", O_RDWR | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, PAGE), 0);
	void *p = mmap((void *)(uintptr_t)LOW, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
	close(fd);
	unlink("file");
	for (unsigned i = 0; i < depth; i++) {
		assert_int_equal(chdir(".."), 0);
		assert_int_equal(rmdir(folder), 0);
	}
	assert_int_equal(fchdir(home), 0);
	close(home);
	rmdir(top);
	return p;
}

static void a_long_path_hides_neither_its_mapping_nor_those_above(void **state)
{
	uint8_t *p = map_deep();
	struct rnic_vma v;

	(void)state;
	map_pages(HIGH, 1);
	assert_ptr_equal(p, (void *)(uintptr_t)LOW);
	assert_int_equal(rnic_vma_at_text(&proc, LOW, &v), 0);
	assert_int_equal(v.start, LOW);
	assert_int_equal(rnic_vma_at_text(&proc, LOW + PAGE, &v), 0);
	assert_int_equal(v.start, HIGH);
	unmap_pages(HIGH, 1);
	munmap(p, PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(query_and_text_agree),
		cmocka_unit_test(a_gap_gives_the_next_mapping),
		cmocka_unit_test(touched_pages_are_present),
		cmocka_unit_test(the_text_is_right_while_other_threads_read_and_change_it),
		cmocka_unit_test(a_long_path_hides_neither_its_mapping_nor_those_above),
	};

	return cmocka_run_group_tests(tests, open_proc, close_proc);
}
