/* SPDX-License-Identifier: BSD-3-Clause */
/* A live view: rates of ports, stack and workers, updated every interval. */
#ifndef TOP_H
#define TOP_H

#include "daemon.h"

/*
 * Shows `rounds` views, `interval` seconds apart; 0 rounds: until it is interrupted or the daemon ends. On a terminal
 * each view replaces the one before. Returns the exit status.
 */
int top_run(struct daemon *d, double interval, unsigned rounds);

#endif
