/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram sockets over the kernel's UDP sockets (ks_gram.h), on loopback. The test plays the control thread and the
 * programs, a peer with the protocol of doc/datagram-sockets.md, and another process of the user, and runs each turn
 * itself.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "border/event.h"
#include "border/handed.h"
#include "crc32c/crc32c.h"
#include "iwarp/ddp.h"
#include "sockets/ks_gram.h"

#define LOOPBACK  0x7f000001u /* address of device 0; device 1 has the next one, and the peer the one after it */
#define DEVS      2u
#define PEER      (LOOPBACK + DEVS)
#define PEER_PORT 4000u /* UDP port of the peer's socket, which exists in the peer's datagrams only */
#define TURNS     200000u
#define NONCE     UINT64_C(0x1234)
#define FLOOD     3000u
#define LETTER    512u
#define SCRIBBLES 3000u
#define AT_ONCE   1000u /* answers to strangers after a pause, and one more in AGAIN_NS */
#define AGAIN_NS  (200 * RN_NS_PER_US)

static struct stream_user user;
static uint16_t datagram_port;
static int peer = -1; /* the peer's datagram-port */
static uint32_t n_bits;

/* ---- the control thread ---- */

static void answered(struct cmd *c) { c->type = CMD_NOTHING; }
static void take(const struct event *ev) { (void)ev; }

static void turns(uint32_t n)
{
	while (n-- > 0) {
		assert_true(ks_poll());
		(void)event_collect(64, take);
	}
}

static void carry_out(struct cmd *c)
{
	c->done = answered;
	cmd_send_all(c);
	while (c->type != CMD_NOTHING)
		turns(1);
}

#define UNTIL(cond) \
	for (uint32_t round = 0; !(cond); round++) { \
		assert_true(round < TURNS); \
		turns(1); \
	}

/* ---- programs ---- */

static union ks_sockaddr address(uint32_t ip, uint16_t port)
{
	return (union ks_sockaddr){ .v4 = { AF_INET, htons(port), { htonl(ip) }, { 0 } } };
}

/* A UDP socket of the kernel's at this address, and its port. reuse: SO_REUSEPORT. */
static int kernels(uint32_t ip, uint16_t *port, bool reuse)
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

/* Hands the kernel's socket over. */
static struct gram *gram_of(int fd)
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

static void gram_over(struct gram *g)
{
	struct cmd c = { .type = CMD_GRAM_CLOSE, .gram.gram = g };

	carry_out(&c);
	assert_false(c.gram.waits);
	free(g->mem);
	free(g);
}

static void send_to(struct gram *g, uint32_t ip, uint16_t port, uint32_t len)
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

/* Waits for the socket's next datagram, and checks its octets. */
static struct ipc_gram_rec receive(struct gram *g)
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

/* The first datagrams go plain, and those after the answer of b's side by iWARP. */
static void until_iwarp(struct gram *a, struct gram *b, uint16_t port)
{
	uint8_t wire = IPC_GRAM_PLAIN;

	for (uint32_t i = 0; wire != IPC_GRAM_IWARP; i++) {
		assert_true(i < TURNS);
		send_to(a, LOOPBACK + 1, port, 10);
		wire = receive(b).wire;
	}
}

static void wait_error(const struct gram *g, uint32_t err)
{
	UNTIL(g->mem->error != 0);
	assert_int_equal(g->mem->error, err);
}

/* ---- the peer ---- */

static void peer_says(const uint8_t *p, size_t len)
{
	const union ks_sockaddr to = address(LOOPBACK, datagram_port);

	assert_int_equal(sendto(peer, p, len, 0, &to.sa, sizeof(to.v4)), len);
}

static void peer_says_message(const struct udps_msg *m)
{
	uint8_t buf[UDPS_LEN];

	udps_build(buf, m);
	peer_says(buf, sizeof(buf));
}

static void peer_asks(uint16_t port)
{
	const struct udps_msg m = { .to = port, .from = PEER_PORT, .unit = 1024, .nonce = NONCE, .status = UDPS_ASKS };

	peer_says_message(&m);
}

/* What the peer hears next. */
static struct udps_msg peer_hears(void)
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

