/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets that the program hands over (handed.h). Of a connected one, bytes that the program has written before are
 * sent before MPA's first frame, and bytes that the program has not read are the first bytes that MPA gets.
 */
#include "border/handed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sockets/ks_gram.h"

/* Control thread. */
static int handed_take(int fd, struct handed **out, struct conn_addr *a, char *err, uint32_t err_len)
{
	struct handed *h = calloc(1, sizeof(*h));

	if (h == NULL) {
		snprintf(err, err_len, "no memory");
		return ENOMEM;
	}
	h->src = (struct ks_src){ .kind = KS_CONN, .fd = -1 };
	int rc = ks.net->take(fd, &h->src, err, err_len);
	if (rc == 0 && !ks.net->ends(&h->src, a)) {
		rc = errno != 0 ? errno : ENOTCONN;
		snprintf(err, err_len, "descriptor %d is no connected TCP socket: switch a socket when it is connected",
			 fd);
	}
	if (rc != 0) {
		ks.net->close(&h->src);
		free(h);
		return rc;
	}
	*out = h;
	return 0;
}

/* Control thread. */
static int handed_keep(int fd, struct handed **out, struct ipc_addr *at, bool *listens, char *err, uint32_t err_len)
{
	struct handed *h = calloc(1, sizeof(*h));
	union ks_sockaddr local = { .sa = { .sa_family = AF_UNSPEC } };
	socklen_t len = sizeof(local), size = sizeof(int);
	int accepts = 0;

	if (h == NULL) {
		snprintf(err, err_len, "no memory");
		return ENOMEM;
	}
	h->src = (struct ks_src){ .kind = KS_CONN, .fd = -1 };
	int rc = ks.net->take(fd, &h->src, err, err_len);
	if (rc == 0 && (getsockname(h->src.fd, &local.sa, &len) != 0 ||
			getsockopt(h->src.fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) != 0)) {
		rc = errno;
		snprintf(err, err_len, "the socket's address cannot be read");
	}
	if (rc != 0) {
		ks.net->close(&h->src);
		free(h);
		return rc;
	}
	const struct pkt_addr ip = ks_sockaddr_ip(&local, &at->port);
	memcpy(at->ip, ip.b, sizeof(at->ip));
	ks_scope(h->src.fd, false, at);
	*listens = accepts != 0;
	*out = h;
	return 0;
}

/* Reads what the kernel has of a UDP socket. 0 or an errno. */
static int udp_about(int fd, struct handed_gram *about, bool *v6)
{
	union ks_sockaddr local = { .sa = { .sa_family = AF_UNSPEC } }, peer = local;
	socklen_t len = sizeof(local), plen = sizeof(peer), size = sizeof(int);
	static const struct pkt_addr any;
	int type = 0, protocol = 0, balance = 0, v6only = 0;

	*about = (struct handed_gram){ .balance = false };
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) != 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &balance, &size) != 0 || getsockname(fd, &local.sa, &len) != 0)
		return errno;
	if (type != SOCK_DGRAM || protocol != IPPROTO_UDP)
		return ENOTSOCK;
	struct pkt_addr ip = ks_sockaddr_ip(&local, &about->local.port);
	*v6 = local.sa.sa_family == AF_INET6;
	if (*v6)
		(void)getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, &size);
	if (!pkt_addr_is_ip4(&ip) && (!pkt_addr_eq(&ip, &any) || v6only != 0))
		return EAFNOSUPPORT;
	if (about->local.port == 0)
		return EINVAL;
	if (!pkt_addr_is_ip4(&ip) || pkt_addr_to_ip4(&ip) != 0)
		memcpy(about->local.ip, ip.b, sizeof(about->local.ip));
	about->balance = balance != 0;
	if (getpeername(fd, &peer.sa, &plen) != 0)
		return 0;
	ip = ks_sockaddr_ip(&peer, &about->peer.port);
	memcpy(about->peer.ip, ip.b, sizeof(about->peer.ip));
	return 0;
}

/* Control thread. */
static int handed_gram(int fd, struct handed **out, struct handed_gram *about, char *err, uint32_t err_len)
{
	struct ks_below *b = calloc(1, sizeof(*b));
	int rc = b == NULL ? ENOMEM : udp_about(fd, about, &b->v6);

	if (rc == 0) {
		b->handed.src = (struct ks_src){ .kind = KS_GRAMS, .fd = fcntl(fd, F_DUPFD_CLOEXEC, 0) };
		rc = b->handed.src.fd < 0 ? errno : 0;
	}
	if (rc == 0) {
		*out = &b->handed;
		return 0;
	}
	snprintf(err, err_len, "it is no UDP socket with an IPv4 address and a port, or there is no room: %s",
		 strerror(rc));
	free(b);
	return rc;
}

void ks_handed_use(struct handed *h, struct ks_src *to)
{
	const enum ks_kind kind = to->kind;

	*to = h->src;
	to->kind = kind;
	free(h);
	ks.net->begin(to);
}

/* Control thread. */
static void handed_drop(struct handed *h)
{
	ks.net->close(&h->src);
	free(h);
}

const struct handed_taker ks_taker = {
	.take = handed_take, .keep = handed_keep, .keep_gram = handed_gram, .drop = handed_drop
};
