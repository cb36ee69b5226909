/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of registered memory, for the tests of memory registration. */
#ifndef MR_RIG_H
#define MR_RIG_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "dev_rig.h"
#include "rnic/mem/arena.h"
#include "rnic/verbs/objects.h"

#define PAGE 4096u
#define RW   (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

uint8_t pattern(size_t i, uint8_t seed);
void fill(uint8_t *p, size_t len, uint8_t seed);
void assert_filled(const uint8_t *p, size_t len, uint8_t seed);
void assert_zeros(const uint8_t *p, size_t len);
/* Checks every byte of the region: the daemon sees what the program writes, and the program what the daemon writes. */
void assert_shared(struct ibv_mr *mr);
void assert_refused(void *p, size_t len, int access, int err);
uint32_t pieces(const struct ibv_mr *mr);

#endif
