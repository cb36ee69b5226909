/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of stream sockets over the kernel's TCP: connected by a program or accepted for a listener, adopted by a
 * program, closed by the program, ended by the connection.
 */
#include "sockets/ks_sk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "border/event.h"
#include "border/handed.h"
#include "border/policy.h"

#define CONNS_AT_ONCE 16u /* connections that a listener accepts in one turn, at most */

static struct rc_ctx *streams_rc(struct iws_ctx *x);

static struct qp_dev dev;
struct iws_ctx ks_iws = { .dev = &dev, .rc = streams_rc };

static struct {
	struct qp_mr *mr;
	uint64_t mr_size;
	uint32_t n_slots, used; /* streams at most; how many have been made */
	struct rn_list unused;  /* streams that have ended */
	struct rn_list listeners;
	struct rn_list touched, telling;
} all;

/* ks_space() fails only if the control thread is behind with events, and connections of streams make none. */
static struct rc_ctx *streams_rc(struct iws_ctx *x)
{
	(void)x;
	(void)ks_space();
	return &ks.rc;
}

/* ---- lists and events ---- */

static void stream_touch(struct stream *s)
{
	if (!rn_link_linked(&s->touched))
		rn_list_push_back(&all.touched, &s->touched);
}

void ks_sk_tell(struct stream *s, uint32_t bits)
{
	s->tell |= bits;
	if (!rn_link_linked(&s->telling))
		rn_list_push_back(&all.telling, &s->telling);
}

static struct ipc_addr stream_endpoint(const struct pkt_addr *ip, uint16_t port)
{
	struct ipc_addr a = { .port = port };

	memcpy(a.ip, ip->b, sizeof(a.ip));
	return a;
}

static void stream_free(struct stream *s)
{
	rn_list_remove(&all.touched, &s->touched);
	munmap(s->iws, sizeof(*s->iws));
	s->key = 0;
	s->state = KS_SK_OVER;
	rn_list_push_front(&all.unused, &s->link);
}

/* False: the event queue is full. */
static bool stream_event(const struct stream *s)
{
	static const struct conn_addr none;
	const struct conn_addr *a = s->c != NULL ? &s->c->addr : &none;
	struct event *ev = event_room(0, EVENT_LOSSLESS);

	if (ev == NULL)
		return false;
	ev->type = EVENT_STREAM;
	ev->stream = (struct event_stream){ .bits = s->tell,
					    .key = s->key,
					    .stream = (struct stream *)(uintptr_t)s,
					    .listener = s->listener != NULL ? s->listener->key : 0,
					    .port = a->port,
					    .local = stream_endpoint(&a->local, a->lport),
					    .remote = stream_endpoint(&a->remote, a->rport) };
	if (s->c != NULL && (s->tell & STREAM_ARRIVED) != 0) {
		ks_scope(s->c->src.fd, false, &ev->stream.local);
		ks_scope(s->c->src.fd, true, &ev->stream.remote);
	}
	event_put(0);
	return true;
}

void ks_sk_events(void)
{
	struct stream *s;

	while ((s = rn_list_first(&all.telling, struct stream, telling)) != NULL) {
		if (s->key != 0 && !stream_event(s))
			return; /* told in a later turn */
		rn_list_remove(&all.telling, &s->telling);
		s->tell = 0;
		if (s->state == KS_SK_OVER)
			stream_free(s);
	}
}

bool ks_sk_more(void) { return !rn_list_empty(&all.touched) || !rn_list_empty(&all.telling); }

/* ---- begin and end ---- */

/* A stream that has ended, or a new one. NULL: no memory. */
static struct stream *stream_unused(void)
{
	struct stream *s = rn_list_pop(&all.unused, struct stream, link);

	if (s != NULL || all.used == all.n_slots)
		return s;
	s = calloc(1, sizeof(*s));
	if (s != NULL)
		s->slot = all.used++;
	return s;
}

/* Makes a stream with the connection c, which has no rc yet. NULL: no memory. */
static struct stream *stream_make(struct ks_conn *c)
{
	struct stream *s = stream_unused();

	if (s == NULL)
		return NULL;
	void *iws = mmap(NULL, sizeof(*s->iws), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			 0);
	if (iws == MAP_FAILED) {
		rn_list_push_front(&all.unused, &s->link);
		return NULL;
	}
	*s = (struct stream){ .c = c, .iws = iws, .slot = s->slot };
	c->sk = s;
	iws_begin(s->iws, &c->rc, &s->pos, s->slot + 1);
	return s;
}

/* A listener that had stopped to accept, since too many connections wait, may accept again. */
static void listener_room(struct ks_sk_listener *l)
{
	if (l->n_unclaimed <= l->backlog)
		ks_watch(&l->src, EPOLLIN);
}

