/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any text as the configuration file. A file that is read without a mistake keeps to the limits of the tables that it
 * fills.
 */
#include <stdlib.h>

#include "control/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *nowhere;
	struct conf c;

	if (nowhere == NULL)
		nowhere = fopen("/dev/null", "w");
	FILE *f = size > 0 && size < 20000 ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;
	if (f == NULL)
		return 0;
	unsigned mistakes = conf_read(f, "fuzz", &c, nowhere);
	fclose(f);
	if (mistakes == 0 && (c.d.n_ports == 0 || c.d.n_ports > RNICD_MAX_PORTS || c.d.n_workers > RNICD_MAX_WORKERS))
		abort();
	return 0;
}
