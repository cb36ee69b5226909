/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the socket of a descriptor, for a program that got the descriptor from another one, by exec or over a UNIX
 * socket. As with a kernel's socket, a program that has the descriptor may use the socket, whichever user made it.
 */
#include <errno.h>

#include "control/cm.h"
#include "control/sk.h"

static uint32_t kind_of(const struct sk *s)
{
	switch (s->state) {
	case SK_BOUND:
	case SK_PENDING: return IPC_SOCK_IS_BOUND;
	case SK_LISTENING: return IPC_SOCK_LISTENS;
	case SK_STREAM: return IPC_SOCK_IS_STREAM;
	case SK_GRAM: return IPC_SOCK_IS_GRAM;
	}
	return IPC_SOCK_IS_BOUND;
}

bool sk_may_use(const struct client *c, const struct sk *s)
{
	if (s->user == c->user)
		return true;
	for (uint32_t i = 0; i < rn_min_u32(s->n_shown, SK_SHOWN_MAX); i++)
		if (s->shown[i] == c->uid)
			return true;
	return false;
}

void sk_show(struct client *c)
{
	/* a descriptor that is no socket has the cookie 0, which no socket has */
	const struct owner *o = owner_get(OWNER_SOCK_FD, c->shown);
	struct sk *s = o != NULL ? rn_container_of(o, struct sk, file) : NULL;

	if (s == NULL || s->gone) {
		client_error(c, EBADF, "the descriptor does not belong to a socket of this rnicd");
		return;
	}
	if (!sk_may_use(c, s))
		s->shown[s->n_shown++ % SK_SHOWN_MAX] = c->uid;
	struct ipc_msg m = { .sock_found = { .kind = kind_of(s) } };
	m.sock_found.sock = sk_answer(s);
	if (s->dev == CM_NO_DEV)
		m.sock_found.families = (s->families & CM_IP4 ? IPC_SOCK_IP4 : 0) |
					(s->families & CM_IP6 ? IPC_SOCK_IP6 : 0);
	const int fds[3] = { s->su->bells_fd, s->su->wake_fd, s->mem_fd };
	client_answer_fds(c, &m, IPC_MSG_LEN(sock_found), fds, s->mem_fd >= 0 ? 3 : 2);
}
