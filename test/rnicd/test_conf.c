/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/conf.h"
#include "control/dev.h"

static struct conf c;

static unsigned read_text(const char *text, size_t len, char **out)
{
	size_t n;
	FILE *f = len > 0 ? fmemopen((void *)(uintptr_t)text, len, "r") : fopen("/dev/null", "r");
	FILE *err = open_memstream(out, &n);
	unsigned bad = conf_read(f, "t.conf", &c, err);

	fclose(f);
	fclose(err);
	return bad;
}

#define PORT_A "[port a]\ndevice = tap:t0\naddress = 10.0.0.1/24\n"

/* Reads the text; the messages must be exactly `want`. */
static void expect(const char *text, const char *want)
{
	char *got;

	read_text(text, strlen(text), &got);
	assert_string_equal(got, want);
	free(got);
}

/* Reads a text without mistakes; the notes about it must be exactly `want`. */
static void expect_notes(const char *text, const char *want)
{
	char *got;

	assert_int_equal(read_text(text, strlen(text), &got), 0);
	assert_string_equal(got, want);
	free(got);
}

/* `memory = auto` is enough for all connections to be active at once, within a bound. */
static void memory_goes_with_the_connections(void **state)
{
	(void)state;
	expect("[rnicd]\nflows = 1024\n" PORT_A, "");
	assert_int_equal(c.d.work_mb, 30);
	assert_int_equal(c.d.memory_mb, 256 + 30);
	expect("[rnicd]\nflows = 65536\nworkers = 1,2\n" PORT_A, "");
	assert_int_equal(c.d.work_mb, 512);
	expect("[rnicd]\nmemory = 300M\n" PORT_A, "");
	assert_int_equal(c.d.work_mb, 0);
	assert_int_equal(c.d.memory_mb, 300);
}

static void the_least_file(void **state)
{
	(void)state;
	expect(PORT_A, "");
	const struct rnicd_port_cfg *p = &c.d.port[0];
	assert_int_equal(c.d.n_ports, 1);
	assert_string_equal(c.d.socket, "/run/rnicd/rnicd.sock");
	assert_int_equal(c.d.n_workers, 1);
	assert_false(c.d.pin);
	assert_int_equal(c.hugepages, CONF_HUGE_AUTO);
	assert_int_equal(c.d.memory_mb, 256 + 120); /* 120: 4,096 connections at work */
	assert_int_equal(c.d.log_level, RNICD_LOG_INFO);
	assert_string_equal(p->name, "a");
	assert_int_equal(p->kind, RNICD_PORT_TAP);
	assert_string_equal(p->args, "t0");
	assert_int_equal(p->mtu, 1500);
	assert_int_equal(p->prefix_len, 120);
	assert_int_equal(p->vlan, PKT_NO_VLAN);
	assert_int_equal(p->rate_bps, 0);
	assert_true(p->crc && !p->crc_required && !p->markers && p->peer_to_peer && p->personality == RNICD_IWARP &&
		    p->congestion == RNICD_CUBIC);
	assert_int_equal(p->mpa_rev, 2);
	assert_int_equal(p->rtr, 0);
	assert_int_equal(p->impair.limit, 4096);
	assert_true(!p->pacing && p->keepalive_ns == 0 && p->qp_keepalive_ns == 60 * RN_NS_PER_S);
}

/*
 * A user who knows the STags of the user's whole share guesses that of a given region of others with a probability of
 * 1 in 2^24 at most; and a client may use up quota-mrs.
 */
static void one_users_share_leaves_stags_that_are_hard_to_guess(void **state)
{
	(void)state;
	expect(PORT_A, "");
	const uint64_t share = (uint64_t)c.d.regions * c.d.user_share / 100;
	assert_true((c.d.regions - share) * QP_STAG_KEYS >= 1u << 24);
	assert_true(share > c.d.quota_mrs);
}

