/* SPDX-License-Identifier: BSD-3-Clause */
/* What this run is measured with: the program, the day, the machine. */
#ifndef TP_ABOUT_H
#define TP_ABOUT_H

#include "tp_report.h"

void tp_about_fill(struct tp_about *a);

#endif