/* A listener's stream whose MPA Request has not come: the control thread has not been told of it. */
static bool stream_half_open(const struct stream *s) { return s->listener != NULL && !s->connected; }

/* Takes the stream off its listener: a program has accepted it, or none will. */
static void stream_claim(struct stream *s)
{
	struct ks_sk_listener *l = s->listener;

	if (l == NULL)
		return;
	rn_list_remove(&l->streams, &s->link);
	s->listener = NULL;
	l->n_unclaimed -= s->unclaimed;
	s->unclaimed = false;
	listener_room(l);
}

/* The connection has ended, and the engine no longer knows it. */
static void stream_over(struct stream *s)
{
	struct ks_conn *c = s->c;

	ks_sk_ended(s, s->iws->error);
	if (stream_half_open(s))
		s->key = 0;
	stream_claim(s);
	ks_sk_left_end(s);
	iws_free(&ks_iws, s->iws);
	if (s->user != NULL && s->user->at[s->bit] == s)
		s->user->at[s->bit] = NULL;
	s->user = NULL;
	s->mem = NULL;
	s->state = KS_SK_OVER;
	s->c = NULL;
	c->sk = NULL;
	ks_conn_died(c);
	ks_sk_tell(s, STREAM_CLOSED);
}

static void stream_own(struct stream *s, const struct cmd_stream *c)
{
	s->mem = c->mem;
	s->user = c->user;
	s->bit = c->bit;
	s->user->at[s->bit] = s;
	stream_user_uses(s->user, s->bit);
	s->state = KS_SK_OWNED;
}

static struct mpa_policy stream_policy(uint32_t port)
{
	const struct mpa_policy p = conn_policy(rnicd.port[port]);

	return iws_policy(&p);
}

/* Makes the connection of a stream that a program opens. NULL and *v: there is none, and the socket is closed. */
static struct stream *stream_begin(const struct cmd_stream *of, struct ks_src src, enum conn_verdict *v)
{
	struct ks_conn *c = ks_conn_new(&of->addr, src);
	struct stream *s = c != NULL ? stream_make(c) : NULL;
	uint8_t hello[IWS_HELLO_MAX];
	struct rc_params p = { .policy = stream_policy(of->addr.port), .priv = hello };

	*v = CONN_FULL;
	if (c == NULL)
		ks.net->close(&src);
	else if (s == NULL)
		ks_conn_free(c);
	if (s == NULL)
		return NULL;
	p.priv_len = iws_ask(&ks_iws, s->iws, of->mem, of->user->tenant, hello);
	p.qp = &s->iws->qp;
	if (p.priv_len != 0 && rc_connect(&ks.rc, &c->rc, &p) == QP_OK) {
		*v = CONN_OK;
		return s;
	}
	iws_free(&ks_iws, s->iws);
	c->sk = NULL;
	ks_conn_free(c);
	stream_free(s);
	return NULL;
}

static void stream_open(struct cmd_stream *c)
{
	struct ks_src src = { .kind = KS_CONN, .fd = -1 };

	ks_handed_use(c->handed, &src);
	struct stream *s = stream_begin(c, src, &c->verdict);

	c->stream = s;
	if (s == NULL)
		return;
	s->key = c->key;
	stream_own(s, c);
	s->c->state = KS_CONNECTING;
	ks_interest(s->c);
	ks_sk_say_state(s);
}

static void stream_connected(struct stream *s)
{
	if (s->c->rc.passive)
		return;
	s->connected = true;
	s->mss = rn_min_u32(rn_max_u32(ks.net->mss(&s->c->src), 1), KS_MTU_MAX);
	s->mem->mss = s->mss;
	ks_sk_flag(s, IPC_STREAM_CONNECTED | IPC_STREAM_IWARP);
	ks_sk_tell(s, STREAM_CONNECTED);
	stream_touch(s);
}

static void stream_silent(struct stream *s, int err)
{
	if (s->iws->error == 0)
		s->iws->error = err;
}

static void stream_not_connected(struct stream *s, int err)
{
	/* before the program is told: it may then bind another socket to the port */
	ks_watch(&s->c->src, 0);
	ks.net->close(&s->c->src);
	s->iws->error = err;
	ks_failed(s->c, err);
}

/* Whether a command's stream still exists. */
static bool stream_is(const struct stream *s, uint64_t key) { return s->key == key && s->state != KS_SK_OVER; }

static bool stream_here(const struct cmd_stream *c) { return stream_is(c->stream, c->key); }

