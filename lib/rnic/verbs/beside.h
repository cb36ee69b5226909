/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Real RDMA devices beside ours. When librnic is loaded ahead of the stock libibverbs (rnicrun), ibv_get_device_list()
 * also lists the stock library's devices, after ours. Every public function begins with the line
 *
 *	RNIC_BESIDE(ibv_alloc_pd, c, NULL, c);
 *
 * which hands an object that is not ours to the stock library's function of that name. Functions that a program calls
 * through the context (ibv_post_send, ibv_poll_cq, ibv_wr_*) do not pass through this library for such a device.
 * Connection manager ids are always ours.
 */
#ifndef RNIC_BESIDE_H
#define RNIC_BESIDE_H

#include "rnic/verbs/verbs.h"

/* Tells our contexts from others: each of ours polls with our function, and no other context does. */
static inline bool rnic_ours(const struct ibv_context *c) { return rn_likely(c->ops.poll_cq == rnic_poll_cq); }

/* Marks our ibv_devices: a member of the structure that the library itself uses. */
void rnic_dev_mark(struct ibv_context *c);
static inline bool rnic_our_dev(const struct ibv_device *d) { return d->_ops._dummy2 == rnic_dev_mark; }

/* fail: the result if the stock library has no such function. */
#define RNIC_PASS(fn, ours, fail, ...) \
	do { \
		if (!(ours)) { \
			__typeof__(&fn) next_ = (__typeof__(&fn))rnic_stock(#fn); \
			return next_ != NULL ? next_(__VA_ARGS__) : (fail); \
		} \
	} while (0)

#define RNIC_BESIDE(fn, c, fail, ...) RNIC_PASS(fn, rnic_ours(c), fail, __VA_ARGS__)

/* The same for a function that returns nothing. */
#define RNIC_BESIDE_VOID(fn, c, ...) \
	do { \
		if (!rnic_ours(c)) { \
			__typeof__(&fn) next_ = (__typeof__(&fn))rnic_stock(#fn); \
			if (next_ != NULL) \
				next_(__VA_ARGS__); \
			return; \
		} \
	} while (0)

#endif
