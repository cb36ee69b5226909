/* SPDX-License-Identifier: BSD-3-Clause */
/* The doorbells of sockets. Streams and datagram sockets of a user share the user's doorbells. */
#include "plane/worker_int.h"

/*
 * What the sockets of a user may have of a turn, however many bits are set: about as many as stream_transmit() looks
 * at. A word of the doorbell is begun while the user has doorbells left, so up to 63 more may be rung.
 */
#define SOCKS_EACH 64u
#define WORDS      (IPC_MAX_QPS / 64u) /* of a block */

/* Tells the sockets of one word whose bits are set; returns how many bits were set. */
static uint32_t ring_sockets(struct rnicd_worker *w, struct stream_user *u, uint32_t word)
{
	struct ipc_doorbell *db = &u->bell->block[word / WORDS];
	/* acquire: pairs with the program's release; its indices are in the rings */
	uint64_t bits = __atomic_exchange_n(&db->bits[word % WORDS], 0, __ATOMIC_ACQUIRE);
	uint32_t n = 0;

	for (; bits != 0; bits &= bits - 1, n++) {
		const uint32_t bit = word * 64 + (uint32_t)__builtin_ctzll(bits);
		if (u->at[bit] != NULL)
			stream_ring(w, u->at[bit]);
		else if (u->gram[bit] != NULL)
			gram_ring(w, u->gram[bit]);
	}
	return n;
}

/*
 * Tells the sockets of the words `of` of a block, as far as the user's part of the turn goes. *n counts them. False:
 * words of these are left, with the first of which the next turn begins.
 */
static bool ring_block(struct rnicd_worker *w, struct stream_user *u, uint32_t block, uint64_t of, uint32_t *n)
{
	struct ipc_doorbell *db = &u->bell->block[block];
	const uint64_t words = __atomic_exchange_n(&db->summary, 0, __ATOMIC_ACQUIRE);
	uint64_t left = words & of;

	for (; left != 0 && *n < SOCKS_EACH; left &= left - 1)
		*n += ring_sockets(w, u, block * WORDS + (uint32_t)__builtin_ctzll(left));
	if (left != 0)
		u->first = (uint16_t)(block * WORDS + (uint32_t)__builtin_ctzll(left));
	if ((left | (words & ~of)) != 0)
		__atomic_fetch_or(&db->summary, left | (words & ~of), __ATOMIC_RELAXED);
	return left == 0;
}

static uint32_t ring_user(struct rnicd_worker *w, struct stream_user *u)
{
	const uint32_t first = u->first;
	/* the block of the first word comes once more at the end, for the words before this one */
	const uint32_t blocks = u->blocks + (first % WORDS != 0);
	uint32_t n = 0;

	for (uint32_t i = 0; i < blocks; i++) {
		const uint32_t block = (first / WORDS + i) % u->blocks;
		const uint64_t of = i == 0 ? UINT64_MAX << first % WORDS : UINT64_MAX;
		if (rn_unlikely(__atomic_load_n(&u->bell->block[block].summary, __ATOMIC_RELAXED) != 0) &&
		    !ring_block(w, u, block, of, &n))
			break;
	}
	return n;
}

uint32_t worker_socket_bells(struct rnicd_worker *w)
{
	uint32_t n = 0;

	for (struct stream_user *u = w->streams.users; u != NULL; u = u->next)
		n += ring_user(w, u);
	return n;
}
