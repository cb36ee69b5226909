/* SPDX-License-Identifier: BSD-3-Clause */
#include "library.h"

#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Accepts a file or folder of root or of this user that is not writable for everybody. A sticky folder may be (/tmp):
 * in such a folder nobody else can replace the file.
 */
static bool trusted(const struct stat *st)
{
	bool others = (st->st_mode & S_IWOTH) != 0 && (st->st_mode & S_ISVTX) == 0;

	return !others && (st->st_uid == 0 || st->st_uid == geteuid());
}

/* Checks the file and its folder: a user that may write to the folder could have put the file there. */
static bool nobody_else_writes(const char *path)
{
	char folder[PATH_MAX];
	struct stat file, dir;

	snprintf(folder, sizeof(folder), "%s", path);
	return stat(path, &file) == 0 && stat(dirname(folder), &dir) == 0 && trusted(&file) && trusted(&dir);
}

static char *take_trusted(const char *path)
{
	char *real = realpath(path, NULL);

	if (real == NULL)
		return NULL;
	if (nobody_else_writes(real))
		return real;
	fprintf(stderr,
		"rnicrun: others may write to %s or to its folder, so it is not run: chmod o-w, or chown it to you or "
		"to root\n",
		real);
	exit(127);
}

char *library_find(const char *name, const char *const *beside, const char *installed)
{
	char self[PATH_MAX], path[2 * PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *found = NULL;

	self[n > 0 ? n : 0] = '\0';
	char *folder = dirname(self);
	for (; n > 0 && found == NULL && *beside != NULL; beside++) {
		snprintf(path, sizeof(path), "%s/%s", folder, *beside);
		found = take_trusted(path);
	}
	if (found == NULL)
		found = take_trusted(installed);
	if (found == NULL)
		fprintf(stderr, "rnicrun: there is no %s beside %s, and none at %s: build or install it\n", name,
			folder, installed);
	return found;
}
