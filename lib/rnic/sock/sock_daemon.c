/* SPDX-License-Identifier: BSD-3-Clause */
/* The session with rnicd: one for each process, begun with the first socket that may be ours. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_requests.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int session = -1;
static bool tried;               /* no rnicd has ever answered; no further rnicd is asked */
static struct sockaddr_un rnicd; /* address of rnicd's socket; sun_family 0: not looked up yet */
static pid_t owner;
static uint32_t seq;
/*
 * What the last rnicd told at JOIN; all zero: nothing yet. Written once, then published with release. It is never
 * freed: other threads may be reading it when another rnicd, with other ports, takes its place.
 */
static const struct ipc_sock_join_ok none;
static const struct ipc_sock_join_ok *world_now = &none;

/*
 * Doorbells of users: of this process's user, and of other users whose sockets this process has. Each rnicd makes new
 * ones. The list belongs to the lock. Doorbells that are not this process's user's are freed when no socket uses them.
 */
static struct sock_bells *users;
static struct sock_bells *bells; /* the doorbells of this process's user */

/*
 * say() and hear() use libc's own calls, since lib/ipc would call the functions that this library intercepts. An answer
 * that was cut off, or has too many descriptors, is not valid.
 */
static bool say(const struct ipc_msg *m, int shown)
{
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ctl = { .align = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
	struct iovec iov = { (void *)(uintptr_t)m, m->len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (shown >= 0) {
		memcpy(CMSG_DATA(&ctl.align), &shown, sizeof(shown));
		mh.msg_control = ctl.buf;
		mh.msg_controllen = sizeof(ctl.buf);
	}
	do
		n = sock_libc.sendmsg(session, &mh, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == m->len;
}

const struct ipc_sock_join_ok *sock_known(void) { return __atomic_load_n(&world_now, __ATOMIC_ACQUIRE); }

/* From then on the addresses of rnicd's ports are rnicd's, also while none runs. */
static bool has_joined(void) { return sock_known() != &none; }

/* 0 or a positive errno; EMFILE: this process has no more descriptors, so some of the answer's are lost. */
static int hear(struct ipc_msg *m, int fds[SOCK_ASK_FDS])
{
	union {
		char buf[CMSG_SPACE(SOCK_ASK_FDS * sizeof(int))];
		struct cmsghdr align;
	} ctl;
	struct iovec iov = { m, sizeof(*m) };
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
	};
	ssize_t n;

	do
		n = sock_libc.recvmsg(session, &mh, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&mh) : NULL;
	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(fds, CMSG_DATA(c), rn_min_u64(c->cmsg_len - CMSG_LEN(0), SOCK_ASK_FDS * sizeof(int)));
	if (n < IPC_MSG_HDR || n != m->len || (mh.msg_flags & MSG_TRUNC) != 0)
		return EIO;
	return (mh.msg_flags & MSG_CTRUNC) != 0 ? EMFILE : 0;
}

static void forget(void)
{
	if (session >= 0)
		sock_libc_close_aside(session);
	session = -1;
}

/* ---- places for the descriptors of an answer ---- */

static void places_give(int held[SOCK_ASK_FDS])
{
	for (uint32_t i = 0; i < SOCK_ASK_FDS; i++)
		if (held[i] >= 0)
			sock_libc.close(held[i]);
}

/* Holds n numbers of descriptors. False: the process may not have n more. */
static bool places_take(int held[SOCK_ASK_FDS], uint32_t n)
{
	bool enough = true;

	for (uint32_t i = 0; i < SOCK_ASK_FDS; i++)
		held[i] = -1;
	for (uint32_t i = 0; i < n && enough; i++) {
		held[i] = sock_libc.fcntl(session, F_DUPFD_CLOEXEC, 0);
		enough = held[i] >= 0;
	}
	if (!enough)
		places_give(held);
	return enough;
}

static uint32_t places_of(enum ipc_type type)
{
	switch ((int)type) {
	case IPC_SOCK_BIND:
	case IPC_SOCK_CONNECT: return 1;
	case IPC_SOCK_JOIN:
	case IPC_SOCK_ACCEPT:
	case IPC_SOCK_TAKE:
	case IPC_SOCK_GRAM: return 2;
	case IPC_SOCK_FIND: return SOCK_ASK_FDS;
	default: return 0;
	}
}

/*
 * Sends a request and receives the answer. fds: -1: none came. 0 or a positive errno; EIO: the session has ended, and
 * the next request begins another one. A request that brings descriptors is not sent if they find no place, since rnicd
 * would lose what it passes; nor is a listener's byte taken then.
 */
static int ask(struct ipc_msg *m, uint16_t len, struct sock_along *with, int fds[SOCK_ASK_FDS])
{
	enum ipc_type type = m->type;
	struct pollfd answer = { .fd = session, .events = POLLIN };
	int held[SOCK_ASK_FDS], err;

	for (uint32_t i = 0; i < SOCK_ASK_FDS; i++)
		fds[i] = -1;
	m->len = len;
	m->seq = ++seq;
	m->status = 0;
	if (!places_take(held, places_of(type)))
		return EMFILE;
	err = with->l == NULL ? 0 : held[0] < SOCK_FDS ? sock_token(with->l, with->listener) : EMFILE;
	if (err != 0) {
		places_give(held);
		return err;
	}
	with->l = NULL;
	with->said = say(m, with->shown);
	while (with->said && sock_libc.poll(&answer, 1, -1) < 0 && errno == EINTR)
		;
	places_give(held);
	err = with->said ? hear(m, fds) : EIO;
	if ((err == 0 || err == EMFILE) && (m->type != type || m->seq != seq))
		err = EIO;
	if (err == 0)
		return m->status;
	for (uint32_t i = 0; i < SOCK_ASK_FDS; i++) {
		if (fds[i] >= 0)
			sock_libc.close(fds[i]);
		fds[i] = -1;
	}
	if (err == EIO)
		forget();
	return err;
}

/* Moves fd aside (sock_libc_aside()), if possible. */
static int moved_aside(int fd)
{
	int high = fd < 0 ? -1 : sock_libc_aside(fd);

	if (high < 0)
		return fd;
	sock_libc.close(fd);
	return high;
}

/* Maps the memory of doorbells that are new here, and keeps their eventfd. NULL: no memory; wake is not kept. */
static struct sock_bells *user_new(int memory, int wake, const struct stat *st)
{
	struct sock_bells *u = malloc(sizeof(*u));
	void *p = u != NULL ? mmap(NULL, IPC_BELLS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0) : MAP_FAILED;

	if (p == MAP_FAILED) {
		free(u);
		return NULL;
	}
	*u = (struct sock_bells){
		.next = users, .dev = st->st_dev, .ino = st->st_ino, .bell = p, .wake_fd = moved_aside(wake)
	};
	users = u;
	return u;
}

/*
 * The doorbells whose memory and eventfd rnicd has passed. Both descriptors are closed or kept. The lock is held. NULL:
 * no memory, or a descriptor is missing.
 */
static struct sock_bells *user_of(int memory, int wake)
{
	struct sock_bells *u = NULL;
	struct stat st;

	if (memory >= 0 && wake >= 0 && fstat(memory, &st) == 0) {
		for (u = users; u != NULL && (u->dev != st.st_dev || u->ino != st.st_ino);)
			u = u->next;
		if (u == NULL && (u = user_new(memory, wake, &st)) != NULL)
			wake = -1;
	}
	if (memory >= 0)
		sock_libc.close(memory);
	if (wake >= 0)
		sock_libc.close(wake);
	return u;
}

/* Frees the doorbells that nothing uses any more, such as those of an rnicd that has ended. The lock is held. */
static void users_tidy(void)
{
	for (struct sock_bells **at = &users, *u; (u = *at) != NULL;) {
		if (u == bells || __atomic_load_n(&u->socks, __ATOMIC_ACQUIRE) != 0) {
			at = &u->next;
			continue;
		}
		*at = u->next;
		munmap(u->bell, IPC_BELLS_SIZE);
		sock_libc_close_aside(u->wake_fd);
		free(u);
	}
}

void sock_give_bells(struct sock_bells *u)
{
	if (u != NULL)
		__atomic_sub_fetch(&u->socks, 1, __ATOMIC_RELEASE);
}

void sock_take_bells(struct sock *s, struct sock_bells *u)
{
	sock_give_bells(s->bells);
	s->bells = u;
}

/* Counts a socket to come, while the lock is held or another socket uses the doorbells. */
static struct sock_bells *counted(struct sock_bells *u)
{
	if (u != NULL)
		__atomic_add_fetch(&u->socks, 1, __ATOMIC_RELAXED);
	return u;
}

static bool join(void)
{
	struct ipc_msg m = { .type = IPC_SOCK_JOIN };
	struct sock_along with = { .shown = -1 };
	int fds[SOCK_ASK_FDS], err = ask(&m, IPC_MSG_HDR, &with, fds);
	struct sock_bells *u = user_of(fds[0], fds[1]);

	if (err != 0 || u == NULL)
		return false;
	bells = u;
	users_tidy();
	if (memcmp(&m.sock_join_ok, sock_known(), sizeof(none)) == 0)
		return true;
	struct ipc_sock_join_ok *w = malloc(sizeof(*w));
	if (w == NULL)
		return false;
	*w = m.sock_join_ok;
	__atomic_store_n(&world_now, w, __ATOMIC_RELEASE);
	return true;
}

/* Whether rnicd has closed the session, or has sent what nobody has asked for. */
static bool is_stale(void)
{
	uint8_t byte;

	return sock_libc.recv(session, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

/* Looks up rnicd's address, once: a child may have cleared its environment (nginx). False: the path is too long. */
static bool find_rnicd(void)
{
	const char *path = getenv("RNICD_SOCKET");

	if (path == NULL || *path == '\0')
		path = IPC_DEFAULT_SOCKET;
	if (strlen(path) >= sizeof(rnicd.sun_path))
		return false;
	memcpy(rnicd.sun_path, path, strlen(path));
	rnicd.sun_family = AF_UNIX;
	return true;
}

/* Connects if there is no session. The lock is held. */
static bool begun_quietly(void)
{
	if (owner != getpid()) { /* the first call of the process, or of a child after fork */
		forget();
		owner = getpid();
		tried = false;
	}
	if (session >= 0 && !is_stale())
		return true;
	forget();
	if (tried)
		return false;
	tried = true;
	if (rnicd.sun_family == 0 && !find_rnicd())
		return false;
	session = moved_aside(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	if (session < 0) {
		tried = false; /* for want of a descriptor: rnicd has not been asked */
		return false;
	}
	bool there = sock_libc.connect(session, (struct sockaddr *)&rnicd, sizeof(rnicd)) == 0 && join();
	if (!there)
		forget();
	tried = !has_joined(); /* an rnicd that has answered once may come back */
	return there;
}

/* As begun_quietly(); prints a line when the first try fails. */
static bool begun(void)
{
	static const char no[] = "librnicsock: rnicd does not answer (RNICD_SOCKET): sockets are the kernel's\n";
	bool asked = tried && owner == getpid(), there = begun_quietly();

	if (!there && !asked && !has_joined() && sock_libc.write(STDERR_FILENO, no, sizeof(no) - 1) < 0)
		return false;
	return there;
}

bool sock_begin(void)
{
	int saved = errno;

	sock_lock(&lock);
	bool ok = begun() || has_joined();
	sock_unlock(&lock);
	errno = saved;
	return ok;
}

/* Holds the lock over fork(), so that no request of another thread is under way in what the child inherits. */
void sock_daemon_fork(bool over)
{
	if (over)
		sock_unlock(&lock);
	else
		sock_lock(&lock);
}

const struct ipc_sock_join_ok *sock_world(void)
{
	sock_lock(&lock);
	bool there = !sock_kernels() && begun_quietly() && sock_known()->version == IPC_VERSION;
	sock_unlock(&lock);
	return there ? sock_known() : NULL;
}

const char *sock_rnicd(void) { return rnicd.sun_path; }

/* ---- requests ---- */

int sock_request(struct ipc_msg *m, uint16_t len, struct sock_along *with, int fds[SOCK_ASK_FDS])
{
	sock_lock(&lock);
	const bool earlier = session >= 0 && owner == getpid();
	int err = earlier || begun() ? ask(m, len, with, fds) : ENETDOWN;
	if (err == EIO && earlier && !with->said)
		err = begun() ? ask(m, len, with, fds) : ENETDOWN;
	sock_unlock(&lock);
	return err;
}

int sock_show(int fd, struct ipc_sock_found *f, int *memory, struct sock_bells **u)
{
	struct ipc_msg m = { .type = IPC_SOCK_FIND };
	struct sock_along with = { .shown = fd };
	int fds[SOCK_ASK_FDS] = { -1, -1, -1 };

	sock_lock(&lock);
	int err = begun_quietly() ? ask(&m, IPC_MSG_HDR, &with, fds) : ENETDOWN;
	*u = counted(user_of(fds[0], fds[1]));
	sock_unlock(&lock);
	*memory = fds[2];
	if (err == 0 && *u == NULL)
		err = ENOMEM;
	if (err != 0 && fds[2] >= 0)
		sock_libc.close(fds[2]);
	if (err == 0)
		*f = m.sock_found;
	else
		sock_give_bells(*u);
	return err;
}

int sock_request_about(const struct sock *s, struct ipc_msg *m, uint16_t len, const struct sock_along *along,
		       int fds[SOCK_ASK_FDS])
{
	struct sock_along with = along != NULL ? *along : (struct sock_along){ .shown = -1 };
	const struct ipc_msg same = *m;
	struct sock_bells *u;
	struct ipc_sock_found f;
	int err = sock_request(m, len, &with, fds), memory, fd;

	if (err != EBADF)
		return err;
	fd = sock_number(s);
	if (fd < 0 || sock_show(fd, &f, &memory, &u) != 0)
		return err;
	sock_give_bells(u);
	if (memory >= 0)
		sock_libc.close(memory);
	*m = same;
	return sock_request(m, len, &with, fds);
}

void sock_learn(struct sock *s, const struct ipc_sock_ok *ok)
{
	s->id = ok->sock;
	s->local = ok->local;
	s->remote = ok->remote;
	s->worker = ok->worker % IPC_MAX_WORKERS;
	s->bit = ok->bit % IPC_MAX_SOCKS;
	if (s->bells != NULL)
		return;
	sock_lock(&lock);
	s->bells = counted(bells);
	sock_unlock(&lock);
}

int sock_take_memory(struct sock *s, int fd)
{
	void *p = fd < 0 ? MAP_FAILED : mmap(NULL, IPC_STREAM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd >= 0)
		sock_libc.close(fd);
	if (p == MAP_FAILED)
		return ENOMEM;
	s->mem = p;
	s->kind = SOCK_IS_STREAM;
	sock_set_linger(s, s->linger); /* SO_LINGER that was set before the connection */
	sock_keep(s);
	return 0;
}

int sock_bind_new(struct sock *s, const struct ipc_addr *a, uint32_t flags, int *fd)
{
	struct ipc_msg m = { .type = IPC_SOCK_BIND, .sock_addr = { .addr = *a, .flags = flags } };
	struct sock_along with = { .shown = -1 };
	int fds[SOCK_ASK_FDS], err = sock_request(&m, IPC_MSG_LEN(sock_addr), &with, fds);

	if (err == 0 && fds[0] < 0)
		err = EMFILE;
	if (err != 0)
		return err;
	sock_learn(s, &m.sock_ok);
	*fd = fds[0];
	return 0;
}

int sock_listen(struct sock *s, uint32_t backlog)
{
	struct ipc_msg m = { .type = IPC_SOCK_LISTEN, .sock_listen = { .sock = s->id, .backlog = backlog } };
	int fds[SOCK_ASK_FDS], err = sock_request_about(s, &m, IPC_MSG_LEN(sock_listen), NULL, fds);

	if (err == 0)
		s->kind = SOCK_LISTENS;
	return err;
}

int sock_connect(struct sock *s, const struct ipc_addr *to)
{
	struct ipc_msg m = { .type = IPC_SOCK_CONNECT, .sock_addr = { .sock = s->id, .addr = *to } };

	m.sock_addr.flags = s->wire == IPC_GRAM_IWARP ? IPC_SOCK_IWARP : s->wire == IPC_GRAM_PLAIN ? IPC_SOCK_PLAIN : 0;
	int fds[SOCK_ASK_FDS], err = sock_request_about(s, &m, IPC_MSG_LEN(sock_addr), NULL, fds);

	if (err != 0)
		return err;
	sock_learn(s, &m.sock_ok);
	return sock_take_memory(s, fds[0]);
}

int sock_accept(struct sock *l, int listener, struct sock *s, int *fd)
{
	struct ipc_msg m = { .type = IPC_SOCK_ACCEPT, .sock_listen.sock = l->id };
	const struct sock_along with = { .shown = -1, .listener = listener, .l = l };
	int fds[SOCK_ASK_FDS], err = sock_request_about(l, &m, IPC_MSG_LEN(sock_listen), &with, fds);

	if (err != 0) /* EAGAIN: another process has taken the connection of the byte */
		return err == EAGAIN && m.status == EAGAIN ? ECONNABORTED : err;
	sock_take_bells(s, counted(l->bells));
	sock_learn(s, &m.sock_ok);
	s->linger = l->linger;
	s->rcv_ms = l->rcv_ms;
	s->snd_ms = l->snd_ms;
	err = sock_take_memory(s, fds[1]);
	if (err == 0)
		(void)sock_tell_connect(s);
	if (err != 0 || fds[0] < 0) {
		if (fds[0] >= 0)
			sock_libc.close(fds[0]);
		return err != 0 ? err : EMFILE;
	}
	*fd = fds[0];
	return 0;
}

void sock_bell(const struct sock *s)
{
	const struct sock_bells *u = s->bells;
	struct ipc_doorbell *b = &u->bell[s->worker].block[s->bit / IPC_MAX_QPS];
	const uint32_t bit = s->bit % IPC_MAX_QPS;
	const uint64_t one = 1;

	/* release: pairs with the worker's acquire; the indices have been written */
	__atomic_fetch_or(&b->bits[bit / 64], UINT64_C(1) << (bit % 64), __ATOMIC_RELEASE);
	__atomic_fetch_or(&b->summary, UINT64_C(1) << (bit / 64), __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&b->need_wakeup, __ATOMIC_RELAXED) != 0 &&
	    sock_libc.write(u->wake_fd, &one, sizeof(one)) < 0)
		return; /* the eventfd's counter is full: the worker wakes anyway */
}
