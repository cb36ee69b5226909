/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of functions at a later time, for rnicrun --inject and --sanitize. A wish is a request for one such call. One
 * thread makes the calls; the first wish starts the thread. No lock is held during a call. All functions here are safe
 * from any thread.
 */
#ifndef RNIC_LATER_H
#define RNIC_LATER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Calls run(object, arg) after `ms` milliseconds. False: no memory, or no thread. */
bool rnic_later(uint32_t ms, void (*run)(void *object, uint64_t arg), void *object, uint64_t arg);
/*
 * Removes all wishes of the object. When this returns, a call that was running for the object has ended, and the wishes
 * that the call made are removed, too. Must not be called from run(); meanwhile no other thread may make a wish for the
 * object.
 */
void rnic_later_forget(const void *object);

#endif
