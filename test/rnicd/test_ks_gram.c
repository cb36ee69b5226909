/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagram sockets over the kernel's UDP sockets (ks_gram.h), on loopback: the programs that have them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "border/handed.h"
#include "ks_gram_rig.h"

#define SCRIBBLES 3000u

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
	};

	return cmocka_run_group_tests_name("ks_gram", tests, ks_gram_begin, NULL);
}
