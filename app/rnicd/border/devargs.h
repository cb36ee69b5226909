/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses the arguments of a device in DPDK's form, "key=value,key=value". Any thread; keeps no state. */
#ifndef RNICD_DEVARGS_H
#define RNICD_DEVARGS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Copies the value of `key` into val (cut at len - 1 bytes, always terminated). False: args has no such key; val is
 * empty then.
 */
bool devargs_get(const char *args, const char *key, char *val, size_t len);

/* Copies the first key of args that is not in `known` (NULL-terminated) into key, likewise. False: there is none. */
bool devargs_unknown(const char *args, const char *const *known, char *key, size_t len);

#endif
