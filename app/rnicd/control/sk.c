/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets of programs: their descriptors, memory, ports and end. */
#include "control/sk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "border/bell.h"
#include "control/cm.h"
#include "control/table.h"

#define TELL_NS (10 * RN_NS_PER_S) /* at most one line of the log in this time */

static struct rn_list users;
static uint32_t n_users;
static struct table all;                     /* of struct sk */
static struct rn_list bound[UINT16_MAX + 1]; /* by port: struct sk that have the port reserved */
/* sockets to free at the end of the turn, when none of their events is being handled; by link */
static struct rn_list dead;

void sk_set_state(struct sk *s, enum sk_state to) { s->state = to; }

/* Makes shared memory that is sealed against shrinking, so that no access raises SIGBUS. -1: no memory. */
static int memory(const char *name, uint64_t size, void **base)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	*base = MAP_FAILED;
	if (fd >= 0 && ftruncate(fd, (off_t)size) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		*base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*base != MAP_FAILED)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* ---- users ---- */

static void sk_user_free(struct sk_user *su)
{
	for (uint32_t i = 0; i < rnicd.n_workers; i++)
		free(su->view[i]);
	if (su->bells_fd >= 0) {
		munmap(su->bells, IPC_BELLS_SIZE);
		close(su->bells_fd);
	}
	if (su->wake_fd >= 0)
		close(su->wake_fd); /* this also ends the workers' watch of it */
	user_put(su->user);
	free(su);
}

static bool sk_user_make(struct sk_user *su)
{
	void *base;

	su->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	su->bells_fd = memory("rnicd-bells", IPC_BELLS_SIZE, &base);
	if (su->wake_fd < 0 || su->bells_fd < 0)
		return false;
	su->bells = base;
	for (uint32_t i = 0; i < rnicd.n_workers; i++) {
		su->view[i] = calloc(1, sizeof(*su->view[i]));
		if (su->view[i] == NULL || !bell_watch(i, su->wake_fd, EPOLLIN | EPOLLET))
			return false;
		su->view[i]->bell = &su->bells[i];
		su->view[i]->tenant = user_tenant(su->user);
	}
	return true;
}

static void tell_full(uid_t uid)
{
	static uint64_t told;
	const uint64_t now = rnicd_now();

	if (told != 0 && now - told < TELL_NS)
		return;
	told = now;
	rnicd_log(RNICD_LOG_WARNING,
		  "uid %u gets no sockets: %u users have had some since rnicd began, as many as may (an eighth of the "
		  "limit of descriptors, ulimit -n of rnicd)",
		  (unsigned)uid, n_users);
}

struct sk_user *sk_user_get(struct client *c)
{
	rn_list_each(struct sk_user, u, &users, link)
		if (u->uid == c->uid)
			return u;
	if (n_users == user_bells_max()) {
		tell_full(c->uid);
		return NULL;
	}
	struct sk_user *su = calloc(1, sizeof(*su));
	if (su == NULL)
		return NULL;
	su->uid = c->uid;
	su->user = user_hold(c->user);
	su->bells_fd = su->wake_fd = -1;
	if (!sk_user_make(su)) {
		sk_user_free(su);
		return NULL;
	}
	rn_list_push_front(&users, &su->link);
	n_users++;
	/* commands stay in order, so later commands about sockets of the user find the doorbells */
	su->cmd = (struct cmd){ .type = CMD_STREAM_JOIN, .stream_join = su->view };
	cmd_send_all(&su->cmd);
	return su;
}

/* ---- creation ---- */

struct sk *sk_of(uint64_t key)
{
	struct owner *o = owner_get(OWNER_SOCK, key);

	return o == NULL ? NULL : rn_container_of(o, struct sk, owner);
}

struct sk *sk_new(struct user *u, struct sk_user *su, uint64_t key)
{
	struct sk *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->number = table_add(&all, s);
	if (s->number == 0) {
		free(s);
		return NULL;
	}
	s->user = user_hold(u);
	s->su = su;
	s->src.fd = s->fd = s->mem_fd = -1;
	owner_put(&s->owner, OWNER_SOCK, key != 0 ? key : owner_new());
	return s;
}

bool sk_any(void)
{
	uint32_t number = 0;

	return sk_next(&number) != NULL;
}

const struct sk *sk_next(uint32_t *number) { return table_next(&all, number); }

