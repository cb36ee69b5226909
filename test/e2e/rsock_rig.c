/* SPDX-License-Identifier: BSD-3-Clause */
#include "rsock_rig.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>

uint8_t *pattern_new(size_t len, uint32_t seed)
{
	uint8_t *p = malloc(len);
	uint32_t x = seed * 2654435761u + 1;

	for (size_t i = 0; p != NULL && i < len; i++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		p[i] = (uint8_t)x;
	}
	return p;
}

static bool options_set(int fd, const struct rig_opt *o)
{
	for (; o != NULL && o->level != 0; o++)
		CHECK(rsetsockopt(fd, o->level, o->name, &o->value, sizeof(o->value)) == 0);
	return true;
}

int listen_rs(uint16_t port)
{
	struct sockaddr_in a = srv.addr;
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	a.sin_port = htons(port);
	if (fd >= 0 && rbind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && rlisten(fd, 16) == 0)
		return fd;
	printf("# cannot listen on %u (errno %d)\n", port, errno);
	return -1;
}

struct dialer {
	int fd;
	struct sockaddr_in to;
	int err;
};

static void *dial_rs(void *arg)
{
	struct dialer *d = arg;

	d->err = rconnect(d->fd, (struct sockaddr *)&d->to, sizeof(d->to)) == 0 ? 0 : errno;
	return NULL;
}

bool two_open(struct two *t, uint16_t port, const struct rig_opt *opts)
{
	struct dialer d = { .fd = rsocket(AF_INET, SOCK_STREAM, 0), .to = srv.addr };
	pthread_t th;

	d.to.sin_port = htons(port);
	t->l = listen_rs(port);
	t->c = d.fd;
	CHECK(t->l >= 0 && t->c >= 0 && options_set(t->l, opts) && options_set(t->c, opts));
	CHECK(pthread_create(&th, NULL, dial_rs, &d) == 0);
	t->s = raccept(t->l, NULL, NULL);
	CHECK(t->s >= 0);
	pthread_join(th, NULL);
	errno = d.err;
	CHECK(d.err == 0);
	return true;
}

bool two_close(struct two *t)
{
	CHECK(rclose(t->c) == 0);
	CHECK(rclose(t->s) == 0);
	CHECK(rclose(t->l) == 0);
	return true;
}
