/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host on a tap device: its TCP is tcp_lite, and its peer is the kernel, which has the other end of the tap.
 *	tap_host TAP A.B.C.D [bbr|newreno]	A.B.C.D: the host's address. Congestion control: CUBIC unless given
 *	tap_host TAP TAP			no host, only a wire between two taps: the kernel's TCP at both ends
 * The host answers ARP, and listens on the ports 7 (echo), 9 (sink: after the peer's FIN it sends the number of bytes
 * and their hash, 8 bytes each) and 19 (source: receives a number of 8 bytes, then sends this number of bytes).
 * Commands, each a line on stdin:
 *	connect A.B.C.D PORT BYTES	sends a pattern to an echo server, compares, prints "connect ok|FAILED ..."
 *	impair LOSS DUP REORDER DELAY	both directions, seeded: parts per million of the frames, and us of delay (a
 *					reordered frame is delayed by twice that and 300 us); prints "impair ok"
 *	stat				prints "stat conns N free N ...": connections, free frame buffers, and
 *					tcp_lite's counters, added up over the connections that have ended
 *	quit
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/rn_rng.h"
#include "pkt/pkt.h"
#include "tcp_lite/tcpl.h"

#define CONNS   256u
#define CHUNKS  4096u
#define RECS    4096u
#define HOLD    4096u
#define BUF     (1u << 18)
#define NPKT    8192u
#define PKT_LEN 2048u
#define PERIOD  65521u

enum service { SVC_ECHO = 7, SVC_SINK = 9, SVC_SOURCE = 19, SVC_CLIENT = 0 };

struct conn {
	struct tcpl_conn c;
	struct tcpl_chunk chunk[CHUNKS];
	struct tcpl_txrec rec[RECS];
	struct tcpl_sent sent[RECS];
	struct tcpl_hold hold[HOLD];
	struct pkt_tcp_template tmpl;
	struct pkt_flow flow;
	bool used, peer_fin, bad;
	enum service svc;
	uint64_t got, queued, acked, total, hash;
	uint8_t head[16];
	uint8_t buf[BUF]; /* echo: received bytes that are not yet acknowledged on their way back */
};

/* A frame under way in the impaired wire. */
struct transit {
	uint64_t at;
	uint32_t pkt, len;
	bool out;
};

static struct transit line[NPKT];
static uint32_t n_line;
static uint32_t loss_ppm, dup_ppm, reorder_ppm;
static uint64_t delay_ns;
static struct rn_rng rng;

static struct conn conns[CONNS];
static uint8_t pkts[NPKT][PKT_LEN];
static uint32_t free_list[NPKT], n_free;
static uint8_t pattern[PERIOD];
static struct tcpl_cfg cfg;
static const uint64_t key[2] = { 0x243f6a8885a308d3, 0x13198a2e03707344 };
static const uint8_t my_mac[6] = { 2, 0, 0, 0, 9, 2 };
static uint8_t peer_mac[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
static struct pkt_addr my_ip;
static int tap, far = -1; /* far: the second tap, if this process is only the wire */
static uint16_t next_port = 40000;
static struct tcpl_stats sum;

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * RN_NS_PER_S + (uint64_t)t.tv_nsec;
}

static void put(uint64_t ref)
{
	if (ref != 0)
		free_list[n_free++] = (uint32_t)ref - 1;
}

static void add_stats(const struct tcpl_stats *s)
{
	sum.rexmits += s->rexmits;
	sum.recoveries += s->recoveries;
	sum.rtos += s->rtos;
	sum.tlps += s->tlps;
	sum.spurious += s->spurious;
	sum.lost_rexmits += s->lost_rexmits;
	sum.ooo += s->ooo;
	sum.dups += s->dups;
	sum.win_probes += s->win_probes;
	sum.fast_in += s->fast_in;
	sum.segs_in += s->segs_in;
}

/* ---- to the wire ---- */

static void tap_write(int fd, const uint8_t *f, uint32_t len)
{
	if (write(fd, f, len) < 0) {
		/* the kernel's side is full or down: the frame counts as lost */
	}
}

static bool impaired(void) { return loss_ppm || dup_ppm || reorder_ppm || delay_ns; }

