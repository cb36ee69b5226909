/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests to the daemon, and its death. */
#include "rnic/common.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#define SPINS_BEFORE_YIELD 200

uint32_t rnic_forks = 1;

void rnic_spin_wait(struct rnic_spin *l, uint32_t was)
{
	uint32_t spins = 0;

	while (was == rnic_forks) {
		while (__atomic_load_n(&l->taken, __ATOMIC_RELAXED) != 0) {
			if (++spins % SPINS_BEFORE_YIELD == 0)
				sched_yield();
		}
		was = __atomic_exchange_n(&l->taken, rnic_forks, __ATOMIC_ACQUIRE);
	}
}

/* ---- the daemon's death ---- */

static void session_died(struct rnic_session *s)
{
	pthread_mutex_lock(&s->lock);
	if (__atomic_exchange_n(&s->dead, 1, __ATOMIC_RELEASE) == 0) {
		/* Printed before the event queues are told: a program that learns of the death may end at once. */
		rnic_complain(
			"rnic: rnicd has ended or was killed, or has dropped this process (its log says why): the "
			"devices fail from now on; start rnicd, then this program again");
		rn_list_each(struct rnic_evq, q, &s->evqs, link)
			rnic_evq_dead(q);
	}
	pthread_mutex_unlock(&s->lock);
}

static bool hung_up(short revents) { return (revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0; }

/* Sleeps until the daemon hangs up. librnic has no other thread, except for --inject and --sanitize. */
static void *watch(void *arg)
{
	struct rnic_session *s = arg;
	struct pollfd p = { .fd = s->sock, .events = POLLRDHUP };

	while ((poll(&p, 1, -1) < 0 && errno == EINTR) || !hung_up(p.revents))
		;
	session_died(s);
	return NULL;
}

void rnic_watch_look(struct rnic_session *s)
{
	struct pollfd p = { .fd = s->sock, .events = POLLRDHUP };

	if (!rnic_dead(s) && poll(&p, 1, 0) == 1 && hung_up(p.revents))
		session_died(s);
}

int rnic_thread(void *(*run)(void *), void *arg)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t t;
	int rc;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV); /* so that a write into memory that is being moved waits (guard.c) */
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	rc = pthread_create(&t, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return rc;
}

int rnic_watch_start(struct rnic_session *s) { return rnic_thread(watch, s); }

/* ---- requests ---- */

/* A request whose answer has not come. It lies on the stack of the thread that has sent it. */
struct asked {
	struct rn_link link; /* in session.asked */
	uint16_t type;
	uint32_t seq;
	struct ipc_msg *m; /* the request; then its answer */
	bool answered;
	pthread_cond_t wake; /* answered, or nobody reads the socket */
};

/* Nothing can be sent or received any more. */
static void broken(struct rnic_session *s)
{
	s->broken = true;
	shutdown(s->sock, SHUT_RDWR);
	rn_list_each(struct asked, a, &s->asked, link)
		pthread_cond_signal(&a->wake);
}

static struct asked *asked_find(struct rnic_session *s, const struct ipc_msg *answer)
{
	rn_list_each(struct asked, a, &s->asked, link) {
		if (a->seq == answer->seq && a->type == answer->type)
			return a;
	}
	return NULL;
}

/* Receives an answer, of whichever thread. Frees sock_lock meanwhile. */
static void receive(struct rnic_session *s)
{
	struct ipc_msg m;
	unsigned nfds = 0;

	s->reading = true;
	pthread_mutex_unlock(&s->sock_lock);
	const int rc = ipc_recv(s->sock, &m, NULL, &nfds);
	pthread_mutex_lock(&s->sock_lock);
	s->reading = false;
	struct asked *a = rc == 0 ? asked_find(s, &m) : NULL;
	if (a == NULL) { /* a socket whose answers do not match the requests cannot carry another request */
		broken(s);
		return;
	}
	*a->m = m;
	a->answered = true;
	rn_list_remove(&s->asked, &a->link);
	pthread_cond_signal(&a->wake);
}

/* Sends the request and receives its answer. False: the daemon is gone. */
static bool exchange(struct rnic_session *s, struct ipc_msg *m, uint16_t want, int fd)
{
	struct asked a = { .type = m->type, .m = m, .wake = PTHREAD_COND_INITIALIZER };

	m->status = 0;
	m->rsv = 0;
	pthread_mutex_lock(&s->sock_lock);
	a.seq = m->seq = ++s->seq;
	rn_list_push_back(&s->asked, &a.link);
	if (!s->broken && ipc_send(s->sock, m, &fd, fd >= 0 ? 1 : 0) != 0)
		broken(s);
	while (!a.answered && !s->broken) {
		if (s->reading)
			pthread_cond_wait(&a.wake, &s->sock_lock);
		else
			receive(s);
	}
	rn_list_remove(&s->asked, &a.link);
	const bool good = a.answered && (m->status != 0 || m->len == want);
	if (!good)
		broken(s);
	struct asked *next = rn_list_first(&s->asked, struct asked, link);
	if (next != NULL && !s->reading)
		pthread_cond_signal(&next->wake);
	pthread_mutex_unlock(&s->sock_lock);
	pthread_cond_destroy(&a.wake);
	return good;
}

/* The result of a request; answered: m is its answer. */
static int outcome(struct rnic_session *s, struct ipc_msg *m, bool answered)
{
	if (!answered) {
		session_died(s);
		return EIO;
	}
	if (m->status == 0)
		return 0;
	m->text[IPC_TEXT_MAX - 1] = '\0';
	/* The caller of IPC_IMPORT prints a better message, with the range of memory. */
	if (m->text[0] != '\0' && m->len > IPC_MSG_HDR && m->type != IPC_IMPORT)
		rnic_complain("rnic: %s", m->text);
	return m->status > 0 ? m->status : EPROTO;
}

int rnic_call(struct rnic_session *s, struct ipc_msg *m, uint16_t want, int fd)
{
	const int cancel = rnic_cancel_off();

	pthread_mutex_lock(&s->lock);
	const bool answered = !rnic_dead(s) && exchange(s, m, want, fd);
	pthread_mutex_unlock(&s->lock);
	rnic_cancel_back(cancel);
	return outcome(s, m, answered);
}

int rnic_call_long(struct rnic_session *s, struct ipc_msg *m, uint16_t want)
{
	const int cancel = rnic_cancel_off();
	const bool answered = !rnic_dead(s) && exchange(s, m, want, -1);

	rnic_cancel_back(cancel);
	return outcome(s, m, answered);
}

int rnic_call_handle(struct rnic_session *s, enum ipc_type type, uint32_t handle)
{
	struct ipc_msg m = { .type = (uint16_t)type, .len = IPC_MSG_LEN(handle), .handle = { .handle = handle } };

	return rnic_call(s, &m, IPC_MSG_HDR, -1);
}
