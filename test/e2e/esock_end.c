/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of an extended socket, which runs commands from standard input and answers each command with one line: "ok"
 * and the result, or "failed", the errno and the sentence.
 *
 *	esock_end listen|connect ADDRESS PORT active|passive bytes|messages [slots SIZE]
 *
 * First the ends exchange the line "streams" over plain TCP. Bytes and messages are a pattern; each end counts for
 * itself at which position of the pattern it is.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rnic/esock.h>

#define SIZE  (4u << 20)
#define WRITE 65536u /* bytes of one call */

static int fd;
static uint8_t *memory; /* registered memory of SIZE bytes */
static struct rnic_sock_mem mem;
static uint64_t out_at, in_at; /* number of pattern bytes sent, received */

static uint8_t pattern(uint64_t i) { return (uint8_t)((uint32_t)i * 2654435761u >> 24 ^ i); }

static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static int tcp(bool listens, const char *addr, const char *port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	int s = socket(AF_INET, SOCK_STREAM, 0), one = 1, c;

	inet_pton(AF_INET, addr, &sin.sin_addr);
	if (!listens) {
		if (connect(s, (struct sockaddr *)&sin, sizeof(sin)) != 0)
			die("connect");
		return s;
	}
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(s, (struct sockaddr *)&sin, sizeof(sin)) != 0 || listen(s, 1) != 0)
		die("listen");
	puts("listening");
	c = accept(s, NULL, NULL);
	if (c < 0)
		die("accept");
	close(s);
	return c;
}

static void streams(void)
{
	char c = 0;

	if (write(fd, "streams\n", 8) != 8)
		die("write");
	while (c != '\n')
		if (read(fd, &c, 1) != 1)
			die("read");
}

static void told(int64_t rc)
{
	if (rc < 0)
		printf("failed %s %s\n", strerrorname_np(errno), rnic_sock_error());
	else
		printf("ok %lld\n", (long long)rc);
}

static void fill(uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = pattern(out_at + i);
}

static bool right(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != pattern(in_at + i))
			return false;
	in_at += n;
	return true;
}

/* Sends n bytes of the pattern in calls of odd sizes: copied, or (pieces) as 3 pieces of registered memory. */
static int64_t bytes_out(uint64_t n, bool pieces)
{
	static uint8_t copy[WRITE];
	uint8_t *p = pieces ? memory : copy;

	for (uint64_t left = n; left > 0;) {
		const size_t len = left < WRITE ? (size_t)left : WRITE - (size_t)(left % 977);
		fill(p, len);
		const struct iovec iov[3] = { { p, len / 3 },
					      { p + len / 3, len / 3 },
					      { p + len / 3 * 2, len - len / 3 * 2 } };
		ssize_t rc = pieces ? rnic_sock_writev(fd, iov, 3) : rnic_sock_send(fd, p, len);
		if (rc < 0)
			return -1;
		out_at += (uint64_t)rc;
		left -= (uint64_t)rc;
	}
	return (int64_t)n;
}

/* Receives n bytes, or up to the end; returns the number received. */
static int64_t bytes_in(uint64_t n)
{
	static uint8_t buf[WRITE];
	uint64_t got = 0;

	while (got < n) {
		const uint64_t most = 1 + (got * 7 + 4999) % WRITE;
		ssize_t rc = rnic_sock_recv(fd, buf, n - got < most ? n - got : most);
		if (rc < 0)
			return -1;
		if (rc == 0)
			break;
		if (!right(buf, (size_t)rc)) {
			puts("wrong bytes");
			exit(1);
		}
		got += (uint64_t)rc;
	}
	return (int64_t)got;
}

static uint64_t to_send;
static void *sender(void *arg)
{
	if (bytes_out(to_send, true) < 0)
		puts(rnic_sock_error());
	return arg;
}

/* Sends and receives n bytes at the same time, in a thread each. */
static int64_t both(uint64_t n)
{
	pthread_t t;

	to_send = n;
	if (pthread_create(&t, NULL, sender, NULL) != 0)
		die("thread");
	int64_t rc = bytes_in(n);
	pthread_join(t, NULL);
	return rc;
}

static int64_t receive_posted(size_t off, size_t len) { return rnic_sock_post_recv(fd, memory + off, len, off); }

static int64_t send_posted(size_t off, size_t len)
{
	fill(memory + off, len);
	int rc = rnic_sock_post_send(fd, memory + off, len, off);
	if (rc == 0)
		out_at += len;
	return rc;
}

/* Prints cookie:length:error of each finished message; checks the bytes received. */
static int64_t done(bool sends, int n, int ms)
{
	struct rnic_sock_done d[64];

	n = n > 64 ? 64 : n;
	int got = sends ? rnic_sock_send_done(fd, d, n, ms) : rnic_sock_recv_done(fd, d, n, ms);
	if (got < 0)
		return got;
	printf("ok %d", got);
	for (int i = 0; i < got; i++) {
		bool good = sends || d[i].error != 0 || right(memory + d[i].cookie, d[i].length);
		printf(" %llu:%u:%s", (unsigned long long)d[i].cookie, d[i].length,
		       d[i].error != 0 ? strerrorname_np(d[i].error)
		       : good          ? "0"
				       : "wrong");
	}
	putchar('\n');
	return INT64_MIN;
}

