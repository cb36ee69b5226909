/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP ports at which a program will probably listen soon, because it has bound them. For EXPECT_NS a SYN to such a port
 * is not answered, in place of being refused, so that the peer's TCP repeats the SYN. The last EXPECT_PORTS ports are
 * remembered.
 */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"

#define EXPECT_NS    (3 * RN_NS_PER_S)
#define EXPECT_PORTS 64u

/* Control thread: the port is expected from now on. port: index of the device; lport: the TCP port. */
void expect_put(uint32_t port, uint16_t lport, uint64_t now);
/* Any worker: whether the port is expected. */
bool expect_is(uint32_t port, uint16_t lport, uint64_t now);

#endif
