/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rsockets, both ends in one process over two devices of one daemon: bytes, the end of a stream, waiting, options. In
 * rsock_wire.c a peer makes the bytes of the wire format itself; in rsock_signal.c signals come.
 *
 * usage: as cm_cases
 */
#include "rsock_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- bytes ---- */

struct flow {
	int fd;
	size_t len;
	uint32_t seed;
	bool ok;
};

static void *sender(void *arg)
{
	struct flow *f = arg;
	uint8_t *buf = pattern_new(f->len, f->seed);
	size_t done = 0, piece = 1;

	/* Sends in pieces of all sizes. */
	while (done < f->len) {
		size_t n = f->len - done < piece ? f->len - done : piece;
		ssize_t got = rsend(f->fd, buf + done, n, 0);
		if (got <= 0)
			break;
		done += (size_t)got;
		piece = piece * 3 % 300007 + 1;
	}
	f->ok = done == f->len;
	free(buf);
	return NULL;
}

static void *receiver(void *arg)
{
	struct flow *f = arg;
	uint8_t *want = pattern_new(f->len, f->seed), *buf = malloc(f->len);
	size_t done = 0, piece = 7;

	while (done < f->len) {
		size_t n = f->len - done < piece ? f->len - done : piece;
		ssize_t got = rrecv(f->fd, buf + done, n, 0);
		if (got <= 0)
			break;
		done += (size_t)got;
		piece = piece * 5 % 200003 + 1;
	}
	f->ok = done == f->len && memcmp(buf, want, f->len) == 0;
	free(buf);
	free(want);
	return NULL;
}

/* len bytes in each direction at the same time, with a thread for each end of each direction. */
static bool both_ways(const struct two *t, size_t len)
{
	struct flow f[4] = {
		{ t->s, len, 1, false }, { t->c, len, 1, false }, { t->c, len, 2, false }, { t->s, len, 2, false }
	};
	pthread_t th[4];

	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&th[i], NULL, i % 2 == 0 ? sender : receiver, &f[i]) == 0);
	for (int i = 0; i < 4; i++)
		pthread_join(th[i], NULL);
	CHECK(f[0].ok && f[1].ok && f[2].ok && f[3].ok);
	return true;
}

static bool bytes_both_ways_at_once(void)
{
	struct two t;

	return two_open(&t, 9001, NULL) && both_ways(&t, 3000000) && two_close(&t);
}

static bool smallest_queues_and_buffers(void)
{
	static const struct rig_opt opts[] = { { SOL_RDMA, RDMA_SQSIZE, 1 }, { SOL_RDMA, RDMA_RQSIZE, 1 },
					       { SOL_RDMA, RDMA_INLINE, 0 }, { SOL_SOCKET, SO_RCVBUF, 1 },
					       { SOL_SOCKET, SO_SNDBUF, 1 }, { 0, 0, 0 } };
	struct two t;

	return two_open(&t, 9002, opts) && both_ways(&t, 700000) && two_close(&t);
}

