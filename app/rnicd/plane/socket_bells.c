/* SPDX-License-Identifier: BSD-3-Clause */
/* The doorbells of sockets. Streams and datagram sockets of a user share the user's doorbells. */
#include "plane/worker_int.h"

uint32_t worker_socket_bells(struct rnicd_worker *w)
{
	uint32_t rung[STREAM_RINGS_MAX], n = 0;

	for (struct stream_user *u = w->streams.users; u != NULL; u = u->next) {
		const uint32_t of_user = stream_user_take(u, rung);
		for (uint32_t i = 0; i < of_user; i++) {
			if (u->at[rung[i]] != NULL)
				stream_ring(w, u->at[rung[i]]);
			else if (u->gram[rung[i]] != NULL)
				gram_ring(&w->grams, u->gram[rung[i]]);
		}
		n += of_user;
	}
	return n;
}
