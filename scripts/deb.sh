#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds the Debian packages of the committed tree in a separate folder, and checks them with lintian.
# usage: scripts/deb.sh OUTPUT_FOLDER
set -eu

[ $# = 1 ] || { echo "usage: scripts/deb.sh OUTPUT_FOLDER" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/rnic"
git -C "$root" archive HEAD | tar -x -C "$work/rnic"
mv "$work/rnic/packaging/debian" "$work/rnic/debian"
if ! (cd "$work/rnic" && dpkg-buildpackage -b -us -uc) >"$out/build.log" 2>&1; then
	tail -n 40 "$out/build.log" >&2
	echo "deb: the build of the packages failed: see $out/build.log" >&2
	exit 1
fi
rm -f "$out"/*.deb
mv "$work"/*.deb "$out/"
lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$out"/*.deb
ls "$out"/*.deb