/* A datagram with octets as those of send_to(). */
static uint32_t peer_build(uint8_t *buf, uint16_t port, uint32_t qkey, uint32_t len)
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

static void peer_sends(uint16_t port, uint32_t qkey)
{
	uint8_t buf[256];

	peer_says(buf, peer_build(buf, port, qkey, 50));
}

/* ---- tests ---- */

static void plain_datagrams_come_and_leave_by_the_kernels_socket(void **state)
{
	uint16_t p = 0, q = 0;
	const int below = kernels(LOOPBACK, &p, false), other = kernels(LOOPBACK + 1, &q, false);
	const union ks_sockaddr to = address(LOOPBACK, p);
	const uint8_t local[4] = { 127, 0, 0, 1 };
	struct gram *g = gram_of(below);
	uint8_t buf[100], sent[3] = { 0, 7, 14 };

	(void)state;
	assert_int_equal(sendto(other, sent, sizeof(sent), 0, &to.sa, sizeof(to.v4)), sizeof(sent));
	const struct ipc_gram_rec rec = receive(g);
	assert_true(rec.len == 3 && rec.wire == IPC_GRAM_PLAIN && rec.port == q && rec.ttl == 64 && rec.dev != 0);
	assert_memory_equal(rec.local, local, sizeof(local));
	send_to(g, LOOPBACK + 1, q, 60); /* nobody speaks iWARP for this port */
	turns(2);
	assert_int_equal(recv(other, buf, sizeof(buf), 0), 60);
	close(other);
	close(below);
	gram_over(g);
}

