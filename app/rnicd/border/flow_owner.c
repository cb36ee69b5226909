/* SPDX-License-Identifier: BSD-3-Clause */
#include "border/flow_owner.h"

uint32_t conn_owner(const struct conn_addr *a)
{
	const struct flow_key k = flow_key_of(a);

	return flow_owner(flow_hash(rnicd.secret, &k), rnicd.cfg.n_workers);
}

uint32_t ud_owner(uint32_t port, uint32_t qpn)
{
	return flow_owner(ud_hash(rnicd.secret, port, qpn), rnicd.cfg.n_workers);
}
