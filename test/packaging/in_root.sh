#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs as root of a file system of its own, in namespaces of its own: installs the packages that lie in /packages, uses
# them as a new user would, removes them. Prints a line "done: STEP" for each step that worked.
set -eu

ip link set lo up
dpkg -l | awk '/^ii/ { print $2 }' | sort >/packages/before
dpkg -i /packages/*.deb >/packages/log 2>&1 || { tail -n 20 /packages/log; exit 1; }
echo "done: install"

for page in 8/rnicd 5/rnicd.conf 7/rnic-counters 1/rnicrun 1/rnicctl 1/testpmd-rdma 7/rnic \
	3/rnic.h 3/rnicdv 3/esock.h 3/sock.h; do
	gzip -dc "/usr/share/man/man${page%/*}/${page#*/}.${page%/*}.gz" >/packages/page
	[ -z "$(man -l --warnings /packages/page 2>&1 >/dev/null)" ]
done
echo "done: man pages"

rnicd --check /etc/rnicd/rnicd.conf
rnicd --no-hugepages --config /etc/rnicd/rnicd.conf >/packages/rnicd.log 2>&1 &
daemon=$!
until grep -q ready /packages/rnicd.log; do
	kill -0 $daemon || { cat /packages/rnicd.log; exit 1; }
	sleep 0.1
done
echo "done: daemon"

rnicrun --doctor
rnicctl status | grep -q "address 10.77.0.1"
testpmd-rdma -s -a 10.77.0.1 --once >/packages/server.log 2>&1 &
server=$!
until grep -q listening /packages/server.log; do
	kill -0 $server || { cat /packages/server.log; exit 1; }
	sleep 0.1
done
testpmd-rdma --iters 2000 10.77.0.1
wait $server
echo "done: measured Write"

# shellcheck disable=SC2046
cc -o /packages/hello /packages/hello.c $(pkg-config --cflags --libs rnic)
/packages/hello -s 10.77.0.1 >/packages/hello.log 2>&1 &
server=$!
until grep -q 10.77.0.1 /packages/hello.log; do
	kill -0 $server || { cat /packages/hello.log; exit 1; }
	sleep 0.1
done
/packages/hello 10.77.0.1
wait $server
echo "done: program of one's own"

kill $daemon
wait $daemon
dpkg -P rnicd rnicrun librnic-dev testpmd-rdma librnic0 >/packages/log 2>&1 || { tail -n 20 /packages/log; exit 1; }
dpkg -l | awk '/^ii/ { print $2 }' | sort | diff /packages/before -
for left in /etc/rnicd /usr/sbin/rnicd /usr/bin/rnicrun /usr/bin/rnicctl /usr/bin/testpmd-rdma /usr/include/rnic \
	/usr/share/doc/rnicd /lib/systemd/system/rnicd.service; do
	[ ! -e $left ] || { echo "left behind: $left"; exit 1; }
done
echo "done: removal"
