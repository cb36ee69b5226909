#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds what a Linux siw guest boots from, out of Debian's packages: DIR/vmlinux and DIR/base.cpio. Prints DIR.
# Kernel packages are downloaded and unpacked, never installed. siw's compile-time knobs become module parameters with
# the same defaults. Nothing is done when the cache has it already. Exit status 77: cannot be had here (one line says
# why). Usage: build.sh   The cache is $RNIC_SIW_CACHE, default ${XDG_CACHE_HOME:-~/.cache}/rnic-siw.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${RNIC_SIW_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rnic-siw}
say() { echo "siw guest: $*" >&2; }
skip() { say "$*"; exit 77; }

[ "$(uname -m)" = x86_64 ] || skip "the guest is built on x86-64 only"
command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || skip "not Debian: no packages to build the guest from"

# ---- host packages: tools, and the programs and libraries that are copied into the guest ----
tools="qemu-system-x86 busybox-static xz-utils make gcc-12 libc6-dev binutils bc"
user="libibverbs1 librdmacm1 ibverbs-providers rdmacm-utils ibverbs-utils perftest iproute2"
missing=
for p in $tools $user; do
	dpkg-query -W -f '${Status}\n' "$p" 2>/dev/null | grep -q '^install ok installed$' || missing="$missing $p"
done
mkdir -p "$cache/debs"
exec 9>"$cache/lock"
flock 9
if [ -n "$missing" ]; then
	[ "$(id -u)" = 0 ] || skip "these packages are missing:$missing"
	say "installing$missing"
	# shellcheck disable=SC2086
	{ apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install $missing; } \
		>"$cache/apt.log" 2>&1 || skip "these packages cannot be installed:$missing"
fi

# ---- kernel packages: the newest set in the cache, or else downloaded ----
kabi_of() { basename "$1" | sed 's/^linux-image-\(.*\)_.*_.*$/\1/'; }
image=$(ls -t "$cache"/debs/linux-image-*.deb 2>/dev/null | head -1 || true)
if [ -z "$image" ]; then
	kabi=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: linux-image-\([0-9].*-amd64\)$/\1/p' | head -1)
	if [ -z "$kabi" ]; then
		apt-get -qq update >/dev/null 2>&1 || true
		kabi=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: linux-image-\([0-9].*-amd64\)$/\1/p' | head -1)
	fi
	[ -n "$kabi" ] || skip "the package lists name no kernel"
else
	kabi=$(kabi_of "$image")
fi
series=$(echo "$kabi" | cut -d. -f1,2)
debs="linux-image-$kabi linux-headers-$kabi linux-headers-${kabi%-amd64}-common linux-kbuild-$series linux-compiler-gcc-12-x86 linux-source-$series"
# All packages have the version of the first one. While Debian replaces a revision, some packages are there in the newer
# revision only. It serves, since the kernel in it is the same one.
version=
download() { (cd "$cache/debs" && apt-get -qq download "$1" >/dev/null 2>&1); }
fetch() {
	ls "$cache"/debs/"$1"_*.deb >/dev/null 2>&1 && return 0
	say "downloading $1"
	download "$1${version:+=$version}" && return 0
	[ -n "$version" ] || return 1
	other=$(apt-cache madison "$1" | awk '{ print $3 }' | grep "^${version%-*}-" | head -1 || true)
	[ -n "$other" ] && say "of $1 revision $other is there, not $version" && download "$1=$other"
}
for p in $debs; do
	fetch "$p" || skip "$p cannot be downloaded"
	[ -n "$version" ] || version=$(dpkg-deb -f "$(ls "$cache"/debs/"$p"_*.deb | head -1)" Version)
done
deb() { ls "$cache"/debs/"$1"_*.deb | head -1; }

key=$( { echo "$version"; cat "$0"; for p in $user busybox-static libc6; do dpkg-query -W "$p"; done; } | sha256sum | cut -c1-16)
out=$cache/$key
if [ -e "$out/complete" ]; then
	echo "$out"
	exit 0
fi
rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d "$cache/work.XXXXXX")
trap 'rm -rf "$work"' EXIT

# ---- kernel: the ELF image inside the bzImage boots twice as fast (no xz under emulation) ----
say "unpacking kernel $version"
mkdir "$work/img" "$work/hdr" "$work/src"
dpkg-deb -x "$(deb "linux-image-$kabi")" "$work/img"
bz=$work/img/boot/vmlinuz-$kabi
setup=$(od -An -tu1 -j497 -N1 "$bz" | tr -d ' ') # boot protocol: setup_sects, payload_offset, payload_length
[ "$setup" != 0 ] || setup=4
read -r off len < <(od -An -tu4 -j584 -N8 "$bz")
tail -c +$(((setup + 1) * 512 + off + 1)) "$bz" | head -c "$len" | xz -dc --single-stream >"$out/vmlinux" 2>/dev/null || true
[ "$(head -c 4 "$out/vmlinux" | tail -c 3)" = ELF ] || cp "$bz" "$out/vmlinux"