/* Whether o, another socket with the port of s, has the port together with s by SO_REUSEPORT. */
static bool sk_shares(const struct sk *s, const struct sk *o)
{
	return o != s && s->balance && o->balance && o->user == s->user && o->dev == s->dev &&
	       o->families == s->families;
}

static bool is_shared(const struct sk *s)
{
	rn_list_each(struct sk, o, &bound[s->local.port], bound)
		if (sk_shares(s, o))
			return true;
	return false;
}

/* Whether so many open sockets share the port with s that s must not. */
static bool is_crowded(const struct sk *s)
{
	uint32_t n = 0;

	rn_list_each(struct sk, o, &bound[s->local.port], bound)
		n += sk_shares(s, o) && !o->gone;
	return n >= SK_SHARE_MAX;
}

static void give_port(struct sk *s)
{
	if (!s->has_port)
		return;
	s->has_port = false;
	if (s->state == SK_GRAM) {
		sk_gram_give_port(s);
		return;
	}
	rn_list_remove(&bound[s->local.port], &s->bound);
	if (!is_shared(s))
		cm_port_give(s->user, s->dev, s->families, s->local.port);
}

/*
 * Reads what a program has written into its descriptor: bytes that nobody needs. True: nothing is left in it. False:
 * there is more, or a message carries descriptors, which stay there: the kernel would close them during this call, and
 * that may take as long as the program likes (fds.h).
 */
static bool sk_drain(int fd)
{
	static uint8_t sink[1 << 16];

	for (uint32_t i = 0; i < 4; i++) {
		struct iovec iov = { .iov_base = sink, .iov_len = sizeof(sink) };
		struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
		ssize_t n = recvmsg(fd, &mh, MSG_PEEK | MSG_DONTWAIT);
		if (n <= 0)
			return true;
		/* without a buffer for control messages, this flag tells that there are some */
		if ((mh.msg_flags & MSG_CTRUNC) != 0 || recv(fd, sink, (size_t)n, MSG_DONTWAIT) != n)
			return false;
	}
	return false;
}

/* Closes rnicd's end of the socket pair. Nothing comes any more, as the other end is closed. */
static void close_end(struct sk *s, int fd)
{
	if (sk_drain(fd)) {
		close(fd);
		free(s->closing);
	} else {
		fds_close(s->closing, s->su->uid, fd);
	}
	s->closing = NULL;
}

/*
 * Whether the socket's connect() has failed. The program can write the word that says so, too, but gives up nothing but
 * its own port by that.
 */
static bool connect_failed(const struct sk *s)
{
	return s->state == SK_STREAM && s->mem != NULL &&
	       ipc_stream_connect_failed(__atomic_load_n(&s->mem->state, __ATOMIC_RELAXED));
}

/* Every process has closed the socket's descriptor: its end begins. */
static void on_hup(struct loop_fd *f, uint32_t events)
{
	struct sk *s = rn_container_of(f, struct sk, src);

	if ((events & (EPOLLHUP | EPOLLERR)) == 0)
		return;
	int fd = f->fd;
	loop_del(f);
	close_end(s, fd);
	s->gone = true;
	/* a new listener on this port reaches the workers after the end of this one */
	if (s->state == SK_LISTENING || connect_failed(s))
		give_port(s);
	sk_settle(s);
}

/* Frees the port that the socket `wants` asks for, if the sockets that have it are closed and the loop has not handled
 * this yet: as in a kernel, a port is free as soon as its socket is closed or its program has ended. */
static void look_for_end(const struct sk *wants)
{
	rn_list_each(struct sk, s, &bound[wants->local.port], bound) {
		struct pollfd p = { .fd = s->src.fd };
		if ((s->dev == wants->dev || s->dev == CM_NO_DEV || wants->dev == CM_NO_DEV) && p.fd >= 0 &&
		    poll(&p, 1, 0) == 1)
			on_hup(&s->src, EPOLLHUP);
	}
}

