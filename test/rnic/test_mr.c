/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory registration: whatever is registered, the daemon must see what the program writes and the program what the
 * daemon writes, and nothing that anybody wrote may be lost.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>
#include <rnic/rnic.h>

#include "fake.h"
#include "rnic/arena.h"

#define PAGE 4096u
#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct fake *fake;
static struct ibv_context *ctx;
static struct ibv_pd *pd;

static int setup(void **state)
{
	(void)state;
	setenv("RNIC_REG_VERBOSE", "0", 1);
	fake = fake_start();
	struct ibv_device **list = ibv_get_device_list(NULL);
	ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(ctx);
	return pd == NULL;
}

static int teardown(void **state)
{
	(void)state;
	ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
	fake_stop(fake);
	return 0;
}

static struct fake_client *client(void) { return fake_client(fake, 0); }

static uint8_t pattern(size_t i, uint8_t seed) { return (uint8_t)(i * 7 + (i >> 8) + seed); }

static void fill(uint8_t *p, size_t len, uint8_t seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = pattern(i, seed);
}

static void assert_filled(const uint8_t *p, size_t len, uint8_t seed)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != pattern(i, seed))
			fail_msg("byte %zu is %#x, not %#x", i, p[i], pattern(i, seed));
}

/* Both ways, over the whole region. */
static void assert_shared(struct ibv_mr *mr)
{
	uint8_t *copy = malloc(mr->length);

	assert_non_null(mr);
	fill(mr->addr, mr->length, 1);
	assert_true(fake_mr_read(client(), mr->rkey, (uintptr_t)mr->addr, copy, mr->length));
	assert_filled(copy, mr->length, 1);
	fill(copy, mr->length, 2);
	assert_true(fake_mr_write(client(), mr->rkey, (uintptr_t)mr->addr, copy, mr->length));
	assert_filled(mr->addr, mr->length, 2);
	free(copy);
}

static uint32_t pieces(const struct ibv_mr *mr) { return client()->mr[mr->handle].npieces; }

/* Contents survive the move, around the region too. */
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