static void every_key(void **state)
{
	(void)state;
	expect("; comment\r\n[rnicd]\r\n"
	       "socket = /tmp/x.sock # where\nsocket-mode = 0660\nhugepages=no\n memory = 1G\nworkers = 1, "
	       "2,2\ncontrol-cpu = 0\n"
	       "poll = busy\nfile-prefix = r-1\nlog-level = debug\nseed = 0x10\nflows = 100\nrecord-timeout = 5ms\nrecord-linger = 2s\n"
	       "rd-idle = 9s\nrd-workers = 3\nclients = 3\nlisteners = 4\nregions = 200000\ngroups = 5\nudp-ports = 6\n"
	       "xrc-domains = 7\nclient-memory = 1G\nobject-memory = 8M\nuser-share = 9\n"
	       "zero-copy-min = 4K\n"
	       "quota-memory = 1G\nquota-qps = 1\nquota-cqs = 2\nquota-mrs = 3\nquota-outstanding = 4\n"
	       "[port  a]\ndevice = pair:b\naddress = 10.0.0.1/24\nmac = 02:00:00:00:00:01\ngateway = 10.0.0.9\nmtu = "
	       "9000\nvlan = 7\n"
	       "rate = 10G\nloss = 50%\nduplicate = 0.5\ncorrupt = 25%\nreorder = 25%\nreorder-gap = 5\ndelay = "
	       "1ms\njitter = 2us\npacing = on\nkeepalive = 5s\n"
	       "limit = 9\nseed = 3\ncapture = /dev/a.pcapng\nverify-checksums = yes\ncrc = required\nmarkers = "
	       "on\nmpa-revision = 1\n"
	       "peer-to-peer = off\nrtr = read\nird = 1\nord = 2\ncongestion = newreno\nmin-rto = 1s\npersonality = roce\n"
	       "[port b]\ndevice = pair:a\naddress = 10.0.0.2/24\nmtu = 9000\ncrc = always\n"
	       "qp-peers = any\n",
	       "");
	const struct rnicd_port_cfg *p = &c.d.port[0];
	const struct rnicd_impair_cfg *m = &p->impair;
	assert_string_equal(c.d.socket, "/tmp/x.sock");
	assert_int_equal(c.d.socket_mode, 0660);
	assert_int_equal(c.hugepages, CONF_HUGE_NO);
	assert_int_equal(c.d.memory_mb, 1024);
	assert_int_equal(c.d.n_workers, 3);
	assert_true(c.d.lcore[0] == 1 && c.d.lcore[1] == 2 && c.d.lcore[2] == 2 && c.d.pin && c.workers_set);
	assert_int_equal(c.d.control_cpu, 0);
	assert_int_equal(c.d.spin_us, UINT32_MAX);
	assert_string_equal(c.d.file_prefix, "r-1");
	assert_int_equal(c.d.log_level, RNICD_LOG_DEBUG);
	assert_true(c.d.seed == 16 && c.d.flows == 100 && c.d.zcopy_min == 4096);
	assert_true(c.d.clients == 3 && c.d.listeners == 4 && c.d.regions == 200000 && c.d.groups == 5 &&
		    c.d.udp_ports == 6 && c.d.xrc_domains == 7);
	assert_true(c.d.client_memory == UINT64_C(1) << 30 && c.d.object_memory == 8 << 20 && c.d.user_share == 9);
	assert_true(c.d.rd_idle_ns == 9 * RN_NS_PER_S && c.d.rd_workers == 3);
	assert_true(c.d.record_timeout_ns == 5 * RN_NS_PER_MS && c.d.record_linger_ns == 2 * RN_NS_PER_S);
	assert_true(c.d.quota_memory == UINT64_C(1) << 30 && c.d.quota_qps == 1 && c.d.quota_cqs == 2 &&
		    c.d.quota_mrs == 3 && c.d.quota_wrs == 4);
	assert_true(p->kind == RNICD_PORT_PAIR && p->mac_set && p->mac[5] == 1 && p->gateway_set && p->mtu == 9000 &&
		    p->vlan == 7);
	assert_int_equal(p->rate_bps, UINT64_C(10000000000));
	assert_true(c.d.port[0].qp_peers == RNICD_PEERS_DAEMONS && c.d.port[1].qp_peers == RNICD_PEERS_ANY);
	assert_true(p->pacing && p->keepalive_ns == 5 * RN_NS_PER_S && p->qp_keepalive_ns == 5 * RN_NS_PER_S);
	assert_true(m->loss == UINT32_C(1) << 31 && m->duplicate == UINT32_C(1) << 31 &&
		    m->corrupt == UINT32_C(1) << 30);
	assert_true(m->reorder == UINT32_C(1) << 30 && m->reorder_gap == 5 && m->delay_ns == 1000000 &&
		    m->jitter_ns == 2000);
	assert_true(m->limit == 9 && m->seed == 3);
	assert_string_equal(p->capture, "/dev/a.pcapng");
	assert_true(p->verify_csum && p->crc && p->crc_required && p->markers && p->mpa_rev == 1 && !p->peer_to_peer);
	assert_int_equal(p->rtr, 4);
	assert_true(p->max_ird == 1 && p->max_ord == 2 && p->congestion == RNICD_NEWRENO &&
		    p->min_rto_ns == RN_NS_PER_S && p->personality == RNICD_ROCE);
	assert_true(!p->crc_always && c.d.port[1].crc && c.d.port[1].crc_always && !c.d.port[1].crc_required);
	assert_string_equal(c.d.port[1].args, "a");
}

