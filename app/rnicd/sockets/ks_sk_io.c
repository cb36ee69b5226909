/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of stream sockets over the kernel's TCP. Indices that the program writes are copied, and the copies are
 * checked and used. If a program breaks the rules of the rings, its connection is reset.
 */
#include <errno.h>
#include <netinet/tcp.h>

#include "sockets/ks_gram.h"
#include "sockets/ks_sk.h"

#define OUT_ROOM (IPC_STREAM_RING / 4) /* a program that waits for room is told when this many bytes are free */

void ks_sk_say_state(const struct stream *s)
{
	const bool in = s->iws->in_told;
	const uint32_t open = in ? (s->fin ? TCP_LAST_ACK : TCP_CLOSE_WAIT) : s->fin ? TCP_FIN_WAIT2 : TCP_ESTABLISHED;

	if (s->mem == NULL)
		return;
	__atomic_store_n(&s->mem->tcp, s->connected ? open : TCP_SYN_SENT, __ATOMIC_RELAXED);
}

void ks_sk_flag(const struct stream *s, uint32_t bit)
{
	ks_sk_say_state(s);
	if (s->mem != NULL)
		__atomic_store_n(&s->mem->state, s->mem->state | bit, __ATOMIC_RELEASE);
}

void ks_sk_ended(const struct stream *s, int error)
{
	if (s->mem == NULL || (s->mem->state & IPC_STREAM_ENDED) != 0)
		return;
	s->mem->error = error;
	ks_sk_flag(s, IPC_STREAM_ENDED); /* release: a program that sees the end sees the errno, too */
	__atomic_store_n(&s->mem->tcp, TCP_CLOSE, __ATOMIC_RELAXED);
}

/* Linux reports a reset that comes after the peer's FIN, and before the program's, as EPIPE (tcp_reset). */
int ks_sk_reset_error(const struct stream *s)
{
	return !s->fin && s->mem != NULL && (s->mem->state & IPC_STREAM_PEER_FIN) != 0 ? EPIPE : ECONNRESET;
}

void ks_sk_answer(struct stream *s)
{
	if (s->mem == NULL)
		return;
	/* pairs with the program's fence: the program writes `want`, then looks at the ring once more */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	const uint32_t want = __atomic_load_n(&s->mem->want, __ATOMIC_RELAXED);
	const uint32_t head = __atomic_load_n(&s->mem->rx_head, __ATOMIC_RELAXED);
	const uint32_t fin = __atomic_load_n(&s->mem->fin, __ATOMIC_RELAXED);
	const bool room = IPC_STREAM_RING - (s->mem->tx_tail - s->pos.tx_head) >= OUT_ROOM;
	uint32_t say = 0;

	if ((want & IPC_STREAM_WANT_IN) && head != s->pos.rx_tail)
		say |= IPC_STREAM_WANT_IN;
	/* a program that has shut down writing may write, which tells it so: a thread that waits for room wakes */
	if ((want & IPC_STREAM_WANT_OUT) && s->connected && (room || (fin & IPC_STREAM_FIN) != 0))
		say |= IPC_STREAM_WANT_OUT;
	if (say == 0)
		return;
	__atomic_fetch_and(&s->mem->want, ~say, __ATOMIC_RELAXED);
	ks_sk_tell(s, ((say & IPC_STREAM_WANT_IN) ? STREAM_IN : 0) | ((say & IPC_STREAM_WANT_OUT) ? STREAM_OUT : 0));
}

/* Whether no program will read received bytes any more: the socket is closed, or shut down both ways. */
static bool unheard(const struct stream *s)
{
	return s->state == KS_SK_LEFT ||
	       (s->fin && s->mem != NULL && (__atomic_load_n(&s->mem->fin, __ATOMIC_RELAXED) & IPC_STREAM_DEAF) != 0);
}

/* Reads what the program has written: how far it has put and taken bytes, and whether its direction has ended. */
static void look_at_rings(struct stream *s)
{
	struct iws_pos *p = &s->pos;

	if (s->mem == NULL || !s->connected)
		return;
	/* acquire: pairs with the program's releases. fin is read first, as the program writes tx_tail before fin. */
	const uint32_t fin = __atomic_load_n(&s->mem->fin, __ATOMIC_ACQUIRE);
	const uint32_t tail = __atomic_load_n(&s->mem->tx_tail, __ATOMIC_ACQUIRE);
	const uint32_t head = __atomic_load_n(&s->mem->rx_head, __ATOMIC_ACQUIRE);

	if ((fin & IPC_STREAM_RESET) != 0 || tail - p->tx_head > IPC_STREAM_RING ||
	    tail - p->tx_put > IPC_STREAM_RING || head - p->rx_head > p->rx_tail - p->rx_head) {
		iws_abort(&ks_iws, s->iws);
		return;
	}
	p->rx_head = head;
	if (s->fin)
		return;
	iws_feed(&ks_iws, s->iws, tail, s->mss);
	if (((fin & IPC_STREAM_FIN) != 0 || s->state == KS_SK_LEFT) && p->tx_put == tail)
		s->fin = iws_end(&ks_iws, s->iws);
}

static bool ending;        /* this process is about to end */
static uint64_t ending_ns; /* then: the time that a stream has without progress */