static void *receives(void *arg)
{
	char b;

	if (arg == NULL) /* ends where the call sleeps, as nothing comes */
		pthread_cancel(pthread_self());
	return rnic_sock_recv(fd, &b, 1) == 1 && right((uint8_t *)&b, 1) ? arg : NULL;
}

/*
 * A thread that pthread_cancel() ends in rnic_sock_recv(), and one that it ends while another thread sleeps there. The
 * other thread then gets the byte that the peer sends after the line "cancelled".
 */
static int64_t cancelled(void)
{
	pthread_t t, other;
	void *end = NULL, *got = NULL;

	for (unsigned i = 0; i < 2; i++) {
		if (i == 1 && pthread_create(&other, NULL, receives, &fd) != 0)
			die("thread");
		if (pthread_create(&t, NULL, receives, NULL) != 0)
			die("thread");
		pthread_join(t, &end);
		if (end != PTHREAD_CANCELED)
			return 1;
	}
	puts("cancelled");
	pthread_join(other, &got);
	return got == &fd ? 0 : 2;
}

static int64_t ready(int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms);
}

/* Runs one command with up to four numbers. */
static int64_t obey(const char *what, const uint64_t v[4])
{
	if (strcmp(what, "send") == 0)
		return bytes_out(v[0], false);
	if (strcmp(what, "writev") == 0)
		return bytes_out(v[0], true);
	if (strcmp(what, "recv") == 0)
		return bytes_in(v[0]);
	if (strcmp(what, "both") == 0)
		return both(v[0]);
	if (strcmp(what, "cancelled") == 0)
		return cancelled();
	if (strcmp(what, "shutdown") == 0)
		return rnic_sock_shutdown(fd);
	if (strcmp(what, "post_recv") == 0)
		return receive_posted(v[0], v[1]);
	if (strcmp(what, "post_send") == 0)
		return send_posted(v[0], v[1]);
	if (strcmp(what, "send_done") == 0 || strcmp(what, "recv_done") == 0)
		return done(what[0] == 's', (int)v[0], (int)v[1]);
	if (strcmp(what, "write") == 0 || strcmp(what, "read") == 0) /* offset, length, address, key */
		return what[0] == 'w' ? rnic_sock_write(fd, memory + v[0], v[1], v[2], (uint32_t)v[3], v[0])
				      : rnic_sock_read(fd, memory + v[0], v[1], v[2], (uint32_t)v[3], v[0]);
	if (strcmp(what, "set") == 0) { /* offset, length, byte */
		memset(memory + v[0], (int)v[2], v[1]);
		return 0;
	}
	if (strcmp(what, "is") == 0) {
		size_t i = 0;
		while (i < v[1] && memory[v[0] + i] == v[2])
			i++;
		return (int64_t)i;
	}
	if (strcmp(what, "nonblock") == 0)
		return fcntl(fd, F_SETFL, O_NONBLOCK);
	if (strcmp(what, "poll") == 0)
		return ready((int)v[0]);
	if (strcmp(what, "qp") == 0)
		return rnic_sock_qp(fd) != NULL ? (int64_t)rnic_sock_qp(fd)->qp_num : -1;
	if (strcmp(what, "unregistered") == 0)
		return rnic_sock_post_recv(fd, &out_at, sizeof(out_at), 0);
	if (strcmp(what, "close") == 0)
		return rnic_sock_close(fd);
	printf("no such command: %s\n", what);
	exit(2);
}

int main(int argc, char **argv)
{
	struct rnic_iwarp_mode mode = { .flags = 0 };
	char line[256], what[32];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 6)
		return 2;
	mode.flags = strcmp(argv[4], "active") == 0 ? RNIC_SOCK_CONNECTED : RNIC_SOCK_ACCEPTED;
	mode.flags |= strcmp(argv[5], "messages") == 0 ? RNIC_SOCK_MESSAGES : 0u;
	mode.slots = argc > 7 ? (uint32_t)atoi(argv[6]) : 0;
	mode.slot_size = argc > 7 ? (uint32_t)atoi(argv[7]) : 0;
	mode.depth = 128;
	if (posix_memalign((void **)&memory, 4096, SIZE) != 0)
		die("memory");
	memset(memory, 0, SIZE);
	fd = tcp(strcmp(argv[1], "listen") == 0, argv[2], argv[3]);
	streams();
	int64_t rc = rnic_sock_prepare(fd, &mode);
	if (rc == 0)
		rc = rnic_sock_register(fd, memory, SIZE, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE, &mem);
	for (unsigned i = 0; rc == 0 && i < 4 && mode.flags & RNIC_SOCK_MESSAGES; i++)
		rc = rnic_sock_post_recv(fd, memory + SIZE / 2 + i * 65536, 65536, SIZE / 2 + i * 65536);
	if (rc == 0)
		rc = rnic_sock_start(fd);
	if (rc != 0) {
		told(rc);
		return 1;
	}
	printf("open %llu %u\n", (unsigned long long)mem.addr, mem.rkey);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		uint64_t v[4] = { 0 };
		if (sscanf(line, "%31s %lu %lu %lu %lu", what, &v[0], &v[1], &v[2], &v[3]) < 1)
			continue;
		rc = obey(what, v);
		if (rc != INT64_MIN)
			told(rc);
	}
	return 0;
}
