#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
systemd's units. No systemd runs here: a unit's restrictions are compared with the actions of a daemon. The daemon gets
the unit's capabilities and its view of /proc and /sys; all its system calls are traced while clients of another user
work.
"""
import contextlib
import os
import re
import subprocess
import sys
import tempfile

from nets import netns, sh
from rig import BUILD, TESTPMD, Daemon, Skip, case, helper, main, need, on_ordinary_pages, pair_conf

UNITS = ("rnicd.service", "rnicd@.service", "rnicd-unprivileged@.service")
EXPOSURE = 30  # highest permitted exposure in tenths; systemd's scale ends at 100
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
# not traced, since there are millions of these calls; the filter must contain them
OFTEN = {"sched_yield", "clock_nanosleep", "futex"}
NAMESPACES = re.compile(r"\b(?:unshare|setns)\(|CLONE_NEW")
WRITABLE_CODE = re.compile(r"PROT_WRITE\|PROT_EXEC|mprotect\([^)]*PROT_EXEC|SHM_EXEC")
# What DPDK tries when it starts, and can do without: I/O ports, the CPU's clock rate, DMA engines.
TRIED = re.compile(r"iopl\(|\"/dev/cpu/0/msr\"|\"/dev/dsa\"")
CALL = re.compile(r"^\d+ +(\w+)\(")
# allowed by every unit
PSEUDO = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"}

# appended to the configuration of a pair of ports
KERNEL = """
[port t]
device = tap:rt0
address = 10.79.1.1/24
[port v]
device = af_packet:v0
address = 10.79.2.1/24
"""

# Shows /proc and /sys as ProtectProc=invisible and ProtectKernelTunables=yes do.
VIEW = 'mount -t proc -o hidepid=2 none /proc; mount -o remount,ro,bind /sys; exec "$@"'


def unit(name):
    """The [Service] section of a unit: each key's values, in order."""
    keys = {}
    with open(os.path.join(BUILD, "config", name), encoding="utf-8") as f:
        for key, value in re.findall(r"^(\w+)=(.*)$", f.read().split("[Service]")[1].split("[Install]")[0], re.M):
            keys.setdefault(key, []).append(value)
    return keys


def filter_of(group):
    """The system calls of one of systemd's groups of calls."""
    calls = set()
    for word in sh("systemd-analyze", "--no-pager", "syscall-filter", group).stdout.split("\n")[1:]:
        word = word.strip()
        if word.startswith("@"):
            calls |= filter_of(word)
        elif word and not word.startswith("#"):
            calls.add(word)
    return calls


def denied(keys, trace, rundir):
    """The lines of the trace that show an action that the unit does not allow."""
    (group,) = keys["SystemCallFilter"]
    calls, families = filter_of(group), set(keys["RestrictAddressFamilies"][0].split())
    devices = PSEUDO | {d.split()[0] for d in keys.get("DeviceAllow", [])}
    assert OFTEN < calls and len(trace) > 1000, len(trace)
    wrong = []
    for line in trace:
        call = CALL.match(line)
        if call is None:  # not a call: a signal, an exit, or the end of an interrupted call
            continue
        family = re.search(r" socket(?:pair)?\((AF_\w+)", line)
        opened = re.search(r" open(?:at)?\((?:AT_FDCWD, )?\"([^\"]+)\", ([\w|]+)", line)
        bad = call.group(1) not in calls or NAMESPACES.search(line) or WRITABLE_CODE.search(line)
        bad = bad or (family and family.group(1) not in families)
        if opened:
            path, flags = opened.groups()
            device = path.startswith("/dev/") and not path.startswith(("/dev/shm", "/dev/hugepages"))
            bad = bad or (device and path not in devices) or "O_CREAT" in flags and not path.startswith(rundir)
        if bad and not TRIED.search(line):
            wrong.append(line)
    return wrong


