/* SPDX-License-Identifier: BSD-3-Clause */
#include "sockets/ks_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define KEPT_EACH (1u << 20) /* bytes of the letters that are kept for one process, at most */
#define KEPT_ALL  (8u << 20) /* the same for all processes */
#define FDS_EACH  64u        /* descriptors in the letters that are kept for one process, at most */
#define FDS_ALL   256u       /* the same for all processes */

/* A letter that waits for room. */
struct kept {
	struct rn_slink link;
	int fd;
	uint32_t len;
	uint8_t b[];
};

struct relay {
	struct ks_src src; /* connected to the process's socket: epoll tells when that has room */
	struct rn_link link;
	struct sockaddr_un to;
	socklen_t to_len;
	struct rn_slist letters;
	uint32_t bytes, fds; /* in the letters */
};

static struct rn_list relays;
static uint32_t bytes_kept, fds_kept;

enum ks_passed ks_letter_send(int by, const struct ks_letter *l)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} ctl = { .buf = { 0 } };
	struct msghdr mh = { .msg_iov = (struct iovec *)(uintptr_t)l->part, .msg_iovlen = l->parts };

	if (l->to_len > 0) {
		mh.msg_name = (void *)(uintptr_t)&l->to;
		mh.msg_namelen = l->to_len;
	}
	if (l->fd >= 0) {
		mh.msg_control = ctl.buf;
		mh.msg_controllen = sizeof(ctl.buf);
		struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &l->fd, sizeof(int));
	}
	if (sendmsg(by, &mh, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		return KS_PASSED;
	return errno == EAGAIN || errno == EINTR || errno == ENOBUFS ? KS_PASS_FULL : KS_PASS_NOBODY;
}

static void drop_first(struct relay *r)
{
	struct kept *k = rn_slist_pop(&r->letters, struct kept, link);

	if (k->fd >= 0) {
		close(k->fd);
		r->fds--;
		fds_kept--;
	}
	r->bytes -= k->len;
	bytes_kept -= k->len;
	free(k);
}

static void relay_end(struct relay *r)
{
	ks_watch(&r->src, 0);
	close(r->src.fd);
	while (!rn_slist_empty(&r->letters))
		drop_first(r);
	rn_list_remove(&relays, &r->link);
	free(r);
}

/* The relay to the process; NULL: no letter to the process is kept. */
static struct relay *relay_to(const struct ks_letter *l)
{
	rn_list_each(struct relay, r, &relays, link)
		if (r->to_len == l->to_len && memcmp(&r->to, &l->to, l->to_len) == 0)
			return r;
	return NULL;
}

/* NULL: no memory, no descriptor, or the process has ended. */
static struct relay *relay_begin(const struct ks_letter *l)
{
	struct relay *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->to = l->to;
	r->to_len = l->to_len;
	r->src = (struct ks_src){ .kind = KS_RELAY,
				  .fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) };
	if (r->src.fd < 0 || connect(r->src.fd, (const struct sockaddr *)&r->to, r->to_len) != 0) {
		if (r->src.fd >= 0)
			close(r->src.fd);
		free(r);
		return NULL;
	}
	rn_list_push_back(&relays, &r->link);
	ks_watch(&r->src, EPOLLOUT);
	return r;
}

/* A copy of the letter; NULL: no memory or descriptor. */
static struct kept *copy_of(const struct ks_letter *l)
{
	size_t len = 0;

	for (uint32_t i = 0; i < l->parts; i++)
		len += l->part[i].iov_len;
	struct kept *k = malloc(sizeof(*k) + len);
	if (k == NULL)
		return NULL;
	k->fd = l->fd < 0 ? -1 : fcntl(l->fd, F_DUPFD_CLOEXEC, 0);
	if (l->fd >= 0 && k->fd < 0) {
		free(k);
		return NULL;
	}
	k->len = (uint32_t)len;
	for (uint32_t i = 0, at = 0; i < l->parts; at += (uint32_t)l->part[i++].iov_len)
		memcpy(k->b + at, l->part[i].iov_base, l->part[i].iov_len);
	return k;
}

/* Whether one more letter may be kept. */
static bool may_keep(const struct relay *r, const struct ks_letter *l)
{
	return r->bytes < KEPT_EACH && bytes_kept < KEPT_ALL &&
	       (l->fd < 0 || (r->fds < FDS_EACH && fds_kept < FDS_ALL));
}

enum ks_passed ks_relay(int by, const struct ks_letter *l)
{
	struct relay *r = relay_to(l);

	if (r == NULL) {
		const enum ks_passed v = ks_letter_send(by, l);
		if (v != KS_PASS_FULL || (r = relay_begin(l)) == NULL)
			return v;
	}
	struct kept *k = may_keep(r, l) ? copy_of(l) : NULL;
	if (k == NULL)
		return KS_PASS_FULL;
	rn_slist_push_back(&r->letters, &k->link);
	r->bytes += k->len;
	bytes_kept += k->len;
	r->fds += k->fd >= 0;
	fds_kept += k->fd >= 0;
	return KS_PASS_KEPT;
}

/* Counts a letter whose process has ended. */
static void nobody_takes(const struct kept *k)
{
	if (k->fd < 0)
		ks.rc.qp.stats.ud_no_qp++;
	else
		rnicd.port[0]->stats[0].rx_no_flow++;
}

void ks_relay_event(struct ks_src *s)
{
	struct relay *r = rn_container_of(s, struct relay, src);
	enum ks_passed v = KS_PASSED;

	while (!rn_slist_empty(&r->letters) && v != KS_PASS_FULL) {
		struct kept *k = rn_slist_first(&r->letters, struct kept, link);
		const struct ks_letter l = { .part = { { k->b, k->len } }, .parts = 1, .fd = k->fd };
		v = ks_letter_send(s->fd, &l);
		if (v == KS_PASS_NOBODY)
			nobody_takes(k);
		if (v != KS_PASS_FULL)
			drop_first(r);
	}
	if (rn_slist_empty(&r->letters))
		relay_end(r);
}

void ks_relay_close(void)
{
	rn_list_each(struct relay, r, &relays, link) {
		close(r->src.fd);
		rn_slist_each(const struct kept, k, &r->letters, link)
			if (k->fd >= 0)
				close(k->fd);
	}
}
