/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The helper processes of fds.h. One process, the broker, makes the helpers. It never touches a descriptor of a client,
 * so it never blocks. A helper takes a job from the socket that all helpers share, does the job, and takes the next.
 * When the last idle helper takes a job, the broker makes more helpers. A helper that is blocked for long is
 * terminated: most waits in the kernel end with the process. All helpers end when rnicd has closed its side.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/rn_base.h"
#include "control/client_maps.h"
#include "control/fds.h"

#define SPARE      2u /* idle helpers to keep */
#define PATIENCE_S 10 /* seconds after which a blocked helper is terminated */
#define LOOK_MS    1000

/* The state of a helper, in memory that the broker and all helpers share. */
struct place {
	pid_t pid;       /* atomic: written by the broker, and by a helper that leaves; 0: free */
	uint64_t number; /* atomic: number of its job, 0: idle */
	int64_t since;   /* time when the job began, seconds; written before number */
};

struct shared {
	struct place place[FDS_HELPERS_MAX];
};

static struct shared *all;
static int poke = -1; /* eventfd: a helper wakes the broker */
static const struct fds_shared *shared;

static int64_t now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/* ---- messages ---- */

int fds_send(int sock, const void *p, size_t len, const int *fds, uint32_t n)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(FDS_TOGETHER * sizeof(int))];
	} ctl;
	struct iovec iov = { .iov_base = (void *)(uintptr_t)p, .iov_len = len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t rc;

	if (n > 0) {
		memset(&ctl, 0, sizeof(ctl));
		mh.msg_control = ctl.buf;
		mh.msg_controllen = CMSG_SPACE(n * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	do {
		rc = sendmsg(sock, &mh, MSG_NOSIGNAL);
	} while (rc < 0 && errno == EINTR);
	return rc < 0 ? -errno : 0;
}

int fds_recv(int sock, void *p, size_t len, int fds[FDS_TOGETHER], uint32_t *n)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(FDS_TOGETHER * sizeof(int))];
	} ctl;
	struct iovec iov = { .iov_base = p, .iov_len = len };
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
	};
	ssize_t rc;

	*n = 0;
	do {
		rc = recvmsg(sock, &mh, MSG_CMSG_CLOEXEC);
	} while (rc < 0 && errno == EINTR);
	if (rc <= 0)
		return rc < 0 ? -errno : -EPIPE;
	struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		*n = (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), *n * sizeof(int));
	}
	if ((size_t)rc != len)
		return -EPROTO;
	return (mh.msg_flags & MSG_CTRUNC) != 0 ? -ENFILE : 0;
}

/* ---- jobs ---- */

static bool is_eventfd(int fd)
{
	char link[64], name[64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, name, sizeof(name) - 1);
	if (n < 0)
		return false;
	name[n] = '\0';
	return strcmp(name, "anon_inode:[eventfd]") == 0;
}

static struct fds_given look(int fd)
{
	struct fds_given g = { .kind = FDS_OTHER, .fd = -1 };
	socklen_t len = sizeof(g.cookie);
	struct stat st;

	if (fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) {
		g.file = true;
		g.fdev = st.st_dev;
		g.fino = st.st_ino;
		g.fborn = fds_born(fd);
	}
	if (ipc_file_look(fd, &g.memory))
		g.kind = FDS_MEMORY;
	else if (is_eventfd(fd))
		g.kind = FDS_EVENTFD;
	else if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &g.cookie, &len) == 0)
		g.kind = FDS_SOCKET;
	else
		g.cookie = 0;
	return g;
}

static bool is_kernels(int fd)
{
	int protocol = 0;
	socklen_t len = sizeof(protocol);

	return getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) == 0 &&
	       (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP);
}

static void receive(int sock, struct fds_result *r, int fds[IPC_MAX_FDS])
{
	unsigned n = IPC_MAX_FDS;

	r->status = ipc_recv(sock, &r->m, fds, &n);
	r->n = r->status == 0 ? n : 0;
	for (uint32_t i = 0; i < r->n; i++)
		r->given[i] = look(fds[i]);
	if (shared->kernels && r->m.type == IPC_SOCK_TAKE && r->n == 1 && r->given[0].kind == FDS_SOCKET &&
	    is_kernels(fds[0]))
		r->given[0].kind = FDS_KERNELS;
}

