# SPDX-License-Identifier: BSD-3-Clause
"""Runs embedded programs on the host as an ordinary user; stands in for a daemon in tests that run both."""
import os
import shutil
import signal
import stat
import tempfile

import nets
import programs
from rig import RNICRUN, Process, host_ports

NOBODY = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]


def open_to_all(path):
    """Whether every user may enter all folders above the path."""
    while path != "/":
        path = os.path.dirname(path)
        if not os.stat(path).st_mode & stat.S_IXOTH:
            return False
    return True


def in_netns(ns, *argv, **env):
    """Starts a program in a network namespace; no daemon is found there unless RNICD_SOCKET names it."""
    env = {"RNICD_SOCKET": "/nonexistent", "RNIC_REG_VERBOSE": "0", **env}
    return Process(["ip", "netns", "exec", ns, *argv], env=dict(os.environ, **env), name=argv[0])


def listens(ns, port):
    return lambda: f":{port} " in nets.sh("ip", "netns", "exec", ns, "ss", "-Hltn").stdout


class Host:
    """Offers the methods that the functions of programs.py call on a Daemon, without a daemon."""

    def __init__(self):
        programs.own_network()
        self.dir = tempfile.mkdtemp(prefix="rnic-test-")
        os.chmod(self.dir, 0o777)
        self.children = []

    @staticmethod
    def env(**more):
        return {**os.environ, "RNICD_SOCKET": "/nonexistent", "RNIC_EMBEDDED": "yes", **more}

    def run(self, *argv, **env):
        argv = list(argv)
        user = NOBODY if open_to_all(RNICRUN) else []
        if argv[0] == RNICRUN:
            argv[1:1] = ["--embedded"]
        p = Process(user + argv, env=self.env(**env), name=argv[-1])
        self.children.append(p)
        return p

    def telemetry(self, _):
        """The listeners of the kernel, in the form in which rnicd's telemetry lists those of its devices."""
        return [f"host {port}" for port in host_ports()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for c in self.children:
            c.stop(signal.SIGKILL)
        shutil.rmtree(self.dir, ignore_errors=True)
