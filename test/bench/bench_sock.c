/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ping-pong of 64 bytes over a TCP socket, as any program writes it: over the kernel as it is, over rnicd by
 * rnicrun --sockets.
 *
 *	bench_sock -s ADDRESS PORT		answers one client, then ends
 *	bench_sock ADDRESS PORT SECONDS		prints the median time of one way, in microseconds
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_time.h"

#define SIZE    64
#define SAMPLES 1000000u

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "bench_sock: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Receives a whole message. 0: the peer has ended the connection. */
static int take(int fd)
{
	char p[SIZE];
	ssize_t n = recv(fd, p, SIZE, MSG_WAITALL);

	if (n < 0)
		die("recv");
	return n == SIZE;
}

static void give(int fd)
{
	static const char p[SIZE];

	if (send(fd, p, SIZE, 0) != SIZE)
		die("send");
}

static void ask(int fd, unsigned seconds)
{
	uint32_t *took = calloc(SAMPLES, sizeof(*took));
	uint64_t end = now_ns() + seconds * UINT64_C(1000000000);
	uint32_t n = 0;

	if (took == NULL)
		die("memory");
	for (uint64_t at = now_ns(); at < end && n < SAMPLES; n++) {
		give(fd);
		if (!take(fd))
			die("the peer has ended");
		uint64_t now = now_ns();
		took[n] = (uint32_t)(now - at);
		at = now;
	}
	printf("%.3f\n", median_of(took, n) / 2000.0);
	free(took);
}

static int make(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0)
		die("socket");
	return fd;
}

static void answer(int fd)
{
	puts("listening");
	fflush(stdout);
	int c = accept(fd, NULL, NULL), one = 1;
	if (c < 0 || setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0)
		die("accept");
	while (take(c))
		give(c);
	close(c);
}

int main(int argc, char **argv)
{
	int serve = argc == 4 && strcmp(argv[1], "-s") == 0;
	struct sockaddr_in a = { .sin_family = AF_INET };

	if (argc != 4 || inet_pton(AF_INET, argv[1 + serve], &a.sin_addr) != 1) {
		fputs("bench_sock: -s ADDRESS PORT, or ADDRESS PORT SECONDS\n", stderr);
		return 2;
	}
	a.sin_port = htons((uint16_t)atoi(argv[2 + serve]));
	int fd = make();
	if (serve) {
		if (bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, 1) != 0)
			die("listen");
		answer(fd);
	} else {
		if (connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0)
			die("connect");
		ask(fd, (unsigned)atoi(argv[3]));
	}
	close(fd);
	return 0;
}
