/* SPDX-License-Identifier: BSD-3-Clause */
#include "counter.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "known.h"

#define GROWS(group, name, unit, meaning) \
	{ \
		COUNTER_##group, false, name, unit, meaning \
	}
#define GAUGE(group, name, unit, meaning) \
	{ \
		COUNTER_##group, true, name, unit, meaning \
	}

const struct counter counters[] = {
	/* the iWARP stack, all workers together */
	GROWS(STACK, "fpdus_in", "FPDUs", "FPDUs received, the empty ones too"),
	GROWS(STACK, "fpdus_out", "FPDUs", "FPDUs given to TCP"),
	GROWS(STACK, "wqes", "requests", "send work requests taken from clients' send queues"),
	GROWS(STACK, "rwqes", "requests", "receive work requests taken from clients' receive queues"),
	GROWS(STACK, "cqes", "completions", "completions written"),
	GROWS(STACK, "cq_events", "events", "completion events that woke, or will wake, programs that sleep on them"),
	GROWS(STACK, "bytes_placed", "bytes", "payload written into clients' memory"),
	GROWS(STACK, "bytes_streamed", "bytes",
	      "payload written by non-temporal stores, which bypass the caches: bulk transfers"),
	GROWS(STACK, "copied_tx", "bytes",
	      "bytes of connections and stream sockets that workers have copied to send, each as often as it was "
	      "copied"),
	GROWS(STACK, "copied_rx", "bytes", "the same of received bytes"),
	GROWS(STACK, "summed_tx", "bytes",
	      "bytes of connections and stream sockets that workers have read to send for a CRC32C or TCP's checksum, "
	      "each as often as it was read, also in a pass that copies"),
	GROWS(STACK, "summed_rx", "bytes", "the same of received bytes"),
	GROWS(STACK, "staged", "FPDUs", "FPDUs assembled from several TCP segments before they were used"),
	GROWS(STACK, "ooo_placed", "FPDUs",
	      "FPDUs, and segments of stream sockets, placed before an earlier segment of their stream arrived"),
	GROWS(STACK, "ooo_held", "segments",
	      "segments that arrived before an earlier one and were kept for their turn; those of stream sockets only "
	      "with out-of-order = buffer"),
	GROWS(STACK, "ooo_drops", "segments",
	      "segments dropped because an earlier one was missing (out-of-order = drop)"),
	GROWS(STACK, "flushed", "requests", "work requests flushed because their queue pair was in ERR"),
	GROWS(STACK, "locals", "requests",
	      "work requests that sent nothing: they bound a memory window, or invalidated an STag"),
	GROWS(STACK, "terms_sent", "messages", "Terminate messages sent"),
	GROWS(STACK, "terms_rcvd", "messages", "Terminate messages received"),
	GROWS(STACK, "crc_errors", "FPDUs", "FPDUs received with a wrong CRC32C; each ended its connection"),
	GROWS(STACK, "framing_errors", "FPDUs",
	      "FPDUs received with a wrong length or marker; each ended its connection"),
	GROWS(STACK, "ddp_errors", "segments", "received DDP segments that break RFC 5041; each ended its connection"),
	GROWS(STACK, "rdmap_errors", "messages",
	      "received RDMAP messages that break RFC 5040; each ended its connection"),
	GROWS(STACK, "access_errors", "segments", "received segments whose STag, bounds or rights were refused"),
	GROWS(STACK, "bad_wqes", "requests", "malformed work requests of clients"),
	GROWS(STACK, "bad_rings", "rings", "impossible queue indices written by clients"),
	GROWS(STACK, "cq_overruns", "queues", "completion queues that had no room for a completion"),
	GROWS(STACK, "no_block", "times", "a connection waited because all working memory was in use"),
	GROWS(STACK, "no_rec", "times", "a connection waited because all FPDU records for it were in use"),
	GROWS(STACK, "no_setup", "times", "a connection was not set up because all set-up memory was in use"),
	GROWS(STACK, "no_stage", "times",
	      "an FPDU in several TCP segments waited because all memory to assemble such FPDUs was in use"),
	GROWS(STACK, "no_copy", "times",
	      "an FPDU that is cut on its way waited because all memory for copies was in use"),
	GROWS(STACK, "neg_errors", "frames", "malformed or unexpected MPA Requests and Replies"),
	GROWS(STACK, "rnr_waits", "messages", "messages that waited because no receive was posted (rnr = wait)"),
	GROWS(STACK, "rnr_timeouts", "messages", "messages that waited for a receive longer than rnr_retry allows"),
	GROWS(STACK, "rnr_drops", "segments", "segments not kept because the store for waiting messages was full"),
	GROWS(STACK, "hold_drops", "segments", "out-of-order segments not held because too many packets were held"),
	GROWS(STACK, "ud_in", "datagrams", "datagrams delivered to queue pairs"),
	GROWS(STACK, "ud_out", "datagrams", "datagrams sent"),
	GROWS(STACK, "ud_crc", "datagrams", "datagrams dropped: wrong CRC32C"),
	GROWS(STACK, "ud_bad", "datagrams", "datagrams dropped: malformed header or segment"),
	GROWS(STACK, "ud_no_qp", "datagrams", "datagrams dropped: no such queue pair, or not ready to receive"),
	GROWS(STACK, "ud_qkey", "datagrams", "datagrams dropped: wrong Q_Key"),
	GROWS(STACK, "ud_no_recv", "datagrams", "datagrams dropped: no receive posted"),
	GROWS(STACK, "ud_too_long", "datagrams", "datagrams longer than the receive they found; the receive failed"),
	GROWS(STACK, "ud_incomplete", "messages",
	      "messages of several datagrams that ended before all of them had come; a queue pair's receive is used "
	      "again, a UDP socket's datagram is dropped"),
	GROWS(STACK, "ud_again", "datagrams", "datagrams dropped: it had come before, or its message was over"),
	GROWS(STACK, "ud_refused", "datagrams", "datagrams of Write-Records dropped: no such memory, bounds or rights"),
	GROWS(STACK, "ud_full", "datagrams",
	      "datagrams dropped: as many messages of several datagrams were open as a queue pair has room for"),
	GROWS(STACK, "xrc_refused", "messages",
	      "messages to an XRC target that named no shared receive queue of its domain: the connection ended"),
	GROWS(STACK, "rd_segs_in", "segments", "segments of reliable datagrams that were received and carried out"),
	GROWS(STACK, "rd_segs_out", "segments", "segments of reliable datagrams that were sent for the first time"),
	GROWS(STACK, "rd_packs_out", "packets", "packets of reliable datagrams with several segments that were sent"),
	GROWS(STACK, "rd_held", "segments", "segments that waited for those before them, or for a receive"),
	GROWS(STACK, "rd_refused", "runs", "sequences between two queue pairs that ended in an error, at either end"),
	GROWS(STACK, "rd_no_pair", "times", "a packet or work request found all pairs of queue pairs in use"),
	GROWS(STACK, "rd_no_work", "times",
	      "a send queue stood still, or a peer's message was refused: all memory for pairs with something under way "
	      "was in use"),
	GROWS(STACK, "rd_evicted", "pairs", "idle pairs of queue pairs that were replaced by others"),
	GROWS(STACK, "rd_bad", "packets", "packets dropped: malformed, or too late"),
	GROWS(STACK, "rd_rnr_ends", "runs", "sequences that ended because no receive was posted in time"),
	GROWS(STACK, "rd_no_peer", "times", "another device found all places for flows in use"),
	GROWS(STACK, "rd_unknown", "packets",
	      "packets dropped: of an unknown flow, and without a cookie, or with a forged or old one"),
	GROWS(STACK, "rd_strange", "packets", "answers dropped: of no flow of the device, or malformed"),
	GROWS(STACK, "rd_twice", "packets", "packets dropped: they had come before"),
	GROWS(STACK, "rd_far", "packets", "packets dropped: their number is outside the window"),
	GROWS(STACK, "rd_no_room", "packets", "answers dropped for want of room; the peer asks again"),
	GROWS(STACK, "rd_idle", "times", "flows to another device were forgotten, as they carried nothing for rd-idle"),
	GROWS(STACK, "rd_again", "packets", "packets sent again"),
	GROWS(STACK, "rd_lost", "flows",
	      "flows to another device that ended because it did not answer, or did not know them"),
	GROWS(STACK, "nudges", "messages", "zero-length messages sent so that a silent peer-to-peer responder answers"),
	GROWS(STACK, "setup_timeouts", "connections",
	      "connections aborted because a step of their set-up took too long"),
	GROWS(STACK, "close_timeouts", "connections", "connections reset because their end took too long"),
	GROWS(STACK, "resets", "connections", "connections ended by a TCP reset of the peer"),
	GROWS(STACK, "tcp_timeouts", "connections", "connections ended because the peer no longer answered"),
	GROWS(STACK, "opened", "connections", "connections begun, in either role"),
	GROWS(STACK, "closed", "connections", "connections that are over"),
	GAUGE(STACK, "connections", "connections", "connections that exist now"),
	GAUGE(STACK, "half_open", "connections", "accepted TCP connections whose MPA Request has not arrived"),
	GAUGE(STACK, "blocks_used", "blocks", "connections that hold working memory now"),
	GAUGE(STACK, "rd_peers", "peers",
	      "workers of other devices with which reliable datagrams were exchanged of late"),
	GAUGE(STACK, "rd_folds", "peers", "peers of rd_peers that rest, of which rnicd keeps 40 bytes each"),
	GAUGE(STACK, "rd_pairs", "pairs", "pairs of queue pairs that exchange reliable datagrams"),
	GAUGE(STACK, "qp_port_connections", "connections", "connections between queue pairs without rdma_cm"),
	GAUGE(STACK, "qp_port_held", "requests", "requests on qp-port that wait until their queue pair is in RTR"),
	GROWS(STACK, "qp_port_displaced", "requests",
	      "waiting requests on qp-port that were dropped to make room for newer ones"),
	GROWS(STACK, "qp_port_expired", "requests", "requests on qp-port whose queue pair never came to RTR"),
	GROWS(STACK, "qp_port_bad", "requests", "malformed requests on qp-port"),
	GROWS(STACK, "qp_port_unwanted", "requests", "requests on qp-port that no queue pair here expects"),
	GROWS(STACK, "qp_port_strangers", "requests",
	      "requests on qp-port refused because their source port is not a daemon's (qp-peers)"),
	GROWS(STACK, "qp_port_gave_up", "connections", "queue pairs without rdma_cm whose peer could not be reached"),
	GAUGE(STACK, "clients", "clients", "client processes connected now"),
	GROWS(STACK, "clients_accepted", "clients", "client processes that have connected"),
	GROWS(STACK, "clients_refused", "clients", "client processes refused: a limit, or another version of librnic"),
	GROWS(STACK, "clients_dropped", "clients", "client processes disconnected because they broke a rule"),
	GROWS(STACK, "helper_jobs", "jobs",
	      "jobs for helper processes: messages with descriptors, mappings to open, sockets to close"),
	GROWS(STACK, "helper_jobs_lost", "jobs",
	      "jobs lost because the client blocked the helper process for too long"),
	GAUGE(STACK, "helper_jobs_running", "jobs", "jobs that helper processes are working on now"),
	GAUGE(STACK, "helper_jobs_waiting", "jobs",
	      "jobs that wait because their user already occupies as many helpers as it may"),
	GROWS(STACK, "requests", "requests", "requests of clients on the control socket"),
	GROWS(STACK, "bad_requests", "requests", "malformed requests of clients on the control socket"),

	/* one port */
	GAUGE(PORT, "mtu", "bytes", "largest IP packet of the port"),
	GAUGE(PORT, "rate_bps", "bit/s", "line rate from the configuration; 0: unlimited"),
	GAUGE(PORT, "paths", "paths", "links over which the frames of the port are spread; 0: it has one line"),
	GAUGE(PORT, "queues", "queues", "receive and transmit queues of the device"),
	GROWS(PORT, "rx_packets", "frames", "frames received"),
	GROWS(PORT, "rx_bytes", "bytes", "bytes received, Ethernet header included"),
	GROWS(PORT, "tx_packets", "frames", "frames handed to the driver"),
	GROWS(PORT, "tx_bytes", "bytes", "bytes handed to the driver, Ethernet header included"),
	GROWS(PORT, "tx_drops", "frames",
	      "frames dropped because the transmit queue stayed full, or the frame could not be sent"),
	GROWS(PORT, "tx_data", "segments", "TCP segments sent that carried data, those sent again included"),
	GROWS(PORT, "tx_again", "segments", "TCP segments that carried bytes which had been sent before"),
	GROWS(PORT, "tx_copied", "segments", "long TCP segments sent by copy, not by reference to registered memory"),
	GROWS(PORT, "rx_not_ours", "frames", "frames for another MAC or IP address"),
	GROWS(PORT, "rx_bad", "frames", "frames with a malformed header, rx_fragments included"),
	GROWS(PORT, "rx_fragments", "frames", "IP fragments of TCP, ICMP or IPv6; they are dropped"),
	GROWS(PORT, "frag_rx", "fragments", "fragments of UDP datagrams over IPv4 that were received"),
	GROWS(PORT, "frag_whole", "packets", "UDP datagrams reassembled from fragments"),
	GROWS(PORT, "frag_again", "fragments", "fragments that were there already; the second one is dropped"),
	GROWS(PORT, "frag_bad", "fragments",
	      "fragments dropped as they break a rule (overlap, a second end), with the rest of their datagram"),
	GROWS(PORT, "frag_late", "packets",
	      "datagrams dropped because a fragment did not come within a second or 1,024 further datagrams"),
	GROWS(PORT, "frag_evicted", "packets", "incomplete datagrams dropped to make room for newer ones"),
	GROWS(PORT, "frag_tx", "fragments", "fragments sent of UDP datagrams that are longer than the MTU"),
	GROWS(PORT, "rx_bad_csum", "frames",
	      "frames with a wrong IP, TCP or UDP checksum: check the sender's checksum offload"),
	GROWS(PORT, "rx_no_flow", "segments", "TCP segments without connection or listener; answered by a reset"),
	GROWS(PORT, "rx_unanswered", "segments",
	      "segments not answered: over the rate limit for strangers, or to a full backlog; with RNIC_DROPPED "
	      "connections that were closed for lack of room"),
	GROWS(PORT, "syn_cookies", "segments", "SYNs answered by a cookie because the listener's backlog was full"),
	GROWS(PORT, "syn_evicted", "connections",
	      "connections without an MPA Request that were dropped to make room for newer ones"),
	GROWS(PORT, "no_request", "connections",
	      "connections of peers that ended before an MPA Request had come, without those in syn_evicted"),
	GROWS(PORT, "time_wait_overflow", "connections",
	      "ended connections whose TIME_WAIT was cut short: an eighth of `flows` was in TIME_WAIT"),
	GROWS(PORT, "rx_other", "frames", "frames of a protocol or UDP port that rnicd does not serve"),
	GROWS(PORT, "rx_moved", "frames", "frames handed to the worker that owns their connection"),
	GROWS(PORT, "rx_moved_drops", "frames", "frames dropped because that worker's ring was full"),
	GROWS(PORT, "rx_no_room", "frames",
	      "frames dropped, for each member of a group or for some, because the control thread was behind, or "
	      "because too many frames to groups waited for a turn of the worker"),
	GROWS(PORT, "no_buffer", "frames", "frames not received or not built because packet memory was used up"),
	GROWS(PORT, "arp_rx", "frames", "ARP frames received"),
	GROWS(PORT, "arp_tx", "frames", "ARP frames sent"),
	GROWS(PORT, "arp_failed", "neighbours", "neighbours that did not answer ARP"),
	GROWS(PORT, "icmp_echo", "packets", "pings answered"),
	GROWS(PORT, "sums_rx", "FPDUs", "FPDUs whose CRC rnicd has checked for programs in design assisted"),
	GROWS(PORT, "sums_tx", "FPDUs", "FPDUs whose CRC rnicd has filled in for programs in design assisted"),
	GROWS(PORT, "gram_rx", "packets", "datagrams that UDP sockets of programs have received"),
	GROWS(PORT, "gram_tx", "packets", "datagrams that UDP sockets of programs have sent"),
	GROWS(PORT, "gram_full", "packets", "datagrams dropped because a UDP socket's program does not read them"),
	GROWS(PORT, "gram_refused", "packets", "ICMP messages sent because no socket has the UDP port"),
	GROWS(PORT, "gram_iwarp_rx", "packets", "datagrams of gram_rx that came over datagram-iWARP"),
	GROWS(PORT, "gram_iwarp_tx", "packets", "datagrams of gram_tx that were sent over datagram-iWARP"),
	GROWS(PORT, "gram_slots_rx", "packets",
	      "datagrams of gram_iwarp_rx that came as Write-Records, into slots lent to their sender"),
	GROWS(PORT, "gram_slots_tx", "packets",
	      "datagrams of gram_iwarp_tx that were sent as Write-Records, into slots lent by the peer"),
	GROWS(PORT, "gram_asked", "packets", "questions sent to peers whether a UDP socket accepts datagram-iWARP"),
	GROWS(PORT, "gram_answered", "packets",
	      "answers to such questions, and to datagrams over iWARP that found no socket or had an old Q_Key"),
	GROWS(PORT, "igmp_rx", "packets", "IGMP queries received"),
	GROWS(PORT, "igmp_tx", "packets", "IGMP reports sent"),
	GROWS(PORT, "igmp_bad", "packets", "IGMP messages that were malformed or came through a router"),
	GROWS(PORT, "impair_lost", "frames", "frames that the configured impairment lost"),
	GROWS(PORT, "impair_dup", "frames", "frames that the configured impairment repeated"),
	GROWS(PORT, "impair_corrupt", "frames", "frames that the configured impairment corrupted"),
	GROWS(PORT, "impair_reorder", "frames", "frames that the configured impairment reordered"),
	GROWS(PORT, "impair_split", "segments", "TCP segments that the configured impairment cut in two"),
	GROWS(PORT, "impair_joined", "segments", "TCP segments that the configured impairment put behind another one"),
	GROWS(PORT, "impair_overflow", "frames", "frames lost because the impairment's delay queue was full"),
	GROWS(PORT, "path_left", "times",
	      "a connection left the path, because nothing of its own arrived there, and did by another one"),
	GROWS(PORT, "capture_drops", "frames", "frames that are missing in the capture because its writer was behind"),

	/* one worker */
	GROWS(WORKER, "turns", "turns", "turns of the worker's loop"),
	GROWS(WORKER, "sleeps", "times", "times that the worker went to sleep because there was nothing to do"),
	GAUGE(WORKER, "flushed_most", "requests", "largest number of work requests flushed in one turn so far"),
	GAUGE(WORKER, "locals_most", "requests",
	      "largest number of work requests that sent nothing in one turn so far"),
	GAUGE(WORKER, "rung_most", "doorbells", "largest number of doorbells of one client in one turn so far"),
	GAUGE(WORKER, "cycles_per_second", "cycles/s", "rate of the clock that the cycles are counted with"),
	GROWS(WORKER, "cycles_commands", "cycles", "spent on commands of the control thread (stage-cycles = yes)"),
	GROWS(WORKER, "cycles_receive", "cycles", "spent on received frames, placing included"),
	GROWS(WORKER, "cycles_doorbells", "cycles", "spent on looking for clients' doorbells"),
	GROWS(WORKER, "cycles_timers", "cycles", "spent on timers"),
	GROWS(WORKER, "cycles_send", "cycles", "spent on building segments"),
	GROWS(WORKER, "cycles_effects", "cycles", "spent on completions and on reports to the control thread"),
	GROWS(WORKER, "cycles_ports", "cycles", "spent in the transmit functions of the ports"),
	GROWS(WORKER, "cycles_idle", "cycles", "spent in turns that found nothing to do, or asleep"),

	/* one connection */
	GAUGE(CONN, "worker", "number", "worker that owns the connection"),
	GAUGE(CONN, "mss", "bytes", "payload of a full TCP segment"),
	GAUGE(CONN, "cwnd", "bytes", "congestion window"),
	GAUGE(CONN, "ssthresh", "bytes", "slow start threshold"),
	GAUGE(CONN, "in_flight", "bytes", "sent and neither acknowledged nor found lost"),
	GAUGE(CONN, "snd_wnd", "bytes", "window that the peer offers"),
	GAUGE(CONN, "rcv_wnd", "bytes", "window offered to the peer"),
	GAUGE(CONN, "queued", "bytes", "waiting to be sent or acknowledged"),
	GAUGE(CONN, "fpdus", "FPDUs", "waiting to be sent or acknowledged"),
	GAUGE(CONN, "fpdus_most", "FPDUs", "largest number of FPDUs that can wait; 0 while the connection is idle"),
	GAUGE(CONN, "srtt_ns", "ns", "smoothed round-trip time"),
	GAUGE(CONN, "rttvar_ns", "ns", "variation of the round-trip time"),
	GAUGE(CONN, "rto_ns", "ns", "retransmission time-out"),
	GAUGE(CONN, "pace", "bytes/s",
	      "rate at which the congestion window is spread over the round trip; 0: it is not"),
	GAUGE(CONN, "keepalive_ns", "ns", "idle time before a keepalive probe is sent; 0: none is sent"),
	GROWS(CONN, "bytes_in", "bytes", "payload received in order"),
	GROWS(CONN, "bytes_out", "bytes", "payload sent, repetitions not counted"),
	GROWS(CONN, "segs_in", "segments", "TCP segments received"),
	GROWS(CONN, "segs_out", "segments", "TCP segments sent"),
	GROWS(CONN, "retransmits", "segments", "TCP segments sent again"),
	GROWS(CONN, "rtos", "times", "retransmission time-outs"),
	GROWS(CONN, "tlps", "segments", "tail loss probes (RFC 8985)"),
	GROWS(CONN, "out_of_order", "segments", "out-of-order segments that were kept"),
	GROWS(CONN, "out_of_order_dropped", "segments",
	      "out-of-order segments dropped: there was no room for them, or out-of-order = drop"),
	GROWS(CONN, "duplicates", "segments", "segments received again"),
	GROWS(CONN, "duplicate_acks", "segments", "duplicate acknowledgements received"),
	GROWS(CONN, "idle_acks", "segments", "acknowledgements received that acknowledge nothing new"),
	GROWS(CONN, "challenges", "segments", "challenge ACKs sent (RFC 5961)"),
	GROWS(CONN, "dropped", "segments", "received segments that TCP rejected"),
	GAUGE(CONN, "crc", "0 or 1", "FPDUs carry a CRC32C"),
	GAUGE(CONN, "markers_rx", "0 or 1", "received FPDUs carry markers"),
	GAUGE(CONN, "markers_tx", "0 or 1", "sent FPDUs carry markers"),

	/* reliable datagrams to and from one other device */
	GAUGE(FLOW, "worker", "number", "this device's worker, as packets number it"),
	GAUGE(FLOW, "peer_worker", "number", "the other device's worker"),
	GAUGE(FLOW, "in_flight", "packets", "sent, and neither acknowledged nor found lost"),
	GAUGE(FLOW, "waiting", "packets", "waiting to be sent, for the first time or again"),
	GAUGE(FLOW, "cwnd", "packets", "congestion window"),
	GAUGE(FLOW, "srtt_ns", "ns", "smoothed round-trip time"),
	GAUGE(FLOW, "rttvar_ns", "ns", "variation of the round-trip time"),
	GAUGE(FLOW, "min_rtt_ns", "ns", "least round-trip time of the flow"),
	GROWS(FLOW, "packets_out", "packets", "sent, repetitions not counted"),
	GROWS(FLOW, "again", "packets", "sent again"),
	GROWS(FLOW, "packets_in", "packets", "taken"),
	GROWS(FLOW, "twice", "packets", "dropped as duplicates"),
	GROWS(FLOW, "lost", "flows",
	      "flows to the other device that ended because it did not answer, or did not know them"),

	/* one client */
	GAUGE(CLIENT, "pid", "number", "process"),
	GAUGE(CLIENT, "uid", "number", "user"),
	GAUGE(CLIENT, "state", "number", "0: connecting, 1: working, 2: its objects are being released"),
	GAUGE(CLIENT, "pds", "objects", "protection domains"),
	GAUGE(CLIENT, "mrs", "objects", "memory regions"),
	GAUGE(CLIENT, "registered_bytes", "bytes", "memory registered"),
	GAUGE(CLIENT, "cqs", "objects", "completion queues"),
	GAUGE(CLIENT, "qps", "objects", "queue pairs"),
	GAUGE(CLIENT, "srqs", "objects", "shared receive queues"),
	GAUGE(CLIENT, "channels", "objects", "completion and event channels"),
	GAUGE(CLIENT, "cm_ids", "objects", "rdma_cm ids"),
	GAUGE(CLIENT, "queue_slots", "slots", "slots of 64 bytes in the client's send and receive queues"),
};
const uint32_t n_counters = sizeof(counters) / sizeof(counters[0]);

