/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * httpd_rdma - serves files over HTTP and sends their bodies by RDMA Write. A client connects by TCP and asks for
 * another protocol by HTTP's "Upgrade: iwarp". After the server's answer 101 the connection switches to iWARP. Requests
 * and headers are still bytes of the stream. The body is written into the memory that the request names, without a copy
 * on the way. The header is sent after the body, so a client that has read the header has the body. A client that does
 * not ask for this (curl) gets the body in the stream.
 *
 * 	httpd_rdma -s ADDRESS PORT FOLDER	serves the files of a folder, each client in a process of its own
 * 	httpd_rdma ADDRESS PORT NAME FILE	fetches one into FILE; a long file comes in parts
 *
 * Run it with rnicrun --embedded, or with rnicrun --sockets --design host.
 * Build:	cc -o httpd_rdma httpd_rdma.c -lrnic
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rnic/esock.h>

#define HEAD   4096       /* bytes of a request's or an answer's header at most */
#define MEMORY (4u << 20) /* bytes of a client's memory for bodies */

static void die(const char *what, const char *why)
{
	fprintf(stderr, "httpd_rdma: %s: %s\n", what, why);
	exit(1);
}

/* One end of a connection, before and after the switch. */
struct conn {
	int fd;
	int rdma; /* the connection has switched to iWARP */
};

static void out(const struct conn *c, const void *p, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t k = c->rdma ? rnic_sock_send(c->fd, (const char *)p + done, n - done)
				    : write(c->fd, (const char *)p + done, n - done);
		if (k <= 0)
			die("sending", c->rdma ? rnic_sock_error() : strerror(errno));
		done += (size_t)k;
	}
}

__attribute__((format(printf, 2, 3))) static void say(const struct conn *c, const char *fmt, ...)
{
	char text[HEAD];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	out(c, text, (size_t)n);
}

/*
 * Reads a header up to its empty line, and not a byte more: the next bytes may be iWARP. 0: the peer has closed the
 * connection.
 */
static size_t header(const struct conn *c, char head[HEAD])
{
	size_t n = 0;

	while (n < 4 || memcmp(head + n - 4, "\r\n\r\n", 4) != 0) {
		if (n == HEAD - 1)
			die("a header", "it is too long");
		ssize_t k = c->rdma ? rnic_sock_recv(c->fd, head + n, 1) : read(c->fd, head + n, 1);
		if (k < 0)
			die("a header", c->rdma ? rnic_sock_error() : strerror(errno));
		if (k == 0)
			return 0;
		n++;
	}
	head[n] = '\0';
	return n;
}

/* The value of a header field, after its colon; NULL: there is no such field. */
static const char *field(const char *head, const char *name)
{
	char line[64];

	snprintf(line, sizeof(line), "\r\n%s: ", name);
	const char *at = strcasestr(head, line);
	return at != NULL ? at + strlen(line) : NULL;
}

static int over_to_iwarp(struct conn *c, uint32_t role)
{
	const struct rnic_iwarp_mode mode = { .flags = role };

	c->rdma = rnic_sock_switch(c->fd, &mode) == 0;
	return c->rdma;
}

/* ---- the server ---- */