enum sk_port sk_take_port(struct sk *s)
{
	if (s->local.port == 0) {
		s->local.port = cm_port_any(s->user, s->dev, s->families);
		s->has_port = s->local.port != 0;
	} else {
		s->has_port = cm_port_take(s->user, s->dev, s->families, s->local.port);
		if (!s->has_port) {
			look_for_end(s);
			if (is_crowded(s))
				return SK_PORT_CROWDED;
			s->has_port = is_shared(s) || cm_port_take(s->user, s->dev, s->families, s->local.port);
		}
	}
	if (!s->has_port)
		return SK_PORT_TAKEN;
	rn_list_push_front(&bound[s->local.port], &s->bound);
	return SK_PORT_OK;
}

void sk_see_closed(uint16_t port)
{
	uint32_t number = 0;

	for (const struct sk *s; (s = sk_next(&number)) != NULL;) {
		struct pollfd p = { .fd = s->src.fd };
		if (s->local.port == port && p.fd >= 0 && poll(&p, 1, 0) == 1)
			on_hup(&sk_of(s->owner.key)->src, EPOLLHUP);
	}
}

/* Enters the program's end of the socket pair, by which sk_find.c finds the socket. */
static void name_file(struct sk *s)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);
	struct stat st;

	if (fstat(s->fd, &st) == 0)
		s->ino = st.st_ino;
	if (getsockopt(s->fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) == 0 && cookie != 0)
		owner_put(&s->file, OWNER_SOCK_FD, cookie);
}

static void unname_file(struct sk *s)
{
	if (s->file.key != 0)
		owner_del(&s->file);
}

