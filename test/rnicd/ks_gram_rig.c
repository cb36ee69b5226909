/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "border/handed.h"
#include "crc32c/crc32c.h"
#include "iwarp/ddp.h"
#include "ks_gram_rig.h"

int peer = -1;

static struct stream_user user;
static uint16_t datagram_port;
static uint32_t n_bits;

/* ---- programs ---- */

union ks_sockaddr address(uint32_t ip, uint16_t port)
{
	return (union ks_sockaddr){ .v4 = { AF_INET, htons(port), { htonl(ip) }, { 0 } } };
}

int kernels(uint32_t ip, uint16_t *port, bool reuse)
{
	union ks_sockaddr at = address(ip, *port);
	socklen_t len = sizeof(at.v4);
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1;

	if (reuse)
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	assert_int_equal(bind(fd, &at.sa, len), 0);
	assert_int_equal(getsockname(fd, &at.sa, &len), 0);
	*port = ntohs(at.v4.sin_port);
	return fd;
}

struct gram *gram_of(int fd)
{
	struct gram *g = calloc(1, sizeof(*g));
	struct handed_gram about;
	struct pkt_addr ip;
	char err[256];

	assert_non_null(g);
	assert_int_equal(ks_taker.keep_gram(fd, &g->below, &about, err, sizeof(err)), 0);
	memcpy(ip.b, about.local.ip, sizeof(ip.b));
	g->key = ++n_bits;
	g->bit = n_bits;
	g->dev = pkt_addr_is_ip4(&ip) ? ks_dev_of(&ip) : GRAM_ANY_DEV;
	g->lport = (uint16_t)about.local.port;
	g->balance = about.balance;
	g->peer.port = (uint16_t)about.peer.port;
	memcpy(g->peer.ip.b, about.peer.ip, sizeof(about.peer.ip));
	g->mem = calloc(1, IPC_GRAM_SIZE);
	g->user = &user;
	assert_non_null(g->mem);
	struct cmd c = { .type = CMD_GRAM_OPEN, .gram.gram = g };
	carry_out(&c);
	return g;
}

void gram_over(struct gram *g)
{
	struct cmd c = { .type = CMD_GRAM_CLOSE, .gram.gram = g };

	carry_out(&c);
	assert_false(c.gram.waits);
	free(g->mem);
	free(g);
}

void send_to(struct gram *g, uint32_t ip, uint16_t port, uint32_t len)
{
	struct ipc_gram_rec rec = { .len = len, .port = port, .wire = IPC_GRAM_IWARP, .ttl = 33, .tos = 0x20 };
	uint8_t *ring = (uint8_t *)g->mem + IPC_GRAM_TX_OFF;
	const struct pkt_addr to = pkt_addr_ip4(ip);

	memcpy(rec.ip, to.b, sizeof(rec.ip));
	memcpy(ring + g->mem->tx_tail % IPC_GRAM_RING, &rec, sizeof(rec));
	for (uint32_t i = 0; i < len; i++)
		ring[(g->mem->tx_tail + sizeof(rec) + i) % IPC_GRAM_RING] = (uint8_t)(i * 7);
	g->mem->tx_tail += ipc_gram_need(len);
	ks_gram_ring(g);
}

struct ipc_gram_rec receive(struct gram *g)
{
	const uint8_t *ring = (const uint8_t *)g->mem + IPC_GRAM_RX_OFF;
	struct ipc_gram_rec rec;

	UNTIL(g->mem->rx_tail != g->mem->rx_head);
	memcpy(&rec, ring + g->mem->rx_head % IPC_GRAM_RING, sizeof(rec));
	for (uint32_t i = 0; i < rec.len; i++) {
		const uint8_t *at = ring + (g->mem->rx_head + sizeof(rec) + i) % IPC_GRAM_RING;
		if (rec.slot != 0)
			at = (const uint8_t *)g->mem + IPC_GRAM_SLOT_OFF + (rec.slot - 1u) * IPC_GRAM_SLOT + i;
		if (*at != (uint8_t)(i * 7))
			fail_msg("octet %u of %u is wrong", i, rec.len);
	}
	g->mem->rx_head += ipc_gram_rec_need(&rec);
	return rec;
}

