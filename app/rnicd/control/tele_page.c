/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/tele_page.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PAGE_MAX 512u                /* entries of an answer: RTE_TEL_MAX_ARRAY_ENTRIES */
#define PAGE_LEN (16u * 1024 - 256u) /* bytes of an answer: DPDK silently omits entries that do not fit 16 KiB */

struct tele_page tele_page_of(const char *params)
{
	return (struct tele_page){ .skip = params != NULL && params[0] == '+' ? tele_number(params + 1) : 0,
				   .entries = PAGE_MAX,
				   .bytes = PAGE_LEN };
}

void tele_add_line(struct rte_tel_data *d, struct tele_page *page, const char *fmt, ...)
{
	char line[TELE_LINE];
	va_list ap;

	if (page->skip > 0) {
		page->skip--;
		return;
	}
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	const uint32_t len = (uint32_t)strlen(line) + 3; /* with quotes and comma */
	if (page->entries == 0 || page->bytes < len) {
		page->entries = 0; /* the next page begins with this entry */
		return;
	}
	page->entries--;
	page->bytes -= len;
	rte_tel_data_add_array_string(d, line);
}
