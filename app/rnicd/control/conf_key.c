/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/conf_key.h"

#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "border/look.h"
#include "control/conf_device.h"
#include "control/dev.h"
#include "control/user.h"
#include "iwarp/mpa_neg.h"

#define GLOBAL(f)     offsetof(struct conf, f), sizeof(((struct conf *)0)->f)
#define PORT(f)       offsetof(struct rnicd_port_cfg, f), sizeof(((struct rnicd_port_cfg *)0)->f)
#define RANGE(lo, hi) .min = (lo), .max = (hi)
#define KIB           (UINT64_C(1) << 10)
#define MIB           (UINT64_C(1) << 20)

static const char *const own_words[] = { "wire", "port", NULL };
static const char *const huge_words[] = { "no", "yes", "auto", NULL };
static const char *const level_words[] = { "error", "warning", "info", "debug", NULL };
static const char *const congestion_words[] = { "cubic", "newreno", "bbr", NULL };
static const char *const peers_words[] = { "daemons", "any", NULL };
static const char *const personality_words[] = { "iwarp", "roce", "efa", NULL };
static const char *const segments_words[] = { "mtu", "64k", NULL };
static const char *const sock_wire_words[] = { "plain", "iwarp", NULL };
static const char *const designs_words[] = { "any", "offloaded", NULL };
static const char *const resegment_words[] = { "off", "split", "merge", "random", NULL };
static const char *const spacing_words[] = { "512", "1024", "2048", "4096", "none", NULL };
static const char *const spread_words[] = { "round-robin", "least-queue", "flow", NULL };
const char *const conf_ahead_words[] = { "place", "buffer", "drop", NULL };
static const char *const rnr_words[] = { "auto", "wait", "end", NULL };

static bool half(char *why, const char *text)
{
	snprintf(why, CONF_WHY_MAX, "%s", text);
	return false;
}

/* ---- [rnicd] ---- */

static bool own_socket(void *base, const char *v, char *why)
{
	struct conf *c = base;

	if (v[0] != '/')
		return half(why, "must be an absolute path");
	if (strlen(v) >= sizeof(((struct sockaddr_un *)0)->sun_path)) /* 108 bytes, unix(7) */
		return half(why, "is too long: a socket's path has at most 107 characters");
	strcpy(c->d.socket, v);
	return true;
}

static bool own_mode(void *base, const char *v, char *why)
{
	char *end;
	unsigned long m = strtoul(v, &end, 8);

	if (v[0] < '0' || v[0] > '7' || *end != '\0' || m > 0777)
		return half(why, "must be permissions in octal, such as 0660");
	((struct conf *)base)->d.socket_mode = (uint32_t)m;
	return true;
}