static void mistakes_of_form(void **state)
{
	(void)state;
	expect(PORT_A "nonsense\n", "t.conf:4: neither a [section], nor key = value, nor a comment\n");
	expect(PORT_A "= 5\n", "t.conf:4: neither a [section], nor key = value, nor a comment\n");
	expect("[port a\n" PORT_A, "t.conf:1: a section is written [name]\n");
	expect("[]\n" PORT_A, "t.conf:1: a section is written [name]\n");
	expect("mtu = 1500\n" PORT_A, "t.conf:1: 'mtu' stands before the first section\n");
	expect(PORT_A "mtu =\n", "t.conf:4: 'mtu' has no value\n");
	expect(PORT_A "mtu = # none\n", "t.conf:4: 'mtu' has no value\n");
}

static void bytes_that_are_no_text(void **state)
{
	static const char zero[] = PORT_A "mtu = 15\0"
					  "00\n";
	char *got, lon[3000];

	(void)state;
	read_text(zero, sizeof(zero) - 1, &got);
	assert_string_equal(got, "t.conf:4: the line holds a zero byte: not a text file\n");
	free(got);
	memset(lon, 'x', sizeof(lon));
	lon[sizeof(lon) - 1] = '\0';
	memcpy(lon, PORT_A, strlen(PORT_A));
	expect(lon, "t.conf:4: the line is too long\n");
}

static void unknown_names(void **state)
{
	(void)state;
	expect(PORT_A "mtuu = 1500\n", "t.conf:4: unknown key 'mtuu' in a section [port]; did you mean 'mtu'?\n");
	expect(PORT_A "colour = red\n", "t.conf:4: unknown key 'colour' in a section [port]\n");
	expect("[rnicd]\nmtu = 1500\n" PORT_A, "t.conf:2: unknown key 'mtu' in a section [rnicd]\n");
	expect("[rnicd]\nworker = 1\n" PORT_A,
	       "t.conf:2: unknown key 'worker' in a section [rnicd]; did you mean 'workers'?\n");
	expect(PORT_A "[ports]\nmtu = 7\n", "t.conf:4: unknown section [ports]; there are [rnicd] and [port NAME]\n");
	expect(PORT_A "[port]\n", "t.conf:4: unknown section [port]; there are [rnicd] and [port NAME]\n");
	expect(PORT_A "[port a b]\nmtu = 7\n", "t.conf:4: a port's name has 1 to 31 letters, digits, '-' or '_'\n");
}