/* Takes over the packet pkts[i]. */
static void line_put(uint64_t now, uint32_t i, uint32_t len, bool out)
{
	if (rn_rng_chance(&rng, loss_ppm)) {
		free_list[n_free++] = i;
		return;
	}
	uint64_t at = now + delay_ns + (rn_rng_chance(&rng, reorder_ppm) ? delay_ns + 300000 : 0);
	line[n_line++] = (struct transit){ at, i, len, out };
	if (rn_rng_chance(&rng, dup_ppm) && n_free > 0) {
		uint32_t j = free_list[--n_free];
		memcpy(pkts[j], pkts[i], len);
		line[n_line++] = (struct transit){ at + 1000, j, len, out };
	}
}

static void send_frame(const uint8_t *f, uint32_t len)
{
	if (!impaired()) {
		tap_write(tap, f, len);
	} else if (n_free > 0) {
		uint32_t i = free_list[--n_free];
		memcpy(pkts[i], f, len);
		line_put(clock_ns(), i, len, true);
	}
}

static void send_seg(struct pkt_tcp_template *t, const struct tcpl_out *o, const uint8_t *payload)
{
	uint8_t f[PKT_LEN];
	struct pkt_tcp_seg s = { o->seq, o->ack, o->wnd, o->flags, o->optlen, o->opt, o->len, 0 };

	s.payload_sum = pkt_sum(payload, o->len);
	uint32_t n = pkt_tcp_build(t, &s, PKT_CSUM_FULL, f);
	memcpy(f + n, payload, o->len);
	send_frame(f, n + o->len);
}

static uint8_t byte_at(const struct conn *k, uint64_t off)
{
	switch (k->svc) {
	case SVC_ECHO: return k->buf[off % BUF];
	case SVC_SINK: return k->head[off];
	case SVC_SOURCE:
	case SVC_CLIENT: break;
	}
	return pattern[off % PERIOD];
}

static void transmit(struct conn *k, const struct tcpl_out *o)
{
	uint8_t payload[PKT_LEN];
	uint32_t n = 0, idx = o->chunk, off = o->off;

	while (n < o->len) {
		const struct tcpl_chunk *ch = tcpl_chunk(&k->c, idx++);
		for (; off < ch->len && n < o->len; off++)
			payload[n++] = byte_at(k, ch->ref + off);
		off = 0;
	}
	send_seg(&k->tmpl, o, payload);
}

/* ---- services ---- */

static void finish(struct conn *k, uint32_t bits)
{
	struct tcpl_slice s;
	uint64_t ref;

	if (k->svc == SVC_CLIENT) {
		bool ok = !k->bad && k->got == k->total && (bits & TCPL_EV_CLOSED);
		printf("connect %s got %" PRIu64 " of %" PRIu64 " bits %x\n", ok ? "ok" : "FAILED", k->got, k->total,
		       bits);
		fflush(stdout);
	}
	while (tcpl_rx_next(&k->c, &s))
		put(s.ref);
	while (tcpl_rx_drop(&k->c, &ref))
		put(ref);
	while (tcpl_acked(&k->c, &ref) || tcpl_tx_drop(&k->c, &ref))
		;
	add_stats(&k->c.stats);
	k->used = false;
}

static void eat(struct conn *k, const uint8_t *p, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++, k->got++) {
		switch (k->svc) {
		case SVC_ECHO: k->buf[k->got % BUF] = p[i]; break;
		case SVC_SINK: k->hash = (k->hash ^ p[i]) * UINT64_C(0x100000001b3); break;
		case SVC_SOURCE:
			if (k->got < 8)
				k->total = k->total << 8 | p[i];
			break;
		case SVC_CLIENT: k->bad |= p[i] != pattern[k->got % PERIOD]; break;
		}
	}
}

static bool queue(struct conn *k, uint64_t want)
{
	while (k->queued < want && tcpl_room(&k->c) > 0) {
		uint32_t len = (uint32_t)rn_min_u64(want - k->queued, tcpl_emss(&k->c));
		if (!tcpl_send(&k->c, len, k->queued))
			return false;
		k->queued += len;
	}
	return k->queued == want;
}