static void a_socket_of_ipv6_has_ipv4_datagrams_too(void **state)
{
	const int below = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), none = 0, one = 1;
	const struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	const uint8_t local[4] = { 127, 0, 0, 1 };
	struct handed *h = NULL;
	struct handed_gram about;
	uint8_t buf[100], sent[3] = { 0, 7, 14 };
	char err[256];
	uint16_t q = 0;

	(void)state;
	setsockopt(below, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	assert_int_equal(bind(below, (const struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(ks_taker.keep_gram(below, &h, &about, err, sizeof(err)), EAFNOSUPPORT);
	close(below);
	const int both = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), other = kernels(LOOPBACK + 1, &q, false);
	setsockopt(both, IPPROTO_IPV6, IPV6_V6ONLY, &none, sizeof(none));
	assert_int_equal(bind(both, (const struct sockaddr *)&any, sizeof(any)), 0);
	struct gram *g = gram_of(both);
	const union ks_sockaddr to = address(LOOPBACK, g->lport);
	assert_int_equal(sendto(other, sent, sizeof(sent), 0, &to.sa, sizeof(to.v4)), sizeof(sent));
	const struct ipc_gram_rec rec = receive(g);
	assert_true(rec.len == 3 && rec.wire == IPC_GRAM_PLAIN && rec.port == q && rec.ttl == 64);
	assert_memory_equal(rec.local, local, sizeof(local));
	send_to(g, LOOPBACK + 1, q, 60);
	turns(2);
	assert_int_equal(recv(other, buf, sizeof(buf), 0), 60);
	peer_asks(g->lport);
	assert_int_equal(peer_hears().status, UDPS_TAKES);
	close(other);
	close(both);
	gram_over(g);
}

static void two_sockets_agree_on_the_wire(void **state)
{
	static const uint32_t lens[] = { 0, 1, 1400, 20000, 40000, UDPS_LONGEST };
	uint16_t p = 0, q = 0;
	const int a_below = kernels(LOOPBACK, &p, false), b_below = kernels(LOOPBACK + 1, &q, false);
	struct gram *a = gram_of(a_below), *b = gram_of(b_below);
	struct ipc_gram_rec rec;

	(void)state;
	send_to(a, LOOPBACK + 1, q, 10);
	assert_int_equal(receive(b).wire, IPC_GRAM_PLAIN); /* no datagram waits for the answer */
	until_iwarp(a, b, q);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(lens); i++) {
		send_to(a, LOOPBACK + 1, q, lens[i]);
		rec = receive(b);
		assert_true(rec.wire == IPC_GRAM_IWARP && rec.len == lens[i] && rec.port == p);
		assert_true(rec.ttl == 33 && rec.tos == 0x20);
	}
	assert_int_equal(b->mem->wire, IPC_GRAM_IWARP);
	close(a_below);
	close(b_below);
	gram_over(b);
	gram_over(a);
}

static void a_connected_socket_is_told_of_a_closed_port(void **state)
{
	uint16_t p = 0, q = 0;
	const int a_below = kernels(LOOPBACK, &p, false), b_below = kernels(LOOPBACK + 1, &q, false);
	const union ks_sockaddr to = address(LOOPBACK + 1, q);

	(void)state;
	assert_int_equal(connect(a_below, &to.sa, sizeof(to.v4)), 0);
	struct gram *a = gram_of(a_below), *b = gram_of(b_below);
	until_iwarp(a, b, q);
	close(b_below);
	gram_over(b);
	send_to(a, LOOPBACK + 1, q, 10); /* by iWARP still */
	wait_error(a, ECONNREFUSED);
	a->mem->error = 0;
	send_to(a, LOOPBACK + 1, q, 10); /* plain: the kernel says so */
	wait_error(a, ECONNREFUSED);
	close(a_below);
	gram_over(a);
}

static void the_port_of_a_closed_socket_is_free(void **state)
{
	uint16_t p = 0, q = 0;
	const int below = kernels(LOOPBACK, &p, false), other = kernels(LOOPBACK + 1, &q, false);
	struct gram *g = gram_of(below);
	uint8_t byte;

	(void)state;
	for (uint32_t i = 0; i < 20; i++)
		send_to(g, LOOPBACK + 1, q, 1);
	close(below);
	gram_over(g);
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(recv(other, &byte, 1, 0), 1);
	close(kernels(LOOPBACK, &p, false));
	close(other);
}

static void a_broken_ring_stops_its_socket_alone(void **state)
{
	static const struct ipc_gram_rec bad[] = {
		{ .len = IPC_GRAM_RING, .port = 1 },
		{ .len = UDPS_LONGEST + 1, .port = 1 },
		{ .len = 1, .port = 0 },
		{ .len = 1, .port = 1, .wire = IPC_GRAM_IWARP + 1 },
		{ .len = 4 * IPC_GRAM_UNIT + 1, .port = 1 },
	};

	(void)state;
	for (uint32_t i = 0; i <= RN_ARRAY_LEN(bad); i++) {
		uint16_t p = 0;
		const int below = kernels(LOOPBACK, &p, false);
		struct gram *g = gram_of(below);
		if (i < RN_ARRAY_LEN(bad))
			memcpy((uint8_t *)g->mem + IPC_GRAM_TX_OFF, &bad[i], sizeof(bad[i]));
		g->mem->tx_tail = i < RN_ARRAY_LEN(bad) ? 4 * IPC_GRAM_UNIT : IPC_GRAM_RING + IPC_GRAM_UNIT;
		ks_gram_ring(g);
		turns(2);
		assert_int_equal(g->mem->state, IPC_GRAM_BROKEN);
		close(below);
		gram_over(g);
	}
}

/* The addresses stay those of loopback: nothing may leave this host. */
static void a_program_that_scribbles_harms_no_other_socket(void **state)
{
	uint16_t p = 0, q = 0;
	const int a_below = kernels(LOOPBACK, &p, false), b_below = kernels(LOOPBACK + 1, &q, false);
	const struct pkt_addr to = pkt_addr_ip4(LOOPBACK + 1);
	struct gram *a = gram_of(a_below), *b = gram_of(b_below);
	uint32_t broken = 0;

	(void)state;
	srandom(1);
	for (uint32_t i = 0; i < SCRIBBLES; i++) {
		uint8_t *ring = (uint8_t *)a->mem + IPC_GRAM_TX_OFF + a->tx_head % IPC_GRAM_RING;
		struct ipc_gram_rec rec = { .len = (uint32_t)random() % (i % 2 != 0 ? 1u << 17 : 3000u),
					    .port = random() % 8 != 0 ? q : 0,
					    .dev = (uint16_t)random(),
					    .tos = (uint8_t)random(),
					    .ttl = (uint8_t)random(),
					    .wire = (uint8_t)(random() % 4),
					    .slot = (uint8_t)random() };
		memcpy(rec.ip, to.b, sizeof(rec.ip));
		rec.local[0] = random() % 4 != 0 ? 0 : 127;
		memcpy(ring, &rec, sizeof(rec));
		a->mem->tx_tail = random() % 8 != 0 ? a->tx_head + ipc_gram_need(rec.len) : (uint32_t)random();
		a->mem->rx_head = random() % 8 != 0 ? a->rx_tail : (uint32_t)random();
		a->mem->rx_room = (uint32_t)random();
		a->mem->want = (uint32_t)random() % 4;
		ks_gram_ring(a);
		turns(1);
		b->mem->rx_head = b->mem->rx_tail;
		if (a->broken) {
			broken++;
			gram_over(a);
			a = gram_of(a_below);
		}
	}
	assert_in_range(broken, 1, SCRIBBLES - 1);
	gram_over(a);
	a = gram_of(a_below);
	until_iwarp(a, b, q);
	close(a_below);
	close(b_below);
	gram_over(a);
	gram_over(b);
}

static void the_peer_needs_the_key(void **state)
{
	struct qp_stats *st = &ks.rc.qp.stats;
	uint16_t p = 0;
	const int below = kernels(LOOPBACK, &p, false);
	struct gram *g = gram_of(below);

	(void)state;
	peer_asks(p);
	const struct udps_msg m = peer_hears();
	assert_true(m.status == UDPS_TAKES && m.nonce == NONCE && m.from == p && m.to == PEER_PORT);
	const uint64_t wrong = st->ud_qkey, crc = st->ud_crc;
	peer_sends(p, m.qkey + 1);
	assert_int_equal(peer_hears().status, UDPS_STALE);
	assert_int_equal(st->ud_qkey, wrong + 1);
	uint8_t buf[256];
	const uint32_t n = peer_build(buf, p, m.qkey, 50);
	buf[n - 1] ^= 1;
	peer_says(buf, n);
	UNTIL(st->ud_crc != crc);
	assert_int_equal(g->mem->rx_tail, 0);
	peer_sends(p, m.qkey);
	const struct ipc_gram_rec rec = receive(g);
	assert_true(rec.wire == IPC_GRAM_IWARP && rec.port == PEER_PORT && rec.len == 50);
	close(below);
	gram_over(g);
	peer_sends(p, m.qkey);
	const struct udps_msg gone = peer_hears();
	assert_true(gone.status == UDPS_NOBODY && gone.nonce == 0 && gone.qkey == m.qkey);
	peer_asks(p);
	assert_int_equal(peer_hears().status, UDPS_NOBODY);
}

static void an_answer_counts_for_the_next_socket_of_the_port(void **state)
{
	uint16_t p = 0;
	const int below = kernels(LOOPBACK, &p, false);
	struct gram *g = gram_of(below);
	uint8_t buf[256];
	struct udpl_hdr h;
	ssize_t n = -1;

	(void)state;
	send_to(g, PEER, PEER_PORT, 50);
	const struct udps_msg asked = peer_hears();
	assert_int_equal(asked.status, UDPS_ASKS);
	gram_over(g);
	const struct udps_msg takes = {
		.to = p, .from = PEER_PORT, .unit = 1024, .qkey = 7, .nonce = asked.nonce, .status = UDPS_TAKES
	};
	peer_says_message(&takes);
	turns(2);
	g = gram_of(below);
	send_to(g, PEER, PEER_PORT, 50);
	UNTIL((n = recv(peer, buf, sizeof(buf), MSG_DONTWAIT)) >= 0);
	assert_int_equal(udpl_parse(buf, (uint32_t)n, &h), UDPL_OK);
	assert_true(h.kind == UDPL_SEND && h.qkey == 7);
	close(below);
	gram_over(g);
}

/* Which of such sockets gets a datagram, the kernel chooses. */
static void sockets_that_share_a_port_get_plain_datagrams(void **state)
{
	uint16_t p = 0;
	const int below = kernels(LOOPBACK, &p, true);
	struct gram *g = gram_of(below);

	(void)state;
	peer_asks(p);
	assert_int_equal(peer_hears().status, UDPS_NOBODY);
	close(below);
	gram_over(g);
}

/* A program may give the port back behind the plane's back, and another user's program may have it now. */
static void a_socket_that_has_given_its_port_back_takes_nothing(void **state)
{
	union ks_sockaddr to = address(PEER, PEER_PORT), none = { .sa = { .sa_family = AF_UNSPEC } };
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)state;
	assert_int_equal(connect(fd, &to.sa, sizeof(to.v4)), 0);
	struct gram *g = gram_of(fd);
	const struct cmd_gram any = { .gram = g };
	struct cmd c = { .type = CMD_GRAM_PEER, .gram = any };
	carry_out(&c);
	peer_asks(g->lport);
	assert_int_equal(peer_hears().status, UDPS_TAKES);
	assert_int_equal(connect(fd, &none.sa, sizeof(none.sa)), 0);
	peer_asks(g->lport);
	assert_int_equal(peer_hears().status, UDPS_NOBODY);
	assert_true(g->broken);
	close(fd);
	gram_over(g);
}

