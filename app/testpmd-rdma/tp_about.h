/* SPDX-License-Identifier: BSD-3-Clause */
/* Facts about a measurement for the report: program version, date, machine. */
#ifndef TP_ABOUT_H
#define TP_ABOUT_H

#include "tp_report.h"

void tp_about_fill(struct tp_about *a);

#endif