/* Queues the bytes that the service has to send now; closes the connection after the last byte. */
static void serve(struct conn *k, uint64_t now)
{
	uint64_t ref;

	while (tcpl_acked(&k->c, &ref))
		k->acked = ref;
	if (tcpl_get_state(&k->c) < TCPL_S_ESTABLISHED)
		return;
	switch (k->svc) {
	case SVC_ECHO: /* bytes stay in the buffer from the chunk after the last acknowledged one on */
		tcpl_set_rcv_space(&k->c, BUF - (uint32_t)(k->got - k->acked));
		if (queue(k, k->got) && k->peer_fin)
			tcpl_shutdown(&k->c, now);
		break;
	case SVC_SINK:
		if (!k->peer_fin)
			break;
		rn_store_be64(k->head, k->got);
		rn_store_be64(k->head + 8, k->hash);
		if (queue(k, 16))
			tcpl_shutdown(&k->c, now);
		break;
	case SVC_SOURCE:
		if (k->got >= 8 && queue(k, k->total))
			tcpl_shutdown(&k->c, now);
		break;
	case SVC_CLIENT:
		if (queue(k, k->total))
			tcpl_shutdown(&k->c, now);
		break;
	}
}

static void pump(struct conn *k, uint64_t now)
{
	struct tcpl_out o;

	serve(k, now);
	while (tcpl_out(&k->c, now, &o))
		transmit(k, &o);
}

/* ---- connections ---- */

static struct conn *find(const struct pkt *p)
{
	for (uint32_t i = 0; i < CONNS; i++) {
		struct conn *k = &conns[i];
		if (k->used && k->flow.sport == p->dport && k->flow.dport == p->sport &&
		    pkt_addr_eq(&k->flow.dst, &p->src))
			return k;
	}
	return NULL;
}

static struct conn *make(const struct pkt_flow *flow, enum service svc)
{
	for (uint32_t i = 0; i < CONNS; i++) {
		struct conn *k = &conns[i];
		if (k->used)
			continue;
		struct tcpl_mem mem = { .chunk = k->chunk,
					.rec = k->rec,
					.hold = k->hold,
					.chunk_n = CHUNKS,
					.rec_n = RECS,
					.hold_n = HOLD,
					.sent = k->sent };
		tcpl_init(&k->c, &cfg, &mem);
		k->used = true;
		k->peer_fin = k->bad = false;
		k->got = k->queued = k->acked = k->total = 0;
		k->hash = UINT64_C(0xcbf29ce484222325);
		k->svc = svc;
		k->flow = *flow;
		pkt_tcp_template_init(&k->tmpl, flow);
		return k;
	}
	return NULL;
}

static struct pkt_flow flow_to(const struct pkt_addr *dst, uint16_t sport, uint16_t dport)
{
	struct pkt_flow f = { .src = my_ip, .dst = *dst, .sport = sport, .dport = dport, .ttl = 64 };

	memcpy(f.l2.src, my_mac, 6);
	memcpy(f.l2.dst, peer_mac, 6);
	f.l2.vlan = PKT_NO_VLAN;
	return f;
}

static uint32_t isn(const struct pkt_flow *f, uint64_t now)
{
	uint8_t t[36];

	memcpy(t, f->src.b, 16);
	memcpy(t + 16, f->dst.b, 16);
	rn_store_be16(t + 32, f->sport);
	rn_store_be16(t + 34, f->dport);
	return tcpl_isn(key, t, sizeof(t), now);
}

static void refuse(const struct pkt *p, const struct tcpl_seg *s)
{
	struct pkt_flow f = flow_to(&p->src, p->dport, p->sport);
	struct pkt_tcp_template t;
	struct tcpl_out o;

	if (!tcpl_rst_for(s, &o))
		return;
	pkt_tcp_template_init(&t, &f);
	send_seg(&t, &o, (const uint8_t *)"");
}

