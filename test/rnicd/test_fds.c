/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helper processes: real ones, with a loop that the test plays. The linker puts the test's fork() and sendmsg() in
 * place of libc's, so that the test decides when they fail.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "border/rnicd.h"
#include "control/fds.h"
#include "control/loop.h"

#define PATIENCE_MS 30000 /* what has not happened by then counts as a failure */

/* ---- functions that the files under test call ---- */

/* The number of the call that fails, from 1 on, counted over a process and its child; 0: none. */
static uint32_t fork_to_fail;
pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
	if (fork_to_fail > 0 && --fork_to_fail == 0) {
		errno = EAGAIN;
		return -1;
	}
	return __real_fork();
}

static bool full; /* the kernel has no memory for messages */
ssize_t __real_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags)
{
	if (full) {
		errno = ENOBUFS;
		return -1;
	}
	return __real_sendmsg(fd, m, flags);
}

void rnicd_log(enum rnicd_log_level level, const char *fmt, ...)
{
	(void)level;
	(void)fmt;
}
uint64_t rnicd_now(void) { return 1; }

static struct loop_fd *answers;
bool loop_add(struct loop_fd *f, int fd, uint32_t events)
{
	(void)events;
	f->fd = fd;
	answers = f;
	return true;
}
void loop_del(struct loop_fd *f) { f->fd = -1; }

static struct loop_timer *armed;
void loop_timer_arm(struct loop_timer *t, uint64_t when)
{
	(void)when;
	armed = t;
}
void loop_timer_disarm(struct loop_timer *t)
{
	(void)t;
	armed = NULL;
}

/* ---- tests ---- */

static uint64_t told; /* key of the last result */
static void take(uint64_t key, struct fds_result *r)
{
	told = key;
	assert_int_equal(r->status, -EPIPE);
}

/* ---- memory files ---- */

static int closed_fd = -1; /* of inotify: an event says that the last descriptor of the memory file has been closed */

static bool is_closed(int ms)
{
	struct pollfd p = { .fd = closed_fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

/* As rnicd: has the memory file for itself, and closes it before it returns. */
static void take_memory(uint64_t key, struct fds_result *r)
{
	told = key;
	assert_int_equal(r->status, 0);
	assert_int_equal(r->n, 1);
	assert_int_equal(r->given[0].kind, FDS_MEMORY);
	assert_int_equal(r->given[0].memory.size, 8192);
	assert_int_equal(r->given[0].memory.page, 4096);
	assert_false(r->given[0].memory.huge);
	close(r->given[0].fd);
	assert_false(is_closed(200)); /* a helper that does not wait for this function has closed it by then */
}

static void readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
}

static void helpers_that_cannot_be_made_are_reported(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= 2; n++) {
		fork_to_fail = n;
		errno = 0;
		assert_false(fds_start());
		assert_int_equal(errno, EAGAIN);
		fork_to_fail = 0;
	}
}

/* No other job is under way whose end would have the waiting job sent. */
static void a_job_that_could_not_be_sent_is_sent_later(void **state)
{
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	close(pair[1]);
	assert_true(fds_start() && fds_serve(take));
	full = true;
	assert_true(fds_receive(7, 0, pair[0]));
	assert_int_equal(fds_totals.waiting, 1);
	for (int i = 0; i < 2; i++) { /* the second time there is memory */
		struct loop_timer *t = armed;
		assert_non_null(t);
		armed = NULL;
		full = i == 0;
		t->due(t);
		assert_int_equal(fds_totals.running, i);
	}
	readable(answers->fd);
	answers->ready(answers, POLLIN);
	assert_int_equal(told, 7);
	assert_int_equal(fds_totals.waiting + fds_totals.running, 0);
	fds_stop();
	close(pair[0]);
}

