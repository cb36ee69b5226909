/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers Prometheus: GET /metrics over HTTP returns the present counters. For each request the exporter looks for the
 * daemon anew, so the daemon may be restarted in between.
 */
#ifndef EXPORTER_H
#define EXPORTER_H

#include <stdbool.h>

struct exporter {
	const char *telemetry, *control; /* how the daemon is found: as of daemon_open() */
	bool any;
};

/*
 * Listens on `address` until SIGINT or SIGTERM: "127.0.0.1:9464", "[::1]:9464", or the path of a Unix socket, which is
 * made for the user and the group of this process and removed at the end. Other addresses than loopback's are refused,
 * since there is neither password nor encryption. Returns the exit status, after a sentence on stderr when it is not 0.
 */
int exporter_run(const struct exporter *e, const char *address);

#endif
