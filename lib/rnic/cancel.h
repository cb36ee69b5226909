/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that pthread_cancel() ends keeps the locks that it holds: system calls that are cancellation points are made
 * with cancellation off where a lock is held, or where work is half done. The thread ends at its next cancellation
 * point.
 */
#ifndef RNIC_CANCEL_H
#define RNIC_CANCEL_H

#include <pthread.h>

/* Returns what rnic_cancel_back() is given. The calls may be nested. */
static inline int rnic_cancel_off(void)
{
	int was = PTHREAD_CANCEL_ENABLE;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	return was;
}

static inline void rnic_cancel_back(int was)
{
	int off;

	pthread_setcancelstate(was, &off);
}

#endif
