/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RNICRUN_LIBRARY_H
#define RNICRUN_LIBRARY_H

/*
 * The file to preload, an absolute path (malloc'ed): beside this program as it lies in a build or in an installation,
 * else at `installed`. NULL, and one line on stderr: there is none, or others may write to it. beside: possible paths,
 * relative to this program's folder; NULL-terminated.
 */
char *library_find(const char *name, const char *const *beside, const char *installed);

#endif
