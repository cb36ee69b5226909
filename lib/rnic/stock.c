/* SPDX-License-Identifier: BSD-3-Clause */
#include "rnic/common.h"

#include <dlfcn.h>

rnic_fn rnic_stock(const char *name)
{
	/* dlsym(), not dlvsym(): a program built today would bind to the default version. */
	return (rnic_fn)dlsym(RTLD_NEXT, name);
}
