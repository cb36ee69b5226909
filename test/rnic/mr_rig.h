/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of memory registration share: a fake daemon, a device, a PD, and how memory is judged. */
#ifndef MR_RIG_H
#define MR_RIG_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "fake.h"
#include "rnic/arena.h"

#define PAGE 4096u
#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

extern struct fake *fake;
extern struct ibv_context *ctx;
extern struct ibv_pd *pd;

int mr_setup(void **state);
int mr_teardown(void **state);

struct fake_client *client(void);
uint8_t pattern(size_t i, uint8_t seed);
void fill(uint8_t *p, size_t len, uint8_t seed);
void assert_filled(const uint8_t *p, size_t len, uint8_t seed);
void assert_zeros(const uint8_t *p, size_t len);
/* Both ways, over the whole region. */
void assert_shared(struct ibv_mr *mr);
void assert_refused(void *p, size_t len, int access, int err);
uint32_t pieces(const struct ibv_mr *mr);

#endif
