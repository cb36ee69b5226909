# SPDX-License-Identifier: BSD-3-Clause
"""Programs over `rnicrun --sockets` beside those on the kernel's sockets, and what they leave behind."""
import contextlib
import json
import os
import sys

from rig import PATIENCE, RNICRUN, until
from sock_raw import Raw


def ours(d, *argv, netns=None):
    pre = ["ip", "netns", "exec", netns] if netns else []
    return d.run(*pre, RNICRUN, "--sockets", *argv)


def kernels(d, *argv, netns):
    return d.run("ip", "netns", "exec", netns, *argv)


def python(text, *argv):
    return [sys.executable, "-c", text, *[str(a) for a in argv]]


def port_of(p):
    return int(p.wait_line("listening").split()[1])


def descriptors(d):
    return len(os.listdir(f"/proc/{d.pid}/fd"))


@contextlib.contextmanager
def nothing_left(d):
    """What the daemon has beyond its clients is what it had before, after the first socket of a user."""
    with Raw(d.sock) as r:
        r.join()
    before = until(lambda: descriptors(d))
    yield
    until(lambda: descriptors(d) <= before, lambda: f"{descriptors(d)} descriptors, {before} before")


def lines(p):
    return {n: r for n, r in map(json.loads, p.ok(4 * PATIENCE).splitlines())}
