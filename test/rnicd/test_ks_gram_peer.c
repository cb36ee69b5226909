/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram sockets over the kernel's UDP sockets (ks_gram.h), on loopback, and a peer with the protocol of
 * doc/datagram-sockets.md, or another process of the user.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "ks_gram_rig.h"

#define FLOOD    3000u
#define LETTER   512u
#define AT_ONCE  1000u /* answers to strangers after a pause, and one more in AGAIN_NS */
#define AGAIN_NS (200 * RN_NS_PER_US)

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_peer_needs_the_key),
		cmocka_unit_test(an_answer_counts_for_the_next_socket_of_the_port),
		cmocka_unit_test(sockets_that_share_a_port_get_plain_datagrams),
		cmocka_unit_test(a_socket_that_has_given_its_port_back_takes_nothing),
		cmocka_unit_test(what_is_for_another_process_is_passed_to_it),
		cmocka_unit_test(a_flood_of_questions_gets_few_answers),
	};

	return cmocka_run_group_tests_name("ks_gram_peer", tests, ks_gram_begin, NULL);
}
