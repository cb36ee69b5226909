/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams (stream.h) over TCP sockets: a connection for each stream, a length of 4 bytes before each unit, length 0 at
 * the end. TCP's window replaces the credits, and the sockets' buffers hold the units under way.
 */
#include "stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "say.h"

#define CONNECT_NS 20000000l

struct flow {
	int fd;
	unsigned rank; /* of the other process */
	bool finished;
};

struct sock_hub {
	struct hub_cfg cfg;
	struct flow out[STREAMS], in[STREAMS];
	unsigned n_in, finished_in, turn;
	uint8_t *buf_out[STREAMS], *buf_in;
};

static struct sock_hub *sock_of(struct hub *h) { return (struct sock_hub *)(void *)h; }

static struct sockaddr_in place_of(const struct hub_cfg *c, unsigned rank, bool port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port ? (uint16_t)(c->port + rank) : 0) };

	if (inet_pton(AF_INET, c->addr[rank], &a.sin_addr) != 1)
		die("'%s' is no IPv4 address", c->addr[rank]);
	return a;
}

static int new_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("a socket cannot be made: %s", strerror(errno));
	return fd;
}

/* False: the connection was closed before the first byte. */
static bool take(const struct flow *f, void *to, size_t len)
{
	for (size_t got = 0; got < len;) {
		ssize_t n = recv(f->fd, (uint8_t *)to + got, len - got, MSG_WAITALL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0 && got == 0)
			return false;
		if (n <= 0)
			die("the stream from rank %u broke: %s", f->rank,
			    n < 0 ? strerror(errno) : "it ended in a unit");
		got += (size_t)n;
	}
	return true;
}

static void give(const struct flow *f, const void *from, size_t len, int flags)
{
	for (size_t sent = 0; sent < len;) {
		ssize_t n = send(f->fd, (const uint8_t *)from + sent, len - sent, flags | MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			die("the stream to rank %u broke: %s", f->rank, strerror(errno));
		sent += n > 0 ? (size_t)n : 0;
	}
}

static void connect_flow(struct sock_hub *h, struct flow *f, unsigned rank)
{
	struct sockaddr_in me = place_of(&h->cfg, h->cfg.me, false), to = place_of(&h->cfg, rank, true);
	struct hello hello = hello_make(&h->cfg);
	time_t end = time(NULL) + (time_t)h->cfg.patience;

	*f = (struct flow){ new_socket(), rank, false };
	for (;;) {
		if (bind(f->fd, (struct sockaddr *)&me, sizeof(me)) != 0)
			die("%s is no address of this host: %s", h->cfg.addr[h->cfg.me], strerror(errno));
		if (connect(f->fd, (struct sockaddr *)&to, sizeof(to)) == 0)
			break;
		if (time(NULL) > end)
			die("rank %u does not listen on %s port %u (%s): start it, or give another --port", rank,
			    h->cfg.addr[rank], h->cfg.port + rank, strerror(errno));
		close(f->fd);
		nanosleep(&(struct timespec){ 0, CONNECT_NS }, NULL);
		f->fd = new_socket();
	}
	setsockopt(f->fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	give(f, &hello, sizeof(hello), 0);
}

static void accept_flows(struct sock_hub *h)
{
	struct sockaddr_in me = place_of(&h->cfg, h->cfg.me, true);
	int l = new_socket();

	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	if (bind(l, (struct sockaddr *)&me, sizeof(me)) != 0 || listen(l, STREAMS) != 0)
		die("%s port %u cannot be had: %s", h->cfg.addr[h->cfg.me], ntohs(me.sin_port), strerror(errno));
	while (h->n_in < h->cfg.n_from) {
		struct flow *f = &h->in[h->n_in];
		struct hello hello;

		f->fd = accept4(l, NULL, NULL, SOCK_CLOEXEC);
		if (f->fd < 0)
			die("waiting for producers: %s", strerror(errno));
		if (take(f, &hello, sizeof(hello)) && hello_fits(&h->cfg, &hello)) {
			f->rank = hello.from;
			h->n_in++;
		} else {
			close(f->fd);
		}
	}
	close(l);
}

static struct hub *sock_open(const struct hub_cfg *cfg)
{
	struct sock_hub *h = calloc(1, sizeof(*h));

	if (h == NULL)
		die("there is no memory");
	h->cfg = *cfg;
	for (unsigned i = 0; i < cfg->n_to; i++) {
		h->buf_out[i] = allocate(cfg->unit);
		connect_flow(h, &h->out[i], cfg->to[i]);
	}
	h->buf_in = allocate(cfg->unit);
	if (cfg->n_from > 0)
		accept_flows(h);
	return (struct hub *)(void *)h;
}

static uint8_t *sock_buffer(struct hub *hub, unsigned i) { return sock_of(hub)->buf_out[i]; }

static void sock_send(struct hub *hub, unsigned i, uint32_t len)
{
	struct sock_hub *h = sock_of(hub);
	uint32_t word = htonl(len);

	give(&h->out[i], &word, sizeof(word), len > 0 ? MSG_MORE : 0);
	give(&h->out[i], h->buf_out[i], len, 0);
}

/* Finds a stream with input; the streams take turns. */
static struct flow *next_flow(struct sock_hub *h)
{
	struct pollfd fds[STREAMS];

	for (unsigned i = 0; i < h->n_in; i++)
		fds[i] = (struct pollfd){ h->in[i].finished ? -1 : h->in[i].fd, POLLIN, 0 };
	while (poll(fds, h->n_in, h->cfg.polling ? 0 : -1) <= 0)
		;
	do
		h->turn = (h->turn + 1) % h->n_in;
	while (fds[h->turn].revents == 0);
	return &h->in[h->turn];
}

static bool sock_receive(struct hub *hub, struct unit *u)
{
	struct sock_hub *h = sock_of(hub);

	while (h->finished_in < h->n_in) {
		struct flow *f = next_flow(h);
		uint32_t len;

		if (!take(f, &len, sizeof(len)))
			die("rank %u ended before the stream from it was finished", f->rank);
		len = ntohl(len);
		if (len > h->cfg.unit)
			die("rank %u sends a unit of %u bytes, more than %u", f->rank, len, h->cfg.unit);
		if (len > 0) {
			if (!take(f, h->buf_in, len))
				die("rank %u ended before the stream from it was finished", f->rank);
			*u = (struct unit){ h->buf_in, len, NULL };
			return true;
		}
		f->finished = true;
		h->finished_in++;
	}
	return false;
}

static void sock_done(struct hub *hub, struct unit *u)
{
	(void)hub;
	(void)u;
}

static void sock_close(struct hub *hub)
{
	struct sock_hub *h = sock_of(hub);

	for (unsigned i = 0; i < h->cfg.n_to; i++) {
		sock_send(hub, i, 0);
		close(h->out[i].fd);
		free(h->buf_out[i]);
	}
	for (unsigned i = 0; i < h->n_in; i++)
		close(h->in[i].fd);
	free(h->buf_in);
	free(h);
}

const struct hub_ops hub_sockets = { sock_open, sock_buffer, sock_send, sock_receive, sock_done, sock_close };
