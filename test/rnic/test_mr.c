/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory registration: for any kind of memory the daemon must see what the program writes, and the program what the
 * daemon writes.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rnic/rnic.h>

#include "mr_rig.h"

/* Registration keeps the contents of the region, and of the pages around it. */
static void heap_keeps_its_contents(void **state)
{
	static const size_t size[] = { 1, 100, PAGE, 10000, 70000, 1 << 20, (5 << 20) + 123 };

	(void)state;
	for (size_t i = 0; i < RN_ARRAY_LEN(size); i++) {
		uint8_t *p = malloc(size[i] + 64);
		fill(p, size[i] + 64, 3);
		struct ibv_mr *mr = ibv_reg_mr(pd, p + 32, size[i], RW);
		assert_non_null(mr);
		assert_filled(p, size[i] + 64, 3);
		assert_int_equal(pieces(mr), 1);
		assert_shared(mr);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		assert_filled(p + 32, size[i], 2);
		free(p);
	}
}

static void twice_and_overlapping_share_pages(void **state)
{
	uint8_t *p = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t got[8];

	(void)state;
	fill(p, 64 * PAGE, 5);
	struct ibv_mr *a = ibv_reg_mr(pd, p + 10, 20 * PAGE, RW);
	struct ibv_mr *b = ibv_reg_mr(pd, p + 10, 20 * PAGE, RW);
	struct ibv_mr *c = ibv_reg_mr(pd, p + 10 * PAGE + 7, 30 * PAGE, RW);
	struct ibv_mr *d = ibv_reg_mr(pd, p, 64 * PAGE, RW);
	assert_non_null(a);
	assert_non_null(b);
	assert_non_null(c);
	assert_non_null(d);
	assert_filled(p, 64 * PAGE, 5);
	assert_int_equal(pieces(d), 1);
	memcpy(p + 15 * PAGE, "neighbor", 8);
	struct ibv_mr *all[] = { a, b, c, d };
	for (unsigned i = 0; i < 4; i++) {
		assert_true(fake_mr_read(client(), all[i]->rkey, (uintptr_t)p + 15 * PAGE, got, 8));
		assert_memory_equal(got, "neighbor", 8);
	}
	assert_int_equal(ibv_dereg_mr(a), 0);
	assert_shared(d);
	assert_shared(c);
	assert_int_equal(ibv_dereg_mr(b), 0);
	assert_int_equal(ibv_dereg_mr(c), 0);
	assert_int_equal(ibv_dereg_mr(d), 0);
	munmap(p, 64 * PAGE);
}

/*
 * Neighbouring buffers that are registered in any order end up side by side in the arena: there is at most one mapping
 * for each window of the arena.
 */
static void neighbours_join(void **state)
{
	const unsigned n = 1024;
	void *fresh = (void *)UINT64_C(0x7d0000000000); /* an address where nothing was mapped before */
	uint8_t *p = mmap(fresh, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
			  -1, 0);
	static struct ibv_mr *mr[1024];

	(void)state;
	assert_ptr_equal(p, fresh);
	for (unsigned i = 0; i < n; i++) {
		unsigned k = i * 377 % n;
		p[k * PAGE] = (uint8_t)k;
		mr[k] = ibv_reg_mr(pd, p + k * PAGE, PAGE, RW);
		assert_non_null(mr[k]);
	}
	for (unsigned k = 0; k < n; k++)
		assert_int_equal(p[k * PAGE], (uint8_t)k);
	struct ibv_mr *all = ibv_reg_mr(pd, p, n * PAGE, RW);
	assert_non_null(all);
	assert_true(pieces(all) <= 2);
	assert_shared(all);
	ibv_dereg_mr(all);
	for (unsigned k = 0; k < n; k++)
		ibv_dereg_mr(mr[k]);
	munmap(p, n * PAGE);
}

