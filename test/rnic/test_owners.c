/* SPDX-License-Identifier: BSD-3-Clause */
/* What objects belong to: a parent domain, the session whose daemon knows them; and a session that is not finished. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "fake.h"
#include "rnic/cm/cm.h"
#include "rnic/verbs/objects.h"

#define PAGE 4096u

static struct fake *fake;

/* ---- a session whose last step fails ---- */

int __real_rnic_watch_start(struct rnic_session *s);
int __wrap_rnic_watch_start(struct rnic_session *s);

static bool no_thread;

int __wrap_rnic_watch_start(struct rnic_session *s) { return no_thread ? EAGAIN : __real_rnic_watch_start(s); }

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static void a_session_that_cannot_be_finished_leaves_no_descriptor_open(void **state)
{
	(void)state;
	setenv("RNIC_REG_VERBOSE", "0", 1);
	fake = fake_start();
	no_thread = true;
	assert_null(ibv_get_device_list(NULL));
	fake_stop(fake); /* has descriptors in this process, too */
	const unsigned before = descriptors();
	fake = fake_start();
	assert_null(ibv_get_device_list(NULL));
	fake_stop(fake);
	no_thread = false;
	assert_int_equal(descriptors(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_session_that_cannot_be_finished_leaves_no_descriptor_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
