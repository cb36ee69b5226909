# SPDX-License-Identifier: BSD-3-Clause
"""Runs programs over `rnicrun --embedded --sockets`, and finds the process that serves their sockets."""
import os
import sys

from host_rig import NOBODY, open_to_all
from rig import RNICRUN, Process

AT = "127.0.0.1"

# Sends five bytes and ends.
BRIEF = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as c:
    c.sendall(b"brief")
"""


def embedded(*argv, wire_of="iwarp", own=False, before=(), **env):
    """
    Runs a program as an ordinary user, if such a user can reach the build and Python; own: as this user. before: a
    command that runs the rest.
    """
    env = {**os.environ, "RNICD_SOCKET": "/nonexistent", **env}
    env.pop("RNIC_WIRE", None)
    if wire_of:
        env["RNIC_WIRE"] = wire_of
    user = NOBODY if not own and open_to_all(RNICRUN) and open_to_all(os.path.realpath(sys.executable)) else []
    return Process([*before, *user, RNICRUN, "--embedded", "--sockets", *argv], env=env, name=argv[-1][:30])


def serving(p):
    """The process number of the one that serves the sockets of a program that rnicrun runs; None: there is none."""
    with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
        for pid in f.read().split():
            with open(f"/proc/{pid}/comm", encoding="ascii") as name:
                if name.read() == "rnic-sockets\n":
                    return int(pid)
    return None


def control_socket(p):
    """The control socket of the process that serves the sockets of a program."""
    pid = Process(["pgrep", "-P", str(p.pid), "python3"]).ok()
    with open(f"/proc/{pid}/environ", "rb") as f:
        return dict(x.split(b"=", 1) for x in f.read().split(b"\0") if x)[b"RNICD_SOCKET"].decode()


def wait_for(b, what):
    while not what():
        b.get()
        b.credit_if_due()
