/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream.h"

#include "say.h"

struct hello hello_make(const struct hub_cfg *cfg)
{
	return (struct hello){ HELLO_MAGIC, cfg->unit, cfg->buffers, cfg->me };
}

bool hello_fits(const struct hub_cfg *cfg, const struct hello *h)
{
	if (h->magic == __builtin_bswap32(HELLO_MAGIC))
		die("a process that wants to send has another order of bytes: run all on hosts of one kind");
	if (h->magic != HELLO_MAGIC || h->from >= STREAMS)
		return false;
	if (h->unit != cfg->unit || h->buffers != cfg->buffers)
		die("rank %u has %u buffers of %u bytes, this process %u of %u: give all the same --buffers and --unit",
		    h->from, h->buffers, h->unit, cfg->buffers, cfg->unit);
	return true;
}
