/* SPDX-License-Identifier: BSD-3-Clause */
/* The turn of the worker, and the threads that run it. */
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "border/bell.h"
#include "border/event.h"
#include "sockets/ks_gram.h"
#include "sockets/ks_relay.h"
#include "sockets/ks_sk.h"

#define EVENTS       64
#define LOOK_EVERY   16u /* while there are hot connections, one turn in so many asks epoll */
#define BATCHES      32u /* batches that one turn sends at most */
#define SPIN_NS      (20 * RN_NS_PER_US)
#define SLEEP_MAX_NS (100 * RN_NS_PER_MS)
#define WAY_NS       (50 * RN_NS_PER_US) /* the progress thread's pause while the program polls */
#define WAY_POLLS    16u                 /* turns that the program must run in that time to count as polling */

/* ---- the turn ---- */

static uint32_t ring_word(struct worker_client *c, uint32_t word)
{
	/* acquire: pairs with the client's release; the work requests are in the queues */
	uint64_t bits = __atomic_exchange_n(&c->doorbell->bits[word], 0, __ATOMIC_ACQUIRE);
	uint32_t n = 0;

	/* pairs with the client's fence: a client that finds its bit set does not ring, so its queue is read now */
	rn_fence_exchanged();
	for (; bits != 0; bits &= bits - 1) {
		struct qp *qp = c->qp[word * 64 + (uint32_t)__builtin_ctzll(bits)];
		if (qp == NULL)
			continue;
		if (!ks_space()) {
			__atomic_fetch_or(&c->doorbell->bits[word], bits, __ATOMIC_RELAXED);
			__atomic_fetch_or(&c->doorbell->summary, UINT64_C(1) << word, __ATOMIC_RELAXED);
			return n;
		}
		ks_doorbell(qp);
		n++;
	}
	return n;
}

static uint32_t doorbells(void)
{
	uint32_t n = 0;

	for (struct worker_client *c = ks.clients; c != NULL; c = c->next) {
		struct ipc_doorbell *db = c->doorbell;
		if (__atomic_load_n(&db->recvs, __ATOMIC_RELAXED) != 0 &&
		    __atomic_exchange_n(&db->recvs, 0, __ATOMIC_ACQUIRE) != 0) {
			rc_recvs(&ks.rc);
			n++;
		}
		if (__atomic_load_n(&db->summary, __ATOMIC_RELAXED) == 0)
			continue;
		uint64_t words = __atomic_exchange_n(&db->summary, 0, __ATOMIC_ACQUIRE);
		for (; words != 0; words &= words - 1)
			n += ring_word(c, (uint32_t)__builtin_ctzll(words));
	}
	return n + rc_recvs_look(&ks.rc);
}

static void arm(struct ks_conn *c) { rn_wheel_arm(&ks.wheel, &c->timer, ks_conn_due(c)); }

/* Makes each turn read the connection's socket without asking epoll: c is the hottest connection now. */
static void heat(struct ks_conn *c)
{
	uint32_t i = 0;

	while (i < KS_HOT - 1 && ks.hot[i] != c)
		i++;
	struct ks_conn *out = ks.hot[i];
	memmove(ks.hot + 1, ks.hot, i * sizeof(ks.hot[0]));
	ks.hot[0] = c;
	if (ks.net->polled == NULL)
		return;
	if (out != NULL && out != c && !out->dead)
		ks.net->polled(&out->src, false);
	/* While the progress thread sleeps, only the descriptor can wake it, so the descriptor must be notified. */
	if (__atomic_load_n(&ks.sleeps_till, __ATOMIC_RELAXED) == 0)
		ks.net->polled(&c->src, true);
}

/* Whether the connection's socket may be read now. */
static bool is_read(const struct ks_conn *c) { return !c->dead && c->state == KS_OPEN && !c->eof && c->kept == NULL; }

/*
 * Called before the progress thread sleeps: from now on input makes the descriptors of the hot connections readable.
 * True: one of them has input already.
 */
static bool hot_rest(void)
{
	bool any = false;

	for (uint32_t i = 0; ks.net->polled != NULL && i < KS_HOT && ks.hot[i] != NULL; i++) {
		if (!is_read(ks.hot[i]))
			continue;
		ks.net->polled(&ks.hot[i]->src, false);
		any |= ks.net->readable(&ks.hot[i]->src);
	}
	return any;
}

/* Whether rnicd has ended: the descriptor of one of its streams reports an end, and the stream's memory tells none. */
static bool rnicd_gone(const struct ks_conn *c)
{
	return ks.net->readable != NULL && c->state == KS_OPEN && c->kept == NULL &&
	       (c->eof || !ks.net->readable(&c->src));
}

