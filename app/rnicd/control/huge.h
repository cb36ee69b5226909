/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether packet memory comes from hugepages. */
#ifndef HUGE_H
#define HUGE_H

#include <stdbool.h>
#include <stdint.h>

#include "control/conf.h"

/*
 * Decides c->d.hugepages, by the configuration and by whether c->d.memory_mb of hugepages are free. say: half a line
 * for the log. False: the configuration demands hugepages and too few are free; say: the sentence for the user.
 */
bool huge_decide(struct conf *c, char *say, uint32_t say_len);

/* MiB of free hugepages of all sizes. root: the folder of sysfs, "/sys/kernel/mm/hugepages". */
uint64_t huge_free_mb(const char *root);

#endif
