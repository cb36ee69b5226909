#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Makes a release of the committed tree: the sources, the list of packages that the programs need (SPDX), and checksums.
# usage: scripts/dist.sh BUILD_FOLDER OUTPUT_FOLDER
set -eu

[ $# = 2 ] || { echo "usage: scripts/dist.sh BUILD_FOLDER OUTPUT_FOLDER" >&2; exit 2; }
mkdir -p "$2"
build=$(cd "$1" && pwd)
out=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."
version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" meson.build)
if ! grep -q "^## $version" CHANGELOG.md; then
	echo "dist: CHANGELOG.md has no section for version $version of meson.build: write it" >&2
	exit 1
fi
if [ -n "$(git status --porcelain --untracked-files=no)" ]; then
	echo "dist: some changes are not committed: commit them, or put them away (git stash)" >&2
	exit 1
fi
commit=$(git rev-parse HEAD)
git archive --prefix="rnic-$version/" HEAD | xz -T1 >"$out/rnic-$version.tar.xz"
python3 -B scripts/sbom.py "$build" "$commit" >"$out/rnic-$version.spdx.json"
cd "$out"
sha256sum "rnic-$version.tar.xz" "rnic-$version.spdx.json" >SHA256SUMS
cat SHA256SUMS
