# SPDX-License-Identifier: BSD-3-Clause
"""
The ends between which the programs of this folder run: both over rnicd, or one of them on the kernel's sockets behind a
tap.
"""
import contextlib
import filecmp
import os
import subprocess
import tempfile

from nets import KERNEL, OURS, netns, tap
from rig import PATIENCE, RNICRUN, Daemon, Process, pair_conf, until
from sock_rig import kernels, ours

A, B = "10.77.0.1", "10.77.0.2"
LONG = 300  # seconds: a hang


@contextlib.contextmanager
def folder():
    """A folder that programs of another user may read."""
    with tempfile.TemporaryDirectory() as where:
        os.chmod(where, 0o755)
        yield where


class Ends:
    """server(), client(): start a program at that end, as Process. at, peer: the addresses of the server and the
    client. sockets(): the sockets at the server's end, as ss prints them."""

    def __init__(self, d, server, client, at, peer, ss):
        self.d, self.server, self.client, self.at, self.peer, self.ss = d, server, client, at, peer, ss

    def sockets(self):
        env = self.d.env() if self.d else None
        return subprocess.run(self.ss, env=env, capture_output=True, text=True, check=True,
                              timeout=PATIENCE).stdout

    def serves(self, port):
        """Waits until a program at the server's end has a socket at this port."""
        until(lambda: f":{port} " in self.sockets(), lambda: f"no socket at port {port}: {self.sockets()}")


@contextlib.contextmanager
def both_ends_ours(conf=pair_conf(rnicd="socket-mode = 0666")):
    with Daemon(conf) as d:
        os.chmod(os.path.dirname(d.sock), 0o755)
        yield Ends(d, lambda *a: ours(d, *a), lambda *a: ours(d, *a), A, B, [RNICRUN, "--ss"])


@contextlib.contextmanager
def tapped():
    with tap() as (ns, d):
        os.chmod(os.path.dirname(d.sock), 0o755)  # servers that switch to another user must still reach the socket
        os.chmod(d.sock, 0o666)
        yield ns, d


@contextlib.contextmanager
def a_kernels_client():
    with tapped() as (ns, d):
        yield Ends(d, lambda *a: ours(d, *a, netns=ns), lambda *a: kernels(d, *a, netns=ns), OURS, KERNEL,
                   [RNICRUN, "--ss"])


@contextlib.contextmanager
def a_kernels_server():
    with tapped() as (ns, d):
        yield Ends(d, lambda *a: kernels(d, *a, netns=ns), lambda *a: ours(d, *a, netns=ns), KERNEL, OURS,
                   ["ip", "netns", "exec", ns, "ss", "-tuan"])


@contextlib.contextmanager
def the_kernel():
    """Both ends on the kernel's sockets, for comparison."""
    with netns() as ns:
        run = lambda *a: Process(["ip", "netns", "exec", ns, *a])
        yield Ends(None, run, run, "127.0.0.1", "127.0.0.1", ["ip", "netns", "exec", ns, "ss", "-tuan"])


def write(path, size):
    with open(path, "wb") as f:
        f.write(os.urandom(size))


def same(a, b):
    assert filecmp.cmp(a, b, shallow=False), f"{a} and {b} differ"


def answers(client, *ask):
    """Runs the client until a server answers; returns the first successful client's output."""
    def there():
        p = client(*ask)
        return p if p.wait() == 0 else None
    return until(there, f"no answer: {ask}").stdout()


EACH = both_ends_ours, a_kernels_client, a_kernels_server


def on_each(f, all_ends=EACH):
    """Runs f(ends, folder) with each of these kinds of ends."""
    for ends in all_ends:
        with ends() as e, folder() as where:
            f(e, where)


def on_both(f):
    """Runs f twice: with both ends over rnicd, and with the client on the kernel's sockets."""
    on_each(lambda e, where: f(e.server, e.client, e.at, where), (both_ends_ours, a_kernels_client))