static bool own_prefix(void *base, const char *v, char *why)
{
	struct conf *c = base;

	if (strlen(v) >= sizeof(c->d.file_prefix) ||
	    v[strspn(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")] != '\0')
		return half(why, "must be at most 31 letters, digits, '-' or '_'");
	strcpy(c->d.file_prefix, v);
	return true;
}

static bool own_memory(void *base, const char *v, char *why)
{
	uint64_t bytes = 0;

	if (strcmp(v, "auto") != 0 && !conf_bytes(v, 64 * MIB, 1024 * 1024 * MIB, &bytes, why))
		return false;
	((struct conf *)base)->d.memory_mb = (uint32_t)(bytes / MIB);
	return true;
}

static bool bytes_or_auto(const char *v, uint64_t least, uint64_t *bytes, char *why)
{
	*bytes = 0;
	return strcmp(v, "auto") == 0 || conf_bytes(v, least, UINT64_C(1) << 46, bytes, why);
}

static bool own_client_memory(void *base, const char *v, char *why)
{
	return bytes_or_auto(v, 16 * MIB, &((struct conf *)base)->d.client_memory, why);
}

static bool own_object_memory(void *base, const char *v, char *why)
{
	return bytes_or_auto(v, MIB, &((struct conf *)base)->d.object_memory, why);
}

static bool own_workers(void *base, const char *v, char *why)
{
	struct conf *c = base;
	char one[16];
	uint32_t n = 0;

	if (strcmp(v, "auto") == 0) {
		c->d.n_workers = 1;
		c->workers_set = false;
		return true;
	}
	for (;;) {
		size_t len = strcspn(v, ",");
		uint64_t cpu;
		while (len > 0 && *v == ' ')
			v++, len--;
		size_t used = len;
		while (used > 0 && v[used - 1] == ' ')
			used--;
		if (used == 0 || used >= sizeof(one) || n == RNICD_MAX_WORKERS)
			return half(why, "must be auto or at most 16 CPU numbers, such as 2,3");
		memcpy(one, v, used);
		one[used] = '\0';
		if (!conf_uint(one, 0, 1023, &cpu, why))
			return half(why, "must be auto or at most 16 CPU numbers, such as 2,3");
		c->d.lcore[n++] = (uint16_t)cpu;
		if (v[len] == '\0')
			break;
		v += len + 1;
	}
	c->d.n_workers = n;
	c->d.pin = true;
	c->workers_set = true;
	return true;
}

static bool own_control_cpu(void *base, const char *v, char *why)
{
	uint64_t cpu = UINT16_MAX;

	if (strcmp(v, "any") != 0 && !conf_uint(v, 0, 1023, &cpu, why))
		return half(why, "must be any or a CPU number");
	((struct conf *)base)->d.control_cpu = (uint16_t)cpu;
	return true;
}

static bool own_poll(void *base, const char *v, char *why)
{
	static const char *const words[] = { "adaptive", "busy", NULL };
	struct conf *c = base;
	uint64_t w, ns;

	if (conf_word(v, words, &w, why)) {
		c->d.spin_us = w == 1 ? UINT32_MAX : 20;
		return true;
	}
	if (!conf_time(v, 0, RN_NS_PER_S, &ns, why))
		return half(why, "must be adaptive, busy, or how long an idle worker spins before it sleeps (0 to 1s)");
	c->d.spin_us = (uint32_t)(ns / RN_NS_PER_US);
	return true;
}

const struct conf_key conf_keys_rnicd[] = {
	{ "socket", "/run/rnicd/rnicd.sock", "control socket; clients find another path by RNICD_SOCKET", CONF_OWN,
	  .own = own_socket },
	{ "socket-mode", "0666", "permissions of the control socket: these users may use the RNIC", CONF_OWN,
	  .own = own_mode },
	{ "hugepages", "auto", "packet memory from hugepages: yes, no, or auto (if enough are free)", CONF_WORD,
	  GLOBAL(hugepages), .words = huge_words },
	{ "memory", "auto", "memory for packet buffers and tables; auto: as much as ports, workers and flows need",
	  CONF_OWN, .own = own_memory },
	{ "workers", "auto", "CPUs, one worker thread on each; auto: one worker that is not bound to a CPU", CONF_OWN,
	  .own = own_workers },
	{ "control-cpu", "any", "CPU of the control thread", CONF_OWN, .own = own_control_cpu },
	{ "poll", "adaptive", "adaptive, busy (never sleep), or the time that an idle worker spins before it sleeps",
	  CONF_OWN, .own = own_poll },
	{ "own-address", "wire",
	  "source address of a connection to a port of this daemon if the program names none. wire: the address "
	  "of the other end of the pair; port: the address of the port itself, as in a kernel",
	  CONF_WORD, GLOBAL(d.own_by_port), .words = own_words },
	{ "file-prefix", "-", "DPDK's file prefix of this daemon; default rnicd and the process number", CONF_OWN,
	  .own = own_prefix },
	{ "log-level", "info", "error, warning, info or debug", CONF_WORD, GLOBAL(d.log_level), .words = level_words },
	{ "seed", "0", "seed of sequence numbers and keys, 0: random, from the system; other values only for tests",
	  CONF_UINT, GLOBAL(d.seed), RANGE(0, UINT64_MAX) },
	{ "stage-cycles", "no", "count the cycles of each stage of a worker's turn: telemetry /rnic/workers,N",
	  CONF_BOOL, GLOBAL(d.stage_cycles) },
	{ "flows", "4096", "connections per worker; as many datagram queue pairs and sockets per worker", CONF_UINT,
	  GLOBAL(d.flows), RANGE(16, 65536) },
	{ "zero-copy-min", "2048", "length above which pieces of registered memory are sent by reference, not by copy",
	  CONF_BYTES, GLOBAL(d.zcopy_min), RANGE(64, 65536) },
	{ "user-share", "75",
	  "percent that the processes of one user may have together of rnicd's client places, listeners, "
	  "connections (also those being set up), datagram queue pairs and sockets, UDP ports of queue pairs, "
	  "TCP ports, "
	  "memory regions, groups, descriptors, mappings, address space, XRC domains, XRC shared receive queues, "
	  "client-memory and object-memory",
	  CONF_UINT, GLOBAL(d.user_share), RANGE(1, 100) },
	{ "clients", "512", "client processes", CONF_UINT, GLOBAL(d.clients), RANGE(1, CLIENTS_MAX) },
	{ "listeners", "512", "listeners of all programs", CONF_UINT, GLOBAL(d.listeners), RANGE(1, LOOK_LISTENERS) },
	/*
	 * With the default of user-share, a user's share is more than quota-mrs, and the rest is so large that this
	 * user guesses the STag of a region of others once in 2^24.
	 */
	{ "regions", "264999", "memory regions and windows of a device", CONF_UINT, GLOBAL(d.regions),
	  RANGE(1, DEV_MAX_MR) },
	{ "groups", "64", "multicast groups of a device", CONF_UINT, GLOBAL(d.groups), RANGE(1, DEV_MAX_GROUPS) },
	{ "udp-ports", "4096", "UDP ports of a device that belong to one queue pair each", CONF_UINT,
	  GLOBAL(d.udp_ports), RANGE(1, DEV_MAX_UDP_PORTS) },
	{ "xrc-domains", "4096", "open XRC domains; a domain counts once for each open", CONF_UINT,
	  GLOBAL(d.xrc_domains), RANGE(1, DEV_MAX_XRCDS) },
	{ "client-memory", "auto",
	  "memory that all clients together may share with rnicd: registered memory, each registration of it "
	  "(hugepages: once for each process), queues, and the rings of sockets; auto: as much as the host has",
	  CONF_OWN, .own = own_client_memory },
	{ "object-memory", "auto",
	  "memory of rnicd for the objects of all clients: queue pairs, completion queues, memory regions, connection "
	  "manager ids; auto: a sixteenth of the host's",
	  CONF_OWN, .own = own_object_memory },
	{ "record-timeout", "200ms", "how long an incomplete message of several datagrams waits for its next datagram",
	  CONF_TIME, GLOBAL(d.record_timeout_ns), RANGE(RN_NS_PER_MS, 10 * RN_NS_PER_S) },
	{ "record-linger", "1s",
	  "how long a message of several datagrams is remembered after its end, so that late datagrams do not begin it "
	  "again",
	  CONF_TIME, GLOBAL(d.record_linger_ns), RANGE(RN_NS_PER_MS, 60 * RN_NS_PER_S) },
	{ "rd-idle", "300s",
	  "how long an idle flow of reliable datagrams to another device is kept, 8 s at least; 0: always", CONF_TIME,
	  GLOBAL(d.rd_idle_ns), RANGE(0, 86400 * RN_NS_PER_S) },
	{ "rd-workers", "0",
	  "number of workers that share a device's reliable datagrams, 0: all; set 1 if another device runs an "
	  "rnicd without this key, which knows one worker only",
	  CONF_UINT, GLOBAL(d.rd_workers), RANGE(0, RNICD_MAX_WORKERS) },
	{ "quota-memory", "16G", "registered memory of one client", CONF_BYTES, GLOBAL(d.quota_memory),
	  RANGE(4 * KIB, UINT64_C(1) << 46) },
	{ "quota-qps", "2048", "queue pairs of one client", CONF_UINT, GLOBAL(d.quota_qps), RANGE(1, IPC_MAX_QPS) },
	{ "quota-cqs", "2048", "completion queues of one client", CONF_UINT, GLOBAL(d.quota_cqs), RANGE(1, 65535) },
	{ "quota-mrs", "110000", "memory regions of one client", CONF_UINT, GLOBAL(d.quota_mrs), RANGE(1, 131071) },
	{ "quota-outstanding", "4194304", "slots of all queues of one client", CONF_UINT, GLOBAL(d.quota_wrs),
	  RANGE(1, UINT32_MAX) },
	{ NULL }
};

/* ---- [port NAME] ---- */

static bool own_device(void *base, const char *v, char *why) { return conf_device(base, v, why); }

/* Called only for rnicctl set and embedded devices: from the file, conf_paths_store() reads the key. */
static bool own_paths(void *base, const char *v, char *why)
{
	(void)base;
	(void)v;
	return half(why, "takes a restart");
}

static bool own_mac(void *base, const char *v, char *why)
{
	struct rnicd_port_cfg *p = base;

	p->mac_set = conf_mac(v, p->mac, why);
	return p->mac_set;
}

static bool own_address(void *base, const char *v, char *why)
{
	struct rnicd_port_cfg *p = base;

	return conf_addr_prefix(v, &p->ip, &p->prefix_len, why);
}

static bool own_gateway(void *base, const char *v, char *why)
{
	struct rnicd_port_cfg *p = base;

	p->gateway_set = conf_addr(v, &p->gateway, why);
	return p->gateway_set;
}

static bool own_vlan(void *base, const char *v, char *why)
{
	uint64_t vid = PKT_NO_VLAN;

	if (strcmp(v, "none") != 0 && !conf_uint(v, 1, 4094, &vid, why))
		return half(why, "must be none or a VLAN from 1 to 4094");
	((struct rnicd_port_cfg *)base)->vlan = (uint16_t)vid;
	return true;
}

static bool own_rate(void *base, const char *v, char *why)
{
	uint64_t r = 0;

	if (strcmp(v, "unlimited") != 0 && !conf_rate(v, 1000000, UINT64_C(1000000000000), &r, why))
		return half(why, "must be unlimited or bits per second from 1M to 1000G");
	((struct rnicd_port_cfg *)base)->rate_bps = r;
	return true;
}

static bool own_crc(void *base, const char *v, char *why)
{
	static const char *const words[] = { "off", "on", "required", "always", NULL };
	struct rnicd_port_cfg *p = base;
	uint64_t w;

	if (!conf_word(v, words, &w, why))
		return false;
	p->crc = w >= 1;
	p->crc_required = w == 2;
	p->crc_always = w == 3;
	return true;
}

static bool own_rtr(void *base, const char *v, char *why)
{
	static const char *const words[] = { "any", "send", "write", "read", NULL };
	static const uint8_t rtr[] = { 0, MPA_RTR_SEND, MPA_RTR_WRITE, MPA_RTR_READ };
	uint64_t w;

	if (!conf_word(v, words, &w, why))
		return false;
	((struct rnicd_port_cfg *)base)->rtr = rtr[w];
	return true;
}

#define KEEPALIVE_AUTO (60 * RN_NS_PER_S)

static bool own_keepalive(void *base, const char *v, char *why)
{
	struct rnicd_port_cfg *p = base;

	if (strcmp(v, "auto") == 0) {
		p->keepalive_ns = 0;
		p->qp_keepalive_ns = KEEPALIVE_AUTO;
		return true;
	}
	if (!conf_time(v, 0, 86400 * RN_NS_PER_S, &p->keepalive_ns, why))
		return half(why, "must be auto, 0 for never, or a time such as 60s");
	p->qp_keepalive_ns = p->keepalive_ns;
	return true;
}

static bool own_capture(void *base, const char *v, char *why)
{
	struct rnicd_port_cfg *p = base;

	if (v[0] != '/')
		return half(why, "must be an absolute path");
	if (strlen(v) >= sizeof(p->capture))
		return half(why, "is too long a path");
	strcpy(p->capture, v);
	return true;
}

const struct conf_key conf_keys_port[] = {
	{ "device", "",
	  "pair:PORT, memif:ARGS, tap:NAME, af_packet:INTERFACE, host:INTERFACE, pcap:ARGS or pci:ADDRESS", CONF_OWN,
	  .own = own_device },
	{ "address", "", "ADDRESS/BITS of the port", CONF_OWN, .own = own_address },
	{ "paths", "-",
	  "several links instead of one device: a device of any kind for each path, such as pair:b, pair:b or "
	  "memif:ARGS, af_packet:INTERFACE; rate, loss, delay and the other keys of a line, up to seed, have one "
	  "value for all paths or a list of values",
	  CONF_OWN, .own = own_paths },
	{ "spread", "round-robin",
	  "how a frame chooses its path: round-robin (for each connection), least-queue, or flow (each "
	  "connection keeps to one path)",
	  CONF_WORD, PORT(spread), .words = spread_words },
	{ "mac", "-", "MAC address; default: the device's own or one made from the name", CONF_OWN, .own = own_mac },
	{ "gateway", "-", "router for other subnets", CONF_OWN, .own = own_gateway },
	{ "mtu", "1500", "bytes of an IP packet; above 9000 on pair ports only", CONF_UINT, PORT(mtu),
	  RANGE(576, RNICD_MTU_MAX) },
	{ "vlan", "none", "VLAN of all frames", CONF_OWN, .own = own_vlan },
	{ "rate", "unlimited", "line rate in bit/s, such as 10G", CONF_OWN, .own = own_rate, .each = true },
	{ "loss", "0", "share of frames sent that are lost", CONF_PROB, PORT(impair.loss), .each = true },
	{ "duplicate", "0", "share of frames sent twice", CONF_PROB, PORT(impair.duplicate), .each = true },
	{ "corrupt", "0", "share of frames with one bit inverted", CONF_PROB, PORT(impair.corrupt), .each = true },
	{ "reorder", "0", "share of frames held back", CONF_PROB, PORT(impair.reorder), .each = true },
	{ "reorder-gap", "3", "frames that overtake a frame held back", CONF_UINT, PORT(impair.reorder_gap),
	  RANGE(1, 1024), .each = true },
	{ "delay", "0", "one-way delay", CONF_TIME, PORT(impair.delay_ns), RANGE(0, 10 * RN_NS_PER_S), .each = true },
	{ "jitter", "0", "upper bound of a random, uniformly distributed addition to the delay", CONF_TIME,
	  PORT(impair.jitter_ns), RANGE(0, 10 * RN_NS_PER_S), .each = true },
	{ "resegment", "off",
	  "act as a middlebox that cuts each TCP segment in two (split), fills segments up from the next ones (merge), "
	  "or "
	  "does one or the other (random)",
	  CONF_WORD, PORT(impair.resegment), .words = resegment_words, .each = true },
	{ "limit", "4096", "frames that a delay may hold at once; further frames are lost", CONF_UINT,
	  PORT(impair.limit), RANGE(1, 1048576), .each = true },
	{ "seed", "1", "seed of the impairment: the same seed treats the same traffic alike", CONF_UINT,
	  PORT(impair.seed), RANGE(0, UINT64_MAX), .each = true },
	{ "capture", "-", "pcapng file to which all frames are written", CONF_OWN, .own = own_capture },
	{ "capture-size", "1G", "largest size of the capture; its older half is in FILE.1, earlier frames are deleted",
	  CONF_BYTES, PORT(capture_size), RANGE(64 * KIB, UINT64_C(1) << 50) },
	{ "verify-checksums", "no", "check TCP and UDP checksums even if the device has checked them", CONF_BOOL,
	  PORT(verify_csum) },
	{ "crc", "on", "MPA CRC: off, on, required of the peer, or always: computed on a wire inside the daemon too",
	  CONF_OWN, .own = own_crc },
	{ "markers", "off", "ask the peer for MPA markers", CONF_BOOL, PORT(markers) },
	{ "marker-spacing", "512",
	  "bytes from one MPA marker to the next, or none: no markers even if negotiated. Set the same at both "
	  "ends, as MPA does not negotiate it, and 512 towards any other implementation",
	  CONF_WORD, PORT(spacing), .words = spacing_words },
	{ "mpa-revision", "2", "MPA revision of the initiator: 1 or 2", CONF_UINT, PORT(mpa_rev), RANGE(1, 2) },
	{ "peer-to-peer", "on", "RFC 6581 peer-to-peer set-up: either side may send first", CONF_BOOL,
	  PORT(peer_to_peer) },
	{ "rtr", "any",
	  "RTR message of the peer-to-peer set-up: any, or send, write or read for peers that do not handle the "
	  "others",
	  CONF_OWN, .own = own_rtr },
	{ "qp-port", "4791", "TCP port for connections of queue pairs without rdma_cm, 0: none; same on all hosts",
	  CONF_UINT, PORT(qp_port), RANGE(0, 65535) },
	{ "qp-peers", "daemons",
	  "peers that may connect to qp-port: daemons (source port below 1024, so at most 1023 connections per "
	  "peer, and user-share percent of them for one user) or any; same on all hosts",
	  CONF_WORD, PORT(qp_peers), .words = peers_words },
	{ "datagram-port", "4793", "UDP port of datagram queue pairs, 0: none; same on all hosts", CONF_UINT,
	  PORT(ud_port), RANGE(0, 65535) },
	{ "segments", "mtu",
	  "length of a segment, if a message of a datagram queue pair takes several. mtu: a segment fits a packet; "
	  "64k: over IPv4 a segment has up to 64 KiB and leaves as IP fragments, and one lost fragment costs the "
	  "segment; reliable datagrams ignore this key: their packets fit an MTU of 1500",
	  CONF_WORD, PORT(segments), .words = segments_words },
	{ "datagram-wire", "plain",
	  "how UDP sockets of programs under rnicrun --sockets send: plain UDP, or iwarp where the peer takes it",
	  CONF_WORD, PORT(gram_wire), .words = sock_wire_words },
	{ "stream-wire", "plain",
	  "how TCP sockets of programs under rnicrun --sockets connect: plain TCP, or iwarp where the peer takes it",
	  CONF_WORD, PORT(stream_wire), .words = sock_wire_words },
	{ "ird", "64", "RDMA Reads that a connection serves at once", CONF_UINT, PORT(max_ird), RANGE(0, 255) },
	{ "ord", "64", "RDMA Reads that a connection issues at once", CONF_UINT, PORT(max_ord), RANGE(0, 255) },
	{ "congestion", "cubic", "cubic, newreno, or bbr for wires that lose frames at random", CONF_WORD,
	  PORT(congestion), .words = congestion_words },
	{ "out-of-order", "place",
	  "what TCP does with a segment that arrives before an earlier one: place (put its bytes into memory at "
	  "once if that is safe), buffer (keep it until its turn), or drop (the peer sends it again). On "
	  "embedded devices the kernel's TCP decides",
	  CONF_WORD, PORT(ahead), .words = conf_ahead_words },
	{ "min-rto", "0", "lower bound of the retransmission timeout, 0: the built-in bound", CONF_TIME,
	  PORT(min_rto_ns), RANGE(0, 10 * RN_NS_PER_S) },
	{ "pacing", "no",
	  "spread segments over the round trip instead of sending a whole congestion window at once; bbr always does",
	  CONF_BOOL, PORT(pacing) },
	{ "keepalive", "auto",
	  "idle time before a keepalive probe is sent, 0: never; auto: 60s, only for connections without "
	  "rdma_cm",
	  CONF_OWN, .own = own_keepalive },
	{ "personality", "iwarp",
	  "how the device shows itself: iwarp, roce, or efa, whose SRD is reliable datagrams (the wire is iWARP)",
	  CONF_WORD, PORT(personality), .words = personality_words },
	{ "designs", "any",
	  "where iWARP of this device may run: any, or offloaded: only in rnicd, not in programs (rnicrun "
	  "--design host or assisted)",
	  CONF_WORD, PORT(designs), .words = designs_words },
	{ "rnr", "auto",
	  "what becomes of a message that finds no receive posted: wait for a receive, or end the connection "
	  "(RFC 5040); auto: wait with personality roce or efa",
	  CONF_WORD, PORT(rnr), .words = rnr_words },
	{ NULL }
};

_Static_assert(RN_ARRAY_LEN(conf_keys_port) <= CONF_MAX_KEYS, "the reader has a line number for each");
_Static_assert(RN_ARRAY_LEN(conf_keys_rnicd) <= CONF_MAX_KEYS, "the reader has a line number for each");

/* ---- storing ---- */

static void put(void *field, uint16_t size, uint64_t v)
{
	memcpy(field, &v, size); /* little-endian host: rn_be.h asserts it */
}

bool conf_key_store(const struct conf_key *k, void *base, const char *value, char *why)
{
	uint64_t v = 0;
	bool ok = false;

	switch (k->type) {
	case CONF_UINT: ok = conf_uint(value, k->min, k->max, &v, why); break;
	case CONF_BYTES: ok = conf_bytes(value, k->min, k->max, &v, why); break;
	case CONF_TIME: ok = conf_time(value, k->min, k->max, &v, why); break;
	case CONF_PROB: ok = conf_prob(value, &v, why); break;
	case CONF_BOOL: ok = conf_bool(value, &v, why); break;
	case CONF_WORD: ok = conf_word(value, k->words, &v, why); break;
	case CONF_OWN: return k->own(base, value, why);
	}
	if (ok)
		put((char *)base + k->off, k->size, v);
	return ok;
}

void conf_key_defaults(const struct conf_key *table, void *base)
{
	char why[CONF_WHY_MAX];

	for (const struct conf_key *k = table; k->name != NULL; k++)
		if (k->deflt[0] != '\0' && strcmp(k->deflt, "-") != 0)
			(void)conf_key_store(k, base, k->deflt, why);
}
