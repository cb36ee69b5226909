/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rnicrun --huge: big blocks of malloc() and its family come from hugepages in a memfd of the process, so that
 * ibv_reg_mr() of them moves nothing: for librnic they are memory that is shared already. This library is preloaded
 * beside librnic and does not depend on librnic. Blocks below BIG come from libc, and so do all blocks when the system
 * has no hugepages left.
 *
 * The pool is an address range that is allocated in units. A hugepage is taken from the system with its first unit and
 * returned with its last. A child made by fork() gets copies of the hugepages in use, in ordinary memory (fork()
 * returns in the parent when the child has them), and a pool of its own for free pages. There is one lock; nothing here
 * allocates.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIG   (UINT64_C(128) << 10) /* bytes: glibc makes a separate mapping for such blocks */
#define UNIT  (UINT64_C(64) << 10)
#define PAGE  (UINT64_C(2) << 20)
#define POOL  (UINT64_C(64) << 30) /* bytes of addresses; hugepages are taken only where blocks are */
#define UNITS (POOL / UNIT)
#define PAGES (POOL / PAGE)
#define SIZES (PAGE / UNIT) /* units: for each number up to this one the pool remembers where a search begins */

/* glibc's functions under their internal names, which remain when malloc and free are replaced. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *p);

enum state { NEW = 0, ON, OFF };

static struct {
	pthread_mutex_t lock;
	enum state state;
	int fd;
	uint8_t *base;
	uint64_t used[UNITS / 64];
	uint32_t units[UNITS];      /* number of units of the block that begins here */
	uint32_t lowest[SIZES + 1]; /* [n]: no run of n free units begins below this unit */
	uint8_t users[PAGES];       /* units in use */
	uint8_t own[PAGES];         /* 1: in a child of fork(), the page is a copy in ordinary memory */
	int pipe[2];
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void say_none(void)
{
	static const char text[] =
		"rnicrun --huge: the system has no 2 MiB page left, so big allocations are ordinary memory: "
		"raise vm.nr_hugepages\n";
	static bool said;

	if (!said && write(STDERR_FILENO, text, sizeof(text) - 1) > 0)
		said = true;
}

/* ---- the pool; under its lock ---- */

static uint8_t *page_at(uint64_t page) { return pool.base + page * PAGE; }

static bool map_pages(uint64_t first, uint64_t n)
{
	return mmap(page_at(first), n * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, pool.fd,
		    (off_t)(first * PAGE)) != MAP_FAILED;
}

static bool file_open(void)
{
	pool.fd = memfd_create("rnicrun-huge", MFD_CLOEXEC | MFD_HUGETLB | MFD_HUGE_2MB);
	return pool.fd >= 0 && ftruncate(pool.fd, (off_t)POOL) == 0;
}

static void before_fork(void);
static void after_fork_parent(void);
static void after_fork_child(void);

