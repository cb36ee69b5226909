/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP ports at which a program will most likely listen in a moment: it has bound them. For EXPECT_NS a SYN to such a
 * port is not refused but left unanswered; the peer's TCP repeats it. The last EXPECT_PORTS ports are kept.
 */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"

#define EXPECT_NS    (3 * RN_NS_PER_S)
#define EXPECT_PORTS 64u

/* Control thread. port: index of the device. */
void expect_put(uint32_t port, uint16_t lport, uint64_t now);
/* Any worker. */
bool expect_is(uint32_t port, uint16_t lport, uint64_t now);

#endif