static unsigned mappings(const uint8_t *p, size_t len)
{
	const struct rnic_mem *m = rnic_ctx(ctx)->s->mem;
	struct rnic_vma v;
	unsigned n = 0;

	for (uintptr_t at = (uintptr_t)p; at < (uintptr_t)p + len; at = v.end, n++)
		assert_int_equal(rnic_vma_at(&m->proc, at, &v), 0);
	return n;
}

/* A process may have 65,530 mappings: buffers that are registered one by one must not take a mapping each. */
static void small_neighbours_take_few_mappings(void **state)
{
	static const unsigned pages[] = { 1, 2, 7, 32 };

	(void)state;
	for (unsigned i = 0; i < RN_ARRAY_LEN(pages); i++) {
		const size_t len = pages[i] * PAGE, n = (8 << 20) / len, most = 2 * (n * len >> 17) + 4;
		uint8_t *p = mmap(NULL, n * len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		static struct ibv_mr *mr[2048];
		for (size_t k = 0; k < n; k++) {
			p[k * len] = (uint8_t)k;
			mr[k] = ibv_reg_mr(pd, p + k * len, len, RW);
			assert_non_null(mr[k]);
		}
		assert_true(mappings(p, n * len) <= most);
		assert_shared(mr[n / 2]);
		for (size_t k = 0; k < n; k++) {
			assert_true(k == n / 2 || p[k * len] == (uint8_t)k);
			ibv_dereg_mr(mr[k]);
		}
		munmap(p, n * len);
	}
}

static void memory_mapped_anew_is_moved_anew(void **state)
{
	uint8_t *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t got[4];

	(void)state;
	struct ibv_mr *old = ibv_reg_mr(pd, p, 16 * PAGE, RW);
	memcpy(p, "old", 4);
	/* The program never deregisters, and maps the same addresses again. */
	assert_ptr_equal(mmap(p, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), p);
	memcpy(p, "new", 4);
	struct ibv_mr *mr = ibv_reg_mr(pd, p, 16 * PAGE, RW);
	assert_non_null(mr);
	assert_memory_equal(p, "new", 4);
	assert_true(fake_mr_read(client(), mr->rkey, (uintptr_t)p, got, 4));
	assert_memory_equal(got, "new", 4);
	assert_true(fake_mr_read(client(), old->rkey, (uintptr_t)p, got, 4));
	assert_memory_equal(got, "old", 4);
	ibv_dereg_mr(old);
	assert_shared(mr);
	ibv_dereg_mr(mr);
	munmap(p, 16 * PAGE);
}

static uint8_t data[10000] = { 1, 2, 3 };
static uint8_t bss[10000];

static void data_and_bss(void **state)
{
	(void)state;
	data[9999] = 77;
	struct ibv_mr *a = ibv_reg_mr(pd, data, sizeof(data), RW);
	assert_non_null(a);
	assert_int_equal(data[0] | data[1] << 8 | data[2] << 16, 0x030201);
	assert_int_equal(data[9999], 77);
	struct ibv_mr *b = ibv_reg_mr(pd, bss, sizeof(bss), RW);
	assert_shared(a);
	assert_shared(b);
	ibv_dereg_mr(a);
	ibv_dereg_mr(b);
}

static void absent_pages_read_as_zero(void **state)
{
	const size_t len = 64 << 20;
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t got[PAGE];

	(void)state;
	p[20 * PAGE] = 9;
	struct ibv_mr *mr = ibv_reg_mr(pd, p, len, RW);
	assert_non_null(mr);
	assert_int_equal(pieces(mr), 1);
	assert_int_equal(p[20 * PAGE], 9);
	assert_int_equal(p[len - 1], 0);
	assert_true(fake_mr_read(client(), mr->rkey, (uintptr_t)p + 20 * PAGE, got, PAGE));
	assert_int_equal(got[0], 9);
	assert_int_equal(got[1], 0);
	ibv_dereg_mr(mr);
	munmap(p, len);
}

static void rnic_alloc_moves_nothing(void **state)
{
	static const size_t size[] = { 1, PAGE, 100000, 1 << 20, 3 << 20 };
	uint8_t *p[RN_ARRAY_LEN(size)];

	(void)state;
	for (size_t i = 0; i < RN_ARRAY_LEN(size); i++) {
		p[i] = rnic_alloc(size[i]);
		assert_non_null(p[i]);
		assert_int_equal((uintptr_t)p[i] % (size[i] >= 1 << 20 ? 2 << 20 : PAGE), 0);
		for (size_t k = 0; k < size[i]; k++)
			assert_int_equal(p[i][k], 0);
		struct ibv_mr *mr = ibv_reg_mr(pd, p[i], size[i], RW);
		assert_int_equal(pieces(mr), 1);
		assert_shared(mr);
		ibv_dereg_mr(mr);
	}
	for (size_t i = 0; i < RN_ARRAY_LEN(size); i++)
		rnic_free(p[i]);
	/* Memory that is handed out again is zeroed. */
	uint8_t *q = rnic_alloc(100000);
	for (size_t k = 0; k < 100000; k++)
		assert_int_equal(q[k], 0);
	rnic_free(q);
	rnic_free(NULL);
	assert_null(rnic_alloc(0));
	assert_int_equal(errno, EINVAL);
}

/* ---- what is refused ---- */

static void refusals(void **state)
{
	uint8_t *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	munmap(p + 2 * PAGE, PAGE);
	assert_refused(p, 4 * PAGE, RW, EFAULT);
	assert_refused((void *)16, 100, RW, EFAULT);
	mprotect(p + PAGE, PAGE, PROT_NONE);
	assert_refused(p + PAGE, 10, 0, EFAULT);
	mprotect(p + PAGE, PAGE, PROT_READ);
	assert_refused(p + PAGE, 10, IBV_ACCESS_LOCAL_WRITE, EACCES);
	assert_refused((void *)(uintptr_t)refusals, 10, 0, EOPNOTSUPP);
	assert_refused(p, 0, RW, EINVAL);
	assert_refused(p, SIZE_MAX, RW, EINVAL);
	assert_refused(p, 10, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	assert_refused(p, 10, IBV_ACCESS_ON_DEMAND, EOPNOTSUPP);
	assert_refused(p, 10, 1 << 10, EINVAL);
	fake_refuse(fake, EDQUOT, "the client's memory quota is used up");
	assert_refused(p, 10, RW, EDQUOT);
	struct ibv_mr *mr = ibv_reg_mr(pd, p, 10, RW | IBV_ACCESS_RELAXED_ORDERING);
	assert_shared(mr);
	ibv_dereg_mr(mr);
	munmap(p, 2 * PAGE);
	munmap(p + 3 * PAGE, PAGE);
}

static void read_only_memory_stays_so(void **state)
{
	static const char text[] = "constants can be sent too";
	uint8_t *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char got[sizeof(text)];
	struct rnic_procfs proc;
	struct rnic_vma v;

	(void)state;
	memcpy(p, text, sizeof(text));
	mprotect(p, PAGE, PROT_READ);
	struct ibv_mr *a = ibv_reg_mr(pd, p, sizeof(text), IBV_ACCESS_REMOTE_READ);
	struct ibv_mr *b = ibv_reg_mr(pd, (void *)(uintptr_t)text, sizeof(text), 0);
	assert_non_null(a);
	assert_non_null(b);
	assert_true(fake_mr_read(client(), a->rkey, (uintptr_t)p, got, sizeof(got)));
	assert_string_equal(got, text);
	assert_true(fake_mr_read(client(), b->rkey, (uintptr_t)text, got, sizeof(got)));
	assert_string_equal(got, text);
	assert_int_equal(rnic_procfs_open(&proc), 0);
	assert_int_equal(rnic_vma_at(&proc, (uintptr_t)p, &v), 0);
	assert_int_equal(v.prot, PROT_READ);
	rnic_procfs_close(&proc);
	ibv_dereg_mr(a);
	ibv_dereg_mr(b);
	munmap(p, PAGE);
}

static void iova_is_the_tagged_offset(void **state)
{
	uint8_t buf[16], got[16];

	(void)state;
	memcpy(buf, "fifteen letters", 16);
	struct ibv_mr *mr = ibv_reg_mr_iova(pd, buf, sizeof(buf), 0x1000, RW);
	assert_non_null(mr);
	assert_true(fake_mr_read(client(), mr->rkey, 0x1000, got, sizeof(got)));
	assert_memory_equal(buf, got, sizeof(got));
	ibv_dereg_mr(mr);
	assert_null(ibv_reg_mr_iova(pd, buf, sizeof(buf), UINT64_MAX - 3, RW));
	assert_int_equal(errno, EINVAL);
}

static uint64_t pages_used(const struct rnic_mem *m)
{
	uint64_t n = 0;

	for (uint32_t w = 0; w < RNIC_WINDOWS; w++)
		for (size_t i = 0; i < RN_ARRAY_LEN(m->win[w].used); i++)
			n += (uint64_t)__builtin_popcountll(m->win[w].used[i]);
	return n;
}

static void sweep_finds_what_was_unmapped(void **state)
{
	struct rnic_mem *m = rnic_ctx(ctx)->s->mem;
	uint8_t *kept = mmap(NULL, 100 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t got[16];

	(void)state;
	fill(kept, 100 * PAGE, 4);
	struct ibv_mr *mr = ibv_reg_mr(pd, kept, 100 * PAGE, RW);
	uint8_t *unmapped = mmap(NULL, 10 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fill(unmapped, 10 * PAGE, 6);
	struct ibv_mr *held = ibv_reg_mr(pd, unmapped, 10 * PAGE, RW);
	munmap(unmapped, 10 * PAGE);
	pthread_mutex_lock(&m->lock);
	rnic_arena_sweep(m);
	pthread_mutex_unlock(&m->lock);
	uint64_t before = pages_used(m);
	/* A program that maps, registers, deregisters and unmaps in a loop. */
	for (int i = 0; i < 300; i++) {
		uint8_t *p = mmap(NULL, 500 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		p[0] = 1;
		struct ibv_mr *tmp = ibv_reg_mr(pd, p, 500 * PAGE, RW);
		assert_non_null(tmp);
		ibv_dereg_mr(tmp);
		munmap(p, 500 * PAGE);
	}
	assert_true(pages_used(m) < before + 300 * 500);
	pthread_mutex_lock(&m->lock);
	rnic_arena_sweep(m);
	pthread_mutex_unlock(&m->lock);
	assert_int_equal(pages_used(m), before);
	assert_filled(kept, 100 * PAGE, 4);
	assert_true(fake_mr_read(client(), held->rkey, (uintptr_t)unmapped, got, sizeof(got)));
	assert_filled(got, sizeof(got), 6);
	ibv_dereg_mr(held);
	ibv_dereg_mr(mr);
	munmap(kept, 100 * PAGE);
}

#define LOW    UINT64_C(0x10000000) /* below the program's other mappings */
#define HIGH   UINT64_C(0x30000000)
#define SCENES 300

static unsigned swept; /* sweeps that have begun */

/* Moves the page down once in each sweep, a little later each time. */
static void *move_down(void *unused)
{
	for (unsigned i = 1; i <= SCENES; i++) {
		while (__atomic_load_n(&swept, __ATOMIC_ACQUIRE) < i)
			sched_yield();
		for (volatile unsigned k = 0; k < i * 200; k++)
			;
		syscall(SYS_mremap, HIGH, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, LOW);
		__atomic_fetch_or(&swept, 1u << 31, __ATOMIC_RELEASE);
		while ((__atomic_load_n(&swept, __ATOMIC_ACQUIRE) >> 31) != 0)
			sched_yield();
	}
	return unused;
}

static void a_sweep_keeps_what_is_moved_meanwhile(void **state)
{
	struct rnic_mem *m = rnic_ctx(ctx)->s->mem;
	void *high = (void *)(uintptr_t)HIGH;
	unsigned lost = 0;
	pthread_t t;

	(void)state;
	/* many mappings between the two places, so that a sweep takes long */
	for (unsigned i = 1; i <= 1000; i++)
		mmap((void *)(uintptr_t)(LOW + i * 2 * PAGE), PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		     -1, 0);
	uint8_t *p = mmap(high, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, p, PAGE, RW);
	assert_non_null(mr);
	ibv_dereg_mr(mr);
	pthread_create(&t, NULL, move_down, NULL);
	for (unsigned i = 1; i <= SCENES; i++) {
		fill(p, PAGE, 9);
		pthread_mutex_lock(&m->lock);
		__atomic_store_n(&swept, i, __ATOMIC_RELEASE);
		rnic_arena_sweep(m);
		pthread_mutex_unlock(&m->lock);
		while ((__atomic_load_n(&swept, __ATOMIC_ACQUIRE) >> 31) == 0)
			sched_yield();
		lost += *(uint8_t *)(uintptr_t)LOW != pattern(0, 9);
		syscall(SYS_mremap, LOW, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, HIGH);
		__atomic_store_n(&swept, i, __ATOMIC_RELEASE);
	}
	pthread_join(t, NULL);
	munmap((void *)(uintptr_t)LOW, HIGH + PAGE - LOW);
	assert_int_equal(lost, 0);
}

/* ---- hugepages: if the system has free ones; otherwise these cases report that they were skipped ---- */

static void rnic_alloc_takes_hugepages(void **state)
{
	uint8_t *p = rnic_alloc(3 << 20);
	struct rnic_vma v;

	(void)state;
	assert_non_null(p);
	assert_int_equal(rnic_vma_at(&rnic_ctx(ctx)->s->mem->proc, (uintptr_t)p, &v), 0);
	if (!v.hugetlb) {
		rnic_free(p);
		skip();
	}
	struct ibv_mr *mr = ibv_reg_mr(pd, p, 3 << 20, RW);
	assert_int_equal(client()->mr[mr->handle].pieces[0].region, IPC_REGION_HUGE);
	assert_shared(mr);
	ibv_dereg_mr(mr);
	rnic_free(p);
}

static void private_hugetlb_memory(void **state)
{
	const size_t len = 2 << 20;
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	(void)state;
	if (p == MAP_FAILED)
		skip();
	fill(p, len, 8);
	struct ibv_mr *mr = ibv_reg_mr(pd, p + 100, 5000, RW);
	assert_non_null(mr);
	assert_filled(p, len, 8);
	assert_shared(mr);
	ibv_dereg_mr(mr);
	munmap(p, len);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heap_keeps_its_contents),
		cmocka_unit_test(twice_and_overlapping_share_pages),
		cmocka_unit_test(neighbours_join),
		cmocka_unit_test(small_neighbours_take_few_mappings),
		cmocka_unit_test(memory_mapped_anew_is_moved_anew),
		cmocka_unit_test(data_and_bss),
		cmocka_unit_test(absent_pages_read_as_zero),
		cmocka_unit_test(rnic_alloc_moves_nothing),
		cmocka_unit_test(refusals),
		cmocka_unit_test(read_only_memory_stays_so),
		cmocka_unit_test(iova_is_the_tagged_offset),
		cmocka_unit_test(sweep_finds_what_was_unmapped),
		cmocka_unit_test(a_sweep_keeps_what_is_moved_meanwhile),
		cmocka_unit_test(rnic_alloc_takes_hugepages),
		cmocka_unit_test(private_hugetlb_memory),
	};

	return cmocka_run_group_tests(tests, dev_setup, dev_teardown);
}
