#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Installation. The Debian packages are built from the committed tree, then installed, used and removed in a copy of this
machine's root file system (an overlay; nothing outside it changes), in namespaces of their own. `meson install` puts
everything under its prefix, and `ninja uninstall` removes all of it.
"""
import glob
import json
import os
import re
import subprocess
import tempfile

from rig import BUILD, Skip, case, installing, main, need

SOURCE = os.environ["RNIC_SOURCE"]
HANG = 3000  # seconds; a step that takes longer counts as a hang

# Makes $1 a root file system: this machine's, with an overlay in memory for what is written. The mounts vanish with the
# namespace.
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
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                       timeout=HANG, check=False, **more)
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
    """The value of a build option of meson."""
    options = json.loads(run("meson", "introspect", "--buildoptions", BUILD))
    return next(o["value"] for o in options if o["name"] == name)


@case
def meson_install_puts_all_in_place_and_uninstall_leaves_nothing():
    prefix, libdir = option("prefix"), option("libdir")
    with tempfile.TemporaryDirectory(prefix="rnic-dest-") as dest, installing(dest):
        for path in ("sbin/rnicd", "bin/rnicrun", "bin/rnicctl", "bin/testpmd-rdma", "include/rnic/rnic.h",
                     "include/rnic/rnicdv.h", "include/rnic/esock.h", libdir + "/librnic.so",
                     "share/man/man3/esock.h.3", "include/rnic/sock.h", "share/man/man3/sock.h.3",
                     "share/bash-completion/completions/rnicctl", "share/zsh/site-functions/_rnicrun",
                     "lib/systemd/system/rnicd@.service", "lib/systemd/system/rnicd-unprivileged@.service",
                     libdir + "/pkgconfig/rnic.pc", "share/man/man8/rnicd.8", "share/doc/rnicd/examples/pair.conf"):
            assert os.path.exists(dest + os.path.join(prefix, path)), path
        with open(f"{dest}{prefix}/lib/systemd/system/rnicd.service", encoding="utf-8") as f:
            assert f"ExecStart={prefix}/sbin/rnicd " in f.read()
        run("ninja", "-C", BUILD, "uninstall", env=dict(os.environ, DESTDIR=dest))
        left = [os.path.join(d, f) for d, _, files in os.walk(dest) for f in files]
        assert not left, left


COMPLETE = """
. "$1"
COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2))
"_${2//-/_}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def offers(name, *words):
    """The words that bash offers as completions of the last word on a program's command line."""
    return set(run("bash", "-c", COMPLETE, "bash", os.path.join(BUILD, "doc", name), name, *words).split())


@case
def no_sentence_is_a_heading_of_a_man_page():
    pages = glob.glob(os.path.join(BUILD, "doc", "*.[1-9]"))
    if not pages:
        raise Skip("a build with sanitizers writes no man pages")
    for page in pages:
        with open(page, encoding="utf-8") as f:
            heads = re.findall(r"^\.SH (.*)$", f.read(), re.M)
        assert heads and not [h for h in heads if re.search(r"[.:;]", h) or len(h) > 40], (page, heads)


@case
def shells_complete_every_option_that_help_names():
    for name in ("rnicd", "rnicrun", "rnicctl", "testpmd-rdma"):
        said = run(os.path.join(BUILD, "app", name, name), "--help")
        told = set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", said, re.M))
        file = os.path.join(BUILD, "doc", name)
        if not os.path.exists(file):
            raise Skip("a build with sanitizers writes no completions")
        assert offers(name, "--") == told and len(told) > 5, (name, offers(name, "--") ^ told)
        with open(os.path.join(BUILD, "doc", "_" + name), encoding="utf-8") as f:
            zsh = f.read()
        assert all(f"{o}[" in zsh or o + "}" in zsh for o in told), (name, zsh)


@case
def shells_complete_every_command_that_help_names():
    """Commands are completed as the first word that is no option, and their fixed arguments behind them."""
    if not os.path.exists(os.path.join(BUILD, "doc", "rnicctl")):
        raise Skip("a build with sanitizers writes no completions")
    said = run(os.path.join(BUILD, "app", "rnicctl", "rnicctl"), "--help")
    lines = said.split("\nCOMMANDS\n")[1].split("\nOPTIONS\n")[0]
    told = {line.split()[0] for line in lines.splitlines() if re.match("  [a-z]", line)}
    assert offers("rnicctl", "") == told and {"inject", "status", "drop-client"} < told, offers("rnicctl", "") ^ told
    assert offers("rnicctl", "--socket", "s", "-j", "inj") == {"inject"} and offers("rnicctl", "cou") == {"counters"}
    assert offers("rnicctl", "inject", "") == offers("rnicctl", "set", "port", "") == set()
    assert offers("rnicctl", "set", "") == {"port", "log-level"}
    with open(os.path.join(BUILD, "doc", "_rnicctl"), encoding="utf-8") as f:
        zsh = f.read()
    assert all(f' {c}\\:"' in zsh or f'({c}\\:"' in zsh for c in told), zsh


@case
def a_release_is_made_of_what_is_committed_and_says_what_it_needs():
    need("git")
    if not os.path.exists(os.path.join(SOURCE, ".git")):
        raise Skip("a release is made from a git checkout")
    with tempfile.TemporaryDirectory(prefix="rnic-dist-") as out:
        clone, script = os.path.join(out, "clone"), os.path.join(out, "clone", "scripts", "dist.sh")
        run("git", "clone", "--quiet", SOURCE, clone)
        run(script, BUILD, out)
        run("sha256sum", "--check", "SHA256SUMS", cwd=out)
        run("tar", "-xf", glob.glob(out + "/rnic-*.tar.xz")[0], "-C", out)
        unpacked = glob.glob(out + "/rnic-*/")[0]
        assert not os.path.exists(unpacked + ".git") and "project('rnic'" in run("cat", unpacked + "meson.build")
        commit = run("git", "-C", clone, "rev-parse", "HEAD")[:12]
        assert run("sh", unpacked + "scripts/commit.sh", "7.8.9").strip() == f"7.8.9 (commit {commit})"
        with open(glob.glob(out + "/rnic-*.spdx.json")[0], encoding="utf-8") as f:
            spdx = json.load(f)
        names = {p["name"]: p["versionInfo"] for p in spdx["packages"]}
        assert spdx["spdxVersion"] == "SPDX-2.3" and {"rnic", "libc6", "libnuma1", "libjansson4"} <= set(names), names
        assert any(n.startswith("librte-eal") for n in names) and all(names.values()), names
        with open(os.path.join(clone, "README.md"), "a", encoding="utf-8") as f:
            f.write("changed")
        p = subprocess.run([script, BUILD, out], capture_output=True, text=True, timeout=HANG, check=False)
        assert p.returncode == 1 and "not committed" in p.stderr, p.stderr


main()