# ---- siw with knobs ----
say "building siw"
for p in "linux-headers-$kabi" "linux-headers-${kabi%-amd64}-common" "linux-kbuild-$series" linux-compiler-gcc-12-x86; do
	dpkg-deb -x "$(deb "$p")" "$work/hdr"
done
hdr=$work/hdr/usr/src/linux-headers-$kabi
sed -i "s#include /usr/src/#include $work/hdr/usr/src/#" "$hdr/Makefile"
siw=$work/src/linux-source-$series/drivers/infiniband/sw/siw
dpkg-deb --fsys-tarfile "$(deb "linux-source-$series")" | tar -xO "./usr/src/linux-source-$series.tar.xz" | xz -dc -T2 |
	tar -x -C "$work/src" "linux-source-$series/drivers/infiniband/sw/siw"
knobs="zcopy_tx try_gso loopback_enabled mpa_crc_required mpa_crc_strict siw_tcp_nagle peer_to_peer"
for k in $knobs; do
	sed -i "s/^const bool $k\b/bool $k/" "$siw/siw_main.c"
	sed -i "s/^extern const bool $k;/extern bool $k;/" "$siw/siw.h"
	echo "module_param($k, bool, 0644);" >>"$siw/siw_main.c"
done
echo 'module_param(mpa_version, byte, 0644);' >>"$siw/siw_main.c"
echo 'module_param(rtr_type, ushort, 0644); /* big-endian bits: 64 Read, 128 Write */' >>"$siw/siw_cm.c"
make -s -C "$hdr" M="$siw" CONFIG_RDMA_SIW=m modules >"$cache/siw.log" 2>&1 || { tail -20 "$cache/siw.log" >&2; exit 1; }

# ---- root file system ----
root=$work/root
mkdir -p "$root"/{bin,usr/bin,usr/lib/x86_64-linux-gnu/libibverbs,lib64,etc/libibverbs.d,proc,sys,dev,tmp,run,modules}
cp /usr/bin/busybox /bin/busybox "$root/bin/busybox" 2>/dev/null || cp "$(command -v busybox)" "$root/bin/busybox"
for a in $("$root/bin/busybox" --list); do
	case $a in busybox | ip | ss | tc) ;; *) ln -sf busybox "$root/bin/$a" ;; esac
done
libs=/lib/x86_64-linux-gnu/libgcc_s.so.1 # opened by pthread_exit
take() { # a program or library, remembering what it needs
	cp -L "$1" "$2"
	libs="$libs $(ldd "$1" | grep -oE '/[^ ]+\.so[^ ]*' || true)"
}
for b in rping rdma_client rdma_server ucmatose ibv_devinfo rdma ip ss tc \
	 ib_write_bw ib_send_bw ib_read_bw ib_write_lat ib_send_lat ib_read_lat; do
	take "$(PATH=$PATH:/sbin:/usr/sbin command -v $b)" "$root/usr/bin/$b"
done
for driver in siw rxe; do # rxe: for the benchmark's rivals
	to=usr/lib/x86_64-linux-gnu/libibverbs
	take "$(ls /$to/lib$driver-rdmav*.so | head -1)" "$root/$to/"
	echo "driver $driver" >"$root/etc/libibverbs.d/$driver.driver"
done
for l in $(printf '%s\n' $libs | sort -u); do
	mkdir -p "$root$(dirname "$l")"
	cp -Lf "$l" "$root$l"
done
printf '/lib/x86_64-linux-gnu\n/usr/lib/x86_64-linux-gnu\n' >"$root/etc/ld.so.conf"
/sbin/ldconfig -r "$root" 2>/dev/null || true
echo 'root:x:0:0:root:/:/bin/sh' >"$root/etc/passwd"
echo 'hosts: files' >"$root/etc/nsswitch.conf"

# ---- modules, what they depend on first; some may be built in ----
declare -A seen
add() {
	local f d
	f=$(find "$work/img/lib/modules" -name "$(echo "$1" | sed 's/[-_]/[-_]/g').ko" | head -1)
	[ -n "$f" ] && [ -z "${seen[$f]:-}" ] || return 0
	seen[$f]=1
	for d in $(objcopy -O binary --only-section=.modinfo "$f" /dev/stdout | tr '\0' '\n' | sed -n 's/^depends=//p' | tr , ' '); do
		add "$d"
	done
	cp "$f" "$root/modules/"
	basename "$f" >>"$root/modules/order"
}
for m in virtio_pci virtio_net crc32c_generic crc32c_intel libcrc32c ib_core iw_cm rdma_cm ib_uverbs rdma_ucm \
	 crc32_generic crc32_pclmul rdma_rxe sch_netem sch_ingress cls_matchall cls_u32 act_mirred act_gact ifb; do
	add $m
done
cp "$siw/siw.ko" "$root/modules/"
echo siw.ko >>"$root/modules/order"
strip --strip-debug "$root"/modules/*.ko
(cd "$root" && find . | LC_ALL=C sort | busybox cpio -o -H newc -R 0:0 2>/dev/null) >"$out/base.cpio"
touch "$out/complete"
# caches of other versions
for d in "$cache"/????????????????; do [ "$d" = "$out" ] || rm -rf "$d"; done
echo "$out"