static void stream_adopt(struct cmd_stream *c)
{
	struct stream *s = c->stream;

	c->verdict = CONN_FULL;
	if (!stream_here(c) || s->state != KS_SK_WAITS)
		return;
	c->verdict = CONN_OK;
	stream_claim(s);
	stream_own(s, c);
	s->mss = rn_min_u32(rn_max_u32(ks.net->mss(&s->c->src), 1), KS_MTU_MAX);
	c->mem->mss = s->mss;
	c->mem->state = IPC_STREAM_CONNECTED | IPC_STREAM_IWARP;
	iws_adopt(&ks_iws, s->iws, s->mem, s->user->tenant);
	ks_sk_say_state(s);
	stream_touch(s);
}

/*
 * CMD_STREAM_CLOSE: the last program has closed the socket. As in Linux, bytes that the program has not read are lost,
 * and a reset tells the peer so (RFC 2525, 2.17).
 */
static void stream_leave(const struct cmd_stream *c)
{
	struct stream *s = c->stream;

	if (!stream_here(c))
		return;
	if (s->iws->ready)
		ks_sk_move(s);
	const bool lingers_not = s->mem != NULL &&
				 (__atomic_load_n(&s->mem->fin, __ATOMIC_RELAXED) & IPC_STREAM_ABORT) != 0;
	if (c->abort || lingers_not || s->state != KS_SK_OWNED || !s->connected || s->pos.rx_head != s->pos.rx_tail)
		iws_abort(&ks_iws, s->iws);
	stream_claim(s);
	s->state = KS_SK_LEFT;
	ks_sk_left(s);
	stream_touch(s);
}

/* ---- listeners ---- */

static struct ks_sk_listener *listener_of(uint64_t key)
{
	rn_list_each(struct ks_sk_listener, l, &all.listeners, link)
		if (l->key == key)
			return l;
	return NULL;
}

static void listener_open(struct cmd_stream_listen *c)
{
	struct ks_sk_listener *l = calloc(1, sizeof(*l));
	struct ks_src src = { .kind = KS_SK_LISTENER, .fd = -1 };

	c->verdict[0] = CONN_FULL;
	ks_handed_use(c->handed, &src);
	if (l == NULL) {
		ks.net->close(&src);
		return;
	}
	*l = (struct ks_sk_listener){ .src = src, .key = c->key, .backlog = c->backlog };
	c->verdict[0] = CONN_OK;
	rn_list_push_back(&all.listeners, &l->link);
	ks_watch(&l->src, EPOLLIN);
}

static void listener_again(const struct cmd_stream_listen *c)
{
	struct ks_sk_listener *l = listener_of(c->key);

	if (l == NULL)
		return;
	l->backlog = c->backlog;
	(void)listen(l->src.fd, (int)c->backlog);
	listener_room(l);
}

static void listener_end(const struct cmd_stream_listen *c)
{
	struct ks_sk_listener *l = listener_of(c->key);
	struct stream *s;

	if (l == NULL)
		return;
	while ((s = rn_list_first(&l->streams, struct stream, link)) != NULL) {
		if (stream_half_open(s)) {
			s->state = KS_SK_LEFT;
			s->key = 0;
			iws_abort(&ks_iws, s->iws);
			stream_touch(s);
		}
		stream_claim(s);
	}
	ks_watch(&l->src, 0);
	ks.net->close(&l->src);
	rn_list_remove(&all.listeners, &l->link);
	free(l);
}

/* CMD_STREAM_OPTION: the library of the program has checked the value. Connections of a listener inherit the option. */
static void socket_option(const struct cmd_stream_option *c)
{
	const struct ks_sk_listener *l = c->stream == NULL ? listener_of(c->key) : NULL;
	const struct ks_src *src = l != NULL                                           ? &l->src
				   : c->stream != NULL && stream_is(c->stream, c->key) ? &c->stream->c->src
										       : NULL;

	if (src != NULL)
		(void)setsockopt(src->fd, c->level, c->name, &c->value, sizeof(c->value));
}

/* Makes a connection of the listener over the connected TCP socket src, or closes the socket. */
static void stream_arrives(struct ks_src src, struct ks_sk_listener *l)
{
	struct conn_addr a = { .port = 0 };
	const bool there = ks.net->ends(&src, &a); /* else the peer has closed the connection already */
	struct stream *s;

	a.port = ks_dev_of(&a.local);
	if (a.port == UINT32_MAX)
		a.port = 0;
	const struct rc_params p = { .policy = stream_policy(a.port) };
	struct ks_conn *c = there ? ks_conn_new(&a, src) : NULL;
	if (c == NULL) {
		rnicd.port[a.port]->stats[0].rx_unanswered += there;
		ks.net->close(&src);
		return;
	}
	s = stream_make(c);
	if (s == NULL || rc_passive(&ks.rc, &c->rc, &p) != QP_OK) {
		rnicd.port[a.port]->stats[0].rx_unanswered++;
		c->sk = NULL;
		ks_conn_free(c);
		if (s != NULL)
			stream_free(s);
		return;
	}
	s->key = EVENT_OWNER_PASSIVE | ++ks.passive;
	s->listener = l;
	rn_list_push_back(&l->streams, &s->link);
	ks_opened(c);
	rc_ready_put(&ks.rc, &c->rc);
	ks_conn_half_open(c);
}

