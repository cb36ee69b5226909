/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DPDK's interrupt thread. The memif driver opens and ends its connections there, without a lock against a call that
 * stops or closes the device: both would free the same memory. So these calls are made in that thread too.
 *
 * The thread also looks through its list of interrupt sources for each event. DPDK keeps their handles in its own
 * memory, and rte_eal_cleanup() unmaps this memory while the thread runs; the memif driver leaves its listening socket
 * in the list. So the thread is stopped first.
 */
#ifndef RNICD_INTR_THREAD_H
#define RNICD_INTR_THREAD_H

/*
 * Any other thread: calls fn(arg) in DPDK's interrupt thread and waits for its end. fn must not wait for something that
 * this thread does. If the thread cannot be told (no memory), fn is called by the caller.
 */
void intr_thread_run(void (*fn)(void *), void *arg);
/* Before rte_eal_cleanup(): DPDK's interrupt thread does nothing any more. Nothing may be run in it afterwards. */
void intr_thread_end(void);

#endif