bool sk_open(struct sk *s)
{
	static const uint8_t block[IPC_STREAM_BLOCK];
	const int least = 1;
	int pair[2];

	if (!user_take(s->user, USER_FDS, 0, 1))
		return false;
	s->counted = true;
	s->closing = fds_closing();
	if (s->closing == NULL)
		return false;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return false;
	/* The smallest buffer that the kernel allows, so that one message of IPC_STREAM_BLOCK bytes fills it. */
	setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
	setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
	s->src.ready = on_hup;
	if (send(pair[0], block, sizeof(block), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 || !loop_add(&s->src, pair[1], 0)) {
		close(pair[0]);
		close(pair[1]);
		return false;
	}
	s->fd = pair[0];
	name_file(s);
	return true;
}

static bool sk_take_bit(struct sk *s)
{
	for (uint32_t i = 0; i < RN_ARRAY_LEN(s->su->taken); i++) {
		if (s->su->taken[i] == UINT64_MAX)
			continue;
		uint32_t b = (uint32_t)__builtin_ctzll(~s->su->taken[i]);
		s->su->taken[i] |= UINT64_C(1) << b;
		s->bit = i * 64 + b;
		s->has_bit = true;
		return true;
	}
	return false;
}

static enum user_table table_of(const struct sk *s) { return s->state == SK_GRAM ? USER_UDS : USER_FLOWS; }

static void drop_memory_fd(struct sk *s)
{
	if (s->mem_fd < 0)
		return;
	close(s->mem_fd);
	s->mem_fd = -1;
	user_give(s->user, USER_FDS, 0, 1);
}

static size_t memory_size(const struct sk *s) { return s->state == SK_GRAM ? IPC_GRAM_SIZE : IPC_STREAM_SIZE; }

bool sk_arm(struct sk *s, const char **why)
{
	void *base;

	_Static_assert(IPC_MAX_SOCKS == 16384, "the next line and doc/guide.md say so");
	*why = "this user has as many sockets as a user may, 16384 at most: close some, or raise user-share or flows";
	if (!s->has_flow && !user_take(s->user, table_of(s), s->worker, 1))
		return false;
	s->has_flow = true;
	drop_memory_fd(s); /* from an earlier connect that failed */
	if (!sk_take_bit(s) || !user_take(s->user, USER_MAPPINGS, 0, 1))
		return false;
	*why = "rnicd has no memory or descriptor for another stream socket";
	const bool fits = user_take(s->user, USER_MEMORY, 0, memory_size(s));
	bool counts = fits && user_take(s->user, USER_FDS, 0, 1);
	s->mem_fd = counts ? memory("rnicd-stream", memory_size(s), &base) : -1;
	if (s->mem_fd >= 0) {
		s->mem = base;
		return true;
	}
	if (counts)
		user_give(s->user, USER_FDS, 0, 1);
	if (fits)
		user_give(s->user, USER_MEMORY, 0, memory_size(s));
	user_give(s->user, USER_MAPPINGS, 0, 1);
	return false;
}

void sk_disarm(struct sk *s)
{
	if (s->mem != NULL) {
		munmap(s->mem, memory_size(s));
		user_give(s->user, USER_MEMORY, 0, memory_size(s));
		user_give(s->user, USER_MAPPINGS, 0, 1);
	}
	s->mem = NULL;
	if (s->has_bit)
		s->su->taken[s->bit / 64] &= ~(UINT64_C(1) << (s->bit % 64));
	s->has_bit = false;
	if (s->has_flow)
		user_give(s->user, table_of(s), s->worker, 1);
	s->has_flow = false;
}

/* ---- readiness ---- */

bool sk_readable(const struct sk *s)
{
	return s->src.fd >= 0 && send(s->src.fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

void sk_listener_readable(struct sk *l)
{
	while (l->tokens < l->n_pending && sk_readable(l))
		l->tokens++;
}

void sk_writable(const struct sk *s)
{
	/* A program that writes to the descriptor itself disturbs only its own readiness. */
	if (s->src.fd >= 0)
		(void)sk_drain(s->src.fd);
}

/* ---- end ---- */

void sk_send(struct sk *s, enum cmd_type type, void (*done)(struct cmd *))
{
	s->cmd.type = type;
	s->cmd.done = done;
	s->busy = true;
	if (type == CMD_STREAM_LISTEN || type == CMD_STREAM_UNLISTEN)
		cmd_send_all(&s->cmd);
	else
		cmd_send(&s->cmd, s->worker);
}

void sk_forget_cmd(struct cmd *cmd) { free(cmd); }

void sk_refuse(uint32_t worker, struct stream *stream, uint64_t key)
{
	struct cmd *cmd = calloc(1, sizeof(*cmd));

	if (cmd == NULL)
		return; /* the connection stays half open until its peer gives up */
	*cmd = (struct cmd){ .type = CMD_STREAM_CLOSE, .done = sk_forget_cmd };
	cmd->stream = (struct cmd_stream){ .stream = stream, .key = key, .abort = true };
	cmd_send(cmd, worker);
}

static void sk_release(struct sk *s)
{
	if (s->listener != NULL) {
		rn_list_remove(&s->listener->pending, &s->link);
		s->listener->n_pending--;
	}
	owner_del(&s->owner);
	table_del(&all, s->number);
	sk_disarm(s);
	drop_memory_fd(s);
	unname_file(s);
	if (s->fd >= 0)
		close(s->fd);
	free(s->closing);
	if (s->counted)
		user_give(s->user, USER_FDS, 0, 1);
	if (s->more_fds != 0)
		user_give(s->user, USER_FDS, 0, s->more_fds);
	give_port(s);
	user_put(s->user);
	rn_list_push_back(&dead, &s->link);
}

void sk_reap(void)
{
	struct sk *s;

	while ((s = rn_list_pop(&dead, struct sk, link)) != NULL)
		free(s);
}

static void unlistened(struct cmd *cmd)
{
	struct sk *s = rn_container_of(cmd, struct sk, cmd), *p;

	user_give(s->user, USER_LISTENERS, 0, 1);
	while ((p = rn_list_first(&s->pending, struct sk, link)) != NULL) {
		rn_list_remove(&s->pending, &p->link);
		p->listener = NULL;
		p->gone = true;
		sk_settle(p);
	}
	s->busy = false;
	sk_set_state(s, SK_BOUND);
	sk_settle(s);
}

static void sk_left(struct cmd *cmd)
{
	struct sk *s = rn_container_of(cmd, struct sk, cmd);

	s->busy = false;
	sk_settle(s);
}

void sk_settle(struct sk *s)
{
	if (!s->gone || s->busy)
		return;
	if (s->state == SK_LISTENING) {
		sk_send(s, CMD_STREAM_UNLISTEN, unlistened);
		return;
	}
	if (s->state == SK_GRAM && sk_gram_end(s))
		return;
	if (s->stream == NULL) {
		sk_release(s);
		return;
	}
	if (s->left)
		return; /* wait for STREAM_CLOSED: the worker ends a stream that makes no progress any more */
	s->left = true;
	s->cmd.stream =
		(struct cmd_stream){ .stream = s->stream, .key = s->owner.key, .abort = s->state == SK_PENDING };
	sk_send(s, CMD_STREAM_CLOSE, sk_left);
}
