/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is to be done at a time, for rnicrun --inject and --sanitize: one thread does it, which the first wish starts.
 * Without a wish there is no thread. Any thread; no lock is held over what is done.
 */
#ifndef RNIC_LATER_H
#define RNIC_LATER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* In so many milliseconds run(object, arg) is called. False: no memory, or no thread. */
bool rnic_later(uint32_t ms, void (*run)(void *object, uint64_t arg), void *object, uint64_t arg);
/*
 * What is still to be done with the object is not done, and what is being done with it is over when this returns, the
 * wishes included that the running function has made. Not from such a function; nobody else wishes for the object.
 */
void rnic_later_forget(const void *object);

#endif