/*
 * No program reads what the peer may still send: TCP's FIN follows the END, and the peer's END is not waited for. The
 * peer's process closes TCP when it has taken all bytes.
 */
static void end_soon(const struct stream *s)
{
	if (!ending || s->state != KS_SK_LEFT || !s->fin || rc_get_state(&s->c->rc) != RC_OPERATIONAL)
		return;
	s->iws->open = false;
	rc_disconnect(ks_iws.rc(&ks_iws), &s->c->rc);
}

void ks_sk_move(struct stream *s)
{
	uint32_t found;

	look_at_rings(s);
	found = iws_take(&ks_iws, s->iws, unheard(s));
	if (s->mem == NULL)
		return;
	if ((found & IWS_ACKED) != 0)
		__atomic_store_n(&s->mem->tx_head, s->pos.tx_head, __ATOMIC_RELEASE);
	if ((found & IWS_GOT) != 0)
		__atomic_store_n(&s->mem->rx_tail, s->pos.rx_tail, __ATOMIC_RELEASE);
	if ((found & (IWS_ACKED | IWS_MORE)) != 0)
		look_at_rings(s);
	if ((found & IWS_FIN) != 0) {
		ks_sk_flag(s, IPC_STREAM_PEER_FIN);
		ks_sk_tell(s, STREAM_PEER_FIN);
	}
	if ((s->mem->state & IPC_STREAM_ENDED) == 0)
		ks_sk_say_state(s);
	ks_sk_answer(s);
	end_soon(s);
}

/* ---- closed sockets ---- */

/*
 * The kernel keeps the connection of a peer that answers but takes nothing, as this process has the socket open. The
 * limit is that of rnicd's own streams (plane/stream.c); a process that is about to end has less time.
 */
#define LEFT_NS (200 * RN_NS_PER_S)
#define LOOKS   20u /* looks at a stream in that time */

static struct rn_list lefts; /* streams in LEFT, by their next look */

static uint64_t left_most(void) { return ending ? ending_ns : LEFT_NS; }

/* Bytes that were sent, or are to be sent next, and that the peer's TCP has not acknowledged. */
static uint32_t waiting(const struct stream *s)
{
	const struct ks_rest *r = s->c->rest;

	return ks.net->unacked(&s->c->src) + (r != NULL ? r->len - r->sent : 0);
}

static void look_later(struct stream *s)
{
	s->look = ks.now + left_most() / LOOKS;
	rn_list_push_back(&lefts, &s->left);
}

void ks_sk_left(struct stream *s)
{
	s->moved = ks.now;
	s->put_seen = s->pos.tx_put;
	s->wait_seen = waiting(s);
	look_later(s);
}

void ks_sk_left_end(struct stream *s)
{
	if (rn_link_linked(&s->left))
		rn_list_remove(&lefts, &s->left);
}

/* The time by which the look comes too late, since this process did not run, is no silence of the peer. */
static void look_left(struct stream *s)
{
	const uint32_t waits = waiting(s);

	s->moved += ks.now - s->look;
	if (s->pos.tx_put != s->put_seen || waits < s->wait_seen)
		s->moved = ks.now;
	s->put_seen = s->pos.tx_put;
	s->wait_seen = waits;
	if (ks.now - s->moved < left_most())
		look_later(s);
	else
		iws_abort(&ks_iws, s->iws);
}

uint32_t ks_sk_timers(void)
{
	struct stream *s;
	uint32_t n = 0;

	for (; ks_sk_due() <= ks.now; n++) {
		s = rn_list_pop(&lefts, struct stream, left);
		look_left(s);
	}
	return n;
}

bool ks_sk_any_left(void) { return !rn_list_empty(&lefts); }

uint64_t ks_sk_due(void)
{
	const struct stream *s = rn_list_first(&lefts, struct stream, left);

	return s != NULL ? s->look : RN_NEVER;
}

/* ---- doorbells ---- */

static struct stream_user *users;

void ks_sk_join(struct stream_user *u)
{
	u->next = users;
	users = u;
}

uint32_t ks_sk_doorbells(void)
{
	uint32_t rung[STREAM_RINGS_MAX], n = 0;

	for (struct stream_user *u = users; u != NULL; u = u->next) {
		const uint32_t of_user = stream_user_take(u, rung);
		for (uint32_t i = 0; i < of_user; i++) {
			struct stream *s = u->at[rung[i]];
			if (s != NULL) {
				ks_sk_answer(s);
				ks.streams->touch(s);
			} else if (u->gram[rung[i]] != NULL) {
				ks_gram_ring(u->gram[rung[i]]);
			}
		}
		n += of_user;
	}
	return n;
}

void ks_sk_say_sleeping(uint32_t value) { stream_users_say_sleeping(users, value); }

bool ks_sk_rung(void) { return stream_users_rung(users); }

void ks_sk_end_soon(uint64_t most)
{
	ending = true;
	ending_ns = most;
	rn_list_each(struct stream, s, &lefts, left) {
		s->moved = ks.now;
		s->look = ks.now + left_most() / LOOKS;
	}
	for (const struct stream_user *u = users; u != NULL; u = u->next)
		for (uint32_t bit = 0; bit < u->blocks * IPC_MAX_QPS; bit++)
			if (u->at[bit] != NULL)
				ks.streams->touch(u->at[bit]);
}