@contextlib.contextmanager
def confined(name, conf, as_user=(), ns=None):
    """A traced daemon with the restrictions of a unit, and a function that returns the trace."""
    for program in ("strace", "setpriv", "unshare", "systemd-analyze"):
        need(program)
    if os.geteuid() != 0:
        raise Skip("needs root for the view of /proc")
    keys = unit(name)
    caps = [c.replace("CAP_", "+").lower() for c in " ".join(keys["CapabilityBoundingSet"]).split()]
    rights = ["--no-new-privs", "--bounding-set", ",".join(["-all", *caps]), "--inh-caps=-all"]
    with tempfile.TemporaryDirectory(prefix="rnic-unit-") as rundir:
        os.chmod(rundir, 0o777)
        trace = os.path.join(rundir, "trace")
        under = ["unshare", "--mount", "sh", "-euc", VIEW, "sh", "setpriv", *rights, *as_user,
                 "env", f"RUNTIME_DIRECTORY={rundir}", "strace", "-D", "-f", "-qq", "-s", "256", "-o", trace,
                 "-e", "trace=!" + ",".join(sorted(OFTEN))]
        d = Daemon(conf.replace("{dir}", rundir), netns=ns, under=under)
        d.sock = os.path.join(rundir, "rnicd.sock")

        def traced():
            with open(trace, encoding="utf-8", errors="replace") as f:
                return f.read().splitlines()
        with d:
            yield d, lambda: denied(keys, traced(), rundir)


def a_write(d, *user):
    server = d.run(*user, TESTPMD, "-s", "-a", "10.77.0.2", "--once")
    server.wait_line("listening")
    d.run(*user, TESTPMD, "-m", "write_bw", "-S", "64k", "-n", "100", "10.77.0.2").ok()
    server.ok()


@case
def units_are_as_systemd_wants_them():
    """systemd's verifier wants the started program to be installed, so another program stands in for it."""
    need("systemd-analyze")
    with tempfile.TemporaryDirectory(prefix="rnic-unit-") as folder:
        names = []
        for name in UNITS:
            with open(os.path.join(BUILD, "config", name), encoding="utf-8") as f:
                text = f.read()
            (program,) = re.findall(r"^ExecStart=(\S+/sbin/rnicd) ", text, re.M)
            names.append(os.path.join(folder, name.replace("@", "@one")))
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write(text.replace(program, "/bin/true"))
            sh("systemd-analyze", "--no-pager", "security", "--offline=true", f"--threshold={EXPOSURE}",
               os.path.join(folder, name))
        p = sh("systemd-analyze", "verify", *names)
        assert p.stdout + p.stderr == "", p
        assert "--config /etc/rnicd/%i.conf --socket /run/rnicd-%i/rnicd.sock" in text


@case
def the_units_allow_the_devices_of_a_nic():
    """vfio's groups have a major number of their own; its container is a miscellaneous device."""
    for name in ("rnicd.service", "rnicd@.service"):
        assert {"/dev/vfio/vfio rw", "char-vfio rw"} <= set(unit(name)["DeviceAllow"]), name


@case
def the_daemon_does_nothing_that_its_unit_denies():
    """
    The daemon has ports of each kind that needs rights, and registers memory that a client of another user shares.
    """
    with netns() as ns:
        if not os.path.exists("/dev/net/tun"):
            raise Skip("this kernel has no tun device")
        sh("ip", "-n", ns, "link", "add", "v0", "type", "veth", "peer", "name", "v1")
        sh("ip", "-n", ns, "link", "set", "v0", "up")
        sh("ip", "-n", ns, "link", "set", "v1", "up")
        with confined("rnicd.service", on_ordinary_pages(pair_conf()) + KERNEL, ns=ns) as (d, wrong):
            a_write(d, *NOBODY)
            for user in (NOBODY, ()):
                d.run(*user, helper("mem_cases"), "10.77.0.1", "10.77.0.2", "memory_that_others_share").ok()
            d.run(os.path.join(BUILD, "app", "rnicctl", "rnicctl"), "status").ok()
            assert wrong() == [], "\n".join(wrong()[:20])


@case
def an_unprivileged_daemon_does_nothing_that_its_unit_denies():
    with confined("rnicd-unprivileged@.service", on_ordinary_pages(pair_conf()), NOBODY[1:]) as (d, wrong):
        a_write(d)
        a_write(d, *NOBODY)
        assert wrong() == [], "\n".join(wrong()[:20])


if __name__ == "__main__":
    sys.exit(main())
