#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Installing. The Debian packages are built from the committed tree, then installed, used and removed in a copy of this
machine's root file system (an overlay; nothing outside it changes), in namespaces of their own. `meson install` puts
everything under its prefix and `ninja uninstall` takes everything away.
"""
import glob
import json
import os
import subprocess
import tempfile

from rig import BUILD, Skip, case, main, need

SOURCE = os.environ["RNIC_SOURCE"]
HANG = 900  # seconds: what takes longer hangs

# A root file system in $1: this machine's, and what is written goes to memory. Mounts vanish with the namespace.
ENTER = """
set -eu
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o lowerdir=/,upperdir="$1/upper",workdir="$1/work" "$1/root"
mkdir "$1/root/packages"
cp "$2"/*.deb "$3" "$4" "$1/root/packages/"
for d in proc sys dev; do mount --rbind /$d "$1/root/$d"; done
mount -t tmpfs none "$1/root/run"
exec chroot "$1/root" sh /packages/in_root.sh
"""


def run(*argv, **more):
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=HANG, check=False, **more)
    assert p.returncode == 0, f"{argv[:4]} ended with {p.returncode}:\n{p.stdout[-4000:]}"
    return p.stdout


def need_overlay():
    with open("/proc/filesystems", encoding="ascii") as f:
        if os.geteuid() != 0 or "overlay" not in f.read():
            raise Skip("needs root and a kernel with overlayfs")


@case
def debian_packages_are_clean_install_work_and_leave_nothing():
    for program in ("dh", "lintian", "dpkg-buildpackage", "unshare"):
        need(program)
    if not os.path.exists(os.path.join(SOURCE, ".git")):
        raise Skip("packages are made from a git checkout")
    need_overlay()
    with tempfile.TemporaryDirectory(prefix="rnic-deb-") as out, tempfile.TemporaryDirectory(prefix="rnic-root-") as root:
        run(os.path.join(SOURCE, "scripts", "deb.sh"), out)
        names = {os.path.basename(p).split("_")[0] for p in glob.glob(out + "/*.deb") if "-dbgsym" not in p}
        assert names == {"rnicd", "librnic0", "librnic-dev", "rnicrun", "testpmd-rdma"}, names
        for extra in glob.glob(out + "/*-dbgsym*"):
            os.unlink(extra)
        said = run("unshare", "--mount", "--net", "--pid", "--fork", "sh", "-c", ENTER, "sh", root, out,
                   os.path.join(SOURCE, "test", "packaging", "in_root.sh"), os.path.join(SOURCE, "examples", "hello.c"))
        done = [line[6:] for line in said.splitlines() if line.startswith("done: ")]
        assert done == ["install", "man pages", "daemon", "measured Write", "program of one's own", "removal"], said


def option(name):
    """A build option of meson."""
    options = json.loads(run("meson", "introspect", "--buildoptions", BUILD))
    return next(o["value"] for o in options if o["name"] == name)


@case
def meson_install_puts_all_in_place_and_uninstall_leaves_nothing():
    prefix, libdir = option("prefix"), option("libdir")
    with tempfile.TemporaryDirectory(prefix="rnic-dest-") as dest:
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", dest)
        for path in ("sbin/rnicd", "bin/rnicrun", "bin/rnicctl", "bin/testpmd-rdma", "include/rnic/rnic.h",
                     "include/rnic/rnicdv.h", libdir + "/librnic.so",
                     libdir + "/pkgconfig/rnic.pc", "share/man/man8/rnicd.8", "share/doc/rnicd/examples/pair.conf"):
            assert os.path.exists(dest + os.path.join(prefix, path)), path
        with open(f"{dest}{prefix}/lib/systemd/system/rnicd.service", encoding="utf-8") as f:
            assert f"ExecStart={prefix}/sbin/rnicd " in f.read()
        run("ninja", "-C", BUILD, "uninstall", env=dict(os.environ, DESTDIR=dest))
        left = [os.path.join(d, f) for d, _, files in os.walk(dest) for f in files]
        assert not left, left


main()
