/* SPDX-License-Identifier: BSD-3-Clause */
/* What a device reports about itself. */
#include "rnic/verbs/beside.h"
#include "rnic/verbs/objects.h"

#include <arpa/inet.h>
#include <stddef.h>

#undef ibv_query_port

#define PORT             1
#define CORE_CLOCK_KHZ   1000000 /* kHz: the time stamps of completions count nanoseconds */
#define PKEY_DEFAULT     0xffff
#define VENDOR_PART      1
#define EFA_VENDOR       0x1d0f /* PCI vendor by which programs recognise an Elastic Fabric Adapter */
#define EFA_PART         0xefa1 /* PCI part of the first Elastic Fabric Adapter that has Reads */
#define PHYS_LINK_UP     5      /* IBTA numbers of the physical port state */
#define PHYS_DISABLED    3
#define PORT_ATTR_COMPAT offsetof(struct ibv_port_attr, port_cap_flags2)

/* Asks the daemon again: the address or the link may have changed. */
static int info_get(struct rnic_ctx *ctx, struct ipc_dev_info *info)
{
	struct ipc_msg m = { .type = IPC_QUERY_DEV, .len = IPC_MSG_LEN(query_dev), .query_dev = { .dev = ctx->index } };
	int rc = rnic_call(ctx->s, &m, IPC_MSG_LEN(dev_info), -1);

	if (rc == 0)
		*info = m.dev_info;
	return rc;
}

int rnic_query_device(struct ibv_context *c, struct ibv_device_attr *a)
{
	const struct ipc_dev_info *i = &rnic_ctx(c)->info;

	if (rnic_dead(rnic_ctx(c)->s))
		return EIO;
	memset(a, 0, sizeof(*a));
	strcpy(a->fw_ver, "0.1.0");
	a->node_guid = ibv_get_device_guid(c->device);
	a->sys_image_guid = a->node_guid;
	a->max_mr_size = i->max_mr_size;
	a->page_size_cap = UINT64_C(0xfffffffffffff000);
	a->vendor_id = (uint32_t)i->mac[0] << 16 | (uint32_t)i->mac[1] << 8 | i->mac[2];
	a->vendor_part_id = VENDOR_PART;
	a->max_qp = (int)i->max_qp;
	a->max_qp_wr = (int)i->max_wr;
	a->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
			      IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	if (i->xrc)
		a->device_cap_flags |= IBV_DEVICE_XRC;
	a->max_sge = (int)i->max_sge;
	a->max_sge_rd = (int)i->max_sge;
	a->max_cq = (int)i->max_cq;
	a->max_cqe = (int)i->max_cqe;
	a->max_mr = (int)i->max_mr;
	a->max_mw = (int)i->max_mr;
	a->max_pd = (int)i->max_pd;
	a->max_srq = (int)i->max_qp;
	a->max_srq_wr = (int)i->max_wr;
	a->max_srq_sge = (int)i->max_sge;
	a->max_qp_rd_atom = (int)i->max_rd_atomic;
	a->max_res_rd_atom = (int)(i->max_rd_atomic * i->max_qp);
	a->max_qp_init_rd_atom = (int)i->max_rd_atomic;
	a->atomic_cap = IBV_ATOMIC_GLOB; /* the CPU's own instructions */
	a->max_mcast_grp = (int)i->max_groups;
	a->max_mcast_qp_attach = (int)i->max_group_qps;
	a->max_total_mcast_qp_attach = (int)(i->max_groups * i->max_group_qps);
	a->max_ah = i->ud_mtu != 0 ? INT32_MAX : 0; /* no limit: address handles lie in the client's own memory */
	a->max_pkeys = 1;
	a->phys_port_cnt = 1;
	if (i->efa) {
		a->vendor_id = EFA_VENDOR;
		a->vendor_part_id = EFA_PART;
		a->max_ah = (int)RNIC_AHN_MAX;
	}
	return 0;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *a)
{
	RNIC_BESIDE(ibv_query_device, c, EINVAL, c, a);
	return rnic_query_device(c, a);
}

