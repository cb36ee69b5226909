/* SPDX-License-Identifier: BSD-3-Clause */
#include "rnic/common.h"

#include <dlfcn.h>

rnic_fn rnic_stock(const char *name)
{
	/* Not dlvsym: the default version is what a program built today would bind to. */
	return (rnic_fn)dlsym(RTLD_NEXT, name);
}
