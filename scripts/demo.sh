#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A demonstration: two emulated RNICs on one daemon, a client on each, and measurements.
# Usage: scripts/demo.sh [BUILD_DIR]
set -u
build=${1:-build}
dir=$(mktemp -d "${TMPDIR:-/tmp}/rnic-demo.XXXXXX")
export RNICD_SOCKET=$dir/rnicd.sock
daemon=
server=

finish() {
	[ -n "$server" ] && kill "$server" 2>/dev/null && wait "$server" 2>/dev/null
	[ -n "$daemon" ] && kill "$daemon" 2>/dev/null && wait "$daemon" 2>/dev/null
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
# Waits until the server's log says that the server listens.
listens() {
	for _ in $(seq 100); do
		grep -q listening "$dir/$1.log" && return
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	sed 's/^/   server: /' "$dir/$1.log" >&2
	die "the server does not listen"
}
die() { printf 'demo: %s\n' "$*" >&2; [ -s "$dir/rnicd.log" ] && sed 's/^/  rnicd: /' "$dir/rnicd.log" >&2; exit 1; }

sed "s|^socket *=.*|socket = $RNICD_SOCKET|" config/pair.conf >"$dir/pair.conf"
say "1. Start rnicd: two RNICs, wired back to back"
"$build/app/rnicd/rnicd" --config "$dir/pair.conf" >"$dir/rnicd.log" 2>&1 &
daemon=$!
for _ in $(seq 100); do
	grep -q ready "$dir/rnicd.log" && break
	kill -0 "$daemon" 2>/dev/null || { daemon=; die "rnicd did not start"; }
	sleep 0.1
done
grep -q ready "$dir/rnicd.log" || die "rnicd is not ready after 10 s"
grep -v '^EAL' "$dir/rnicd.log" | sed 's/^/   /'

say "2. Hello: a client on each RNIC exchanges two messages"
"$build/examples/hello" -s 10.77.0.1 >"$dir/hello.log" 2>&1 &
server=$!
listens hello
"$build/examples/hello" 10.77.0.1 | sed 's/^/   client: /'
[ "${PIPESTATUS[0]}" = 0 ] || die "hello failed"
wait "$server" || die "hello server failed"
server=
sed 's/^/   server: /' "$dir/hello.log"

say "3. Latency and bandwidth, one client process on each RNIC"
"$build/app/testpmd-rdma/testpmd-rdma" -s -a 10.77.0.1 >"$dir/server.log" 2>&1 &
server=$!
listens server
for mode in write_lat send_lat read_lat; do
	"$build/app/testpmd-rdma/testpmd-rdma" --mode $mode --sizes 8,64,4k --iters 5000 10.77.0.1 || die "$mode failed"
done
for mode in write_bw read_bw send_bw; do
	"$build/app/testpmd-rdma/testpmd-rdma" --mode $mode --sizes 64,4k,64k,1m --seconds 1 10.77.0.1 || die "$mode failed"
done

say "4. Everything stopped, nothing left behind"
