/* SPDX-License-Identifier: BSD-3-Clause */
/* How many frames a port of rnicd loses, set by rnicctl, which is a program of its own: this one knows verbs alone. */
#ifndef TP_LOSS_H
#define TP_LOSS_H

#include "tp_err.h"

#include <stdint.h>

/* The port of this name loses so many frames of a million that it sends, from now on. */
enum tp_verdict tp_loss_set(const char *port, uint32_t ppm, struct tp_err *err);

#endif