int rnic_query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in,
			 struct ibv_device_attr_ex *a, size_t size)
{
	struct ibv_device_attr_ex full = { 0 };
	int rc;

	if (in != NULL && in->comp_mask != 0)
		return EINVAL;
	if (size < sizeof(full.orig_attr))
		return EINVAL;
	rc = rnic_query_device(c, &full.orig_attr);
	if (rc != 0)
		return rc;
	full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
	full.phys_port_cnt_ex = 1;
	full.completion_timestamp_mask = UINT64_MAX;
	full.hca_core_clock = CORE_CLOCK_KHZ;
	/* The program's structure may be older or newer than ours. */
	memset(a, 0, size);
	memcpy(a, &full, size < sizeof(full) ? size : sizeof(full));
	return 0;
}

/* The device's clock: tv_nsec has all nanoseconds, as with other devices. */
int rnic_query_rt_values(struct ibv_context *c, struct ibv_values_ex *v)
{
	uint32_t asked = v->comp_mask;

	(void)c;
	v->comp_mask = asked & IBV_VALUES_MASK_RAW_CLOCK;
	if (v->comp_mask != 0)
		v->raw_clock = (struct timespec){ .tv_nsec = (long)rnic_clock(CLOCK_MONOTONIC) };
	return v->comp_mask == asked ? 0 : EINVAL;
}

/* The largest InfiniBand MTU that is at most `bytes`: the port's MTU, or the longest datagram message of a packet. */
static enum ibv_mtu mtu_of(uint32_t bytes)
{
	if (bytes >= 4096)
		return IBV_MTU_4096;
	if (bytes >= 2048)
		return IBV_MTU_2048;
	if (bytes >= 1024)
		return IBV_MTU_1024;
	return bytes >= 512 ? IBV_MTU_512 : IBV_MTU_256;
}

/*
 * Sets an InfiniBand link's width and speed. Of 2.5, 10, 25, 40, 100 and 200 Gb/s it is the lowest rate that is not
 * below the port's; 200 Gb/s for a faster port, 100 Gb/s for a port without limit.
 */
static void rate_set(struct ibv_port_attr *a, uint32_t mbps)
{
	enum { WIDTH_1X = 1, WIDTH_4X = 2, SPEED_SDR = 1, SPEED_QDR = 4, SPEED_EDR = 32, SPEED_HDR = 64 };

	a->active_width = mbps != 0 && mbps <= 25000 ? WIDTH_1X : WIDTH_4X;
	if (mbps == 0)
		a->active_speed = SPEED_EDR;
	else if (mbps <= 2500)
		a->active_speed = SPEED_SDR;
	else if (mbps <= 10000 || (mbps > 25000 && mbps <= 40000))
		a->active_speed = SPEED_QDR;
	else
		a->active_speed = mbps <= 100000 ? SPEED_EDR : SPEED_HDR;
}

int rnic_query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	struct ibv_port_attr a = { 0 };
	struct ipc_dev_info info;
	int rc;

	if (port != PORT)
		return EINVAL;
	rc = info_get(rnic_ctx(c), &info);
	if (rc != 0)
		return rc;
	const bool up = info.up && !__atomic_load_n(&rnic_ctx(c)->port_down, __ATOMIC_RELAXED);
	a.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	a.phys_state = up ? PHYS_LINK_UP : PHYS_DISABLED;
	a.max_mtu = IBV_MTU_4096;
	a.active_mtu = mtu_of(info.ud_mtu != 0 ? info.ud_mtu : info.mtu);
	a.gid_tbl_len = RNIC_GIDS;
	a.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
	a.max_msg_sz = QP_MSG_MAX;
	a.pkey_tbl_len = 1;
	a.link_layer = IBV_LINK_LAYER_ETHERNET;
	if (info.efa) {
		a.active_mtu = IBV_MTU_4096;
		a.max_msg_sz = RNIC_EFA_MSG;
		a.link_layer = IBV_LINK_LAYER_UNSPECIFIED;
	}
	rate_set(&a, info.rate_mbps);
	memset(attr, 0, size);
	memcpy(attr, &a, size < sizeof(a) ? size : sizeof(a));
	return 0;
}