static void second_ones(void **state)
{
	(void)state;
	expect(PORT_A "mtu = 1500\nmtu = 1500\n", "t.conf:5: 'mtu' was given already in line 4\n");
	expect("[rnicd]\n[rnicd]\nseed = x\n" PORT_A, "t.conf:2: section [rnicd] was given already in line 1\n");
	expect(PORT_A "\n" PORT_A, "t.conf:5: section [port a] was given already in line 1\n");
}

static void values_that_cannot_be(void **state)
{
	static const struct {
		const char *line, *want;
	} t[] = {
		{ "mtu = 0", "'mtu = 0' must be a whole number from 576 to 65280" },
		{ "mtu = 575", "'mtu = 575' must be a whole number from 576 to 65280" },
		{ "mtu = 65281", "'mtu = 65281' must be a whole number from 576 to 65280" },
		{ "mtu = -1", "'mtu = -1' must be a whole number from 576 to 65280" },
		{ "mtu = big", "'mtu = big' must be a whole number from 576 to 65280" },
		{ "mac = 01:00:00:00:00:01",
		  "'mac = 01:00:00:00:00:01' must be the MAC address of one station, neither multicast nor zero" },
		{ "mac = x", "'mac = x' must be a MAC address such as 02:00:00:00:00:01" },
		{ "mtu = 9001", "an MTU above 9000 is for pair ports: give port 'a' a smaller one" },
		{ "gateway = 10.0.1.1", "the gateway is not in the subnet of the port's address" },
		{ "vlan = 0", "'vlan = 0' must be none or a VLAN from 1 to 4094" },
		{ "vlan = 4095", "'vlan = 4095' must be none or a VLAN from 1 to 4094" },
		{ "rate = fast", "'rate = fast' must be unlimited or bits per second from 1M to 1000G" },
		{ "rate = 0", "'rate = 0' must be unlimited or bits per second from 1M to 1000G" },
		{ "loss = 1", "'loss = 1' would be 100%: was 1% meant? Write 100% for all" },
		{ "corrupt = 2.5", "'corrupt = 2.5' would be 100%: was 2.5% meant? Write 100% for all" },
		{ "loss = 101%", "'loss = 101%' must be a probability from 0% to 100%" },
		{ "delay = 5", "'delay = 5' must be a time (ns, us, ms, s) from 0 to 10s" },
		{ "jitter = 11s", "'jitter = 11s' must be a time (ns, us, ms, s) from 0 to 10s" },
		{ "reorder-gap = 0", "'reorder-gap = 0' must be a whole number from 1 to 1024" },
		{ "capture = a.pcapng", "'capture = a.pcapng' must be an absolute path" },
		{ "crc = maybe", "'crc = maybe' must be off, on, required or always" },
		{ "markers = 2", "'markers = 2' must be yes or no" },
		{ "mpa-revision = 3", "'mpa-revision = 3' must be a whole number from 1 to 2" },
		{ "ird = 256", "'ird = 256' must be a whole number from 0 to 255" },
		{ "congestion = vegas", "'congestion = vegas' must be cubic, newreno or bbr" },
		{ "min-rto = 1", "'min-rto = 1' must be a time (ns, us, ms, s) from 0 to 10s" },
		{ "qp-peers = all", "'qp-peers = all' must be daemons or any" },
		{ "keepalive = 5", "'keepalive = 5' must be auto, 0 for never, or a time such as 60s" },
		{ "personality = ib", "'personality = ib' must be iwarp, roce or efa" },
	};
	char text[512], want[512];

	(void)state;
	for (size_t i = 0; i < RN_ARRAY_LEN(t); i++) {
		snprintf(text, sizeof(text), "%s%s\n", PORT_A, t[i].line);
		snprintf(want, sizeof(want), "t.conf:4: %s\n", t[i].want);
		expect(text, want);
	}
}

