/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/dev.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "qp/qp_xrc.h"
#include "rc/rc.h"
#include "border/policy.h"

static struct {
	struct qp_dev dev;
	struct qp_mr *mr;
	struct qp_srq **xsrq;
} devs[RNICD_MAX_PORTS];

bool dev_start(void)
{
	for (uint32_t i = 0; i < rnicd.n_ports; i++) {
		uint64_t seed;
		devs[i].mr = calloc(rnicd.cfg.regions + 1, sizeof(struct qp_mr));
		devs[i].xsrq = calloc(QP_XSRQ_NUMS, sizeof(*devs[i].xsrq));
		if (devs[i].mr == NULL || devs[i].xsrq == NULL ||
		    getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed)) {
			dev_stop();
			return false;
		}
		if (rnicd.cfg.seed != 0)
			seed = rnicd.cfg.seed + i;
		qp_dev_init(&devs[i].dev, devs[i].mr, rnicd.cfg.regions + 1, seed);
		devs[i].dev.xsrq = devs[i].xsrq;
	}
	return true;
}

void dev_stop(void)
{
	for (uint32_t i = 0; i < RNICD_MAX_PORTS; i++) {
		free(devs[i].mr);
		devs[i].mr = NULL;
		free(devs[i].xsrq);
		devs[i].xsrq = NULL;
	}
}

struct qp_dev *dev_get(uint32_t index) { return &devs[index].dev; }

uint64_t dev_random(void)
{
	static struct rn_rng series;
	uint64_t r;

	if (rnicd.cfg.seed == 0 && getrandom(&r, sizeof(r), 0) == (ssize_t)sizeof(r))
		return r;
	if (series.state == 0)
		rn_rng_seed(&series, rnicd.cfg.seed);
	return rn_rng_u64(&series);
}

struct qp_dev *dev_stirred(uint32_t index)
{
	qp_dev_stir(&devs[index].dev, dev_random());
	return &devs[index].dev;
}

void dev_info(uint32_t index, struct ipc_dev_info *d)
{
	const struct rnicd_port *p = rnicd.port[index];
	const struct rnicd_port_cfg *cfg = p->cfg;
	const bool groups = ud_mtu(p) != 0;

	*d = (struct ipc_dev_info){
		.up = port_link(p) == RNICD_LINK_UP,
		.prefix_len = (uint8_t)cfg->prefix_len,
		.mtu = p->mtu,
		.ud_mtu = ud_mtu(p),
		.ud_max = ud_max(p),
		.max_qp = rnicd.cfg.quota_qps,
		.max_cq = rnicd.cfg.quota_cqs,
		.max_mr = rnicd.cfg.quota_mrs,
		.max_pd = DEV_MAX_PD,
		.max_cqe = DEV_MAX_CQE,
		.max_wr = DEV_MAX_WR,
		.max_sge = QP_MAX_SGE,
		.max_inline = QP_MAX_INLINE,
		.max_rd_atomic = rn_min_u32(cfg->max_ird, cfg->max_ord),
		.max_mr_size = rn_min_u64(DEV_MAX_MR_SIZE, rnicd.cfg.quota_memory),
		.roce = rnicd_adapter(cfg),
		.efa = cfg->personality == RNICD_EFA,
		.rnr_waits = rnicd_rnr_waits(cfg),
		.xrc = cfg->qp_port != 0,
		.max_groups = groups ? rnicd.cfg.groups : 0,
		.max_group_qps = groups ? DEV_GROUP_QPS : 0,
		.rate_mbps = (uint32_t)(cfg->rate_bps / 1000000),
	};
	_Static_assert(IPC_DEV_NAME_MAX >= RNICD_NAME_MAX, "a port's name fits");
	strcpy(d->name, cfg->name);
	memcpy(d->mac, p->mac, sizeof(d->mac));
	memcpy(d->ip, cfg->ip.b, sizeof(d->ip));
}

bool dev_has_design(uint32_t design)
{
	const uint32_t all = rnicd.own ? rnicd.designs : 1u << IPC_DESIGN_OFFLOADED;

	return design == IPC_DESIGN_ANY || (design <= IPC_DESIGN_EMBEDDED && (all >> design & 1) != 0);
}

uint32_t dev_by_addr(const uint8_t ip[16])
{
	for (uint32_t i = 0; i < rnicd.n_ports; i++)
		if (memcmp(rnicd.port[i]->cfg->ip.b, ip, 16) == 0)
			return i;
	return UINT32_MAX;
}

uint32_t dev_by_scope(const struct ipc_addr *a)
{
	for (uint32_t i = 0; a->scope != 0 && dev_is_local(a->ip) && i < rnicd.n_ports; i++)
		if (rnicd.port[i]->if_index == a->scope && dev_is_local(rnicd.port[i]->cfg->ip.b))
			return i;
	return UINT32_MAX;
}

static bool on_subnet(const struct rnicd_port_cfg *p, const uint8_t dst[16])
{
	struct pkt_addr a;

	memcpy(a.b, dst, 16);
	return pkt_addr_same_net(&p->ip, &a, p->prefix_len);
}

static bool by_gateway(const struct rnicd_port_cfg *p, const uint8_t dst[16])
{
	struct pkt_addr a;

	memcpy(a.b, dst, 16);
	return p->gateway_set && pkt_addr_is_ip4(&p->ip) == pkt_addr_is_ip4(&a);
}

bool dev_reaches(uint32_t index, const uint8_t dst[16])
{
	struct pkt_addr a;

	memcpy(a.b, dst, 16);
	if (pkt_addr_is_any_group(&a))
		return pkt_addr_is_ip4(&a) == pkt_addr_is_ip4(&rnicd.port[index]->cfg->ip);
	return on_subnet(rnicd.port[index]->cfg, dst) || by_gateway(rnicd.port[index]->cfg, dst);
}

/*
 * The port that has the address, as with a kernel; UINT32_MAX: none. If the port is one end of a wired pair, the result
 * is the other end, unless own-address = port: the two ends stand for two machines, and a program that names no source
 * address means to connect from one to the other.
 */
static uint32_t own_or_wired(const uint8_t dst[16])
{
	uint32_t own = dev_by_addr(dst);
	const struct rnicd_port *peer = own != UINT32_MAX ? rnicd.port[own]->peer : NULL;

	return peer != NULL && !rnicd.cfg.own_by_port && on_subnet(peer->cfg, dst) ? peer->index : own;
}

uint32_t dev_by_route(const uint8_t dst[16])
{
	uint32_t own = own_or_wired(dst);

	if (own != UINT32_MAX)
		return own;
	for (uint32_t i = 0; i < rnicd.n_ports; i++)
		if (on_subnet(rnicd.port[i]->cfg, dst))
			return i;
	for (uint32_t i = 0; i < rnicd.n_ports; i++)
		if (by_gateway(rnicd.port[i]->cfg, dst))
			return i;
	for (uint32_t i = 0; i < rnicd.n_ports; i++)
		if (dev_reaches(i, dst)) /* a multicast group can be reached on every network of its IP version */
			return i;
	return UINT32_MAX;
}