static bool pieces_of_a_message(void)
{
	char a[5], b[300], c[2];
	struct iovec out[] = { { "hello", 5 }, { NULL, 0 }, { "rsockets and more", 17 } };
	struct iovec in[] = { { a, 5 }, { b, 16 }, { c, 1 } };
	struct msghdr m = { .msg_iov = out, .msg_iovlen = 3 };
	struct two t;

	CHECK(two_open(&t, 9003, NULL));
	CHECK(rwritev(t.c, out, 3) == 22 && rreadv(t.s, in, 3) == 22);
	CHECK(memcmp(a, "hello", 5) == 0 && memcmp(b, "rsockets and mor", 16) == 0 && c[0] == 'e');
	CHECK(rsendmsg(t.s, &m, 0) == 22);
	m = (struct msghdr){ .msg_iov = in, .msg_iovlen = 3 };
	CHECK(rrecvmsg(t.c, &m, MSG_WAITALL) == 22 && c[0] == 'e');
	CHECK(rsend(t.c, "peek", 4, 0) == 4);
	CHECK(rrecv(t.s, b, sizeof(b), MSG_PEEK) == 4 && rrecv(t.s, b, 2, MSG_PEEK) == 2 && memcmp(b, "peek", 4) == 0);
	CHECK(rrecv(t.s, b, sizeof(b), 0) == 4 && memcmp(b, "peek", 4) == 0);
	CHECK(rrecv(t.s, b, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
	CHECK(rsend(t.c, "x", 1, MSG_OOB) == -1 && errno == EOPNOTSUPP);
	CHECK(rsend(t.c, "", 0, 0) == 0 && rrecv(t.s, b, 0, 0) == 0);
	return two_close(&t);
}

/*
 * The first FPDU of an iWARP connection must be the initiator's; the application's first bytes may be the responder's.
 */
static bool the_server_speaks_first(void)
{
	struct two t;
	char b[8];

	CHECK(two_open(&t, 9004, NULL));
	CHECK(rsend(t.s, "banner", 6, 0) == 6);
	CHECK(rrecv(t.c, b, sizeof(b), 0) == 6 && memcmp(b, "banner", 6) == 0);
	return two_close(&t);
}

static bool a_reader_that_does_not_read_stops_the_writer(void)
{
	struct pollfd p = { .events = POLLOUT };
	size_t in = 0, out = 0;
	static uint8_t buf[65536];
	ssize_t n;
	struct two t;

	CHECK(two_open(&t, 9005, NULL));
	CHECK(rfcntl(t.c, F_SETFL, O_NONBLOCK) == 0 && rfcntl(t.c, F_GETFL) == (O_RDWR | O_NONBLOCK));
	p.fd = t.c;
	do {
		while ((n = rsend(t.c, buf, sizeof(buf), 0)) > 0)
			out += (size_t)n;
		CHECK(n == -1 && errno == EAGAIN);
	} while (rpoll(&p, 1, 200) == 1);
	CHECK(out > 100000 && out < 2000000);
	while (in < out) {
		CHECK((n = rrecv(t.s, buf, sizeof(buf), 0)) > 0);
		in += (size_t)n;
	}
	CHECK(rpoll(&p, 1, WAIT_MS) == 1 && p.revents == POLLOUT);
	return two_close(&t);
}

/* ---- the end of a stream ---- */

static bool half_close(void)
{
	static uint8_t buf[100000];
	struct pollfd p = { .events = POLLIN };
	struct two t;
	char b[4];

	CHECK(two_open(&t, 9006, NULL));
	CHECK(rsend(t.c, "last", 4, 0) == 4 && rshutdown(t.c, SHUT_WR) == 0);
	CHECK(rsend(t.c, "x", 1, 0) == -1 && errno == EPIPE);
	CHECK(rrecv(t.s, b, 4, 0) == 4 && memcmp(b, "last", 4) == 0 && rrecv(t.s, b, 4, 0) == 0);
	p.fd = t.s;
	CHECK(rpoll(&p, 1, 0) == 1 && p.revents == POLLIN);
	for (int i = 0; i < 8; i++) {
		CHECK(rsend(t.s, buf, sizeof(buf), 0) == sizeof(buf));
		CHECK(rrecv(t.c, buf, sizeof(buf), MSG_WAITALL) == sizeof(buf));
	}
	CHECK(rclose(t.s) == 0);
	CHECK(rrecv(t.c, b, 4, 0) == 0);
	return rclose(t.c) == 0 && rclose(t.l) == 0;
}

/* What was sent before rclose() arrives, even though the peer has not read yet. */
static bool closing_loses_nothing(void)
{
	struct flow f = { .len = 120000, .seed = 9 };
	uint8_t *buf = pattern_new(f.len, f.seed);
	struct pollfd p = { .events = POLLIN };
	struct two t;

	CHECK(two_open(&t, 9007, NULL));
	CHECK(rsend(t.c, buf, f.len, 0) == (ssize_t)f.len && rclose(t.c) == 0);
	f.fd = p.fd = t.s;
	CHECK(rpoll(&p, 1, WAIT_MS) == 1 && p.revents == POLLIN);
	receiver(&f);
	CHECK(f.ok && rrecv(t.s, buf, 1, 0) == 0);
	CHECK(rpoll(&p, 1, 0) == 1 && (p.revents & POLLHUP) != 0);
	CHECK(rsend(t.s, buf, 1, 0) == -1 && errno == EPIPE);
	free(buf);
	return rclose(t.s) == 0 && rclose(t.l) == 0;
}

static void *blocked_reader(void *arg)
{
	char b;

	return (void *)(intptr_t)(rrecv(*(int *)arg, &b, 1, 0) == -1 ? errno : 0);
}

static bool closing_wakes_who_waits(void)
{
	void *err = NULL;
	pthread_t th;
	struct two t;

	CHECK(two_open(&t, 9008, NULL));
	CHECK(pthread_create(&th, NULL, blocked_reader, &t.s) == 0);
	usleep(100000);
	CHECK(rclose(t.s) == 0);
	pthread_join(th, &err);
	CHECK((intptr_t)err == EBADF);
	return rclose(t.c) == 0 && rclose(t.l) == 0;
}

static bool hundreds_of_sockets(void)
{
	unsigned before = 0;

	for (int i = 0; i < 200; i++) {
		struct two t;
		char b;
		CHECK(two_open(&t, 9009, NULL));
		CHECK(rsend(t.c, "x", 1, 0) == 1 && rrecv(t.s, &b, 1, 0) == 1 && two_close(&t));
		if (i == 0)
			before = open_fds();
	}
	CHECK(open_fds() == before);
	return true;
}

/* ---- connecting and waiting ---- */

static bool connecting_without_waiting(void)
{
	struct sockaddr_in to = srv.addr;
	int l = listen_rs(9010), c = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), s, v = -1;
	struct pollfd p[2] = { { .fd = c, .events = POLLOUT }, { .fd = l, .events = POLLIN } };
	socklen_t len = sizeof(v);

	to.sin_port = htons(9010);
	CHECK(l >= 0 && c >= 0);
	CHECK(rfcntl(l, F_SETFL, O_NONBLOCK) == 0 && raccept(l, NULL, NULL) == -1 && errno == EAGAIN);
	CHECK(rpoll(&p[1], 1, 0) == 0);
	CHECK(rconnect(c, (struct sockaddr *)&to, sizeof(to)) == -1 && errno == EINPROGRESS);
	CHECK(rsend(c, "x", 1, 0) == -1 && errno == EAGAIN);
	while ((s = raccept(l, NULL, NULL)) < 0)
		CHECK(errno == EAGAIN && rpoll(p, 2, WAIT_MS) >= 1);
	CHECK(rpoll(p, 1, WAIT_MS) == 1 && p[0].revents == POLLOUT);
	CHECK(rgetsockopt(c, SOL_SOCKET, SO_ERROR, &v, &len) == 0 && v == 0);
	CHECK(rconnect(c, (struct sockaddr *)&to, sizeof(to)) == -1 && errno == EISCONN);
	return rclose(c) == 0 && rclose(s) == 0 && rclose(l) == 0;
}

static bool refused_and_unreachable(void)
{
	struct sockaddr_in to = srv.addr;
	int c = rsocket(AF_INET, SOCK_STREAM, 0), v = 0;
	struct pollfd p = { .events = POLLOUT };
	socklen_t len = sizeof(v);

	to.sin_port = htons(9011);
	CHECK(rconnect(c, (struct sockaddr *)&to, sizeof(to)) == -1 && errno == ECONNREFUSED);
	CHECK(rclose(c) == 0);
	c = p.fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	CHECK(rconnect(c, (struct sockaddr *)&to, sizeof(to)) == -1 && errno == EINPROGRESS);
	CHECK(rpoll(&p, 1, WAIT_MS) == 1 && (p.revents & POLLERR) != 0);
	CHECK(rgetsockopt(c, SOL_SOCKET, SO_ERROR, &v, &len) == 0 && v == ECONNREFUSED);
	CHECK(rgetsockopt(c, SOL_SOCKET, SO_ERROR, &v, &len) == 0 && v == 0);
	CHECK(rclose(c) == 0);
	c = rsocket(AF_INET, SOCK_STREAM, 0);
	to.sin_addr.s_addr = htonl(0xc6336401); /* 198.51.100.1 */
	CHECK(rconnect(c, (struct sockaddr *)&to, sizeof(to)) == -1 && (errno == ENODEV || errno == ENETUNREACH));
	return rclose(c) == 0;
}

static void *late_writer(void *arg)
{
	usleep(100000);
	return (void *)(intptr_t)(write(*(int *)arg, "x", 1) + 0);
}

static void *late_sender(void *arg)
{
	usleep(100000);
	return (void *)(intptr_t)rsend(*(int *)arg, "x", 1, 0);
}

static bool waiting_for_sockets_and_files_together(void)
{
	struct pollfd p[3] = { { .events = POLLIN }, { .events = POLLIN }, { .fd = -1 } };
	struct timeval now = { 0, 0 }, later = { WAIT_MS / 1000, 0 };
	fd_set r, w;
	int pipes[2];
	pthread_t th;
	struct two t;
	char b;

	CHECK(two_open(&t, 9012, NULL) && pipe(pipes) == 0);
	p[0].fd = t.s;
	p[1].fd = pipes[0];
	CHECK(rpoll(p, 3, 50) == 0);
	CHECK(pthread_create(&th, NULL, late_writer, &pipes[1]) == 0);
	CHECK(rpoll(p, 3, WAIT_MS) == 1 && p[0].revents == 0 && p[1].revents == POLLIN);
	pthread_join(th, NULL);
	CHECK(read(pipes[0], &b, 1) == 1);
	CHECK(pthread_create(&th, NULL, late_sender, &t.c) == 0);
	CHECK(rpoll(p, 3, -1) == 1 && p[0].revents == POLLIN && p[1].revents == 0);
	pthread_join(th, NULL);
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_SET(t.s, &r);
	FD_SET(pipes[0], &r);
	FD_SET(t.s, &w);
	CHECK(rselect(FD_SETSIZE, &r, &w, NULL, &now) == 2);
	CHECK(FD_ISSET(t.s, &r) && !FD_ISSET(pipes[0], &r) && FD_ISSET(t.s, &w));
	CHECK(rrecv(t.s, &b, 1, 0) == 1);
	FD_SET(t.s, &r);
	CHECK(pthread_create(&th, NULL, late_sender, &t.c) == 0);
	CHECK(rselect(FD_SETSIZE, &r, NULL, NULL, &later) == 1 && FD_ISSET(t.s, &r));
	pthread_join(th, NULL);
	close(pipes[0]);
	close(pipes[1]);
	return two_close(&t);
}

static bool several_threads_wait_on_one_socket(void)
{
	pthread_t th[2];
	struct two t;
	void *err[2];

	CHECK(two_open(&t, 9013, NULL));
	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&th[i], NULL, blocked_reader, &t.s) == 0);
	usleep(50000);
	CHECK(rsend(t.c, "a", 1, 0) == 1);
	usleep(50000);
	CHECK(rsend(t.c, "b", 1, 0) == 1);
	for (int i = 0; i < 2; i++) {
		pthread_join(th[i], &err[i]);
		CHECK(err[i] == NULL);
	}
	return two_close(&t);
}

