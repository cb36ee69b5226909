/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tells rnicd where the FPDUs of a stream begin, so that rnicd computes and checks their CRCs (ipc_stream.h). For the
 * single thread that uses the stream.
 */
#include "rnic/sock/sock.h"

static void say_fpdus(struct ipc_stream_fpdus *f, uint32_t at, uint32_t base, uint32_t step)
{
	__atomic_store_n(&f->at, at, __ATOMIC_RELAXED);
	__atomic_store_n(&f->base, base, __ATOMIC_RELAXED);
	__atomic_store_n(&f->step, step, __ATOMIC_RELAXED);
	/* release: rnicd reads `how` first, then the other words */
	__atomic_store_n(&f->how, IPC_STREAM_FPDUS, __ATOMIC_RELEASE);
}

void sock_fpdus_out(const struct sock *s, uint32_t ahead, uint32_t step)
{
	uint32_t at = s->mem->tx_tail + ahead;

	say_fpdus(&s->mem->tx_fpdus, at, at, step);
}

bool sock_fpdus_in(const struct sock *s, uint32_t offset, uint32_t step)
{
	if ((sock_state(s) & IPC_STREAM_SUMS) != 0)
		return true;
	say_fpdus(&s->mem->rx_fpdus, s->mem->rx_head, s->mem->rx_head - offset, step);
	return false;
}

uint32_t sock_summed(const struct sock *s)
{
	/* acquire: pairs with rnicd's releases. A new rx_summed may be seen before its rx_tail: then the result is 0 */
	if ((sock_state(s) & IPC_STREAM_SUMS) == 0)
		return 0;
	uint32_t n = __atomic_load_n(&s->mem->rx_summed, __ATOMIC_ACQUIRE) - s->mem->rx_head;
	return n <= sock_unread(s) ? n : 0;
}
