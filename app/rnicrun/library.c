/* SPDX-License-Identifier: BSD-3-Clause */
#include "library.h"

#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_us(uid_t uid) { return uid == 0 || uid == geteuid(); }

/* Whether root and this user are the only members of a group: such a group may write, as with umask 002. */
static bool only_we(gid_t gid)
{
	const struct group *g = getgrgid(gid);
	bool only = g != NULL;
	const struct passwd *p;

	for (char **name = g != NULL ? g->gr_mem : NULL; only && *name != NULL; name++) {
		p = getpwnam(*name);
		only = p != NULL && is_us(p->pw_uid);
	}
	setpwent();
	while (only && (p = getpwent()) != NULL)
		only = p->pw_gid != gid || is_us(p->pw_uid);
	endpwent();
	return only;
}

/* Whether the owner is a user outside of this user namespace, as the root of the host is in a container. */
static bool outside(uid_t uid)
{
	FILE *f = fopen("/proc/self/uid_map", "re");
	unsigned long first, there, n;
	bool inside = f == NULL;

	while (!inside && fscanf(f, "%lu %lu %lu", &first, &there, &n) == 3)
		inside = uid >= first && uid - first < n;
	if (f != NULL)
		fclose(f);
	return !inside;
}

/* Whether only root and this user may replace a file, or the files in a folder. In a sticky folder (/tmp) others may
 * write, and replace only what is theirs. */
static bool trusted(const struct stat *st, bool above)
{
	const bool sticky = S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX) != 0;

	if (!is_us(st->st_uid) && !(above && outside(st->st_uid)))
		return false;
	return sticky || ((st->st_mode & S_IWOTH) == 0 && ((st->st_mode & S_IWGRP) == 0 || only_we(st->st_gid)));
}

/*
 * Checks the file and all folders above it: a user who may write to one of the folders can put another file there.
 * False: `path` becomes the file or folder that others may write to.
 */
static bool nobody_else_writes(char path[PATH_MAX])
{
	struct stat st;

	for (unsigned up = 0;; up++) {
		if (stat(path, &st) != 0 || !trusted(&st, up > 1))
			return false;
		if (strcmp(path, "/") == 0)
			return true;
		const char *folder = dirname(path);
		memmove(path, folder, strlen(folder) + 1);
	}
}

static char *take_trusted(const char *path)
{
	char *real = realpath(path, NULL), at[PATH_MAX];

	if (real == NULL)
		return NULL;
	snprintf(at, sizeof(at), "%s", real);
	if (nobody_else_writes(at))
		return real;
	fprintf(stderr,
		"rnicrun: others may write to %s, so %s is not run: chmod go-w, or chown it to you or to root\n", at,
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
