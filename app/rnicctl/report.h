/* SPDX-License-Identifier: BSD-3-Clause */
/* rnicctl report: facts about a daemon for a bug report. */
#ifndef REPORT_H
#define REPORT_H

#include "daemon.h"

/* Writes versions, host, ports, clients, workers, connections and counters to stdout. Returns the exit status. */
int report_print(struct daemon *d, const char *version);

#endif