static void open_mapping(int sock, int dir, const struct fds_mapping *m, struct fds_result *r, int fds[IPC_MAX_FDS])
{
	const struct client_proc p = { .dir = dir, .uid = m->uid, .gid = m->gid };
	int fd = client_maps_open(&p, sock, m->start, m->end, m->writable != 0);

	r->status = fd < 0 ? fd : 0;
	if (fd < 0)
		return;
	r->n = 1;
	fds[0] = fd;
	r->given[0] = look(fd);
}

/* Waits until rnicd has closed its own descriptor of the socket, or of the memory files (fds.h, struct fds_shared). */
static void wait_for_close(uint64_t closing)
{
	while (__atomic_load_n(&shared->closed, __ATOMIC_ACQUIRE) < closing)
		usleep(100);
}

static void wait_for_taken(const struct fds_reply *r)
{
	while (__atomic_load_n(&shared->taken[r->helper], __ATOMIC_ACQUIRE) != r->number)
		usleep(100);
}

static void answer(int answers, const struct fds_reply *r, const int *fds, uint32_t n)
{
	if (fds_send(answers, r, sizeof(*r), fds, n) != 0)
		_exit(1);
}

/*
 * Closes all sockets by ending: closing them may block for as long as their user likes. Before that, the helper leaves
 * its place to another helper. The end of a process does not wait for connections that linger.
 */
static void close_all(int answers, struct place *mine, const struct fds_ask *ask)
{
	const struct fds_reply reply = { .number = ask->number, .ended = true };
	const uint64_t one = 1;

	wait_for_close(ask->closing);
	answer(answers, &reply, NULL, 0);
	while (__atomic_load_n(&mine->pid, __ATOMIC_ACQUIRE) != getpid())
		usleep(100); /* the broker has made this process, and has not yet written its number */
	__atomic_store_n(&mine->number, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&mine->pid, 0, __ATOMIC_RELEASE);
	ssize_t told = write(poke, &one, sizeof(one));
	_exit(told != sizeof(one));
}

/* Does a job and sends its result. Useless descriptors are closed before that, and memory files when rnicd has closed
 * them: while closing takes its time, the job is under way and counts for its user. */
static void work(int answers, struct place *mine, const struct fds_ask *ask, const int *given, uint32_t n_given)
{
	struct fds_reply reply = { .number = ask->number, .helper = (uint32_t)(mine - all->place), .ended = true };
	int fds[IPC_MAX_FDS], pass[IPC_MAX_FDS];
	uint32_t n_pass = 0;

	if (ask->what == FDS_RECEIVE && n_given == 1)
		receive(given[0], &reply.r, fds);
	else if (ask->what == FDS_OPEN && n_given == 2)
		open_mapping(given[0], given[1], &ask->map, &reply.r, fds);
	else if (ask->what == FDS_CLOSE)
		wait_for_close(ask->closing);
	else
		reply.r.status = -ENFILE;
	for (uint32_t i = 0; i < n_given; i++)
		close(given[i]);
	for (uint32_t i = 0; i < reply.r.n; i++) {
		reply.ended &= reply.r.given[i].kind != FDS_MEMORY && reply.r.given[i].kind != FDS_KERNELS;
		if (fds_is_passed(&reply.r.given[i]))
			pass[n_pass++] = fds[i];
		else
			close(fds[i]);
	}
	answer(answers, &reply, pass, n_pass);
	if (!reply.ended && reply.r.given[0].kind != FDS_KERNELS)
		wait_for_taken(&reply);
	for (uint32_t i = 0; i < n_pass; i++)
		close(pass[i]);
	if (!reply.ended) {
		reply = (struct fds_reply){ .number = ask->number, .ended = true };
		answer(answers, &reply, NULL, 0);
	}
	/* if the helper ends before this store, the broker answers once more, which does no harm */
	__atomic_store_n(&mine->number, 0, __ATOMIC_RELEASE);
}

static bool others_idle(const struct place *mine)
{
	for (uint32_t i = 0; i < FDS_HELPERS_MAX; i++)
		if (&all->place[i] != mine && __atomic_load_n(&all->place[i].pid, __ATOMIC_RELAXED) != 0 &&
		    __atomic_load_n(&all->place[i].number, __ATOMIC_RELAXED) == 0)
			return true;
	return false;
}

