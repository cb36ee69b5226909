#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Looks for mistakes that neither compilers nor tests see: clang-tidy with the checks of .clang-tidy over every source
# of lib, app and examples in the build, shellcheck over scripts, codespell over all text, man over the man pages,
# systemd-analyze over the units, lintian over the Debian packages.
# usage: scripts/lint.sh BUILD_FOLDER
set -eu

cd "$(dirname "$0")/.."
found=0

sed -n 's!^ *"file": "\(.*/\)\{0,1\}\(\(lib\|app\|examples\)/.*\.c\)".*!\2!p' "$1/compile_commands.json" | sort -u |
	while read -r file; do [ ! -e "$file" ] || echo "$file"; done | # without test/examples and built files
	xargs -P "$(nproc)" -n 4 clang-tidy-14 -p "$1" --quiet 2>/dev/null || found=1

# Scripts in sh and bash, not busybox's. Not reported: matters of style (-S), and variables that seem unused (SC2034).
scripts=$(git ls-files | xargs awk 'FNR == 1 && /^#!(\/usr)?\/bin\/(env )?(ba)?sh$/ { print FILENAME }')
# shellcheck disable=SC2086
shellcheck -S warning -e SC2034 $scripts || found=1

# The ignored words are names in the code that look like misspelt words. The corpora of the fuzzers are not text.
git ls-files | grep -v '^test/fuzz/corpus/' |
	xargs codespell --ignore-words-list=inflight,upto,tolen,ser,mor,ect || found=1

for page in "$1"/doc/*.[1-8]; do
	[ -e "$page" ] || continue
	told=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
	[ -z "$told" ] || { echo "$page: $told"; found=1; }
done

# systemd-analyze wants the program that a unit starts to be installed: a copy of the unit names /bin/true instead.
units=$(mktemp -d)
trap 'rm -rf "$units"' EXIT
for unit in "$1"/config/*.service; do
	sed 's!=[^ ]*/sbin/rnicd !=/bin/true !' "$unit" >"$units/${unit##*/}"
done
for unit in "$units"/*@.service; do # a template is checked by an instance
	cp "$unit" "${unit%.service}one.service"
	rm "$unit"
done
told=$(systemd-analyze verify "$units"/*.service 2>&1) || found=1
[ -z "$told" ] || { echo "$told"; found=1; }

# lintian checks the packages, which are built from the last commit.
told=$(scripts/deb.sh "$1/deb") || { echo "$told"; found=1; }

[ "$found" = 0 ] || { echo "lint: see above"; exit 1; }
echo "lint: nothing found"