/* Its pages may be tens of GiB, and who closes it last frees them. */
static void the_last_descriptor_of_a_memory_file_is_a_helpers(void **state)
{
	struct ipc_msg m = { .type = IPC_IMPORT, .len = IPC_MSG_LEN(import) };
	int pair[2], fd;
	char path[32];

	(void)state;
	assert_true(fds_start() && fds_serve(take_memory)); /* first: the helpers inherit what is open */
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	fd = memfd_create("large", MFD_CLOEXEC);
	closed_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_true(closed_fd >= 0 && inotify_add_watch(closed_fd, path, IN_CLOSE) >= 0);
	assert_int_equal(ftruncate(fd, 8192), 0);
	assert_int_equal(ipc_send(pair[1], &m, &fd, 1), 0);
	close(fd);
	assert_true(fds_receive(8, 0, pair[0]));
	told = 0;
	while (fds_totals.running > 0) { /* the result, and the end of the job */
		readable(answers->fd);
		answers->ready(answers, POLLIN);
	}
	assert_int_equal(told, 8);
	assert_true(is_closed(PATIENCE_MS));
	fds_stop();
	close(closed_fd);
	close(pair[0]);
	close(pair[1]);
}

static uint64_t born;
static void take_file(uint64_t key, struct fds_result *r)
{
	told = key;
	assert_int_equal(r->status, 0);
	assert_true(r->n == 1 && r->given[0].file);
	born = r->given[0].fborn;
}

/* The second file may have got the inode number of the first, which is gone. */
static void files_differ_by_their_birth(void **state)
{
	struct ipc_msg m = { .type = IPC_OPEN_XRCD, .len = IPC_MSG_LEN(open_xrcd) };
	uint64_t before = 0;
	int pair[2];

	(void)state;
	assert_true(fds_start() && fds_serve(take_file));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	for (int i = 0; i < 2; i++) {
		FILE *f = tmpfile();
		assert_non_null(f);
		struct statx sx;
		assert_int_equal(statx(fileno(f), "", AT_EMPTY_PATH, STATX_BTIME, &sx), 0);
		const bool knows = (sx.stx_mask & STATX_BTIME) != 0;
		assert_int_equal(ipc_send(pair[1], &m, &(int){ fileno(f) }, 1), 0);
		fclose(f);
		assert_true(fds_receive(8, 0, pair[0]));
		while (fds_totals.running > 0) {
			readable(answers->fd);
			answers->ready(answers, POLLIN);
		}
		assert_true(knows ? born > before : born == 0);
		before = born;
		usleep(50000); /* the clock of a file system has steps */
	}
	fds_stop();
	close(pair[0]);
	close(pair[1]);
}

/* Each user's clients send nothing, so that its helpers wait. */
static void some_users_together_do_not_hold_all_helpers(void **state)
{
	const uid_t others = FDS_HELPERS_MAX / FDS_PER_USER;
	int pair[2], later[2];

	(void)state;
	assert_true(fds_start() && fds_serve(take));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, later), 0);
	for (uid_t uid = 1; uid <= others; uid++)
		for (uint32_t i = 0; i < FDS_PER_USER; i++)
			assert_true(fds_receive(1, uid, pair[0]));
	const uint32_t held = fds_totals.running;
	assert_true(held >= FDS_PER_USER && held < FDS_HELPERS_MAX);
	close(later[1]);
	assert_true(fds_receive(9, others + 1, later[0]));
	assert_int_equal(fds_totals.running, held + 1);
	readable(answers->fd);
	answers->ready(answers, POLLIN);
	assert_int_equal(told, 9); /* while the others still wait */
	close(pair[1]);
	while (fds_totals.running + fds_totals.waiting > 0) {
		readable(answers->fd);
		answers->ready(answers, POLLIN);
	}
	fds_stop();
	close(pair[0]);
	close(later[0]);
}

