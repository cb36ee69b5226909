/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions to be called at a later time (wishes), for rnicrun --inject and --sanitize. One thread calls them; the
 * first wish starts the thread. No lock is held during the calls. All functions here are safe from any thread.
 */
#ifndef RNIC_LATER_H
#define RNIC_LATER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Calls run(object, arg) after `ms` milliseconds. False: no memory, or no thread. */
bool rnic_later(uint32_t ms, void (*run)(void *object, uint64_t arg), void *object, uint64_t arg);
/*
 * Removes all wishes of the object. When this returns, a function that was running for the object has ended, and wishes
 * that it made are removed too. Not to be called from such a function; no other thread may make a wish for the object
 * meanwhile.
 */
void rnic_later_forget(const void *object);

#endif
