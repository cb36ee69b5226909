/* SPDX-License-Identifier: BSD-3-Clause */
#include "border/expect.h"

/* Milliseconds until which the port is expected, shifted by 24; the device's index, shifted by 16; the TCP port. */
static uint64_t expected[EXPECT_PORTS]; /* relaxed atomics: no other data depends on them */

void expect_put(uint32_t port, uint16_t lport, uint64_t now)
{
	static uint32_t next;
	uint64_t until = (now + EXPECT_NS) / RN_NS_PER_MS;

	__atomic_store_n(&expected[next++ % EXPECT_PORTS], until << 24 | (uint64_t)port << 16 | lport,
			 __ATOMIC_RELAXED);
}

bool expect_is(uint32_t port, uint16_t lport, uint64_t now)
{
	for (uint32_t i = 0; i < EXPECT_PORTS; i++) {
		uint64_t e = __atomic_load_n(&expected[i], __ATOMIC_RELAXED);
		if ((e & 0xffffff) == (port << 16 | lport) && now / RN_NS_PER_MS < e >> 24)
			return true;
	}
	return false;
}
