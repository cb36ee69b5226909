/* SPDX-License-Identifier: BSD-3-Clause */
#include "border/devargs.h"

#include <string.h>

static void copy(char *to, size_t len, const char *from, size_t n)
{
	n = n < len ? n : len - 1;
	memcpy(to, from, n);
	to[n] = '\0';
}

bool devargs_get(const char *args, const char *key, char *val, size_t len)
{
	size_t k = strlen(key);

	val[0] = '\0';
	for (const char *at = args; *at != '\0';) {
		size_t n = strcspn(at, ",");
		if (n > k && strncmp(at, key, k) == 0 && at[k] == '=') {
			copy(val, len, at + k + 1, n - k - 1);
			return true;
		}
		at += n + (at[n] == ',');
	}
	return false;
}

static bool is_known(const char *const *known, const char *key, size_t n)
{
	for (; *known != NULL; known++)
		if (strlen(*known) == n && strncmp(*known, key, n) == 0)
			return true;
	return false;
}

bool devargs_unknown(const char *args, const char *const *known, char *key, size_t len)
{
	for (const char *at = args; *at != '\0';) {
		size_t n = strcspn(at, ","), k = strcspn(at, "=,");
		if (!is_known(known, at, k)) {
			copy(key, len, at, k);
			return true;
		}
		at += n + (at[n] == ',');
	}
	return false;
}
