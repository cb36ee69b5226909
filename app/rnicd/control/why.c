/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/why.h"

#include <stdarg.h>
#include <stddef.h>

#include "control/addr_text.h"
#include "control/loop.h"
#include "iwarp/iw_remedy.h"
#include "iwarp/mpa_neg.h"
#include "iwarp/mpa_rx.h"

#define SAY_AGAIN_NS (10 * RN_NS_PER_S)
#define LOOK_NS      RN_NS_PER_S
#define STALLED_NS   (100 * RN_NS_PER_MS)

enum why {
	WHY_REFUSED,
	WHY_REJECTED,
	WHY_SILENT,
	WHY_SETUP_BROKEN,
	WHY_NO_REQUEST,
	WHY_NO_AGREEMENT,
	WHY_BROKEN,
	WHY_TERMINATE,
	WHY_SPACING,
	WHY_NO_NEIGHBOUR,
	WHY_PATH_MTU,
	WHY_CHECKSUM,
	WHY_FRAGMENTS,
	WHY_BACKLOG,
	WHY_NO_BUFFERS,
	WHY_CAPTURE,
	WHY_PATH_LEFT,
	WHY_AGAIN,
	WHY_STALLED,
	WHY_QUOTA,
	WHY_CQ,
	WHYS
};

struct why_row {
	enum rnicd_log_level level;
	const char *symptom; /* for the log, after the port and the object */
	const char *cause;   /* for the document only */
	const char *remedy;  /* for log and document; NULL: depends on the error, iw_remedy.h */
};

