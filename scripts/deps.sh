#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Lists the missing Debian packages and installs them; at a terminal the script asks first. On systems without Debian
# packages the script installs nothing, but checks what the build needs and lists what is missing.
# Usage: scripts/deps.sh [build] [test] [siw] [fuzz] [deb] [bench] [lint] [apps]   (default: build)
set -eu

build="gcc libc6-dev meson ninja-build pkg-config python3 libdpdk-dev libnuma-dev libibverbs-dev librdmacm-dev libcmocka-dev libjansson-dev libevent-dev libpng-dev"
test="clang gnuplot-nox curl iproute2 iputils-ping ethtool procps strace tshark socat perftest ibverbs-utils rdmacm-utils qperf ucx-utils iperf3 dapl2-utils libdapl2 libfabric-bin openmpi-bin libopenmpi-dev mpich libmpich-dev python3-pyverbs python3-prometheus-client python3-yaml valgrind fio tgt libiscsi-bin qemu-utils qemu-block-extra g++ libgloo-dev nginx-light wrk redis-server memcached haproxy lighttpd apache2-utils netcat-openbsd sockperf iperf"
siw="qemu-system-x86 busybox-static xz-utils make gcc-12 binutils bc" # test/interop; the build of the guest downloads a kernel, too
fuzz="clang libclang-rt-14-dev"
deb="debhelper lintian dpkg-dev fakeroot git man-db xz-utils"
bench="iproute2 iperf3 qperf iputils-ping ethtool procps gnuplot-nox ucx-utils libfabric-bin"
lint="clang-format-14 clang-tidy-14 shellcheck codespell man-db groff-base git systemd"

apps="qemu-system-x86 ceph-mon ceph-osd ceph-common netpipe-openmpi netpipe-mpich2 hpcc"
apps="$apps openmpi-bin libopenmpi-dev mpich libmpich-dev"
apps="$apps openssh-server openssh-client rsync git postgresql postgresql-contrib libpq-dev unbound dnsperf sip-tester"
apps="$apps lighttpd iproute2 ffmpeg vlc-bin vlc-plugin-base"

# Systems without Debian packages: checks programs and libraries by the shell and pkg-config.
elsewhere() {
	lack=
	for program in cc meson ninja pkg-config python3; do
		command -v "$program" >/dev/null || lack="$lack $program"
	done
	for library in libdpdk libibverbs librdmacm numa cmocka jansson libevent libpng; do
		pkg-config --exists "$library" 2>/dev/null || lack="$lack $library"
	done
	[ -n "$lack" ] || exit 0
	echo "deps: no Debian packages here; install these programs and libraries yourself:$lack" >&2
	exit 1
}
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	elsewhere
fi

missing=
for group in "${@:-build}"; do
	case $group in
	build) list=$build ;;
	test) list=$test ;;
	siw) list=$siw ;;
	fuzz) list=$fuzz ;;
	deb) list=$deb ;;
	bench) list=$bench ;;
	lint) list=$lint ;;
	apps) list=$apps ;;
	*) echo "deps: unknown group '$group'" >&2; exit 2 ;;
	esac
	for p in $list; do
		dpkg-query -W -f '${Status}\n' "$p" 2>/dev/null | grep -q '^install ok installed$' || missing="$missing $p"
	done
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
	echo "deps: not root, and these packages are missing:$missing" >&2
	exit 1
fi
if [ -t 0 ] && [ -t 1 ]; then
	echo "deps: these packages are missing:$missing"
	printf 'deps: install them with apt-get? [Y/n] '
	read -r answer
	case $answer in
	[Nn]*) echo "deps: nothing was installed" >&2; exit 1 ;;
	esac
fi
echo "deps: installing$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086
if ! { apt-get -qq update && apt-get -qq -y --no-install-recommends install $missing; } >"$log" 2>&1; then
	cat "$log" >&2
	echo "deps: apt-get failed" >&2
	exit 1
fi