static bool time_outs(void)
{
	struct timeval tv = { 0, 50000 }, got = { 0 };
	socklen_t len = sizeof(got);
	struct two t;
	char b;

	CHECK(two_open(&t, 9014, NULL));
	CHECK(rsetsockopt(t.s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) == 0);
	CHECK(rgetsockopt(t.s, SOL_SOCKET, SO_RCVTIMEO, &got, &len) == 0 && got.tv_usec == 50000);
	CHECK(rrecv(t.s, &b, 1, 0) == -1 && errno == EAGAIN);
	CHECK(rsetsockopt(t.l, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) == 0);
	CHECK(raccept(t.l, NULL, NULL) == -1 && errno == EAGAIN);
	return two_close(&t);
}

/* ---- threads that pthread_cancel() ends ---- */

#define HANG_S 120 /* a case that takes longer waits for a lock */

static struct two held;

static void receive(void)
{
	char b;

	rrecv(held.s, &b, 1, 0);
}

static void poll_all(void)
{
	struct pollfd p[40]; /* so many that rpoll() allocates memory */

	for (unsigned i = 0; i < 40; i++)
		p[i] = (struct pollfd){ .fd = i % 2 == 0 ? held.s : held.l, .events = POLLIN };
	rpoll(p, 40, -1);
}

