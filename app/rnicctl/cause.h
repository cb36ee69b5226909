/* SPDX-License-Identifier: BSD-3-Clause */
/* What the number in a completion's vendor_err means, and what to do about it. */
#ifndef CAUSE_H
#define CAUSE_H

#include <stdint.h>

/*
 * Writes the meaning of a vendor_err to stdout: Terminate layer << 16 | error type << 8 | error code (RFC 5040, 4.8).
 * Returns the exit status: 1 when no RFC names the number.
 */
int cause_explain(uint32_t vendor_err);

#endif
