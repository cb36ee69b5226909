/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface between librnic and the daemon when the daemon runs inside the client's process (rnicrun --embedded).
 * librnic loads librnic_embedded.so, calls IPC_OWN_START, and then uses the socket that it gets like that of rnicd: the
 * same requests, the same shared region for queues. Registered memory is not shared, as there is only one process:
 * IPC_REG_MR names pieces of IPC_REGION_OWN.
 */
#ifndef IPC_OWN_H
#define IPC_OWN_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/ipc.h"

/*
 * A value of ipc_piece.region: ipc_piece.off is then an address in the process. Refused unless the client and the
 * daemon are one process.
 */
#define IPC_REGION_OWN UINT32_MAX

#define IPC_OWN_ERR     256
#define IPC_OWN_LIBRARY "librnic_embedded.so.0"
#define IPC_OWN_START   "rnic_embedded_start"

/* Which part of a connection runs outside the program's process. */
enum ipc_own_design {
	IPC_OWN_EMBEDDED, /* the kernel's TCP */
	IPC_OWN_HOST,     /* rnicd's TCP, in its streams */
	IPC_OWN_ASSISTED, /* rnicd's TCP; rnicd also computes and checks the CRCs of FPDUs */
};

struct ipc_own {
	uint32_t version;           /* in: IPC_VERSION */
	enum ipc_own_design design; /* in */
	int sock;                   /* out: the client's end of the control socket; the caller closes it */
	/*
	 * Runs one turn of the worker, unless another thread is running one. Any thread may call this. True: the worker
	 * has seen everything that was posted before the call, so no doorbell is needed.
	 */
	bool (*turn)(void);
	/*
	 * librnic calls these around fork(), so that the worker is in no turn meanwhile. In the child, the sockets of
	 * the connections are closed.
	 */
	void (*fork_prepare)(void);
	void (*fork_parent)(void);
	void (*fork_child)(void);
	char err[IPC_OWN_ERR]; /* out: one sentence on failure */
};

/*
 * Serves the sockets of `rnicrun --embedded --sockets` in the calling process, which does nothing else. listener: the
 * control socket that programs connect to. `ready` is called when they may. SIGTERM ends the process's work, when the
 * sockets that programs have closed have sent their bytes, or after some seconds; SIGINT ends it at once. Returns 0
 * then; 1 if it cannot start, with a sentence on stderr.
 */
#define IPC_OWN_SERVE "rnic_embedded_serve"
typedef int (*ipc_own_serve_fn)(int listener, void (*ready)(void));

/*
 * Starts the library, or makes a further socket of the library that runs in this process. After a failed first call,
 * and in a child of fork(), the library must be loaded anew before the next call. 0, or a positive errno with a
 * sentence in err.
 */
typedef int (*ipc_own_start_fn)(struct ipc_own *own);

#endif
