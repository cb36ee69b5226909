/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles: the destinations of datagrams. Making one asks the daemon once for the route. */
#include "rnic/verbs/beside.h"
#include "rnic/verbs/objects.h"

/* A device reaches all groups of its own IP version. 0 or an errno. */
static int reach_group(struct ibv_context *c, const union ibv_gid *gid)
{
	union ibv_gid own;

	if (ibv_query_gid(c, 1, 0, &own) != 0)
		return errno;
	if (rnic_ip_is_4(own.raw) == rnic_ip_is_4(gid->raw))
		return 0;
	rnic_unsupported("ibv_create_ah", "the group's address and the device's are not both of IPv4, or both of IPv6");
	return EOPNOTSUPP;
}

/* Checks that the address is reachable: 0, or an errno. */
static int reach(struct rnic_ctx *ctx, const union ibv_gid *gid)
{
	struct ipc_msg m = { .type = IPC_REACH, .len = IPC_MSG_LEN(reach), .reach = { .dev = ctx->index } };

	memcpy(m.reach.ip, gid->raw, sizeof(m.reach.ip));
	return rnic_call_long(ctx->s, &m, IPC_MSG_HDR);
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	RNIC_BESIDE(ibv_create_ah, pd->context, NULL, pd, attr);
	struct rnic_ctx *ctx = rnic_ctx(pd->context);
	struct rnic_ah *ah = NULL;
	int rc = EINVAL; /* Ethernet has GIDs only, so the GRH must be given */

	const int injected = rnic_inject(INJECT_CREATE_AH);

	if (injected != 0)
		rc = injected;
	else if (attr->is_global && attr->port_num == 1 && attr->grh.sgid_index < RNIC_GIDS)
		rc = rnic_gid_is_group(&attr->grh.dgid) ? reach_group(pd->context, &attr->grh.dgid)
							: reach(ctx, &attr->grh.dgid);
	if (rc == 0) {
		ah = calloc(1, sizeof(*ah));
		rc = ENOMEM;
	}
	if (ah == NULL) {
		errno = rc;
		return NULL;
	}
	ah->ibv.context = pd->context;
	ah->ibv.pd = pd;
	memcpy(ah->addr, attr->grh.dgid.raw, sizeof(ah->addr));
	if (ctx->ahns != NULL && (ah->number = rnic_ahn_take(ctx->ahns, ah->addr)) == RNIC_AHN_NONE) {
		free(ah);
		errno = ENOMEM;
		return NULL;
	}
	ah->hop_limit = attr->grh.hop_limit;
	rnic_made(RNIC_OBJ_AH, ah);
	return &ah->ibv;
}

/* Fills in the address of a received datagram's sender. */
int ibv_init_ah_from_wc(struct ibv_context *c, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
			struct ibv_ah_attr *attr)
{
	RNIC_BESIDE(ibv_init_ah_from_wc, c, EINVAL, c, port, wc, grh, attr);
	if ((wc->wc_flags & IBV_WC_GRH) == 0 || grh == NULL)
		return EINVAL;
	*attr = (struct ibv_ah_attr){ .is_global = 1,
				      .port_num = port,
				      .grh = { .dgid = grh->sgid, .hop_limit = UINT8_MAX } };
	return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	RNIC_BESIDE(ibv_create_ah_from_wc, pd->context, NULL, pd, wc, grh, port);
	struct ibv_ah_attr attr;
	int rc = ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr);

	if (rc != 0) {
		errno = rc;
		return NULL;
	}
	return ibv_create_ah(pd, &attr);
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	RNIC_BESIDE(ibv_destroy_ah, ah->context, EINVAL, ah);
	rnic_gone(RNIC_OBJ_AH, ah);
	if (rnic_ctx(ah->context)->ahns != NULL)
		rnic_ahn_give(rnic_ctx(ah->context)->ahns, rnic_ah(ah)->number);
	free(rnic_ah(ah));
	return 0;
}
