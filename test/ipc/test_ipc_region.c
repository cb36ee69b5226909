/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipc/ipc_region.h"

#define MIB (UINT64_C(1) << 20)

static int memfd(uint64_t size, int seals)
{
	int fd = memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	if (seals != 0)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/* What the daemon says to the file. */
static int check(enum ipc_region region, int fd, uint64_t size)
{
	struct ipc_file f;

	return ipc_file_look(fd, &f) ? ipc_region_check(region, &f, size) : -EBADF;
}

static void what_the_client_makes_the_daemon_takes(void **state)
{
	const struct {
		enum ipc_region region;
		uint64_t size;
	} t[] = {
		{ IPC_REGION_QUEUES, IPC_QUEUES_SIZE },
		{ IPC_REGION_ARENA, IPC_ARENA_SIZE },
		{ IPC_REGION_ARENA, MIB },
	};

	(void)state;
	for (size_t i = 0; i < RN_ARRAY_LEN(t); i++) {
		uint8_t *here, *there;
		int fd;
		assert_int_equal(ipc_region_create(t[i].region, t[i].size, &fd), 0);
		assert_int_equal(check(t[i].region, fd, t[i].size), 0);
		assert_int_equal(ipc_region_map(fd, t[i].size, &here), 0);
		assert_int_equal(ipc_region_map(fd, t[i].size, &there), 0);
		here[t[i].size - 1] = 0x5a;
		assert_int_equal(there[t[i].size - 1], 0x5a);
		munmap(here, t[i].size);
		munmap(there, t[i].size);
		close(fd);
	}
}

static void a_region_cannot_be_shrunk_or_sealed_later(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(ipc_region_create(IPC_REGION_ARENA, MIB, &fd), 0);
	assert_int_not_equal(ftruncate(fd, 0), 0);
	assert_int_not_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
	close(fd);
}

static void sizes_are_checked(void **state)
{
	int fd = -1;

	(void)state;
	assert_int_equal(ipc_region_create(IPC_REGION_QUEUES, 0, &fd), -EINVAL);
	assert_int_equal(ipc_region_create(IPC_REGION_QUEUES, 4097, &fd), -EINVAL);
	assert_int_equal(ipc_region_create(IPC_REGION_QUEUES, IPC_QUEUES_SIZE + 4096, &fd), -EINVAL);
	assert_int_equal(ipc_region_create(IPC_REGION_HUGE, 4096, &fd), -EINVAL);
	assert_int_equal(ipc_region_create(IPC_REGIONS, 4096, &fd), -EINVAL);
	struct rlimit was, few;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	few = (struct rlimit){ .rlim_cur = 8192, .rlim_max = was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
	assert_int_equal(ipc_region_create(IPC_REGION_ARENA, 12288, &fd), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_int_equal(fd, -1);
	fd = memfd(MIB, F_SEAL_SHRINK | F_SEAL_SEAL);
	assert_int_equal(check(IPC_REGION_ARENA, fd, 2 * MIB), -ERANGE);
	assert_int_equal(check(IPC_REGION_ARENA, fd, 0), -EINVAL);
	assert_int_equal(check(IPC_REGION_ARENA, fd, UINT64_MAX), -EINVAL);
	assert_int_equal(check(IPC_REGION_ARENA, fd, MIB), 0);
	close(fd);
}

static void seals_are_demanded(void **state)
{
	const int bad[] = { 0, F_SEAL_SHRINK, F_SEAL_GROW | F_SEAL_SEAL, F_SEAL_SHRINK | F_SEAL_SEAL | F_SEAL_WRITE,
			    F_SEAL_SHRINK | F_SEAL_SEAL | F_SEAL_FUTURE_WRITE };

	(void)state;
	for (size_t i = 0; i < RN_ARRAY_LEN(bad); i++) {
		int fd = memfd(MIB, bad[i]);
		assert_int_equal(check(IPC_REGION_ARENA, fd, MIB), -EPERM);
		close(fd);
	}
}

static void what_is_not_a_memfd_is_refused(void **state)
{
	int s[2], file = open("/proc/self/exe", O_RDONLY), null = open("/dev/null", O_RDWR);

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	assert_int_equal(check(IPC_REGION_ARENA, s[0], MIB), -EBADF);
	assert_int_equal(check(IPC_REGION_ARENA, file, MIB), -EBADF);
	assert_int_equal(check(IPC_REGION_ARENA, null, MIB), -EBADF);
	assert_int_equal(check(IPC_REGION_ARENA, 999, MIB), -EBADF);
	close(s[0]);
	close(s[1]);
	close(file);
	close(null);
}

static void ordinary_pages_are_no_huge_region(void **state)
{
	int fd = memfd(2 * MIB, F_SEAL_SHRINK | F_SEAL_SEAL);

	(void)state;
	assert_int_equal(check(IPC_REGION_HUGE, fd, 2 * MIB), -EBADF);
	close(fd);
}

static uint64_t free_hugepages(void)
{
	unsigned long n = 0;
	FILE *f = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "r");

	if (f == NULL || fscanf(f, "%lu", &n) != 1)
		n = 0;
	if (f != NULL)
		fclose(f);
	return n;
}

/* On a machine without hugepages a hugetlb memfd can be created; only the first touch fails. */
static void huge_pages_are_checked_and_missing_ones_are_enomem(void **state)
{
	uint8_t *p;
	int fd, rc = ipc_region_create(IPC_REGION_HUGE, IPC_HUGE_SIZE, &fd);

	(void)state;
	if (rc != 0) { /* a kernel without hugetlb */
		assert_true(rc == -ENOSYS || rc == -ENODEV || rc == -ENOMEM || rc == -EINVAL);
		return;
	}
	assert_int_equal(check(IPC_REGION_HUGE, fd, IPC_HUGE_SIZE), 0);
	assert_int_equal(check(IPC_REGION_ARENA, fd, IPC_ARENA_SIZE), -EBADF);
	assert_int_equal(ipc_region_map(fd, IPC_HUGE_SIZE, &p), 0);
	uint64_t before = free_hugepages();
	rc = ipc_region_prefault(p, 4096);
	if (before == 0 && free_hugepages() == 0)
		assert_int_equal(rc, -ENOMEM);
	else /* other processes of the machine may take the last hugepage at any time */
		assert_true(rc == 0 || rc == -ENOMEM);
	munmap(p, IPC_HUGE_SIZE);
	close(fd);
}

static void prefaulted_pages_are_present(void **state)
{
	uint8_t *p;
	unsigned char in[4];
	int fd;

	(void)state;
	assert_int_equal(ipc_region_create(IPC_REGION_ARENA, MIB, &fd), 0);
	assert_int_equal(ipc_region_map(fd, MIB, &p), 0);
	assert_int_equal(ipc_region_prefault(p + 4096 + 4000, 200), 0); /* unaligned bounds that touch two pages */
	assert_int_equal(mincore(p, 4 * 4096, in), 0);
	assert_int_equal(in[0] & 1, 0);
	assert_int_equal(in[1] & 1, 1);
	assert_int_equal(in[2] & 1, 1);
	assert_int_equal(in[3] & 1, 0);
	assert_int_equal(ipc_region_prefault(p, 0), 0);
	munmap(p, MIB);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_client_makes_the_daemon_takes),
		cmocka_unit_test(a_region_cannot_be_shrunk_or_sealed_later),
		cmocka_unit_test(sizes_are_checked),
		cmocka_unit_test(seals_are_demanded),
		cmocka_unit_test(what_is_not_a_memfd_is_refused),
		cmocka_unit_test(ordinary_pages_are_no_huge_region),
		cmocka_unit_test(huge_pages_are_checked_and_missing_ones_are_enomem),
		cmocka_unit_test(prefaulted_pages_are_present),
	};
	return cmocka_run_group_tests_name("ipc_region", tests, NULL, NULL);
}