static enum state start(void)
{
	uint8_t *room = mmap(NULL, POOL + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (room == MAP_FAILED)
		return OFF;
	pool.base = (uint8_t *)(((uintptr_t)room + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
	if (!file_open() || !map_pages(0, PAGES)) {
		say_none();
		return OFF;
	}
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
	return ON;
}

static bool unit_used(uint64_t u) { return (pool.used[u / 64] >> (u % 64) & 1) != 0; }

static void page_drop(uint64_t page)
{
	if (--pool.users[page] > 0)
		return;
	if (!pool.own[page]) {
		fallocate(pool.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(page * PAGE), (off_t)PAGE);
	} else if (pool.state == ON && map_pages(page, 1)) {
		pool.own[page] = 0;
	}
}

/* Takes a page from the system. The kernel does not begin (EINTR) while a signal waits for this thread. */
static bool page_take(uint64_t page)
{
	int rc;

	do
		rc = fallocate(pool.fd, 0, (off_t)(page * PAGE), (off_t)PAGE);
	while (rc != 0 && errno == EINTR);
	return rc == 0;
}

/* Takes the pages of the units from the system. False: the system has too few. */
static bool pages_take(uint64_t first, uint64_t n)
{
	for (uint64_t u = first; u < first + n; u++) {
		uint64_t page = u * UNIT / PAGE;
		if (pool.users[page] == 0 && !pool.own[page] && !page_take(page)) {
			while (u-- > first)
				page_drop(u * UNIT / PAGE);
			return false;
		}
		pool.users[page]++;
	}
	return true;
}

/* The first run of n free units that begins at this unit or above; UNITS: none. */
static uint64_t run_from(uint64_t at, uint64_t n)
{
	while (at + n <= UNITS) {
		uint64_t u = at + n;
		while (u > at && !unit_used(u - 1))
			u--;
		if (u == at)
			return at;
		at = u;
	}
	return UNITS;
}

/*
 * The first run of n free units that begins at a multiple of `step` units; UNITS: none. The search begins above the
 * used units that an earlier search for n units has passed, so blocks that stay cost later searches nothing.
 */
static uint64_t huge_find(uint64_t n, uint64_t step)
{
	uint32_t *lowest = &pool.lowest[n < SIZES ? n : SIZES];
	uint64_t at = run_from(*lowest, n);

	if (n <= SIZES)
		*lowest = (uint32_t)at;
	while (at % step != 0)
		at = run_from((at + step - 1) / step * step, n);
	return at;
}

/* Units became free: searches for as many units as the free run around them has begin at this run again. */
static void run_freed(uint64_t first, uint64_t end)
{
	uint64_t at = first;

	while (at > 0 && first - at < SIZES && !unit_used(at - 1))
		at--;
	while (end < UNITS && end - at < SIZES && !unit_used(end))
		end++;
	for (uint64_t n = 1; n <= SIZES && n <= end - at; n++)
		if (pool.lowest[n] > at)
			pool.lowest[n] = (uint32_t)at;
}

/* Allocates a block; NULL: libc must allocate it. align is a power of two. */
static void *take(size_t size, size_t align)
{
	uint64_t n = (size + UNIT - 1) / UNIT, first = UNITS;

	if (size < BIG || size > POOL || align > PAGE)
		return NULL;
	pthread_mutex_lock(&pool.lock);
	if (pool.state == NEW)
		pool.state = start();
	if (pool.state == ON)
		first = huge_find(n, align > UNIT ? align / UNIT : 1);
	if (first < UNITS && !pages_take(first, n)) {
		say_none();
		first = UNITS;
	}
	if (first < UNITS) {
		for (uint64_t u = first; u < first + n; u++)
			pool.used[u / 64] |= UINT64_C(1) << (u % 64);
		pool.units[first] = (uint32_t)n;
	}
	pthread_mutex_unlock(&pool.lock);
	return first < UNITS ? pool.base + first * UNIT : NULL;
}

static bool ours(const void *p)
{
	return pool.base != NULL && (uintptr_t)p >= (uintptr_t)pool.base && (uintptr_t)p - (uintptr_t)pool.base < POOL;
}

/* Size in bytes of a block of the pool. */
static size_t room_of(const void *p) { return pool.units[(uint64_t)((const uint8_t *)p - pool.base) / UNIT] * UNIT; }

static void give(void *p)
{
	uint64_t first = (uint64_t)((uint8_t *)p - pool.base) / UNIT;

	pthread_mutex_lock(&pool.lock);
	for (uint64_t u = first; u < first + pool.units[first]; u++) {
		pool.used[u / 64] &= ~(UINT64_C(1) << (u % 64));
		page_drop(u * UNIT / PAGE);
	}
	run_freed(first, first + pool.units[first]);
	pool.units[first] = 0;
	pthread_mutex_unlock(&pool.lock);
}

/* ---- fork ---- */

static void before_fork(void)
{
	pthread_mutex_lock(&pool.lock);
	if (pipe2(pool.pipe, O_CLOEXEC) != 0)
		pool.pipe[0] = pool.pipe[1] = -1;
}

/* Waits until the child has its copies or has ended. */
static void after_fork_parent(void)
{
	char c;

	if (pool.pipe[0] >= 0) {
		close(pool.pipe[1]);
		while (read(pool.pipe[0], &c, 1) < 0 && errno == EINTR)
			;
		close(pool.pipe[0]);
	}
	pthread_mutex_unlock(&pool.lock);
}

static void make_own(uint64_t first, uint64_t n)
{
	void *copy = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		_exit(127); /* a child that would write to its parent's memory must not go on */
	memcpy(copy, page_at(first), n * PAGE);
	if (syscall(SYS_mremap, copy, n * PAGE, n * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page_at(first)) == -1)
		_exit(127);
	memset(pool.own + first, 1, n);
}

/* The number of pages from `first` on that are alike: all in use or all free, and all copied by make_own() or none. */
static uint64_t alike(uint64_t first)
{
	uint64_t n = 1;

	while (first + n < PAGES && (pool.users[first + n] > 0) == (pool.users[first] > 0) &&
	       pool.own[first + n] == pool.own[first])
		n++;
	return n;
}

static void after_fork_child(void)
{
	int old = pool.fd;

	for (uint64_t p = 0, n; p < PAGES; p += n) {
		n = alike(p);
		if (pool.users[p] > 0 && !pool.own[p])
			make_own(p, n);
	}
	if (!file_open())
		pool.state = OFF;
	for (uint64_t p = 0, n; p < PAGES; p += n) {
		n = alike(p);
		if (pool.users[p] == 0 && !pool.own[p] && (pool.state != ON || !map_pages(p, n))) {
			pool.state = OFF;
			(void)mmap(page_at(p), n * PAGE, PROT_NONE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		}
	}
	close(old);
	if (pool.pipe[0] >= 0) {
		close(pool.pipe[0]);
		close(pool.pipe[1]);
	}
	pthread_mutex_init(&pool.lock, NULL);
}

/* ---- malloc and its family ---- */

void *malloc(size_t size)
{
	void *p = take(size, UNIT);

	return p != NULL ? p : __libc_malloc(size);
}

void free(void *p)
{
	int err = errno;

	if (ours(p))
		give(p);
	else
		__libc_free(p);
	errno = err;
}

void *calloc(size_t n, size_t size)
{
	size_t all;
	void *p = __builtin_mul_overflow(n, size, &all) ? NULL : take(all, UNIT);

	return p != NULL ? memset(p, 0, all) : __libc_calloc(n, size);
}

size_t malloc_usable_size(void *p)
{
	static size_t (*libc)(void *);

	if (ours(p))
		return room_of(p);
	if (libc == NULL)
		libc = (size_t(*)(void *))(uintptr_t)dlsym(RTLD_NEXT, "malloc_usable_size");
	return libc(p);
}

void *realloc(void *old, size_t size)
{
	if (old == NULL)
		return malloc(size);
	if (!ours(old) && size < BIG)
		return __libc_realloc(old, size);
	if (size == 0) {
		free(old);
		return NULL;
	}
	size_t had = malloc_usable_size(old);
	if (ours(old) && size <= had && size > had / 2)
		return old;
	void *p = malloc(size);
	if (p != NULL) {
		memcpy(p, old, had < size ? had : size);
		free(old);
	}
	return p;
}

void *reallocarray(void *old, size_t n, size_t size)
{
	size_t all;

	if (!__builtin_mul_overflow(n, size, &all))
		return realloc(old, all);
	errno = ENOMEM;
	return NULL;
}

void *memalign(size_t align, size_t size)
{
	void *p = (align & (align - 1)) == 0 ? take(size, align) : NULL;

	return p != NULL ? p : __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }

int posix_memalign(void **out, size_t align, size_t size)
{
	int err = errno;

	if (align < sizeof(void *) || (align & (align - 1)) != 0)
		return EINVAL;
	void *p = memalign(align, size);
	errno = err;
	if (p == NULL)
		return ENOMEM;
	*out = p;
	return 0;
}

void *valloc(size_t size) { return memalign(4096, size); }
void *pvalloc(size_t size) { return memalign(4096, (size + 4095) & ~(size_t)4095); }
