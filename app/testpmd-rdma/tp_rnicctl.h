/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs rnicctl: the one that is installed or built beside this program, else the one in PATH. */
#ifndef TP_RNICCTL_H
#define TP_RNICCTL_H

/*
 * argv: of rnicctl, argv[0] is set here; NULL ends it. out: where its output goes, -1: nowhere. Its stderr is
 * discarded. Returns its exit status, or -errno where it could not be started.
 */
int tp_rnicctl(char *argv[], int out);

#endif
