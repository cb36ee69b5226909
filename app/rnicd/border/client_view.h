/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client as one worker sees it: where its doorbells are, which of its QPs belong to the worker, and whether frames
 * may refer to its memory instead of copying it.
 *
 * The control thread makes and frees a struct worker_client. Between CMD_CLIENT_ADD and the answer to CMD_CLIENT_DEL
 * only the worker reads and writes it, except `shares` (the control thread writes) and `ext_freed` (each thread that
 * frees packets writes its own element).
 */
#ifndef CLIENT_VIEW_H
#define CLIENT_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "border/rnicd.h"
#include "ipc/ipc_shm.h"

struct qp;

struct worker_client {
	struct ipc_doorbell *doorbell; /* of this worker, in the client's shared memory: not trusted */
	struct worker_client *next;    /* the worker's list of clients */
	bool shares;                   /* atomic. Its QPs reach memory of other clients, so all bytes sent are copied */
	uint8_t first;                 /* word of the doorbell with which the next turn begins; the worker's */
	uint64_t ext_taken;            /* how many references to its memory packets have ever got; the worker writes */
	struct {
		uint64_t n; /* how many references ended; one element for each DPDK lcore that frees packets */
		uint64_t pad[7];
	} ext_freed[RNICD_MAX_WORKERS + 1];
	struct qp *qp[IPC_MAX_QPS]; /* by doorbell bit; NULL: no such QP */
};

/*
 * Control thread, after the answer to CMD_CLIENT_DEL. True: no packet refers to the client's memory through this worker
 * any more, so the memory may be unmapped and c be freed. False: packets are still under way, and the caller asks again
 * after some milliseconds.
 */
static inline bool worker_client_quiet(const struct worker_client *c)
{
	uint64_t freed = 0;

	/* acquire: pairs with the release of the thread that freed the packet, which has stopped reading the memory */
	for (size_t i = 0; i < RN_ARRAY_LEN(c->ext_freed); i++)
		freed += __atomic_load_n(&c->ext_freed[i].n, __ATOMIC_ACQUIRE);
	return freed == __atomic_load_n(&c->ext_taken, __ATOMIC_ACQUIRE);
}

#endif
