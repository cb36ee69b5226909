/* SPDX-License-Identifier: BSD-3-Clause */
/* rnicd's side of the helper processes: sends them jobs and takes their results. */
#include "control/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rn_list.h"
#include "border/rnicd.h"
#include "control/loop.h"

#define UNSENT_NS (10 * RN_NS_PER_MS) /* pause after which a job is sent again */

struct fds_job {
	struct rn_link link; /* waiting or running */
	struct fds_ask ask;
	uint64_t key;
	uid_t uid;
	int sock, dir; /* the client's socket; FDS_OPEN: its /proc/PID, else -1 */
	bool told;     /* its result has come, and the helper has yet to close memory files */
	struct fds_result
		*kept; /* its result with a socket of the kernel's, which the helper has yet to close; NULL: none */
};

struct fds_totals fds_totals;

static struct rn_list waiting, running;
static struct loop_fd answers = { .fd = -1 };
static struct loop_timer unsent; /* runs after a job could not be sent */
static int jobs = -1, answers_fd = -1;
static uint64_t last, last_closing;
static struct fds_shared *shared;
static bool pass_kernels;
static void (*take)(uint64_t key, struct fds_result *r);
static void (*receive_here)(int sock, struct fds_result *r); /* NULL: there are helpers */

static struct fds_job *job_of(struct rn_link *x) { return rn_container_of(x, struct fds_job, link); }

/* ---- start and end ---- */

/* Makes the broker (fds_helper.c), as a grandchild of rnicd, so that rnicd need not wait for its end. */
static bool fork_helper(int helper_jobs, int helper_answers)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);
		pid_t helper = fork();
		if (helper != 0)
			_exit(helper < 0 ? errno : 0);
		for (int fd = 0; fd <= STDERR_FILENO && null >= 0; fd++)
			dup2(null, fd);
		close(jobs);
		close(answers_fd);
		fds_helper_main(helper_jobs, helper_answers, shared);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return false;
	errno = WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
	return errno == 0;
}

void fds_pass_kernels(void) { pass_kernels = true; }

bool fds_start(void)
{
	int j[2], a[2];

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, j) != 0)
		return false;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, a) != 0) {
		close(j[0]);
		close(j[1]);
		return false;
	}
	shared->kernels = pass_kernels;
	jobs = j[0];
	answers_fd = a[0];
	bool ok = fork_helper(j[1], a[1]);
	close(j[1]);
	close(a[1]);
	fcntl(answers_fd, F_SETFL, O_NONBLOCK);
	if (!ok)
		fds_stop();
	return ok;
}

void fds_start_without(void (*receive)(int sock, struct fds_result *r)) { receive_here = receive; }

void fds_stop(void)
{
	if (answers.fd >= 0)
		loop_del(&answers);
	loop_timer_disarm(&unsent);
	if (jobs >= 0)
		close(jobs);
	if (answers_fd >= 0)
		close(answers_fd);
	jobs = answers_fd = -1;
}

/* ---- jobs ---- */

static void run_those_that_may(void);

static void send_again(struct loop_timer *t)
{
	(void)t;
	run_those_that_may();
}

/* Whether a helper may begin this job: its user has fewer than FDS_PER_USER under way, and fewer than one for each
 * FDS_PER_USER helpers that are left. A user that has none may have the last one. */
static bool may_run(const struct fds_job *j)
{
	const uint32_t left = FDS_HELPERS_MAX - fds_totals.running;
	uint32_t same = 0;

	for (struct rn_link *x = running.first; x != NULL; x = x->next)
		same += job_of(x)->uid == j->uid;
	return same < FDS_PER_USER && same * FDS_PER_USER < left;
}

