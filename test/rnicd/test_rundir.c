/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/rundir.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char parent[64];

static int make_parent(void **state)
{
	(void)state;
	strcpy(parent, "/tmp/rnic-rundir-XXXXXX");
	return mkdtemp(parent) != NULL ? 0 : -1;
}

static int remove_parent(void **state)
{
	(void)state;
	return rmdir(parent); /* fails if a case has left something */
}

/* The number of a process that has ended. */
static int dead_pid(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return pid;
}

static const char *path(const char *dir, const char *file)
{
	static char p[2][108];
	static unsigned which;
	char *out = p[which++ & 1];

	int n = snprintf(out, sizeof(p[0]), "%s/%s%s%s", parent, dir, file != NULL ? "/" : "",
			 file != NULL ? file : "");
	assert_true(n > 0 && n < (int)sizeof(p[0]));
	return out;
}

static const char *dir_of(int pid)
{
	static char name[32];

	snprintf(name, sizeof(name), RUNDIR_PREFIX "%d", pid);
	assert_int_equal(mkdir(path(name, NULL), 0700), 0);
	return name;
}

static int listener(const char *dir)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(un.sun_path, path(dir, "dpdk_telemetry.v2"));
	assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static bool there(const char *dir) { return access(path(dir, NULL), F_OK) == 0; }

static void what_a_killed_daemon_left_goes(void **state)
{
	const char *d = dir_of(dead_pid());

	(void)state;
	close(listener(d));
	rundir_clean(parent);
	assert_false(there(d));
	d = dir_of(dead_pid()); /* the daemon was killed before it had a socket */
	rundir_clean(parent);
	assert_false(there(d));
}

static void what_lives_stays(void **state)
{
	const char *d = dir_of((int)getpid());

	(void)state;
	rundir_clean(parent);
	assert_true(there(d));
	assert_int_equal(rmdir(path(d, NULL)), 0);
}

/* No process here has that number, but the socket answers: the daemon is in another PID namespace. */
static void a_socket_that_answers_stays(void **state)
{
	const char *d = dir_of(dead_pid());
	int fd = listener(d);

	(void)state;
	rundir_clean(parent);
	assert_int_equal(access(path(d, "dpdk_telemetry.v2"), F_OK), 0);
	close(fd);
	rundir_clean(parent);
	assert_false(there(d));
}

static void what_is_not_ours_stays(void **state)
{
	static const char *const names[] = { "rte", "rnicd", "rnicd-a", "rnicd12x", "rnicd-5", "rnicd0" };

	(void)state;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(mkdir(path(names[i], NULL), 0700), 0);
		rundir_clean(parent);
		assert_true(there(names[i]));
		assert_int_equal(rmdir(path(names[i], NULL)), 0);
	}
	const char *d = dir_of(dead_pid());
	close(open(path(d, "notes"), O_CREAT | O_WRONLY, 0600));
	rundir_clean(parent);
	assert_int_equal(access(path(d, "notes"), F_OK), 0);
	unlink(path(d, "notes"));
	rundir_clean(parent);
	assert_false(there(d));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_a_killed_daemon_left_goes, make_parent, remove_parent),
		cmocka_unit_test_setup_teardown(what_lives_stays, make_parent, remove_parent),
		cmocka_unit_test_setup_teardown(a_socket_that_answers_stays, make_parent, remove_parent),
		cmocka_unit_test_setup_teardown(what_is_not_ours_stays, make_parent, remove_parent),
	};
	return cmocka_run_group_tests_name("rundir", tests, NULL, NULL);
}