const struct counter *counter_find(enum counter_group group, const char *name)
{
	for (uint32_t i = 0; i < n_counters; i++)
		if (counters[i].group == group && strcmp(counters[i].name, name) == 0)
			return &counters[i];
	return NULL;
}

const char *counter_group_name(enum counter_group group)
{
	switch (group) {
	case COUNTER_STACK: return "stack";
	case COUNTER_PORT: return "port";
	case COUNTER_WORKER: return "worker";
	case COUNTER_CONN: return "connection";
	case COUNTER_FLOW: return "flow";
	case COUNTER_CLIENT: return "client";
	case COUNTER_GROUPS: break;
	}
	return "?";
}

void counter_document(void)
{
	puts("# Counters\n\n"
	     "`rnicctl counters --list` prints this page. A counter only grows; a gauge goes up and down. A connection's\n"
	     "counters of segments and times have 32 bits: they begin anew at 0.");
	for (uint32_t g = 0; g < COUNTER_GROUPS; g++) {
		printf("\n## %s\n\n| name | kind | unit | meaning |\n|---|---|---|---|\n",
		       counter_group_name((enum counter_group)g));
		for (uint32_t i = 0; i < n_counters; i++)
			if (counters[i].group == g)
				printf("| `%s` | %s | %s | %s |\n", counters[i].name,
				       counters[i].gauge ? "gauge" : "counter", counters[i].unit, counters[i].meaning);
	}
	known_document();
}