static void run_those_that_may(void)
{
	for (struct rn_link *x = waiting.first, *next; x != NULL && fds_totals.running < FDS_HELPERS_MAX; x = next) {
		struct fds_job *j = job_of(x);
		const int fds[2] = { j->sock, j->dir };
		next = x->next;
		if (!may_run(j))
			continue;
		if (j->ask.what == FDS_CLOSE)
			j->ask.closing = last_closing + 1;
		int rc = fds_send(jobs, &j->ask, sizeof(j->ask), fds, j->dir >= 0 ? 2 : 1);
		if (rc != 0) { /* no memory at the moment; -EPIPE: there are no helpers any more */
			unsent.due = send_again;
			if (rc != -EPIPE)
				loop_timer_arm(&unsent, rnicd_now() + UNSENT_NS);
			return;
		}
		rn_list_remove(&waiting, x);
		rn_list_push_back(&running, x);
		fds_totals.waiting--;
		fds_totals.running++;
		if (j->ask.what != FDS_CLOSE)
			continue;
		close(j->sock); /* not the last descriptor: the helper closes its own after this close */
		__atomic_store_n(&shared->closed, ++last_closing, __ATOMIC_RELEASE);
	}
}

/*
 * If FDS_TOGETHER sockets of this user wait to be closed, sends them to one helper. This job does not wait for the
 * user's other jobs, as its helper is replaced at once. If it cannot be sent, the sockets wait for the next socket.
 */
static void close_together(uid_t uid)
{
	struct fds_job *of_user[FDS_TOGETHER];
	int fds[FDS_TOGETHER];
	uint32_t n = 0;

	for (struct rn_link *x = waiting.first; x != NULL && n < FDS_TOGETHER; x = x->next) {
		if (job_of(x)->uid != uid || job_of(x)->ask.what != FDS_CLOSE)
			continue;
		fds[n] = job_of(x)->sock;
		of_user[n++] = job_of(x);
	}
	if (n < FDS_TOGETHER || fds_totals.running == FDS_HELPERS_MAX)
		return;
	struct fds_ask ask = { of_user[0]->ask.number, FDS_CLOSE_ALL, .closing = last_closing + 1 };
	if (fds_send(jobs, &ask, sizeof(ask), fds, n) != 0)
		return;
	for (uint32_t i = 0; i < n; i++) {
		rn_list_remove(&waiting, &of_user[i]->link);
		close(fds[i]); /* not the last descriptor */
		if (i > 0)
			free(of_user[i]);
	}
	of_user[0]->ask = ask;
	rn_list_push_back(&running, &of_user[0]->link);
	fds_totals.waiting -= n;
	fds_totals.running++;
	__atomic_store_n(&shared->closed, ++last_closing, __ATOMIC_RELEASE);
}

static void begin(struct fds_job *j)
{
	const uid_t uid = j->uid;

	j->ask.number = ++last;
	fds_totals.jobs++;
	fds_totals.waiting++;
	rn_list_push_back(&waiting, &j->link);
	run_those_that_may();
	close_together(uid);
}

struct fds_job *fds_closing(void) { return calloc(1, sizeof(struct fds_job)); }

void fds_close(struct fds_job *closing, uid_t uid, int sock)
{
	if (receive_here != NULL) {
		free(closing);
		close(sock);
		return;
	}
	shutdown(sock, SHUT_RDWR); /* the client sees the end now, even if a helper closes the socket later */
	*closing = (struct fds_job){ .ask.what = FDS_CLOSE, .uid = uid, .sock = sock, .dir = -1 };
	begin(closing);
}

bool fds_receive(uint64_t key, uid_t uid, int sock)
{
	struct fds_result r = { .status = 0 };
	struct fds_job *j;

	if (receive_here != NULL) {
		receive_here(sock, &r);
		take(key, &r);
		return true;
	}
	j = calloc(1, sizeof(*j));
	if (j == NULL)
		return false;
	*j = (struct fds_job){ .ask.what = FDS_RECEIVE, .key = key, .uid = uid, .sock = sock, .dir = -1 };
	begin(j);
	return true;
}

bool fds_open(uint64_t key, int sock, int dir, const struct fds_mapping *m)
{
	/* without helpers: memory of this process is never imported */
	struct fds_job *j = receive_here == NULL ? calloc(1, sizeof(*j)) : NULL;

	if (j == NULL)
		return false;
	*j = (struct fds_job){
		.ask = { .what = FDS_OPEN, .map = *m }, .key = key, .uid = m->uid, .sock = sock, .dir = dir
	};
	begin(j);
	return true;
}