static void select_one(void)
{
	fd_set r;

	FD_ZERO(&r);
	FD_SET(held.s, &r);
	rselect(held.s + 1, &r, NULL, NULL, NULL);
}

static void accept_one(void) { raccept(held.l, NULL, NULL); }

/* The thread ends where the call sleeps, as nothing comes. */
static void *end_in(void *arg)
{
	void (*const *call)(void) = arg;

	pthread_cancel(pthread_self());
	(*call)();
	return NULL;
}

static bool cancelled_threads_hold_nothing(void)
{
	static void (*const calls[])(void) = { receive, poll_all, select_one, accept_one };
	struct two more;
	char b = 0;

	alarm(HANG_S);
	CHECK(two_open(&held, 9017, NULL));
	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		pthread_t th;
		void *end = NULL;
		CHECK(pthread_create(&th, NULL, end_in, (void *)(uintptr_t)&calls[i]) == 0);
		CHECK(pthread_join(th, &end) == 0 && end == PTHREAD_CANCELED);
		CHECK(rsend(held.c, "x", 1, 0) == 1 && rrecv(held.s, &b, 1, 0) == 1 && b == 'x');
		CHECK(rsend(held.s, "y", 1, 0) == 1 && rrecv(held.c, &b, 1, 0) == 1 && b == 'y');
	}
	struct pollfd p = { .fd = held.s, .events = POLLIN };
	CHECK(rpoll(&p, 1, 0) == 0);
	CHECK(two_close(&held));
	/* The port and the descriptors are free. */
	CHECK(two_open(&more, 9017, NULL));
	CHECK(two_close(&more));
	alarm(0);
	return true;
}

