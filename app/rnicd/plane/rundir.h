/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DPDK gives every process a directory (the telemetry socket lies in it) and never removes it. rnicd removes its own at
 * an orderly end, and at its start those of daemons that were killed. Control thread, at start and at exit only.
 */
#ifndef RUNDIR_H
#define RUNDIR_H

#include <stdbool.h>
#include <stdint.h>

#define RUNDIR_PREFIX "rnicd" /* and the process number */

/*
 * Removes the directories of dead daemons in dir, their parent: directories with rnicd's form of name, whose process is
 * gone, whose telemetry socket nobody answers, and which contain only such sockets.
 */
void rundir_clean(const char *dir);

/* Removes the directory at exit, after EAL has taken its socket out of it. Call before rte_eal_init(). */
void rundir_remove_at_exit(void);
/*
 * Whether DPDK can make such a directory; if not, one sentence that says why, NULL otherwise. Without a directory DPDK
 * would put its telemetry socket into /tmp, where it stays and where a second daemon finds it taken.
 */
const char *rundir_fault(void);
/* After rte_eal_init(): path is this process's directory. Cleans the directories beside it. */
void rundir_is(const char *path);

#endif