static void helper(int jobs, int answers, struct place *mine)
{
	struct fds_ask ask;
	int given[FDS_TOGETHER];
	uint64_t one = 1;
	uint32_t n;

	for (;;) {
		int rc = fds_recv(jobs, &ask, sizeof(ask), given, &n);
		if (rc != 0 && rc != -ENFILE)
			_exit(0); /* rnicd has gone */
		mine->since = now_s();
		__atomic_store_n(&mine->number, ask.number, __ATOMIC_RELEASE);
		if (!others_idle(mine) && write(poke, &one, sizeof(one)) != sizeof(one))
			_exit(1);
		if (ask.what == FDS_CLOSE_ALL)
			close_all(answers, mine, &ask);
		work(answers, mine, &ask, given, n);
	}
}

/* ---- the broker ---- */

static void nothing(int sig) { (void)sig; /* the signal only has to interrupt poll() */ }

static void make_one(int jobs, int answers)
{
	struct place *p = all->place;

	while (p < all->place + FDS_HELPERS_MAX && p->pid != 0)
		p++;
	if (p == all->place + FDS_HELPERS_MAX)
		return;
	p->number = 0;
	pid_t pid = fork();
	if (pid == 0) {
		sigset_t none;
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		signal(SIGCHLD, SIG_DFL);
		helper(jobs, answers, p);
	}
	if (pid > 0)
		__atomic_store_n(&p->pid, pid, __ATOMIC_RELAXED);
}

static void make_more(int jobs, int answers)
{
	uint32_t idle = 0;

	for (uint32_t i = 0; i < FDS_HELPERS_MAX; i++)
		idle += all->place[i].pid != 0 && __atomic_load_n(&all->place[i].number, __ATOMIC_ACQUIRE) == 0;
	for (; idle < SPARE; idle++)
		make_one(jobs, answers);
}

/* Frees the places of helpers that have ended. If a helper has ended during a job, the broker sends the answer. */
static void bury(int answers)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		for (uint32_t i = 0; i < FDS_HELPERS_MAX; i++) {
			struct place *p = &all->place[i];
			if (p->pid != pid)
				continue;
			struct fds_reply lost = { .number = p->number, .ended = true, .r.status = -EIO };
			if (p->number != 0)
				(void)fds_send(answers, &lost, sizeof(lost), NULL, 0);
			p->number = 0;
			p->pid = 0;
		}
	}
}

/* Helpers that wait for a client, or for rnicd, would not notice the end of rnicd. */
static void end_all(void)
{
	for (uint32_t i = 0; i < FDS_HELPERS_MAX; i++)
		if (all->place[i].pid != 0)
			kill(all->place[i].pid, SIGKILL);
	_exit(0);
}

static void end_the_held_up(void)
{
	for (uint32_t i = 0; i < FDS_HELPERS_MAX; i++) {
		const struct place *p = &all->place[i];
		if (p->pid != 0 && __atomic_load_n(&p->number, __ATOMIC_ACQUIRE) != 0 &&
		    now_s() - p->since > PATIENCE_S)
			kill(p->pid, SIGKILL);
	}
}

void fds_helper_main(int jobs, int answers, const struct fds_shared *s)
{
	struct sigaction sa = { .sa_handler = nothing };
	const struct timespec look = { .tv_sec = LOOK_MS / 1000 };
	sigset_t block, open_set;
	uint64_t count;

	prctl(PR_SET_NAME, "rnicd-fds");
	shared = s;
	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	poke = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (all == MAP_FAILED || poke < 0)
		_exit(1);
	sigemptyset(&block);
	sigaddset(&block, SIGCHLD);
	sigprocmask(SIG_SETMASK, &block, NULL);
	sigemptyset(&open_set);
	sigaction(SIGCHLD, &sa, NULL);
	signal(SIGTERM, SIG_IGN); /* helpers end when rnicd ends, not by signals */
	signal(SIGINT, SIG_IGN);
	for (;;) {
		bury(answers);
		end_the_held_up();
		make_more(jobs, answers);
		struct pollfd p[2] = { { .fd = poke, .events = POLLIN }, { .fd = jobs, .events = 0 } };
		if (ppoll(p, 2, &look, &open_set) > 0 && (p[1].revents & (POLLHUP | POLLERR)) != 0)
			end_all();
		ssize_t r = read(poke, &count, sizeof(count));
		(void)r; /* EAGAIN: a child has ended, or nothing happened */
	}
}
