#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage.sh PROGRAM - exit status and sentences of testpmd-rdma where no connection is made. Speaks TAP.
prog=$1
n=0
out=$(mktemp)
trap 'rm -f "$out"' EXIT

# check NAME STATUS PATTERN ARGS..: the program ends with STATUS and says PATTERN
check() {
	name=$1 want=$2 pattern=$3
	shift 3
	n=$((n + 1))
	timeout 20 "$prog" "$@" >"$out" 2>&1 </dev/null
	rc=$?
	if [ $rc -eq "$want" ] && grep -q -- "$pattern" "$out"; then
		echo "ok $n - $name"
	else
		echo "not ok $n - $name"
		echo "# exit status $rc, wanted $want; no \"$pattern\" in:"
		sed 's/^/# /' "$out"
	fi
}

echo 1..9
check "help" 0 SYNOPSIS --help
check "version" 0 "testpmd-rdma [0-9]" --version
check "no server named" 2 "no server named"
check "unknown option" 2 "unknown option --frobnicate" --frobnicate x
check "bad size" 2 "bad size" --size 3q x
check "no such queue pairs" 2 "choose from rc, ud, rd" --qp-type uc x
check "datagrams that are too long" 2 "at most 1m bytes" --qp-type ud --size 2m x
check "no such CPU" 2 "cannot run on CPU" --cpu 4000 x
check "name that is no address" 1 "is no address" "no such host"
