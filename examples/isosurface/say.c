/* SPDX-License-Identifier: BSD-3-Clause */
#include "say.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

char say_who[32];
static atomic_int *said; /* shared by the processes of a run */

void say_once(void)
{
	void *p = mmap(NULL, sizeof(*said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	said = p != MAP_FAILED ? p : NULL;
}

void die(const char *fmt, ...)
{
	va_list ap;
	char text[512];

	if (said != NULL && atomic_exchange(said, 1) != 0)
		exit(1);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "isosurface: %s%s%s\n", say_who, say_who[0] != 0 ? ": " : "", text);
	exit(1);
}

void *allocate(unsigned long bytes)
{
	void *p = NULL;

	if (posix_memalign(&p, 4096, bytes != 0 ? bytes : 1) != 0)
		die("there is no memory for %lu bytes", bytes);
	return p;
}
