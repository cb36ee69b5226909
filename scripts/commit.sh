#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Prints "VERSION (commit 0123456789ab)" for the tree that this file lies in, with a '+' after the commit if files have
# changed since; only VERSION if the commit is not known. usage: scripts/commit.sh VERSION
set -eu

# git archive writes the commit here (export-subst in .gitattributes).
# shellcheck disable=SC2016
archived='$Format:%H$'

cd "$(dirname "$0")/.."
commit=
case $archived in
[0-9a-f]*) commit=$(printf %.12s "$archived") ;;
*)
	if [ -e .git ] && commit=$(git rev-parse --short=12 HEAD 2>/dev/null); then
		git diff --quiet HEAD 2>/dev/null || commit=$commit+
	fi
	;;
esac
echo "$1${commit:+ (commit $commit)}"
