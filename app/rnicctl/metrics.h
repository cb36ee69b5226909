/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of stack, ports and workers in Prometheus' text format, version 0.0.4. */
#ifndef METRICS_H
#define METRICS_H

#include <stdbool.h>
#include <stdio.h>

#include "daemon.h"

/* Writes the counters to `out`. False: the daemon does not answer any more. */
bool metrics_write(struct daemon *d, FILE *out);
/* Writes the counters to stdout. Returns the exit status. */
int metrics_print(struct daemon *d);

#endif
