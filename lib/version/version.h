/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs print for --version. */
#ifndef VERSION_H
#define VERSION_H

/*
 * "0.1.0 (commit 0123456789ab)"; a '+' behind the commit: built from sources that differ from it. There is no commit
 * where the sources come neither from a git checkout nor from an archive that git has made.
 */
extern const char version_text[];

#endif
