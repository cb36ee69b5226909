/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DPDK gives every process a directory (the telemetry socket lies in it) and never removes it. Ours goes when we end in
 * order; those of daemons that were killed go when the next one starts. Control thread, at start and at exit only.
 */
#ifndef RUNDIR_H
#define RUNDIR_H

#include <stdbool.h>
#include <stdint.h>

#define RUNDIR_PREFIX "rnicd" /* and the process number */

/*
 * Removes what dead daemons left in dir, the parent of such directories: names of our form, whose process is gone and
 * whose telemetry socket nobody answers, and nothing in them but such sockets.
 */
void rundir_clean(const char *dir);

/* Removes the directory at exit, after EAL has taken its socket out of it. Call before rte_eal_init(). */
void rundir_remove_at_exit(void);
/*
 * Whether DPDK can make such a directory; if not, one sentence that says why, NULL otherwise. Without a directory DPDK
 * would put its telemetry socket into /tmp, where it stays and where a second daemon finds it taken.
 */
const char *rundir_fault(void);
/* After rte_eal_init(): which one it is. Cleans its neighbours. */
void rundir_is(const char *path);

#endif
