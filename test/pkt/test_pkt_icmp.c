/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pkt/pkt_icmp.h"

static const uint8_t a_mac[6] = { 2, 0, 0, 0, 0, 1 }, b_mac[6] = { 2, 0, 0, 0, 0, 2 };

/*
 * Captured from two Linux hosts: 192.0.2.1:47445 sends "hi" to 192.0.2.2:9, where nobody listens; the answer says so.
 */
static const uint8_t datagram[] = { 0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00,
				    0x01, 0x08, 0x00, 0x45, 0x00, 0x00, 0x1e, 0x47, 0x00, 0x40, 0x00,
				    0x40, 0x11, 0x6f, 0xcb, 0xc0, 0x00, 0x02, 0x01, 0xc0, 0x00, 0x02,
				    0x02, 0xb9, 0x55, 0x00, 0x09, 0x00, 0x0a, 0x5a, 0x0e, 0x68, 0x69 };
static const uint8_t answer[] = { 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0x00, 0x00, 0x00, 0x00, 0x02,
				  0x08, 0x00, 0x45, 0xc0, 0x00, 0x3a, 0x64, 0x54, 0x00, 0x00, 0x40, 0x01,
				  0x91, 0xab, 0xc0, 0x00, 0x02, 0x02, 0xc0, 0x00, 0x02, 0x01, 0x03, 0x03,
				  0x81, 0x1c, 0x00, 0x00, 0x00, 0x00, 0x45, 0x00, 0x00, 0x1e, 0x47, 0x00,
				  0x40, 0x00, 0x40, 0x11, 0x6f, 0xcb, 0xc0, 0x00, 0x02, 0x01, 0xc0, 0x00,
				  0x02, 0x02, 0xb9, 0x55, 0x00, 0x09, 0x00, 0x0a, 0x5a, 0x0e, 0x68, 0x69 };

static struct pkt parsed(const uint8_t *frame, uint32_t len)
{
	struct pkt p;

	assert_int_equal(pkt_parse(frame, len, len, &p), PKT_OK);
	return p;
}

static uint32_t told(uint8_t *out)
{
	struct pkt p = parsed(datagram, sizeof(datagram));
	struct pkt_l2 l2 = { .vlan = PKT_NO_VLAN };

	memcpy(l2.dst, a_mac, 6);
	memcpy(l2.src, b_mac, 6);
	return pkt_icmp_port_build(out, &l2, datagram, sizeof(datagram), &p);
}

static void a_refusal_is_built_as_linux_does(void **state)
{
	uint8_t out[PKT_ICMP_PORT_MAX];
	(void)state;

	assert_int_equal(told(out), sizeof(answer));
	assert_memory_equal(out, answer, 18);
	(void)parsed(out, sizeof(answer)); /* the header's checksum and identification differ from Linux's */
	assert_memory_equal(out + 20, answer + 20, 4);
	assert_memory_equal(out + 26, answer + 26, sizeof(answer) - 26);
}

static void a_refusal_of_linux_is_read(void **state)
{
	struct pkt p = parsed(answer, sizeof(answer));
	struct pkt_refused r;
	(void)state;

	assert_true(pkt_icmp_refused(answer, sizeof(answer), &p, &r));
	assert_int_equal(pkt_addr_to_ip4(&r.src), 0xc0000201);
	assert_int_equal(pkt_addr_to_ip4(&r.dst), 0xc0000202);
	assert_int_equal(r.sport, 47445);
	assert_int_equal(r.dport, 9);
}

static void what_is_no_refusal_of_a_datagram_is_not_read_as_one(void **state)
{
	uint8_t out[PKT_ICMP_PORT_MAX];
	uint32_t len = told(out);
	struct pkt p = parsed(out, len);
	struct pkt_refused r;
	(void)state;

	assert_false(pkt_icmp_refused(out, len - 1, &p, &r)); /* a truncated frame */
	for (uint32_t cut = 0; cut < 28; cut++) {             /* a quote that is too short */
		struct pkt q = p;
		q.payload_len = cut;
		assert_false(pkt_icmp_refused(out, len, &q, &r));
	}
	const struct {
		uint32_t at;
		uint8_t is;
	} other[] = { { 34, 11 }, { 35, 1 }, { 42, 0x65 }, { 42, 0x44 }, { 42, 0x4f }, { 51, 6 }, { 48, 0x20 } };
	for (unsigned i = 0; i < RN_ARRAY_LEN(other); i++) {
		len = told(out);
		out[other[i].at] = other[i].is;
		assert_false(pkt_icmp_refused(out, len, &p, &r));
	}
	struct pkt u = parsed(datagram, sizeof(datagram));
	assert_false(pkt_icmp_refused(datagram, sizeof(datagram), &u, &r));
}

static uint32_t told_of(uint8_t group_mac, uint8_t src0, uint8_t dst0)
{
	uint8_t out[PKT_ICMP_PORT_MAX], in[sizeof(datagram)];
	struct pkt p = parsed(datagram, sizeof(datagram));
	struct pkt_l2 l2 = { .vlan = PKT_NO_VLAN };

	memcpy(in, datagram, sizeof(in));
	in[0] |= group_mac;
	p.src.b[12] = src0;
	p.dst.b[12] = dst0;
	return pkt_icmp_port_build(out, &l2, in, sizeof(in), &p);
}

static void nobody_is_told_of_groups_and_broadcasts(void **state)
{
	(void)state;
	assert_int_not_equal(told_of(0, 10, 10), 0);
	assert_int_equal(told_of(1, 10, 10), 0);
	assert_int_equal(told_of(0, 224, 10), 0);
	assert_int_equal(told_of(0, 255, 10), 0);
	assert_int_equal(told_of(0, 0, 10), 0);
	assert_int_equal(told_of(0, 127, 10), 0);
	assert_int_equal(told_of(0, 10, 239), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_refusal_is_built_as_linux_does),
		cmocka_unit_test(a_refusal_of_linux_is_read),
		cmocka_unit_test(what_is_no_refusal_of_a_datagram_is_not_read_as_one),
		cmocka_unit_test(nobody_is_told_of_groups_and_broadcasts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