static void values_of_the_daemon_that_cannot_be(void **state)
{
	static const struct {
		const char *line, *want;
	} t[] = {
		{ "socket = x.sock", "'socket = x.sock' must be an absolute path" },
		{ "socket-mode = 0999", "'socket-mode = 0999' must be permissions in octal, such as 0660" },
		{ "hugepages = some", "'hugepages = some' must be no, yes or auto" },
		{ "memory = 1M", "'memory = 1M' must be bytes (K, M, G, T) from 64M to 1T" },
		{ "workers = ", "'workers' has no value" },
		{ "workers = 1,", "'workers = 1,' must be auto or at most 16 CPU numbers, such as 2,3" },
		{ "workers = 1-3", "'workers = 1-3' must be auto or at most 16 CPU numbers, such as 2,3" },
		{ "workers = 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16",
		  "'workers = 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16' must be auto or at most 16 CPU numbers, such "
		  "as 2,3" },
		{ "control-cpu = all", "'control-cpu = all' must be any or a CPU number" },
		{ "poll = sometimes", "'poll = sometimes' must be adaptive, busy, or how long an idle worker spins "
				      "before it sleeps (0 to 1s)" },
		{ "file-prefix = a/b", "'file-prefix = a/b' must be at most 31 letters, digits, '-' or '_'" },
		{ "log-level = loud", "'log-level = loud' must be error, warning, info or debug" },
		{ "seed = -1", "'seed = -1' must be a whole number from 0 to 18446744073709551615" },
		{ "flows = 1", "'flows = 1' must be a whole number from 16 to 65536" },
		{ "quota-memory = 0", "'quota-memory = 0' must be bytes (K, M, G, T) from 4K to 64T" },
		{ "quota-qps = 0", "'quota-qps = 0' must be a whole number from 1 to 4096" },
		{ "quota-outstanding = 0", "'quota-outstanding = 0' must be a whole number from 1 to 4294967295" },
	};
	char text[512], want[512], path[160];

	(void)state;
	for (size_t i = 0; i < RN_ARRAY_LEN(t); i++) {
		snprintf(text, sizeof(text), "[rnicd]\n%s\n%s", t[i].line, PORT_A);
		snprintf(want, sizeof(want), "t.conf:2: %s\n", t[i].want);
		expect(text, want);
	}
	memset(path, 'p', sizeof(path));
	path[0] = '/';
	path[120] = '\0';
	snprintf(text, sizeof(text), "[rnicd]\nsocket = %s\n%s", path, PORT_A);
	snprintf(want, sizeof(want),
		 "t.conf:2: 'socket = %s' is too long: a socket's path has at most 107 characters\n", path);
	expect(text, want);
}

static void devices_and_addresses(void **state)
{
	(void)state;
	expect("[port a]\naddress = 10.0.0.1/24\n", "t.conf:1: port 'a' has no 'device'\n");
	expect("[port a]\ndevice = tap:x\n", "t.conf:1: port 'a' has no 'address'\n");
	expect("[port a]\ndevice = eth0\naddress = 10.0.0.1/24\n",
	       "t.conf:2: 'device = eth0' must begin with pair:, memif:, tap:, af_packet:, host:, pcap: or pci:\n");
	expect("[port a]\ndevice = tap:\naddress = 10.0.0.1/24\n",
	       "t.conf:2: 'device = tap:' must name the device behind the colon, without blanks\n");
	expect("[port a]\ndevice = tap:x\naddress = 10.0.0.1\n",
	       "t.conf:3: 'address = 10.0.0.1' must be ADDRESS/BITS, such as 10.0.0.1/24\n");
	expect("[port a]\ndevice = tap:x\naddress = 10.0.0.1/33\n",
	       "t.conf:3: 'address = 10.0.0.1/33' has a prefix length that is not from 1 to 32\n");
	expect("[port a]\ndevice = tap:x\naddress = 300.0.0.1/24\n",
	       "t.conf:3: 'address = 300.0.0.1/24' must be an IPv4 or IPv6 address\n");
	expect("[port a]\ndevice = tap:x\naddress = fd00::1/64\n",
	       "t.conf:3: ports have no IPv6 yet: give port 'a' an IPv4 address\n");
	expect("", "t.conf:1: there is no [port NAME] section: the daemon would own no device\n");
	expect("[rnicd]\nflows = 16\n", "t.conf:2: there is no [port NAME] section: the daemon would own no device\n");
}

