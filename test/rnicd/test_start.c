/* SPDX-License-Identifier: BSD-3-Clause */
/* How rnicd starts, refuses to start, and ends. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_client.h"

static int run_it(struct run *r, const char *a, const char *b)
{
	const char *argv[] = { RNICD_PATH, a, b, NULL };

	run_start(r, argv);
	return run_end(r);
}

static void remove_config(const struct daemon *d)
{
	unlink(d->conf);
	rmdir(d->dir);
}

static void help_reads_like_a_manual(void **state)
{
	struct run r;

	(void)state;
	assert_int_equal(run_it(&r, "--help", NULL), 0);
	assert_non_null(strstr(r.text, "NAME\n  rnicd - software RDMA network adapter\n"));
	assert_non_null(strstr(r.text, "\nEXIT STATUS\n"));
	assert_int_equal(run_it(&r, "--help-config", NULL), 0);
	assert_non_null(strstr(r.text, "\n  mtu "));
	assert_int_equal(run_it(&r, "--nonsense", NULL), 2);
	assert_int_equal(run_it(&r, "nonsense", NULL), 2);
}

static void check_names_the_line(void **state)
{
	struct daemon d;
	struct run r;
	char want[256];

	(void)state;
	daemon_config(&d, "");
	assert_int_equal(run_it(&r, "--check", d.conf), 0);
	snprintf(want, sizeof(want), "%s: no mistakes, 2 ports\n", d.conf);
	assert_string_equal(r.text, want);
	remove_config(&d);
	daemon_config(&d, "seed = 1\ncolour = red");
	assert_int_equal(run_it(&r, "--check", d.conf), 1);
	snprintf(want, sizeof(want), "%s:4: unknown key 'colour' in a section [rnicd]\n", d.conf);
	assert_string_equal(r.text, want);
	assert_int_equal(run_it(&r, "--config", d.conf), 1); /* and rnicd does not start */
	assert_string_equal(r.text, want);
	remove_config(&d);
}

static void missing_hugepages_are_named(void **state)
{
	struct daemon d;
	struct run r;

	(void)state;
	daemon_config(&d, "hugepages = yes\nmemory = 512G"); /* more than any machine has */
	assert_int_equal(run_it(&r, "--config", d.conf), 1);
	const char *s = strstr(r.text, "rnicd: cannot start: no");
	assert_non_null(s);
	assert_non_null(strstr(s, "hugepages: run `echo 262144 > /proc/sys/vm/nr_hugepages`, or set hugepages = no\n"));
	assert_int_not_equal(access(d.sock, F_OK), 0);
	remove_config(&d);
}

static void a_cpu_that_there_is_not_is_named(void **state)
{
	struct daemon d;
	struct run r;

	(void)state;
	daemon_config(&d, "workers = 0,1023");
	assert_int_equal(run_it(&r, "--config", d.conf), 1);
	assert_non_null(strstr(r.text, "rnicd: cannot start: workers names CPU 1023, which is not one of the "));
	remove_config(&d);
	daemon_config(&d, "control-cpu = 1022");
	assert_int_equal(run_it(&r, "--config", d.conf), 1);
	assert_non_null(strstr(r.text, "rnicd: cannot start: control-cpu names CPU 1022, "));
	remove_config(&d);
}

static void without_hugepages_it_runs_and_says_so(void **state)
{
	struct daemon d;

	(void)state;
	daemon_start(&d, "hugepages = no");
	assert_non_null(strstr(d.run.text, "ready, 2 ports, 1 worker, ordinary pages (hugepages = no), socket "));
	daemon_stop(&d);
}

static void second_daemon_on_the_socket_is_refused(void **state)
{
	struct daemon d;
	struct run r;
	struct fc c;
	char want[256];

	(void)state;
	daemon_start(&d, "");
	assert_int_equal(run_it(&r, "--config", d.conf), 1);
	snprintf(want, sizeof(want),
		 "rnicd: cannot start: another rnicd is running on socket %s: stop it, or give this one a socket of "
		 "its own\n",
		 d.sock);
	assert_string_equal(r.text, want);
	fc_join(&c, &d); /* the first daemon still works */
	fc_close(&c);
	daemon_stop(&d);
}

