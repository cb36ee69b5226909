/* SPDX-License-Identifier: BSD-3-Clause */
#include "known.h"

#include <stdint.h>
#include <stdio.h>

#include "base/rn_base.h"
#include "counter.h"

struct known {
	const char *name;
	enum counter_group group;
	const char *ours;
	const char *but; /* how rnicd's counter differs; "": not at all */
};

struct known_place {
	const char *where;
	const struct known *known;
	uint32_t n;
};

#define AT_RECEIVER "counted at the receiver, where the receive is missing; the sender waits for TCP's window"

static const struct known port_counters[] = {
	{ "port_rcv_packets", COUNTER_PORT, "rx_packets", "" },
	{ "port_xmit_packets", COUNTER_PORT, "tx_packets", "" },
	{ "port_rcv_data", COUNTER_PORT, "rx_bytes", "in bytes; the other one is in units of 4 bytes" },
	{ "port_xmit_data", COUNTER_PORT, "tx_bytes", "in bytes; the other one is in units of 4 bytes" },
	{ "port_rcv_errors", COUNTER_PORT, "rx_bad", "" },
	{ "port_xmit_discards", COUNTER_PORT, "tx_drops", "" },
};

static const struct known irdma[] = {
	{ "ip4InPkts", COUNTER_PORT, "rx_packets", "all frames" },
	{ "ip4OutPkts", COUNTER_PORT, "tx_packets", "all frames" },
	{ "ip4InOctets", COUNTER_PORT, "rx_bytes", "Ethernet headers included" },
	{ "ip4OutOctets", COUNTER_PORT, "tx_bytes", "Ethernet headers included" },
	{ "ip4InDiscards", COUNTER_PORT, "rx_bad", "" },
	{ "ip4OutNoRoutes", COUNTER_PORT, "arp_failed", "neighbours, not packets" },
	{ "tcpInSegs", COUNTER_CONN, "segs_in", "" },
	{ "tcpOutSegs", COUNTER_CONN, "segs_out", "segments with data of all connections: `tx_data` of a port" },
	{ "tcpRetransSegs", COUNTER_PORT, "tx_again", "" },
	{ "iwOutRdmaSends", COUNTER_STACK, "wqes", "requests of all kinds together" },
	{ "iwOutRdmaWrites", COUNTER_STACK, "wqes", "requests of all kinds together" },
	{ "iwOutRdmaReads", COUNTER_STACK, "wqes", "requests of all kinds together" },
	{ "iwInRdmaSends", COUNTER_STACK, "rwqes", "receives that were taken from queues" },
};

static const struct known mlx5[] = {
	{ "out_of_buffer", COUNTER_STACK, "rnr_waits", "with `rnr = end` the connection ends instead" },
	{ "out_of_sequence", COUNTER_CONN, "out_of_order", "" },
	{ "packet_seq_err", COUNTER_CONN, "retransmits", "" },
	{ "duplicate_request", COUNTER_CONN, "duplicates", "" },
	{ "local_ack_timeout_err", COUNTER_CONN, "rtos", "" },
	{ "rnr_nak_retry_err", COUNTER_STACK, "rnr_waits", AT_RECEIVER },
	{ "req_rnr_retries_exceeded", COUNTER_STACK, "rnr_timeouts", AT_RECEIVER },
	{ "req_transport_retries_exceeded", COUNTER_STACK, "tcp_timeouts", "" },
	{ "req_remote_access_errors", COUNTER_STACK, "terms_rcvd", "every Terminate of a peer" },
	{ "resp_remote_access_errors", COUNTER_STACK, "access_errors", "" },
	{ "req_cqe_flush_error", COUNTER_STACK, "flushed", "both queues together" },
	{ "resp_cqe_flush_error", COUNTER_STACK, "flushed", "both queues together" },
	{ "rx_icrc_encapsulated", COUNTER_STACK, "crc_errors", "MPA's CRC; of datagrams: `ud_crc`" },
};

