/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests to rnicd about datagram sockets, and about sockets that the kernel has made. */
#include <errno.h>
#include <sys/mman.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_requests.h"

/* rnicd has made a datagram socket: s gets its memory; *fd: its descriptor. 0 or an errno. */
static int gram_made(struct sock *s, const struct ipc_sock_ok *ok, const int fds[SOCK_ASK_FDS], int *fd)
{
	void *p = MAP_FAILED;

	sock_learn(s, ok);
	if (fds[1] >= 0) {
		p = mmap(NULL, IPC_GRAM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
		sock_libc.close(fds[1]);
	}
	if (p != MAP_FAILED && fds[0] < 0)
		munmap(p, IPC_GRAM_SIZE);
	if (p == MAP_FAILED || fds[0] < 0) {
		if (fds[0] >= 0)
			sock_libc.close(fds[0]);
		return ENOBUFS;
	}
	s->gram = p;
	s->kind = SOCK_IS_GRAM;
	*fd = fds[0];
	return 0;
}

int sock_gram_new(struct sock *s, const struct ipc_addr *local, uint32_t flags, int *fd)
{
	struct ipc_msg m = { .type = IPC_SOCK_GRAM, .sock_gram = { .flags = flags, .local = *local } };
	struct sock_along with = { .shown = -1 };
	int fds[SOCK_ASK_FDS], err = sock_request(&m, IPC_MSG_LEN(sock_gram), &with, fds);

	return err != 0 ? err : gram_made(s, &m.sock_ok, fds, fd);
}

int sock_take_gram(struct sock *s, int kernels, int *fd)
{
	struct ipc_msg m = { .type = IPC_SOCK_TAKE };
	struct sock_along with = { .shown = kernels };
	int fds[SOCK_ASK_FDS], err = sock_request(&m, IPC_MSG_LEN(sock_take), &with, fds);

	return err != 0 ? err : gram_made(s, &m.sock_ok, fds, fd);
}

int sock_gram_peer(struct sock *s, const struct ipc_addr *peer)
{
	struct ipc_msg m = { .type = IPC_SOCK_PEER, .sock_gram.sock = s->id };
	int fds[SOCK_ASK_FDS];

	if (peer != NULL)
		m.sock_gram.remote = *peer;
	return sock_request_about(s, &m, IPC_MSG_LEN(sock_gram), NULL, fds);
}

void sock_await_closed(uint16_t port)
{
	struct ipc_msg m = { .type = IPC_SOCK_CLOSED, .sock_addr.addr.port = port };
	struct sock_along with = { .shown = -1 };
	int fds[SOCK_ASK_FDS];

	(void)sock_request(&m, IPC_MSG_LEN(sock_addr), &with, fds);
}

void sock_pass_option(const struct sock *s, int level, int name, int value)
{
	struct ipc_msg m = { .type = IPC_SOCK_OPTION,
			     .sock_option = { .sock = s->id, .level = level, .name = name, .value = value } };
	int fds[SOCK_ASK_FDS];

	(void)sock_request_about(s, &m, IPC_MSG_LEN(sock_option), NULL, fds);
}

int sock_take_new(struct sock *s, int kernels, const struct ipc_addr *to, uint32_t backlog, int *fd)
{
	struct ipc_msg m = { .type = IPC_SOCK_TAKE, .sock_take.backlog = backlog };
	struct sock_along with = { .shown = kernels };

	if (to != NULL)
		m.sock_take.remote = *to;
	int fds[SOCK_ASK_FDS], err = sock_request(&m, IPC_MSG_LEN(sock_take), &with, fds);

	if (err != 0)
		return err;
	sock_learn(s, &m.sock_ok);
	err = fds[0] < 0 ? EMFILE : to != NULL ? sock_take_memory(s, fds[1]) : 0;
	if (err != 0 && fds[0] >= 0)
		sock_libc.close(fds[0]);
	if (err == 0 && to == NULL)
		s->kind = SOCK_LISTENS;
	*fd = fds[0];
	return err;
}