static uint32_t descriptors(void)
{
	uint32_t n = 0;
	DIR *d = opendir("/proc/self/fd");

	assert_non_null(d);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

/* A socket that holds a descriptor of a pipe, as the socket of a client that has sent one. */
static int holding(int pipe_end)
{
	struct ipc_msg m = { .type = IPC_IMPORT, .len = IPC_MSG_LEN(import) };
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(ipc_send(pair[1], &m, &pipe_end, 1), 0);
	close(pair[1]);
	return pair[0];
}

/* The user's clients block all helpers that the user may have, so no helper closes one socket after the other. */
static void sockets_to_be_closed_for_a_user_do_not_pile_up(void **state)
{
	enum { ROUNDS = 50 };
	int silent[2], pipes[2];
	char nothing;

	(void)state;
	assert_true(fds_start() && fds_serve(take));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, silent), 0);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	for (uint32_t i = 0; i <= FDS_PER_USER; i++)
		assert_true(fds_receive(1, 1, silent[0]));
	assert_int_equal(fds_totals.waiting, 1);
	const uint32_t before = descriptors();
	for (uint32_t i = 0; i < ROUNDS * FDS_TOGETHER; i++) {
		fds_close(fds_closing(), 1, holding(pipes[1]));
		assert_true(descriptors() < before + FDS_TOGETHER);
		while (poll(&(struct pollfd){ .fd = answers->fd, .events = POLLIN }, 1, 0) == 1)
			answers->ready(answers, POLLIN);
	}
	close(pipes[1]);
	readable(pipes[0]); /* the last descriptor of the other end has been closed: so have the sockets that held it */
	assert_int_equal(read(pipes[0], &nothing, 1), 0);
	close(silent[1]);
	while (fds_totals.running + fds_totals.waiting > 0) {
		readable(answers->fd);
		answers->ready(answers, POLLIN);
	}
	fds_stop();
	close(silent[0]);
	close(pipes[0]);
}

/* The helpers of a daemon that the test plays: the daemon's ends of both sockets, and what they share. */
static int jobs[2], replies[2];
static struct fds_shared *shared;

static pid_t helpers_start(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(shared != MAP_FAILED);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, jobs), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, replies), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(jobs[0]);
		close(replies[0]);
		fds_helper_main(jobs[1], replies[1], shared);
	}
	close(jobs[1]);
	close(replies[1]);
	return pid;
}

/* A helper has the job when the socket of jobs is empty. Returns the other end of the job's descriptor. */
static int job_taken(const struct fds_ask *ask)
{
	int pair[2], unread = 1;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(fds_send(jobs[0], ask, sizeof(*ask), &pair[0], 1), 0);
	close(pair[0]);
	while (unread > 0) {
		assert_int_equal(ioctl(jobs[0], SIOCOUTQ, &unread), 0);
		poll(NULL, 0, 1);
	}
	return pair[1];
}

/* Both helpers hold the last descriptor of their job's socket, so its other end tells when the helper has ended. */
static void helpers_end_with_a_daemon_that_is_killed(void **state)
{
	const struct fds_ask closes = { .number = 1, .what = FDS_CLOSE, .closing = 1 };
	const struct fds_ask receives = { .number = 2, .what = FDS_RECEIVE };
	pid_t broker = helpers_start();
	int status, waits_for_daemon = job_taken(&closes), waits_for_client = job_taken(&receives);

	(void)state;
	close(jobs[0]);
	close(replies[0]);
	struct pollfd p[2] = { { .fd = waits_for_daemon, .events = POLLIN },
			       { .fd = waits_for_client, .events = POLLIN } };
	const int ended[2] = { poll(&p[0], 1, PATIENCE_MS), poll(&p[1], 1, PATIENCE_MS) };
	__atomic_store_n(&shared->closed, 1, __ATOMIC_RELEASE); /* a helper that has not ended ends now */
	close(waits_for_daemon);
	close(waits_for_client);
	assert_int_equal(ended[0], 1);
	assert_int_equal(ended[1], 1);
	assert_int_equal(waitpid(broker, &status, 0), broker);
	munmap(shared, sizeof(*shared));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(helpers_that_cannot_be_made_are_reported),
		cmocka_unit_test(a_job_that_could_not_be_sent_is_sent_later),
		cmocka_unit_test(the_last_descriptor_of_a_memory_file_is_a_helpers),
		cmocka_unit_test(files_differ_by_their_birth),
		cmocka_unit_test(some_users_together_do_not_hold_all_helpers),
		cmocka_unit_test(sockets_to_be_closed_for_a_user_do_not_pile_up),
		cmocka_unit_test(helpers_end_with_a_daemon_that_is_killed),
	};

	return cmocka_run_group_tests_name("fds", tests, NULL, NULL);
}