/* Neighbours registered in any order still end side by side: one piece for each window of the arena at most. */
static void neighbours_join(void **state)
{
	const unsigned n = 1024;
	void *fresh = (void *)UINT64_C(0x7d0000000000); /* where nothing was before */
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

static void memory_mapped_anew_is_moved_anew(void **state)
{
	uint8_t *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t got[4];

	(void)state;
	struct ibv_mr *old = ibv_reg_mr(pd, p, 16 * PAGE, RW);
	memcpy(p, "old", 4);
	/* The program forgets the region and maps the same addresses again. */
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

static void __attribute__((noinline)) recurse(unsigned depth)
{
	volatile uint8_t room[1000];

	memset((void *)(uintptr_t)room, (int)depth, sizeof(room));
	if (depth > 0)
		recurse(depth - 1);
	assert_int_equal(room[500], (uint8_t)depth);
}

static void own_stack(void **state)
{
	uint8_t buf[300];
	uint8_t big[40000];

	(void)state;
	fill(buf, sizeof(buf), 7);
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, sizeof(buf), RW);
	assert_non_null(mr);
	assert_filled(buf, sizeof(buf), 7);
	assert_shared(mr);
	struct ibv_mr *mr2 = ibv_reg_mr(pd, big, sizeof(big), RW);
	assert_shared(mr2);
	recurse(800);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(mr2);
}

static void *stack_thread(void *arg)
{
	uint8_t low[200];

	(void)arg;
	fill(low, sizeof(low), 9);
	struct ibv_mr *mr = ibv_reg_mr(pd, low, sizeof(low), RW);
	if (mr == NULL)
		return NULL;
	assert_filled(low, sizeof(low), 9);
	assert_shared(mr);
	recurse(200);
	ibv_dereg_mr(mr);
	return arg;
}

static void *deep_thread(void *arg)
{
	/* Well below the page that holds the thread's descriptor (arena.h, hazards). */
	volatile uint8_t gap[3 * PAGE];

	gap[0] = gap[2 * PAGE] = 0;
	return stack_thread(arg);
}

static void stack_of_a_thread(void **state)
{
	pthread_t t;
	void *ret = NULL;

	pthread_create(&t, NULL, deep_thread, state);
	pthread_join(t, &ret);
	assert_ptr_equal(ret, state);
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
	/* What is handed out again is zero again. */
	uint8_t *q = rnic_alloc(100000);
	for (size_t k = 0; k < 100000; k++)
		assert_int_equal(q[k], 0);
	rnic_free(q);
	rnic_free(NULL);
	assert_null(rnic_alloc(0));
	assert_int_equal(errno, EINVAL);
}

/* ---- what is refused ---- */

static void assert_refused(void *p, size_t len, int access, int err)
{
	errno = 0;
	assert_null(ibv_reg_mr(pd, p, len, access));
	assert_int_equal(errno, err);
}

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

/* ---- memory that is shared already ---- */

static unsigned imports(void)
{
	unsigned n = 0;

	for (size_t i = 0; i < RN_ARRAY_LEN(client()->import); i++)
		n += client()->import[i].used;
	return n;
}

/* Both ways, for regions anywhere in it; the contents stay where others see them too. */
static void assert_passed_through(uint8_t *p, size_t len, uint8_t *other)
{
	fill(p, len, 11);
	struct ibv_mr *a = ibv_reg_mr(pd, p + 100, len - 200, RW), *b = ibv_reg_mr(pd, p + len / 2, 64, RW);
	if (a == NULL && errno == EOPNOTSUPP)
		skip(); /* not privileged */
	assert_non_null(a);
	assert_non_null(b);
	assert_int_equal(imports(), 1);
	assert_filled(p, len, 11);
	assert_shared(a);
	if (other != NULL)
		assert_filled(other + 100, len - 200, 2);
	assert_shared(b);
	ibv_dereg_mr(a);
	assert_shared(b);
	ibv_dereg_mr(b);
	assert_int_equal(imports(), 0);
	munmap(p, len);
}

static void shared_anonymous(void **state)
{
	(void)state;
	assert_passed_through(mmap(NULL, 9 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 9 * PAGE,
			      NULL);
}

static void system_v(void **state)
{
	int id = shmget(IPC_PRIVATE, 9 * PAGE, 0600);
	uint8_t *p = shmat(id, NULL, 0), *q = shmat(id, NULL, 0);

	(void)state;
	shmctl(id, IPC_RMID, NULL);
	assert_passed_through(p, 9 * PAGE, q);
	shmdt(q);
}

/* By name, and with neither a name nor a descriptor left. */
static void posix_shm(void **state)
{
	char name[64];

	(void)state;
	snprintf(name, sizeof(name), "/rnic-test-%d", (int)getpid());
	for (int blind = 0; blind < 2; blind++) {
		int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
		assert_int_equal(ftruncate(fd, 9 * PAGE), 0);
		uint8_t *p = mmap(NULL, 9 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		uint8_t *q = mmap(NULL, 9 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
		if (!blind)
			shm_unlink(name);
		fake_blind(fake, blind);
		assert_passed_through(p, 9 * PAGE, q);
		fake_blind(fake, false);
		shm_unlink(name);
		munmap(q, 9 * PAGE);
	}
}

static void memfd_of_the_programs_own(void **state)
{
	int fd = memfd_create("theirs", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(ftruncate(fd, 16 * PAGE), 0);
	fake_blind(fake, true);
	assert_passed_through(mmap(NULL, 9 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4 * PAGE), 9 * PAGE, NULL);
	/* The mapping is longer than its file. */
	uint8_t *p = mmap(NULL, 100 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, p, 16 * PAGE, RW);
	assert_shared(mr);
	ibv_dereg_mr(mr);
	munmap(p, 100 * PAGE);
	close(fd);
	fake_blind(fake, false);
}

static void a_file_that_may_only_be_read(void **state)
{
	int fd = memfd_create("theirs", MFD_CLOEXEC), ro;
	char path[64], got[8];

	(void)state;
	assert_int_equal(write(fd, "contents", 8), 8);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY | O_CLOEXEC);
	close(fd);
	uint8_t *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, ro, 0);
	assert_refused(p, 8, IBV_ACCESS_LOCAL_WRITE, EACCES);
	fake_blind(fake, true);
	struct ibv_mr *mr = ibv_reg_mr(pd, p, 8, IBV_ACCESS_REMOTE_READ);
	fake_blind(fake, false);
	assert_non_null(mr);
	assert_true(fake_mr_read(client(), mr->rkey, (uintptr_t)p, got, 8));
	assert_memory_equal(got, "contents", 8);
	ibv_dereg_mr(mr);
	munmap(p, PAGE);
	close(ro);
}

static void what_cannot_be_passed_through_says_so(void **state)
{
	uint8_t *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	(void)state;
	fake_blind(fake, true);
	assert_refused(p, 10, RW, EOPNOTSUPP);
	fake_blind(fake, false);
	fake_refuse(fake, ENOSPC, "");
	assert_refused(p, 10, RW, ENOSPC);
	struct ibv_mr *mr = ibv_reg_mr(pd, p, 10, RW);
	assert_int_equal(imports(), mr != NULL);
	if (mr != NULL)
		ibv_dereg_mr(mr);
	munmap(p, PAGE);
}

/* A private and a shared mapping side by side, as one region. */
static void private_and_shared_in_one_region(void **state)
{
	uint8_t *p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_equal(mmap(p + 3 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED,
			      -1, 0), p + 3 * PAGE);
	struct ibv_mr *mr = ibv_reg_mr(pd, p + 1000, 7 * PAGE, RW);
	if (mr == NULL)
		skip();
	assert_int_equal(pieces(mr), 3);
	assert_shared(mr);
	ibv_dereg_mr(mr);
	assert_int_equal(imports(), 0);
	munmap(p, 8 * PAGE);
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

/* ---- writers at the same time ---- */

struct writer { uint8_t *p; size_t pages; uint64_t count; int stop; };

static void *write_on(void *arg)
{
	struct writer *w = arg;
	uint64_t n = 0;

	while (!__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
		uint64_t *slot = (uint64_t *)(void *)(w->p + n % w->pages * PAGE);
		__atomic_store_n(slot, *slot + 1, __ATOMIC_RELAXED);
		n++;
	}
	w->count = n;
	return NULL;
}

static void writers_lose_nothing(int by_signal)
{
	const size_t pages = 2000;
	struct rnic_mem *mem = rnic_ctx(ctx)->s->mem;
	int uffd = mem->uffd;

	if (by_signal)
		mem->uffd = -1;
	for (int round = 0; round < 5; round++) {
		uint8_t *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		/* Each thread has its own word on each page. */
		struct writer w[2] = { { .p = p, .pages = pages }, { .p = p + 64, .pages = pages } };
		pthread_t t[2];
		for (int i = 0; i < 2; i++)
			pthread_create(&t[i], NULL, write_on, &w[i]);
		usleep(2000);
		struct ibv_mr *mr = ibv_reg_mr(pd, p, pages * PAGE, RW);
		assert_non_null(mr);
		usleep(2000);
		for (int i = 0; i < 2; i++) {
			__atomic_store_n(&w[i].stop, 1, __ATOMIC_RELAXED);
			pthread_join(t[i], NULL);
			uint64_t sum = 0, seen = 0, word;
			for (size_t k = 0; k < pages; k++) {
				sum += *(uint64_t *)(void *)(w[i].p + k * PAGE);
				assert_true(fake_mr_read(client(), mr->rkey, (uintptr_t)w[i].p + k * PAGE, &word, 8));
				seen += word;
			}
			assert_int_equal(sum, w[i].count);
			assert_int_equal(seen, w[i].count);
		}
		ibv_dereg_mr(mr);
		munmap(p, pages * PAGE);
	}
	mem->uffd = uffd;
}

static void writers_lose_nothing_under_userfaultfd(void **state)
{
	(void)state;
	writers_lose_nothing(0);
}

static void writers_lose_nothing_under_the_signal(void **state)
{
	(void)state;
	writers_lose_nothing(1);
}

/* ---- realloc, fork, sweep ---- */

static void realloc_of_registered_memory(void **state)
{
	const size_t len = 1 << 20;
	uint8_t *p = malloc(len), *q = malloc(len);

	(void)state;
	fill(p, len, 1);
	fill(q, len, 2);
	struct ibv_mr *a = ibv_reg_mr(pd, p, len, RW), *b = ibv_reg_mr(pd, q, len, RW);
	assert_non_null(a);
	assert_non_null(b);
	ibv_dereg_mr(a);
	p = realloc(p, 8 * len);
	memset(p + len, 0xee, 7 * len);
	assert_filled(p, len, 1);
	assert_filled(q, len, 2);
	ibv_dereg_mr(b);
	free(p);
	free(q);
}

/* ---- madvise, mremap, sigaction: as if nothing had been moved ---- */

static void assert_zeros(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		assert_int_equal(p[i], 0);
}

static void discarded_memory_reads_as_zero(void **state)
{
	static const int advice[] = { MADV_DONTNEED, MADV_FREE };
	uint8_t *p = mmap(NULL, 32 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t got[2 * PAGE];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		fill(p, 32 * PAGE, 3);
		struct ibv_mr *mr = ibv_reg_mr(pd, p + 8 * PAGE, 16 * PAGE, RW);
		assert_non_null(mr);
		/* In a region, the daemon sees it too; and from moved memory into memory that never was. */
		assert_int_equal(madvise(p + 10 * PAGE, 2 * PAGE, advice[i]), 0);
		assert_zeros(p + 10 * PAGE, 2 * PAGE);
		assert_true(fake_mr_read(client(), mr->rkey, (uintptr_t)p + 10 * PAGE, got, sizeof(got)));
		assert_zeros(got, sizeof(got));
		assert_int_equal(p[12 * PAGE], pattern(12 * PAGE, 3));
		assert_shared(mr);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		assert_int_equal(madvise(p + 20 * PAGE, 8 * PAGE, MADV_DONTNEED), 0);
		assert_zeros(p + 20 * PAGE, 8 * PAGE);
		assert_int_equal(madvise(p + 4 * PAGE, 8 * PAGE, MADV_DONTNEED), 0);
		assert_zeros(p + 4 * PAGE, 8 * PAGE);
		assert_int_equal(p[3 * PAGE], pattern(3 * PAGE, 3));
		assert_int_equal(p[28 * PAGE], pattern(28 * PAGE, 3));
	}
	munmap(p + 16 * PAGE, PAGE);
	errno = 0;
	assert_int_equal(madvise(p, 32 * PAGE, MADV_DONTNEED), -1);
	assert_int_equal(errno, ENOMEM);
	munmap(p, 32 * PAGE);
}

static void mappings_grow_beside_their_neighbours(void **state)
{
	static const unsigned pages[] = { 1, 16 };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		const size_t len = pages[i] * PAGE;
		uint8_t *p = mmap(NULL, 2 * len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), got[8];
		fill(p, 2 * len, 6);
		struct ibv_mr *a = ibv_reg_mr(pd, p, len, RW), *b = ibv_reg_mr(pd, p + len, len, RW);
		assert_non_null(a);
		assert_non_null(b);
		/* No room behind it. */
		assert_ptr_equal(mremap(p, len, 4 * len, 0), MAP_FAILED);
		uint8_t *q = mremap(p, len, 4 * len, MREMAP_MAYMOVE);
		assert_ptr_not_equal(q, MAP_FAILED);
		assert_filled(q, len, 6);
		assert_zeros(q + len, 3 * len);
		memset(q + len, 0xee, 3 * len);
		/* The first region went along, the second lost nothing. */
		memcpy(q, "further", 8);
		assert_true(fake_mr_read(client(), a->rkey, (uintptr_t)p, got, 8));
		assert_memory_equal(got, "further", 8);
		assert_shared(b);
		assert_int_equal(p[len], pattern(0, 2));
		struct ibv_mr *whole = ibv_reg_mr(pd, q, 4 * len, RW);
		assert_shared(whole);
		/* In place, into the hole that the first one left. */
		uint8_t *r = mremap(q, 4 * len, 2 * len, 0);
		assert_ptr_equal(r, q);
		assert_ptr_equal(mremap(q, 2 * len, 3 * len, 0), q);
		assert_zeros(q + 2 * len, len);
		ibv_dereg_mr(a);
		ibv_dereg_mr(b);
		ibv_dereg_mr(whole);
		munmap(q, 3 * len);
		munmap(p + len, len);
	}
}

static sigjmp_buf jump;
static void *fault_at;

static void their_handler(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)context;
	fault_at = info->si_addr;
	siglongjmp(jump, 1);
}

static void handlers_of_the_program_are_called(void **state)
{
	struct sigaction theirs = { .sa_sigaction = their_handler, .sa_flags = SA_SIGINFO }, before, now;
	uint8_t *none = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	writers_lose_nothing(1); /* our handler is there */
	assert_int_equal(sigaction(SIGSEGV, &theirs, &before), 0);
	assert_int_equal(sigaction(SIGSEGV, NULL, &now), 0);
	assert_ptr_equal(now.sa_sigaction, their_handler);
	writers_lose_nothing(1); /* and still does its work */
	if (sigsetjmp(jump, 1) == 0)
		*(volatile uint8_t *)none = 1;
	assert_ptr_equal(fault_at, none);
	fault_at = NULL;
	if (sigsetjmp(jump, 1) == 0)
		*(volatile uint8_t *)none = 1; /* the mask is as before */
	assert_ptr_equal(fault_at, none);
	assert_int_equal(sigaction(SIGSEGV, &before, &now), 0);
	assert_ptr_equal(now.sa_sigaction, their_handler);
	munmap(none, PAGE);
}

/*
 * A child made by fork() gets what was moved as its own, as the kernel copies pinned memory: what it writes is not the
 * parent's, what the parent and the daemon write is not the child's. It may be on the very stack that it runs on.
 */
static void fork_copies_what_was_moved(void **state)
{
	uint8_t here[64];
	uint8_t *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *heap[100];
	struct ibv_mr *mr[100];
	int st;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		heap[i] = malloc(100);
		snprintf(heap[i], 100, "block %u", i);
		mr[i] = i % 2 == 0 ? ibv_reg_mr(pd, heap[i], 100, RW) : NULL;
	}
	struct ibv_mr *page = ibv_reg_mr(pd, p, 4 * PAGE, RW);
	assert_non_null(page);
	struct ibv_mr *stack = ibv_reg_mr(pd, here, sizeof(here), RW);
	assert_non_null(stack);
	strcpy((char *)here, "the stack");
	memcpy(p + 2 * PAGE, "whole", 6);
	int told[2];
	assert_int_equal(pipe(told), 0);
	pid_t pid = fork();
	if (pid == 0) {
		char c;
		/* The parent has changed its own meanwhile. */
		if (read(told[0], &c, 1) != 1 || strcmp((char *)here, "the stack") != 0 || strcmp((char *)p + 2 * PAGE, "whole") != 0)
			_exit(1);
		strcpy((char *)here, "the child's");
		for (unsigned i = 0; i < 100; i++)
			memset(heap[i], 'x', 99);
		for (unsigned i = 0; i < 1000; i++)
			free(malloc(i * 13));
		p[0] = 42;
		_exit(0);
	}
	assert_true(fake_mr_write(client(), page->rkey, (uintptr_t)p + 2 * PAGE, "other", 6));
	strcpy((char *)here, "the parent's");
	assert_int_equal(write(told[1], "x", 1), 1);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	assert_string_equal(here, "the parent's");
	close(told[0]);
	close(told[1]);
	ibv_dereg_mr(stack);
	for (unsigned i = 0; i < 100; i++) {
		char want[100];
		snprintf(want, sizeof(want), "block %u", i);
		assert_string_equal(heap[i], want);
		if (mr[i] != NULL)
			ibv_dereg_mr(mr[i]);
		free(heap[i]);
	}
	assert_int_equal(p[0], 0);
	assert_string_equal(p + 2 * PAGE, "other");
	assert_shared(page);
	ibv_dereg_mr(page);
	munmap(p, 4 * PAGE);
}

/* The child has a session of its own, beside what it has inherited; another goes on as another program. */
static void children_start_afresh(void **state)
{
	uint8_t *p = malloc(10000);
	struct ibv_mr *mr = ibv_reg_mr(pd, p, 10000, RW);
	int st;

	(void)state;
	assert_non_null(mr);
	fill(p, 10000, 21);
	pid_t pid = fork();
	if (pid == 0) {
		struct ibv_device **list = ibv_get_device_list(NULL);
		struct ibv_context *c = list != NULL ? ibv_open_device(list[0]) : NULL;
		struct ibv_pd *own = c != NULL ? ibv_alloc_pd(c) : NULL;
		struct ibv_mr *again = own != NULL ? ibv_reg_mr(own, p, 10000, RW) : NULL;
		if (again == NULL)
			_exit(1);
		fill(p, 10000, 22);
		_exit(ibv_dereg_mr(again) != 0 || ibv_dealloc_pd(own) != 0 || ibv_close_device(c) != 0);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	assert_filled(p, 10000, 21);
	pid = fork();
	if (pid == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	assert_shared(mr);
	ibv_dereg_mr(mr);
	free(p);
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
	/* The loop of a program that maps, registers, deregisters, unmaps. */
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

/* ---- hugepages: where the system has some free; else these say that they were skipped ---- */

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
		cmocka_unit_test(memory_mapped_anew_is_moved_anew),
		cmocka_unit_test(own_stack),
		cmocka_unit_test(stack_of_a_thread),
		cmocka_unit_test(data_and_bss),
		cmocka_unit_test(absent_pages_read_as_zero),
		cmocka_unit_test(rnic_alloc_moves_nothing),
		cmocka_unit_test(refusals),
		cmocka_unit_test(read_only_memory_stays_so),
		cmocka_unit_test(shared_anonymous),
		cmocka_unit_test(system_v),
		cmocka_unit_test(posix_shm),
		cmocka_unit_test(memfd_of_the_programs_own),
		cmocka_unit_test(a_file_that_may_only_be_read),
		cmocka_unit_test(what_cannot_be_passed_through_says_so),
		cmocka_unit_test(private_and_shared_in_one_region),
		cmocka_unit_test(iova_is_the_tagged_offset),
		cmocka_unit_test(writers_lose_nothing_under_userfaultfd),
		cmocka_unit_test(writers_lose_nothing_under_the_signal),
		cmocka_unit_test(realloc_of_registered_memory),
		cmocka_unit_test(discarded_memory_reads_as_zero),
		cmocka_unit_test(mappings_grow_beside_their_neighbours),
		cmocka_unit_test(handlers_of_the_program_are_called),
		cmocka_unit_test(fork_copies_what_was_moved),
		cmocka_unit_test(children_start_afresh),
		cmocka_unit_test(sweep_finds_what_was_unmapped),
		cmocka_unit_test(rnic_alloc_takes_hugepages),
		cmocka_unit_test(private_hugetlb_memory),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