/* The socket by which another process of the user has the UDP port at device 0. */
static int process_with(uint16_t port)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const int n = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "rnic-embedded-%u-7f000001-udp%u",
			       (unsigned)geteuid(), port);

	assert_int_equal(bind(fd, (const struct sockaddr *)&un,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)),
			 0);
	return fd;
}

static void what_is_for_another_process_is_passed_to_it(void **state)
{
	uint16_t p = 0;
	const int hold = kernels(LOOPBACK, &p, false), there = process_with(p);
	uint8_t letter[LETTER];
	ssize_t n;

	(void)state;
	peer_asks(p);
	UNTIL((n = recv(there, letter, LETTER, MSG_DONTWAIT)) >= 0);
	assert_true(n > (ssize_t)UDPS_LEN && udpl_crc_good(letter + n - UDPS_LEN, UDPS_LEN));
	/* this process's socket with the port gets plain datagrams alone, and the other process has the port still */
	struct gram *g = gram_of(hold);
	peer_asks(p);
	UNTIL(recv(there, letter, LETTER, MSG_DONTWAIT) == n);
	close(there);
	peer_asks(p);
	assert_int_equal(peer_hears().status, UDPS_NOBODY);
	close(hold);
	gram_over(g);
}

static void a_flood_of_questions_gets_few_answers(void **state)
{
	const struct rnicd_port_stats *st = &rnicd.port[0]->stats[0];
	const uint64_t before = st->gram_answered, dropped = st->rx_unanswered, begun = rnicd_now();
	uint8_t buf[UDPS_LEN];

	(void)state;
	for (uint32_t i = 0; i < FLOOD; i++) {
		peer_asks(9);
		turns(1);
		while (recv(peer, buf, sizeof(buf), MSG_DONTWAIT) > 0)
			;
	}
	assert_true(st->gram_answered + st->rx_unanswered >= before + dropped + FLOOD);
	assert_true(st->gram_answered - before <= AT_ONCE + 1 + (rnicd_now() - begun) / AGAIN_NS);
}

/* ---- start ---- */

static int begin(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_datagrams_come_and_leave_by_the_kernels_socket),
		cmocka_unit_test(a_socket_of_ipv6_has_ipv4_datagrams_too),
		cmocka_unit_test(two_sockets_agree_on_the_wire),
		cmocka_unit_test(a_connected_socket_is_told_of_a_closed_port),
		cmocka_unit_test(the_port_of_a_closed_socket_is_free),
		cmocka_unit_test(a_broken_ring_stops_its_socket_alone),
		cmocka_unit_test(a_program_that_scribbles_harms_no_other_socket),
		cmocka_unit_test(the_peer_needs_the_key),
		cmocka_unit_test(an_answer_counts_for_the_next_socket_of_the_port),
		cmocka_unit_test(sockets_that_share_a_port_get_plain_datagrams),
		cmocka_unit_test(a_socket_that_has_given_its_port_back_takes_nothing),
		cmocka_unit_test(what_is_for_another_process_is_passed_to_it),
		cmocka_unit_test(a_flood_of_questions_gets_few_answers),
	};

	return cmocka_run_group_tests_name("ks_gram", tests, begin, NULL);
}