static const struct why_row rows[WHYS] = {
	[WHY_REFUSED] = { RNICD_LOG_INFO, "the peer refused the connection",
			  "No program listens at that address and TCP port, or the peer's port is another one.",
			  "Start the server first; compare the address and the port number of both programs" },
	[WHY_REJECTED] = { RNICD_LOG_INFO, "the peer's program rejected the connection",
			   "The server got the request and rejected it (rdma_reject).",
			   "Look for the reason in the server's output and in the private data of the event" },
	[WHY_SILENT] = { RNICD_LOG_WARNING, "the peer does not answer the connection's set-up",
			 "The peer's host answers ARP, but its TCP does not answer, or no MPA Reply comes: a firewall, "
			 "a program that does not accept, or a TCP program that does not speak MPA.",
			 "Look whether a firewall drops the TCP port, and whether the server accepts the request" },
	[WHY_SETUP_BROKEN] = { RNICD_LOG_WARNING, "the connection broke while it was set up",
			       "The peer reset or closed the TCP connection before it was established: its program "
			       "ended, stopped waiting, or does not speak MPA.",
			       "Look whether the peer's program still runs, and whether it is an RDMA program" },
	[WHY_NO_REQUEST] = { RNICD_LOG_INFO, "the peers sent no MPA Request",
			     "They opened a TCP connection and were silent for 10 s, closed it, or sent other bytes: "
			     "a TCP program at the port of an RDMA server (a health check, a scan, a browser), or "
			     "an RDMA program that hung or ended while it connected.",
			     "Look whether the peers are RDMA programs, and whether they use the right port number" },
	[WHY_NO_AGREEMENT] = { RNICD_LOG_WARNING, "the two ends do not agree on the parameters of the connection",
			       "MPA's negotiation failed: revision, CRC, markers, or the depths of Reads.",
			       "Compare crc, markers, mpa-revision and peer-to-peer of both ends" },
	[WHY_BROKEN] = { RNICD_LOG_INFO, "an established connection broke",
			 "The peer reset its TCP connection or no longer answers: its program was killed, or destroyed "
			 "its queue pair before its last Send was acknowledged (as clients of Ceph do), its host is "
			 "down, or the network lost it.",
			 "Look whether the peer's program and host are alive" },
	[WHY_TERMINATE] = { RNICD_LOG_WARNING, "a connection ended with an error",
			    "One of the two ends sent a Terminate message; see the next table.", NULL },
	[WHY_SPACING] = { RNICD_LOG_ERROR, "the peer's markers are at other places",
			  "MPA markers are on, and the two ends have different marker-spacing: a received FPDU is "
			  "wrong with the spacing of this port, and right with another one.",
			  "Set the same marker-spacing at both ends (512 if the peer is another implementation)" },
	[WHY_NO_NEIGHBOUR] = { RNICD_LOG_WARNING, "this address does not answer ARP",
			       "No host of this network has the address, or frames do not reach it.",
			       "Look for a wrong address, a wrong VLAN, or a link that is down at the other end" },
	[WHY_PATH_MTU] = { RNICD_LOG_WARNING, "segments are cut to fit the path",
			   "A router on the way or the peer has a smaller MTU than the port.",
			   "Set the port's mtu to that of the path, or correct the MTU on the path" },
	[WHY_CHECKSUM] = { RNICD_LOG_WARNING, "packets came with a wrong TCP or UDP checksum",
			   "The sender leaves checksums to a device that does not compute them (veth, tap, bridges), "
			   "or the line damages packets.",
			   "Switch the sender's checksum offload off: ethtool -K INTERFACE tx off" },
	[WHY_FRAGMENTS] = { RNICD_LOG_WARNING, "fragmented packets were dropped",
			    "A host or router on the way fragments packets; rnicd reassembles only UDP over IPv4.",
			    "Set at both ends an mtu that the whole path supports" },
	[WHY_BACKLOG] = { RNICD_LOG_WARNING, "connection requests exceed a listener's backlog",
			  "More peers connect at once than the server's backlog holds, or somebody floods the port "
			  "with SYNs.",
			  "Raise the backlog in rdma_listen, and accept faster" },
	[WHY_NO_BUFFERS] = { RNICD_LOG_WARNING, "packets were lost because packet buffers had run out",
			     "More packets wait for missing packets or slow receivers than the daemon has memory for.",
			     "Raise memory in [rnicd]" },
	[WHY_CAPTURE] = { RNICD_LOG_WARNING, "packets are missing in the capture",
			  "The capture's writer or its disk is slower than the port.",
			  "Capture to memory (/dev/shm), or lower the port's rate" },
	[WHY_PATH_LEFT] = { RNICD_LOG_WARNING, "nothing arrives by this path, its connections go by the others",
			    "A path of a port with several is up and delivers nothing: a switch on the way, the other "
			    "end, or the path's own loss. Each second connections try whether that has changed.",
			    "Mend the path, or take it out of paths" },
	[WHY_AGAIN] = { RNICD_LOG_WARNING, "TCP segments were sent again, more than 1 in 1,000",
			"The network or the receiving host loses packets, or answers too late: a full switch, a receiver "
			"short of buffers or of CPU, a duplex or cable fault, or the port's own loss.",
			"Look at the counters of drops at both ends and of the switches between them; set congestion = bbr "
			"where the line loses packets at random" },
	[WHY_STALLED] = { RNICD_LOG_WARNING, "a worker was not run for 100 ms or more",
			  "Another program used the worker's CPU, or the host of a virtual machine gave that CPU to "
			  "others. Connections wait meanwhile.",
			  "Reserve CPUs for rnicd (key workers), and for the virtual machine on its host" },
	[WHY_QUOTA] = { RNICD_LOG_WARNING, "a client asked for more than it may have",
			"The client's quotas limit how much of the daemon's resources one process can use.",
			"Raise the key that the sentence names in [rnicd], or use fewer objects" },
	[WHY_CQ] = { RNICD_LOG_WARNING, "a completion queue has overrun, and its queue pairs have failed",
		     "More work requests completed than the queue has entries: the program polled too late, or asked "
		     "for too few entries.",
		     "Ask ibv_create_cq for as many entries as work requests may complete between two polls" },
};

struct why_said {
	uint64_t again; /* time until which further occurrences are only counted */
	uint32_t more;  /* their number */
};

