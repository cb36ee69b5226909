/* SPDX-License-Identifier: BSD-3-Clause */
#include "cause.h"

#include <stdio.h>

#include "iwarp/iw_remedy.h"

int cause_explain(uint32_t vendor_err)
{
	const struct iw_err e = { .layer = (uint8_t)(vendor_err >> 16),
				  .etype = (uint8_t)(vendor_err >> 8),
				  .code = (uint8_t)vendor_err };

	if (vendor_err >> 24 != 0 || !iw_err_known(e)) {
		fprintf(stderr,
			"rnicctl: no RFC names the error 0x%x: vendor_err is layer << 16 | type << 8 | code of a "
			"Terminate\n",
			vendor_err);
		return 1;
	}
	printf("0x%05x  %s\n", vendor_err, iw_err_text(e));
	const char *remedy = iw_err_remedy(e);
	if (remedy != NULL)
		puts(remedy);
	return 0;
}
