/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dlopen() in front of libc's: programs that open the stock libraries by name get this library. The symbol is exported
 * without a version, so it replaces libc's of any version.
 */
#include <dlfcn.h>

#include "rnic/common.h"

static bool stock_name(const char *path)
{
	const char *slash = path != NULL ? strrchr(path, '/') : NULL, *name = slash != NULL ? slash + 1 : path;

	return name != NULL && (strncmp(name, "libibverbs.so", 13) == 0 || strncmp(name, "librdmacm.so", 12) == 0 ||
				strncmp(name, "libefa.so", 9) == 0);
}

static const char *own_path(const char *otherwise)
{
	static Dl_info self;

	return dladdr((void *)(uintptr_t)rnic_stock, &self) != 0 ? self.dli_fname : otherwise;
}

/* Ends with a tail call, so that libc takes the program for its caller: dlopen() searches the paths of its caller. */
void *dlopen(const char *path, int flags)
{
	__typeof__(&dlopen) libc = (__typeof__(&dlopen))rnic_stock("dlopen");

	return libc(rn_unlikely(stock_name(path)) ? own_path(path) : path, flags);
}