static void a_socket_left_behind_is_taken_over(void **state)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct daemon d;
	struct fc c;

	(void)state;
	daemon_start(&d, "");
	kill(d.run.pid, SIGKILL);
	run_end(&d.run);
	assert_int_equal(access(d.sock, F_OK), 0);
	strcpy(un.sun_path, d.sock);
	const char *argv[] = { RNICD_PATH, "--config", d.conf, NULL };
	run_start(&d.run, argv);
	assert_true(run_wait_for(&d.run, "ready"));
	fc_join(&c, &d);
	fc_close(&c);
	daemon_stop(&d);
}

static void a_file_in_the_way_is_left_alone(void **state)
{
	struct daemon d;
	struct run r;

	(void)state;
	daemon_config(&d, "");
	int fd = open(d.sock, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	assert_int_equal(run_it(&r, "--config", d.conf), 1);
	assert_non_null(strstr(r.text, "a file of this name exists and is not a socket: move it away\n"));
	assert_int_equal(access(d.sock, F_OK), 0);
	unlink(d.sock);
	remove_config(&d);
	assert_int_not_equal(access(d.dir, F_OK), 0); /* the folder was empty otherwise */
}

static void the_socket_has_the_mode_asked_for(void **state)
{
	struct daemon d;
	struct stat st;

	(void)state;
	daemon_start(&d, "socket-mode = 0640");
	assert_int_equal(stat(d.sock, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	daemon_stop(&d);
}

static void the_service_manager_is_told(void **state)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX, .sun_path = "" };
	char name[108], got[64];
	struct daemon d;

	(void)state;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	snprintf(name, sizeof(name), "@rnicd-test-notify-%d", (int)getpid());
	memcpy(un.sun_path + 1, name + 1, strlen(name) - 1);
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
	assert_int_equal(bind(fd, (struct sockaddr *)&un, len), 0);
	setenv("NOTIFY_SOCKET", name, 1);
	daemon_start(&d, "");
	unsetenv("NOTIFY_SOCKET");
	ssize_t n = recv(fd, got, sizeof(got), 0);
	assert_int_equal(n, 7);
	assert_memory_equal(got, "READY=1", 7);
	daemon_stop(&d);
	assert_int_equal(recv(fd, got, sizeof(got), 0), 10);
	assert_memory_equal(got, "STOPPING=1", 10);
	close(fd);
}

static void clients_see_the_end_by_closing(void **state)
{
	struct daemon d;
	struct fc c;
	struct ipc_msg m;

	(void)state;
	daemon_start(&d, "");
	fc_join(&c, &d);
	uint32_t cq = fc_cq(&c, 0, 0);
	fc_qp(&c, 1, fc_pd(&c), cq, NULL);
	kill(d.run.pid, SIGINT);
	assert_int_equal(ipc_recv(c.sock, &m, NULL, NULL), -EPIPE);
	assert_int_equal(run_end(&d.run), 0);
	fc_close(&c);
	remove_config(&d);
}

static void several_workers_share_a_cpu(void **state)
{
	struct daemon d;
	struct fc c;

	(void)state;
	daemon_start(&d, "workers = 0,0,0");
	assert_non_null(strstr(d.run.text, "ready, 2 ports, 3 workers"));
	fc_join(&c, &d);
	uint32_t cq = fc_cq(&c, 0, 0), pd = fc_pd(&c);
	for (uint32_t i = 0; i < 9; i++)
		fc_qp(&c, 1 + i, pd, cq, NULL);
	fc_close(&c);
	daemon_stop(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(help_reads_like_a_manual),
		cmocka_unit_test(check_names_the_line),
		cmocka_unit_test(missing_hugepages_are_named),
		cmocka_unit_test(a_cpu_that_there_is_not_is_named),
		cmocka_unit_test(without_hugepages_it_runs_and_says_so),
		cmocka_unit_test(second_daemon_on_the_socket_is_refused),
		cmocka_unit_test(a_socket_left_behind_is_taken_over),
		cmocka_unit_test(a_file_in_the_way_is_left_alone),
		cmocka_unit_test(the_socket_has_the_mode_asked_for),
		cmocka_unit_test(the_service_manager_is_told),
		cmocka_unit_test(clients_see_the_end_by_closing),
		cmocka_unit_test(several_workers_share_a_cpu),
	};
	return cmocka_run_group_tests_name("start", tests, NULL, NULL);
}
