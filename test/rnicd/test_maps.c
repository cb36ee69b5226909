/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening the file that a process has mapped. The test maps the files and is the client, too. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/client_maps.h"

#define LEN 4096u

/* Opens this process's mapping at p. */
static int opened(const void *p)
{
	const struct client_proc me = client_proc_open(getpid(), geteuid(), getegid());
	const uint64_t at = (uint64_t)(uintptr_t)p;

	errno = EACCES; /* what an earlier call may have left */
	int fd = client_maps_open(&me, -1, at, at + LEN, true);
	close(me.dir);
	if (fd == -ENXIO) {
		print_message("SKIP: this process may not open files in /proc/PID/map_files\n");
		skip();
	}
	return fd;
}

static void a_memory_file_is_opened(void **state)
{
	int memory = memfd_create("test", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(ftruncate(memory, LEN), 0);
	void *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	assert_true(p != MAP_FAILED);
	int fd = opened(p);
	assert_true(fd >= 0);
	close(fd);
	munmap(p, LEN);
	close(memory);
}

/* The program is told that the file is of another kind, and not that its rights do not suffice. */
static void a_file_that_is_no_memory_is_named_as_such(void **state)
{
	int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);

	(void)state;
	assert_true(zero >= 0);
	void *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0);
	assert_true(p != MAP_FAILED);
	assert_int_equal(opened(p), -EOPNOTSUPP);
	munmap(p, LEN);
	close(zero);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_memory_file_is_opened),
		cmocka_unit_test(a_file_that_is_no_memory_is_named_as_such),
	};

	return cmocka_run_group_tests_name("maps", tests, NULL, NULL);
}
