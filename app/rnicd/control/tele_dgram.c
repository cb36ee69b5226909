/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/tele_dgram.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/addr_text.h"
#include "control/tele_ask.h"
#include "control/tele_page.h"

#define FLOW_NAME (RNICD_NAME_MAX + 1 + INET6_ADDRSTRLEN + sizeof("/4294967295-4294967295"))

static const char *state_name(enum udpr_state s)
{
	switch (s) {
	case UDPR_CLOSED: return "closed";
	case UDPR_ASKING: return "asking";
	case UDPR_OPENING: return "opening";
	case UDPR_OPEN: return "open";
	case UDPR_LOST: return "lost";
	}
	return "?";
}

/* The name of a flow: "rnic0/192.0.2.1", and "rnic0/192.0.2.1/1-2" from worker 1 to the other device's worker 2. */
static void flow_name(uint32_t port, const struct look_flow *f, char name[FLOW_NAME])
{
	char addr[INET6_ADDRSTRLEN];

	addr_text(f->peer.b, addr, sizeof(addr));
	if (f->worker == 0 && f->peer_worker == 0)
		snprintf(name, FLOW_NAME, "%s/%s", rnicd.port[port]->cfg->name, addr);
	else
		snprintf(name, FLOW_NAME, "%s/%s/%u-%u", rnicd.port[port]->cfg->name, addr, f->worker, f->peer_worker);
}

static void tell_flow(struct rte_tel_data *d, const char *name, const struct look_flow *f)
{
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_string(d, "name", name);
	rte_tel_data_add_dict_string(d, "state", state_name(f->state));
	rte_tel_data_add_dict_string(d, "from", f->from ? "open" : "closed");
#define T(name) rte_tel_data_add_dict_u64(d, #name, f->name)
	T(worker), T(peer_worker), T(in_flight), T(waiting), T(cwnd);
#undef T
#define T(name) rte_tel_data_add_dict_u64(d, #name "_ns", f->name)
	T(srtt), T(rttvar), T(min_rtt);
#undef T
#define T(name) rte_tel_data_add_dict_u64(d, #name, f->stats.name)
	T(packets_out), T(again), T(packets_in), T(twice), T(lost);
#undef T
}

int tele_tell_flows(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct tele_page page = tele_page_of(params);
	const bool list = tele_list_wanted(params);
	uint32_t n[RNICD_MAX_PORTS * RNICD_MAX_WORKERS];
	struct look_flow *flows = tele_flows(n);
	char name[FLOW_NAME];
	bool found = list;

	(void)cmd;
	if (flows == NULL)
		return -ENOMEM;
	if (list)
		rte_tel_data_start_array(d, RTE_TEL_STRING_VAL);
	for (uint32_t i = 0; i < rnicd.n_workers * rnicd.n_ports; i++)
		for (uint32_t k = 0; k < n[i]; k++) {
			const struct look_flow *f = &flows[i * LOOK_FLOWS + k];

			flow_name(i % rnicd.n_ports, f, name);
			if (list) {
				tele_add_line(d, &page, "%s %s cwnd %u srtt %uus again %llu", name,
					      state_name(f->state), f->cwnd, f->srtt / 1000,
					      (unsigned long long)f->stats.again);
			} else if (!found && strcmp(params, name) == 0) {
				tell_flow(d, name, f);
				found = true;
			}
		}
	free(flows);
	return found ? 0 : -ENOENT;
}

int tele_tell_records(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct tele_page page = tele_page_of(params);
	uint32_t n[RNICD_MAX_WORKERS];
	struct look_record *records = tele_records(n);
	char addr[INET6_ADDRSTRLEN];

	(void)cmd;
	if (records == NULL)
		return -ENOMEM;
	rte_tel_data_start_array(d, RTE_TEL_STRING_VAL);
	for (uint32_t i = 0; i < rnicd.n_workers; i++)
		for (uint32_t k = 0; k < n[i]; k++) {
			const struct look_record *m = &records[i * LOOK_RECORDS + k];

			addr_text(m->of.src, addr, sizeof(addr));
			tele_add_line(d, &page, "%s qpn %u %s %u of %s:%u bytes %u of %u waits %lluus",
				      rnicd.port[m->port]->cfg->name, m->qpn, m->record ? "record" : "send", m->of.id,
				      addr, m->of.src_qpn, m->valid, m->total, (unsigned long long)(m->waited / 1000));
		}
	free(records);
	return 0;
}
