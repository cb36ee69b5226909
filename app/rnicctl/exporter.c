/* SPDX-License-Identifier: BSD-3-Clause */
#include "exporter.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "metrics.h"

#define WRONG_USAGE     2
#define CALLERS_MOST    16u        /* connections at a time; Prometheus needs one */
#define CALLER_PATIENCE 10         /* seconds that a caller may be silent */
#define CALLER_MEMORY   (16 << 10) /* bytes of the header of a request */
#define BACKLOG         16
#define HOST_BYTES      64u

#define NO_DAEMON "no rnicd answers: start it, or give its socket with --socket\n"
#define PLAIN     "text/plain; charset=utf-8"
#define LOOK_AT   "the counters are at /metrics\n"

static int fail(const char *what, const char *address, const char *why)
{
	fprintf(stderr, "rnicctl: %s %s: %s\n", what, address, why);
	return -1;
}

static bool is_loopback(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)sa;
		return ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	}
	if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)sa;
		return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
	}
	return false;
}

/* Splits "127.0.0.1:9464" or "[::1]:9464" into the host, without brackets, and the port. False: another form. */
static bool part(const char *address, char host[HOST_BYTES], const char **port)
{
	const char *colon = strrchr(address, ':');

	if (colon == NULL || colon[1] == '\0' || colon == address)
		return false;
	size_t len = (size_t)(colon - address);
	if (*address == '[') {
		if (colon[-1] != ']' || len < 3)
			return false;
		address++;
		len -= 2;
	}
	if (len >= HOST_BYTES)
		return false;
	memcpy(host, address, len);
	host[len] = '\0';
	*port = colon + 1;
	return strspn(*port, "0123456789") == strlen(*port) && strtoul(*port, NULL, 10) - 1 < UINT16_MAX;
}

static int listen_on(int family, const struct sockaddr *sa, socklen_t len)
{
	int one = 1, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	if ((family != AF_UNIX && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0) ||
	    bind(fd, sa, len) != 0 || listen(fd, BACKLOG) != 0) {
		int e = errno;
		close(fd);
		errno = e;
		return -1;
	}
	return fd;
}

static int listen_inet(const char *address)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
	char host[HOST_BYTES];
	const char *port;
	struct addrinfo *found;

	if (!part(address, host, &port) || getaddrinfo(host, port, &hints, &found) != 0)
		return fail("cannot listen on", address,
			    "give a loopback address and a port, as 127.0.0.1:9464, or the path of a socket");
	int fd = -1;
	if (!is_loopback(found->ai_addr))
		fail("cannot listen on", address,
		     "only loopback addresses are allowed, as there is no password; use a proxy for others");
	else if ((fd = listen_on(found->ai_family, found->ai_addr, found->ai_addrlen)) < 0)
		fail("cannot listen on", address, strerror(errno));
	freeaddrinfo(found);
	return fd;
}

static int listen_unix(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(sa.sun_path))
		return fail("cannot listen on", path, "a socket's path has at most 107 characters");
	strcpy(sa.sun_path, path);
	mode_t before = umask(S_IRWXO);
	int fd = listen_on(AF_UNIX, (const struct sockaddr *)&sa, sizeof(sa));
	umask(before);
	if (fd < 0)
		fail("cannot listen on", path,
		     errno == EADDRINUSE ? "the file exists already; remove it if no program uses it"
					 : strerror(errno));
	return fd;
}

/* The counters as text, which the caller frees. NULL: no daemon answers. */
static char *collect(const struct exporter *e, size_t *len)
{
	struct daemon *d = daemon_open(e->telemetry, e->control, e->any);
	char *text = NULL;

	if (d == NULL)
		return NULL;
	FILE *out = open_memstream(&text, len);
	bool whole = out != NULL && metrics_write(d, out);
	if (out != NULL && fclose(out) != 0)
		whole = false;
	daemon_close(d);
	if (whole)
		return text;
	free(text);
	return NULL;
}

static void say(struct evhttp_request *r, int status, const char *type, const char *text, size_t len)
{
	struct evbuffer *body = evbuffer_new();

	if (body == NULL || evbuffer_add(body, text, len) != 0 ||
	    evhttp_add_header(evhttp_request_get_output_headers(r), "Content-Type", type) != 0)
		evhttp_send_error(r, HTTP_INTERNAL, NULL);
	else
		evhttp_send_reply(r, status, NULL, body);
	if (body != NULL)
		evbuffer_free(body);
}

static void say_counters(struct evhttp_request *r, void *arg)
{
	size_t len = 0;
	char *text = collect(arg, &len);

	if (text != NULL)
		say(r, HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text, len);
	else
		say(r, HTTP_SERVUNAVAIL, PLAIN, NO_DAEMON, strlen(NO_DAEMON));
	free(text);
}

static void say_where(struct evhttp_request *r, void *arg)
{
	(void)arg;
	say(r, HTTP_NOTFOUND, PLAIN, LOOK_AT, strlen(LOOK_AT));
}

static void leave(evutil_socket_t sig, short what, void *base)
{
	(void)sig;
	(void)what;
	event_base_loopbreak(base);
}

/* Serves HTTP at the listening socket fd. The caller must not use fd again, even if this fails. */
static bool answer_at(struct event_base *base, int fd, const struct exporter *e)
{
	struct evhttp *http = evhttp_new(base);

	if (http == NULL || evhttp_accept_socket(http, fd) != 0) {
		close(fd);
		return false;
	}
	evhttp_set_allowed_methods(http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
	evhttp_set_timeout(http, CALLER_PATIENCE);
	evhttp_set_max_headers_size(http, CALLER_MEMORY);
	evhttp_set_max_body_size(http, 0);
	evhttp_set_gencb(http, say_where, NULL);
	return evhttp_set_cb(http, "/metrics", say_counters, (void *)(uintptr_t)e) == 0;
}

static int serve(const struct exporter *e, int fd, const char *address)
{
	struct event_base *base = event_base_new();
	struct event *ends[] = { base != NULL ? evsignal_new(base, SIGINT, leave, base) : NULL,
				 base != NULL ? evsignal_new(base, SIGTERM, leave, base) : NULL };

	if (ends[0] == NULL || ends[1] == NULL || event_add(ends[0], NULL) != 0 || event_add(ends[1], NULL) != 0 ||
	    !answer_at(base, fd, e)) {
		fail("cannot listen on", address, "libevent does not start");
		return 1;
	}
	signal(SIGPIPE, SIG_IGN);
	printf("rnicctl: counters are served at %s\n", address);
	fflush(stdout);
	return event_base_dispatch(base) == 0 ? 0 : 1; /* libevent's memory is freed with the process */
}

int exporter_run(const struct exporter *e, const char *address)
{
	bool file = *address == '/';
	int fd = file ? listen_unix(address) : listen_inet(address);

	if (fd < 0)
		return WRONG_USAGE;
	int rc = serve(e, fd, address);
	if (file)
		unlink(address);
	return rc;
}
