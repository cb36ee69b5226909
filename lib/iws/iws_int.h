/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the files of the room. */
#ifndef IWS_INT_H
#define IWS_INT_H

#include <errno.h>

#include "iws/iws.h"

/* ---- iws.c ---- */

/* Sets the window to the part of the program's ring that has been granted to the peer. */
void iws_lend(struct iws_ctx *x, struct iws *i);

/* ---- iws_io.c ---- */

/* Posts all slots of a new connection. */
void iws_slots(struct iws *i);
/* Posts the first message of the end that has begun the connection, a CREDIT: MPA lets this end send first. */
void iws_greet(struct iws_ctx *x, struct iws *i);

#endif