/* ---- options and wrong calls ---- */

static bool names_and_options(void)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	struct two t;
	int v;

	CHECK(two_open(&t, 9015, NULL));
	CHECK(rgetsockname(t.s, (struct sockaddr *)&a, &len) == 0 && a.sin_addr.s_addr == srv.addr.sin_addr.s_addr);
	CHECK(a.sin_port == htons(9015));
	CHECK(rgetpeername(t.s, (struct sockaddr *)&a, &len) == 0 && a.sin_addr.s_addr == cli.addr.sin_addr.s_addr);
	CHECK(rgetpeername(t.c, (struct sockaddr *)&a, &len) == 0 && a.sin_port == htons(9015));
	CHECK(rgetpeername(t.l, (struct sockaddr *)&a, &len) == -1 && errno == ENOTCONN);
	len = sizeof(v);
	CHECK(rgetsockopt(t.l, SOL_SOCKET, SO_ACCEPTCONN, &v, &len) == 0 && v == 1);
	CHECK(rgetsockopt(t.c, SOL_SOCKET, SO_TYPE, &v, &len) == 0 && v == SOCK_STREAM);
	CHECK(rgetsockopt(t.c, SOL_SOCKET, SO_RCVBUF, &v, &len) == 0 && v >= 65536);
	v = 4;
	CHECK(rsetsockopt(t.c, SOL_RDMA, RDMA_SQSIZE, &v, len) == -1 && errno == EINVAL);
	CHECK(rsetsockopt(t.c, SOL_RDMA, RDMA_ROUTE, &v, len) == -1 && errno == ENOPROTOOPT);
	CHECK(rsetsockopt(t.c, SOL_SOCKET, SO_MARK, &v, len) == -1 && errno == ENOPROTOOPT);
	return two_close(&t);
}