void ks_sk_accept(struct ks_sk_listener *l)
{
	for (uint32_t i = 0; i < CONNS_AT_ONCE && ks_space(); i++) {
		struct ks_src src = { .kind = KS_CONN, .fd = -1 };
		/* As in Linux, n + 1 connections may wait for a backlog of n. The kernel keeps the others. */
		if (l->n_unclaimed > l->backlog) {
			ks_watch(&l->src, 0);
			return;
		}
		if (!ks.net->accept(&l->src, &src))
			return;
		stream_arrives(src, l);
	}
}

void ks_sk_command(struct cmd *c)
{
	switch ((int)c->type) {
	case CMD_STREAM_JOIN: ks_sk_join(c->stream_join[0]); break;
	case CMD_STREAM_LISTEN:
		if (c->stream_listen.again)
			listener_again(&c->stream_listen);
		else
			listener_open(&c->stream_listen);
		break;
	case CMD_STREAM_UNLISTEN: listener_end(&c->stream_listen); break;
	case CMD_STREAM_OPEN: stream_open(&c->stream); break;
	case CMD_STREAM_ADOPT: stream_adopt(&c->stream); break;
	case CMD_STREAM_CLOSE: stream_leave(&c->stream); break;
	case CMD_STREAM_OPTION: socket_option(&c->stream_option); break;
	default: break;
	}
}

/* ---- the steps of a turn ---- */

static void stream_effect(struct stream *s, const struct qp_fx *fx)
{
	iws_note(s->iws, fx);
	stream_touch(s);
}

/* The peer's MPA Request has come: reports the stream to its listener, if the Request has a valid hello. */
static void stream_asked(struct stream *s, uint32_t marks)
{
	struct ks_sk_listener *l = s->listener;

	if ((marks & IWS_HELLO) == 0) {
		iws_abort(&ks_iws, s->iws);
		return;
	}
	s->connected = true;
	if (l == NULL)
		return;
	l->n_unclaimed++;
	s->unclaimed = true;
	ks_sk_tell(s, STREAM_ARRIVED);
}

static void stream_gone(struct stream *s, uint32_t marks)
{
	const int error = iws_gone(s->iws, marks, ks_sk_reset_error(s));

	ks_sk_ended(s, error);
	if (error != 0 && s->mem != NULL)
		ks_sk_tell(s, STREAM_OUT | STREAM_PEER_FIN);
}

static void stream_look(struct stream *s)
{
	const uint32_t marks = s->iws->marks;

	s->iws->marks = 0; /* the calls below may set new marks */
	if (marks & IWS_ASKED)
		stream_asked(s, marks);
	if (marks & IWS_UP)
		(void)iws_up(&ks_iws, s->iws, marks);
	if (s->iws->ready)
		ks_sk_move(s);
	if (marks & IWS_GONE)
		stream_gone(s, marks);
	if (marks & IWS_CLOSED)
		stream_over(s);
}

uint32_t ks_sk_settle(void)
{
	struct stream *s;
	uint32_t n = 0;

	if (rn_list_empty(&all.touched))
		return 0;
	(void)ks_effects();
	while (n < all.n_slots && (s = rn_list_pop(&all.touched, struct stream, touched)) != NULL) {
		n++;
		if (s->state != KS_SK_OVER)
			stream_look(s);
	}
	return n;
}

/* ---- start ---- */

bool ks_sk_start(uint32_t flows)
{
	static const struct ks_streams hooks = { .connected = stream_connected,
						 .not_connected = stream_not_connected,
						 .silent = stream_silent,
						 .effect = stream_effect,
						 .touch = stream_touch };
	const uint32_t regions = 2 * flows + 2;

	ks.streams = &hooks;
	all.n_slots = flows;
	all.mr_size = regions * sizeof(all.mr[0]);
	/* untouched pages take no memory */
	all.mr = mmap(NULL, all.mr_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all.mr == MAP_FAILED)
		return false;
	qp_dev_init(&dev, all.mr, regions, rnicd.secret[3]);
	return true;
}

void ks_sk_stop(void)
{
	if (all.mr != NULL && all.mr != MAP_FAILED)
		munmap(all.mr, all.mr_size);
}
