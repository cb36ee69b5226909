# SPDX-License-Identifier: BSD-3-Clause
"""
For tests of ports: network namespaces with a tap or a veth pair, a daemon with one port, and waiting for a condition.
"""
import contextlib
import ctypes
import os
import subprocess
import threading
import time

from rig import PATIENCE, Daemon, Skip, need

OURS, KERNEL = "10.79.0.2", "10.79.0.1"


def sh(*argv, check=True):
    return subprocess.run(argv, check=check, capture_output=True, text=True, timeout=PATIENCE)


@contextlib.contextmanager
def netns(which=""):
    need("ip")
    if os.geteuid() != 0:
        raise Skip("needs root for a network namespace")
    name = f"rnic-{os.getpid()}{which}"
    sh("ip", "netns", "add", name)
    try:
        sh("ip", "-n", name, "link", "set", "lo", "up")
        yield name
    finally:
        sh("ip", "netns", "del", name, check=False)


class In:
    """Runs functions in a thread that has entered a network namespace, so that their sockets belong to it."""

    def __init__(self, ns):
        self.ns = ns

    def run(self, f):
        result = []

        def work():
            fd = os.open(f"/run/netns/{self.ns}", os.O_RDONLY)
            try:
                if ctypes.CDLL(None, use_errno=True).setns(fd, 0x40000000) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
                result.append(f())
            except BaseException as e:  # pylint: disable=broad-except
                result.append(e)
            finally:
                os.close(fd)

        t = threading.Thread(target=work)
        t.start()
        t.join(PATIENCE)
        assert result, "the process in the namespace does not answer"
        if isinstance(result[0], BaseException):
            raise result[0]
        return result[0]


def conf(device, extra="", rnicd=""):
    return f"""
[rnicd]
socket = {{dir}}/rnicd.sock
hugepages = no
{rnicd}
[port a]
device = {device}
address = {OURS}/24
{extra}
"""


@contextlib.contextmanager
def tap(extra="", rnicd=""):
    """A daemon with a tap in a namespace of its own; the kernel's end of the tap has an address and is up."""
    with netns() as ns:
        if not os.path.exists("/dev/net/tun"):
            raise Skip("this kernel has no tun device")
        with Daemon(conf("tap:rt0", extra, rnicd), netns=ns) as d:
            sh("ip", "-n", ns, "addr", "add", f"{KERNEL}/24", "dev", "rt0")
            sh("ip", "-n", ns, "link", "set", "rt0", "up")
            yield ns, d


def ping(ns, *args, patience=PATIENCE):
    return sh("ip", "netns", "exec", ns, "ping", "-i", "0.05", "-W", str(patience), *args, OURS, check=False)


@contextlib.contextmanager
def veth(mtu=1500):
    with netns() as ns:
        sh("ip", "-n", ns, "link", "add", "v0", "type", "veth", "peer", "name", "v1")
        for dev in ("v0", "v1"):
            sh("ip", "-n", ns, "link", "set", dev, "mtu", str(mtu), "up")
        yield ns


@contextlib.contextmanager
def two_hosts(a, b):
    """Two network namespaces, joined by a veth pair (MTU 1500): the first one has address a, the other one b."""
    with veth() as ns, netns("-b") as other:
        sh("ip", "-n", ns, "link", "set", "v1", "netns", other)
        for where, dev, addr in ((ns, "v0", a), (other, "v1", b)):
            sh("ip", "-n", where, "addr", "add", f"{addr}/24", "dev", dev)
            sh("ip", "-n", where, "link", "set", dev, "up")
        yield ns, other


def wait_for(what, text):
    """Waits until what() is true; fails with `text` after a time that only a hang takes."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if what():
            return
        time.sleep(0.02)
    raise AssertionError(f"has not happened in time: {text}")


def said(d, text):
    return sum(text in line for line in list(d.err))


def wait_said(d, text, n=1):
    wait_for(lambda: said(d, text) == n, f"{n} times '{text}'\n{d.tail()}")
