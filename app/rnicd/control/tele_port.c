/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/tele_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include <rte_telemetry.h>

#include "border/rnicd.h"
#include "control/addr_text.h"
#include "control/conf_key.h"
#include "control/tele_page.h"

#define U64(d, name, v)  rte_tel_data_add_dict_u64(d, name, (uint64_t)(v))
#define TEXT(d, name, v) rte_tel_data_add_dict_string(d, name, v)

static void sum_port(const struct rnicd_port *p, struct rnicd_port_stats *sum)
{
	uint64_t *to = (uint64_t *)(void *)sum;

	memset(sum, 0, sizeof(*sum));
	for (uint32_t w = 0; w < rnicd.n_workers; w++) {
		const uint64_t *from = (const uint64_t *)(const void *)&p->stats[w];
		for (size_t i = 0; i < sizeof(*sum) / sizeof(uint64_t); i++)
			to[i] += from[i];
	}
}

void tele_port_sum(const struct rnicd_port *p, struct rnicd_port_stats *sum)
{
	struct rnicd_port_stats one;

	sum_port(p, sum);
	for (uint32_t k = 0; k < p->n_paths; k++) {
		sum_port(p->path[k], &one);
		for (size_t i = 0; i < sizeof(one) / sizeof(uint64_t); i++)
			((uint64_t *)(void *)sum)[i] += ((const uint64_t *)(const void *)&one)[i];
	}
}

static void tell_stats(struct rte_tel_data *d, const struct rnicd_port_stats *s)
{
	uint64_t bad = 0;

	for (unsigned v = 0; v < PKT_VERDICTS; v++)
		bad += s->rx_bad[v];
	U64(d, "rx_packets", s->rx_packets);
	U64(d, "rx_bytes", s->rx_bytes);
	U64(d, "tx_packets", s->tx_packets);
	U64(d, "tx_bytes", s->tx_bytes);
	U64(d, "tx_drops", s->tx_drops);
	U64(d, "tx_data", s->tx_data);
	U64(d, "tx_again", s->tx_again);
	U64(d, "tx_copied", s->tx_copied);
	U64(d, "rx_not_ours", s->rx_not_ours);
	U64(d, "rx_bad", bad);
	U64(d, "rx_fragments", s->rx_bad[PKT_FRAGMENT]);
	U64(d, "frag_rx", s->frag.taken);
	U64(d, "frag_whole", s->frag.whole);
	U64(d, "frag_again", s->frag.again);
	U64(d, "frag_bad", s->frag.bad);
	U64(d, "frag_late", s->frag.late);
	U64(d, "frag_evicted", s->frag.evicted);
	U64(d, "frag_tx", s->frag_tx);
	U64(d, "rx_bad_csum", s->rx_bad_csum);
	U64(d, "rx_no_flow", s->rx_no_flow);
	U64(d, "rx_unanswered", s->rx_unanswered);
	U64(d, "syn_cookies", s->syn_cookies);
	U64(d, "syn_evicted", s->syn_evicted);
	U64(d, "no_request", s->no_request);
	U64(d, "time_wait_overflow", s->time_wait_overflow);
	U64(d, "rx_other", s->rx_other);
	U64(d, "rx_moved", s->rx_moved);
	U64(d, "rx_moved_drops", s->rx_moved_drops);
	U64(d, "rx_no_room", s->rx_no_room);
	U64(d, "no_buffer", s->no_buffer);
	U64(d, "arp_rx", s->arp_rx);
	U64(d, "arp_tx", s->arp_tx);
	U64(d, "arp_failed", s->arp_failed);
	U64(d, "icmp_echo", s->icmp_echo);
	U64(d, "sums_rx", s->sums_rx);
	U64(d, "sums_tx", s->sums_tx);
	U64(d, "gram_rx", s->gram_rx);
	U64(d, "gram_tx", s->gram_tx);
	U64(d, "gram_full", s->gram_full);
	U64(d, "gram_refused", s->gram_refused);
	U64(d, "gram_iwarp_rx", s->gram_iwarp_rx);
	U64(d, "gram_iwarp_tx", s->gram_iwarp_tx);
	U64(d, "gram_slots_rx", s->gram_slots_rx);
	U64(d, "gram_slots_tx", s->gram_slots_tx);
	U64(d, "gram_asked", s->gram_asked);
	U64(d, "gram_answered", s->gram_answered);
	U64(d, "igmp_rx", s->igmp_rx);
	U64(d, "igmp_tx", s->igmp_tx);
	U64(d, "igmp_bad", s->igmp_bad);
	U64(d, "impair_lost", s->impair_lost);
	U64(d, "impair_dup", s->impair_dup);
	U64(d, "impair_corrupt", s->impair_corrupt);
	U64(d, "impair_reorder", s->impair_reorder);
	U64(d, "impair_overflow", s->impair_overflow);
	U64(d, "impair_split", s->impair_split);
	U64(d, "impair_joined", s->impair_joined);
	U64(d, "capture_drops", s->capture_drops);
	U64(d, "path_left", s->path_left);
}

/* Why long segments are not sent by reference to programs' memory (plane/txseg.c). */
static const char *copies_because(const struct rnicd_port *p)
{
	if (!p->caps.zero_copy)
		return "the driver of the port does not support references to the memory of programs";
	if (!p->caps.wire_mem || p->crc_always)
		return "a CRC or a checksum is computed in the pass that copies";
	return "the program shares its memory with others";
}

int tele_ports(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct tele_page page = tele_page_of(params);
	struct rnicd_port_stats s;
	char addr[INET6_ADDRSTRLEN];

	(void)cmd;
	if (tele_list_wanted(params))
		rte_tel_data_start_array(d, RTE_TEL_STRING_VAL);
	for (uint32_t i = 0; i < rnicd_lines(); i++) {
		const struct rnicd_port *p = rnicd.port[i];
		addr_text(p->cfg->ip.b, addr, sizeof(addr));
		if (tele_list_wanted(params)) {
			tele_add_line(d, &page, "%s %s mtu %u", p->cfg->name, addr, p->mtu);
		} else if (strcmp(params, p->cfg->name) == 0) {
			rte_tel_data_start_dict(d);
			TEXT(d, "name", p->cfg->name);
			TEXT(d, "address", addr);
			U64(d, "mtu", p->mtu);
			U64(d, "rate_bps", p->cfg->rate_bps);
			TEXT(d, "link", port_link(p) == RNICD_LINK_UP ? "up" : "down");
			TEXT(d, "capture", port_capture(p) != NULL ? "on" : "off");
			TEXT(d, "crc", p->crc_always ? "always" : p->cfg->crc ? "on" : "off");
			TEXT(d, "out_of_order", conf_ahead_words[p->cfg->ahead]);
			TEXT(d, "copies_because", copies_because(p));
			U64(d, "queues", p->caps.queues);
			U64(d, "paths", p->n_paths);
			tele_port_sum(p, &s);
			tell_stats(d, &s);
			return 0;
		}
	}
	return tele_list_wanted(params) ? 0 : -ENOENT;
}
