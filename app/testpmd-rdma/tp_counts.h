/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of a port from rnicctl: its settings, and counters of events that affect a measurement. */
#ifndef TP_COUNTS_H
#define TP_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

struct tp_counts {
	bool known; /* false: nothing is known, since the device is not rnicd's, or rnicctl may not ask */
	uint32_t mtu;
	uint64_t again, dropped; /* TCP segments sent again, frames dropped, since rnicd's start */
	char crc[8];             /* off, on or always; empty: not known */
};

/* The port that has the device's name. */
void tp_counts_look(const char *device, struct tp_counts *c);
/* One line of `rnicctl ports NAME`: name, value, and for numbers unit and meaning. */
void tp_counts_line(struct tp_counts *c, const char *line);

#endif
