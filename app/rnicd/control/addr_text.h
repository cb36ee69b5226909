/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ADDR_TEXT_H
#define ADDR_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Writes an IP address of 128 bits as text; an IPv4-mapped address as IPv4. Returns buf. */
const char *addr_text(const uint8_t ip[16], char *buf, size_t len);

#endif
