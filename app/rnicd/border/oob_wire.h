/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The private data with which queue pairs without connection manager find each other. Here is only the part that a
 * plane reads: the queue pair to which an MPA Request wants to connect. control/oob.h has the whole format.
 */
#ifndef OOB_WIRE_H
#define OOB_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/rn_be.h"

#define OOB_WIRE_MAGIC  "RNQP"
#define OOB_WIRE_WANTED 12u /* octet where the QPN begins to which the sender wants to connect */

/* Reads the QPN to which the sender wants to connect. False: the private data is too short, or of another kind. */
static inline bool oob_wanted(const uint8_t *priv, uint32_t len, uint32_t *qpn)
{
	if (len < OOB_WIRE_WANTED + 4 || memcmp(priv, OOB_WIRE_MAGIC, 4) != 0)
		return false;
	*qpn = rn_load_be32(priv + OOB_WIRE_WANTED);
	return true;
}

#endif