void fds_cancel(uint64_t key)
{
	for (struct rn_link *x = waiting.first, *next; x != NULL; x = next) {
		struct fds_job *j = job_of(x);
		next = x->next;
		if (j->key != key || j->ask.what == FDS_CLOSE)
			continue;
		rn_list_remove(&waiting, x);
		fds_totals.waiting--;
		free(j);
	}
}

/* ---- answers ---- */

void fds_close_given(struct fds_result *r)
{
	static const struct linger off = { 0 };

	for (uint32_t i = 0; i < r->n; i++) {
		/* no helper has the socket open; a program whose socket is refused sets SO_LINGER again */
		if (r->given[i].kind == FDS_KERNELS)
			setsockopt(r->given[i].fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
		if (r->given[i].fd >= 0)
			close(r->given[i].fd); /* an eventfd, or a memory file that its helper has open, too */
	}
}

/* Puts the descriptors that came with a reply into their places. If this process could not receive all of them, the
 * result is an error without descriptors. */
static void fds_place(struct fds_result *r, int *fds, uint32_t n, int rc)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < r->n; i++) {
		const bool passed = fds_is_passed(&r->given[i]);
		r->given[i].fd = passed && at < n ? fds[at++] : -1;
		if (passed && r->given[i].fd < 0)
			rc = -ENFILE;
	}
	if (rc == 0)
		return;
	fds_close_given(r);
	r->n = 0;
	r->status = rc;
}

static struct fds_job *job_under_way(uint64_t number)
{
	struct rn_link *x = running.first;

	while (x != NULL && job_of(x)->ask.number != number)
		x = x->next;
	return x != NULL ? job_of(x) : NULL;
}

/* Passes the job's result on, once. All descriptors in it that are not kept are closed now. */
static void tell(struct fds_job *j, struct fds_result *r)
{
	if (r->status == -EIO)
		fds_totals.lost++;
	if (j->ask.what == FDS_CLOSE || j->ask.what == FDS_CLOSE_ALL)
		fds_close_given(r);
	else
		take(j->key, r);
	j->told = true;
}

/* The result is told when the helper has closed the socket in it. Without memory for that, the job has failed. */
static void fds_keep(struct fds_job *j, struct fds_result *r)
{
	j->kept = malloc(sizeof(*j->kept));
	if (j->kept != NULL) {
		*j->kept = *r;
		return;
	}
	fds_close_given(r);
	r->n = 0;
	r->status = -ENFILE;
	tell(j, r);
}

static void on_answer(struct loop_fd *f, uint32_t events)
{
	struct fds_reply reply;
	int fds[FDS_TOGETHER], rc;
	uint32_t n;

	(void)events;
	rc = fds_recv(f->fd, &reply, sizeof(reply), fds, &n);
	if (rc == -EPIPE) {
		rnicd_log(RNICD_LOG_ERROR,
			  "the helpers of rnicd have ended: no client can come any more, restart rnicd");
		loop_del(f);
	}
	if (rc != 0 && rc != -ENFILE)
		return;
	fds_place(&reply.r, fds, n, rc);
	struct fds_job *j = job_under_way(reply.number);
	if (j == NULL)
		fds_close_given(&reply.r);
	else if (!reply.ended && reply.r.n > 0 && reply.r.given[0].kind == FDS_KERNELS)
		fds_keep(j, &reply.r);
	else if (!j->told)
		tell(j, j->kept != NULL ? j->kept : &reply.r);
	if (!reply.ended)
		__atomic_store_n(&shared->taken[reply.helper], reply.number, __ATOMIC_RELEASE);
	if (!reply.ended || j == NULL)
		return;
	rn_list_remove(&running, &j->link);
	fds_totals.running--;
	run_those_that_may();
	free(j->kept);
	free(j);
}

bool fds_serve(void (*done)(uint64_t key, struct fds_result *r))
{
	take = done;
	if (receive_here != NULL)
		return true;
	answers.ready = on_answer;
	return loop_add(&answers, answers_fd, EPOLLIN);
}