void until_iwarp(struct gram *a, struct gram *b, uint16_t port)
{
	uint8_t wire = IPC_GRAM_PLAIN;

	for (uint32_t i = 0; wire != IPC_GRAM_IWARP; i++) {
		assert_true(i < KS_RIG_TURNS);
		send_to(a, LOOPBACK + 1, port, 10);
		wire = receive(b).wire;
	}
}

void wait_error(const struct gram *g, uint32_t err)
{
	UNTIL(g->mem->error != 0);
	assert_int_equal(g->mem->error, err);
}
/* ---- the peer ---- */

void peer_says(const uint8_t *p, size_t len)
{
	const union ks_sockaddr to = address(LOOPBACK, datagram_port);

	assert_int_equal(sendto(peer, p, len, 0, &to.sa, sizeof(to.v4)), len);
}

void peer_says_message(const struct udps_msg *m)
{
	uint8_t buf[UDPS_LEN];

	udps_build(buf, m);
	peer_says(buf, sizeof(buf));
}

void peer_asks(uint16_t port)
{
	const struct udps_msg m = { .to = port, .from = PEER_PORT, .unit = 1024, .nonce = NONCE, .status = UDPS_ASKS };

	peer_says_message(&m);
}

struct udps_msg peer_hears(void)
{
	uint8_t buf[2048];
	struct udps_msg m;
	struct udpl_hdr h;
	ssize_t n = -1;

	UNTIL((n = recv(peer, buf, sizeof(buf), MSG_DONTWAIT)) >= 0);
	assert_int_equal(udpl_parse(buf, (uint32_t)n, &h), UDPL_OK);
	assert_true(udpl_crc_good(buf, (uint32_t)n));
	assert_true(udps_parse(&h, buf + UDPL_HDR_LEN, &m));
	return m;
}

uint32_t peer_build(uint8_t *buf, uint16_t port, uint32_t qkey, uint32_t len)
{
	const struct udpl_hdr h = {
		.kind = UDPL_SEND, .dst_qpn = udps_number(port), .src_qpn = udps_number(PEER_PORT), .qkey = qkey
	};
	const struct ddp_hdr d = ddp_untagged(RDMAP_SEND, true, 0, 1, 0);

	udpl_build(buf, &h);
	uint32_t n = UDPL_HDR_LEN + ddp_build(buf + UDPL_HDR_LEN, &d);
	for (uint32_t i = 0; i < len; i++)
		buf[n++] = (uint8_t)(i * 7);
	udpl_crc_put(buf, n, crc32c(0, buf, n));
	return n + UDPL_CRC_LEN;
}

void peer_sends(uint16_t port, uint32_t qkey)
{
	uint8_t buf[256];

	peer_says(buf, peer_build(buf, port, qkey, 50));
}

/* ---- start ---- */

int ks_gram_begin(void **state)
{
	static const uint8_t mac[PKT_MAC_LEN] = { 2 };
	struct stream_user *views[] = { &user };
	struct cmd c = { .type = CMD_STREAM_JOIN, .stream_join = views };
	char err[256];

	(void)state;
	peer = kernels(PEER, &datagram_port, false);
	for (uint32_t i = 0; i < DEVS; i++) {
		rnicd.cfg.port[i] = (struct rnicd_port_cfg){
			.name = "lo", .mtu = 9000, .mpa_rev = 2, .max_ird = 4, .max_ord = 4, .ud_port = datagram_port
		};
		rnicd.cfg.port[i].ip = pkt_addr_ip4(LOOPBACK + i);
		if (!ks_port_add(mac))
			return -1;
		rnicd.port[i]->if_index = 1;
	}
	rnicd.cfg.flows = 64;
	rnicd.cfg.record_timeout_ns = rnicd.cfg.record_linger_ns = RN_NS_PER_S;
	ks.net = &ks_net_kernel;
	ks.serves = true;
	user.bell = calloc(1, sizeof(*user.bell));
	if (user.bell == NULL || !ks_start(err, sizeof(err)) || rnicd.cfg.port[0].ud_port == 0)
		return -1;
	carry_out(&c);
	return 0;
}