/* True: the packet is kept. */
static bool tcp_in(uint64_t now, const struct pkt *p, const uint8_t *f, uint64_t ref)
{
	struct tcpl_seg s = { p->tcp_seq,   p->tcp_ack,     p->payload_len, p->tcp_wnd,
			      p->tcp_flags, p->tcp_opt_len, p->tcp_opt,     ref };
	struct conn *k = find(p);
	struct tcpl_slice sl;
	struct tcpl_ev ev;

	if (!k) {
		struct pkt_flow fl = flow_to(&p->src, p->dport, p->sport);
		bool open = p->dport == SVC_ECHO || p->dport == SVC_SINK || p->dport == SVC_SOURCE;
		if (open && (s.flags & (TCPL_SYN | TCPL_ACK | TCPL_RST)) == TCPL_SYN)
			k = make(&fl, p->dport);
		if (k) {
			if (tcpl_accept_syn(&k->c, now, isn(&fl, now), &s) != TCPL_OK)
				k->used = false;
		} else {
			refuse(p, &s);
		}
		return false;
	}
	enum tcpl_verdict v = tcpl_in(&k->c, now, &s, &ev);
	if (v == TCPL_NEW_SYN) {
		tcpl_abort(&k->c);
		finish(k, 0);
		return tcp_in(now, p, f, ref);
	}
	if (ev.bits & TCPL_EV_DATA)
		eat(k, f + p->payload_off + ev.slice.off, ev.slice.len);
	while (tcpl_rx_next(&k->c, &sl)) {
		const uint8_t *g = pkts[sl.ref - 1];
		struct pkt h;
		if (pkt_parse(g, PKT_LEN, PKT_LEN, &h) == PKT_OK)
			eat(k, g + h.payload_off + sl.off, sl.len);
		if (sl.ref != ref)
			put(sl.ref);
		else
			ev.held = false;
	}
	k->peer_fin |= (ev.bits & TCPL_EV_PEER_FIN) != 0;
	bool held = ev.held;
	if (ev.bits & (TCPL_EV_RESET | TCPL_EV_TIMEOUT | TCPL_EV_CLOSED)) {
		pump(k, now);
		finish(k, ev.bits);
	}
	return held;
}

static void arp_in(const uint8_t *f, uint32_t len, const struct pkt *p)
{
	struct pkt_arp a, r = { .op = PKT_ARP_REPLY };
	struct pkt_l2 l2 = { .vlan = PKT_NO_VLAN };
	uint8_t out[64];

	if (pkt_arp_parse(f, len, p, &a) != PKT_OK || a.op != PKT_ARP_REQUEST || !pkt_addr_eq(&a.target, &my_ip))
		return;
	memcpy(peer_mac, a.sender_mac, 6);
	memcpy(l2.dst, a.sender_mac, 6);
	memcpy(l2.src, my_mac, 6);
	memcpy(r.sender_mac, my_mac, 6);
	memcpy(r.target_mac, a.sender_mac, 6);
	r.sender = my_ip;
	r.target = a.sender;
	send_frame(out, pkt_arp_build(out, &l2, &r));
}

/* Takes over the packet pkts[i]. */
static void frame_in(uint64_t now, uint32_t i, uint32_t len)
{
	struct pkt p;
	bool kept = false;

	if (far >= 0) {
		tap_write(far, pkts[i], len);
	} else if (pkt_parse(pkts[i], len, len, &p) == PKT_OK) {
		struct rn_iov l4 = { pkts[i] + p.l4_off, p.l4_len };
		if (p.kind == PKT_KIND_ARP)
			arp_in(pkts[i], len, &p);
		else if (p.kind == PKT_KIND_TCP && pkt_addr_eq(&p.dst, &my_ip) && pkt_l4_csum_ok(&p, &l4, 1))
			kept = tcp_in(now, &p, pkts[i], (uint64_t)i + 1);
	}
	if (!kept)
		free_list[n_free++] = i;
}

static bool receive(uint64_t now, int fd)
{
	if (fd < 0 || n_free == 0)
		return false;
	uint32_t i = free_list[n_free - 1];
	ssize_t len = read(fd, pkts[i], PKT_LEN);

	if (len <= 0)
		return false;
	n_free--;
	if (impaired()) {
		line_put(now, i, (uint32_t)len, fd == far);
	} else if (fd == far) {
		tap_write(tap, pkts[i], (uint32_t)len);
		free_list[n_free++] = i;
	} else {
		frame_in(now, i, (uint32_t)len);
	}
	return true;
}

static void line_run(uint64_t now)
{
	uint32_t n = n_line, k = 0;
	static struct transit due[NPKT];
	uint32_t n_due = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (line[i].at <= now)
			due[n_due++] = line[i];
		else
			line[k++] = line[i];
	}
	n_line = k;
	for (uint32_t i = 0; i < n_due; i++) {
		if (due[i].out) {
			tap_write(tap, pkts[due[i].pkt], due[i].len);
			free_list[n_free++] = due[i].pkt;
		} else {
			frame_in(now, due[i].pkt, due[i].len);
		}
	}
}

/* ---- commands and the loop ---- */

static void print_stat(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < CONNS; i++)
		n += conns[i].used && tcpl_get_state(&conns[i].c) != TCPL_S_TIME_WAIT;
	printf("stat conns %u free %u of %u rexmits %u recoveries %u rtos %u tlps %u spurious %u lost_again %u ooo %u "
	       "dups %u win_probes %u fast %u of %u\n",
	       n, n_free, NPKT, sum.rexmits, sum.recoveries, sum.rtos, sum.tlps, sum.spurious, sum.lost_rexmits,
	       sum.ooo, sum.dups, sum.win_probes, sum.fast_in, sum.segs_in);
	fflush(stdout);
}

