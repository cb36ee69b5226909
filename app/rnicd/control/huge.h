/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether packet memory comes from hugepages. */
#ifndef HUGE_H
#define HUGE_H

#include <stdbool.h>
#include <stdint.h>

#include "control/conf.h"

/*
 * Decides c->d.hugepages from the configuration and from what the system has free for c->d.memory_mb. False: hugepages
 * are demanded and there are not enough; say then holds the sentence for the user, else half a line for the log.
 */
bool huge_decide(struct conf *c, char *say, uint32_t say_len);

/* Free hugepages of all sizes, MiB, as sysfs at `root` ("/sys/kernel/mm/hugepages") tells. */
uint64_t huge_free_mb(const char *root);

#endif
