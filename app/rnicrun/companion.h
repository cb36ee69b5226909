/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A private rnicd for one program (rnicrun --with-daemon). The daemon is started before the program. When the program
 * ends, the daemon is stopped, and its files are removed. Its two ports, 10.77.0.1 and 10.77.0.2, are wired to each
 * other. In place of rnicd it may be a process without ports, which serves the program's sockets over the kernel's TCP
 * (rnicrun --embedded --sockets).
 */
#ifndef COMPANION_H
#define COMPANION_H

/*
 * Starts the daemon, waits until it is ready, and runs argv[0] with RNICD_SOCKET set. SIGINT, SIGTERM, SIGHUP and
 * further signals are passed to the program; when it has ended, they end the daemon at once. Returns the exit status
 * for rnicrun: the program's, 128 + signal when a signal ended the program, or 127 after a sentence on stderr. If the
 * status is not 0, the last lines that the daemon has logged while the program ran go to stderr. library: NULL for
 * rnicd; else the path of librnic_embedded, whose process serves sockets.
 */
int companion_run(char *const *argv, const char *library);

#endif