/* Maps a file of the folder; NULL: there is none of this name. */
static uint8_t *file_of(int folder, const char *head, size_t *size)
{
	char name[256];
	struct stat st;

	*size = 0;
	if (sscanf(head, "GET /%255[^ /] HTTP/1.1\r\n", name) != 1 || strcmp(name, "..") == 0)
		return NULL;
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	void *p = MAP_FAILED;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		*size = (size_t)st.st_size;
		p = mmap(NULL, *size + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	}
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

/* Writes bytes [from, from + n) of the file into the client's memory. */
static void body(const struct conn *c, uint8_t *file, size_t from, size_t n, uint64_t addr, uint32_t key)
{
	struct rnic_sock_mem mem;
	struct rnic_sock_done done;

	if (n == 0)
		return;
	if (rnic_sock_register(c->fd, file, from + n, 0, &mem) != 0 ||
	    rnic_sock_write(c->fd, file + from, n, addr, key, 0) != 0 || rnic_sock_send_done(c->fd, &done, 1, -1) != 1)
		die("writing the body", rnic_sock_error());
	if (done.error != 0)
		die("writing the body", strerror(done.error));
	rnic_sock_deregister(c->fd, &mem);
}

static void answer(const struct conn *c, int folder, const char *head)
{
	const char *where = c->rdma ? field(head, "RDMA-Memory") : NULL, *range = field(head, "Range");
	uint64_t addr = 0, room = 0, from = 0;
	uint32_t key = 0;
	size_t size;
	uint8_t *file = file_of(folder, head, &size);

	if (file == NULL) {
		say(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
		return;
	}
	if (where != NULL && sscanf(where, "%" SCNu64 " %" SCNu32 " %" SCNu64, &addr, &key, &room) != 3)
		room = 0;
	if (range != NULL && sscanf(range, "bytes=%" SCNu64 "-", &from) != 1)
		from = 0;
	if (from > size)
		from = size;
	if (where == NULL) {
		say(c, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", size);
		out(c, file, size);
	} else {
		const size_t n = size - from < room ? size - from : room;
		body(c, file, from, n, addr, key);
		say(c, "HTTP/1.1 206 Partial Content\r\nRDMA-Length: %zu\r\nRDMA-Total: %zu\r\n\r\n", n, size);
	}
	munmap(file, size + 1);
}

static void serve(int fd, int folder)
{
	struct conn c = { .fd = fd };
	char head[HEAD];

	while (header(&c, head) > 0) {
		const char *other = c.rdma ? NULL : field(head, "Upgrade");
		if (other != NULL && strncasecmp(other, "iwarp", 5) == 0) {
			say(&c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: iwarp\r\nConnection: Upgrade\r\n\r\n");
			if (!over_to_iwarp(&c, RNIC_SOCK_ACCEPTED))
				die("the switch", rnic_sock_error());
		} else {
			answer(&c, folder, head);
		}
	}
	if (c.rdma)
		rnic_sock_close(c.fd);
}

static int tcp(const char *addr, const char *port, int listens)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (inet_pton(AF_INET, addr, &sin.sin_addr) != 1)
		die(addr, "it is no IPv4 address");
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (listens ? bind(s, (struct sockaddr *)&sin, sizeof(sin)) != 0 || listen(s, 64) != 0
		    : connect(s, (struct sockaddr *)&sin, sizeof(sin)) != 0)
		die(listens ? "listening" : "connecting", strerror(errno));
	return s;
}

static int server(const char *addr, const char *port, const char *path)
{
	int s = tcp(addr, port, 1), folder = open(path, O_RDONLY | O_DIRECTORY);

	if (folder < 0)
		die(path, strerror(errno));
	signal(SIGCHLD, SIG_IGN);
	printf("listening on %s port %s\n", addr, port);
	fflush(stdout);
	for (;;) {
		int c = accept(s, NULL, NULL);
		if (c < 0)
			continue;
		if (fork() == 0) {
			close(s);
			serve(c, folder);
			exit(0);
		}
		close(c);
	}
}

/* ---- the client ---- */

static int client(const char *addr, const char *port, const char *name, const char *to)
{
	struct conn c = { .fd = tcp(addr, port, 0) };
	int file = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	uint64_t at = 0, total = UINT64_MAX, got;
	struct rnic_sock_mem mem;
	char head[HEAD];
	uint8_t *memory;

	if (file < 0)
		die(to, strerror(errno));
	say(&c, "GET /%s HTTP/1.1\r\nHost: %s\r\nUpgrade: iwarp\r\nConnection: Upgrade\r\n\r\n", name, addr);
	if (header(&c, head) == 0 || strncmp(head, "HTTP/1.1 101 ", 13) != 0)
		die("the server", "it has no RDMA");
	if (!over_to_iwarp(&c, RNIC_SOCK_CONNECTED))
		die("the switch", rnic_sock_error());
	if (posix_memalign((void **)&memory, 4096, MEMORY) != 0 ||
	    rnic_sock_register(c.fd, memory, MEMORY, IBV_ACCESS_REMOTE_WRITE, &mem) != 0)
		die("memory", rnic_sock_error());
	for (; at < total; at += got) {
		say(&c, "GET /%s HTTP/1.1\r\nRange: bytes=%" PRIu64 "-\r\nRDMA-Memory: %" PRIu64 " %u %u\r\n\r\n", name,
		    at, mem.addr, mem.rkey, MEMORY);
		if (header(&c, head) == 0 || strncmp(head, "HTTP/1.1 206 ", 13) != 0)
			die(name, "the server does not have it");
		const char *n = field(head, "RDMA-Length"), *all = field(head, "RDMA-Total");
		got = n != NULL ? strtoull(n, NULL, 10) : 0;
		total = all != NULL ? strtoull(all, NULL, 10) : 0;
		if (got > MEMORY || (got == 0 && at < total) || write(file, memory, got) != (ssize_t)got)
			die(to, "the answer cannot be, or there is no room for the file");
	}
	printf("%" PRIu64 " bytes by RDMA Write\n", at);
	rnic_sock_close(c.fd);
	return close(file) != 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "-s") == 0)
		return server(argv[2], argv[3], argv[4]);
	if (argc == 5)
		return client(argv[1], argv[2], argv[3], argv[4]);
	fprintf(stderr, "usage: httpd_rdma -s ADDRESS PORT FOLDER\n       httpd_rdma ADDRESS PORT NAME FILE\n");
	return 2;
}
