/* SPDX-License-Identifier: BSD-3-Clause */
#include "listen_rig.h"

#include <stdlib.h>

#include "border/event.h"

#define FRAMES 1024u

struct rnicd_port port;
struct rnicd_port_cfg port_cfg;
struct rnicd_worker w;
struct pkt_addr peer_ip;
static struct rte_ring *wire;

void put_segment(uint16_t to, uint16_t from, struct pkt_tcp_seg s, const uint8_t *p)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(port.pool);
	const struct pkt_flow f = {
		.l2 = { .dst = { 2, 0, 0, 0, 0, 2 }, .src = { 2, 0, 0, 0, 0, 1 }, .vlan = PKT_NO_VLAN },
		.src = peer_ip,
		.dst = port_cfg.ip,
		.sport = from,
		.dport = to
	};
	struct pkt_tcp_template t;

	assert_non_null(m);
	pkt_tcp_template_init(&t, &f);
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);
	const uint32_t hdr = pkt_tcp_hdr_len(&t, s.opt_len);
	for (uint32_t i = 0; i < s.payload_len; i++)
		frame[hdr + i] = p[i];
	s.wnd = 1000;
	s.payload_sum = pkt_sum(frame + hdr, s.payload_len);
	pkt_tcp_build(&t, &s, PKT_CSUM_FULL, frame);
	m->data_len = (uint16_t)(hdr + s.payload_len);
	m->pkt_len = m->data_len;
	assert_int_equal(rte_ring_enqueue(wire, m), 0);
}

void segment_to(uint16_t to, uint16_t from, uint32_t seq, uint32_t ack, uint8_t flags)
{
	put_segment(to, from, (struct pkt_tcp_seg){ .seq = seq, .ack = ack, .flags = flags }, NULL);
}

int listen_setup(void **state)
{
	static const uint8_t mac[PKT_MAC_LEN] = { 2, 0, 0, 0, 0, 2 };
	static struct flow_slot slots[2][1024];
	struct rc_tcp_cfg cfg;
	struct tcpl_cfg tcp;
	char err[128];

	(void)state;
	memset(&w, 0, sizeof(w));
	memset(&port, 0, sizeof(port));
	peer_ip = pkt_addr_ip4(0x0a000001);
	port_cfg = (struct rnicd_port_cfg){ .ip = pkt_addr_ip4(0x0a000002), .prefix_len = 120, .vlan = PKT_NO_VLAN };
	memcpy(port.mac, mac, sizeof(mac));
	port.cfg = &port_cfg;
	port.mtu = 1500;
	port.caps.queues = 1;
	port.peer = &port;
	port.wire = &wire;
	port.pool = pool_for_test("frames", FRAMES - 1, 256);
	wire = rte_ring_create("wire", FRAMES, 0, 0);
	rnicd.port[0] = &port;
	rnicd.n_ports = rnicd.n_workers = rnicd.cfg.n_workers = 1;
	w.tx[0] = (struct port_tx){ .port = &port, .st = &port.stats[0], .wake = RN_NEVER };
	w.now = rnicd_now();
	w.arp[0] = arp_create(&port, &port.stats[0], 0);
	flow_init(&w.flows, slots[0], RN_ARRAY_LEN(slots[0]));
	flow_init(&w.listens, slots[1], RN_ARRAY_LEN(slots[1]));
	rc_tcp_cfg_default(&cfg, 0, 1500, 1);
	uint64_t size = (rc_tcp_ctx_size(&cfg) + RN_CACHE_LINE - 1) / RN_CACHE_LINE * RN_CACHE_LINE;
	w.qp_mem = aligned_alloc(RN_CACHE_LINE, size);
	if (port.pool == NULL || wire == NULL || w.arp[0] == NULL || w.qp_mem == NULL)
		return -1;
	memset(w.qp_mem, 0, size);
	tcpl_cfg_default(&tcp, 1460);
	stream_tcp_init(0, &tcp);
	struct cmd c = { .type = CMD_STREAM_LISTEN,
			 .stream_listen = { .lport = LPORT, .backlog = BACKLOG, .families = STREAM_IP4, .key = 1 } };
	if (rc_tcp_ctx_init(&w.tcp, &cfg, w.qp_mem, size) != QP_OK || !stream_start(&w, STREAMS, 1500) ||
	    !event_start(1, err, sizeof(err)))
		return -1;
	command_stream(&w, &c);
	(void)worker_rx(&w); /* the first call gives the port its share of a turn */
	return c.stream_listen.verdict[0] == CONN_OK ? 0 : -1;
}

int listen_teardown(void **state)
{
	(void)state;
	port_tx_drop_all(&w.tx[0]);
	arp_destroy(w.arp[0]);
	event_stop();
	stream_stop(&w);
	uint32_t left = rte_mempool_in_use_count(port.pool);
	free(w.qp_mem);
	rte_ring_free(wire);
	rte_mempool_free(port.pool);
	return left == 0 ? 0 : -1;
}

void segment(uint16_t from, uint32_t seq, uint32_t ack, uint8_t flags) { segment_to(LPORT, from, seq, ack, flags); }

void syn(uint16_t from) { segment(from, ISS, 0, PKT_TCP_SYN); }

void one_burst(uint32_t frames)
{
	assert_int_equal(worker_rx(&w), frames);
	port_tx_drop_all(&w.tx[0]);
}

void rest_of_turn(void)
{
	while (w.streams.ready_any != 0) {
		stream_transmit(&w);
		port_tx_drop_all(&w.tx[0]);
	}
	stream_events(&w);
}

struct stream *stream_of(uint16_t from)
{
	for (uint32_t i = 0; i < w.streams.used; i++)
		if (!stream_is_over(&w.streams.at[i]) && w.streams.at[i].addr.rport == from)
			return &w.streams.at[i];
	return NULL;
}

uint32_t free_streams(void)
{
	uint32_t n = w.streams.n - w.streams.used;

	for (const struct stream *s = w.streams.free; s != NULL && n <= w.streams.n; s = s->next)
		n++;
	return n;
}

struct stream *open_to_nobody(struct ipc_stream *mem, uint16_t lport)
{
	static struct stream_user user;
	struct cmd c = { .type = CMD_STREAM_OPEN,
			 .stream = { .key = lport,
				     .addr = { .local = port_cfg.ip,
					       .remote = pkt_addr_ip4(0x0a000009),
					       .lport = lport,
					       .rport = LPORT },
				     .mem = mem,
				     .user = &user } };

	command_stream(&w, &c);
	assert_int_equal(c.stream.verdict, CONN_OK);
	rest_of_turn();
	return c.stream.stream;
}
