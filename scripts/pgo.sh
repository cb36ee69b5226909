#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds what is installed in FOLDER, by a profile (gcc's -fprofile-use): a first build counts how often each branch of
# its code is taken, test/bench/training.py sends messages through it, and the second build lays the code out by these
# counts. Needs gcc. `meson install -C FOLDER --no-rebuild` installs the result.
# usage: scripts/pgo.sh FOLDER
set -eu

[ $# = 1 ] || { echo "usage: scripts/pgo.sh FOLDER" >&2; exit 2; }
case $(${CC:-cc} --version) in *clang*) echo "pgo: needs gcc: set CC=gcc" >&2; exit 1 ;; esac
root=$(cd "$(dirname "$0")/.." && pwd)

if [ -e "$1" ] && [ ! -f "$1/build.ninja" ]; then
	echo "pgo: $1 is no build folder, and would be deleted: name another one" >&2
	exit 1
fi
rm -rf "$1"
# Code that the training does not reach is compiled as without a profile, which is no mistake. With a profile gcc
# believes that a few variables may be used before they are set.
meson setup "$1" "$root" -Dtests=false -Dwerror=false -Db_pgo=generate \
	-Dc_args='-fprofile-partial-training -Wno-missing-profile -Wno-maybe-uninitialized'
ninja -C "$1" installed
python3 "$root/test/bench/training.py" "$1"
meson configure "$1" -Db_pgo=use
ninja -C "$1" installed
echo "pgo: built in $1; to install it: meson install -C $1 --no-rebuild"
