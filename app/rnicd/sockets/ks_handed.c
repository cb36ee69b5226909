/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connected sockets that the program hands over (handed.h). Bytes that the program has written before are sent before
 * MPA's first frame. Bytes that the program has not read are the first bytes that MPA gets.
 */
#include "border/handed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

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
static void handed_drop(struct handed *h)
{
	ks.net->close(&h->src);
	free(h);
}

const struct handed_taker ks_taker = { .take = handed_take, .drop = handed_drop };