static const struct known rxe[] = {
	{ "sent_pkts", COUNTER_PORT, "tx_packets", "all frames" },
	{ "rcvd_pkts", COUNTER_PORT, "rx_packets", "all frames" },
	{ "duplicate_request", COUNTER_CONN, "duplicates", "" },
	{ "out_of_seq_request", COUNTER_CONN, "out_of_order", "" },
	{ "rcvd_seq_err", COUNTER_CONN, "retransmits", "" },
	{ "send_rnr_err", COUNTER_STACK, "rnr_waits", "" },
	{ "rcvd_rnr_err", COUNTER_STACK, "rnr_waits", AT_RECEIVER },
	{ "completer_retry_err", COUNTER_CONN, "rtos", "" },
	{ "retry_exceeded_err", COUNTER_STACK, "tcp_timeouts", "" },
	{ "retry_rnr_exceeded_err", COUNTER_STACK, "rnr_timeouts", AT_RECEIVER },
	{ "rdma_sends", COUNTER_STACK, "wqes", "requests of all kinds together" },
	{ "rdma_recvs", COUNTER_STACK, "rwqes", "" },
};

static const struct known ethtool[] = {
	{ "rx_packets", COUNTER_PORT, "rx_packets", "" },
	{ "tx_packets", COUNTER_PORT, "tx_packets", "" },
	{ "rx_bytes", COUNTER_PORT, "rx_bytes", "" },
	{ "tx_bytes", COUNTER_PORT, "tx_bytes", "" },
	{ "tx_dropped", COUNTER_PORT, "tx_drops", "" },
	{ "rx_no_buffer_count", COUNTER_PORT, "no_buffer",
	  "also frames that were not sent because there was no buffer" },
	{ "rx_csum_offload_errors", COUNTER_PORT, "rx_bad_csum", "" },
};

static const struct known kernel_tcp[] = {
	{ "TcpRetransSegs", COUNTER_PORT, "tx_again", "" },
	{ "TcpInCsumErrors", COUNTER_PORT, "rx_bad_csum", "IP and UDP, too" },
	{ "TcpEstabResets", COUNTER_STACK, "resets", "" },
	{ "TcpExtSyncookiesSent", COUNTER_PORT, "syn_cookies", "" },
	{ "TcpExtTCPTimeouts", COUNTER_CONN, "rtos", "" },
	{ "TcpExtTCPLossProbes", COUNTER_CONN, "tlps", "" },
	{ "TcpExtTCPOFOQueue", COUNTER_CONN, "out_of_order", "" },
	{ "TcpExtTCPOFODrop", COUNTER_CONN, "out_of_order_dropped", "" },
	{ "TcpExtTCPChallengeACK", COUNTER_CONN, "challenges", "" },
	{ "TcpExtTCPTimeWaitOverflow", COUNTER_PORT, "time_wait_overflow", "" },
};

static const struct known_place places[] = {
	{ "`/sys/class/infiniband/*/ports/1/counters`", port_counters, RN_ARRAY_LEN(port_counters) },
	{ "`rdma statistic` and `hw_counters` of irdma", irdma, RN_ARRAY_LEN(irdma) },
	{ "`rdma statistic` and `hw_counters` of mlx5", mlx5, RN_ARRAY_LEN(mlx5) },
	{ "`rdma statistic` and `hw_counters` of rxe", rxe, RN_ARRAY_LEN(rxe) },
	{ "`ethtool -S` (names differ between drivers)", ethtool, RN_ARRAY_LEN(ethtool) },
	{ "`nstat`, the kernel's TCP", kernel_tcp, RN_ARRAY_LEN(kernel_tcp) },
};

void known_document(void)
{
	puts("\n## Names of other devices\n\n"
	     "Counters of other devices and of the kernel, and the counter above that counts the same in rnicd.\n"
	     "`rnicctl counters` shows those of the stack, `ports NAME` of a port, `conns NUMBER` of a connection.");
	for (uint32_t i = 0; i < RN_ARRAY_LEN(places); i++) {
		printf("\n%s:\n\n| name there | here | of | difference |\n|---|---|---|---|\n", places[i].where);
		for (const struct known *k = places[i].known; k < places[i].known + places[i].n; k++)
			printf("| `%s` | `%s` | %s | %s |\n", k->name, k->ours, counter_group_name(k->group), k->but);
	}
}