static void listener_event(struct ks_listener *l, uint32_t events)
{
	if ((events & (EPOLLERR | EPOLLHUP)) != 0)
		ks_watch(&l->src, 0); /* rnicd has ended, so no connection will come */
	else
		ks_accept(l);
}

static void conn_event(struct ks_conn *c, uint32_t events)
{
	if (c->dead)
		return;
	if (c->state == KS_CONNECTING) {
		if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0)
			ks_connected(c);
	} else {
		if ((events & EPOLLOUT) != 0)
			ks_writable(c);
		if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0 && ks_in(c))
			heat(c);
		else if ((events & (EPOLLERR | EPOLLHUP)) != 0 && rnicd_gone(c))
			ks_broken(c, true);
	}
	arm(c);
}

/*
 * An event may end an object whose own event comes later in the same batch. So an object ends in two steps while events
 * are handled: at once epoll no longer watches its socket, and at the end of the turn its memory is freed.
 */
static uint32_t look_at_sockets(void)
{
	struct epoll_event e[EVENTS];
	int n = epoll_wait(ks.ep, e, EVENTS, 0);

	for (int i = 0; i < n; i++) {
		struct ks_src *s = e[i].data.ptr;
		if (s->events == 0) /* an earlier event of this batch has ended the object */
			continue;
		switch (s->kind) {
		case KS_CONN: conn_event(rn_container_of(s, struct ks_conn, src), e[i].events); break;
		case KS_LISTENER: listener_event(rn_container_of(s, struct ks_listener, src), e[i].events); break;
		case KS_GUEST: ks_guest_in(s); break;
		case KS_PASSAGE: ks_passed_in(s); break;
		case KS_RELAY: ks_relay_event(s); break;
		case KS_UD:
		case KS_UD_OWN: ks_ud_event(s, e[i].events); break;
		case KS_GROUP: (void)ks_group_event(s); break;
		case KS_GRAMS: ks_gram_hear_event(); break;
		case KS_SK_LISTENER: ks_sk_accept(rn_container_of(s, struct ks_sk_listener, src)); break;
		}
	}
	return n > 0 ? (uint32_t)n : 0;
}

/*
 * Reads the sockets. Hot connections, which had input last, are read in each turn. For the others epoll is asked: in
 * one turn of LOOK_EVERY if there are hot connections, else in each turn; if there are datagram QPs or
 * sockets, always in each turn.
 */
static uint32_t receive(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < KS_HOT && ks.hot[i] != NULL; i++) {
		struct ks_conn *c = ks.hot[i];
		if (!is_read(c) || (ks.net->readable != NULL && !ks.net->readable(&c->src)))
			continue;
		if (ks_in(c)) {
			heat(c);
			arm(c);
			n++;
		}
	}
	if (n != 0 && ks.n_uds == 0 && ++ks.looks < LOOK_EVERY)
		return n;
	if (ks.hot[0] != NULL && ks.n_uds == 0 && ks.looks++ % LOOK_EVERY != 0)
		return n;
	ks.looks = 1;
	return n + look_at_sockets();
}

static uint32_t timers(void)
{
	struct rn_timer *t;
	uint32_t n = 0;

	while (ks_space() && (t = rn_wheel_pop(&ks.wheel, ks.now)) != NULL) {
		struct ks_conn *c = rn_container_of(t, struct ks_conn, timer);
		if (c->state == KS_REFUSED && ks.now >= c->again)
			ks_connect(c);
		ks_look_silent(c);
		rc_timer(&ks.rc, &c->rc);
		/* The turn sends what the timer wants to be sent, or ends a connection that waited for the timer. */
		if (rc_get_state(&c->rc) != RC_FREE)
			rc_ready_put(&ks.rc, &c->rc);
		arm(c);
		n++;
	}
	return n;
}

static uint32_t transmit(void)
{
	struct rc *qc;
	uint32_t n = 0;

	for (uint32_t looks = 0; looks < BATCHES && ks_space() && (qc = rc_ready_pop(&ks.rc)) != NULL; looks++) {
		struct ks_conn *c = ks_conn_of(qc);
		n += ks_out(c);
		if (c->state == KS_NEW)
			ks_connect(c);
		arm(c);
	}
	return n;
}

/* Whether there is work left for which no socket, doorbell or timer would wake the progress thread. */
static bool more(void)
{
	return !rn_list_empty(&ks.rc.ready) || !rn_list_empty(&ks.rc.answers) || !rn_list_empty(&ks.rc.qp.flushing) ||
	       ks.rc.qp.n_fx != 0 || ks_ud_more() || ks_sk_more() || ks_gram_more();
}

