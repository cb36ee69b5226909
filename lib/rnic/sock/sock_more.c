/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps the pieces of a datagram until its last one is sent: MSG_MORE and UDP_CORK. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_gram.h"

int sock_more_keep(struct sock *s, const struct msghdr *m, const struct sock_way *w)
{
	const size_t n = sock_bytes(m->msg_iov, m->msg_iovlen);
	int err = 0;

	sock_lock(&s->tx);
	struct sock_more *p = s->more != NULL ? s->more : malloc(sizeof(*p));
	if (p != NULL && s->more == NULL) {
		p->w = *w;
		p->len = 0;
	}
	if (p == NULL) {
		err = ENOBUFS;
	} else if (n > sizeof(p->bytes) - p->len) {
		free(p);
		p = NULL;
		err = EMSGSIZE;
	}
	for (size_t i = 0; err == 0 && i < m->msg_iovlen; i++) {
		memcpy(p->bytes + p->len, m->msg_iov[i].iov_base, m->msg_iov[i].iov_len);
		p->len += (uint32_t)m->msg_iov[i].iov_len;
	}
	__atomic_store_n(&s->more, p, __ATOMIC_RELAXED);
	sock_unlock(&s->tx);
	return err;
}

struct sock_more *sock_more_take(struct sock *s)
{
	sock_lock(&s->tx);
	struct sock_more *p = s->more;
	__atomic_store_n(&s->more, NULL, __ATOMIC_RELAXED);
	sock_unlock(&s->tx);
	return p;
}

void sock_more_back(struct sock *s, struct sock_more *p, uint32_t n)
{
	sock_lock(&s->tx);
	if (n != UINT32_MAX && s->more == NULL) {
		p->len -= n;
		__atomic_store_n(&s->more, p, __ATOMIC_RELAXED);
		p = NULL;
	}
	sock_unlock(&s->tx);
	free(p);
}
