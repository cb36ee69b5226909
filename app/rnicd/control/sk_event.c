/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of workers about stream sockets, which become readiness of their descriptors. */
#include <sys/socket.h>

#include "control/sk.h"

/* A new connection of a listener, which waits for accept. */
static struct sk *sk_arrived(const struct event_stream *ev, uint32_t worker)
{
	struct sk *l = sk_of(ev->listener), *s = NULL;

	/* Each worker keeps to the backlog. Connections that came before listen() set a smaller one are not refused. */
	if (l != NULL && l->state == SK_LISTENING && !l->gone && user_take(l->user, USER_FLOWS, worker, 1)) {
		s = sk_new(l->user, l->su, ev->key);
		if (s == NULL)
			user_give(l->user, USER_FLOWS, worker, 1);
	}
	if (s == NULL) {
		sk_refuse(worker, ev->stream, ev->key);
		return NULL;
	}
	s->has_flow = true;
	s->worker = worker;
	s->dev = ev->port;
	s->local = ev->local;
	s->remote = ev->remote;
	s->stream = ev->stream;
	s->listener = l;
	sk_set_state(s, SK_PENDING);
	rn_list_push_back(&l->pending, &s->link);
	l->n_pending++;
	sk_listener_readable(l);
	return s;
}

void sk_event(const struct event_stream *ev, uint32_t worker)
{
	struct sk *s = (ev->bits & STREAM_ARRIVED) ? sk_arrived(ev, worker) : sk_of(ev->key);

	if (s == NULL)
		return;
	if (ev->bits & (STREAM_CONNECTED | STREAM_OUT | STREAM_CLOSED))
		sk_writable(s);
	if (ev->bits & STREAM_IN)
		(void)sk_readable(s);
	if ((ev->bits & (STREAM_PEER_FIN | STREAM_CLOSED)) && s->src.fd >= 0)
		shutdown(s->src.fd, SHUT_WR);
	if (ev->bits & STREAM_PEER_FIN)
		s->peer_fin = true;
	if (ev->bits & STREAM_CLOSED) {
		s->stream = NULL;
		if (!s->busy)
			sk_disarm(s);
		/* Its token stays in the listener's descriptor, until an accept finds no connection. */
		if (s->state == SK_PENDING)
			s->gone = true;
		sk_settle(s);
	}
}