static void ports_that_do_not_go_together(void **state)
{
#define PAIR(n, m, ip) "[port " n "]\ndevice = pair:" m "\naddress = " ip "/24\n"
	(void)state;
	expect(PAIR("a", "b", "10.0.0.1"), "t.conf:2: port 'a' is paired with 'b', but there is no section [port b]\n");
	expect(PAIR("a", "a", "10.0.0.1"), "t.conf:2: port 'a' is paired with itself\n");
	expect(PAIR("a", "b", "10.0.0.1") PAIR("b", "c", "10.0.0.2") PAIR("c", "b", "10.0.1.3"),
	       "t.conf:2: port 'a' is paired with 'b', but that one is not paired with it\n");
	expect(PAIR("a", "b", "10.0.0.1") PAIR("b", "a", "10.0.0.1"),
	       "t.conf:6: ports 'a' and 'b' have the same address\n");
	expect(PAIR("a", "b", "10.0.0.1") PAIR("b", "a", "10.0.0.2") "mtu = 9000\n",
	       "t.conf:7: ports 'a' and 'b' are one wire but have different MTUs\n");
	expect(PAIR("a", "b", "10.0.0.1") "mac = 02:00:00:00:00:01\n" PAIR("b", "a",
									   "10.0.0.2") "mac = 02:00:00:00:00:01\n",
	       "t.conf:8: ports 'a' and 'b' have the same MAC address\n");
	expect(PAIR("a", "b", "10.0.0.1") "capture = /dev/x.pc\n" PAIR("b", "a", "10.0.0.2") "capture = /dev/x.pc\n",
	       "t.conf:8: ports 'a' and 'b' are captured to the same file\n");
}

static void what_no_driver_takes_does_not_pass(void **state)
{
	static const struct {
		const char *device, *want;
	} t[] = {
		{ "tap:sixteen-letters-", "names an interface with 16 letters: the kernel's names have at most 15" },
		{ "tap:iface=sixteen-letters-,mac=fixed",
		  "names an interface with 16 letters: the kernel's names have at most 15" },
		{ "tap:a/b", "does not name an interface as the kernel has them: letters, digits, '-' and '_'" },
		{ "tap:mac=fixed", "needs the interface: iface=NAME" },
		{ "af_packet:sixteen-letters-",
		  "names an interface with 16 letters: the kernel's names have at most 15" },
		{ "host:sixteen-letters-", "names an interface with 16 letters: the kernel's names have at most 15" },
		{ "host:a/b", "does not name an interface as the kernel has them: letters, digits, '-' and '_'" },
		{ "pci:3b:00", "must be a PCI address such as pci:0000:3b:00.0 (lspci -D shows them)" },
		{ "pci:0000:3b:00.8", "must be a PCI address such as pci:0000:3b:00.0 (lspci -D shows them)" },
		{ "pci:eth0", "must be a PCI address such as pci:0000:3b:00.0 (lspci -D shows them)" },
		{ "memif:role=master", "has a role other than server or client" },
		{ "memif:id=one", "has an id that is no number" },
		{ "memif:sokcet=/x",
		  "has an unknown argument 'sokcet'; memif takes role, id, socket, socket-abstract, bsize, "
		  "rsize, mac and secret" },
		{ "memif:role=client,zero-copy=yes",
		  "has zero-copy, which rnicd does not support: DPDK's driver would show the other end all of rnicd's "
		  "packet memory. Leave zero-copy out" },
		{ "memif:socket-abstract=no,socket=x", "has a socket that is not an absolute path" },
		{ "memif:socket=/x,socket-abstract=yes",
		  "has a socket that every local user can connect to, and DPDK's driver trusts its peer: "
		  "set socket-abstract=no, and a socket in a folder of your own" },
		{ "memif:rsize=15", "has an rsize that is not from 0 to 14 (the ring has 2 to the power of it slots)" },
	};
	char text[256], want[512];

	(void)state;
	for (size_t i = 0; i < RN_ARRAY_LEN(t); i++) {
		snprintf(text, sizeof(text), "[port a]\ndevice = %s\naddress = 10.0.0.1/24\n", t[i].device);
		snprintf(want, sizeof(want), "t.conf:2: 'device = %s' %s\n", t[i].device, t[i].want);
		expect(text, want);
	}
	expect("[port a]\ndevice = pci:3b:00.0\naddress = 10.0.0.1/24\n", "");
	assert_string_equal(c.d.port[0].args, "0000:3b:00.0");
	expect("[port a]\ndevice = pci:0001:3b:00.0,x=1\naddress = 10.0.0.1/24\n", "");
	assert_string_equal(c.d.port[0].args, "0001:3b:00.0,x=1");
	expect("[port a]\ndevice = memif:role=server\naddress = 10.0.0.1/24\n", "");
	assert_string_equal(c.d.port[0].args, "role=server,socket-abstract=no");
}