static struct why_said said[RNICD_MAX_LINES][WHYS];
static uint64_t seen[RNICD_MAX_LINES][WHYS]; /* sums of the ports' counters at the last check */
static struct loop_timer timer;
static bool stopped;

/* Whether the cause was logged less than SAY_AGAIN_NS ago; then this occurrence is only counted. Else more: text with
 * the number of occurrences that were only counted, for the new line. */
static bool said_lately(struct why_said *s, char *more, size_t len)
{
	const uint64_t now = rnicd_now();

	more[0] = '\0';
	if (now < s->again) {
		s->more++;
		return true;
	}
	if (s->more > 0)
		snprintf(more, len, " (%u more since the last line)", s->more);
	*s = (struct why_said){ .again = now + SAY_AGAIN_NS };
	return false;
}

/* Logs one line: the object, the symptom, the remedy. */
static void say_why(uint32_t port, enum why w, const char *remedy, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static void say_why(uint32_t port, enum why w, const char *remedy, const char *fmt, ...)
{
	char about[320], more[64];
	va_list ap;

	if (said_lately(&said[port][w], more, sizeof(more)))
		return;
	va_start(ap, fmt);
	vsnprintf(about, sizeof(about), fmt, ap);
	va_end(ap);
	rnicd_log(rows[w].level, "port %s: %s: %s%s. %s", rnicd.port[port]->cfg->name, about, rows[w].symptom, more,
		  remedy);
}

static void conn_why(const struct event_fx *fx, enum why w, const char *remedy, const char *detail)
{
	char from[64], to[64];

	say_why(fx->port, w, remedy, "%s:%u to %s:%u%s%s", addr_text(fx->local.ip, from, sizeof(from)), fx->local.port,
		addr_text(fx->remote.ip, to, sizeof(to)), fx->remote.port, detail[0] != '\0' ? ", " : "", detail);
}

static struct iw_err err_of(uint32_t vendor_err)
{
	return (struct iw_err){ .layer = (uint8_t)(vendor_err >> 16),
				.etype = (uint8_t)(vendor_err >> 8),
				.code = (uint8_t)vendor_err };
}

/* The bits of fx->spacings are in the order of mpa_spacings (mpa_rx.h), as are these words. */
static void spacing_why(const struct event_fx *fx)
{
	static const char *const words[MPA_SPACINGS] = { "512", "1024", "2048", "4096", "none" };
	char detail[96] = "the peer's markers fit marker-spacing = ";
	const char *between = "";

	for (uint32_t i = 0; i < MPA_SPACINGS; i++) {
		if ((fx->spacings & 1u << i) == 0)
			continue;
		size_t n = strlen(detail);
		snprintf(detail + n, sizeof(detail) - n, "%s%s", between, words[i]);
		between = " or ";
	}
	conn_why(fx, WHY_SPACING, rows[WHY_SPACING].remedy, detail);
}

/* The error numbers may come from the peer's Terminate, so any value is possible. */
static void terminate_why(const struct event_fx *fx)
{
	struct iw_err e = err_of(fx->vendor_err);
	const char *remedy = iw_err_remedy(e);
	char detail[160];

	snprintf(detail, sizeof(detail), "%s (0x%05x)", iw_err_text(e), fx->vendor_err);
	conn_why(fx, WHY_TERMINATE, remedy != NULL ? remedy : "Look at the output of both programs", detail);
}

void why_connection(const struct event_fx *fx)
{
	enum why w;
	const char *detail = "";

	switch ((enum qp_fx_type)fx->type) {
	case QP_FX_REJECTED: w = WHY_REJECTED; break;
	case QP_FX_UNREACHABLE: w = fx->code == 0 ? WHY_SILENT : WHY_REFUSED; break;
	case QP_FX_CONNECT_ERROR:
		if (fx->spacings != 0) {
			spacing_why(fx);
			return;
		}
		w = fx->code == 0 ? WHY_SETUP_BROKEN : WHY_NO_AGREEMENT;
		if (fx->code != 0)
			detail = mpa_neg_text((enum mpa_neg_verdict)fx->code);
		break;
	case QP_FX_DISCONNECTED:
		if (fx->spacings != 0) {
			spacing_why(fx);
			return;
		}
		if (fx->vendor_err != 0) {
			terminate_why(fx);
			return;
		}
		if (fx->code == 0)
			return;
		w = WHY_BROKEN;
		break;
	case QP_FX_CONNECT_REQUEST:
	case QP_FX_CONNECT_REPLY:
	case QP_FX_ESTABLISHED:
	case QP_FX_CLOSED:
	case QP_FX_QP_EVENT:
	case QP_FX_CQ_ERROR:
	case QP_FX_CQ_NOTIFY:
	case QP_FX_SRQ_EVENT:
	default: return;
	}
	conn_why(fx, w, rows[w].remedy, detail);
}

void why_neighbour(const struct event_neigh *ev)
{
	char addr[64];

	if (ev->status != 0)
		say_why(ev->port, WHY_NO_NEIGHBOUR, rows[WHY_NO_NEIGHBOUR].remedy, "%s",
			addr_text(ev->addr.b, addr, sizeof(addr)));
}

void why_path(const struct event_path *ev)
{
	char addr[64];

	say_why(ev->port, WHY_PATH_MTU, rows[WHY_PATH_MTU].remedy,
		"the path to %s takes packets of %u bytes, not the port's %u",
		addr_text(ev->remote.b, addr, sizeof(addr)), ev->mtu, (unsigned)rnicd.port[ev->port]->cfg->mtu);
}

void why_quota(uint32_t client, int pid, const char *text)
{
	static struct why_said s; /* clients do not belong to a port */
	uint64_t now = rnicd_now();

	if (now < s.again)
		return;
	s.again = now + SAY_AGAIN_NS;
	rnicd_log(rows[WHY_QUOTA].level, "client %u (pid %d): %s: %s. %s", client, pid, rows[WHY_QUOTA].symptom, text,
		  rows[WHY_QUOTA].remedy);
}

void why_cq(uint32_t client, int pid, uint32_t entries)
{
	static struct why_said s;
	uint64_t now = rnicd_now();

	if (now < s.again)
		return;
	s.again = now + SAY_AGAIN_NS;
	rnicd_log(rows[WHY_CQ].level, "client %u (pid %d): %s: it has %u entries. %s", client, pid,
		  rows[WHY_CQ].symptom, entries, rows[WHY_CQ].remedy);
}

/* ---- counters ---- */

/* A counter of ports: if it grows, the cause `why` is logged. */
struct why_counter {
	enum why why;
	size_t offset;    /* in struct rnicd_port_stats */
	const char *unit; /* unit, singular */
};

static const struct why_counter counters[] = {
	{ WHY_CHECKSUM, offsetof(struct rnicd_port_stats, rx_bad_csum), "packet" },
	{ WHY_FRAGMENTS, offsetof(struct rnicd_port_stats, rx_bad) + PKT_FRAGMENT * sizeof(uint64_t), "packet" },
	{ WHY_BACKLOG, offsetof(struct rnicd_port_stats, syn_cookies), "packet" },
	{ WHY_NO_REQUEST, offsetof(struct rnicd_port_stats, no_request), "connection" },
	{ WHY_NO_BUFFERS, offsetof(struct rnicd_port_stats, no_buffer), "packet" },
	{ WHY_CAPTURE, offsetof(struct rnicd_port_stats, capture_drops), "packet" },
	{ WHY_PATH_LEFT, offsetof(struct rnicd_port_stats, path_left), "connection" },
};

static uint64_t sum_of(const struct rnicd_port *p, const struct why_counter *c)
{
	uint64_t sum = 0;

	for (uint32_t w = 0; w < rnicd.n_workers; w++)
		sum += __atomic_load_n((const uint64_t *)(const void *)((const char *)&p->stats[w] + c->offset),
				       __ATOMIC_RELAXED);
	return sum;
}

/* Retransmissions are logged if they are more than 1 in 1,000 data segments of the last second, and at least this
 * many. */
#define AGAIN_LEAST 10u

static void look_at_retransmissions(uint32_t port)
{
	static const struct why_counter again = { WHY_AGAIN, offsetof(struct rnicd_port_stats, tx_again), NULL };
	static const struct why_counter data = { WHY_AGAIN, offsetof(struct rnicd_port_stats, tx_data), NULL };
	static uint64_t data_seen[RNICD_MAX_PORTS];
	const uint64_t a = sum_of(rnicd.port[port], &again), d = sum_of(rnicd.port[port], &data);
	const uint64_t more = a - seen[port][WHY_AGAIN], of = d - data_seen[port];

	seen[port][WHY_AGAIN] = a;
	data_seen[port] = d;
	if (more >= AGAIN_LEAST && more * 1000 > of)
		say_why(port, WHY_AGAIN, rows[WHY_AGAIN].remedy, "%llu of %llu segments of the last second",
			(unsigned long long)more, (unsigned long long)of);
}

static void look_at_workers(void)
{
	const struct why_row *row = &rows[WHY_STALLED];
	char more[64];

	for (uint32_t w = 0; w < rnicd.n_workers; w++) {
		const uint64_t ns = __atomic_exchange_n(&rnicd.stalled[w], 0, __ATOMIC_RELAXED);

		if (ns >= STALLED_NS && !said_lately(&said[0][WHY_STALLED], more, sizeof(more)))
			rnicd_log(row->level, "worker %u, %llu ms: %s%s. %s", w,
				  (unsigned long long)(ns / RN_NS_PER_MS), row->symptom, more, row->remedy);
	}
}

static void look_at_counters(struct loop_timer *t)
{
	if (stopped)
		return;
	for (uint32_t i = 0; i < rnicd_lines(); i++) {
		for (size_t k = 0; k < RN_ARRAY_LEN(counters); k++) {
			enum why w = counters[k].why;
			uint64_t now = sum_of(rnicd.port[i], &counters[k]), more = now - seen[i][w];
			if (more != 0)
				say_why(i, w, rows[w].remedy, "%llu %s%s", (unsigned long long)more, counters[k].unit,
					more == 1 ? "" : "s");
			seen[i][w] = now;
		}
		if (i < rnicd.n_ports)
			look_at_retransmissions(i);
	}
	look_at_workers();
	loop_timer_arm(t, rnicd_now() + LOOK_NS);
}

void why_start(void)
{
	stopped = false;
	timer.due = look_at_counters;
	loop_timer_arm(&timer, rnicd_now() + LOOK_NS);
}

void why_stop(void) { stopped = true; }

/* ---- the page ---- */

void why_document(FILE *out)
{
	struct iw_err e;

	fputs("# When it does not work\n\n"
	      "This page is made from the tables in the code: `rnicd --help-causes > doc/troubleshooting.md`.\n\n"
	      "First run `rnicrun --doctor`, which names what is missing, and read rnicd's log. rnicd logs each of these\n"
	      "causes when it detects one, at most once in ten seconds for each port.\n\n"
	      "## What rnicd's log says\n\n"
	      "| symptom | cause | remedy |\n|---|---|---|\n",
	      out);
	for (uint32_t i = 0; i < WHYS; i++)
		fprintf(out, "| %s | %s | %s. |\n", rows[i].symptom, rows[i].cause,
			rows[i].remedy != NULL ? rows[i].remedy : "See the next table");
	fputs("\n## What vendor_err of a failed completion says\n\n"
	      "`rnicctl explain 0x10202` prints the same. The number is the error of the Terminate message that was sent\n"
	      "or received (RFC 5040, 4.8): layer << 16 | type << 8 | code.\n\n"
	      "| vendor_err | symptom | remedy |\n|---|---|---|\n",
	      out);
	for (uint32_t i = 0; iw_remedy_at(i, &e); i++)
		fprintf(out, "| 0x%x%02x%02x | %s | %s |\n", e.layer, e.etype, e.code, iw_err_text(e),
			iw_err_remedy(e));
}
