/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The start of the plane of an embedded program, over the kernel's sockets on loopback, for tests that run its turns
 * themselves.
 */
#ifndef SOCKETS_RIG_H
#define SOCKETS_RIG_H

#include "sockets/ks.h"

#define DEVS     3u
#define LOOPBACK 0x7f000001u /* address of device 0; device 1 has the next one, and so on */

/* For cmocka's groups of tests. */
int sockets_begin(void **state);

#endif
