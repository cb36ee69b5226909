/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of librnicsock that pthread_cancel() ends: no lock stays held, so other threads may go on. The test plays an
 * rnicd that ends each session at once.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "rnic/sock/sock.h"

#define HANG_S 20 /* a test that takes longer waits for a lock */

/* ---- in place of other parts of the library ---- */

struct sock *sock_tab[SOCK_FDS];
uint64_t sock_now(void) { return 0; }
int sock_number(const struct sock *s)
{
	(void)s;
	return -1;
}
void sock_set_linger(struct sock *s, struct linger l) { s->linger = l; }
void sock_keep(const struct sock *s) { (void)s; }
bool sock_tell_connect(struct sock *s) { return s != NULL; }
bool sock_kernels(void) { return false; }
int sock_token(struct sock *l, int fd) { return l != NULL && fd >= 0 ? 0 : EBADF; }

/* ---- rnicd ---- */

static int listener;

static void *end_sessions(void *arg)
{
	(void)arg;
	for (int fd; (fd = sock_libc.accept4(listener, NULL, NULL, 0)) >= 0;)
		sock_libc.close(fd);
	return NULL;
}

static int sessions_setup(void **state)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	static char dir[] = "/tmp/rnic-test-XXXXXX";
	pthread_t t;

	sock_libc_find();
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(un.sun_path, sizeof(un.sun_path), "%s/sock", dir);
	setenv("RNICD_SOCKET", un.sun_path, 1);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&un, sizeof(un)) != 0 || listen(listener, 4) != 0)
		return -1;
	*state = dir;
	return pthread_create(&t, NULL, end_sessions, NULL) != 0 || pthread_detach(t) != 0 ? -1 : 0;
}

static int sessions_teardown(void **state)
{
	unlink(getenv("RNICD_SOCKET"));
	return rmdir(*state);
}

/* ---- calls of a thread that is to end at its first cancellation point ---- */

static void *make_the_call(void *arg)
{
	void (**call)(void) = arg;

	pthread_cancel(pthread_self());
	(*call)();
	pthread_testcancel();
	return NULL;
}

/* The call by a thread that is cancelled in it or behind it; then the same call by another thread. */
static void cancelled_and_called_again(void (*call)(void))
{
	void *end = NULL;
	pthread_t t;

	alarm(HANG_S);
	assert_int_equal(pthread_create(&t, NULL, make_the_call, &call), 0);
	assert_int_equal(pthread_join(t, &end), 0);
	assert_ptr_equal(end, PTHREAD_CANCELED);
	call();
	alarm(0);
}

static void begin(void) { (void)sock_begin(); }

static void a_session_that_begins(void **state)
{
	(void)state;
	cancelled_and_called_again(begin);
}

static struct sock shared;
static uint32_t rx_word, tx_word;

static void end_a_turn_within_a_turn(void)
{
	static const uint8_t byte;

	sock_turn_begin(&shared.rx, &rx_word);
	sock_turn_begin(&shared.tx, &tx_word);
	sock_turn_end(&shared.tx, &tx_word);
	(void)sock_libc.send(-1, &byte, 1, 0); /* a cancellation point */
	sock_turn_end(&shared.rx, &rx_word);
}

static void a_turn(void **state)
{
	(void)state;
	pthread_mutex_init(&shared.rx, NULL);
	pthread_mutex_init(&shared.tx, NULL);
	cancelled_and_called_again(end_a_turn_within_a_turn);
}

static void what_a_thread_wants_is_kept(void **state)
{
	int was;

	(void)state;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	end_a_turn_within_a_turn();
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
	assert_int_equal(was, PTHREAD_CANCEL_DISABLE);
	end_a_turn_within_a_turn();
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
	assert_int_equal(was, PTHREAD_CANCEL_ENABLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_session_that_begins),
		cmocka_unit_test(a_turn),
		cmocka_unit_test(what_a_thread_wants_is_kept),
	};

	return cmocka_run_group_tests(tests, sessions_setup, sessions_teardown);
}
