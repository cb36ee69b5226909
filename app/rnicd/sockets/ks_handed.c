/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connected sockets that the program hands over (handed.h). Bytes that the program has written before are sent before
 * MPA's first frame. Bytes that the program has not read are the first bytes that MPA gets.
 */
#include "border/handed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sockets/ks.h"

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

const struct handed_taker ks_taker = { .take = handed_take, .keep = handed_keep, .drop = handed_drop };
