/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EVENTS_H
#define EVENTS_H

#include "daemon.h"

struct events_how {
	bool json;       /* one JSON object per line, instead of text */
	bool all;        /* begin with the events that the daemon still keeps; false: with the next new event */
	double interval; /* s to wait before asking again when there is no new event */
	unsigned count;  /* number of events to show; 0: without end */
};

/* Shows what happens in the daemon, as it happens. Returns the exit status. */
int events_follow(struct daemon *d, const struct events_how *how);

#endif