/* As servers do that bind a socket to each address that getaddrinfo() returns. */
static bool listeners_at_all_addresses_of_each_family_share_a_port(void)
{
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_port = htons(9018) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_port = htons(9018) };
	int four = rsocket(AF_INET, SOCK_STREAM, 0), six = rsocket(AF_INET6, SOCK_STREAM, 0), v = 1;
	socklen_t len = sizeof(v);

	CHECK(rbind(four, (struct sockaddr *)&a4, sizeof(a4)) == 0 && rlisten(four, 1) == 0);
	CHECK(rbind(six, (struct sockaddr *)&a6, sizeof(a6)) == -1 && errno == EADDRINUSE);
	CHECK(rsetsockopt(six, IPPROTO_IPV6, IPV6_V6ONLY, &v, len) == 0);
	CHECK(rbind(six, (struct sockaddr *)&a6, sizeof(a6)) == 0 && rlisten(six, 1) == 0);
	v = 0;
	CHECK(rsetsockopt(six, IPPROTO_IPV6, IPV6_V6ONLY, &v, len) == -1 && errno == EINVAL);
	CHECK(rgetsockopt(six, IPPROTO_IPV6, IPV6_V6ONLY, &v, &len) == 0 && v == 1);
	return rclose(four) == 0 && rclose(six) == 0;
}

static bool wrong_calls(void)
{
	struct sockaddr_in a = srv.addr;
	int fd;
	char b;

	CHECK(rsocket(AF_INET, SOCK_DGRAM, 0) == -1 && errno == ESOCKTNOSUPPORT);
	CHECK(rsocket(AF_UNIX, SOCK_STREAM, 0) == -1 && errno == EAFNOSUPPORT);
	CHECK(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP) == -1 && errno == EPROTONOSUPPORT);
	CHECK(rsend(0, "x", 1, 0) == -1 && errno == EBADF && rclose(123456) == -1 && errno == EBADF);
	CHECK((fd = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	CHECK(rsend(fd, "x", 1, 0) == -1 && errno == ENOTCONN && rrecv(fd, &b, 1, 0) == -1 && errno == ENOTCONN);
	CHECK(rshutdown(fd, SHUT_WR) == -1 && errno == ENOTCONN && raccept(fd, NULL, NULL) == -1 && errno == EINVAL);
	CHECK(riomap(fd, &b, 1, PROT_WRITE, 0, -1) == -1 && errno == ENOTCONN);
	CHECK(rbind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && rlisten(fd, 1) == 0 && rlisten(fd, 2) == 0);
	CHECK(rbind(fd, (struct sockaddr *)&a, sizeof(a)) == -1 && errno == EINVAL);
	CHECK(rconnect(fd, (struct sockaddr *)&a, sizeof(a)) == -1 && errno == EOPNOTSUPP);
	return rclose(fd) == 0;
}

static const struct rig_case cases[] = {
	CASE(bytes_both_ways_at_once),
	CASE(smallest_queues_and_buffers),
	CASE(pieces_of_a_message),
	CASE(the_server_speaks_first),
	CASE(a_reader_that_does_not_read_stops_the_writer),
	CASE(half_close),
	CASE(closing_loses_nothing),
	CASE(closing_wakes_who_waits),
	CASE(hundreds_of_sockets),
	CASE(connecting_without_waiting),
	CASE(refused_and_unreachable),
	CASE(waiting_for_sockets_and_files_together),
	CASE(several_threads_wait_on_one_socket),
	CASE(time_outs),
	CASE(calls_go_on_after_a_handler_with_sa_restart),
	CASE(calls_end_after_a_handler_without_sa_restart),
	CASE(cancelled_threads_hold_nothing),
	CASE(names_and_options),
	CASE(listeners_at_all_addresses_of_each_family_share_a_port),
	CASE(wrong_calls),
	CASE(the_wire_from_a_client),
	CASE(the_wire_from_a_server),
	CASE(a_peer_that_vanishes),
	CASE(a_peer_that_writes_more_than_was_offered),
	CASE(messages_that_are_none),
	CASE(buffers_mapped_for_the_peer),
};

int main(int argc, char **argv) { return rig_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0])); }
