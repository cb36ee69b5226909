/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IPC_SOCK_LIST: the sockets that a user may see, for rnicrun --ss. The list is no snapshot: sockets that are made or
 * closed between two answers may be missing. Values that programs can write in a socket's memory are copied and
 * bounded, so a program can only falsify the row of its own socket.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "control/cm.h"
#include "control/sk.h"

#define LOOKS_MAX 512u /* sockets that one request looks at; these take less than 0.1 ms */

static bool may_see(const struct client *c, const struct sk *s)
{
	return c->uid == 0 || c->uid == geteuid() || sk_may_use(c, s);
}

/* Bytes between two indices of a ring, at most the size of the ring. */
static uint32_t waiting(const uint32_t *tail, const uint32_t *head, uint32_t ring)
{
	return rn_min_u32(__atomic_load_n(tail, __ATOMIC_RELAXED) - __atomic_load_n(head, __ATOMIC_RELAXED), ring);
}

static void row_of_listener(const struct sk *s, struct ipc_sock_row *row)
{
	row->state = TCP_LISTEN;
	row->recv_q = s->n_pending;
	row->send_q = s->backlog;
	if (s->dev == CM_NO_DEV)
		row->families = (s->families & CM_IP4 ? IPC_SOCK_IP4 : 0) | (s->families & CM_IP6 ? IPC_SOCK_IP6 : 0);
}

static void row_of_stream(const struct sk *s, struct ipc_sock_row *row)
{
	const struct ipc_stream *m = s->mem;

	row->state = TCP_ESTABLISHED; /* a connection that nobody has accepted has no memory yet */
	if (m == NULL)
		return;
	row->state = (uint8_t)__atomic_load_n(&m->tcp, __ATOMIC_RELAXED);
	row->recv_q = waiting(&m->rx_tail, &m->rx_head, IPC_STREAM_RING);
	row->send_q = waiting(&m->tx_tail, &m->tx_head, IPC_STREAM_RING);
	const uint32_t state = __atomic_load_n(&m->state, __ATOMIC_RELAXED);
	if (state & IPC_STREAM_CONNECTED)
		row->wire = (state & IPC_STREAM_IWARP) ? IPC_GRAM_IWARP : IPC_GRAM_PLAIN;
}

static void row_of_gram(const struct sk *s, struct ipc_sock_row *row)
{
	const struct ipc_gram *m = (const struct ipc_gram *)(const void *)s->mem;

	row->state = s->remote.port != 0 ? TCP_ESTABLISHED : TCP_CLOSE;
	row->recv_q = waiting(&m->rx_tail, &m->rx_head, IPC_GRAM_RING);
	row->send_q = waiting(&m->tx_tail, &m->tx_head, IPC_GRAM_RING);
	row->wire = (uint8_t)__atomic_load_n(&m->wire, __ATOMIC_RELAXED);
	row->families = s->dev == GRAM_ANY_DEV ? IPC_SOCK_IP4 : 0;
}

/* As in Linux, a socket that is only bound, or has ended, is not listed. A closed TCP socket is listed as long as its
 * connection exists. */
static bool is_listed(const struct sk *s)
{
	switch (s->state) {
	case SK_BOUND: return false;
	case SK_PENDING:
	case SK_STREAM: return s->stream != NULL;
	case SK_LISTENING:
	case SK_GRAM: return !s->gone;
	}
	return false;
}

static struct ipc_sock_row row_of(const struct sk *s)
{
	struct ipc_sock_row row = { .file = s->gone ? 0 : s->ino,
				    .local = s->local,
				    .remote = s->remote,
				    .uid = s->su->uid,
				    .protocol = s->state == SK_GRAM ? IPPROTO_UDP : IPPROTO_TCP };

	if (s->state == SK_GRAM)
		row_of_gram(s, &row);
	else if (s->state == SK_LISTENING)
		row_of_listener(s, &row);
	else
		row_of_stream(s, &row);
	return row;
}

void sk_tell(struct client *c)
{
	struct ipc_msg m = { .sock_list_ok = { .next = c->req.sock_list.from } };
	struct ipc_sock_list_ok *out = &m.sock_list_ok;
	const struct sk *s;

	for (uint32_t i = 0; i < LOOKS_MAX && out->n < IPC_SOCK_ROWS; i++) {
		s = sk_next(&out->next);
		if (s == NULL) {
			out->next = 0;
			break;
		}
		if (may_see(c, s) && is_listed(s))
			out->row[out->n++] = row_of(s);
	}
	client_answer(c, &m, IPC_MSG_LEN(sock_list_ok));
}
