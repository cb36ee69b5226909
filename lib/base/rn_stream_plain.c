/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/rn_stream.h"

static void plain(void *dst, const void *src, uint32_t len) { memcpy(dst, src, len); }

rn_stream_fn rn_stream_choose(uint32_t most, uint32_t *width)
{
	(void)most;
	*width = 0;
	return plain;
}