static void two_ports_on_one_device_do_not_pass(void **state)
{
#define ON(n, dev, ip) "[port " n "]\ndevice = " dev "\naddress = " ip "\n"
	(void)state;
	expect(ON("a", "tap:t0", "10.0.0.1/24") ON("b", "tap:iface=t0", "10.0.1.1/24"),
	       "t.conf:5: ports 'a' and 'b' are one device\n");
	expect(ON("a", "pci:3b:00.0", "10.0.0.1/24") ON("b", "pci:0000:3b:00.0,x=1", "10.0.1.1/24"),
	       "t.conf:5: ports 'a' and 'b' are one device\n");
	expect(ON("a", "memif:role=server,id=0,socket=/x", "10.0.0.1/24")
		       ON("b", "memif:socket=/x,role=server", "10.0.1.1/24"),
	       "t.conf:5: ports 'a' and 'b' are one device\n");
	expect(ON("a", "memif:role=server,id=0,socket=/x", "10.0.0.1/24")
		       ON("b", "memif:role=server,id=1,socket=/x", "10.0.1.1/24"),
	       "");
}

static void subnets_that_overlap_do_not_pass(void **state)
{
	(void)state;
	expect(ON("a", "tap:t0", "10.0.0.1/8") ON("b", "tap:t1", "10.1.0.1/16"),
	       "t.conf:6: the subnets of ports 'a' and 'b' overlap: which of them has a destination in both?\n");
	expect_notes(ON("a", "tap:t0", "10.0.0.1/24") ON("b", "tap:t1", "10.0.0.2/24"),
		     "t.conf:6: note: ports 'a' and 'b' are in one subnet: programs that bind no address use 'a'\n");
	expect(PAIR("a", "b", "10.0.0.1") PAIR("b", "a", "10.0.0.2"), "");
}

static void a_capture_without_its_folder_does_not_pass(void **state)
{
	(void)state;
	expect(ON("a", "tap:t0", "10.0.0.1/24") "capture = /nonexistent/dir/a.pcapng\n",
	       "t.conf:4: the folder /nonexistent/dir of the capture is not there: make it first\n");
	expect(ON("a", "tap:t0", "10.0.0.1/24") "capture = /tmp\n",
	       "t.conf:4: /tmp is a folder: name a file in it for the capture\n");
}

static void all_mistakes_are_told_at_once(void **state)
{
	(void)state;
	expect("[rnicd]\nflows = 0\nfoo = 1\n[port a]\ndevice = tap:t\nmtu = 0\n",
	       "t.conf:2: 'flows = 0' must be a whole number from 16 to 65536\n"
	       "t.conf:3: unknown key 'foo' in a section [rnicd]\n"
	       "t.conf:6: 'mtu = 0' must be a whole number from 576 to 65280\n"
	       "t.conf:4: port 'a' has no 'address'\n");
}

