/* SPDX-License-Identifier: BSD-3-Clause */
/* Splits telemetry's lists into pages, since an answer of DPDK's telemetry holds 16 KiB at most. Telemetry's thread. */
#ifndef TELE_PAGE_H
#define TELE_PAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <rte_telemetry.h>

#define TELE_LINE 120 /* RTE_TEL_MAX_STRING_LEN is 128 */

static inline uint32_t tele_number(const char *params) { return (uint32_t)strtoul(params, NULL, 10); }

/*
 * Whether the parameter asks for a list, and not for one object. Without parameter an answer begins with the first
 * entry; "+N" asks for the entries from the Nth on. A list is complete when a further question returns no entries.
 */
static inline bool tele_list_wanted(const char *params)
{
	return params == NULL || params[0] == '\0' || params[0] == '+';
}

/* The part of a list that an answer holds. skip: entries of the list still to skip; entries, bytes: room left. */
struct tele_page {
	uint32_t skip, entries, bytes;
};

/* The page that the parameter asks for. */
struct tele_page tele_page_of(const char *params);

/* Adds an entry of a list if it belongs to the page. The entry is truncated to the length that DPDK accepts. */
void tele_add_line(struct rte_tel_data *d, struct tele_page *page, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
