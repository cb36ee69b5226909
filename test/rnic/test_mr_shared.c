/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory registration: memory that is shared with other processes stays where it is, and the daemon maps it, too. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include <rnic/rnic.h>

#include "mr_rig.h"

/* ---- memory that is shared already ---- */

static unsigned imports(void)
{
	unsigned n = 0;

	for (size_t i = 0; i < RN_ARRAY_LEN(client()->import); i++)
		n += client()->import[i].used;
	return n;
}

/*
 * Checks two regions of the mapping in both directions. other: a second mapping of this memory (or NULL), checked too.
 */
static void assert_passed_through(uint8_t *p, size_t len, uint8_t *other)
{
	fill(p, len, 11);
	struct ibv_mr *a = ibv_reg_mr(pd, p + 100, len - 200, RW), *b = ibv_reg_mr(pd, p + len / 2, 64, RW);
	if (a == NULL && errno == EOPNOTSUPP)
		skip(); /* the kernel refuses an unprivileged process */
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

/*
 * POSIX shared memory whose descriptor is closed. blind 0: its name is gone, too; blind 1: it can be reopened by name.
 */
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
	/* A mapping that is longer than its file. */
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
	assert_ptr_equal(
		mmap(p + 3 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
		p + 3 * PAGE);
	struct ibv_mr *mr = ibv_reg_mr(pd, p + 1000, 7 * PAGE, RW);
	if (mr == NULL)
		skip();
	assert_int_equal(pieces(mr), 3);
	assert_shared(mr);
	ibv_dereg_mr(mr);
	assert_int_equal(imports(), 0);
	munmap(p, 8 * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shared_anonymous),
		cmocka_unit_test(system_v),
		cmocka_unit_test(posix_shm),
		cmocka_unit_test(memfd_of_the_programs_own),
		cmocka_unit_test(a_file_that_may_only_be_read),
		cmocka_unit_test(what_cannot_be_passed_through_says_so),
		cmocka_unit_test(private_and_shared_in_one_region),
	};

	return cmocka_run_group_tests(tests, dev_setup, dev_teardown);
}
