/* SPDX-License-Identifier: BSD-3-Clause */
/* How the lists of telemetry are told: in pages, as an answer of DPDK's telemetry holds 16 KiB at most. Its thread. */
#ifndef TELE_PAGE_H
#define TELE_PAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <rte_telemetry.h>

#define TELE_LINE 120 /* RTE_TEL_MAX_STRING_LEN is 128 */

static inline uint32_t tele_number(const char *params) { return (uint32_t)strtoul(params, NULL, 10); }

/*
 * A list is wanted, and not one object. An answer holds its beginning; "+N" wants the entries from the Nth on. So a
 * list is whole when one more question finds no more.
 */
static inline bool tele_list_wanted(const char *params)
{
	return params == NULL || params[0] == '\0' || params[0] == '+';
}

/* What of a list an answer holds: after `skip` entries as many as there is room for. */
struct tele_page {
	uint32_t skip, entries, bytes;
};

struct tele_page tele_page_of(const char *params);

/* One entry of a list, if it is in the page; cut where DPDK would refuse it. */
void tele_add_line(struct rte_tel_data *d, struct tele_page *page, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
