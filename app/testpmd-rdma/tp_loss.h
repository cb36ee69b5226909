/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets the frame loss of a port of rnicd by running rnicctl, as this program itself only uses verbs. */
#ifndef TP_LOSS_H
#define TP_LOSS_H

#include "tp_err.h"

#include <stdint.h>

/* Sets the loss of the port of this name, in frames per million sent. */
enum tp_verdict tp_loss_set(const char *port, uint32_t ppm, struct tp_err *err);

#endif
