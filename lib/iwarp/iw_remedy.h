/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remedies: what a user can do about an error that a Terminate names (RFC 5040, 4.8). rnicd's log, rnicctl explain and
 * the troubleshooting page are made from this one table.
 */
#ifndef IW_REMEDY_H
#define IW_REMEDY_H

#include "iwarp/iw_term.h"

/* One or two sentences, without the last full stop; static. NULL: no remedy, or no such error. */
const char *iw_err_remedy(struct iw_err e);

/* The errors that have a remedy, from 0 on: *e is number i. False: there is no number i. */
bool iw_remedy_at(uint32_t i, struct iw_err *e);

#endif