static void seventeen_ports_are_one_too_many(void **state)
{
	char text[4096], *got;
	size_t n = 0;

	(void)state;
	for (unsigned i = 0; i < 17; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "[port p%u]\ndevice = tap:t%u\naddress = 10.0.%u.1/24\n", i, i, i + 1);
	assert_int_equal(read_text(text, n, &got), 1);
	assert_string_equal(got, "t.conf:49: more than 16 ports\n");
	free(got);
}

static void garbage_is_survived(void **state)
{
	static const char alphabet[] = "[]=# \n\r\tport rnicdmtu0:./,\0\xff%";
	char text[256], *got;
	uint32_t x = 12345;

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		size_t n = i % sizeof(text);
		for (size_t k = 0; k < n; k++) {
			x = x * 1664525 + 1013904223;
			text[k] = alphabet[(x >> 16) % (sizeof(alphabet) - 1)];
		}
		read_text(text, n, &got);
		free(got);
	}
}

static void the_examples_are_without_mistake(void **state)
{
	static const char *const files[] = { "pair.conf",      "memif-a.conf",  "memif-b.conf", "tap.conf",
					     "af_packet.conf", "physical.conf", "host.conf" };
	char path[512];

	(void)state;
	for (size_t i = 0; i < RN_ARRAY_LEN(files); i++) {
		snprintf(path, sizeof(path), "%s/%s", CONFIG_DIR, files[i]);
		assert_int_equal(conf_load(path, &c, stderr), 0);
	}
}

static void a_file_that_is_not_there(void **state)
{
	char *got;
	size_t n;
	FILE *err = open_memstream(&got, &n);

	(void)state;
	assert_int_equal(conf_load("/nonexistent/x.conf", &c, err), 1);
	fclose(err);
	assert_string_equal(got, "/nonexistent/x.conf: cannot be opened: No such file or directory\n");
	free(got);
	err = open_memstream(&got, &n);
	assert_true(conf_load("/", &c, err) > 0);
	fclose(err);
	assert_non_null(strstr(got, "cannot be read: Is a directory"));
	free(got);
}

static void the_help_names_every_key(void **state)
{
	char *got;
	size_t n;
	FILE *out = open_memstream(&got, &n);

	(void)state;
	conf_help(out);
	fclose(out);
	assert_non_null(strstr(got, "\n  mtu               bytes of an IP packet; above 9000 "
				    "on pair ports only (default 1500)\n"));
	assert_non_null(strstr(got, "\n  socket            "));
	free(got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_least_file),
		cmocka_unit_test(memory_goes_with_the_connections),
		cmocka_unit_test(one_users_share_leaves_stags_that_are_hard_to_guess),
		cmocka_unit_test(every_key),
		cmocka_unit_test(mistakes_of_form),
		cmocka_unit_test(bytes_that_are_no_text),
		cmocka_unit_test(unknown_names),
		cmocka_unit_test(second_ones),
		cmocka_unit_test(values_that_cannot_be),
		cmocka_unit_test(values_of_the_daemon_that_cannot_be),
		cmocka_unit_test(devices_and_addresses),
		cmocka_unit_test(ports_that_do_not_go_together),
		cmocka_unit_test(what_no_driver_takes_does_not_pass),
		cmocka_unit_test(two_ports_on_one_device_do_not_pass),
		cmocka_unit_test(subnets_that_overlap_do_not_pass),
		cmocka_unit_test(a_capture_without_its_folder_does_not_pass),
		cmocka_unit_test(all_mistakes_are_told_at_once),
		cmocka_unit_test(seventeen_ports_are_one_too_many),
		cmocka_unit_test(garbage_is_survived),
		cmocka_unit_test(the_examples_are_without_mistake),
		cmocka_unit_test(a_file_that_is_not_there),
		cmocka_unit_test(the_help_names_every_key),
	};
	return cmocka_run_group_tests_name("conf", tests, NULL, NULL);
}