/* The structure of this entry point ends before port_cap_flags2. */
int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	RNIC_BESIDE(ibv_query_port, c, EINVAL, c, port, attr);
	return rnic_query_port(c, port, (struct ibv_port_attr *)attr, PORT_ATTR_COMPAT);
}

/*
 * The GID table has the port's address twice: as RoCE v2, then as RoCE v1. RoCE v2 is first because programs that do
 * not choose a GID use the first one.
 */
static const struct {
	uint32_t gid_type;     /* IBV_GID_TYPE_* */
	unsigned int in_sysfs; /* for ibv_query_gid_type(), with sysfs' numbers */
} gid_table[RNIC_GIDS] = { { IBV_GID_TYPE_ROCE_V2, 1 }, { IBV_GID_TYPE_ROCE_V1, 0 } };

static int gid_get(struct ibv_context *c, uint32_t port, uint32_t index, union ibv_gid *gid)
{
	struct ipc_dev_info info;
	int rc;

	if (port != PORT || index >= RNIC_GIDS)
		return EINVAL;
	rc = info_get(rnic_ctx(c), &info);
	if (rc == 0)
		memcpy(gid->raw, info.ip, sizeof(gid->raw));
	return rc;
}

int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid)
{
	RNIC_BESIDE(ibv_query_gid, c, -1, c, port, index, gid);
	int rc = gid_get(c, port, (uint32_t)index, gid);

	if (rc == 0)
		return 0;
	errno = rc;
	return -1;
}

static int gid_entry(struct ibv_context *c, uint32_t port, uint32_t index, void *entry, size_t size)
{
	struct ibv_gid_entry e = { .gid_index = index, .port_num = port };
	int rc = gid_get(c, port, index, &e.gid);

	if (rc != 0)
		return rc;
	e.gid_type = gid_table[index].gid_type;
	memcpy(entry, &e, size < sizeof(e) ? size : sizeof(e));
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index, struct ibv_gid_entry *entry, uint32_t flags,
		      size_t entry_size)
{
	RNIC_BESIDE(_ibv_query_gid_ex, c, EINVAL, c, port, index, entry, flags, entry_size);
	if (flags != 0)
		return EOPNOTSUPP;
	memset(entry, 0, entry_size);
	return gid_entry(c, port, index, entry, entry_size);
}

ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *entries, size_t max, uint32_t flags,
			     size_t entry_size)
{
	RNIC_BESIDE(_ibv_query_gid_table, c, -EINVAL, c, entries, max, flags, entry_size);
	int rc;

	if (flags != 0)
		return -EOPNOTSUPP;
	if (entry_size < sizeof(*entries))
		return -EINVAL;
	if (max < RNIC_GIDS)
		return -EINVAL;
	for (uint32_t i = 0; i < RNIC_GIDS; i++) {
		rc = gid_entry(c, PORT, i, (uint8_t *)entries + i * entry_size, entry_size);
		if (rc != 0)
			return -rc;
	}
	return RNIC_GIDS;
}

/* A function of libibverbs' private version node that ibv_devinfo uses. */
int ibv_query_gid_type(struct ibv_context *c, uint8_t port, unsigned int index, unsigned int *type);
int ibv_query_gid_type(struct ibv_context *c, uint8_t port, unsigned int index, unsigned int *type)
{
	RNIC_BESIDE(ibv_query_gid_type, c, -1, c, port, index, type);
	if (port != PORT || index >= RNIC_GIDS) {
		errno = EINVAL;
		return -1;
	}
	*type = gid_table[index].in_sysfs;
	return 0;
}

int ibv_query_pkey(struct ibv_context *c, uint8_t port, int index, __be16 *pkey)
{
	RNIC_BESIDE(ibv_query_pkey, c, -1, c, port, index, pkey);
	if (port != PORT || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htons(PKEY_DEFAULT);
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *c, uint8_t port, __be16 pkey)
{
	RNIC_BESIDE(ibv_get_pkey_index, c, -1, c, port, pkey);
	if (port == PORT && pkey == htons(PKEY_DEFAULT))
		return 0;
	errno = EINVAL;
	return -1;
}