static bool command(uint64_t now)
{
	char text[128], ip[64];
	unsigned port;
	uint64_t bytes;
	struct in_addr a;

	if (!fgets(text, sizeof(text), stdin) || strncmp(text, "quit", 4) == 0)
		return false;
	if (strncmp(text, "stat", 4) == 0)
		print_stat();
	else if (sscanf(text, "impair %u %u %u %" SCNu64, &loss_ppm, &dup_ppm, &reorder_ppm, &bytes) == 4) {
		delay_ns = bytes * RN_NS_PER_US;
		printf("impair ok\n");
		fflush(stdout);
	} else if (sscanf(text, "connect %63s %u %" SCNu64, ip, &port, &bytes) == 3 &&
		   inet_pton(AF_INET, ip, &a) == 1) {
		struct pkt_addr dst = pkt_addr_ip4(ntohl(a.s_addr));
		struct pkt_flow f = flow_to(&dst, next_port++, (uint16_t)port);
		struct conn *k = make(&f, SVC_CLIENT);
		if (!k)
			return true;
		k->total = bytes;
		tcpl_connect(&k->c, now, isn(&f, now));
	}
	return true;
}

static int open_tap(const char *name)
{
	struct ifreq r = { .ifr_flags = IFF_TAP | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);

	strncpy(r.ifr_name, name, IFNAMSIZ - 1);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &r) < 0) {
		perror("tap");
		exit(1);
	}
	return fd;
}

static struct timespec wait_for(uint64_t now)
{
	uint64_t wake = now + RN_NS_PER_S;

	for (uint32_t i = 0; i < CONNS; i++)
		if (conns[i].used)
			wake = rn_min_u64(wake, tcpl_next_wake(&conns[i].c));
	for (uint32_t i = 0; i < n_line; i++)
		wake = rn_min_u64(wake, line[i].at);
	wake = wake > now ? wake - now : 0;
	return (struct timespec){ (time_t)(wake / RN_NS_PER_S), (long)(wake % RN_NS_PER_S) };
}

int main(int argc, char **argv)
{
	struct in_addr a;

	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: tap_host TAP A.B.C.D|TAP [bbr|newreno]\n");
		return 2;
	}
	tap = open_tap(argv[1]);
	if (inet_pton(AF_INET, argv[2], &a) == 1)
		my_ip = pkt_addr_ip4(ntohl(a.s_addr));
	else
		far = open_tap(argv[2]);
	tcpl_cfg_default(&cfg, 1460);
	if (argc == 4)
		cfg.cc = strcmp(argv[3], "bbr") == 0 ? &tcpl_bbr : &tcpl_newreno;
	cfg.rcv_space = 4u << 20;
	cfg.min_rto_ns = 50 * RN_NS_PER_MS; /* the kernel delays ACKs by up to 40 ms */
	setvbuf(stdin, NULL, _IONBF, 0);
	for (uint32_t i = 0; i < PERIOD; i++)
		pattern[i] = (uint8_t)(i * 7 + (i >> 8) * 13);
	for (uint32_t i = 0; i < NPKT; i++)
		free_list[n_free++] = i;
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		struct pollfd fds[3] = { { tap, POLLIN, 0 }, { 0, POLLIN, 0 }, { far, POLLIN, 0 } };
		struct tcpl_ev ev;

		struct timespec wait = wait_for(clock_ns());
		ppoll(fds, 3, &wait, NULL);
		uint64_t now = clock_ns();
		if ((fds[1].revents & (POLLIN | POLLHUP)) && !command(now))
			return 0;
		for (int burst = 0; burst < 32 && receive(now, tap); burst++)
			;
		for (int burst = 0; burst < 32 && receive(now, far); burst++)
			;
		line_run(now);
		for (uint32_t i = 0; i < CONNS; i++) {
			struct conn *k = &conns[i];
			if (!k->used)
				continue;
			tcpl_timer(&k->c, now, &ev);
			pump(k, now);
			if (ev.bits & (TCPL_EV_TIMEOUT | TCPL_EV_CLOSED))
				finish(k, ev.bits);
		}
	}
}