static uint32_t turn(void)
{
	uint32_t n;

	ks.now = ks.rc.qp.now = rnicd_now();
	n = ks_commands();
	n += receive();
	n += doorbells();
	n += ks_sk_doorbells();
	n += timers();
	n += ks_ud_timers();
	n += ks_gram_timers();
	n += ks_sk_settle(); /* before the timers: what has come is progress */
	n += ks_sk_timers();
	n += transmit();
	n += ks_gram_transmit();
	n += ks_ud_transmit();
	n += ks_sk_settle();
	ks_effects();
	ks_sk_events();
	ks_gram_events();
	n += more();
	ks_bury();
	ks_guests_free();
	event_flush(0);
	return n;
}

static uint64_t next_due(void)
{
	const uint64_t sockets = rn_min_u64(ks_sk_due(), ks_gram_due());

	return rn_min_u64(rn_wheel_next(&ks.wheel), rn_min_u64(ks_ud_due(), sockets));
}

bool ks_poll(void)
{
	if (pthread_mutex_trylock(&ks.lock) != 0)
		return false;
	turn();
	/* wake: the progress thread sleeps beyond the time at which work that this turn has left is due. */
	uint64_t till = __atomic_load_n(&ks.sleeps_till, __ATOMIC_RELAXED);
	bool wake = till != 0 && (more() || next_due() < till);
	pthread_mutex_unlock(&ks.lock);
	__atomic_fetch_add(&ks.polled, 1, __ATOMIC_RELAXED);
	if (wake)
		bell_ring(0);
	return true;
}

/* ---- the progress thread ---- */

static void say_sleeping(uint32_t value)
{
	bell_set_sleeping(0, value);
	for (struct worker_client *c = ks.clients; c != NULL; c = c->next)
		__atomic_store_n(&c->doorbell->need_wakeup, value, __ATOMIC_RELAXED);
	ks_sk_say_sleeping(value);
}

static bool anything_waits(void)
{
	if (cmd_waits(0) || more() || ks_sk_rung())
		return true;
	for (const struct worker_client *c = ks.clients; c != NULL; c = c->next) {
		if (__atomic_load_n(&c->doorbell->summary, __ATOMIC_RELAXED) != 0 ||
		    __atomic_load_n(&c->doorbell->recvs, __ATOMIC_RELAXED) != 0)
			return true;
	}
	return false;
}

/*
 * Puts the progress thread to sleep until something happens or is due. Called with ks.lock, and releases it meanwhile.
 */
static void sleep_well(void)
{
	uint64_t now = rnicd_now(), due = rn_min_u64(next_due(), now + SLEEP_MAX_NS);

	say_sleeping(1);
	/* pairs with the fences in bell_ring() and in the client's doorbell */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!hot_rest() && !anything_waits() && due > now) {
		uint64_t left = due - now;
		struct timespec ts = { .tv_sec = (time_t)(left / RN_NS_PER_S), .tv_nsec = (long)(left % RN_NS_PER_S) };
		__atomic_store_n(&ks.sleeps_till, due, __ATOMIC_RELAXED);
		pthread_mutex_unlock(&ks.lock);
		bell_wait(0, &ts);
		pthread_mutex_lock(&ks.lock);
		__atomic_store_n(&ks.sleeps_till, 0, __ATOMIC_RELAXED);
	}
	say_sleeping(0);
	ks.looks = 0;
}

/* True: threads of the program run the turns now, so the progress thread has paused for WAY_NS in place of a turn. */
static bool program_polls(uint64_t *seen)
{
	const struct timespec pause = { .tv_nsec = (long)WAY_NS };
	uint64_t polled = __atomic_load_n(&ks.polled, __ATOMIC_RELAXED);

	if (polled - *seen < WAY_POLLS) {
		*seen = polled;
		return false;
	}
	*seen = polled;
	nanosleep(&pause, NULL);
	return true;
}

void *ks_main(void *arg)
{
	uint64_t busy = rnicd_now(), seen = 0;

	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	prctl(PR_SET_NAME, "rnic-progress", 0, 0, 0);
	while (!__atomic_load_n(&ks.stop, __ATOMIC_RELAXED)) {
		if (program_polls(&seen))
			continue;
		pthread_mutex_lock(&ks.lock);
		if (turn() != 0)
			busy = ks.now;
		else if (ks.now - busy >= SPIN_NS)
			sleep_well();
		pthread_mutex_unlock(&ks.lock);
	}
	return arg;
}

void ks_close_all(void)
{
	rn_list_each(struct ks_conn, c, &ks.conns, link)
		if (c->src.fd >= 0)
			close(c->src.fd);
	rn_list_each(struct ks_listener, l, &ks.listeners, link)
		close(l->src.fd);
	ks_held_close();
	ks_ud_close();
	ks_gram_close_all();
	ks_pass_close();
	close(ks.ep);
}
