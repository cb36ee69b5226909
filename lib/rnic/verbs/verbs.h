/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this room offers to other rooms beside the public functions: the session, devices and contexts, queue pairs by
 * number. The structures of objects are in objects.h, which is private to this room.
 */
#ifndef RNIC_VERBS_H
#define RNIC_VERBS_H

#include "rnic/common.h"
#include "rnic/inject.h"
#include "rnic/sanitize.h"

/* The process's session, made at the first call. NULL and errno (ENODEV: no daemon; EACCES, EPROTO). */
struct rnic_session *rnic_session_get(void);

/* ---- devices and contexts ---- */

struct rnic_dev {
	struct ibv_device ibv; /* first: applications read its fields */
	uint32_t index;
	struct ipc_dev_info info;
};

struct rnic_ahns;

struct rnic_ctx {
	struct rnic_session *s;
	uint32_t index;
	struct ipc_dev_info info;
	struct rnic_evq async;
	bool port_down; /* atomic: rnicrun --inject has taken the port down */
	struct rnic_dev *dev;
	struct rnic_ahns *ahns;    /* ahn.c; NULL: address handles have no numbers */
	struct verbs_context vctx; /* its last member is the ibv_context */
};

static inline struct rnic_ctx *rnic_ctx(struct ibv_context *c)
{
	return rn_container_of(c, struct rnic_ctx, vctx.context);
}

/* All *n devices of the session. On failure NULL and errno. The caller frees the array, not the devices, which stay. */
struct rnic_dev **rnic_devices(struct rnic_session *s, uint32_t *n);
/* token: an imported context's cmd_fd, which the new context owns; -1: not imported. */
struct ibv_context *rnic_open(struct rnic_session *s, struct rnic_dev *dev, int token);

/* ---- objects ---- */

/* Copies the attributes to the longer structure. */
static inline struct ibv_qp_init_attr_ex rnic_qp_attr_ex(struct ibv_pd *of, const struct ibv_qp_init_attr *init)
{
	return (struct ibv_qp_init_attr_ex){ .qp_context = init->qp_context,
					     .send_cq = init->send_cq,
					     .recv_cq = init->recv_cq,
					     .srq = init->srq,
					     .cap = init->cap,
					     .qp_type = init->qp_type,
					     .sq_sig_all = init->sq_sig_all,
					     .comp_mask = IBV_QP_INIT_ATTR_PD,
					     .pd = of };
}

struct ibv_qp *rnic_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *a);
struct ibv_srq *rnic_create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *a);
/* The process's queue pair with this number. NULL: none. */
struct ibv_qp *rnic_qp_find(uint32_t qpn);
/* Notes which side of its connection the queue pair (NULL: none) is: rules of rnicrun --inject may name a side. */
void rnic_qp_side(struct ibv_qp *qp, enum inject_side side);
/*
 * Sets the state that the queue pair's struct shows. ibqp may point to freed memory: nothing happens unless a queue
 * pair is there, with this number. qpn 0: any number.
 */
void rnic_qp_state(const struct ibv_qp *ibqp, uint32_t qpn, enum ibv_qp_state state);
/* Notes the local ACK timeout that a connection manager has set for a queue pair: ibv_query_qp() returns it. */
void rnic_qp_timeout(const struct rnic_session *s, uint32_t handle, uint8_t timeout);

/* The program has disconnected the queue pair (NULL: none): its work requests no longer use the program's memory. */
void rnic_watch_ended(struct ibv_qp *qp);

/* Every context of ours polls with this function, and no other does (beside.h). */
int rnic_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);

/* Whether the address is one of IPv4, mapped into IPv6 as in a GID. */
static inline bool rnic_ip_is_4(const uint8_t ip[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(ip, mapped, sizeof(mapped)) == 0;
}

/* Whether the GID is the address of a multicast group. */
static inline bool rnic_gid_is_group(const union ibv_gid *g)
{
	return g->raw[0] == 0xff || (rnic_ip_is_4(g->raw) && g->raw[12] >> 4 == 14);
}

#endif
