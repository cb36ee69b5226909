/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RNICRUN_LIBRARY_H
#define RNICRUN_LIBRARY_H

/*
 * Returns the absolute path (malloc'ed) of the file to preload: the first file of `beside` that exists, else
 * `installed`. beside: NULL-terminated paths, relative to this program's folder, in a build and in an installation.
 * NULL, after a line on stderr: none of the files exists. If others than root and this user may write to the file or to a
 * folder above it, the process ends with status 127.
 */
char *library_find(const char *name, const char *const *beside, const char *installed);

#endif
