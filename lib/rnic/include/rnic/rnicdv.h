/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs that standard verbs have no type for: datagrams beyond one packet. All else about them is standard:
 * ibv_modify_qp(), ibv_post_send(), ibv_wr_*, ibv_poll_cq(), address handles. Safe from any thread.
 *
 * Functions that return an int return 0 or an errno. EOPNOTSUPP: the device is another vendor's.
 */
#ifndef RNIC_RNICDV_H
#define RNIC_RNICDV_H

#include <stdint.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

enum rnicdv_qp_type {
	/*
	 * Unreliable datagrams with Sends of any size up to max_ud_msg. A message longer than one packet goes as
	 * segments, each with its own header and CRC (doc/datagram-iwarp.md), which may come in any order. The receive
	 * is one of the whole message, and 40 bytes of GRH as ever. It completes when the last missing segment has
	 * come, so receives may complete in another order than the one of posting. A message of which a segment is
	 * lost is dropped after rnicd's `record-timeout`, and counted as ud_incomplete; its receive is used again.
	 *
	 * Everything else is as with IBV_QPT_UD, which is qp_type: states, Q_Key, groups. The two kinds exchange
	 * messages of one packet with each other.
	 */
	RNICDV_QPT_UD = 1
};

struct rnicdv_qp_attr {
	uint32_t comp_mask; /* 0 */
	uint32_t type;      /* enum rnicdv_qp_type */
};

/*
 * As ibv_create_qp_ex() with attr->qp_type IBV_QPT_UD. NULL and errno: EOPNOTSUPP: another type, unknown bits in a
 * comp_mask, or the device is another vendor's; EINVAL; ENOMEM. The queue pair ends with ibv_destroy_qp(), which lets a
 * message that is half sent end there.
 */
struct ibv_qp *rnicdv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				const struct rnicdv_qp_attr *dv);

struct rnicdv_device_attr {
	uint32_t comp_mask;  /* 0 */
	uint32_t max_ud_msg; /* bytes of a message of RNICDV_QPT_UD at most; 0: the device has no datagrams */
};

int rnicdv_query_device(struct ibv_context *context, struct rnicdv_device_attr *attr);

#ifdef __cplusplus
}
#endif

#endif
