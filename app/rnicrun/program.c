/* SPDX-License-Identifier: BSD-3-Clause */
#include "program.h"

#include <elf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static bool find(const char *name, char path[PATH_MAX])
{
	const char *dirs = getenv("PATH");

	if (strchr(name, '/') != NULL) {
		snprintf(path, PATH_MAX, "%s", name);
		return access(path, X_OK) == 0;
	}
	for (dirs = dirs != NULL ? dirs : "/bin:/usr/bin"; *dirs != '\0'; dirs += *dirs == ':') {
		size_t n = strcspn(dirs, ":");
		if (snprintf(path, PATH_MAX, "%.*s/%s", (int)n, n > 0 ? dirs : ".", name) < PATH_MAX &&
		    access(path, X_OK) == 0)
			return true;
		dirs += n;
	}
	return false;
}

/* A program that no loader comes before. Of the machine's own word size; others are not asked about. */
static bool is_static(const char *path)
{
	FILE *f = fopen(path, "re");
	Elf64_Ehdr e;
	Elf64_Phdr p;
	bool elf = f != NULL && fread(&e, sizeof(e), 1, f) == 1 && memcmp(e.e_ident, ELFMAG, SELFMAG) == 0 &&
		   e.e_ident[EI_CLASS] == ELFCLASS64 && e.e_phentsize == sizeof(p) &&
		   fseek(f, (long)e.e_phoff, SEEK_SET) == 0;

	for (int i = 0; elf && i < e.e_phnum; i++)
		if (fread(&p, sizeof(p), 1, f) != 1 || p.p_type == PT_INTERP)
			elf = false;
	if (f != NULL)
		fclose(f);
	return elf;
}

const char *program_obstacle(const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	if (!find(name, path) || stat(path, &st) != 0)
		return NULL;
	/* What makes ld.so run in secure mode (ld.so(8)). */
	if (((st.st_mode & S_ISUID) != 0 && st.st_uid != getuid()) || ((st.st_mode & S_ISGID) != 0 && st.st_gid != getgid()))
		return "it is setuid or setgid, and the system preloads nothing into such programs: run a copy of it, or run "
		       "it as its owner";
	if (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
		return "it has file capabilities, and the system preloads nothing into such programs: run a copy of it";
	if (is_static(path))
		return "it is linked statically, so nothing can be preloaded: link it with -lrnic or dynamically";
	return NULL;
}
